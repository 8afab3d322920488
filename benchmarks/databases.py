"""Databases and observers as several subjects need them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from reactive_sqlite import Database

SCHEMA = "CREATE TABLE t (key TEXT NOT NULL PRIMARY KEY, value INTEGER) WITHOUT ROWID"
UPSERT = "INSERT INTO t VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
TOUCHED = "touched"

_numbers = itertools.count()


def keyed(path: Path) -> Database:
    """Open a new database with one table of keys and values."""
    database = Database(path)
    database.execute(SCHEMA)
    return database


def writer(database: Database) -> Callable[[], object]:
    """Return what writes a new value to the one key that is written, and commits."""
    return lambda: database.execute(UPSERT, (TOUCHED, next(_numbers)))


def observe_keys(database: Database, count: int) -> None:
    """Subscribe to as many keys, none of them the one that is written."""
    for number in range(count):
        database["t"].observe({"key": f"key {number}"}).subscribe(ignore)


def ignore(_: object) -> None:
    """A subscriber whose own work costs nothing."""
