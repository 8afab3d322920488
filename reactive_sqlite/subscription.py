"""One subscriber: what it has not been told yet, and how it is told."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from reactivex import abc

from reactive_sqlite.equality import same_value
from reactive_sqlite.signals.external import tracking
from reactive_sqlite.signals.owner import untrack
from reactive_sqlite.signals.state import STATE

NOTHING: Any = object()
_NOT_YET: tuple[int, Any] = (0, NOTHING)

Report = Callable[[BaseException], None]

# Held for a test and a mark only. One for all: a lock in each of thousands would be memory.
_taking = threading.RLock()


class Owner(Protocol):
    """Whose subscriber it is, and who hears that it has left."""

    def left(self, subscription: Subscription, /) -> None: ...


class Subscription(abc.DisposableBase):
    """Holds the newest value that its subscriber has not been told, and tells it in turn.

    A value that was overtaken before its turn is skipped: commits merge for a slow subscriber.
    With `every`, none is skipped. Values are posted in commit order, by whoever holds the
    connection's lock; one thread at a time hands them out, without any lock of the database.
    """

    __slots__ = (
        *("_closing", "_completed", "_error", "_every", "_handing", "_newest", "_next"),
        *("_owner", "_report", "_scheduler", "_told", "awaits_first", "disposed"),
    )

    def __init__(
        self,
        on_next: Callable[[Any], object] | None,
        on_error: Callable[[Exception], object] | None,
        on_completed: Callable[[], object] | None,
        *,
        scheduler: abc.SchedulerBase | None,
        report: Report,
        owner: Owner,
        every: bool = False,
    ) -> None:
        self._next = on_next
        self._error = on_error
        self._completed = on_completed
        self._scheduler = scheduler
        self._report = report
        self._owner = owner
        # Numbered, so that a value which overtook another can be told from one that did not. Only
        # who posts writes `_newest`, only who hands out writes `_told`; pending is what differs.
        self._newest = self._told = _NOT_YET
        self._every: deque[Any] | None = deque() if every else None
        self._handing = False
        self._closing: Any = NOTHING
        self.awaits_first = True
        self.disposed = False

    def post(self, value: Any) -> None:
        """Give it the newest value."""
        if self._every is None:
            self._newest = self._newest[0] + 1, value
        else:
            self._every.append(value)

    def begin(self, value: Any, *, skip: bool) -> None:
        """Give it the value it starts from; told at once unless `skip`."""
        self.awaits_first = False
        self.post(value)
        if skip:
            self._told = self._newest

    def end(self, error: BaseException | None = None) -> None:
        """Complete it, or end it with an error, after what is still pending."""
        self._closing = error

    def drain(self) -> None:
        """Hand out what is pending, on the scheduler where there is one."""
        if self._scheduler is None:
            self._drain()
            return
        if self.disposed:
            return
        try:
            self._scheduler.schedule(self._scheduled)
        except Exception as error:
            if not self.disposed:  # meanwhile, and its scheduler after it
                self._report(error)  # a subscriber's scheduler is as much its own as its callback

    def dispose(self) -> None:
        """Stop: nothing more is told, not even what is pending."""
        if not self.disposed:
            self.disposed = True
            self._owner.left(self)

    def _scheduled(self, scheduler: abc.SchedulerBase, state: Any = None) -> None:
        self._drain()

    def _drain(self) -> None:
        # Asked again after letting go: what was posted in between found it still taken.
        while not self.disposed and (
            self._newest is not self._told or self._every or self._closing is not NOTHING
        ):
            with _taking:
                if self._handing:
                    return  # the thread at it, or the callback we are in, takes the rest along
                self._handing = True
            try:
                self._hand_out()
            finally:
                self._handing = False

    def _hand_out(self) -> None:
        while not self.disposed:
            newest, told = self._newest, self._told
            if self._every:
                value = self._every.popleft()
            elif newest is not told:
                self._told = newest
                number, value = newest
                last = told[1]
                if number > told[0] + 1 and last is not NOTHING and same_value(last, value):
                    continue
            else:
                if self._closing is not NOTHING:
                    self._finish(self._closing)
                return
            on_next = self._next
            if on_next is None:
                continue
            try:
                if (STATE.recorder is not None or STATE.others) and tracking():
                    untrack(partial(on_next, value))
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
