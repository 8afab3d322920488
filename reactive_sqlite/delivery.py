"""Telling observers: one delivery at a time, in commit order, outside every database lock."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Protocol

from reactive_sqlite.signals.effect import create_effect
from reactive_sqlite.signals.external import External, Run, flush, publish, tracking
from reactive_sqlite.signals.observer import Effect
from reactive_sqlite.signals.owner import create_root, untrack
from reactive_sqlite.signals.state import STATE
from reactive_sqlite.subscription import Report

# A thread that delivers what others commit may be kept so long before it is relieved.
_PATIENCE_SECONDS = 0.1


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
        self._signals: deque[Run | None] = deque()
        self._queue: deque[tuple[int, Parcel]] = deque()
        self._delivering = threading.Lock()
        self._pulse: tuple[External[int], Effect] | None = None

    def add(self, parcel: Parcel) -> None:
        self._queue.append((get_ident(), parcel))

    def signal(self, cause: Run | None) -> None:
        """Nodes of the signal graph were published; effects may be due."""
        self._signals.append(cause)

    def extend(self, parcels: Iterable[Parcel]) -> None:
        """Queue parcels, in order."""
        me = get_ident()
        for parcel in parcels:
            self._queue.append((me, parcel))

    def first(self, parcel: Parcel) -> None:
        """Hand out what a new subscriber starts from at once, then what is due besides."""
        if self._home is not None:
            self.add(parcel)
        elif self._delivering.acquire(False):
            try:
                parcel.drain()
            finally:
                self._delivering.release()
        else:
            parcel.drain()
        self.run()

    def run(self) -> None:
        """Deliver until nothing is due, unless another thread does or this one is in a callback.

        With a home, deliver there: at once on its thread, else at its next turn.
        """
        if not (self._queue or self._signals):
            return
        if self._home is not None and not self._home.here():
            self._home.post(self.run)
            return
        if self._queue and (STATE.recorder is not None or STATE.others) and tracking():
            # Inside an effect or memo of somebody: told when it has finished, not in its midst.
            self._after_effects()
            return
        while self._queue or self._signals:
            if not self._delivering.acquire(False):
                return  # whoever has it looks again after letting go
            relieved = False
            try:
                queue = self._queue
                if len(queue) == 1 and not self._signals and queue[0][0] == get_ident():
                    queue.popleft()[1].drain()  # nearly always
                else:
                    relieved = self._rounds()
            finally:
                self._delivering.release()
            if relieved:
                threading.Thread(
                    target=self.run, name="reactive-sqlite-delivery", daemon=True
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
                    untrack(self.run)

            self._pulse = node, create_root(lambda _: create_effect(deliver))
        node = self._pulse[0]
        publish([(node, node.value + 1)], self.report)

    def _rounds(self) -> bool:
        """Run what is due; True when the rest is other threads' and long enough has been given."""
        me, until = get_ident(), 0.0
        signals, queue = self._signals, self._queue
        while True:
            if signals:
                flush(self.report, signals.popleft())
                continue
            if not queue:
                return False
            origin, parcel = queue.popleft()
            if origin != me:
                now = time.monotonic()
                until = until or now + _PATIENCE_SECONDS
                if now > until and _relievable():
                    queue.appendleft((origin, parcel))
                    return True
            parcel.drain()


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
