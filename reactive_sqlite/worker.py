"""One thread on which the calls of an asynchronous face run, in the order they were made."""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from reactive_sqlite.errors import DatabaseClosed
from reactive_sqlite.forks import ELSEWHERE, is_of_this_process
from reactive_sqlite.mailbox import mailbox
from reactive_sqlite.signals.external import Run, current_run

if TYPE_CHECKING:
    import asyncio

P = ParamSpec("P")
R = TypeVar("R")


_caused_by: contextvars.ContextVar[Run | None] = contextvars.ContextVar("caused_by", default=None)


def causing_run() -> Run | None:
    """Return the async effect on whose behalf this job runs, or None."""
    return _caused_by.get()


class Worker:
    """Runs jobs one at a time on a thread of its own.

    A job whose awaiter is cancelled before it starts never starts; one that has started always
    finishes, so that nothing is ever done by half.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._gate = threading.Lock()  # puts submissions and close() in one order
        self._given = self._done = 0  # jobs; each counted by one thread at a time
        self._closed = False
        self._reason = "the database is closed"
        # The loop that asked last, and how it is answered: one value, since other loops ask too.
        self._way: tuple[asyncio.AbstractEventLoop | None, Callable[..., object]] = (None, post)
        is_of_this_process(self)
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `fn` on the worker's thread, in a copy of this context, and return its result.

        Raises:
            DatabaseClosed: the worker was closed.
            RuntimeError: no asyncio event loop is running (under trio there is none).
        """
        loop = running_loop()
        known, answer = self._way
        if loop is not known and not self._closed:
            _, answer = self._way = (loop, _way_to(loop))
        future: asyncio.Future[R] = loop.create_future()
        context = contextvars.copy_context()
        # In the copy only: what the caller starts afterwards is not this effect's doing.
        if (cause := current_run()) is not _caused_by.get():
            context.run(_caused_by.set, cause)

        def job() -> None:
            if future.cancelled():
                self._done += 1
                return
            try:
                result = context.run(fn, *args, **kwargs)
            except BaseException as error:
                self._done += 1
                answer(_fail, future, error)
            else:
                # Before the awaiter hears of it: its next call finds nothing in the way.
                self._done += 1
                answer(_finish, future, result)

        self._put(job)
        return await future

    def submit(self, job: Callable[[], None]) -> None:
        """Queue a job that reports by itself, and do not wait for it."""

        def counted() -> None:
            try:
                job()
            finally:
                self._done += 1

        self._put(counted)

    @property
    def idle(self) -> bool:
        """Whether every job that was queued so far has been done."""
        return self._given == self._done

    def _put(self, job: Callable[[], None]) -> None:
        with self._gate:
            if self._closed:
                raise DatabaseClosed(self._reason)
            self._given += 1
            self._jobs.put(job)

    def close(self) -> None:
        """Accept no more jobs; the thread ends after those already queued."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._way = (None, post)  # nobody is answered who asks from here on

    def abandon(self) -> None:
        """Be closed in this process, which was forked from the one that has the thread."""
        self._gate = threading.Lock()
        if not self._closed:
            self._closed, self._reason = True, ELSEWHERE

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            # What the job holds must not live until the next one comes.
            del job


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop of asyncio.

    Raises:
        RuntimeError: none is running.
    """
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "this needs a running asyncio event loop; there is none here"
            " (trio has its own kind: use asyncio, or anyio's asyncio backend)"
        ) from None


def post(loop: asyncio.AbstractEventLoop, fn: Callable[..., object], *args: Any) -> None:
    """Call `fn` on the loop's thread at its next turn; when the loop is closed, nobody is left
    to hear of it."""
    try:
        loop.call_soon_threadsafe(fn, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _way_to(loop: asyncio.AbstractEventLoop) -> Callable[..., object]:
    box = mailbox(loop)
    return functools.partial(post, loop) if box is None else box.put


def _finish(future: asyncio.Future[R], result: R) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration):  # a Future refuses to carry one
        wrapped = RuntimeError("the job raised StopIteration")
        wrapped.__cause__ = error
        error = wrapped
    future.set_exception(error)
