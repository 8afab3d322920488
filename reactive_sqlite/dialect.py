"""The SQLite module in use (pysqlite3 where installed, as sqlite-utils picks it) and its spelling of things."""

from __future__ import annotations

from sqlite_utils.utils import sqlite3

__all__ = ["MINIMUM_SQLITE", "quote", "sqlite3"]

# PRAGMA table_list, by which shadow and virtual tables are told apart.
MINIMUM_SQLITE = (3, 37, 0)


def quote(identifier: str) -> str:
    """Return the identifier in double quotes, as SQL wants it."""
    return '"' + identifier.replace('"', '""') + '"'
