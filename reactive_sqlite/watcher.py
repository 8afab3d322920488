"""Notices the commits of other processes, and that the file is another one or gone.

File events only wake. Whether something was committed is asked of the main connection (`check`),
several times after each event, since in WAL mode the event comes before the commit can be read; and
once a second without any event, since some file systems report none.

A watcher never opens the database, its -wal or its -shm file: closing such a descriptor would drop
the locks that SQLite holds in this process.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from reactive_sqlite.wakeups import InotifyWakeup, TimerWakeup, Wakeup, WatchfilesWakeup

T = TypeVar("T")
Backend = Literal["auto", "inotify", "watchfiles", "poll"]
Identity = tuple[int, int]

# The best first.
BACKENDS = ("inotify", "watchfiles", "poll")

logger = logging.getLogger("reactive_sqlite")

# Not -shm: readers write it too, our own among them.
SUFFIXES = ("", "-wal", "-journal")

# A missing file may be one half of a rename by two steps: look again before saying so.
SECOND_LOOK = 0.005
# After so many events in a row that led to nothing, they are taken for those of our own commits.
FRUITLESS = 3
# `close` waits for a callback under way, but not for ever: it may itself be waiting for the caller.
LONGEST_JOIN = 1.0


class Watcher:
    """Watch the file of a database from a thread of its own.

    Args:
        path: the file, which has to exist (else FileNotFoundError).
        check: asks whether something new was committed, and delivers it; True when so. It may be
            slow and may raise.
        replaced: told, with a reason, when the file at `path` is another one or gone; that ends the
            watching. When it raises it is told again, at the latest after `poll_interval`.
        failed: told of what `check` or `replaced` raises, once for a failure that lasts; the
            watching goes on.
        backend: the source of file events to begin with. One that does not work here is replaced
            by the next of inotify, watchfiles, poll; by what is watched then is logged, once.
            `auto` begins with the best.
        poll_interval: seconds between two looks without any event.
        identity: of the file that was opened, as `identity_of` tells it; by default of the one
            that is at `path` now.
        name: the thread's name.

    `check`, `replaced` and `failed` are called on the watcher's thread.
    """

    def __init__(
        self,
        path: str,
        *,
        check: Callable[[], bool],
        replaced: Callable[[str], None],
        failed: Callable[[BaseException], None],
        backend: Backend = "auto",
        poll_interval: float = 1.0,
        identity: Identity | None = None,
        name: str = "reactive_sqlite watcher",
    ) -> None:
        self._path = os.path.abspath(path)
        self._identity = identity or identity_of(self._path)
        # SQLite keeps the -wal beside the file that a symbolic link leads to.
        self._directory, base = os.path.split(os.path.realpath(self._path))
        self._names = frozenset(base + suffix for suffix in SUFFIXES)
        self._check = check
        self._replaced = replaced
        self._failed = failed
        self._poll_interval = poll_interval
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._fruitless = 0
        self._told: tuple[type[BaseException], str] | None = None
        self._readable = True
        self._taken = True
        self._refusals: list[Exception] = []
        if backend == "auto":
            backend = "inotify" if sys.platform == "linux" else "watchfiles"
        self._wakeup = self._first_of(BACKENDS[BACKENDS.index(backend) :])

    @property
    def backend(self) -> str:
        """The source of file events in use: `inotify`, `watchfiles` or `poll`."""
        return self._wakeup.name

    def start(self) -> None:
        """Begin to watch; what was committed before is found as well. Once only."""
        self._thread.start()

    def close(self) -> None:
        """Stop watching and release all descriptors; may be called from anywhere, and again.

        Waits for the thread, unless this is that thread. A `check` under way is given a second; it
        may be waiting for a lock that the caller holds. The thread ends after it in any case.
        """
        self._stopping.set()
        self._wakeup.interrupt()
        if self._thread.is_alive():
            if self._thread is not threading.current_thread():
                self._thread.join(LONGEST_JOIN)
        else:
            # Never started, or left behind by a fork.
            self._wakeup.close()

    def _run(self) -> None:
        try:
            # What was committed between the opening and now has caused no event for us.
            self._look()
            while self._same_file():
                woken = self._wait(self._poll_interval)
                if not woken:
                    self._fruitless = 0
                    woken = self._look()
                while woken and self._same_file():
                    woken = self._follow()
        finally:
            self._wakeup.close()

    def _follow(self) -> bool:
        """Look while what woke us may still become readable; True when that has to begin anew."""
        own = self._fruitless >= FRUITLESS
        looks = self._wakeup.rarely if own else self._wakeup.often
        if own:
            self._wakeup.pause()
        deaf = looks.patience >= looks.moments[-1]
        began = time.monotonic()
        found = False
        for moment in looks.moments:
            left = max(0.0, began + moment - time.monotonic())
            if moment <= looks.patience:
                time.sleep(left)
                # Listening again before the look, so that nothing falls in between.
                if own and not deaf and self._wait(0.0):
                    self._fruitless = 0 if self._look() else FRUITLESS
                    return True
            elif self._wait(left):
                self._fruitless = 0 if found else self._fruitless + 1
                return True
            if self._stopping.is_set():
                return False
            if self._look():
                found = True
                if deaf:
                    # More may follow, and no event would say so in time.
                    self._fruitless = 0
                    return True
        self._fruitless = self._fruitless + 1 if deaf else 0
        return False

    def _look(self) -> bool:
        try:
            found = self._check()
        except BaseException as error:  # whatever it is, it must not end the watching unheard
            # Once for a failure that lasts: it is met again at every look.
            told = (type(error), str(error))
            if told != self._told:
                self._told = told
                self._tell(self._failed, error)
            return False
        self._told = None
        return found

    def _wait(self, seconds: float) -> bool:
        try:
            woken = self._wakeup.wait(seconds)
        except (ImportError, OSError, RuntimeError) as error:
            failed = self._wakeup
            failed.close()
            self._refusals.append(error)
            self._wakeup = self._first_of(_after(failed.name))
            # A `close` that came just now has interrupted the old one.
            if self._stopping.is_set():
                self._wakeup.interrupt()
            return False
        self._say_by_what()
        return woken

    def _first_of(self, backends: Sequence[str]) -> Wakeup:
        """Return the first source of events that can be had."""
        for backend in backends:
            try:
                if backend == "inotify":
                    return InotifyWakeup(self._directory, self._names)
                if backend == "watchfiles":
                    return WatchfilesWakeup(self._directory, self._names)
            except OSError as refusal:
                self._refusals.append(refusal)
        self._say_by_what(TimerWakeup.name)
        return TimerWakeup()

    def _say_by_what(self, backend: str | None = None) -> None:
        # Not before it has worked: what keeps one source of events from us often keeps the next.
        if self._refusals:
            reasons = "; ".join(map(str, self._refusals))
            self._refusals.clear()
            logger.warning(
                "watching %s by %s from now on: %s", self._path, backend or self.backend, reasons
            )

    def _same_file(self) -> bool:
        """Whether to go on; False at the end, and after having told that the file is another."""
        reason = self._difference()
        if reason is not None:
            self._stopping.wait(SECOND_LOOK)
            reason = self._difference()
        if self._stopping.is_set():
            return False
        if reason is None or not self._takes(reason):
            return True
        self._stopping.set()
        return False

    def _takes(self, reason: str) -> bool:
        """Tell that the file is another one, and whether that was taken: a database on which a
        transaction is open cannot be ended now, and must not stay what it is for ever."""
        try:
            self._replaced(reason)
        except Exception as error:
            if self._taken:
                self._taken = False
                self._tell(self._failed, error)
            return False
        return True

    def _difference(self) -> str | None:
        try:
            identity = identity_of(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return f"{self._path} is gone"
        except OSError as error:
            # Unreadable is not gone: the folder's rights may come back.
            if self._readable:
                self._readable = False
                self._tell(self._failed, error)
            return None
        self._readable = True
        return None if identity == self._identity else f"another file is at {self._path} now"

    def _tell(self, listener: Callable[[T], None], what: T) -> None:
        try:
            listener(what)
        except Exception as error:
            threading.excepthook(
                threading.ExceptHookArgs((type(error), error, error.__traceback__, self._thread))
            )


def identity_of(path: str | os.PathLike[str]) -> Identity:
    """Tell which file is at a path, under whatever name; OSError when none is to be seen there."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _after(backend: str) -> Sequence[str]:
    return BACKENDS[BACKENDS.index(backend) + 1 :]
