"""Who may use the connection: one thread at a time, and the one inside the open transaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from threading import get_ident

# How often a waiting thread looks whether the one it waits for is still alive.
_LOOK_SECONDS = 0.05


class Turnstile:
    """A reentrant lock, held for single statements, and the owner of the open transaction.

    The two are apart so that a thread which ends inside its transaction leaves no lock behind,
    and so that the owner can be asked for without waiting.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.owner = 0
        self.acquire_now = (lock := threading.RLock()).acquire
        self.release = lock.release
        # For want of a public name; `threading.Condition` asks by this one.
        self.is_held_here: Callable[[], bool] = vars(type(lock))["_is_owned"].__get__(lock)
        self._ended = threading.Condition(lock)
        self._owner_thread: threading.Thread | None = None

    def acquire(self) -> bool:
        """Take the lock; False when it was not to be had in time."""
        # Asked without a time limit first: that is faster, and nearly always granted.
        return self.acquire_now(False) or self.acquire_now(timeout=self.timeout)

    def try_acquire(self) -> bool:
        """Take the lock if nobody else is at it, nor inside a transaction."""
        if not self.acquire_now(False):
            return False
        if self.owner and self.owner != get_ident():
            self.release()
            return False
        return True

    def is_mine(self) -> bool:
        """Whether this thread is inside the open transaction."""
        return self.owner != 0 and self.owner == get_ident()

    def await_end(self) -> bool:
        """Wait for the end of another thread's transaction, the lock held (and let go meanwhile).

        False when it did not end in time. True also when its thread has ended without it: then
        the transaction belongs to this thread, which has to roll it back.
        """
        until = time.monotonic() + self.timeout
        while self.owner and self._owner_thread is not None:
            if not self._owner_thread.is_alive():
                self.owner = get_ident()
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._ended.wait(min(left, _LOOK_SECONDS))
        return True

    def own(self) -> None:
        """The transaction that is open now is this thread's; the lock is held."""
        if not self.owner:
            self.owner = get_ident()
            self._owner_thread = threading.current_thread()

    def disown(self) -> None:
        """No transaction is open; the lock is held."""
        if self.owner:
            self.owner, self._owner_thread = 0, None
            self._ended.notify_all()
