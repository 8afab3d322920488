"""Opening to read only: no byte changes, no file is left behind, and what is read is never old."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import Database, DatabaseReplaced, sqlite3
from tests.locked import WAYS, Reader, unlock
from tests.recorder import Recorder

Start = Callable[[str, Path], Reader]
READ = """
    import sys
    from reactive_sqlite import Database
    with Database(sys.argv[1], read_only=True, watch=False) as db:
        print(db.execute("SELECT v FROM t").fetchall())
"""
# Reads once before and once after somebody else has written, and says what went wrong.
READ_TWICE = """
    import sys
    from reactive_sqlite import Database, DatabaseReplaced
    with Database(sys.argv[1], read_only=True, watch=False) as db:
        print(db.execute("SELECT v FROM t").fetchall(), flush=True)
        sys.stdin.readline()
        for _ in range(2):
            try:
                print(db.execute("SELECT v FROM t").fetchall())
            except DatabaseReplaced as error:
                print(type(error).__name__, error)
"""
FAIL = """
    import sys
    from reactive_sqlite import Database
    from reactive_sqlite.dialect import sqlite3
    try:
        Database(sys.argv[1], read_only=True)
    except sqlite3.OperationalError as error:
        print(error, *error.__notes__, sep=" | ")
"""


WRITE = """
    import sys
    from reactive_sqlite import Database
    from reactive_sqlite.dialect import sqlite3
    try:
        with Database(sys.argv[1], watch=False) as db:
            db.execute("INSERT INTO t VALUES (2)")
    except sqlite3.Error as error:
        print(type(error).__name__)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "folder"
    place.mkdir()
    yield place
    unlock(place)


@pytest.fixture(params=WAYS)
def read(request: pytest.FixtureRequest, folder: Path) -> Start:
    """Start a program that may not write in the folder."""

    def start(program: str, file: Path) -> Reader:
        return Reader(request.param, folder, program, file)

    return start


def closed(file: Path, journal_mode: str = "WAL") -> Path:
    """Make a database that holds 1, and that nobody has open."""
    writer = opened(file, journal_mode)
    writer.close()
    return file


def opened(file: Path, journal_mode: str = "WAL") -> sqlite3.Connection:
    """Make a database that holds 1, and return the connection that has it open."""
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute(f"PRAGMA journal_mode = {journal_mode}")
    writer.execute("CREATE TABLE t (v)")
    writer.execute("INSERT INTO t VALUES (1)")
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return writer


def crashed(file: Path, script: str, journal_mode: str = "WAL") -> Path:
    """Make a database that holds 1, run a script on it, and end without closing anything."""
    closed(file, journal_mode)
    program = (
        "import os, sqlite3, sys\n"
        "writer = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "for statement in sys.argv[2].split(';'):\n"
        "    writer.execute(statement)\n"
        "os._exit(0)\n"
    )
    subprocess.run((sys.executable, "-c", program, file, script), check=True, timeout=60)
    return file


def contents(folder: Path, *, index: bool = True) -> dict[str, tuple[str, int]]:
    """What the files of a folder hold and when they were written; the index only where told."""
    return {
        file.name: (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in folder.iterdir()
        if index or not file.name.endswith("-shm")
    }


# -- a directory that can be written ---------------------------------------------------------------


@pytest.mark.parametrize("journal_mode", ["WAL", "DELETE"])
@pytest.mark.parametrize("watch", [False, True])
def test_reading_a_closed_database_leaves_everything_as_it_was(
    folder: Path, journal_mode: str, watch: bool
) -> None:
    file = closed(folder / "x.db", journal_mode)
    before = contents(folder)
    for _ in range(2):
        with Database(file, read_only=True, watch=watch) as db:
            assert db.observe_value("SELECT v FROM t").peek() == 1
        assert contents(folder) == before, "no -wal and no -shm where there were none"


def test_readers_at_once_leave_nothing_either(folder: Path) -> None:
    file = closed(folder / "x.db")
    before = contents(folder)
    first = Database(file, read_only=True, watch=False)
    second = Database(file, read_only=True, watch=False)
    first.close()
    assert second.execute("SELECT v FROM t").fetchall() == [(1,)]
    second.close()
    assert contents(folder) == before


def test_a_reader_takes_no_log_away_that_a_writer_has_open(
    folder: Path, recorder: Recorder[Any]
) -> None:
    file = closed(folder / "x.db")
    with Database(file, read_only=True) as db:
        db.observe_value("SELECT sum(v) FROM t").subscribe(recorder)
        writer = sqlite3.connect(file, isolation_level=None)
        assert writer.execute("SELECT v FROM t").fetchall() == [(1,)]
    writer.execute("INSERT INTO t VALUES (2)")
    other = sqlite3.connect(file)
    assert other.execute("SELECT sum(v) FROM t").fetchone() == (3,)
    other.close()
    writer.close()
    assert sorted(path.name for path in folder.iterdir()) == ["x.db"]


def test_a_reader_beside_a_writer_follows_it_and_changes_no_byte(
    folder: Path, recorder: Recorder[Any]
) -> None:
    writer = opened(folder / "x.db")
    writer.execute("INSERT INTO t VALUES (2)")
    before = contents(folder, index=False)
    with Database(folder / "x.db", read_only=True) as db:
        db.observe_value("SELECT sum(v) FROM t").subscribe(recorder)
        assert contents(folder, index=False) == before
        writer.execute("INSERT INTO t VALUES (3)")
        recorder.wait_for(lambda value: value == 6)
        before = contents(folder, index=False)
    assert contents(folder, index=False) == before
    writer.close()


def test_what_a_writer_left_while_it_was_read_stays_for_the_next_writer(folder: Path) -> None:
    file = closed(folder / "x.db")
    with Database(file, read_only=True, watch=False) as db:
        writer = sqlite3.connect(file, isolation_level=None)
        writer.execute("INSERT INTO t VALUES (2)")
        writer.close()
        assert db.execute("SELECT sum(v) FROM t").fetchone() == (3,)
        before = contents(folder, index=False)
    assert contents(folder, index=False) == before, "the log is not a reader's to put away"
    with Database(file) as db:
        assert db.execute("SELECT sum(v) FROM t").fetchone() == (3,)
    assert sorted(path.name for path in folder.iterdir()) == ["x.db"]


@pytest.mark.parametrize("index", ["index", "no index"])
def test_what_a_crashed_writer_left_is_read(folder: Path, index: str) -> None:
    file = crashed(folder / "x.db", "INSERT INTO t VALUES (2)")
    if index == "no index":
        (folder / "x.db-shm").unlink()
    before = contents(folder, index=False)
    with Database(file, read_only=True) as db:
        assert db.execute("SELECT v FROM t").fetchall() == [(1,), (2,)]
    assert contents(folder, index=False) == before


def test_a_link_to_a_database_leaves_nothing_on_either_side(folder: Path, tmp_path: Path) -> None:
    closed(folder / "x.db")
    link = tmp_path / "link.db"
    link.symlink_to(folder / "x.db")
    before = contents(folder)
    with Database(link, read_only=True, watch=False) as db:
        assert db.execute("SELECT v FROM t").fetchall() == [(1,)]
    assert contents(folder) == before
    assert not list(tmp_path.glob("link.db-*"))


def test_a_database_locked_by_a_writer_is_locked_and_not_read_past_the_lock(folder: Path) -> None:
    file = closed(folder / "x.db", "DELETE")
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("PRAGMA cache_size = 1")
    writer.execute("BEGIN EXCLUSIVE")
    writer.execute("UPDATE t SET v = 2")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        Database(file, read_only=True, busy_timeout=0.01)
    writer.execute("ROLLBACK")
    writer.close()


# -- a directory that cannot be written ------------------------------------------------------------


@pytest.mark.parametrize("journal_mode", ["WAL", "DELETE"])
def test_a_closed_database_is_read_where_nothing_can_be_written(
    folder: Path, read: Start, journal_mode: str
) -> None:
    file = closed(folder / "x.db", journal_mode)
    before = contents(folder)
    assert read(READ, file).end() == ["[(1,)]"]
    assert contents(folder) == before


def test_what_is_to_be_written_where_nothing_can_be_is_sqlites_error(
    folder: Path, read: Start
) -> None:
    file = closed(folder / "x.db")
    before = contents(folder)
    (said,) = read(WRITE, file).end()
    assert said == "OperationalError"
    assert contents(folder) == before


def test_an_empty_log_without_its_index_does_not_hinder_reading(folder: Path, read: Start) -> None:
    file = closed(folder / "x.db")
    (folder / "x.db-wal").touch()
    before = contents(folder)
    assert read(READ, file).end() == ["[(1,)]"]
    assert contents(folder) == before


def test_a_reader_that_cannot_write_follows_a_writer(folder: Path, read: Start) -> None:
    writer = opened(folder / "x.db")
    writer.execute("INSERT INTO t VALUES (2)")
    before = contents(folder, index=False)
    reader = read(READ_TWICE, folder / "x.db")
    assert reader.line() == "[(1,), (2,)]"
    assert contents(folder, index=False) == before
    writer.execute("INSERT INTO t VALUES (3)")
    before = contents(folder, index=False)
    reader.tell()
    assert reader.end() == ["[(1,), (2,), (3,)]"] * 2
    assert contents(folder, index=False) == before
    writer.close()


def test_what_a_crashed_writer_left_is_read_by_its_index(folder: Path, read: Start) -> None:
    file = crashed(folder / "x.db", "INSERT INTO t VALUES (2)")
    before = contents(folder, index=False)
    assert read(READ, file).end() == ["[(1,), (2,)]"]
    assert contents(folder, index=False) == before


def test_what_a_crashed_writer_left_without_an_index_is_an_error_that_says_so(
    folder: Path, read: Start
) -> None:
    file = crashed(folder / "x.db", "INSERT INTO t VALUES (2)")
    (folder / "x.db-shm").unlink()
    before = contents(folder)
    (said,) = read(FAIL, file).end()
    assert "unable to open database file" in said
    assert "open it once where its directory can be written" in said
    assert contents(folder) == before


def test_a_journal_that_a_crashed_writer_left_is_an_error(folder: Path, read: Start) -> None:
    half = (
        "PRAGMA cache_size = 1; BEGIN; UPDATE t SET v = 2; INSERT INTO t VALUES (zeroblob(99999))"
    )
    file = crashed(folder / "x.db", half, "DELETE")
    assert (folder / "x.db-journal").stat().st_size > 0, "half of the transaction is in the file"
    before = contents(folder)
    (said,) = read(FAIL, file).end()
    assert "readonly" in said
    assert contents(folder) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write where a reader cannot")
@pytest.mark.parametrize("closing", ["stays open", "closes"])
def test_a_write_to_what_was_read_without_locks_is_an_error(
    folder: Path, read: Start, closing: str
) -> None:
    file = closed(folder / "x.db")
    reader = read(READ_TWICE, file)
    assert reader.line() == "[(1,)]"
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("INSERT INTO t VALUES (2)")
    if closing == "closes":
        writer.close()
    reader.tell()
    said = reader.end()
    assert len(said) == 2 and all(line.startswith("DatabaseReplaced ") for line in said)
    assert "open it again" in said[0]
    assert read(READ, file).end() == ["[(1,), (2,)]"], "and then it is read as it is"
    writer.close()


OBSERVE = """
    import sys, threading
    from reactive_sqlite import Database
    ended = threading.Event()
    def failed(error):
        print(type(error).__name__, flush=True)
        ended.set()
    with Database(sys.argv[1], read_only=True) as db:
        rows = db.observe("SELECT v FROM t")
        rows.subscribe(lambda rows: print(rows, flush=True), failed)
        ended.wait(30)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write where a reader cannot")
def test_observers_of_what_was_read_without_locks_are_told_that_it_ended(
    folder: Path, read: Start
) -> None:
    file = closed(folder / "x.db")
    reader = read(OBSERVE, file)
    assert reader.line() == "[{'v': 1}]"
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("INSERT INTO t VALUES (2)")
    assert reader.line() == DatabaseReplaced.__name__
    assert reader.end() == []
    writer.close()


def test_copies_of_a_database_are_read_where_nothing_can_be_written(
    folder: Path, read: Start, tmp_path: Path
) -> None:
    source = crashed(tmp_path / "x.db", "INSERT INTO t VALUES (2)")
    for part in source.parent.glob("x.db*"):
        shutil.copy(part, folder)
    assert read(READ, folder / "x.db").end() == ["[(1,), (2,)]"]
