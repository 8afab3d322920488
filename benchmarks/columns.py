"""Observers without a pin: of other columns and other tables than the one that is written."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.databases import ignore
from benchmarks.figures import Figure, Outcome
from benchmarks.timing import Effort, interleave
from reactive_sqlite import Database

TITLE = "Observers of other columns and tables"
OBSERVERS = 1_000
TABLES = 20
AT_MOST = 1.3
NONE = "no observer"


def measure(effort: Effort, folder: Path) -> Outcome:
    """Compare an update of one column with and without observers of what it leaves alone."""
    count = effort.count(OBSERVERS)
    with ExitStack() as stack:
        databases = {
            name: stack.enter_context(_opened(folder / f"{name}.sqlite"))
            for name in ("none", "columns", "tables", "both")
        }
        for number in range(count):
            _observe_column(databases["columns"], number)
            _observe_table(databases["tables"], number)
            (_observe_column if number % 2 else _observe_table)(databases["both"], number)
        series = interleave({name: _update(db) for name, db in databases.items()}, effort)
    figures = (
        _figure(f"{count:,} of other columns", series.ratio("columns", "none")),
        _figure(f"{count:,} of other tables", series.ratio("tables", "none")),
        _figure(f"{count:,}, half of each", series.ratio("both", "none")),
        Figure("the update with no observer", series.typical("none") * 1e6, unit="µs"),
    )
    return Outcome("columns", TITLE, figures)


def _opened(path: Path) -> Database:
    database = Database(path)
    with database.transaction():
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, written INTEGER, other INTEGER)")
        database.execute("INSERT INTO t VALUES (1, 0, 0)")
        for number in range(TABLES):
            database.execute(f"CREATE TABLE other{number} (id INTEGER PRIMARY KEY, value INTEGER)")
    return database


def _observe_column(database: Database, number: int) -> None:
    database.observe("SELECT other FROM t WHERE other > ?", [number]).subscribe(ignore)


def _observe_table(database: Database, number: int) -> None:
    sql = f"SELECT value FROM other{number % TABLES} WHERE value > ?"
    database.observe(sql, [number]).subscribe(ignore)


def _update(database: Database) -> Callable[[], object]:
    numbers = itertools.count()
    return lambda: database.execute("UPDATE t SET written = ? WHERE id = 1", (next(numbers),))


def _figure(name: str, ratio: float) -> Figure:
    return Figure(name, ratio, NONE, at_most=AT_MOST)
