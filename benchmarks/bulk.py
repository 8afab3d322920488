"""A large insert into a table that is observed: its time, and the memory it takes."""

from __future__ import annotations

import gc
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.databases import ignore
from benchmarks.figures import Figure, Outcome
from benchmarks.timing import Effort, Series, timed
from reactive_sqlite import Database

TITLE = "Inserting many rows in one transaction"
ROWS = 200_000
ROUNDS = 5
AT_MOST = 3.0
# Memory is bounded when twice the rows take no more of it.
GROWTH_AT_MOST = 1.2
INSERT = "INSERT INTO t (name, value) VALUES (?, ?)"
SCHEMA = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, value REAL)"
NOBODY = "Database, nobody observes"
BARE = "sqlite3"


def measure(effort: Effort, folder: Path) -> Outcome:
    """Compare the insert with observers of a row, a count and the changes, and with none."""
    rows = effort.count(ROWS)
    with ExitStack() as stack:
        bare = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
        stack.callback(bare.close)
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = NORMAL")
        bare.execute(SCHEMA)
        plain = stack.enter_context(_opened(folder / "plain.sqlite"))
        observed = stack.enter_context(_opened(folder / "observed.sqlite"))
        _observe(observed)
        seconds: dict[str, list[float]] = {BARE: [], NOBODY: [], "observed": []}
        for _ in range(min(ROUNDS, effort.rounds)):
            for name, connection in (
                (BARE, bare),
                (NOBODY, plain.conn),
                ("observed", observed.conn),
            ):
                connection.execute("DELETE FROM t")
                seconds[name].append(timed(partial(_insert, connection, rows), 1))
        peaks = [_peak(observed, count) for count in (rows // 2, rows)]
    series = Series({name: tuple(values) for name, values in seconds.items()})
    figures = (
        Figure(f"{rows:,} rows, observed", series.ratio("observed", NOBODY), NOBODY, "x", AT_MOST),
        Figure(f"{rows:,} rows, observed", series.ratio("observed", BARE), BARE),
        Figure(
            f"peak memory of {rows:,}", peaks[1] / peaks[0], "half the rows", "x", GROWTH_AT_MOST
        ),
        Figure("peak memory", peaks[1] / 1e6, unit="MB"),
        Figure(f"{rows:,} rows, nobody observes", series.typical(NOBODY), unit="s"),
    )
    return Outcome("bulk", TITLE, figures)


def _opened(path: Path) -> Database:
    database = Database(path)
    database.execute(SCHEMA)
    return database


def _observe(database: Database) -> None:
    database.observe_value("SELECT count(*) FROM t").subscribe(ignore)
    database["t"].observe_row(1).subscribe(ignore)
    database.changes("t").subscribe(ignore)


def _insert(connection: Any, rows: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(INSERT, _rows(rows))
    connection.execute("COMMIT")


def _rows(count: int) -> Iterator[tuple[str, float]]:
    return ((f"name {number}", number / 7) for number in range(count))


def _peak(database: Database, rows: int) -> int:
    """The most bytes of Python's that the insert holds at a time."""
    database.execute("DELETE FROM t")
    gc.collect()
    tracemalloc.start()
    try:
        _insert(database.conn, rows)
        return max(1, tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
