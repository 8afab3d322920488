"""`db.triggers`, awaited; handlers are called on the event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Literal, TypeVar

from reactivex.abc import DisposableBase

from reactive_sqlite.asyncquery import AsyncObservableQuery
from reactive_sqlite.dialect import locked_elsewhere, sqlite3
from reactive_sqlite.errors import DatabaseClosed
from reactive_sqlite.face import AsyncFace, awaited
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.worker import Worker, post, running_loop
from smithers.aio.twins import twin
from smithers.deliveries import RECHECK, Call, Failed, Outcome, Parameters, Registration
from smithers.records import Transition
from smithers.registry import ANY, check_callable
from smithers.triggers import Triggers

H = TypeVar("H", bound=Callable[[Any], Any])
R = TypeVar("R")


class AsyncTriggers(AsyncFace[Triggers]):
    """`db.triggers` of an asynchronous database. See `Triggers`.

    Handlers may be asynchronous or not; both are called on the event loop, those of one trigger one
    after the other, those of different triggers side by side.
    """

    def __init__(self, sync: Triggers, worker: Worker) -> None:
        super().__init__(sync, worker)
        self._registry = sync.registry

    list = awaited(Triggers.list)
    dead = awaited(Triggers.dead)
    retry = awaited(Triggers.retry)
    drop = awaited(Triggers.drop)

    @twin(Triggers.on)
    def on(
        self,
        key: str,
        *,
        to: Any = ANY,
        when: Callable[[Transition], Any] | None = None,
        name: str,
        start: Literal["now", "beginning"] = "now",
        retries: int = 5,
    ) -> Callable[[H], H]:
        make = self._registry.on_key(key, to=to, when=when, name=name, start=start, retries=retries)

        def decorate(handler: H) -> H:
            self._add(make(handler))
            return handler

        return decorate

    @twin(Triggers.on_query)
    def on_query(
        self, sql: str, params: Parameters = (), *, name: str, retries: int = 5
    ) -> Callable[[H], H]:
        make = self._registry.on_query(sql, params, name=name, retries=retries)

        def decorate(handler: H) -> H:
            self._add(make(handler))
            return handler

        return decorate

    @twin(Triggers.deliver)
    async def deliver(self) -> int:
        await self._worker.run(self._check)
        until = await self._worker.run(self._registry.rows.newest)
        counts = await _side_by_side(
            self._deliver(trigger, until) for trigger in self._registry.all()
        )
        return sum(count for count, _ in counts)

    async def deliver_forever(self) -> None:
        """Handle changes as they are made, in whatever process; return at `close`.

        The triggers are this handle's until it returns or its task is cancelled.

        >>> await db.triggers.deliver_forever()
        """
        await self._worker.run(self._check)
        changed = asyncio.Event()
        loop = running_loop()
        tasks: dict[str, asyncio.Task[None]] = {}
        with self._registry.listening(lambda: post(loop, changed.set)):
            try:
                while not self._registry.closed:
                    changed.clear()
                    self._registry.check_refused()
                    for trigger in self._registry.all():
                        if trigger.name not in tasks:
                            tasks[trigger.name] = asyncio.create_task(self._handle(trigger))
                    if await _first_of(changed, tasks.values()):
                        return
            finally:
                await _end(tasks.values())
                with suppress(DatabaseClosed):
                    await _surely(self._worker, self._give_back)

    def _add(self, trigger: Registration) -> None:
        registry = self._registry
        check_callable(trigger.handler, "a handler")
        registry.add(trigger)
        try:
            self._worker.submit(lambda: registry.register_later(trigger))
        except BaseException:
            registry.remove(trigger.name)
            raise

    def _check(self) -> None:
        self._registry.check_deliverable()
        self._registry.check_refused()

    def _give_back(self) -> None:
        for trigger in self._registry.all():
            self._registry.claims.release(trigger.name)

    async def _handle(self, trigger: Registration) -> None:
        """Deliver to one trigger until the database is closed."""
        due = _Due(self._worker)
        registry = self._registry
        try:
            while True:
                due.clear()
                due.follow("signals", registry.rows.observe_signals)
                due.follow("changes", lambda: registry.observe(trigger))
                try:
                    _, pause = await self._deliver(trigger)
                except sqlite3.OperationalError as error:
                    if not locked_elsewhere(error):
                        raise
                    pause = RECHECK
                await due.wait(pause)
        except DatabaseClosed:
            return
        finally:
            due.dispose()

    async def _deliver(
        self, trigger: Registration, until: int | None = None
    ) -> tuple[int, float | None]:
        """Deliver to one trigger: for ever, which keeps it, or until some transition."""
        registry = self._registry
        if not registry.enter(trigger.name):
            return 0, RECHECK
        try:
            delivery = registry.delivery(trigger, until)

            def close() -> None:
                delivery.close()
                if until is not None:
                    registry.claims.release(trigger.name)

            try:
                call = await self._worker.run(delivery.next)
                while call is not None:
                    outcome = await _outcome(call)
                    # What was done is noted, also when that is awaited by nobody any more.
                    call = await _surely(self._worker, partial(delivery.next, outcome))
                return delivery.count, delivery.pause
            finally:
                await _surely(self._worker, close)
        finally:
            registry.leave(trigger.name)


class _Due:
    """Waits for what makes a trigger due, on the event loop."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._changed = asyncio.Event()
        self._followed: dict[str, DisposableBase] = {}

    def clear(self) -> None:
        self._changed.clear()

    def follow(self, name: str, observe: Callable[[], ObservableQuery[Any]]) -> None:
        """Be woken by a query; anew where it has ended with an error."""
        if name in self._followed:
            return

        def ended(_: Exception) -> None:
            self._followed.pop(name, None)
            self._changed.set()

        query = AsyncObservableQuery(self._worker, observe)
        self._followed[name] = query.subscribe(
            lambda _: self._changed.set(), ended, self._changed.set
        )

    async def wait(self, pause: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._changed.wait()

    def dispose(self) -> None:
        for subscription in self._followed.values():
            subscription.dispose()


async def _outcome(call: Call) -> Outcome:
    """Call a handler, in a context that nothing it starts outlives."""
    context = copy_context()
    try:
        if not call.wanted(context):
            return "skipped"
        answer = call.begin(context)
        if inspect.isawaitable(answer):
            await _within(context, answer)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return Failed(error)  # of something that the handler awaited
    except Exception as error:
        return Failed(error)
    return "handled"


async def _within(context: Context, answer: Awaitable[R]) -> R:
    async def awaiting() -> R:
        return await answer

    return await asyncio.create_task(awaiting(), context=context)


async def _side_by_side(coroutines: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await _end(tasks)


async def _first_of(changed: asyncio.Event, tasks: Iterable[asyncio.Task[None]]) -> bool:
    """Wait for an event or the end of a task; tell whether one has ended, raise its error."""
    waiting = asyncio.create_task(changed.wait())
    try:
        done, _ = await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end([waiting])
    ended = done - {waiting}
    for task in ended:
        task.result()
    return bool(ended)


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their ends."""
    listed = [*tasks]
    for task in listed:
        task.cancel()
    await asyncio.gather(*listed, return_exceptions=True)


async def _surely(worker: Worker, call: Callable[[], R]) -> R:
    """Have a call made on the worker even when nobody awaits it any more."""
    task = asyncio.create_task(worker.run(call))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_left)
        raise


def _left(task: asyncio.Task[Any]) -> None:
    """Report what went wrong in a call that nobody awaits any more."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, DatabaseClosed):
        message = "what a trigger has handled could not be noted"
        task.get_loop().call_exception_handler({"message": message, "exception": error})
