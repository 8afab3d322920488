"""What a fork leaves in the child: connections and threads of the parent, of no use there.

SQLite forbids to use or even to close there what was opened before the fork: the locks stay with
the parent, and the last to close would take away a log that others are writing to.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

ELSEWHERE = (
    "this database was opened before this process was forked from the one that opened it: "
    "open it anew here"
)

NO_COPY = (
    "an open database, and what observes it, can be neither pickled nor copied: "
    "give its path to whoever needs it, and open it there"
)


class Inherited(Protocol):
    """Something that is the parent's alone."""

    def abandon(self) -> None:
        """Refuse every further call; the thread that forked is the only one."""
        ...


def is_of_this_process(thing: Inherited) -> None:
    """Have it abandoned in every process that is forked from this one."""
    _things.add(thing)


_things: weakref.WeakSet[Inherited] = weakref.WeakSet()


def _abandon() -> None:
    import ctypes

    for thing in tuple(_things):
        thing.abandon()
        # Not even at the end of the process may it be finalised.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    _things.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_abandon)
