"""Free SQL over the file: parameters, what may write, observation; and counts."""

from __future__ import annotations

from typing import Any

import pytest

from reactive_sqlite import sqlite3
from smithers import SmithersDB
from smithers.schema import TABLES
from tests.recorder import Recorder


@pytest.mark.parametrize(
    ("sql", "params", "rows"),
    [
        ("SELECT $1 AS a, $2 AS b", [1, 2], [{"a": 1, "b": 2}]),
        ("SELECT $2 AS b, $1 AS a, $2 AS c", (1, 2), [{"b": 2, "a": 1, "c": 2}]),
        ("SELECT $10 AS j, $9 AS i", list(range(1, 11)), [{"j": 10, "i": 9}]),
        ("SELECT ? AS a, ? AS b", [1, 2], [{"a": 1, "b": 2}]),
        ("SELECT ?2 AS a, ?1 AS b", [1, 2], [{"a": 2, "b": 1}]),
        ("SELECT :a AS a, @b AS b, $c AS c", {"a": 1, "b": 2, "c": 3}, [{"a": 1, "b": 2, "c": 3}]),
        ("SELECT '$1' AS a, ? AS b -- $2", [7], [{"a": "$1", "b": 7}]),
        ('SELECT "$x" FROM (SELECT 1 AS "$x")', (), [{"$x": 1}]),
        ("SELECT $1 AS a", [b"\x00"], [{"a": b"\x00"}]),
        ("SELECT 1 AS a, 2 AS a", (), [{"a": 1, "a_2": 2}]),
        ("EXPLAIN QUERY PLAN SELECT $1", [1], None),
        ("SELECT value FROM state WHERE key = $1", ["absent"], []),
        ("WITH n(i) AS (VALUES (1), (2)) SELECT i FROM n", (), [{"i": 1}, {"i": 2}]),
        ("SELECT 1 AS a;", (), [{"a": 1}]),
    ],
)
def test_parameters_bind_by_number_by_order_and_by_name(
    db: SmithersDB, sql: str, params: Any, rows: list[dict[str, Any]] | None
) -> None:
    found = db.query(sql, params)
    assert found == rows if rows is not None else found


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("SELECT $1", []),
        ("SELECT $1", [1, 2]),
        ("SELECT $1, $3", [1, 2]),
        ("SELECT $2", [1]),
        ("SELECT ?, ?", [1]),
        ("SELECT '$'", [1]),
        ("SELECT :a", {"b": 1}),
        ("SELECT $1", {"2": 1}),
    ],
)
def test_a_wrong_number_of_parameters_is_an_error_of_sqlite(
    db: SmithersDB, sql: str, params: Any
) -> None:
    with pytest.raises(sqlite3.ProgrammingError):
        db.query(sql, params)
    with pytest.raises(sqlite3.ProgrammingError):
        db.observe(sql, params).peek()


@pytest.mark.parametrize("sql", ["SELEC 1", "SELECT * FROM absent", "SELECT", "{"])
def test_wrong_sql_is_an_error_of_sqlite_with_the_sql(db: SmithersDB, sql: str) -> None:
    with pytest.raises(sqlite3.OperationalError) as caught:
        db.query(sql)
    assert sql in "".join(getattr(caught.value, "__notes__", []))


WRITES = [
    "INSERT INTO state (key, value) VALUES ('a', '1')",
    "UPDATE state SET value = '2'",
    "DELETE FROM state",
    "REPLACE INTO state (key, value) VALUES ('a', '1') RETURNING key",
    "WITH n(i) AS (VALUES (1)) INSERT INTO state (key, value) SELECT 'a', i FROM n",
    "CREATE TABLE mine (a)",
    "DROP TABLE state",
    "PRAGMA user_version = 3",
    "VACUUM",
    "BEGIN",
    "ATTACH ':memory:' AS other",
]


@pytest.mark.parametrize("sql", WRITES)
def test_a_statement_that_writes_is_refused_and_not_run(db: SmithersDB, sql: str) -> None:
    db.state.set("b", 1)
    before = db.query("SELECT * FROM sqlite_master"), db.query("PRAGMA user_version")
    with pytest.raises(ValueError, match="write=True"):
        db.query(sql)
    with pytest.raises(ValueError, match=r"writes|quer"):
        db.observe(sql)
    assert db.state.get_all() == {"b": 1}
    assert (db.query("SELECT * FROM sqlite_master"), db.query("PRAGMA user_version")) == before


def test_pragmas_that_read_are_reading(db: SmithersDB) -> None:
    assert db.query("PRAGMA journal_mode") == [{"journal_mode": "wal"}]
    assert [row["name"] for row in db.query("PRAGMA table_info(state)")][:2] == ["key", "value"]
    assert db.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]


def test_more_than_one_statement_is_refused_and_none_is_run(db: SmithersDB) -> None:
    db.state.set("a", 1)
    for write in (False, True):
        with pytest.raises((sqlite3.Warning, sqlite3.ProgrammingError), match="one statement"):
            db.query("SELECT 1; DELETE FROM state", write=write)
    assert db.state.get_all() == {"a": 1}


def test_a_write_by_query_notifies_and_gives_back_its_rows(
    db: SmithersDB, recorder: Recorder[Any]
) -> None:
    db.state.observe("a").subscribe(recorder)
    sql = "INSERT INTO state (key, value) VALUES ($2, $1) RETURNING key AS k"
    assert db.query(sql, ["1", "a"], write=True) == [{"k": "a"}]
    assert db.query("UPDATE state SET value = '2'", write=True) == []
    assert recorder.values == [None, 1, 2]


def test_an_observed_query_takes_the_same_parameters(
    db: SmithersDB, recorder: Recorder[Any]
) -> None:
    sql = "SELECT $2 || key AS k FROM state WHERE value > $1 ORDER BY key"
    db.observe(sql, ["1", "-"]).subscribe(recorder)
    db.state.set_many({"a": 1, "b": 2})
    db.state.set("a", 2)
    assert recorder.values == [[], [{"k": "-b"}], [{"k": "-a"}, {"k": "-b"}]]


def test_stats_count_the_rows_of_every_table(db: SmithersDB) -> None:
    assert db.stats() == dict.fromkeys(TABLES, 0)
    db.state.set("a", 1)
    db.state.set("a", 2)
    assert db.stats() == {**dict.fromkeys(TABLES, 0), "state": 1, "transitions": 2}


def test_stats_count_the_tables_of_the_user_after_ours(db: SmithersDB) -> None:
    db.database["a table"].insert_all([{"n": 1}, {"n": 2}])
    db.database["Notes"].insert({"text": "one"})
    db.database["Notes"].enable_fts(["text"])
    db.database.create_view("seen", "SELECT 1")
    db.database.execute("CREATE TEMP TABLE passing (a)")
    db.state.set("a", 1)
    counted = list(db.stats().items())
    assert [table for table, _ in counted[: len(TABLES)]] == [*TABLES]
    assert counted[len(TABLES) :] == [
        ("Notes", 1),
        ("Notes_fts", 1),
        ("a table", 2),
    ], "no views, no TEMP tables, no shadows, nothing of SQLite's or the migrations'"


def test_a_blob_in_the_sql_need_not_be_text(db: SmithersDB) -> None:
    db.query("CREATE TABLE own (v BLOB DEFAULT x'fe')", write=True)
    db.query("INSERT INTO own VALUES (x'ff')", write=True)
    assert db.query("SELECT v, x'c3' AS w FROM own WHERE v = x'ff'") == [
        {"v": b"\xff", "w": b"\xc3"}
    ]
    with pytest.raises(ValueError, match="write=True"):
        db.query("DELETE FROM own WHERE v = x'ff'")
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        db.query("SELECT $1 = x'ff' FROM own WHERE nope", [1])
