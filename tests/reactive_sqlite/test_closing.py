"""How a database ends, and how it refuses to begin."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from reactive_sqlite import (
    Database,
    DatabaseClosed,
    DatabaseReplaced,
    ReactiveError,
    create_effect,
    create_memo,
    create_root,
    sqlite3,
)
from reactive_sqlite.connection import Connection
from tests.forgotten import forgets
from tests.reactive_sqlite.threads import beside, elsewhere
from tests.recorder import Recorder


@pytest.fixture(autouse=True)
def table(db: Database) -> None:
    db.conn.executescript("CREATE TABLE t(v); INSERT INTO t VALUES (1)")


# -- closing ---------------------------------------------------------------------------------------


def test_closing_completes_every_subscriber_once(db: Database, recorder: Recorder[Any]) -> None:
    query = db.observe_value("SELECT v FROM t")
    query.subscribe(recorder.on_next, recorder.on_error, recorder.on_completed)
    db.changes().subscribe(recorder.on_next, recorder.on_error, recorder.on_completed)
    db.observe_many(query, query).subscribe(
        recorder.on_next, recorder.on_error, recorder.on_completed
    )
    db.close()
    db.close()
    assert (recorder.completed, recorder.errors) == (3, [])


CALLS: dict[str, Callable[[Database], Any]] = {
    "execute": lambda db: db.execute("SELECT 1"),
    "query": lambda db: list(db.query("SELECT 1")),
    "connection": lambda db: db.conn.execute("SELECT 1"),
    "many": lambda db: db.conn.executemany("INSERT INTO t VALUES (?)", [(1,)]),
    "script": lambda db: db.conn.executescript("SELECT 1"),
    "cursor": lambda db: db.conn.cursor(),
    "commit": lambda db: db.conn.commit(),
    "with": lambda db: contextlib.ExitStack().enter_context(db.conn),
    "table": lambda db: db["t"],
    "observe": lambda db: db.observe("SELECT 1"),
    "observe_one": lambda db: db.observe_one("SELECT 1"),
    "observe_value": lambda db: db.observe_value("SELECT 1"),
    "changes": lambda db: db.changes().subscribe(),
    "transaction": lambda db: contextlib.ExitStack().enter_context(db.transaction()),
    "atomic": lambda db: contextlib.ExitStack().enter_context(db.atomic()),
    "refresh": lambda db: db.refresh(),
    "table names": lambda db: db.table_names(),
    "reads only": lambda db: db.reads_only("SELECT 1"),
    "blob": lambda db: db.conn.blobopen("t", "v", 1, readonly=True),
}


@pytest.mark.parametrize("call", CALLS)
def test_later_calls_raise_database_closed(db: Database, call: str) -> None:
    db.close()
    with pytest.raises(DatabaseClosed):
        CALLS[call](db)
    assert issubclass(DatabaseClosed, ReactiveError)


def test_accessors_raise_database_closed(db: Database) -> None:
    idle, followed = db.observe_value("SELECT v FROM t"), db.observe_value("SELECT 2")
    followed.subscribe()
    table = db["t"]
    memo = create_memo(lambda: followed())
    assert memo() == 2
    db.close()
    for read in (idle, idle.peek, followed, followed.peek, memo, idle.wait):
        with pytest.raises(DatabaseClosed):
            read()
    for subscribe in (idle.subscribe, followed.subscribe, table.observe, table.count_where):
        with pytest.raises(DatabaseClosed):
            subscribe()


async def test_awaiting_a_closed_query_raises_database_closed(db: Database) -> None:
    query = db.observe_value("SELECT v FROM t")
    db.close()
    with pytest.raises(DatabaseClosed):
        await query
    with pytest.raises(DatabaseClosed):
        async for _ in query:
            pass


def test_a_subscriber_of_a_closed_database_is_told_by_its_on_error(
    db: Database, recorder: Recorder[Any]
) -> None:
    query = db.observe_value("SELECT v FROM t")
    db.close()
    query.subscribe(recorder.on_next, recorder.on_error, recorder.on_completed)
    assert [type(error) for error in recorder.errors] == [DatabaseClosed]


def test_the_with_block_closes(tmp_path: Path, recorder: Recorder[Any]) -> None:
    with Database(tmp_path / "w.db") as db:
        db.execute("CREATE TABLE t(v)")
        db.observe("SELECT * FROM t").subscribe(recorder.on_next, None, recorder.on_completed)
    assert recorder.completed == 1
    with pytest.raises(DatabaseClosed):
        db.execute("SELECT 1")


def test_the_with_block_closes_when_it_raises(tmp_path: Path) -> None:
    with pytest.raises(InterruptedError), Database(tmp_path / "w.db") as db:
        raise InterruptedError
    assert db.conn.closed


def test_closing_with_effects_alive_is_quiet(
    db: Database, observer_errors: list[BaseException]
) -> None:
    query = db.observe_value("SELECT v FROM t")
    seen: list[int] = []

    def root(dispose: Callable[[], None]) -> Callable[[], None]:
        create_effect(lambda: seen.append(query()))
        return dispose

    dispose = create_root(root)
    db.close()
    dispose()
    assert seen == [1]
    assert observer_errors == []


def test_closing_rolls_an_open_transaction_back(db: Database) -> None:
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES (2)")
    db.close()
    with Database(db.path, watch=False) as again:
        assert again["t"].count == 1


def test_closing_from_another_thread(db: Database, recorder: Recorder[Any]) -> None:
    query = db.observe_value("SELECT v FROM t")
    query.subscribe(recorder.on_next, recorder.on_error, recorder.on_completed)
    elsewhere(db.close)
    recorder.wait_for_completion()
    with pytest.raises(DatabaseClosed):
        query()


def test_closing_from_a_callback(db: Database, recorder: Recorder[Any]) -> None:
    query = db.observe_value("SELECT v FROM t")
    query.subscribe(lambda value: db.close() if value == 2 else None)
    query.subscribe(recorder.on_next, recorder.on_error, recorder.on_completed)
    db.execute("UPDATE t SET v = 2")
    assert recorder.completed == 1
    assert recorder.errors == []


def test_closing_while_others_write_raises_only_database_closed(db: Database) -> None:
    db.observe_value("SELECT count(*) FROM t").subscribe(lambda _: None)
    started = threading.Event()

    def write() -> None:
        with contextlib.suppress(DatabaseClosed):
            while True:
                db.execute("INSERT INTO t VALUES (2)")
                started.set()

    with beside(write), beside(write):
        assert started.wait(10)
        db.close()


def test_closing_while_a_callback_runs_does_not_deadlock(db: Database) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(value: int) -> None:
        if value == 2:
            entered.set()
            assert leave.wait(10)

    db.observe_value("SELECT v FROM t").subscribe(slow)
    with beside(lambda: db.execute("UPDATE t SET v = 2")):
        assert entered.wait(10)
        db.close()
        leave.set()


def test_closing_in_vain_leaves_a_database_that_is_still_watched(
    tmp_path: Path, recorder: Recorder[Any]
) -> None:
    path = tmp_path / "w.db"
    begun, end = threading.Event(), threading.Event()
    with Database(path, busy_timeout=0.05) as db:
        db.execute("CREATE TABLE t(v)")
        db.observe_value("SELECT count(*) FROM t").subscribe(recorder.on_next)

        def hold() -> None:
            with db.transaction():
                begun.set()
                assert end.wait(10)

        with beside(hold):
            assert begun.wait(10)
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                db.close()
            end.set()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("INSERT INTO t VALUES (1)")
        other.close()
        recorder.wait_for(lambda count: count == 1)


def test_a_thread_that_ended_inside_a_transaction_does_not_keep_the_lock(tmp_path: Path) -> None:
    with Database(tmp_path / "w.db", watch=False, busy_timeout=0.05) as db:
        db.execute("CREATE TABLE t(v)")

        def begin() -> None:
            db.execute("BEGIN")
            db.execute("INSERT INTO t VALUES ('lost')")

        elsewhere(begin)
        db.execute("INSERT INTO t VALUES ('kept')")
        assert [row["v"] for row in db["t"].rows] == ["kept"]


def test_closing_leaves_no_thread_behind(tmp_path: Path) -> None:
    before = threading.active_count()
    with Database(tmp_path / "w.db") as db:
        db.execute("CREATE TABLE t(v)")
        db.observe("SELECT * FROM t").subscribe()
    assert threading.active_count() == before


@forgets
def test_a_database_that_was_forgotten_gives_back_its_thread_and_its_file(tmp_path: Path) -> None:
    script = (
        "import gc, os, sys, threading; from reactive_sqlite import Database\n"
        "before = len(os.listdir('/dev/fd')), threading.active_count()\n"
        "db = Database(sys.argv[1]); db.execute('CREATE TABLE t(v)')\n"
        "seen = []; db.observe('SELECT v FROM t').subscribe(seen.append)\n"
        "db.execute('INSERT INTO t VALUES (1)')\n"
        "assert seen[-1] == [{'v': 1}]\n"
        "watcher = [t for t in threading.enumerate() if 'watcher' in t.name]\n"
        "del db; gc.collect(); [thread.join(10) for thread in watcher]; gc.collect()\n"
        "assert (len(os.listdir('/dev/fd')), threading.active_count()) == before\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore::ResourceWarning", "-c", script, str(tmp_path / "w.db")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_database_that_was_forgotten_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    script = (
        "import sys; from reactive_sqlite import Database\n"
        "db = Database(sys.argv[1]); db.execute('CREATE TABLE t(v)')\n"
        "db.observe('SELECT v FROM t').subscribe(lambda rows: None)\n"
        "db.execute('INSERT INTO t VALUES (1)')\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore::ResourceWarning", "-c", script, str(tmp_path / "w.db")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


async def test_a_loop_over_a_closing_database_ends(db: Database) -> None:
    seen: list[int] = []

    async def follow() -> None:
        async for value in db.observe_value("SELECT v FROM t"):
            seen.append(value)

    task = asyncio.create_task(follow())
    await asyncio.sleep(0)
    await asyncio.to_thread(db.close)
    await asyncio.wait_for(task, 10)
    assert seen in ([1], [])


# -- read-only -------------------------------------------------------------------------------------


def digest(path: Path) -> dict[str, str]:
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.parent.glob(path.name + "*"))
        if not file.name.endswith("-shm")
    }


@pytest.fixture(params=["WAL", "DELETE"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "folder" / "kept.db"
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode = {request.param}")
    connection.executescript("CREATE TABLE t(v); INSERT INTO t VALUES (1)")
    connection.close()
    return path


def test_a_read_only_database_changes_no_byte(file: Path, recorder: Recorder[Any]) -> None:
    before = digest(file)
    with Database(file, read_only=True) as db:
        db.observe("SELECT v FROM t").subscribe(recorder.on_next)
        with db.transaction():
            assert db["t"].count == 1
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.execute("INSERT INTO t VALUES (2)")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.execute("CREATE TABLE u(v)")
    after = digest(file)
    assert after[file.name] == before[file.name]
    assert recorder.values == [[{"v": 1}]]


def test_a_read_only_database_sees_the_writes_of_others(
    file: Path, recorder: Recorder[Any]
) -> None:
    with Database(file, read_only=True, watch=False) as db:
        db.observe_value("SELECT count(*) FROM t").subscribe(recorder.on_next)
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("INSERT INTO t VALUES (2)")
        db.broker.check()
        assert recorder.values == [1, 2]
        other.close()


def test_a_read_only_database_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    with pytest.raises(sqlite3.OperationalError) as caught:
        Database(path, read_only=True)
    assert any(str(path) in note for note in caught.value.__notes__)
    assert not path.exists()


# -- refusing to open ------------------------------------------------------------------------------


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("this is not a database, whatever its name says\n" * 50)
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(sqlite3.DatabaseError, match="not a database") as caught:
            Database(path, read_only=read_only)
        assert any(str(path) in note for note in caught.value.__notes__)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("text.db-*"))


def test_a_corrupt_database_is_sqlites_error(tmp_path: Path) -> None:
    path = tmp_path / "corrupt.db"
    with Database(path, watch=False) as db:
        db.execute("CREATE TABLE t(v)")
        db.conn.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 200)
        db.execute("PRAGMA journal_mode = DELETE")
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with Database(path, watch=False) as db, pytest.raises(sqlite3.DatabaseError):
        db.observe("SELECT * FROM t").subscribe()


@pytest.mark.parametrize("name", ["missing/x.db", ".", "file/x.db"])
def test_a_bad_path_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / name
    with pytest.raises((sqlite3.Error, OSError)) as caught:
        Database(path)
    said = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert str(path) in said
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize(
    "options",
    [{"synchronous": "SOMETIMES"}, {"busy_timeout": -1}, {"busy_timeout": float("nan")}],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Database(tmp_path / "x.db", **options)
    assert not (tmp_path / "x.db").exists()


def test_a_path_may_hold_any_character(tmp_path: Path) -> None:
    path = tmp_path / "a b?c=d#e%20é.db"
    with Database(path) as db:
        db.execute("CREATE TABLE t(v)")
    with Database(path, read_only=True) as db:
        assert db.table_names() == ["t"]
    assert path.exists()


def test_memory_needs_no_path() -> None:
    for db in (Database(memory=True), Database(":memory:")):
        with db:
            db.execute("CREATE TABLE t(v)")
            assert db.path is None


def test_two_databases_of_one_file_see_each_other(db: Database, recorder: Recorder[Any]) -> None:
    with Database(db.path, watch=False) as other:
        other.observe_value("SELECT count(*) FROM t").subscribe(recorder.on_next)
        db.execute("INSERT INTO t VALUES (2)")
        other.broker.check()
    assert recorder.values == [1, 2]


def test_what_is_no_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    with (
        contextlib.closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(TypeError, match="a str or a Path"),
    ):
        Database(cast(Any, connection))
    with pytest.raises(ValueError, match="without a file"):
        Database("lost.db", memory=True)
    assert not list(empty.iterdir()), "no file was made"


def test_after_its_file_was_replaced_every_call_says_so(tmp_path: Path) -> None:
    path = tmp_path / "gone.db"
    with Database(path) as db:
        count = db.observe_value("SELECT 1")
        path.unlink()
        with pytest.raises(DatabaseReplaced):
            count.wait(lambda value: value == 2, timeout=10)
        for call in (lambda: db.execute("SELECT 1"), lambda: db.observe("SELECT 1"), count):
            with pytest.raises(DatabaseReplaced):
                call()


def test_one_that_cannot_be_watched_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    opened: list[Connection] = []

    def accept(_: Database, connection: Connection) -> None:
        opened.append(connection)

    monkeypatch.setattr(Database, "accept", accept)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="new thread"):
        Database(tmp_path / "test.db")
    assert opened[0].closed
