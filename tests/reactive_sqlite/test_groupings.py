"""What a block writes is committed at its end or not at all, whatever ends its transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

import pytest

from reactive_sqlite import ChangeSet, Database, DatabaseClosed, sqlite3
from tests.recorder import Recorder

Block = Callable[[Database], AbstractContextManager[object]]

BLOCKS: dict[str, Block] = {
    "transaction": lambda db: db.transaction(),
    "atomic": lambda db: db.atomic(),
    "connection": lambda db: db.conn,
}
ROLLING_BACK: dict[str, Callable[[Database], object]] = {
    "or rollback": lambda db: db.execute("INSERT OR ROLLBACK INTO t VALUES (1)"),
    "raise": lambda db: db.execute("INSERT INTO t VALUES (9)"),
    "many": lambda db: db.conn.executemany("INSERT OR ROLLBACK INTO t VALUES (?)", [(3,), (1,)]),
    "interrupted": lambda db: interrupted(db),
    "cursor": lambda db: sqlite3.Cursor(db.conn).execute("INSERT OR ROLLBACK INTO t VALUES (1)"),
}
ENDING: dict[str, Callable[[Database], object]] = {
    "text": lambda db: db.execute("/* now */ commit"),
    "known text": lambda db: db.execute("COMMIT"),
    "end": lambda db: db.execute("END TRANSACTION"),
    "cursor": lambda db: db.conn.cursor().execute("COMMIT"),
    "script": lambda db: db.conn.executescript("INSERT INTO t VALUES (5)"),
    "method": lambda db: db.conn.commit(),
    "database": lambda db: db.commit(),
}


@pytest.fixture
def told(db: Database) -> Recorder[Any]:
    """What the values of table t were said to be, from [1] on."""
    db.conn.executescript("""
        CREATE TABLE t(v UNIQUE); INSERT INTO t VALUES (1);
        CREATE TRIGGER veto BEFORE INSERT ON t WHEN new.v = 9
        BEGIN SELECT RAISE(ROLLBACK, 'no nines'); END;
        BEGIN; COMMIT;
    """)
    recorder = Recorder[Any]()
    found = db.observe("SELECT v FROM t ORDER BY v").decoded(lambda rows: [r["v"] for r in rows])
    found.subscribe(recorder.on_next, recorder.on_error)
    assert recorder.take() == [[1]]
    return recorder


def stored(db: Database) -> list[Any]:
    return [row[0] for row in db.execute("SELECT v FROM t ORDER BY v")]


def insert(db: Database, value: int) -> None:
    db.execute("INSERT INTO t VALUES (?)", [value])


def interrupted(db: Database) -> None:
    db.conn.set_progress_handler(lambda: 1, 1)
    try:
        insert(db, 8)
    finally:
        db.conn.set_progress_handler(None, 1)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("how", ROLLING_BACK)
@pytest.mark.parametrize("kind", BLOCKS)
def test_what_follows_an_error_that_rolled_all_back_is_not_committed_by_itself(
    db: Database, told: Recorder[Any], kind: str, how: str, nested: bool
) -> None:
    block, changes = BLOCKS[kind], Recorder[ChangeSet]()
    db.changes().subscribe(changes.on_next)
    with pytest.raises(sqlite3.OperationalError, match="rolled back") as caught, block(db):
        insert(db, 2)
        with suppress(sqlite3.Error):
            if nested:
                with db.transaction():
                    ROLLING_BACK[how](db)
            else:
                ROLLING_BACK[how](db)
        with suppress(sqlite3.OperationalError):
            insert(db, 3)  # as whoever writes down that something went wrong
        with suppress(sqlite3.OperationalError), db.transaction():
            insert(db, 4)
    if how != "cursor":  # which nobody but SQLite has seen
        assert isinstance(caught.value.__cause__, sqlite3.Error), "it says which error that was"
    assert stored(db) == [1]
    assert told.values == []
    if how != "cursor":  # what it did is not known: that there is a change may be said in vain
        assert changes.values == []
    insert(db, 7)
    assert told.values == [[1, 7]], "and afterwards all is as ever"
    assert changes.last.rows is not None


@pytest.mark.parametrize("how", ENDING)
def test_nothing_but_its_end_commits_a_transaction(
    db: Database, told: Recorder[Any], how: str
) -> None:
    with pytest.raises(ZeroDivisionError), db.transaction():
        insert(db, 2)
        with pytest.raises(sqlite3.OperationalError, match="only its end"):
            ENDING[how](db)
        assert db.conn.in_transaction
        insert(db, 3)
        raise ZeroDivisionError
    assert stored(db) == [1]
    with db.transaction():
        insert(db, 2)
        with suppress(sqlite3.OperationalError):
            ENDING[how](db)
    assert told.values == [[1, 2]]


def test_a_block_of_the_connection_inside_a_transaction_is_a_savepoint(
    db: Database, told: Recorder[Any]
) -> None:
    with db.transaction():
        with db.conn:
            insert(db, 2)
            with suppress(ZeroDivisionError), db.conn:
                insert(db, 3)
                raise ZeroDivisionError
        insert(db, 4)
    assert told.values == [[1, 2, 4]]
    with pytest.raises(ZeroDivisionError), db.transaction():
        with db.conn:
            insert(db, 5)
        raise ZeroDivisionError
    assert stored(db) == [1, 2, 4]


def test_a_block_of_the_connection_may_commit_by_itself_as_in_sqlite3(
    db: Database, told: Recorder[Any]
) -> None:
    with db.conn:
        insert(db, 2)
        db.conn.commit()
    with pytest.raises(ZeroDivisionError), db.conn:
        insert(db, 3)
        db.execute("ROLLBACK")
        insert(db, 4)
        raise ZeroDivisionError
    assert told.values == [[1, 2], [1, 2, 4]]


def test_a_transaction_that_is_rolled_back_by_hand_is_over(
    db: Database, told: Recorder[Any]
) -> None:
    with pytest.raises(sqlite3.OperationalError, match="rolled back"), db.transaction():
        insert(db, 2)
        db.conn.rollback()
        assert db.conn.in_transaction, "its block is still to be left"
        db.conn.rollback()
        insert(db, 3)
    assert not db.conn.in_transaction
    assert stored(db) == [1]


def test_observers_begun_in_a_transaction_that_was_rolled_back_begin_at_its_end(
    db: Database, told: Recorder[Any]
) -> None:
    late = Recorder[Any]()
    with suppress(sqlite3.Error), db.transaction():
        insert(db, 2)
        with suppress(sqlite3.Error):
            insert(db, 9)
        db.observe_value("SELECT count(*) FROM t").subscribe(late.on_next)
        assert late.values == []
    assert late.values == [1]
    insert(db, 5)
    assert late.values == [1, 2]


def test_other_threads_come_when_the_block_has_been_left(db: Database, told: Recorder[Any]) -> None:
    other = threading.Thread(target=insert, args=(db, 6))
    with suppress(sqlite3.OperationalError), db.transaction():
        with suppress(sqlite3.IntegrityError):
            insert(db, 9)
        other.start()
        assert stored_elsewhere(db) == [1]
    other.join(10)
    assert not other.is_alive()
    assert stored(db) == [1, 6]


def test_a_thread_that_ends_in_a_block_that_is_over_keeps_nobody_waiting(
    db: Database, told: Recorder[Any]
) -> None:
    def leave() -> None:
        db.transaction().__enter__()
        with suppress(sqlite3.IntegrityError):
            insert(db, 9)

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join(10)
    insert(db, 6)
    assert stored(db) == [1, 6]


def test_it_may_be_closed_in_a_block_that_is_over(db: Database, told: Recorder[Any]) -> None:
    with pytest.raises(DatabaseClosed), db.transaction():
        with suppress(sqlite3.IntegrityError):
            insert(db, 9)
        db.close()


def stored_elsewhere(db: Database) -> list[Any]:
    """What another connection finds."""
    other = sqlite3.connect(str(db.path))
    try:
        return [row[0] for row in other.execute("SELECT v FROM t ORDER BY v")]
    finally:
        other.close()
