"""What may wake a watcher: one class for each source of file events, all with one face."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from reactive_sqlite.inotify import Inotify

if TYPE_CHECKING:
    from watchfiles.main import FileChange

# In milliseconds. `watchfiles` sleeps in steps of this length: it is both the latency of the first
# event and the reciprocal of its wake-ups per second.
STEP = 50


@dataclass(frozen=True, slots=True)
class Looks:
    """When to look after an event, in seconds; another event begins anew, after `patience`."""

    moments: tuple[float, ...]
    patience: float


# In WAL mode the event comes before the commit can be read, by some 0.1 ms, with synchronous=FULL
# by a whole fsync: one look at the event would miss it.
DENSE = Looks((0.0, 1e-4, 2e-4, 4e-4, 7e-4, 1e-3, 1.4e-3, 2e-3, 3e-3, 5e-3, 0.01, 0.03, 0.1), 0.005)
# The same while the events turn out to be those of our own commits: each waking up holds the writer
# up, and where several queries are followed it looks for others' commits itself.
SPARSE = Looks((0.02, 0.05, 0.1), 0.02)
# For a source of events that is itself late: look often, for as long as more may follow.
HOT = Looks(tuple(ms / 1000 for ms in range(101)), 0.1)
LUKEWARM = Looks(tuple(ms / 1000 for ms in range(0, 101, 10)), 0.1)


class Wakeup(Protocol):
    """A source of file events, and how it wants to be followed.

    `wait` and `close` belong to the watching thread, `interrupt` to any. What goes wrong in `wait`
    (OSError, RuntimeError, ImportError) means that this source is of no use here.
    """

    @property
    def name(self) -> str: ...
    @property
    def often(self) -> Looks: ...
    @property
    def rarely(self) -> Looks:
        """The looks while events keep coming and lead to nothing."""
        ...

    def wait(self, seconds: float) -> bool:
        """Block until a file was written (True), until `interrupt`, or for so many seconds."""
        ...

    def pause(self) -> None:
        """Spare the writers the cost of being noticed, until the next `wait`."""
        ...

    def interrupt(self) -> None:
        """End the wait that is under way, or else the next one."""
        ...

    def close(self) -> None: ...


class InotifyWakeup:
    """Wakes within 0.1 ms of the write, and costs nothing in between. Linux only."""

    name = "inotify"
    often = DENSE
    rarely = SPARSE

    def __init__(self, directory: str, names: frozenset[str]) -> None:
        self._names = names | {""}
        self._events = Inotify(directory, names)
        try:
            self._bell, self._rope = os.pipe()
        except OSError:
            self._events.close()
            raise
        os.set_blocking(self._rope, False)
        self._closed = False
        self._lock = threading.Lock()
        self._poll = select.poll()
        self._poll.register(self._events.fileno(), select.POLLIN)
        self._poll.register(self._bell, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        self._events.resume()
        while True:
            # Rounded up: rounded down it would spin through the last millisecond.
            left = max(0.0, deadline - time.monotonic())
            ready = [descriptor for descriptor, _ in self._poll.poll(int(left * 1000 + 0.999))]
            if self._events.fileno() in ready and not self._names.isdisjoint(self._events.names()):
                return True
            if self._bell in ready:
                os.read(self._bell, 512)
                return False
            if time.monotonic() >= deadline:
                return False

    def pause(self) -> None:
        self._events.pause()

    def interrupt(self) -> None:
        # Under the lock, lest the descriptor belong to somebody else by now.
        with self._lock:
            if not self._closed:
                try:
                    os.write(self._rope, b"!")
                except BlockingIOError:
                    return  # the bell is full of rings that nobody has heard yet

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self._events.close()
                os.close(self._bell)
                os.close(self._rope)


class WatchfilesWakeup:
    """Wakes some 70 ms after the write, wherever `watchfiles` works."""

    name = "watchfiles"
    often = HOT
    rarely = LUKEWARM

    def __init__(self, directory: str, names: frozenset[str]) -> None:
        self._directory = directory
        self._names = names
        self._stopped = threading.Event()
        self._changes: Generator[set[FileChange], None, None] | None = None

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        changes = self._opened(seconds)
        while time.monotonic() < deadline and not self._stopped.is_set():
            if any(os.path.basename(path) in self._names for _, path in next(changes, ())):
                return True
        return False

    def pause(self) -> None:
        return  # whoever writes pays nothing for it

    def interrupt(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def _opened(self, seconds: float) -> Generator[set[FileChange], None, None]:
        if self._changes is None:
            # Imported here, in the watching thread, so that opening a database does not wait.
            from watchfiles import watch

            # No filter: what it filters out is not yielded, and would keep us from the safety poll.
            self._changes = watch(
                self._directory,
                watch_filter=None,
                debounce=STEP,
                step=STEP,
                # A quarter of what the watcher always waits: a wait may take so much longer.
                rust_timeout=max(STEP, round(seconds * 250)),
                yield_on_timeout=True,
                recursive=False,
                stop_event=self._stopped,
            )
        return self._changes


class TimerWakeup:
    """Never hears of a write: only the safety poll is left, and looking often after a find."""

    name = "poll"
    often = HOT
    rarely = LUKEWARM

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def wait(self, seconds: float) -> bool:
        self._stopped.wait(seconds)
        return False

    def pause(self) -> None:
        return  # whoever writes pays nothing for it

    def interrupt(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        self._stopped.set()
