"""What `db.changes()` says of each commit: tables, rows, keys, in order and none merged."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from reactivex import operators

from reactive_sqlite import ChangeSet, Database, RowChange, sqlite3
from tests.reactive_sqlite.threads import together
from tests.recorder import Recorder

Sets = Recorder[ChangeSet]


@pytest.fixture(autouse=True)
def tables(db: Database) -> None:
    db.conn.executescript("""
        CREATE TABLE t(id INTEGER PRIMARY KEY, v, n TEXT UNIQUE);
        CREATE TABLE pair(a TEXT, b INT, v, PRIMARY KEY (b, a));
        CREATE TABLE bare(v);
        CREATE TABLE word(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
        CREATE TABLE child(id INTEGER PRIMARY KEY,
            t REFERENCES t ON DELETE CASCADE ON UPDATE CASCADE);
        INSERT INTO t VALUES (1, 'one', 'a'), (2, 'two', 'b');
        INSERT INTO child VALUES (10, 1);
    """)


@pytest.fixture
def seen(db: Database) -> Sets:
    recorder: Sets = Recorder()
    db.changes().subscribe(recorder.on_next)
    return recorder


def rows(seen: Sets) -> list[tuple[RowChange, ...] | None]:
    return [changes.rows for changes in seen.values]


def only(seen: Sets) -> tuple[RowChange, ...]:
    (changes,) = seen.values
    assert changes.rows is not None
    assert changes.tables == frozenset(row.table for row in changes.rows)
    assert not changes.external
    return changes.rows


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("INSERT INTO t VALUES (7, 'x', NULL)", [RowChange("t", "insert", 7)]),
        ("UPDATE t SET v = 'x' WHERE id = 1", [RowChange("t", "update", 1, 1)]),
        ("UPDATE t SET id = 5 WHERE id = 2", [RowChange("t", "update", 5, 2)]),
        ("DELETE FROM t WHERE id = 2", [RowChange("t", "delete", 2)]),
        ("INSERT INTO pair VALUES ('p', 1, 0)", [RowChange("pair", "insert", (1, "p"))]),
        ("INSERT INTO bare VALUES ('x')", [RowChange("bare", "insert", 1)]),
        ("INSERT INTO word VALUES ('k', 0)", [RowChange("word", "insert", "k")]),
        ("INSERT INTO T VALUES (7, 'x', NULL)", [RowChange("t", "insert", 7)]),
        (
            "REPLACE INTO t VALUES (2, 'x', 'b')",
            [RowChange("t", "delete", 2), RowChange("t", "insert", 2)],
        ),
        (
            "REPLACE INTO t VALUES (9, 'x', 'b')",
            [RowChange("t", "delete", 2), RowChange("t", "insert", 9)],
        ),
        (
            "INSERT INTO t VALUES (1, 'x', 'a') ON CONFLICT(id) DO UPDATE SET v = excluded.v",
            [RowChange("t", "update", 1, 1)],
        ),
    ],
)
def test_a_change_set_names_the_rows(
    db: Database, seen: Sets, sql: str, expected: list[RowChange]
) -> None:
    db.execute(sql)
    assert sorted(map(repr, only(seen))) == sorted(map(repr, expected))


def test_rows_come_in_the_order_they_were_written(db: Database, seen: Sets) -> None:
    with db.transaction():
        db.execute("INSERT INTO bare VALUES ('x')")
        db.execute("INSERT INTO t(id) VALUES (3)")
        db.execute("DELETE FROM bare")
    assert [(row.table, row.op) for row in only(seen)] == [
        ("bare", "insert"),
        ("t", "insert"),
        ("bare", "delete"),
    ]


def test_key_changes_of_compound_keys_carry_both(db: Database, seen: Sets) -> None:
    db.execute("INSERT INTO pair VALUES ('p', 1, 0)")
    db.execute("UPDATE pair SET a = 'q'")
    assert rows(seen)[1] == (RowChange("pair", "update", (1, "q"), (1, "p")),)


def test_foreign_key_actions_and_triggers_are_changes(db: Database, seen: Sets) -> None:
    db.execute("CREATE TRIGGER note AFTER DELETE ON t BEGIN INSERT INTO bare VALUES (old.id); END")
    seen.take()
    db.execute("DELETE FROM t WHERE id = 1")
    assert {(row.table, row.op, row.key) for row in only(seen)} == {
        ("t", "delete", 1),
        ("child", "delete", 10),
        ("bare", "insert", 1),
    }


def test_delete_without_where_names_each_row(db: Database, seen: Sets) -> None:
    db.execute("DELETE FROM t")
    assert {row.key for row in only(seen) if row.table == "t"} == {1, 2}


def test_no_change_is_no_change_set(db: Database, seen: Sets) -> None:
    db.execute("UPDATE t SET v = v")
    db.execute("DELETE FROM t WHERE id = 99")
    db.execute("SELECT * FROM t")
    with pytest.raises(InterruptedError), db.transaction():
        db.execute("DELETE FROM t")
        raise InterruptedError
    with db.transaction(), pytest.raises(InterruptedError), db.transaction():
        db.execute("DELETE FROM t")
        raise InterruptedError
    assert seen.values == []


def test_what_a_savepoint_took_back_is_left_out(db: Database, seen: Sets) -> None:
    with db.transaction():
        db.execute("INSERT INTO bare VALUES (1)")
        with pytest.raises(InterruptedError), db.transaction():
            db.execute("INSERT INTO t(id) VALUES (3)")
            raise InterruptedError
    assert only(seen) == (RowChange("bare", "insert", 1),)


def test_an_update_of_any_column_counts(db: Database, seen: Sets) -> None:
    db.execute("UPDATE t SET v = 1.0 WHERE id = 1")
    db.execute("UPDATE t SET v = 1 WHERE id = 1")
    assert rows(seen) == [(RowChange("t", "update", 1, 1),)] * 2


def test_only_the_tables_asked_for_are_told(db: Database) -> None:
    some: Sets = Recorder()
    db.changes("t", "BARE").subscribe(some.on_next)
    db.execute("INSERT INTO word VALUES ('k', 0)")
    with db.transaction():
        db.execute("INSERT INTO word VALUES ('l', 0)")
        db.execute("INSERT INTO t(id) VALUES (3)")
    assert [changes.tables for changes in some.values] == [frozenset({"t"})]
    assert rows(some) == [(RowChange("t", "insert", 3),)]


def test_a_table_that_comes_later_is_told_as_well(db: Database, seen: Sets) -> None:
    named: Sets = Recorder()
    db.changes("later").subscribe(named.on_next)
    db.execute("CREATE TABLE later(id INTEGER PRIMARY KEY)")
    seen.take()
    named.take()
    db.execute("INSERT INTO later VALUES (1)")
    assert rows(seen) == rows(named) == [(RowChange("later", "insert", 1),)]


def test_attached_tables_are_named_with_their_alias(
    db: Database, seen: Sets, tmp_path: Path
) -> None:
    db.execute("ATTACH ? AS Side", [str(tmp_path / "side.db")])
    db.execute("CREATE TABLE side.t(id INTEGER PRIMARY KEY)")
    named: Sets = Recorder()
    db.changes("side.t").subscribe(named.on_next)
    seen.take()
    db.execute("INSERT INTO side.t VALUES (4)")
    db.execute("INSERT INTO main.t(id) VALUES (5)")
    assert rows(named) == [(RowChange("side.t", "insert", 4),)]
    assert [changes.tables for changes in seen.values] == [frozenset({"side.t"}), frozenset({"t"})]


def test_a_very_large_commit_collapses_to_its_tables(db: Database, seen: Sets) -> None:
    with db.transaction():
        db.execute("INSERT INTO word VALUES ('k', 0)")
        db.conn.executemany("INSERT INTO bare VALUES (?)", ((n,) for n in range(30_000)))
    (changes,) = seen.values
    assert changes == ChangeSet(frozenset({"word", "bare"}), None)
    db.execute("INSERT INTO word VALUES ('l', 0)")
    assert rows(seen)[1] == (RowChange("word", "insert", "l"),), "the next one is whole again"


def test_virtual_tables_are_told_without_rows(db: Database, seen: Sets) -> None:
    db.execute("CREATE VIRTUAL TABLE ft USING fts5(body)")
    seen.take()
    db.execute("INSERT INTO ft VALUES ('x')")
    (changes,) = seen.values
    assert changes.tables is not None
    assert "ft" in changes.tables
    assert changes.rows is None


def test_every_commit_is_told_in_order_and_none_merged(db: Database) -> None:
    keys: list[Any] = []

    def slow(changes: ChangeSet) -> None:
        keys.extend(row.key for row in changes.rows or ())
        if len(keys) == 1:
            for number in (101, 102, 103):
                db.execute("INSERT INTO bare(rowid, v) VALUES (?, 0)", [number])

    db.changes("bare").subscribe(slow)
    db.execute("INSERT INTO bare(rowid, v) VALUES (100, 0)")
    assert keys == [100, 101, 102, 103]


def test_every_commit_of_several_threads_is_told_once(db: Database) -> None:
    keys: list[Any] = []
    db.changes("bare").subscribe(lambda c: keys.extend(row.key for row in c.rows or ()))
    numbers = iter(range(10_000))
    drawing = threading.Lock()

    def write() -> None:
        for _ in range(100):
            with drawing:
                number = next(numbers)
            db.execute("INSERT INTO bare(rowid, v) VALUES (?, 0)", [number])

    together(write, write, write)
    assert sorted(keys) == list(range(300))


def test_a_commit_made_elsewhere_is_told_as_unknown(db: Database, seen: Sets) -> None:
    other = sqlite3.connect(str(db.path), isolation_level=None)
    other.execute("INSERT INTO bare VALUES (1)")
    other.close()
    db.broker.check()
    assert seen.values == [ChangeSet(None, None, external=True)]
    db.broker.check()
    assert len(seen.values) == 1


def test_it_starts_with_the_next_commit_and_ends_when_disposed(db: Database) -> None:
    some: Sets = Recorder()
    subscription = db.changes().subscribe(some.on_next)
    assert some.values == []
    subscription.dispose()
    db.execute("INSERT INTO bare VALUES (1)")
    assert some.values == []


def test_subscribing_inside_a_transaction_hears_of_its_commit(db: Database) -> None:
    some: Sets = Recorder()
    with db.transaction():
        db.changes("bare").subscribe(some.on_next)
        db.execute("INSERT INTO bare VALUES (1)")
        assert some.values == []
    assert [changes.touches(["bare"]) for changes in some.values] == [True]
    db.execute("INSERT INTO bare VALUES (2)")
    assert rows(some)[1:] == [(RowChange("bare", "insert", 2),)]


def test_operators_apply(db: Database) -> None:
    def count(changes: ChangeSet) -> int:
        return len(changes.rows or ())

    counts: Recorder[int] = Recorder()
    db.changes("t").pipe(operators.map(count)).subscribe(counts.on_next)
    db.execute("UPDATE t SET v = 0")
    assert counts.values == [2]


def test_change_sets_are_immutable_values(db: Database, seen: Sets) -> None:
    db.execute("INSERT INTO bare VALUES (1)")
    changes = seen.last
    assert changes == ChangeSet(frozenset({"bare"}), (RowChange("bare", "insert", 1),))
    with pytest.raises(AttributeError):
        changes.external = True  # type: ignore[misc]
    assert changes.touches(["bare", "t"])
    assert not changes.touches(["t"])
    assert ChangeSet(None, None).touches(["t"]), "unknown may be any"


def test_closing_completes_it(db: Database) -> None:
    some: Sets = Recorder()
    db.changes().subscribe(some.on_next, some.on_error, some.on_completed)
    db.close()
    assert (some.completed, some.errors) == (1, [])


@pytest.mark.parametrize(
    "definition",
    ["DROP TABLE t", "CREATE TABLE fresh (a)", "ALTER TABLE t ADD COLUMN extra", "DROP TABLE bare"],
)
def test_a_commit_that_changes_the_schema_is_told_as_unknown(db: Database, definition: str) -> None:
    seen = Recorder[ChangeSet]()
    db.changes("t").subscribe(seen)
    db.execute(definition)
    assert seen.values == [ChangeSet(None, None)]
