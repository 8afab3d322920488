"""The SQLite module in use (pysqlite3 where it is installed), and how it spells things."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import sqlite3
else:
    # Whatever sqlite-utils works with; the two must be the same.
    sqlite3 = import_module("sqlite_utils.utils").sqlite3

__all__ = [
    "LIMITS",
    "MINIMUM_SQLITE",
    "interrupted",
    "locked_elsewhere",
    "may_pass",
    "noted",
    "quote",
    "sqlite3",
]

E = TypeVar("E", bound=Exception)

_BUSY = frozenset({5, 6})  # SQLITE_BUSY, SQLITE_LOCKED
_INTERRUPT = 9
# SQLITE_NOMEM, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL: of what happens, not of the statement.
_PASSING = frozenset({7, _INTERRUPT, 10, 13, 14, 15})

# PRAGMA table_list, by which shadow and virtual tables are told apart.
MINIMUM_SQLITE = (3, 37, 0)
# Whether connections can be told how long a value may be; those of pysqlite3 cannot.
LIMITS = hasattr(sqlite3.Connection, "setlimit")


def quote(identifier: str) -> str:
    """Return the identifier in double quotes, as SQL wants it."""
    return '"' + identifier.replace('"', '""') + '"'


def locked_elsewhere(error: BaseException) -> bool:
    """Whether SQLite's error means that somebody else has the lock: later, not never."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY


def may_pass(error: BaseException) -> bool:
    """Whether an error is one of the disk, of the memory, or of somebody who interrupts whatever
    runs, so that the same may work later."""
    return (
        isinstance(error, MemoryError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING
    )


def interrupted(error: BaseException) -> bool:
    """Whether SQLite's error means that somebody has interrupted whatever ran."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == _INTERRUPT


def noted(error: E, sql: str) -> E:
    """Add the SQL to SQLite's own error, once; parameter values stay out of logs."""
    note = f"in the SQL: {sql}"
    if not any(known.startswith("in the SQL: ") for known in getattr(error, "__notes__", ())):
        error.add_note(note)
    return error
