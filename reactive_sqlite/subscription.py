"""One subscriber: what it has not been told yet, and how it is told."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from reactivex import abc

from reactive_sqlite.equality import same_value
from reactive_sqlite.signals.external import tracking
from reactive_sqlite.signals.owner import untrack

NOTHING: Any = object()

Report = Callable[[BaseException], None]


class Subscription(abc.DisposableBase):
    """Holds the newest value that its subscriber has not been told, and tells it in turn.

    A value that was overtaken before its turn is skipped: commits merge for a slow subscriber.
    With `every`, none is skipped. Values are posted in commit order, by whoever holds the
    connection's lock; one thread at a time hands them out, without any lock of the database.
    """

    __slots__ = (
        *("_closing", "_completed", "_error", "_every", "_handing", "_last", "_next"),
        *("_on_dispose", "_pending", "_report", "_scheduler", "awaits_first", "disposed"),
    )

    def __init__(
        self,
        on_next: Callable[[Any], object] | None,
        on_error: Callable[[Exception], object] | None,
        on_completed: Callable[[], object] | None,
        *,
        scheduler: abc.SchedulerBase | None,
        report: Report,
        on_dispose: Callable[[Subscription], None],
        every: bool = False,
    ) -> None:
        self._next = on_next
        self._error = on_error
        self._completed = on_completed
        self._scheduler = scheduler
        self._report = report
        self._on_dispose = on_dispose
        self._every = every
        self._pending: list[Any] | deque[Any] = deque() if every else []
        self._handing = threading.Lock()
        self._last: Any = NOTHING
        self._closing: Any = NOTHING
        self.awaits_first = True
        self.disposed = False

    def post(self, value: Any) -> None:
        """Give it the newest value."""
        self._pending.append(value)

    def begin(self, value: Any, *, skip: bool) -> None:
        """Give it the value it starts from; told at once unless `skip`."""
        self.awaits_first = False
        if skip:
            self._last = value
        else:
            self._pending.append(value)

    def end(self, error: BaseException | None = None) -> None:
        """Complete it, or end it with an error, after what is still pending."""
        self._closing = error

    def drain(self) -> None:
        """Hand out what is pending, on the scheduler where there is one."""
        if self._scheduler is None:
            self._drain()
            return
        try:
            self._scheduler.schedule(self._scheduled)
        except Exception as error:
            self._report(error)  # the subscriber's scheduler is as much its own as its callback

    def dispose(self) -> None:
        """Stop: nothing more is told, not even what is pending."""
        if not self.disposed:
            self.disposed = True
            self._on_dispose(self)

    def _scheduled(self, scheduler: abc.SchedulerBase, state: Any = None) -> None:
        self._drain()

    def _drain(self) -> None:
        # Asked again after letting go: what was posted in between found the lock still taken.
        while (self._pending or self._closing is not NOTHING) and not self.disposed:
            if not self._handing.acquire(False):
                return  # the thread at it, or the callback we are in, takes the rest along
            try:
                self._hand_out()
            finally:
                self._handing.release()

    def _hand_out(self) -> None:
        pending = self._pending
        while not self.disposed:
            if not pending:
                if self._closing is not NOTHING:
                    self._finish(self._closing)
                return
            if isinstance(pending, deque):
                self._tell(pending.popleft())
                continue
            count = len(pending)
            value = pending[count - 1]
            del pending[:count]  # what another thread posts meanwhile stays
            if count == 1 or self._last is NOTHING or not same_value(self._last, value):
                self._tell(value)

    def _tell(self, value: Any) -> None:
        self._last = value
        on_next = self._next
        if on_next is None:
            return
        try:
            if tracking():
                untrack(lambda: on_next(value))
            else:
                on_next(value)
        except Exception as error:
            self._raised(error)

    def _raised(self, error: Exception) -> None:
        """The subscriber itself raised: its own on_error hears of it, and it lives on."""
        handler = self._error
        if handler is None or isinstance(getattr(handler, "__self__", None), abc.ObserverBase):
            # The observer of an operator chain has already closed itself and would swallow it.
            self._report(error)
        else:
            self._guarded(handler, error)

    def _finish(self, error: BaseException | None) -> None:
        self.dispose()
        if error is None:
            if self._completed is not None:
                self._guarded(self._completed)
        elif self._error is None or not isinstance(error, Exception):
            self._report(error)
        else:
            self._guarded(self._error, error)

    def _guarded(self, handler: Callable[..., object], *args: Any) -> None:
        try:
            untrack(lambda: handler(*args))
        except Exception as error:
            self._report(error)
