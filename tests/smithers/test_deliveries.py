"""Delivering for ever, in several processes, killed and stopped: nothing is lost, one handles."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import DatabaseReplaced, sqlite3
from smithers import SmithersDB, Transition, create_smithers_db
from tests.recorder import Recorder
from tests.smithers.remote import until

# Handles what it is told to, says so line by line, and is held up by what begins with "hang".
WORKER = """
import sys
from smithers import create_smithers_db

with create_smithers_db(sys.argv[1], busy_timeout=20.0) as db:
    @db.triggers.on("job", name="worker", start="beginning")
    def handle(transition):
        print(transition.value, flush=True)
        if str(transition.value).startswith("hang"):
            sys.stdin.read()

    print("ready", flush=True)
    db.triggers.run_forever()
    print("done", flush=True)
"""
# Forks once for each kill: the child delivers, and kills itself in the handler of one of its first
# calls, before or after it has noted what it handles. The last one lives.
KILLED = """
import os, signal, sys
from smithers import create_smithers_db

path, log, kills = sys.argv[1], sys.argv[2], int(sys.argv[3])

def work(number):
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    left = [number % 4]

    def handle(transition):
        dying = number < kills and left[0] == 0
        left[0] -= 1
        if dying and number % 3 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(file, b"%d\\n" % transition.seq)
        if dying:
            os.kill(os.getpid(), signal.SIGKILL)

    with create_smithers_db(path, watch=False) as db:
        db.triggers.on("job", name="worker", start="beginning")(handle)
        db.triggers.deliver()

for number in range(kills + 1):
    pid = os.fork()
    if not pid:
        work(number)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == (-signal.SIGKILL if number < kills else 0), number
"""
# Delivers for ever, and is killed at any moment by whoever has started it.
NOTING = """
import os, sys
from smithers import create_smithers_db

file = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
with create_smithers_db(sys.argv[1], busy_timeout=20.0) as db:
    @db.triggers.on("job", name="worker", start="beginning")
    def handle(transition):
        os.write(file, b"%d\\n" % transition.seq)

    print("ready", flush=True)
    db.triggers.run_forever()
"""
LEASE = "SELECT token, expires, beat FROM _smithers_trigger_leases WHERE name = 'one'"


@pytest.fixture
def seen() -> Recorder[Any]:
    return Recorder()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let retries and looking again come soon."""
    monkeypatch.setattr("smithers.deliveries.FIRST", 0.02)
    monkeypatch.setattr("smithers.deliveries.RECHECK", 0.05)
    monkeypatch.setattr("smithers.triggers.RECHECK", 0.05)


@contextmanager
def running(db: SmithersDB) -> Generator[threading.Thread]:
    """Deliver for ever on a thread, until the database is closed."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            db.triggers.run_forever()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        db.close()
        thread.join(timeout=20)
        assert not thread.is_alive()
    assert errors == []


class Worker:
    """A process that delivers for ever."""

    def __init__(self, path: Path, program: str = WORKER, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", program, str(path), *args],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lines: Recorder[str] = Recorder()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.lines.wait_for(lambda line: line == "ready", timeout=30)
        self.lines.take()

    def end(self, number: int = signal.SIGKILL) -> int:
        self.process.send_signal(number)
        code = self.process.wait(timeout=30)
        self._reader.join()
        return code

    def close(self) -> None:
        self.end()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines(line.rstrip("\n"))


@pytest.fixture
def workers(path: Path, db: SmithersDB) -> Iterator[Callable[[], Worker]]:
    started: list[Worker] = []

    def start() -> Worker:
        worker = Worker(path)
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.close()


def values_of(seen: Recorder[Any]) -> Callable[[Transition], None]:
    def handle(transition: Transition) -> None:
        seen(transition.value)

    return handle


def handled(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()]


def check_handled(log: Path, expected: list[int]) -> list[int]:
    """See that each was handled at least once and in order; return those handled again."""
    noted = handled(log)
    in_order = [seq for seq, _ in groupby(noted)]
    assert in_order == expected, "each of them, none skipped, none out of order"
    return [seq for seq, times in groupby(noted) if len(list(times)) > 1]


# -- killed ----------------------------------------------------------------------------------------


def kill_in_handlers(db: SmithersDB, path: Path, log: Path, kills: int) -> list[int]:
    expected = [db.state.set("job", number).seq for number in range(kills * 2)]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", KILLED, str(path), str(log), str(kills)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (trigger,) = db.triggers.list()
    assert (trigger.lag, trigger.dead, trigger.owner) == (0, 0, None)
    return check_handled(log, expected)


def test_killed_fifty_times_in_a_handler_each_change_is_handled_and_none_is_skipped(
    db: SmithersDB, path: Path, tmp_path: Path
) -> None:
    again = kill_in_handlers(db, path, tmp_path / "log", 50)
    assert 0 < len(again) <= 50, "twice only where it was killed after it had done its work"


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_killed_a_thousand_times_in_a_handler_none_is_skipped(
    db: SmithersDB, path: Path, tmp_path: Path
) -> None:
    assert len(kill_in_handlers(db, path, tmp_path / "log", 1000)) <= 1000


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_killed_at_any_moment_while_others_write_none_is_skipped(
    db: SmithersDB, path: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    expected: list[int] = []
    for _ in range(40):
        worker = Worker(path, NOTING, str(log))
        expected += [db.state.set("job", number).seq for number in range(25)]
        worker.close()
    worker = Worker(path, NOTING, str(log))
    until(lambda: db.triggers.list()[0].lag == 0)
    worker.close()
    assert len(check_handled(log, expected)) <= 40


# -- several processes -----------------------------------------------------------------------------


def test_of_two_processes_one_handles_and_the_other_takes_over_when_it_dies(
    db: SmithersDB, workers: Callable[[], Worker]
) -> None:
    one, other = workers(), workers()
    db.state.set("job", "first")
    until(lambda: one.lines.values or other.lines.values)
    if other.lines.values:
        one, other = other, one
    for number in range(20):
        db.state.set("job", number)
    assert one.lines.wait_for_count(21) == ["first", *map(str, range(20))]
    assert other.lines.values == [], "it is the first one's"
    assert other.process.stdin is not None
    other.process.stdin.close()  # nothing holds it up
    db.state.set("job", "hang")
    one.lines.wait_for(lambda line: line == "hang")
    db.state.set("job", "after")
    assert one.end() == -signal.SIGKILL
    assert other.lines.wait_for_count(2) == ["hang", "after"], "again, and then what has waited"


@pytest.mark.parametrize("number", [signal.SIGINT], ids=["Ctrl-C"])
def test_who_comes_to_an_end_gives_its_triggers_back(
    db: SmithersDB, workers: Callable[[], Worker], number: int
) -> None:
    one = workers()
    db.state.set("job", 1)
    one.lines.wait_for_count(1)
    assert db.triggers.list()[0].owner == f"{os.uname().nodename}:{one.process.pid}"
    other = workers()
    db.state.set("job", 2)
    one.lines.wait_for_count(2)
    until(lambda: db.triggers.list()[0].lag == 0)
    assert one.end(number) == 0
    assert one.lines.values == ["1", "2", "done"], "it returns, and the program goes on"
    free = (None, f"{os.uname().nodename}:{other.process.pid}")  # who waits for it may have it
    assert db.triggers.list()[0].owner in free
    db.state.set("job", 3)
    assert other.lines.wait_for_count(1) == ["3"]


def test_a_process_that_is_stopped_loses_its_triggers_and_what_it_notes_then_counts_for_nothing(
    db: SmithersDB, foreign: sqlite3.Connection, elsewhere: SmithersDB
) -> None:
    calls: list[str] = []

    @db.triggers.on("phase", name="one")
    def slow(transition: Transition) -> None:
        calls.append(f"slow {transition.value}")
        if transition.value == 1:
            # As after a stop that was longer than the lease: the other one takes it over.
            foreign.execute("UPDATE _smithers_trigger_leases SET expires = 0")
            assert elsewhere.triggers.deliver() == 2

    @elsewhere.triggers.on("phase", name="one")
    def other(transition: Transition) -> None:
        calls.append(f"other {transition.value}")

    db.state.set("phase", 1)
    db.state.set("phase", 2)
    assert db.triggers.deliver() == 0, "whoever took it over has counted it"
    assert calls == ["slow 1", "other 1", "other 2"]
    assert (db.triggers.list()[0].lag, foreign.execute(LEASE).fetchall()) == (0, [])


def test_what_another_handle_handles_is_passed_over(
    db: SmithersDB, elsewhere: SmithersDB, seen: Recorder[Any]
) -> None:
    inner: list[int] = []

    @db.triggers.on("phase", name="one")
    def handle(transition: Transition) -> None:
        inner.append(elsewhere.triggers.deliver())
        assert elsewhere.triggers.list()[0].owner is not None

    elsewhere.triggers.on("phase", name="one")(seen)
    db.state.set("phase", 1)
    assert (db.triggers.deliver(), inner, seen.values) == (1, [0], [])
    db.state.set("phase", 2)
    assert elsewhere.triggers.deliver() == 1, "a deliver that is done keeps nothing"


def test_others_write_while_a_handler_runs(db: SmithersDB, foreign: sqlite3.Connection) -> None:
    @db.triggers.on("phase", name="one")
    def slow(_: Transition) -> None:
        writer = threading.Thread(target=lambda: db.state.set("other", 1))
        writer.start()
        writer.join(timeout=20)
        assert not writer.is_alive()
        foreign.execute("UPDATE state SET value = '2' WHERE key = 'other'")

    db.state.set("phase", 1)
    assert (db.triggers.deliver(), db.state.get("other")) == (1, 2)


def test_a_lease_is_kept_alive_while_a_handler_runs(
    db: SmithersDB, foreign: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smithers.storage.claims.HEARTBEAT", 0.02)

    @db.triggers.on("phase", name="one")
    def slow(_: Transition) -> None:
        _, expires, beat = foreign.execute(LEASE).fetchone()
        until(lambda: foreign.execute(LEASE).fetchone()[2] > beat + 2)
        assert foreign.execute(LEASE).fetchone()[1] > expires

    db.state.set("phase", 1)
    assert db.triggers.deliver() == 1


# -- for ever --------------------------------------------------------------------------------------


def test_changes_are_handled_as_they_are_made_here_and_by_other_programs(
    db: SmithersDB, foreign: sqlite3.Connection, seen: Recorder[Any]
) -> None:
    db.triggers.on("phase", name="one")(values_of(seen))
    with running(db):
        db.state.set("phase", 1)
        seen.wait_for_count(1)
        foreign.execute("UPDATE state SET value = '2' WHERE key = 'phase'")
        seen.wait_for_count(2)
        db.state.set("phase", 3)
        assert seen.wait_for_count(3) == [1, 2, 3]


def test_answers_are_handled_as_they_change(
    db: SmithersDB,
    foreign: sqlite3.Connection,
    seen: Recorder[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # An observed query that cannot run any more is reported, here as anywhere.
    reported: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    db.database.execute("CREATE TABLE things (n)")
    db.triggers.on_query("SELECT n FROM things", name="rows")(seen)
    with running(db):
        foreign.execute("INSERT INTO things VALUES (1)")
        seen.wait_for_count(1)
        db.database.execute("DROP TABLE things")
        until(lambda: reported)
        db.database.execute("CREATE TABLE things (n)")
        foreign.execute("INSERT INTO things VALUES (2)")
        seen.wait_for(lambda rows: rows == [{"n": 2}])
    assert all("no such table" in str(one.exc_value) for one in reported)


def test_failures_never_end_it_and_are_tried_again_in_time(
    db: SmithersDB, elsewhere: SmithersDB, seen: Recorder[Any]
) -> None:
    broken = [True]

    @db.triggers.on("phase", name="one", retries=2)
    def handle(transition: Transition) -> None:
        seen(transition.value)
        if broken:
            raise RuntimeError("broken")

    with running(db):
        db.state.set("phase", 1)
        seen.wait_for_count(3)
        until(lambda: len(elsewhere.triggers.dead()) == 1)
        broken.clear()
        assert elsewhere.triggers.retry("one") == 1
        seen.wait_for_count(4)
        db.state.set("phase", 2)
        assert seen.wait_for_count(5) == [1, 1, 1, 1, 2]
        until(lambda: elsewhere.triggers.dead() == [])


def test_a_trigger_that_is_registered_meanwhile_is_handled_too(
    db: SmithersDB, seen: Recorder[Any]
) -> None:
    with running(db):
        db.triggers.on("phase", name="one")(values_of(seen))
        db.state.set("phase", 1)
        assert seen.wait_for_count(1) == [1]


def test_a_trigger_that_is_dropped_meanwhile_begins_anew(
    db: SmithersDB, elsewhere: SmithersDB, seen: Recorder[Any]
) -> None:
    db.triggers.on("phase", name="one")(values_of(seen))
    with running(db):
        db.state.set("phase", 1)
        seen.wait_for_count(1)
        assert elsewhere.triggers.drop("one")
        until(lambda: [trigger.name for trigger in elsewhere.triggers.list()] == ["one"])
        db.state.set("phase", 2)
        assert seen.wait_for_count(2) == [1, 2]


def test_while_it_runs_its_triggers_are_its_own(
    db: SmithersDB, elsewhere: SmithersDB, seen: Recorder[Any]
) -> None:
    db.triggers.on("phase", name="one")(values_of(seen))
    elsewhere.triggers.on("phase", name="one")(seen)
    with running(db):
        db.state.set("phase", 1)
        seen.wait_for_count(1)
        until(lambda: elsewhere.triggers.list()[0].lag == 0)
        assert elsewhere.triggers.list()[0].owner is not None, "also while nothing is due"
    assert elsewhere.triggers.list()[0].owner is None
    elsewhere.state.set("phase", 2)
    assert elsewhere.triggers.deliver() == 1


def test_a_lock_of_another_program_is_waited_for(
    path: Path, foreign: sqlite3.Connection, seen: Recorder[Any]
) -> None:
    with create_smithers_db(path, busy_timeout=0.05) as db:
        db.triggers.on("phase", name="one")(values_of(seen))
        foreign.execute("BEGIN IMMEDIATE")
        with running(db):
            foreign.execute("INSERT INTO state (key, value) VALUES ('phase', '1')")
            foreign.execute("COMMIT")
            foreign.execute("BEGIN IMMEDIATE")
            threading.Event().wait(0.2)  # nothing tells that it was turned away
            foreign.execute("COMMIT")
            assert seen.wait_for_count(1) == [1]


def test_an_idle_one_looks_at_nothing(db: SmithersDB, seen: Recorder[Any]) -> None:
    rounds: list[None] = []
    registry = db.triggers.registry
    db.triggers.on("phase", name="one")(values_of(seen))
    with running(db):
        db.state.set("phase", 1)
        seen.wait_for_count(1)
        until(lambda: db.triggers.list()[0].lag == 0)
        threading.Event().wait(0.2)
        enter = registry.enter

        def counted(name: str) -> bool:
            rounds.append(None)
            return enter(name)

        registry.enter = counted  # type: ignore[method-assign]
        threading.Event().wait(0.5)
        assert rounds == [], "it waits for a change, and for nothing else"


def test_a_file_that_is_replaced_ends_it_with_an_error(db: SmithersDB, path: Path) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            db.triggers.run_forever()
        except DatabaseReplaced as error:
            errors.append(error)

    seen: Recorder[Any] = Recorder()
    db.triggers.on("phase", name="one")(seen)
    thread = threading.Thread(target=run)
    thread.start()
    db.state.set("phase", 1)
    seen.wait_for_count(1)
    (path / "db.sqlite").unlink()
    thread.join(timeout=20)
    assert [type(error) for error in errors] == [DatabaseReplaced]
