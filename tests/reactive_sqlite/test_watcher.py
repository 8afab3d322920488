"""Tests of `reactive_sqlite.watcher`, with a plain connection in the place of the main one."""

from __future__ import annotations

import errno
import gc
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Literal

import pytest

from reactive_sqlite import sqlite3, wakeups
from reactive_sqlite.watcher import Backend, Watcher

LINUX = sys.platform == "linux"
EVENTS: list[Backend] = ["inotify", "watchfiles"] if LINUX else ["watchfiles"]
BACKENDS: list[Backend] = [*EVENTS, "poll"]
NAME = "reactive_sqlite watcher"
ROUNDS = 1000
# Far beyond what a test takes: what is noticed, an event must have brought.
NEVER = 600.0
# What took so long was brought by the safety poll, each second, not by an event.
LATE = 0.9

PYTHON_WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute(f"pragma synchronous={sys.argv[2]}")
for line in sys.stdin:
    connection.execute(line)
    if line.startswith("--"):
        print("done", flush=True)
"""


class Main:
    """A main connection: its lock, what it has seen, and the watcher that asks it."""

    def __init__(self, path: Path, journal: str = "wal") -> None:
        self.path = path
        self.lock = threading.RLock()
        self.connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=30
        )
        self.connection.execute(f"pragma journal_mode={journal}")
        self.connection.execute("create table t (n)")
        self.version = self._version()
        self.changed = threading.Condition()
        self.checks = 0
        self.finds = 0
        self.latest = 0
        self.reasons: list[str] = []
        self.failures: list[BaseException] = []
        self.watcher: Watcher | None = None

    def watch(self, backend: Backend = "auto", poll_interval: float = 1.0) -> Watcher:
        self.watcher = Watcher(
            str(self.path),
            check=self.check,
            replaced=self.note(self.reasons),
            failed=self.note(self.failures),
            backend=backend,
            poll_interval=poll_interval,
        )
        self.watcher.start()
        return self.watcher

    def check(self) -> bool:
        with self.lock:
            version = self._version()
            found = version != self.version
            self.version = version
            latest = self.latest
            if found:
                latest = self.connection.execute("select max(n) from t").fetchone()[0] or 0
        with self.changed:
            self.checks += 1
            self.finds += found
            self.latest = latest
            self.changed.notify_all()
        return found

    def wait(self, condition: Callable[[], bool], timeout: float = 10.0) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, timeout), (
                f"not within {timeout} s: {self.checks} checks, {self.finds} finds, the last value "
                f"{self.latest}, replaced {self.reasons}, failed {self.failures}"
            )

    def wait_for_value(self, number: int) -> None:
        self.wait(lambda: self.latest == number)

    def wait_for_checks(self, count: int) -> None:
        self.wait(lambda: self.checks >= count)

    def close(self) -> None:
        if self.watcher is not None:
            self.watcher.close()
        self.connection.close()

    def _version(self) -> int:
        return int(self.connection.execute("pragma data_version").fetchone()[0])

    def note(self, notes: list[Any]) -> Callable[[Any], None]:
        def note(what: Any) -> None:
            with self.changed:
                notes.append(what)
                self.changed.notify_all()

        return note


class Writer:
    """Another process that runs one statement a line."""

    def __init__(self, argv: list[str]) -> None:
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, sql: str) -> None:
        """Run a statement, and return when it is committed."""
        self.send(sql)
        self.wait()

    def send(self, sql: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(sql + "\n")
        self.process.stdin.flush()

    def wait(self) -> None:
        """Return when all that was sent is committed (only the Python writer answers)."""
        self.send("-- done?")
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "done"

    def close(self) -> None:
        self.process.communicate(timeout=10)
        assert self.process.returncode == 0


@pytest.fixture
def main(tmp_path: Path) -> Iterator[Main]:
    folder = tmp_path / "folder"
    folder.mkdir()
    main = Main(folder / "db.sqlite")
    yield main
    main.close()


@pytest.fixture
def writer(main: Main) -> Iterator[Writer]:
    writer = _python(main)
    yield writer
    writer.close()


@pytest.mark.parametrize("backend", EVENTS)
@pytest.mark.parametrize("synchronous", ["normal", "full"])
def test_no_commit_of_a_python_process_is_missed(
    main: Main, synchronous: str, backend: Backend
) -> None:
    main.watch(backend)
    # The slower source gets fewer rounds here: each waits until it is noticed.
    rounds = ROUNDS if backend == "inotify" or not LINUX else ROUNDS // 10
    writer = _python(main, synchronous)
    _each_commit_arrives(main, writer, rounds)
    writer.close()


def test_no_commit_of_the_sqlite3_command_line_is_missed(main: Main, sqlite3_cli: str) -> None:
    main.watch()
    writer = Writer([sqlite3_cli, "-batch", "-cmd", ".timeout 30000", str(main.path)])
    _each_commit_arrives(main, writer, ROUNDS)
    writer.close()


def test_no_commit_of_a_sqlite3_command_that_ends_at_once_is_missed(
    main: Main, sqlite3_cli: str
) -> None:
    main.watch()
    for number in range(1, 21):
        command = [sqlite3_cli, str(main.path), f"insert into t values ({number})"]
        subprocess.run(command, check=True)
        main.wait_for_value(number)


@pytest.mark.parametrize("journal", ["delete", "truncate", "persist"])
def test_no_commit_to_a_database_with_a_rollback_journal_is_missed(
    tmp_path: Path, journal: str
) -> None:
    main = Main(tmp_path / "db.sqlite", journal)
    main.watch()
    writer = _python(main)
    _each_commit_arrives(main, writer, ROUNDS if journal == "delete" else ROUNDS // 10)
    writer.close()
    main.close()


def test_the_last_of_many_quick_commits_arrives(main: Main, writer: Writer) -> None:
    main.watch(poll_interval=NEVER)
    for number in range(1, ROUNDS + 1):
        writer.run(f"insert into t values ({number})")
    main.wait_for_value(ROUNDS)
    assert main.finds > 1, "commits may merge, but not all of them into one look at the end"


def test_the_safety_poll_alone_finds_every_commit(main: Main, writer: Writer) -> None:
    main.watch("poll", poll_interval=0.05)
    _each_commit_arrives(main, writer, 100)


@pytest.mark.parametrize(("backend", "limit"), [("inotify", 0.02), ("watchfiles", 0.3)])
@pytest.mark.parametrize("pause", [0.0, 0.15])
def test_an_event_brings_a_commit_soon(
    main: Main, writer: Writer, backend: Backend, limit: float, pause: float
) -> None:
    if backend == "inotify" and not LINUX:
        pytest.skip("only Linux has inotify")
    main.watch(backend, poll_interval=NEVER)
    main.wait_for_checks(1)
    delays: list[float] = []
    for number in range(1, 12):
        # Between two commits, long enough for the looks after the first to be over.
        threading.Event().wait(pause)
        began = time.monotonic()
        writer.run(f"insert into t values ({number})")
        main.wait_for_value(number)
        delays.append(time.monotonic() - began)
    assert median(delays) < limit, f"{backend} took {delays}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_idle_database_is_looked_at_only_by_the_safety_poll(
    main: Main, backend: Backend
) -> None:
    began = time.monotonic()
    main.watch(backend, poll_interval=0.5)
    main.wait_for_checks(4)
    assert time.monotonic() - began > 1.45, "one look at the start, then one each half second"
    assert main.finds == 0, "nothing was committed"


def test_reading_wakes_nobody(main: Main, writer: Writer) -> None:
    main.watch(poll_interval=NEVER)
    writer.run("insert into t values (1)")
    main.wait_for_value(1)
    # The looks after that commit end before the commit after it is made.
    quiet = _settled(main)
    for _ in range(20):
        writer.run("select count(*) from t")
        with main.lock:
            main.connection.execute("select count(*) from t").fetchall()
    assert _settled(main) == quiet


def test_own_commits_are_no_finds_and_cost_few_looks(main: Main) -> None:
    main.watch(poll_interval=NEVER)
    main.wait_for_checks(1)
    before, began = main.checks, time.monotonic()
    while time.monotonic() - began < 1.0:
        with main.lock:
            main.connection.execute("insert into t values (1)")
    assert main.finds == 0
    assert main.checks - before < 600, "under a steady stream of own commits looks become rare"


def test_a_foreign_commit_among_many_own_ones_is_found(main: Main, writer: Writer) -> None:
    main.watch(poll_interval=NEVER)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            with main.lock:
                main.connection.execute("insert into t values (0)")
            # Without a gap SQLite's busy handler would starve the other process, not the watcher.
            stop.wait(0.0005)

    own = threading.Thread(target=write)
    own.start()
    for number in range(1, 21):
        writer.run(f"insert into t values ({number})")
        main.wait_for_value(number)
    stop.set()
    own.join()


def test_what_was_committed_before_the_start_is_found(main: Main, writer: Writer) -> None:
    writer.run("insert into t values (7)")
    main.watch(poll_interval=NEVER)
    main.wait_for_value(7)


def test_a_database_behind_a_symbolic_link_is_watched_where_it_is(
    main: Main, writer: Writer, tmp_path: Path
) -> None:
    link = tmp_path / "link.sqlite"
    link.symlink_to(main.path)
    main.path = link
    main.watch(poll_interval=0.5)
    writer.run("insert into t values (1)")
    main.wait_for_value(1)
    link.unlink()
    link.symlink_to(tmp_path / "other.sqlite")
    (tmp_path / "other.sqlite").touch()
    main.wait(lambda: bool(main.reasons))


def _replace(main: Main) -> None:
    other = main.path.with_name("other.sqlite")
    other.touch()
    other.replace(main.path)


def _remove(main: Main) -> None:
    main.path.unlink()


def _remove_the_directory(main: Main) -> None:
    shutil.rmtree(main.path.parent)


def _rename_the_directory(main: Main) -> None:
    main.path.parent.rename(main.path.parent.with_name("elsewhere"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (_replace, "another file is at"),
        (_remove, "is gone"),
        (_remove_the_directory, "is gone"),
        (_rename_the_directory, "is gone"),
    ],
)
def test_a_replaced_or_removed_file_is_told_once_and_ends_the_watching(
    main: Main, backend: Backend, act: Callable[[Main], None], reason: str
) -> None:
    watcher = main.watch(backend, poll_interval=0.2)
    main.wait_for_checks(1)
    act(main)
    main.wait(lambda: bool(main.reasons))
    _until_ended(watcher)
    assert len(main.reasons) == 1
    assert reason in main.reasons[0] and str(main.path) in main.reasons[0]
    assert not main.failures


@pytest.mark.skipif(not LINUX, reason="only Linux has inotify")
def test_an_event_tells_of_a_replaced_file_at_once(main: Main) -> None:
    main.watch("inotify", poll_interval=NEVER)
    main.wait_for_checks(1)
    _replace(main)
    main.wait(lambda: bool(main.reasons))


def test_a_file_that_comes_back_at_once_was_not_replaced(main: Main) -> None:
    main.watch(poll_interval=0.05)
    main.wait_for_checks(1)
    for _ in range(20):
        aside = main.path.rename(main.path.with_name("aside"))
        aside.rename(main.path)
    main.wait_for_checks(main.checks + 4)
    assert main.reasons == []


def test_a_missing_file_cannot_be_watched(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Watcher(
            str(tmp_path / "none.sqlite"),
            check=lambda: False,
            replaced=lambda reason: None,
            failed=lambda error: None,
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_closing_is_quick_and_leaves_no_thread_and_no_descriptor(
    main: Main, backend: Backend
) -> None:
    # Once before counting: what a library opens for itself at its first use is no leak.
    main.watch(backend).close()
    threads, descriptors = threading.active_count(), _descriptors()
    took: list[float] = []
    for _ in range(5):
        more = main.checks + 1
        watcher = main.watch(backend)
        main.wait_for_checks(more)
        began = time.monotonic()
        watcher.close()
        took.append(time.monotonic() - began)
        watcher.close()
    assert min(took) < 0.4, "who waits for the next look, waits each time"
    assert threading.active_count() == threads
    # The thread inside of watchfiles closes its descriptors a moment later.
    _until(lambda: _descriptors() == descriptors)


def test_a_watcher_that_was_never_started_can_be_closed(main: Main) -> None:
    descriptors = _descriptors()
    watcher = Watcher(
        str(main.path),
        check=main.check,
        replaced=main.reasons.append,
        failed=main.failures.append,
    )
    watcher.close()
    assert _descriptors() == descriptors
    assert main.checks == 0


def test_a_check_may_close_its_watcher(main: Main, writer: Writer) -> None:
    closed = threading.Event()

    def check() -> bool:
        if main.check():
            watcher.close()
            closed.set()
        return False

    watcher = Watcher(
        str(main.path), check=check, replaced=main.reasons.append, failed=main.failures.append
    )
    watcher.start()
    writer.run("insert into t values (1)")
    assert closed.wait(10)
    _until_ended(watcher)


def test_closing_under_the_lock_that_a_check_waits_for_is_no_deadlock(main: Main) -> None:
    asked = threading.Event()

    def check() -> bool:
        asked.set()
        return main.check()

    watcher = Watcher(
        str(main.path), check=check, replaced=main.reasons.append, failed=main.failures.append
    )
    with main.lock:
        watcher.start()
        assert asked.wait(10)
        watcher.close()
    _until_ended(watcher)


@pytest.mark.parametrize("backend", BACKENDS)
def test_locks_that_this_process_holds_survive_the_watching(main: Main, backend: Backend) -> None:
    asked: list[bool] = []

    def check() -> bool:
        asked.append(True)
        return False

    with main.lock:
        main.connection.execute("begin immediate")
        main.connection.execute("insert into t values (1)")
        watcher = Watcher(
            str(main.path),
            check=check,
            replaced=main.reasons.append,
            failed=main.failures.append,
            backend=backend,
            poll_interval=0.01,
        )
        watcher.start()
        _until(lambda: len(asked) > 10)
        watcher.close()
        intruder = subprocess.run(
            [sys.executable, "-c", PYTHON_WRITER.replace("30", "0"), str(main.path), "normal"],
            input="insert into t values (2)",
            capture_output=True,
            text=True,
        )
        main.connection.execute("commit")
    assert "database is locked" in intruder.stderr, "another process wrote into our transaction"


def test_a_failing_check_is_told_and_the_watching_goes_on(main: Main, writer: Writer) -> None:
    broken = threading.Event()
    broken.set()

    def check() -> bool:
        if broken.is_set():
            raise sqlite3.OperationalError("disk I/O error")
        return main.check()

    main.watcher = watcher = Watcher(
        str(main.path),
        check=check,
        replaced=main.reasons.append,
        failed=main.note(main.failures),
        poll_interval=0.01,
    )
    watcher.start()
    main.wait(lambda: bool(main.failures))
    writer.run("insert into t values (1)")
    broken.clear()
    main.wait_for_value(1)
    assert [str(error) for error in main.failures] == ["disk I/O error"], (
        "a failure that lasts is told once, not at each of many looks"
    )
    broken.set()
    main.wait(lambda: len(main.failures) == 2)


def test_an_error_of_a_listener_goes_to_the_excepthook_and_the_watching_goes_on(
    main: Main, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooked: list[BaseException | None] = []

    def hook(unhandled: threading.ExceptHookArgs) -> None:
        hooked.append(unhandled.exc_value)

    monkeypatch.setattr(threading, "excepthook", hook)
    checks: list[None] = []

    def check() -> bool:
        checks.append(None)
        raise LookupError("from check")

    def failed(error: BaseException) -> None:
        raise ValueError("from failed") from error

    watcher = Watcher(
        str(main.path),
        check=check,
        replaced=main.reasons.append,
        failed=failed,
        poll_interval=0.01,
    )
    watcher.start()
    _until(lambda: len(checks) > 3)
    watcher.close()
    assert [str(error) for error in hooked] == ["from failed"]


@pytest.mark.skipif(not LINUX, reason="only Linux has inotify")
def test_without_inotify_watchfiles_is_used_and_it_is_logged_once(
    main: Main,
    writer: Writer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(wakeups, "Inotify", _refused)
    watcher = main.watch(poll_interval=NEVER)
    assert watcher.backend == "watchfiles"
    main.wait_for_checks(1)
    writer.run("insert into t values (1)")
    main.wait_for_value(1)
    assert [record.name for record in caplog.records] == ["reactive_sqlite"]
    assert "No space left on device" in caplog.text


def test_without_any_events_the_poll_is_left(
    main: Main,
    writer: Writer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(wakeups, "Inotify", _refused)
    monkeypatch.setattr("watchfiles.watch", _refused)
    watcher = main.watch(poll_interval=0.1)
    writer.run("insert into t values (1)")
    main.wait_for_value(1)
    _until(lambda: watcher.backend == "poll")
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1, "once, whatever else was tried before"
    assert "by poll from now on" in warnings[0].getMessage()


@pytest.mark.skipif(not LINUX, reason="only Linux has inotify")
def test_a_refused_watch_leaves_no_descriptor(tmp_path: Path) -> None:
    descriptors = _descriptors()
    for _ in range(3):
        with pytest.raises(FileNotFoundError):
            wakeups.InotifyWakeup(str(tmp_path / "none"), frozenset({"db"}))
    assert _descriptors() == descriptors


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("source", ["normal", "full", "cli", "delete"])
def test_no_commit_is_missed_in_twenty_thousand(
    tmp_path: Path, source: Literal["normal", "full", "cli", "delete"], sqlite3_cli: str
) -> None:
    main = Main(tmp_path / "db.sqlite", "delete" if source == "delete" else "wal")
    main.watch()
    if source == "cli":
        writer = Writer([sqlite3_cli, "-batch", "-cmd", ".timeout 30000", str(main.path)])
    else:
        writer = _python(main, "full" if source == "full" else "normal")
    _each_commit_arrives(main, writer, 20 * ROUNDS)
    writer.close()
    main.close()


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_many_writers_at_once_for_half_a_minute_leave_the_last_value(main: Main) -> None:
    main.watch()
    with ExitStack() as stack:
        writers = [_python(main) for _ in range(4)]
        for writer in writers:
            stack.callback(writer.close)
        began, number = time.monotonic(), 0
        while time.monotonic() - began < 30:
            for writer in writers:
                number += 1
                writer.send(f"insert into t values ({number})")
            for writer in writers:
                writer.wait()
            main.wait_for_value(number)


def _python(main: Main, synchronous: str = "normal") -> Writer:
    return Writer([sys.executable, "-c", PYTHON_WRITER, str(main.path), synchronous])


def _each_commit_arrives(main: Main, writer: Writer, rounds: int) -> None:
    """Commit one value at a time and wait for each, so that none can hide behind the next."""
    late = 0
    for number in range(1, rounds + 1):
        began = time.monotonic()
        writer.send(f"insert into t values ({number});")
        main.wait_for_value(number)
        late += time.monotonic() - began > LATE
    assert not main.failures
    assert late <= rounds / 100, f"{late} of {rounds} were left to the safety poll"


def _settled(main: Main) -> int:
    """The number of checks once they have ended: the looks after an event take 0.1 s."""
    checks = -1
    while checks != main.checks:
        checks = main.checks
        threading.Event().wait(0.3)
    return checks


def _until(condition: Callable[[], bool], timeout: float = 10.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout} s"
        threading.Event().wait(0.005)


def _until_ended(watcher: Watcher) -> None:
    watcher.close()
    _until(lambda: all(thread.name != NAME for thread in threading.enumerate()))


def _descriptors() -> int:
    gc.collect()  # what earlier tests have left behind is none of this one's
    return len(os.listdir("/proc/self/fd")) if LINUX else 0


def _refused(*arguments: object, **options: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
