"""What the watcher makes of the worst: each commit arrives, or an error says why none will."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import Database, DatabaseReplaced, sqlite3
from reactive_sqlite.aio import AsyncDatabase
from reactive_sqlite.inotify import Inotify
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.watcher import Backend, Watcher
from smithers import create_smithers_db
from tests.faults.elsewhere import Elsewhere
from tests.recorder import Recorder
from tests.smithers.commandline import environment

LINUX = sys.platform == "linux"
BACKENDS: list[Backend] = ["inotify", "watchfiles", "poll"] if LINUX else ["watchfiles", "poll"]
# Between two looks without any event; a second outside of these tests.
POLL = 0.1
COUNT = "SELECT count(*) FROM n"
CREATE = "CREATE TABLE n (i INTEGER PRIMARY KEY, v)"

# Where no events can be had: what is said, how it is watched, and whether a commit arrives.
WITHOUT_EVENTS = """
import json, logging, sqlite3, sys
from tests.recorder import Recorder
from reactive_sqlite import Database

said = []

class Ear(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())

logging.getLogger("reactive_sqlite").addHandler(Ear())
with Database(sys.argv[1]) as db:
    db.execute("CREATE TABLE n (i)")
    seen = Recorder()
    db.observe_value("SELECT count(*) FROM n").subscribe(seen)
    writer = sqlite3.connect(sys.argv[1], isolation_level=None)
    for number in range(1, 4):
        writer.execute("INSERT INTO n VALUES (1)")
        seen.wait_for(lambda value: value == number, 20)
    writer.close()
    by = db._watcher.backend
print(json.dumps([by, seen.values, said]))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder / "shared.db"


def watched_by(
    monkeypatch: pytest.MonkeyPatch, backend: Backend, poll_interval: float = POLL
) -> None:
    """Let databases be watched in this way."""
    made = partial(Watcher, backend=backend, poll_interval=poll_interval)
    monkeypatch.setattr("reactive_sqlite.database.Watcher", made)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Each source of events in its turn, used by the databases of the test."""
    chosen: Backend = request.param
    watched_by(monkeypatch, chosen)
    return chosen


def made(path: Path, journal: str = "wal") -> Path:
    """Make a file with an empty table."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute(f"PRAGMA journal_mode = {journal}")
    other.execute(CREATE)
    other.close()
    return path


def followed(query: ObservableQuery[Any]) -> Recorder[Any]:
    """Record what is told of a query: reading it instead would find everything by itself."""
    seen = Recorder[Any]()
    query.subscribe(seen.on_next, seen.on_error, seen.on_completed)
    return seen


def comes(seen: Recorder[Any], value: Any) -> None:
    assert seen.wait_for(partial(eq, value), timeout=20) == value


# -- what other processes may do to the file ------------------------------------------------------


def test_commits_under_exclusive_locks_arrive_when_the_lock_is_given_up(
    path: Path, backend: Backend
) -> None:
    reported: list[BaseException] = []
    with (
        Database(made(path, "delete"), busy_timeout=0.1, on_observer_error=reported.append) as db,
        Elsewhere(path) as other,
    ):
        seen = followed(db.observe_value(COUNT))
        for number in range(1, 4):
            other.run("BEGIN EXCLUSIVE", f"INSERT INTO n VALUES ({number}, 0)")
            # Longer than anybody looks after an event, so that all of these looks meet the lock.
            threading.Event().wait(0.15)
            other.run("COMMIT")
            comes(seen, number)
        assert seen.values == [0, 1, 2, 3]
        assert reported == [], "a lock is no error"


def test_what_was_committed_under_a_lasting_exclusive_lock_arrives_at_its_end(
    path: Path, backend: Backend
) -> None:
    reported: list[BaseException] = []
    with (
        Database(made(path, "delete"), busy_timeout=0.2, on_observer_error=reported.append) as db,
        Elsewhere(path) as other,
    ):
        seen = followed(db.observe_value(COUNT))
        other.run("PRAGMA locking_mode = EXCLUSIVE")
        other.run(*(f"INSERT INTO n VALUES ({number}, 0)" for number in range(20)))
        assert seen.values == [0], "nobody else can read now"
        other.close()  # which writes nothing, and so is no event of every kind of journal
        comes(seen, 20)
        assert (seen.values, reported) == ([0, 20], [])


def test_a_commit_as_large_as_the_one_before_a_truncating_checkpoint_arrives(
    path: Path, backend: Backend
) -> None:
    with Database(made(path)) as db, Elsewhere(path) as other:
        db.execute("INSERT INTO n VALUES (1, 0)")
        other.run("PRAGMA wal_autocheckpoint = 0", "PRAGMA wal_checkpoint(TRUNCATE)")
        value = followed(db.observe_value("SELECT v FROM n"))
        sizes: set[int] = set()
        for number in range(1, 8):
            other.run(f"UPDATE n SET v = {number}")
            comes(value, number)
            sizes.add(path.with_name("shared.db-wal").stat().st_size)
            other.run("PRAGMA wal_checkpoint(TRUNCATE)")
        assert len(sizes) == 1, "each log is as large as the last: its size tells nothing"


def test_a_vacuum_tells_nothing_and_what_follows_arrives(path: Path, backend: Backend) -> None:
    with Database(made(path)) as db, Elsewhere(path) as other:
        other.run("CREATE TABLE loose (v)", "INSERT INTO loose VALUES ('a'), ('b'), ('c')")
        db.track("loose")
        seen = followed(db.observe("SELECT v FROM loose WHERE v = 'c'"))
        numbers = followed(db.observe_value("SELECT group_concat(rowid) FROM loose"))
        other.run("DELETE FROM loose WHERE v = 'a'")
        comes(numbers, "2,3")
        other.run("VACUUM")
        # It numbers the rows of such a table anew, and no log of changes says so.
        comes(numbers, "1,2")
        other.run("INSERT INTO loose VALUES ('c')")
        seen.wait_for_count(2)
        numbers.wait_for_count(4)  # told after the other, by another thread than this
        assert numbers.values == ["1,2,3", "2,3", "1,2", "1,2,3"]
        assert seen.values == [[{"v": "c"}], [{"v": "c"}, {"v": "c"}]]


@pytest.mark.skipif(not LINUX, reason="only Linux has inotify")
def test_when_more_happens_than_is_kept_of_events_nothing_is_missed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched_by(monkeypatch, "inotify", 600)
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text("ascii"))
    if limit > 20_000:
        pytest.skip("so long a queue takes too long to fill")
    entered, go_on = threading.Event(), threading.Event()
    with Database(made(path)) as db, Elsewhere(path) as other:
        count = db.observe_value(COUNT)

        def held(value: int) -> None:
            if value == 1:
                entered.set()
                go_on.wait(30)

        count.subscribe(held)
        seen = followed(count)
        other.run("INSERT INTO n VALUES (1, 0)")
        assert entered.wait(10)
        # The watcher is in the midst of telling; more comes meanwhile than the kernel keeps.
        names = [path.with_name(name) for name in ("one", "two")]
        names[0].touch()
        for turn in range(limit // 2 + 100):
            names[turn % 2].rename(names[1 - turn % 2])
        other.run("INSERT INTO n VALUES (2, 0)")
        go_on.set()
        comes(seen, 2)
        other.run("INSERT INTO n VALUES (3, 0)")
        comes(seen, 3)


# -- another file, or none ------------------------------------------------------------------------


def replace(path: Path) -> None:
    os.replace(made(path.with_name("other.db")), path)


def remove(path: Path) -> None:
    path.unlink()


def remove_the_directory(path: Path) -> None:
    shutil.rmtree(path.parent)


def make_the_directory_anew(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    made(path)


def swap_the_directory(path: Path) -> None:
    path.parent.rename(path.parent.with_name("old"))
    path.parent.mkdir()
    made(path)


ENDS = [replace, remove, remove_the_directory, make_the_directory_anew, swap_the_directory]


@pytest.mark.parametrize("end", ENDS)
def test_whoever_looks_at_a_file_that_is_another_one_is_told(
    path: Path, backend: Backend, end: Callable[[Path], None]
) -> None:
    with Database(made(path)) as db:
        db.track("n")
        seen, commits = Recorder[int](), Recorder[Any]()
        count = db.observe_value(COUNT)
        count.subscribe(seen.on_next, seen.on_error, seen.on_completed)
        db.changes().subscribe(commits.on_next, commits.on_error)
        end(path)
        assert isinstance(seen.wait_for_error(), DatabaseReplaced)
        assert isinstance(commits.wait_for_error(), DatabaseReplaced)
        assert str(path) in str(seen.errors[0])
        for call in (
            count,
            partial(db.execute, COUNT),
            partial(db.execute, "INSERT INTO n VALUES (1, 0)"),
        ):
            with pytest.raises(DatabaseReplaced):
                call()
        assert (seen.values, seen.completed) == ([0], 0)


def test_who_waits_for_changes_is_told_that_none_will_come(path: Path, backend: Backend) -> None:
    raised = Recorder[BaseException]()
    waiting = threading.Event()
    with Database(made(path)) as db:
        db.track("n")

        def consume() -> None:
            feed = db.feed("reader", "n")
            waiting.set()
            try:
                for change in feed:
                    raised.on_next(AssertionError(change))
            except DatabaseReplaced as error:
                raised.on_next(error)

        consumer = threading.Thread(target=consume)
        consumer.start()
        assert waiting.wait(10)
        replace(path)
        assert isinstance(raised.wait_for(bool), DatabaseReplaced)
        consumer.join(10)


async def test_the_asynchronous_face_tells_it_too(path: Path, backend: Backend) -> None:
    async with AsyncDatabase(made(path)) as db:
        seen, told = Recorder[int](), asyncio.Event()
        count = db.observe_value(COUNT)

        def over(error: Exception) -> None:
            seen.on_error(error)
            told.set()

        with Elsewhere(path) as other:
            count.subscribe(seen.on_next, over)
            assert await count == 0
            await asyncio.to_thread(other.run, "INSERT INTO n VALUES (1, 0)")
            await asyncio.to_thread(seen.wait_for, partial(eq, 1), 20)
        replace(path)
        async with asyncio.timeout(20):
            await told.wait()
        assert isinstance(seen.errors[0], DatabaseReplaced)
        with pytest.raises(DatabaseReplaced):
            await db.execute(COUNT)
        with pytest.raises(DatabaseReplaced):
            await count


def test_a_file_that_was_replaced_during_a_transaction_is_told_at_its_end(
    path: Path, backend: Backend
) -> None:
    reported = Recorder[BaseException]()
    inside, over = threading.Event(), threading.Event()
    with Database(made(path), busy_timeout=0.05, on_observer_error=reported.on_next) as db:
        seen = Recorder[int]()
        db.observe_value(COUNT).subscribe(seen.on_next, seen.on_error)

        def hold() -> None:
            with db.transaction():
                inside.set()
                over.wait(30)

        holder = threading.Thread(target=hold)
        holder.start()
        assert inside.wait(10)
        replace(path)
        assert "locked" in str(reported.wait_for(bool)), "that it cannot be ended now is reported"
        threading.Event().wait(5 * POLL)
        assert len(reported.values) == 1, "once, however often that is tried again"
        assert seen.errors == []
        over.set()
        holder.join(10)
        assert isinstance(seen.wait_for_error(), DatabaseReplaced)
        assert db.closed


def test_what_takes_the_place_of_a_database_is_not_harmed_when_that_one_is_closed(
    path: Path, backend: Backend
) -> None:
    with Database(made(path)) as db, db.transaction():
        db["n"].insert_all({"i": i, "v": "old"} for i in range(100))
        # Out of the way with all that belongs to it, as a careful program does.
        for file in path.parent.iterdir():
            file.rename(path.parent.with_name(file.name))
        other = sqlite3.connect(made(path), isolation_level=None)
        other.execute("INSERT INTO n VALUES (1, 'new')")
    assert path.with_name("shared.db-wal").stat().st_size > 0
    with Elsewhere(path) as reader:
        reader.run("INSERT INTO n VALUES (2, 'new')")
    assert other.execute("SELECT * FROM n").fetchall() == [(1, "new"), (2, "new")]
    assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    other.close()


# -- no events ------------------------------------------------------------------------------------


def in_a_user_namespace(limit: str) -> list[str]:
    """The command by which a process may have none of something."""
    if not LINUX or not shutil.which("unshare"):
        pytest.skip("a limit for one process takes Linux and its program `unshare`")
    set_limit = f'echo 0 > /proc/sys/user/{limit} && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", set_limit, "sh"]
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("user namespaces are not allowed here")
    return command


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("max_inotify_instances", "Too many open files"),
        ("max_inotify_watches", "No space left on device"),
    ],
)
def test_at_the_limit_of_inotify_it_is_polled_which_is_said_once(
    path: Path, limit: str, reason: str
) -> None:
    command = [*in_a_user_namespace(limit), sys.executable, "-W", "error", "-c", WITHOUT_EVENTS]
    done = subprocess.run(
        [*command, str(path)], env=environment(), capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    by, values, said = json.loads(done.stdout)
    assert (by, values) == ("poll", [0, 1, 2, 3])
    assert len(said) == 1, said
    assert said[0].startswith(f"watching {path} by poll from now on: ")
    assert reason in said[0]


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no event arrive, as on some file systems of networks, though all seems well."""

    def names(self: Inotify) -> set[str]:
        take(self)
        return set()

    def watch(*arguments: object, stop_event: threading.Event, **options: object) -> Iterator[Any]:
        while not stop_event.wait(0.02):
            yield set()

    take = Inotify.names
    monkeypatch.setattr(Inotify, "names", names)
    monkeypatch.setattr("watchfiles.watch", watch)


@pytest.mark.usefixtures("deaf")
def test_without_any_event_each_commit_arrives_all_the_same(path: Path, backend: Backend) -> None:
    with Database(made(path)) as db, Elsewhere(path) as other:
        seen = followed(db.observe_value(COUNT))
        for number in range(1, 6):
            other.run(f"INSERT INTO n VALUES ({number}, 0)")
            comes(seen, number)
        replace(path)
        assert isinstance(seen.wait_for_error(), DatabaseReplaced)


@pytest.mark.skipif(not LINUX, reason="other systems may report none")
def test_a_commit_by_another_name_of_the_file_is_heard_of_as_well(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched_by(monkeypatch, "inotify", 600)
    name = tmp_path / "another.db"
    with Database(made(path, "delete")) as db:
        # Written by this name, the file is written in this directory alone.
        name.hardlink_to(path)
        seen = followed(db.observe_value(COUNT))
        with Elsewhere(name) as other:
            for number in range(1, 4):
                other.run(f"INSERT INTO n VALUES ({number}, 0)")
                comes(seen, number)


def test_a_workflow_database_tells_it_and_follows_others_without_events(
    tmp_path: Path, backend: Backend
) -> None:
    with create_smithers_db(tmp_path / "data") as db:
        phase = db.state.observe("phase")
        seen = Recorder[Any]()
        phase.subscribe(seen.on_next, seen.on_error)
        with create_smithers_db(tmp_path / "data", watch=False) as other:
            other.state.set("phase", "build")
        assert seen.wait_for(lambda value: value == "build") == "build"
        shutil.rmtree(tmp_path / "data")
        assert isinstance(seen.wait_for_error(), DatabaseReplaced)
        with pytest.raises(DatabaseReplaced):
            db.state.get("phase")


# -- nothing to do --------------------------------------------------------------------------------


def test_idle_databases_query_nothing_over_many_polls_beside_a_busy_one(
    path: Path, monkeypatch: pytest.MonkeyPatch, backend: Backend
) -> None:
    looks, looked = 0, threading.Condition()
    with (
        Database(made(path)) as db,
        Database(path) as beside,
        Database(path, read_only=True) as reader,
        Database(made(path.with_name("busy.db"))) as busy,
        Elsewhere(busy.path or path) as other,
    ):
        db.track("n")
        idle = [db, beside, reader]
        for each in idle:
            each.observe("SELECT * FROM n").subscribe()
            each.observe_value(COUNT).subscribe()
        check = db.broker.check

        def counted() -> bool:
            nonlocal looks
            found: bool = check()
            with looked:
                looks += 1
                looked.notify_all()
            return found

        monkeypatch.setattr(db.broker, "check", counted)
        with looked:
            assert looked.wait_for(lambda: looks >= 3, 20)
        fetched = [each.broker.fetches for each in idle]
        until = looks + 8
        for number in range(10_000):
            other.run(f"INSERT INTO n VALUES ({number}, 0)")
            for each in idle:
                each.query("SELECT 1 FROM n").close()
            if looks >= until:
                break
        assert looks >= until
        assert [each.broker.fetches for each in idle] == fetched
