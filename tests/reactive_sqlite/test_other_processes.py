"""Commits of other processes arrive with no call from the user, each of them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import (
    Database,
    DatabaseReplaced,
    catch_error,
    create_effect,
    create_root,
    sqlite3,
)
from reactive_sqlite.connection import Connection
from tests.recorder import Recorder

COMMITS = 1000
CREATE_TEMP_TRIGGER = 5  # the code by which the authorizer is asked

# Commits one row for each line that it reads, so that every commit has to be noticed by itself.
PYTHON_WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute("PRAGMA synchronous = " + sys.argv[2])
for line in sys.stdin:
    connection.execute("INSERT INTO n VALUES (?)", (int(line),))
"""


class Writer:
    """Another process that commits a number when told to."""

    def __init__(self, command: list[str], statement: Callable[[int], str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
        self._statement = statement

    def commit(self, number: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(self._statement(number))
        self._process.stdin.flush()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(30) == 0


def python_writer(path: Path, synchronous: str) -> Writer:
    command = [sys.executable, "-c", PYTHON_WRITER, str(path), synchronous]
    return Writer(command, lambda number: f"{number}\n")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shared.db"


@pytest.fixture
def db(path: Path) -> Iterator[Database]:
    with Database(path) as db:
        db.execute("CREATE TABLE n (i INTEGER PRIMARY KEY)")
        yield db


def every_commit_is_noticed(db: Database, writer: Writer) -> None:
    """Let the writer commit the next number only when the last one has been seen."""
    seen = Recorder[int]()
    latest = db.observe_value("SELECT max(i) FROM n")
    latest.subscribe(seen.on_next)
    for number in range(1, COMMITS + 1):
        writer.commit(number)
        assert latest.wait(partial(eq, number), timeout=10) == number
    writer.close()
    assert seen.values == [None, *range(1, COMMITS + 1)]


@pytest.mark.parametrize("synchronous", ["NORMAL", "FULL"])
def test_none_of_1000_commits_of_the_sqlite3_module_is_missed(
    db: Database, path: Path, synchronous: str
) -> None:
    every_commit_is_noticed(db, python_writer(path, synchronous))


def test_none_of_1000_commits_of_the_command_line_is_missed(
    db: Database, path: Path, sqlite3_cli: str
) -> None:
    command = [sqlite3_cli, str(path)]
    writer = Writer(command, lambda number: f"INSERT INTO n VALUES ({number});\n")
    every_commit_is_noticed(db, writer)


def test_none_of_1000_commits_to_a_rollback_journal_is_missed(path: Path) -> None:
    plain = sqlite3.connect(path)
    plain.execute("PRAGMA journal_mode = DELETE")
    plain.execute("CREATE TABLE n (i INTEGER PRIMARY KEY)")
    plain.close()
    with Database(path) as db:
        assert db.journal_mode == "delete", "an existing file keeps its journal mode"
        every_commit_is_noticed(db, python_writer(path, "NORMAL"))


def test_a_flood_of_commits_ends_with_the_last_value(db: Database, path: Path) -> None:
    latest = db.observe_value("SELECT count(*) FROM n")
    seen = Recorder[int]()
    latest.subscribe(seen.on_next)
    writer = python_writer(path, "NORMAL")
    for number in range(COMMITS):
        writer.commit(number)
    writer.close()
    latest.wait(lambda count: count == COMMITS, timeout=10)
    assert seen.values == sorted(set(seen.values)), "in commit order, none twice"


def test_effects_follow_other_processes(db: Database, path: Path) -> None:
    count = db.observe_value("SELECT count(*) FROM n")
    seen = Recorder[Any]()
    effect = create_effect(lambda: seen.on_next(count()))
    writer = python_writer(path, "NORMAL")
    writer.commit(1)
    writer.close()
    count.wait(lambda value: value == 1, timeout=10)
    effect.dispose()
    assert seen.values == [0, 1]


def test_an_idle_database_queries_nothing(db: Database) -> None:
    db.observe_value("SELECT count(*) FROM n").subscribe()
    fetched = db.broker.fetches
    # Nothing can be awaited here: the safety poll comes once a second, and must find nothing.
    time.sleep(1.5)
    assert db.broker.fetches == fetched


def replace(path: Path) -> None:
    """Put another database in the place of a file."""
    other = path.with_name("other.db")
    other.touch()
    other.replace(path)


def test_a_replaced_file_ends_every_observable_with_an_error(db: Database, path: Path) -> None:
    seen = Recorder[Any]()
    count = db.observe_value("SELECT count(*) FROM n")
    rows = db.observe("SELECT i FROM n")
    others = [db.observe_many(count, rows), rows.diffs(), db.changes()]
    recorders = [seen, *(Recorder[Any]() for _ in others)]
    for observable, recorder in zip([count, *others], recorders, strict=True):
        observable.subscribe(recorder.on_next, recorder.on_error, recorder.on_completed)
    replace(path)
    with pytest.raises(DatabaseReplaced, match=r"shared\.db"):
        count.wait(lambda value: value == "never", timeout=10)
    for recorder in recorders:
        assert isinstance(recorder.wait_for_error(), DatabaseReplaced)
        assert not recorder.completed
    with pytest.raises(DatabaseReplaced):
        count()


def test_an_effect_hears_that_the_file_was_replaced(path: Path) -> None:
    told, caught = Recorder[BaseException](), Recorder[BaseException]()
    with Database(path, on_observer_error=told) as db:
        db.execute("CREATE TABLE n (i INTEGER PRIMARY KEY)")
        count = db.observe_value("SELECT count(*) FROM n")
        create_effect(lambda: count())
        create_root(lambda _: catch_error(lambda: create_effect(lambda: count()), caught))
        asked = db.observe_value("SELECT 1")
        asked()
        replace(path)
        for seen in (told, caught):
            assert [type(error) for error in seen.wait_for_count(1)] == [DatabaseReplaced]


def test_no_effect_is_run_by_closing(path: Path) -> None:
    told, runs = Recorder[BaseException](), Recorder[int]()
    with Database(path, on_observer_error=told) as db:
        one = db.observe_value("SELECT 1")
        create_effect(lambda: runs(one()))
    assert (told.values, runs.values) == ([], [1])


@pytest.mark.parametrize("known", [True, False], ids=["one that was there", "a new one"])
def test_a_file_that_is_replaced_while_it_is_opened_is_noticed(path: Path, known: bool) -> None:
    class Slow(Database):
        def accept(self, connection: Connection) -> None:
            replace(path)

    if known:
        path.touch()
    with Slow(path) as db, pytest.raises(DatabaseReplaced, match=r"shared\.db"):
        db.observe_value("SELECT 1").wait(lambda value: value == "never", timeout=10)


def test_a_file_that_is_removed_while_it_is_opened_is_noticed(path: Path) -> None:
    class Slow(Database):
        def accept(self, connection: Connection) -> None:
            path.unlink()

    with Slow(path) as db, pytest.raises(DatabaseReplaced, match=r"shared\.db is gone"):
        db.observe_value("SELECT 1").wait(lambda value: value == "never", timeout=10)


def test_a_removed_file_ends_every_observable_with_an_error(db: Database, path: Path) -> None:
    count = db.observe_value("SELECT count(*) FROM n")
    path.unlink()
    with pytest.raises(DatabaseReplaced):
        count.wait(lambda value: value == "never", timeout=10)


def rollback_journal(path: Path) -> sqlite3.Connection:
    """Make a database with a rollback journal, where one writer keeps even readers out."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE n (i INTEGER PRIMARY KEY)")
    return other


def test_a_file_that_another_process_has_locked_is_looked_at_later_and_in_silence(
    path: Path,
) -> None:
    reported: list[BaseException] = []
    other = rollback_journal(path)
    with Database(path, watch=False, busy_timeout=0, on_observer_error=reported.append) as db:
        seen = Recorder[int]()
        db.observe_value("SELECT count(*) FROM n").subscribe(seen)
        other.execute("BEGIN EXCLUSIVE")
        other.execute("INSERT INTO n VALUES (1)")
        assert not db.broker.check()
        other.execute("COMMIT")
        assert db.broker.check()
        assert (seen.values, reported) == ([0, 1], [])
    other.close()


@pytest.mark.parametrize("definition", ["CREATE TABLE other (i)", "ALTER TABLE n ADD COLUMN v"])
def test_a_lock_taken_right_after_our_commit_never_makes_the_commit_raise(
    path: Path, definition: str
) -> None:
    reported: list[BaseException] = []
    other = rollback_journal(path)
    with Database(path, watch=False, busy_timeout=0, on_observer_error=reported.append) as db:
        seen = Recorder[int]()
        db.observe_value("SELECT count(*) FROM n").subscribe(seen)

        def lock_before_our_triggers_are_made_anew(code: int, *_: object) -> int:
            if code == CREATE_TEMP_TRIGGER and not other.in_transaction:
                other.execute("BEGIN EXCLUSIVE")
            return 0

        db.conn.set_authorizer(lock_before_our_triggers_are_made_anew)
        db.execute("INSERT INTO n VALUES (1)")
        db.execute(definition)
        db.conn.set_authorizer(None)
        assert other.in_transaction, "the lock was taken in the midst of our work"
        other.execute("INSERT INTO n (i) VALUES (2)")
        other.execute("COMMIT")
        assert db.broker.check()
        assert seen.last == 2
        db.execute("INSERT INTO n (i) VALUES (3)")
        assert (seen.last, reported) == (3, [])
    other.close()
