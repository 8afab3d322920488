"""With a trail in the file, a commit of another connection re-runs only the queries it touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import Database, sqlite3
from reactive_sqlite.trail import Trail
from tests.recorder import Recorder

SCHEMA = """
CREATE TABLE state (key TEXT PRIMARY KEY, value);
CREATE TABLE other (v);
CREATE TABLE log (seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT);
CREATE TRIGGER i AFTER INSERT ON state BEGIN INSERT INTO log (key) VALUES (new.key); END;
CREATE TRIGGER u AFTER UPDATE ON state BEGIN
    INSERT INTO log (key) VALUES (old.key), (new.key);
END;
CREATE TRIGGER d AFTER DELETE ON state BEGIN INSERT INTO log (key) VALUES (old.key); END;
"""
TRAIL = Trail(
    ("main", "state"),
    "key",
    "SELECT seq FROM sqlite_sequence WHERE name = 'log' UNION ALL SELECT 0 LIMIT 1",
    "SELECT seq, key FROM log WHERE seq > ? ORDER BY seq LIMIT ?",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trail.db"


@pytest.fixture
def db(path: Path) -> Iterator[Database]:
    # Unwatched: the tests say when to look.
    with Database(path, watch=False) as db:
        db.executescript(SCHEMA)
        db.broker.follow_trail(TRAIL)
        for number in range(200):
            db["state"].observe({"key": f"k{number}"}).subscribe()
        yield db


@pytest.fixture
def elsewhere(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def fetches(db: Database) -> int:
    """How many queries one look for foreign commits runs."""
    before = db.broker.fetches
    assert db.broker.check()
    return db.broker.fetches - before


def test_a_foreign_write_re_runs_only_the_pinned_query_it_touched(
    db: Database, elsewhere: sqlite3.Connection, recorder: Recorder[Any]
) -> None:
    db["state"].observe({"key": "k7"}, select="value").subscribe(recorder)
    elsewhere.execute("INSERT INTO state VALUES ('k7', 'new')")
    assert fetches(db) == 2, "two queries are pinned to that key"
    assert recorder.values == [[], [{"value": "new"}]]
    elsewhere.execute("UPDATE state SET key = 'k8'")
    assert fetches(db) == 3, "the key that the row left, and the one it came to"
    assert recorder.last == []


def test_queries_of_other_tables_and_without_a_pin_are_re_run(
    db: Database, elsewhere: sqlite3.Connection, recorder: Recorder[Any]
) -> None:
    total, others = Recorder[int](), Recorder[int]()
    db.observe_value("SELECT count(*) FROM state").subscribe(total)
    db.observe_value("SELECT count(*) FROM other").subscribe(others)
    elsewhere.execute("INSERT INTO state VALUES ('a', 1)")
    assert fetches(db) == 2
    elsewhere.execute("INSERT INTO other VALUES (1)")
    assert fetches(db) == 1
    assert (total.values, others.values) == ([0, 1], [0, 1])


def test_own_writes_in_between_do_not_hide_a_foreign_one(
    db: Database, elsewhere: sqlite3.Connection, recorder: Recorder[Any]
) -> None:
    db["state"].observe({"key": "k1"}, select="value").subscribe(recorder)
    db.execute("INSERT INTO state VALUES ('k1', 'own')")
    elsewhere.execute("UPDATE state SET value = 'foreign' WHERE key = 'k1'")
    db.execute("INSERT INTO state VALUES ('k2', 'own')")
    db.broker.check()
    assert recorder.last == [{"value": "foreign"}]


def test_more_entries_than_are_worth_reading_re_run_everything(
    db: Database, elsewhere: sqlite3.Connection, recorder: Recorder[Any]
) -> None:
    db["state"].observe({"key": "k1"}, select="value").subscribe(recorder)
    elsewhere.execute(
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)"
        " INSERT INTO state SELECT 'k' || i, i FROM n"
    )
    assert fetches(db) >= 200
    assert recorder.last == [{"value": 1}]


def test_a_trail_that_was_cut_re_runs_everything(
    db: Database, elsewhere: sqlite3.Connection, recorder: Recorder[Any]
) -> None:
    db.execute("INSERT INTO state VALUES ('k1', 1), ('k2', 2)")
    assert not db.broker.check()
    db["state"].observe({"key": "k1"}, select="value").subscribe(recorder)
    elsewhere.execute("INSERT INTO state VALUES ('k3', 3)")
    db.broker.check()
    elsewhere.executescript("UPDATE state SET value = 'new' WHERE key = 'k1'; DELETE FROM log;")
    db.broker.check()
    assert recorder.last == [{"value": "new"}]


def test_a_foreign_schema_change_re_runs_everything(
    db: Database, elsewhere: sqlite3.Connection, recorder: Recorder[Any]
) -> None:
    db["state"].observe({"key": "k1"}).subscribe(recorder)
    elsewhere.executescript("DROP TRIGGER i; INSERT INTO state VALUES ('k1', 'unlogged')")
    assert fetches(db) >= 200
    assert recorder.last == [{"key": "k1", "value": "unlogged"}]
