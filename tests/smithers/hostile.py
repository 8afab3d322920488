"""Texts that break what does not expect them, and what a whole database holds."""

from __future__ import annotations

from contextlib import closing

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


LOG = "_reactive_log"


def contents(db: SmithersDB) -> list[str]:
    """All that the file of a database holds, as another program reads it, but the change log."""
    assert db.path is not None
    with closing(sqlite3.connect(db.path)) as connection:
        schema = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        tables = sorted(name for kind, name, _ in schema if kind == "table" and name != LOG)
        # Not `iterdump`, which pysqlite3 lacks.
        return [repr(one) for one in schema] + [
            f"{name}: {row!r}"
            for name in tables
            for row in connection.execute(f'SELECT * FROM "{name}"')
        ]
