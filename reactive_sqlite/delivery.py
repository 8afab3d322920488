"""Telling observers: one delivery at a time, in commit order, outside every database lock."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from reactivex import abc

from reactive_sqlite.equality import same_value
from reactive_sqlite.signals.effect import create_effect
from reactive_sqlite.signals.external import External, flush, publish, tracking
from reactive_sqlite.signals.observer import Effect
from reactive_sqlite.signals.owner import create_root, untrack

NOTHING: Any = object()
# A thread that delivers what others commit may be kept so long before it is relieved.
_PATIENCE_SECONDS = 0.1

Report = Callable[[BaseException], None]


class Parcel(Protocol):
    """Something that has been given a value and will hand it out when its turn comes."""

    def drain(self) -> None: ...


class Home(Protocol):
    """The one thread on which everybody wants to be told: an event loop's."""

    def here(self) -> bool: ...
    def post(self, fn: Callable[[], None], /) -> None: ...


class Deliveries:
    """The queue of what observers are still to be told.

    The thread that commits delivers, unless another one is at it: then that one goes on. Nothing
    nests: what a callback causes is told after it returned.
    """

    def __init__(self, report: Report, home: Home | None = None) -> None:
        self.report = report
        self._home = home
        self.signals_due = False
        self._queue: deque[tuple[int, Parcel]] = deque()
        self.gate = threading.Lock()
        self._thread = 0
        self._pulse: tuple[External[int], Effect] | None = None

    def add(self, parcel: Parcel) -> None:
        self._queue.append((threading.get_ident(), parcel))

    @property
    def here(self) -> bool:
        """Whether this thread is the one that delivers now."""
        return self._thread == threading.get_ident()

    def first(self, parcel: Parcel) -> None:
        """Hand out what a new subscriber starts from at once, then what is due besides."""
        if self._home is not None:
            self.add(parcel)
        else:
            parcel.drain()
        self.run()

    def run(self) -> None:
        """Deliver until nothing is due, unless another thread does or this one is in a callback.

        With a home, deliver there: at once on its thread, else at its next turn.
        """
        if self._home is None or self._home.here():
            self._run()
        elif self._queue or self.signals_due:
            self._home.post(self._run)

    def _run(self) -> None:
        if not (self._queue or self.signals_due):
            return
        if self._queue and tracking():
            # Inside an effect or memo of somebody: told when it has finished, not in its midst.
            self._after_effects()
            return
        while self._queue or self.signals_due:
            with self.gate:
                if self._thread:
                    return
                self._thread = threading.get_ident()
            try:
                relieved = self._rounds()
            finally:
                self._thread = 0
            if relieved:
                threading.Thread(
                    target=self._run, name="reactive-sqlite-delivery", daemon=True
                ).start()
                return

    def close(self) -> None:
        """Deliver nothing from inside effects any more."""
        if self._pulse is not None:
            self._pulse[1].dispose()
            self._pulse = None

    def _after_effects(self) -> None:
        if self._pulse is None:
            node: External[int] = External(0, name="deliveries")

            def deliver() -> None:
                if node.track() and node.value:
                    untrack(self._run)

            self._pulse = node, create_root(lambda _: create_effect(deliver))
        node = self._pulse[0]
        publish([(node, node.value + 1)], self.report)

    def _rounds(self) -> bool:
        """Run what is due; True when the rest is other threads' and long enough has been given."""
        me, until = threading.get_ident(), time.monotonic() + _PATIENCE_SECONDS
        while True:
            if self.signals_due:
                self.signals_due = False
                flush(self.report)
                continue
            try:
                origin, parcel = self._queue.popleft()
            except IndexError:
                return False
            if origin != me and time.monotonic() > until and _relievable():
                self._queue.appendleft((origin, parcel))
                return True
            parcel.drain()


class Subscription(abc.DisposableBase):
    """One subscriber: holds the newest value it has not been told, and tells it in turn.

    A value that was overtaken before its turn is skipped: commits merge for a slow subscriber.
    With `every`, none is skipped.
    """

    __slots__ = (
        *("_backlog", "_busy", "_closing", "_completed", "_error", "_gate", "_last", "_merged"),
        *("_next", "_on_dispose", "_pending", "_report", "_scheduler", "awaits_first", "disposed"),
    )

    def __init__(
        self,
        on_next: Callable[[Any], object] | None,
        on_error: Callable[[Exception], object] | None,
        on_completed: Callable[[], object] | None,
        *,
        scheduler: abc.SchedulerBase | None,
        report: Report,
        gate: threading.Lock,
        on_dispose: Callable[[Subscription], None],
        every: bool = False,
    ) -> None:
        self._next = on_next
        self._error = on_error
        self._completed = on_completed
        self._scheduler = scheduler
        self._report = report
        self._gate = gate  # shared by all subscriptions of a database: held for a few assignments
        self._on_dispose = on_dispose
        self._pending: Any = NOTHING
        self._backlog: deque[Any] | None = deque() if every else None
        self._last: Any = NOTHING
        self._closing: Any = NOTHING
        self._merged = False
        self._busy = False
        self.awaits_first = True
        self.disposed = False

    def post(self, value: Any) -> None:
        """Give it the newest value; called in commit order."""
        if self._backlog is not None:
            self._backlog.append(value)
            return
        with self._gate:
            self._merged = self._merged or self._pending is not NOTHING
            self._pending = value

    def begin(self, value: Any, *, skip: bool) -> None:
        """Give it the value it starts from; told at once unless `skip`."""
        self.awaits_first = False
        if skip:
            self._last = value
        else:
            self.post(value)

    def end(self, error: BaseException | None = None) -> None:
        """Complete it, or end it with an error, after what is still pending."""
        with self._gate:
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

    def _scheduled(self, scheduler: abc.SchedulerBase, state: Any = None) -> None:
        self._drain()

    def _drain(self) -> None:
        with self._gate:
            if self._busy:
                return  # the thread at it (or the callback we are in) takes the rest along
            self._busy = True
        try:
            while True:
                with self._gate:
                    if self._backlog is not None:
                        value = self._backlog.popleft() if self._backlog else NOTHING
                    else:
                        value, self._pending = self._pending, NOTHING
                    closing = self._closing
                    if self.disposed or (value is NOTHING and closing is NOTHING):
                        self._busy = False
                        return
                if value is not NOTHING:
                    self._tell(value)
                else:
                    self._finish(closing)
        except BaseException:
            self._busy = False
            raise

    def _tell(self, value: Any) -> None:
        merged, self._merged = self._merged, False
        if merged and self._last is not NOTHING and same_value(self._last, value):
            return
        self._last = value
        if self._next is None:
            return
        try:
            _untracked(self._next, value)
        except Exception as error:
            self._raised(error)

    def _raised(self, error: Exception) -> None:
        """The subscriber itself raised: its own on_error hears of it, and it lives on."""
        handler = self._error
        if handler is None or isinstance(getattr(handler, "__self__", None), abc.ObserverBase):
            # The observer of an operator chain has already closed itself and would swallow it.
            self._report(error)
            return
        try:
            _untracked(handler, error)
        except Exception as second:
            self._report(second)

    def _fail(self, error: BaseException) -> None:
        """End with an error."""
        self.dispose()
        if self._error is None or not isinstance(error, Exception):
            self._report(error)
            return
        try:
            _untracked(self._error, error)
        except Exception as second:
            self._report(second)

    def _finish(self, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)
            return
        self.dispose()
        if self._completed is not None:
            try:
                _untracked(self._completed)
            except Exception as raised:
                self._report(raised)

    def dispose(self) -> None:
        """Stop: nothing more is told, not even what is pending."""
        if not self.disposed:
            self.disposed = True
            self._on_dispose(self)


def default_report(error: BaseException) -> None:
    """Give an error that has no caller to the running loop's handler, else to the thread's hook."""
    import asyncio

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        thread = threading.current_thread()
        threading.excepthook(
            threading.ExceptHookArgs((type(error), error, error.__traceback__, thread))
        )
        return
    loop.call_exception_handler({"message": "an observer of a database failed", "exception": error})


def _relievable() -> bool:
    # A relief thread cannot be started while the interpreter shuts down.
    return threading.main_thread().is_alive()


def _untracked(fn: Callable[..., object], *args: Any) -> None:
    if tracking():
        untrack(lambda: fn(*args))
    else:
        fn(*args)
