"""The handle of an effect, whatever runs it."""

from __future__ import annotations

from itertools import count
from typing import Any

from .graph import deferred, unlink
from .owner import adopt, disown, raise_all, release_owned
from .scheduler import call_watchers
from .state import MISSING, STATE, ErrorSink, Node, Owner

_next_order = count().__next__


class Effect(Owner, Node):
    """Something that runs again when what it read has changed, until it is disposed.

    Made by `create_effect`. It is kept alive by what it reads and by its owner, not by this handle.
    """

    __slots__ = (
        "__weakref__",
        "checking",
        "fn",
        "name",
        "order",
        "previous",
        "raw",
        "running",
        "seen",
        "sink",
        "sources",
        "stale",
        "value",
    )
    live = True
    dirty = False
    stamp = -1

    def __init__(self, fn: Any, initial: Any, name: str | None) -> None:
        if STATE.owner is not None or STATE.others:
            adopt(self)
        else:
            self.parent = self.owned = self.cleanups = None
        self.fn = fn
        self.previous = initial is not MISSING
        self.value = initial
        self.name = name
        self.sources = self.raw = ()
        self.stale = False
        self.seen = -1
        self.running = self.checking = 0
        self.sink: ErrorSink | None = None
        self.order = _next_order()

    def has_ended(self) -> bool:
        return self.fn is None and not self.running

    def dispose(self) -> None:
        """Stop: run the cleanups, dispose what was created inside, and never run again.

        A run that is under way finishes, and cleans up after itself. Harmless when repeated.
        """
        if deferred(self):
            return
        with STATE.lock:
            if self.fn is None:
                return
            self.fn = None
            unlink(self)
            running = self.running
        disown(self)
        try:
            if not running:
                raise_all(release_owned(self), "cleanups failed")
        finally:
            if STATE.flips:
                call_watchers()

    def __repr__(self) -> str:
        return f"<effect {self.title()}{'' if self.fn else ', disposed'}>"
