"""Answers of another thread, put before the event loop that waits for them."""

from __future__ import annotations

import contextvars
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

Answer = tuple[Callable[..., object], tuple[Any, ...]]


class Mailbox:
    """Calls that other threads leave for one event loop, which makes them at its next turn.

    What `loop.call_soon_threadsafe` left before is run before. A call must not raise.

    Linux can wake a loop by a counter, which is written and read in less time than the socket of
    `call_soon_threadsafe` and needs no handle of its own: some 12 µs of the way back.

    It belongs to the loop, which lets it go as it is closed, and to whoever still has an answer
    for it. Raises OSError where there is no descriptor left.
    """

    def __init__(self) -> None:
        self._answers: deque[Answer] = deque()
        self._rung = False
        self._bell = -1
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def __del__(self) -> None:
        # Not earlier: as long as the loop looks at it, the number must not be somebody else's.
        if self._bell >= 0:
            os.close(self._bell)

    def put(self, fn: Callable[..., object], *args: Any) -> None:
        """Leave a call; from any thread."""
        self._answers.append((fn, args))
        if not self._rung:
            self._rung = True
            os.eventfd_write(self._bell, 1)

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the loop look here; on its thread, once."""
        # In a context of its own: the loop keeps it for good, with all that the caller's holds.
        contextvars.Context().run(loop.add_reader, self._bell, self._empty)

    def _empty(self) -> None:
        os.eventfd_read(self._bell)
        # First: what is left from here on rings again.
        self._rung = False
        while self._answers:
            fn, args = self._answers.popleft()
            fn(*args)


def mailbox(loop: asyncio.AbstractEventLoop) -> Mailbox | None:
    """Return the mailbox of the running loop, or None where there is nothing better than
    `call_soon_threadsafe`; on the loop's thread."""
    known = _mailboxes.get(loop)
    found = None if known is None else known()
    if found is None and sys.platform == "linux" and _selects(loop):
        try:
            found = Mailbox()
        except OSError:
            return None  # too many open files: the loop has what it needs already
        found.watch(loop)
        _mailboxes[loop] = weakref.ref(found)
    return found


# Weak both ways: an answer that came too late has a future, and with it the loop.
_mailboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[Mailbox]] = (
    weakref.WeakKeyDictionary()
)


def _selects(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether it is asyncio's own: others may call a reader before what was to come first."""
    import asyncio

    return isinstance(loop, asyncio.SelectorEventLoop)
