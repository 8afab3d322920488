"""One run of a coroutine, and whether what it has read has changed since it read it.

As an asynchronous effect it is stepped by hand, so that its reads count across every await, and
those of tasks that it starts do not. Unlike one it is never cancelled by a change and never runs
again: somebody else decides what a change means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from threading import get_ident
from typing import Any, Generic, TypeVar, cast

from .async_effect import AsyncEffect
from .owner import one_error, release_owned
from .scheduler import call_watchers, report, settle_now
from .state import MISSING, STATE, Held

T = TypeVar("T")


class WatchedRun(AsyncEffect, Generic[T]):
    """A coroutine that begins to run at once, in a task of its own.

    Await `result()` for what it returns or raises. What it read is followed until `dispose`.

    Example:
        >>> run = WatchedRun(body)
        >>> await run.result()
        >>> if run.changed():
        ...     print("what it has read is not any more what it was")
    """

    __slots__ = ("_altered", "_leaving", "outcome")

    def __init__(self, fn: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._altered: asyncio.Event | None = None
        self._leaving: BaseException | None = None
        super().__init__(fn, MISSING, None)

    async def result(self) -> T:
        """Wait for the end; a cancellation of the caller is one of the run."""
        value = await self.outcome
        if self._leaving is not None:
            raise self._leaving
        return cast(T, value)

    def changed(self) -> bool:
        """Tell whether anything it has read has changed since it was read."""
        with STATE.lock:
            different = not self._unchanged()
            if STATE.wrote and get_ident() not in STATE.held:  # memos that were run for it
                STATE.wrote = False
                if STATE.queue or STATE.inbox:
                    settle_now([], report)
        if STATE.flips:
            call_watchers()
        return different

    async def wait_changed(self) -> None:
        """Wait until something it has read has changed since it was read."""
        self._altered = asyncio.Event()
        while not self.changed():
            await self._altered.wait()
            self._altered.clear()

    def run(self, me: int, changes: Held | None) -> Exception | None:
        """Take note of a change; the lock is held once."""
        self.own = self.stale = False
        if not self.waking:
            self.waking = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self.loop.call_soon_threadsafe(self._wake)
        return None

    def _begin(self) -> None:
        self.running = get_ident()
        self.outcome: asyncio.Task[T | None] = asyncio.Task(self._whole())
        self.task = self.outcome  # type: ignore[assignment]
        self.outcome.add_done_callback(self._ended)

    async def _whole(self) -> T | None:
        fn = self.fn
        if fn is None:
            raise asyncio.CancelledError
        try:
            value: T = await self._drive(fn())
        except (KeyboardInterrupt, SystemExit) as error:
            # From a task they would end the loop at once, past everybody who awaits this.
            self._leaving = error
            return None
        return value

    def _wake(self) -> None:
        self.waking = False
        if self._altered is not None:
            self._altered.set()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        with STATE.lock:
            self.running = 0
            self.task = None
            ended = self.fn is None
        if ended:
            errors = release_owned(self)
            if errors:
                self._complain(one_error(errors, "cleanups failed"), "a run's cleanup failed")
        if STATE.flips:
            call_watchers()
