"""What the storage classes share: transactions that undo what is kept in memory, and what runs."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactive_sqlite import DatabaseClosed, sqlite3
from smithers import ReadOnly, SmithersDB, create_smithers_db
from smithers.clock import utc_now
from smithers.schema import migrate
from smithers.workspace import WorkflowDatabase, Workspace, workspace
from tests.forgotten import forgets


@pytest.fixture
def database(tmp_path: Path) -> Iterator[WorkflowDatabase]:
    opened = WorkflowDatabase(tmp_path / "db.sqlite")
    with opened.transaction():
        migrate(opened)
    opened.numbering = True
    yield opened
    opened.close()


@pytest.fixture
def shared(database: WorkflowDatabase) -> Workspace:
    return workspace(database, utc_now, read_only=False)


def test_what_a_rolled_back_transaction_kept_in_memory_is_undone_newest_first(
    database: WorkflowDatabase,
) -> None:
    undone: list[int] = []
    with pytest.raises(KeyError), database.transaction():
        database.on_rollback(lambda: undone.append(1))
        with database.transaction():
            database.on_rollback(lambda: undone.append(2))
        database.on_rollback(lambda: undone.append(3))
        raise KeyError
    assert undone == [3, 2, 1]


def test_a_rolled_back_savepoint_undoes_its_own_alone(database: WorkflowDatabase) -> None:
    undone: list[str] = []
    with database.transaction():
        database.on_rollback(lambda: undone.append("outer"))
        with pytest.raises(KeyError), database.transaction():
            database.on_rollback(lambda: undone.append("inner"))
            raise KeyError
        assert undone == ["inner"]
    assert undone == ["inner"], "what is committed is never undone"


def test_a_transaction_that_cannot_be_committed_is_undone(database: WorkflowDatabase) -> None:
    undone: list[str] = []
    with pytest.raises(sqlite3.IntegrityError), database.transaction():
        database.conn.execute("PRAGMA defer_foreign_keys = ON")
        database.conn.execute(
            "INSERT INTO phases (id, execution_id, name) VALUES ('p', 'nowhere', 'n')"
        )
        database.on_rollback(lambda: undone.append("start"))
    assert undone == ["start"]


def test_outside_a_transaction_there_is_nothing_to_be_undone(database: WorkflowDatabase) -> None:
    undone: list[str] = []
    database.on_rollback(lambda: undone.append("never"))
    with pytest.raises(KeyError), database.transaction():
        thread = threading.Thread(
            target=database.on_rollback, args=(lambda: undone.append("another thread's"),)
        )
        thread.start()
        thread.join()
        raise KeyError
    assert undone == []


def test_memory_is_undone_while_other_threads_still_wait(database: WorkflowDatabase) -> None:
    seen: list[bool] = []
    waiting = threading.Event()
    kept = ["uncommitted"]

    def write() -> None:
        waiting.set()
        with database.transaction():
            seen.append(kept == [])

    other = threading.Thread(target=write)
    with pytest.raises(KeyError), database.transaction():
        database.on_rollback(kept.clear)
        other.start()
        waiting.wait()
        raise KeyError
    other.join()
    assert seen == [True]


def test_rolling_back_by_hand_undoes_all_and_the_block_cannot_commit(
    database: WorkflowDatabase,
) -> None:
    undone: list[int] = []
    with pytest.raises(sqlite3.OperationalError), database.transaction():
        database.on_rollback(lambda: undone.append(1))
        with database.transaction():
            database.on_rollback(lambda: undone.append(2))
            database.roll_back()
            assert undone == [2, 1]
    assert undone == [2, 1], "once"
    database.roll_back()
    with database.transaction():
        pass


def test_before_each_outermost_commit_is_called_inside_it(database: WorkflowDatabase) -> None:
    inside: list[bool] = []
    database.before_commit = lambda: inside.append(database.conn.owned_here())
    with database.transaction(), database.transaction():
        pass
    assert inside == [True]
    with pytest.raises(KeyError), database.transaction():
        raise KeyError
    assert inside == [True], "not before a rollback"


def test_a_row_whose_start_is_rolled_back_runs_nowhere(shared: Workspace) -> None:
    with pytest.raises(KeyError), shared.transaction():
        shared.started("execution", "e", "e").enter()
        shared.started("agent", "a", "e").enter()
        assert shared.cause() == ("e", "a")
        raise KeyError
    assert shared.cause() == (None, None)


def test_a_read_only_workspace_names_what_it_refuses(database: WorkflowDatabase) -> None:
    with pytest.raises(ReadOnly, match="cannot start phase 'x'"):
        workspace(database, utc_now, read_only=True).check_writable("start phase 'x'")


def test_closing_inside_a_transaction_undoes_it_and_gives_the_leases_back(
    db: SmithersDB, elsewhere: SmithersDB
) -> None:
    ended = db.execution.start("its end is undone")
    begun: list[str] = []
    with pytest.raises(DatabaseClosed), db.transaction():
        db.execution.complete(ended)
        begun.append(db.execution.start("its start is undone"))
        db.close()
    assert elsewhere.execution.get(begun[0]) is None
    assert elsewhere.execution.resume(ended).status == "running"


@forgets
def test_a_handle_that_is_dropped_is_collected_though_it_ran_something(path: Path) -> None:
    db = create_smithers_db(path)
    db.execution.start("forgotten")
    known = weakref.ref(db.database)
    del db
    gc.collect()
    assert known() is None, "the context of this thread would hold it for ever"
