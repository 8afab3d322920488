"""Texts that break what does not expect them, and what a whole database holds."""

from __future__ import annotations

from reactive_sqlite import sqlite3
from smithers import SmithersDB

# Every one of them is text that UTF-8 and SQLite can hold.
HOSTILE = (
    "'; DROP TABLE executions; --",
    '" OR 1=1; DELETE FROM agents; --',
    "') UNION SELECT sql FROM sqlite_master --",
    "Robert'); DROP TABLE phases;--",
    "$1 ?1 :name @name {0} %s %(name)s",
    "[brackets] `ticks` \"quotes\" 'quotes' \\ back",
    "/* comment */ -- to the end",
    "line\nbreak\r\n\ttab\x1b[31m red \x7f",
    "ünïcödé 漢字 🙂 \u202e right to left \ufeff",
    '{"json": [null]}',
    "null",
    " ",
    "x" * 100_000,
)
# None of these is.
UNWRITABLE = ("nul \0 inside", "\0", "lone \ud800 surrogate")


LOGGED = 'INSERT INTO "_reactive_log"'


def contents(db: SmithersDB) -> list[str]:
    """All that the file of a database holds, as another program reads it, but the change log."""
    assert db.path is not None
    connection = sqlite3.connect(db.path)
    try:
        return [line for line in connection.iterdump() if not line.startswith(LOGGED)]
    finally:
        connection.close()
