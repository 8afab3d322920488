"""The mark by which the log of one database is told from that of another.

It stands in `sqlite_sequence`, whose page SQLite writes with each transition and each memory: so a
log in which there is any has the mark as well, and not only the file.
"""

from __future__ import annotations

from reactive_sqlite.dialect import sqlite3

IDENTITY = (
    """
    INSERT INTO sqlite_sequence (name, seq)
    VALUES ('_smithers_identity ' || lower(hex(randomblob(16))), 0)
    """,
)
MARKED = "name GLOB '_smithers_identity *'"
"""Whether a row of `sqlite_sequence` is the mark, and not what a table has counted."""
_COUNTS = "SELECT 1 FROM main.sqlite_master WHERE name = 'sqlite_sequence'"
_MARKS = f"SELECT name FROM main.sqlite_sequence WHERE {MARKED}"


def identity(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the mark; nothing for a file without one. Errors of SQLite pass as they are."""
    if not connection.execute(_COUNTS).fetchall():
        return frozenset()
    return frozenset(name for (name,) in connection.execute(_MARKS).fetchall())
