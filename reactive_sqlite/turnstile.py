"""Who may use the connection: one thread at a time, and the one inside the open transaction."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from threading import get_ident

# How often a waiting thread looks whether the one it waits for is still alive, and how long the
# turn is kept for a thread that does not come.
_LOOK_SECONDS = 0.05
_KEPT = -1


class Turnstile:
    """A reentrant lock, held for single statements, and the owner of the open transaction.

    The two are apart so that a thread which ends inside its transaction leaves no lock behind,
    and so that the owner can be asked for without waiting.

    Threads that wait for the end of a transaction come in the order in which they began to wait.
    The first alone is woken, and the turn is kept for it meanwhile: else the thread that ended its
    transaction, which runs already, would take the turn again and again.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.owner = 0  # below 0 while the turn is kept: nobody is inside a transaction
        lock = self._lock = threading.RLock()
        self.acquire_now, self.release_now = lock.acquire, lock.release
        # For want of a public name; `threading.Condition` asks by this one.
        self.is_held_here: Callable[[], bool] = vars(type(lock))["_is_owned"].__get__(lock)
        self.waiting: deque[threading.Condition] = deque()  # in the order in which they come
        self._kept_until = 0.0
        self._owner_thread: threading.Thread | None = None

    def acquire(self) -> bool:
        """Take the lock; False when it was not to be had in time."""
        # Asked without a time limit first: that is faster, and nearly always granted.
        return self.acquire_now(False) or self.acquire_now(timeout=self.timeout)

    def try_acquire(self) -> bool:
        """Take the lock if nobody else is at it, nor inside a transaction."""
        if not self.acquire_now(False):
            return False
        if self.owner > 0 and self.owner != get_ident():
            self.release()
            return False
        return True

    def release(self) -> None:
        """Let the lock go, and wake the thread that the turn is kept for."""
        try:
            if self.owner < 0:
                self.wake()
        finally:
            self.release_now()

    def is_mine(self) -> bool:
        """Whether this thread is inside the open transaction."""
        return self.owner != 0 and self.owner == get_ident()

    def await_turn(self) -> bool:
        """Wait until nobody is inside a transaction, nor waits for longer than this thread.

        The lock is held, and let go meanwhile. False when its turn did not come in time. True also
        when another thread has ended inside its transaction: then that belongs to this one, which
        has to roll it back.
        """
        until = time.monotonic() + self.timeout
        mine = threading.Condition(self._lock)
        try:
            self.waiting.append(mine)
            while not self._is_turn_of(mine):
                if self._owner_thread is not None and not self._owner_thread.is_alive():
                    self.owner = get_ident()
                    return True
                left = until - time.monotonic()
                if left <= 0:
                    return False
                mine.wait(min(left, _LOOK_SECONDS))
            self._keep()  # what runs now may be no transaction, whose end would see to the next
            return True
        finally:
            self.waiting.remove(mine)

    def wake(self) -> None:
        """Wake the thread that the turn is kept for; the lock is held."""
        if self.waiting:
            self.waiting[0].notify()
        else:
            self.owner = 0

    def own(self) -> None:
        """The transaction that is open now is this thread's; the lock is held."""
        if self.owner <= 0:
            self.owner = get_ident()
            self._owner_thread = threading.current_thread()

    def disown(self) -> None:
        """No transaction is open; the lock is held."""
        if self.owner > 0:
            self.owner, self._owner_thread = 0, None
            if self.waiting:
                self._keep()

    def _keep(self) -> None:
        self.owner, self._kept_until = _KEPT, time.monotonic() + _LOOK_SECONDS

    def _is_turn_of(self, waiting: threading.Condition) -> bool:
        if self.owner > 0:
            return False
        # Kept too long, it is for whoever asks: a signal's handler may wait for its turn on the
        # very thread that it keeps from taking one.
        return self.waiting[0] is waiting or time.monotonic() > self._kept_until
