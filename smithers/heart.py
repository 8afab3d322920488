"""A heart: a thread that has something renewed again and again, for as long as it is there."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from typing import Protocol

from reactive_sqlite.dialect import sqlite3
from reactive_sqlite.errors import ReactiveError


class Beating(Protocol):
    """What a heart beats for; the heart does not keep it alive."""

    def beat(self) -> None:
        """Renew what would expire."""
        ...


class Heart:
    """Beats until it is stopped, or what it beats for is collected or closed.

    Args:
        name: of the thread.
        pause: seconds between two beats.
        retry: seconds after a beat that could not be written: locked for longer than the handle
            waits, or the disk is full. What is renewed may expire then; whoever writes below it
            has to find that out.
    """

    def __init__(
        self, name: str, *, pause: Callable[[], float], retry: Callable[[], float]
    ) -> None:
        self._name = name
        self._pause = pause
        self._retry = retry
        self._thread: threading.Thread | None = None
        # Not an Event: a collection may put something here in the midst of any line, this one too.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    def start(self, owner: Beating) -> None:
        """Beat for something, unless that is done already."""
        if self._thread is not None and self._thread.is_alive():
            return
        # What woke an earlier thread for the last time must not stop this one.
        wake = self._wake = queue.SimpleQueue()
        # Collected without being closed, it wakes the thread, which then finds nothing.
        known = weakref.ref(owner, lambda _: wake.put(None))
        self._thread = threading.Thread(
            target=_beat, args=(known, wake, self._pause, self._retry), name=self._name, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stand still."""
        self._thread = None
        self._wake.put(None)


def _beat(
    known: Callable[[], Beating | None],
    wake: queue.SimpleQueue[None],
    pause: Callable[[], float],
    retry: Callable[[], float],
) -> None:
    seconds = pause()
    while not _woken(wake, seconds):
        owner = known()
        if owner is None:
            return
        try:
            owner.beat()
            seconds = pause()
        except ReactiveError:
            return  # closed, or its file was replaced
        except sqlite3.Error:
            seconds = retry()
        del owner


def _woken(wake: queue.SimpleQueue[None], timeout: float) -> bool:
    try:
        wake.get(timeout=timeout)
    except queue.Empty:
        return False
    return True
