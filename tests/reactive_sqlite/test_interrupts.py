"""Whoever interrupts what runs, or takes its memory, leaves no observer with an old value."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from reactive_sqlite import Database, sqlite3
from tests.recorder import Recorder

COUNT = "SELECT count(*) FROM t"


@pytest.fixture
def told(db: Database) -> Recorder[Any]:
    """How many rows table t was said to have, from 0 on."""
    db.execute("CREATE TABLE t(v)")
    recorder = Recorder[Any]()
    db.observe_value(COUNT).subscribe(recorder.on_next, recorder.on_error)
    assert recorder.take() == [0]
    return recorder


def insert(db: Database, count: int = 2) -> None:
    db.execute(f"INSERT INTO t VALUES {', '.join(['(1)'] * count)}")


def test_an_interrupt_that_meets_a_re_run_is_not_meant_for_it(
    db: Database, told: Recorder[Any], observer_errors: list[BaseException]
) -> None:
    met: list[str] = []

    def interrupt(sql: str) -> None:
        if sql == COUNT and not met:
            met.append(sql)
            db.conn.interrupt()

    db.conn.set_trace_callback(interrupt)
    insert(db)
    assert met
    assert told.values == [2]
    assert observer_errors == []


def test_one_who_interrupts_everything_is_told_and_afterwards_all_is_current(
    db: Database, told: Recorder[Any], observer_errors: list[BaseException]
) -> None:
    def interrupt(sql: str) -> None:
        if sql == COUNT:
            db.conn.interrupt()

    db.conn.set_trace_callback(interrupt)
    insert(db)
    assert told.values == []
    assert [str(error) for error in observer_errors] == ["interrupted"]
    db.conn.set_trace_callback(None)
    db.broker.check()  # as the watcher does, though nobody has committed anything
    assert told.values == [2]


def error_of_no_memory() -> type[BaseException]:
    """What a function's MemoryError is called here."""

    def needing() -> int:
        raise MemoryError

    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.create_function("needing", 0, needing)
        with pytest.raises((MemoryError, sqlite3.OperationalError)) as raised:
            connection.execute("SELECT needing()").fetchone()
    return raised.type


def test_a_re_run_that_finds_no_memory_never_reaches_the_writer(
    db: Database, observer_errors: list[BaseException]
) -> None:
    if error_of_no_memory() is not MemoryError:
        pytest.skip("pysqlite3 tells a function's lack of memory from none of its other errors")
    scarce = False

    def needing(value: int) -> int:
        if scarce:
            raise MemoryError
        return value

    db.conn.create_function("needing", 1, needing)
    db.execute("CREATE TABLE t(v)")
    told = Recorder[Any]()
    query = db.observe_value("SELECT needing(count(*)) FROM t")
    query.subscribe(told.on_next, told.on_error)
    scarce = True
    insert(db)
    assert [type(error) for error in observer_errors] == [MemoryError]
    with pytest.raises(MemoryError):
        query()
    scarce = False
    db.broker.check()
    assert query() == 2
    assert told.values == [0, 2]
    assert told.errors == []


def test_a_statement_of_ones_own_is_interrupted_and_its_transaction_is_over(
    db: Database, told: Recorder[Any]
) -> None:
    with pytest.raises(sqlite3.OperationalError, match="rolled back"), db.transaction():
        insert(db)
        db.conn.set_progress_handler(lambda: 1, 1)
        with contextlib.suppress(sqlite3.OperationalError):
            insert(db)
        db.conn.set_progress_handler(None, 1)
    assert told.values == []
