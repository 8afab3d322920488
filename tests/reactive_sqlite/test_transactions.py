"""Only what was committed is told, at most once per commit, however transactions are spelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reactive_sqlite import (
    Database,
    NotReady,
    ReactiveError,
    create_effect,
    create_memo,
    create_root,
    sqlite3,
)
from tests.recorder import Recorder

Told = Recorder[Any]


@pytest.fixture
def told(db: Database) -> Told:
    """What the values of table t were said to be, from [1] on; every test starts from there."""
    db.conn.executescript("""
        CREATE TABLE t(v UNIQUE); INSERT INTO t VALUES (1);
        CREATE TABLE parent(id INTEGER PRIMARY KEY);
        CREATE TABLE child(p REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
    """)
    recorder: Told = Recorder()
    values = db.observe("SELECT v FROM t ORDER BY v").decoded(lambda rows: [r["v"] for r in rows])
    values.subscribe(recorder.on_next, recorder.on_error)
    assert recorder.take() == [[1]]
    return recorder


def insert(db: Database, *values: Any) -> None:
    for value in values:
        db.execute("INSERT INTO t VALUES (?)", [value])


# -- committed and rolled back ---------------------------------------------------------------------


def test_a_commit_emits_once(db: Database, told: Told) -> None:
    with db.transaction():
        insert(db, 2, 3)
        assert told.values == [], "nothing is told before the commit"
    assert told.values == [[1, 2, 3]]


def test_atomic_is_transaction(db: Database, told: Told) -> None:
    with db.atomic():
        insert(db, 2)
        with db.atomic():
            insert(db, 3)
        assert told.values == []
    assert told.values == [[1, 2, 3]]


def test_a_rollback_emits_nothing(db: Database, told: Told) -> None:
    fetches = db.broker.fetches
    with pytest.raises(InterruptedError), db.transaction():
        insert(db, 2)
        raise InterruptedError
    assert told.values == []
    assert db.broker.fetches == fetches, "there is nothing to look for after a rollback"


def test_a_rolled_back_savepoint_emits_nothing(db: Database, told: Told) -> None:
    fetches = db.broker.fetches
    with db.transaction(), pytest.raises(InterruptedError), db.transaction():
        insert(db, 2)
        raise InterruptedError
    assert told.values == []
    assert db.broker.fetches == fetches


def test_what_a_rolled_back_savepoint_leaves_is_emitted(db: Database, told: Told) -> None:
    with db.transaction():
        insert(db, 2)
        with pytest.raises(InterruptedError), db.transaction():
            insert(db, 3)
            with db.transaction():
                insert(db, 4)
            raise InterruptedError
        insert(db, 5)
    assert told.values == [[1, 2, 5]]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("BEGIN; INSERT INTO t VALUES (2); COMMIT", [[1, 2]]),
        ("begin immediate; INSERT INTO t VALUES (2); end", [[1, 2]]),
        ("/* c */ BEGIN EXCLUSIVE; INSERT INTO t VALUES (2); END TRANSACTION", [[1, 2]]),
        ("BEGIN; INSERT INTO t VALUES (2); ROLLBACK", []),
        ("SAVEPOINT s; INSERT INTO t VALUES (2); RELEASE s", [[1, 2]]),
        ("SAVEPOINT s; INSERT INTO t VALUES (2); ROLLBACK TO s; RELEASE s", []),
        ("SAVEPOINT s; INSERT INTO t VALUES (2); ROLLBACK TO s; COMMIT", []),
        ('SAVEPOINT "a b"; INSERT INTO t VALUES (2); ROLLBACK TO SAVEPOINT "A B"; COMMIT', []),
        (
            "BEGIN; INSERT INTO t VALUES (2); SAVEPOINT s; INSERT INTO t VALUES (3);"
            " ROLLBACK TO s; INSERT INTO t VALUES (4); ROLLBACK TO s; COMMIT",
            [[1, 2]],
        ),
        (
            "BEGIN; SAVEPOINT s; INSERT INTO t VALUES (2); SAVEPOINT s; INSERT INTO t VALUES (3);"
            " ROLLBACK TO s; RELEASE s; RELEASE s; COMMIT",
            [[1, 2]],
        ),
        (
            "BEGIN; SAVEPOINT s; INSERT INTO t VALUES (2); SAVEPOINT q; INSERT INTO t VALUES (3);"
            " RELEASE s; COMMIT",
            [[1, 2, 3]],
        ),
        (
            "BEGIN; SAVEPOINT s; INSERT INTO t VALUES (2); SAVEPOINT q; INSERT INTO t VALUES (3);"
            " ROLLBACK TO s; COMMIT",
            [],
        ),
    ],
)
@pytest.mark.parametrize("road", ["database", "connection", "cursor", "script"])
def test_textual_transactions_emit_what_they_commit(
    db: Database, told: Told, script: str, expected: list[list[int]], road: str
) -> None:
    roads: dict[str, Callable[[str], Any]] = {
        "database": db.execute,
        "connection": db.conn.execute,
        "cursor": lambda sql: db.conn.cursor().execute(sql),
    }
    if road == "script":
        db.conn.executescript(script)
    else:
        for statement in script.split(";"):
            roads[road](statement)
    assert told.values == expected
    assert not db.conn.in_transaction


def test_commit_and_rollback_methods_end_a_textual_transaction(db: Database, told: Told) -> None:
    db.execute("BEGIN")
    insert(db, 2)
    db.conn.commit()
    db.execute("BEGIN")
    insert(db, 3)
    db.conn.rollback()
    assert told.values == [[1, 2]]


def test_with_the_connection_commits_or_rolls_back(db: Database, told: Told) -> None:
    with db.conn:
        insert(db, 2)
        assert told.values == []
    with pytest.raises(InterruptedError), db.conn:
        insert(db, 3)
        raise InterruptedError
    assert told.values == [[1, 2]]


def test_a_commit_that_violates_a_deferred_foreign_key_tells_nothing(
    db: Database, told: Told
) -> None:
    with pytest.raises(sqlite3.IntegrityError), db.transaction():
        insert(db, 2)
        db.execute("INSERT INTO child VALUES (7)")
    assert told.values == []
    assert not db.conn.in_transaction


def test_a_commit_that_failed_can_be_mended_and_repeated(db: Database, told: Told) -> None:
    db.execute("BEGIN")
    insert(db, 2)
    db.execute("INSERT INTO child VALUES (7)")
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("COMMIT")
    assert db.conn.in_transaction, "SQLite leaves the transaction open"
    assert told.values == []
    db.execute("INSERT INTO parent VALUES (7)")
    db.execute("COMMIT")
    assert told.values == [[1, 2]]


def test_or_fail_keeps_the_earlier_rows_and_tells_them(db: Database, told: Told) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("INSERT OR FAIL INTO t VALUES (2), (1), (3)")
    assert told.values == [[1, 2]]


def test_or_rollback_ends_the_transaction_and_tells_nothing(db: Database, told: Told) -> None:
    db.execute("BEGIN")
    insert(db, 2)
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("INSERT OR ROLLBACK INTO t VALUES (1)")
    assert not db.conn.in_transaction
    assert told.values == []
    insert(db, 3)
    assert told.values == [[1, 3]]


@pytest.mark.parametrize("nested", [False, True])
def test_raise_rollback_in_a_trigger_ends_all_and_tells_nothing(
    db: Database, told: Told, nested: bool
) -> None:
    db.execute(
        "CREATE TRIGGER veto BEFORE INSERT ON t WHEN new.v = 9"
        " BEGIN SELECT RAISE(ROLLBACK, 'no nines'); END"
    )
    with pytest.raises(sqlite3.IntegrityError, match="no nines"), db.transaction():
        insert(db, 2)
        if nested:
            with db.transaction():
                insert(db, 9)
        insert(db, 9)
    assert told.values == []
    insert(db, 3)
    assert told.values == [[1, 3]]


def test_a_statement_that_fails_inside_a_transaction_takes_only_itself_back(
    db: Database, told: Told
) -> None:
    with db.transaction():
        insert(db, 2)
        with pytest.raises(sqlite3.IntegrityError):
            db.execute("INSERT INTO t VALUES (3), (1)")
    assert told.values == [[1, 2]]


def test_a_rolled_back_delete_of_everything_tells_nothing(db: Database, told: Told) -> None:
    db.execute("BEGIN")
    db.execute("DELETE FROM t")
    db.execute("ROLLBACK")
    assert told.values == []
    db.execute("DELETE FROM t")
    assert told.values == [[]]


def test_a_rolled_back_large_load_tells_nothing(db: Database, told: Told) -> None:
    fetches = db.broker.fetches
    with db.transaction(), pytest.raises(InterruptedError), db.transaction():
        db.conn.executemany("INSERT INTO t VALUES (?)", ((n,) for n in range(100, 15_000)))
        raise InterruptedError
    assert told.values == []
    # Where the rows were too many to remember, looking once in vain is allowed.
    assert db.broker.fetches <= fetches + 1


# -- at most once, and never without a difference --------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        (1, 1, False), (1, 1.0, True), (1, "1", True), (1, None, True), ("1", b"1", True),
        (0.0, -0.0, False), ("a", "A", True), (None, None, False), (b"x", b"x", False),
        (2**53, 2**53 + 1, True),
    ],
)  # fmt: skip
def test_equal_means_by_value_and_type(
    db: Database, before: Any, after: Any, differs: bool
) -> None:
    db.execute("CREATE TABLE u(v COLLATE NOCASE)")
    db.execute("INSERT INTO u VALUES (?)", [before])
    recorder: Recorder[Any] = Recorder()
    db.observe("SELECT v FROM u").subscribe(recorder.on_next)
    db.execute("UPDATE u SET v = ?", [after])
    # SQLite itself stores the real number -0.0 as the integer zero's twin 0.0.
    assert [type(rows[0]["v"]) for rows in recorder.values[1:]] == [type(after)] * differs


def test_order_and_duplicates_count(db: Database, recorder: Recorder[Any]) -> None:
    db.conn.executescript("CREATE TABLE u(k, v); INSERT INTO u VALUES (1, 'a'), (2, 'b')")
    query = db.observe("SELECT v FROM u ORDER BY k")
    query.decoded(lambda rows: [row["v"] for row in rows]).subscribe(recorder.on_next)
    db.execute("UPDATE u SET k = 3 - k")
    db.execute("INSERT INTO u VALUES (9, 'a')")
    assert recorder.values == [["a", "b"], ["b", "a"], ["b", "a", "a"]]


def test_a_transaction_that_takes_itself_back_emits_nothing(db: Database, told: Told) -> None:
    with db.transaction():
        insert(db, 2)
        db.execute("DELETE FROM t WHERE v = 2")
    assert told.values == []


# -- subscribing and reading inside a transaction --------------------------------------------------


@pytest.mark.parametrize("commits", [True, False])
def test_subscribing_inside_a_transaction_waits_for_its_end(
    db: Database, told: Told, commits: bool
) -> None:
    recorder: Recorder[Any] = Recorder()
    db.execute("BEGIN")
    insert(db, 2)
    db.observe_value("SELECT count(*) FROM t").subscribe(recorder.on_next)
    assert recorder.values == []
    db.execute("COMMIT" if commits else "ROLLBACK")
    assert recorder.values == [2 if commits else 1]
    insert(db, 3)
    assert recorder.values[1:] == [3 if commits else 2], "and then it hears of changes"


def test_disposing_inside_the_same_transaction_hears_nothing(db: Database, told: Told) -> None:
    recorder: Recorder[Any] = Recorder()
    with db.transaction():
        db.observe_value("SELECT count(*) FROM t").subscribe(recorder.on_next).dispose()
    assert recorder.values == []


def test_accessors_in_a_transaction_give_the_last_committed_value(db: Database, told: Told) -> None:
    observed = db.observe_value("SELECT count(*) FROM t")
    observed.subscribe(lambda _: None)
    with db.transaction():
        insert(db, 2)
        assert (observed(), observed.peek()) == (1, 1)
    assert observed() == 2


def test_an_idle_accessor_in_a_transaction_is_not_ready(db: Database, told: Told) -> None:
    idle = db.observe_value("SELECT count(*) + 0 FROM t")
    with db.transaction():
        with pytest.raises(NotReady):
            idle()
        with pytest.raises(NotReady):
            idle.peek()
    assert idle() == 1


def test_an_idle_accessor_remembers_what_it_read_since_the_last_commit(
    db: Database, told: Told
) -> None:
    idle = db.observe_value("SELECT count(*) + 0 FROM t")
    assert idle() == 1
    with db.transaction():
        insert(db, 2)
        assert idle() == 1, "nothing was committed after it was read"
    with db.transaction(), pytest.raises(NotReady):
        idle()


def test_an_effect_made_inside_a_transaction_gets_its_value_in_the_end(
    db: Database, told: Told
) -> None:
    count = db.observe_value("SELECT count(*) FROM t")
    seen: list[Any] = []

    def effect() -> None:
        try:
            seen.append(count())
        except NotReady:
            seen.append("not ready")

    def root(dispose: Callable[[], None]) -> Callable[[], None]:
        create_effect(effect)
        return dispose

    with db.transaction():
        insert(db, 2)
        dispose = create_root(root)
        assert seen == ["not ready"]
    assert seen == ["not ready", 2], "it was waiting for a value, and now there is one"
    insert(db, 3)
    assert seen[2:] == [3]
    dispose()


def test_an_effect_that_read_the_committed_value_inside_a_transaction_hears_of_its_commit(
    db: Database, told: Told
) -> None:
    count = db.observe_value("SELECT count(*) FROM t")
    assert count() == 1
    seen: list[int] = []

    def root(dispose: Callable[[], None]) -> Callable[[], None]:
        create_effect(lambda: seen.append(count()))
        return dispose

    with db.transaction():
        insert(db, 2)
        dispose = create_root(root)
        assert seen == [1]
    assert seen == [1, 2]
    insert(db, 3)
    assert seen == [1, 2, 3]
    dispose()


def test_a_memo_read_inside_a_transaction_keeps_nothing_uncommitted(
    db: Database, told: Told
) -> None:
    count = db.observe_value("SELECT count(*) FROM t")
    count.subscribe(lambda _: None)
    doubled = create_memo(lambda: count() * 2)
    with pytest.raises(InterruptedError), db.transaction():
        insert(db, 2)
        assert doubled() == 2
        raise InterruptedError
    assert doubled() == 2
    insert(db, 2)
    assert doubled() == 4


def test_waiting_inside_a_transaction_is_refused(db: Database, told: Told) -> None:
    query = db.observe_value("SELECT count(*) FROM t")
    with db.transaction(), pytest.raises(ReactiveError, match="transaction"):
        query.wait()


def test_other_connections_see_what_was_told(db: Database, told: Told) -> None:
    other = sqlite3.connect(str(db.path))
    seen: list[tuple[int, int]] = []
    db.observe_value("SELECT count(*) FROM t").subscribe(
        lambda n: seen.append((n, other.execute("SELECT count(*) FROM t").fetchone()[0]))
    )
    insert(db, 2)
    with db.transaction():
        insert(db, 3, 4)
    other.close()
    assert seen == [(1, 1), (2, 2), (4, 4)]


def test_queries_run_inside_a_callback_of_a_rollback_see_no_transaction(
    db: Database, told: Told
) -> None:
    seen: list[bool] = []
    db.execute("BEGIN")
    db.observe_value("SELECT count(*) FROM t").subscribe(
        lambda _: seen.append(db.conn.in_transaction)
    )
    db.execute("ROLLBACK")
    assert seen == [False]
