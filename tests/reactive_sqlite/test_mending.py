"""A schema change of our own that meets a lock: what comes then is committed and logged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reactive_sqlite import Database, sqlite3
from tests.recorder import Recorder

PROMPT = 0.05


@pytest.fixture(params=["wal", "delete"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A file with a table."""
    path = tmp_path / "test.db"
    with closing(sqlite3.connect(path)) as plain:
        plain.execute(f"PRAGMA journal_mode = {request.param}")
        plain.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
    return path


@pytest.fixture
def db(path: Path) -> Iterator[Database]:
    with Database(path, watch=False, busy_timeout=PROMPT) as database:
        database["t"].track()
        database.feed("reader", "t")
        yield database


@pytest.fixture
def other(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=PROMPT)) as connection:
        yield connection


def reads(other: sqlite3.Connection) -> None:
    other.execute("BEGIN")
    other.execute("SELECT * FROM t").fetchall()


def writes(other: sqlite3.Connection) -> None:
    other.execute("BEGIN IMMEDIATE")


CASES: dict[str, tuple[str, Callable[[sqlite3.Connection], None]]] = {
    "a reader before the commit": ("COMMIT", reads),
    "a writer before the beginning": ("BEGIN IMMEDIATE", writes),
}


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_what_is_written_after_a_schema_change_that_met_a_lock_is_committed_and_logged(
    db: Database, other: sqlite3.Connection, case: str, observed: bool
) -> None:
    moment, locks = CASES[case]
    told = Recorder[int]()
    if observed:
        db.observe_value("SELECT count(*) FROM t").subscribe(told.on_next)
    met: list[str] = []

    def meet(sql: str) -> None:
        if sql == moment and not met:
            met.append(sql)
            locks(other)

    db.conn.set_trace_callback(meet)
    db.conn.executescript("DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, b)")
    db.conn.set_trace_callback(None)
    assert met, "it came in between"
    other.execute("COMMIT")
    db.conn.execute("INSERT INTO t VALUES (1, 2)")
    with db.transaction():
        db.conn.execute("INSERT INTO t VALUES (2, 3)")
    found = other.execute("SELECT id FROM t").fetchall()
    assert found == [(1,), (2,)], "another program sees what was acknowledged"
    assert [change.key for change in db.feed("reader", "t").due()] == [1, 2]
    if observed:
        assert told.last == 2


def test_what_is_written_after_an_opening_that_met_a_lock_is_logged(
    db: Database, other: sqlite3.Connection, path: Path
) -> None:
    db.close()
    other.execute("DROP TABLE t")
    other.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, b)")
    writes(other)
    with Database(path, watch=False, busy_timeout=PROMPT) as late:
        other.execute("COMMIT")
        late.conn.execute("INSERT INTO t VALUES (1, 2)")
        assert [change.key for change in late.feed("reader", "t").due()] == [1]
