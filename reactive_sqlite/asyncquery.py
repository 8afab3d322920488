"""An observed query whose work is done on a worker and whose values come on the event loop."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from typing import Any, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from reactive_sqlite.arguments import check_observer
from reactive_sqlite.diff import Diff
from reactive_sqlite.errors import DatabaseClosed, NotReady
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.signals.owner import recording
from reactive_sqlite.waiting import first, newest
from reactive_sqlite.worker import Worker, post, running_loop

T = TypeVar("T")
U = TypeVar("U")


class AsyncObservableQuery(Observable[T]):
    """The asynchronous twin of `ObservableQuery`.

    ``await query`` fetches the current value and follows the query from then on, as long as this
    object lives; ``query()`` then gives the newest value without ever waiting, and subscribes the
    running memo or effect. Before that it raises `NotReady`. Subscribers, effects and ``async for``
    are served on the event loop.

    Example:
        >>> users = db.observe("SELECT name FROM users")
        >>> await users
        >>> create_effect(lambda: print(len(users()), "users"))
        >>> async for rows in users:
        ...     print(rows)
    """

    __iter__ = None

    def __init__(self, worker: Worker, make: Callable[[], ObservableQuery[T]]) -> None:
        super().__init__()
        self._worker = worker
        self._make = make
        self._query: ObservableQuery[T] | None = None
        self._ending: weakref.finalize[..., Any] | None = None  # while it is followed

    def __call__(self) -> T:
        """Return the newest value, and subscribe the running memo or effect to it."""
        return self._ready()()

    def peek(self) -> T:
        """Return the newest value without subscribing anything."""
        return self._ready().peek()

    def subscribe(
        self,
        on_next: abc.ObserverBase[T] | Callable[[T], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        on_completed: Callable[[], object] | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Call `on_next` on the event loop with the current value, then with each change.

        Nothing is called before this returns. An error of the first fetch goes to `on_error`,
        without one to the database's `on_observer_error`. See `ObservableQuery.subscribe`.
        """
        check_observer(on_next, on_error, on_completed, scheduler)
        return subscribed(
            self._worker,
            self.opened,
            on_next,
            on_error,
            on_completed,
            scheduler,
        )

    def _subscribe_core(
        self, observer: abc.ObserverBase[T], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        return self.subscribe(observer, scheduler=scheduler)

    def as_observable(self) -> Observable[T]:
        """Return a plain Observable of the same values, for operators that would take this one,
        being callable, for a function."""
        return Observable(lambda observer, scheduler: self.subscribe(observer, scheduler=scheduler))

    def decoded(self, decode: Callable[[T], U]) -> AsyncObservableQuery[U]:
        """Return the same query with each new value passed through `decode`, on the worker."""
        return AsyncObservableQuery(self._worker, lambda: self.opened().decoded(decode))

    def diffs(self) -> Observable[Diff[Any]]:
        """Emit how each list differs from the one before. See `ObservableQuery.diffs`."""
        return observable(self._worker, lambda: self.opened().diffs())

    async def first(  # type: ignore[override]
        self,
        predicate: Callable[[T], bool] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  (the contract's, as in reactivex)
    ) -> T:
        """Return the first value that satisfies `predicate`, the current one included.

        Args:
            timeout: seconds after which to give up.

        Raises:
            TimeoutError: nothing fitting came in time.
            DatabaseClosed: the database was closed meanwhile.
        """
        return await first(self, predicate, timeout)

    def __await__(self) -> Generator[Any, Any, T]:
        """Await the current value, and follow the query from then on.

        In an asynchronous effect it counts as a read.
        """
        return self._begin().__await__()

    def __aiter__(self) -> AsyncGenerator[T, None]:
        """Yield the current value, then the newest whenever it has changed; end at close()."""
        return newest(self)

    def opened(self) -> ObservableQuery[T]:
        """Return the query itself; on the worker, since opening it asks the compiler."""
        if self._query is None:
            self._query = self._make()
        return self._query

    def release(self) -> None:
        """Follow the query no longer: reading it raises `NotReady` until it is awaited again."""
        ending, self._ending = self._ending, None
        if ending is not None:
            ending()

    async def _begin(self) -> T:
        if self._ending is None:
            holds: list[abc.DisposableBase] = []
            try:
                await self._worker.run(lambda: holds.append(self.opened().hold()))
            except BaseException:
                # Cancelled meanwhile, perhaps: what was begun is ended, whenever that is.
                with suppress(DatabaseClosed):
                    self._worker.submit(lambda: _dispose_all(holds))
                raise
            if self._ending is None:
                self._ending = weakref.finalize(self, _dispose_all, holds)
            else:
                _dispose_all(holds)  # two awaited it at once
        value = await self._worker.run(lambda: self.opened().peek())
        # For the effect that awaits it, it is a read like any other.
        return self._ready()() if recording() and self._is_followed() else value

    def _is_followed(self) -> bool:
        return self._ending is not None

    def _ready(self) -> ObservableQuery[T]:
        if self._query is None or self._ending is None:
            raise NotReady("the query has no value yet: await it first")
        return self._query


def observable(worker: Worker, make: Callable[[], Observable[T]]) -> Observable[T]:
    """Return an Observable that is made and subscribed to on the worker, and told on the loop."""
    return Observable(
        lambda observer, scheduler: subscribed(worker, make, observer, None, None, scheduler)
    )


def subscribed(
    worker: Worker,
    make: Callable[[], Observable[T]],
    on_next: Any,
    on_error: Callable[[Exception], Any] | None,
    on_completed: Callable[[], Any] | None,
    scheduler: abc.SchedulerBase | None,
) -> abc.DisposableBase:
    """Make and subscribe on the worker; the disposable may be used at once."""
    loop = running_loop()
    inner: list[abc.DisposableBase] = []
    over = False

    def begin() -> None:
        if over:
            return
        try:
            inner.append(make().subscribe(on_next, on_error, on_completed, scheduler=scheduler))
        except Exception as error:
            post(loop, fail, error)
            return
        if over:
            inner[0].dispose()

    def fail(error: Exception) -> None:
        handler = getattr(on_next, "on_error", on_error)
        if handler is None:
            raise error
        if not over:
            handler(error)

    def dispose() -> None:
        nonlocal over
        over = True
        if inner:
            inner[0].dispose()

    try:
        worker.submit(begin)
    except DatabaseClosed as error:
        loop.call_soon(fail, error)
    return Disposable(dispose)


def _dispose_all(holds: list[abc.DisposableBase]) -> None:
    for hold in holds:
        hold.dispose()
