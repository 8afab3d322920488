"""The log of another database beside a file: refused at once, and neither file is changed."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import sqlite3
from smithers import (
    ForeignLog,
    SmithersDB,
    create_async_smithers_db,
    create_smithers_db,
)
from tests.faults.test_corruption import bytes_of, opened, refused_by_the_command_line
from tests.smithers.commandline import Run, environment, runner
from tests.smithers.schemas import fixtures

# Writes, and is killed: what it wrote stands in the log alone.
KILLED = """
import os, signal, sys
from smithers import create_smithers_db
db = create_smithers_db(sys.argv[1], memory_path=sys.argv[1], project="p")
exec(sys.argv[2])
os.kill(os.getpid(), signal.SIGKILL)
"""
# Writes and moves the log into the file, over and over, until it is killed.
BUSY = """
import itertools, sys
from smithers import create_smithers_db
with create_smithers_db(sys.argv[1]) as db:
    for n in itertools.count():
        db.state.set("n", n)
        if n % 3 == 0:
            db.database.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if n == 9:
            print("writing", flush=True)
"""
LOOKING = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as other:
    print(other.execute("SELECT value FROM state WHERE key = 'who'").fetchone()[0])
other.close()
"""
SET = "db.state.set('who', 'the other')"


@pytest.fixture
def smithers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.delenv("SMITHERS_DB_PATH", raising=False)
    return runner(capsys)


def python(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", *map(str, arguments)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=50)


def killed(folder: Path, *, doing: str = SET) -> None:
    done = python(KILLED, folder, doing)
    assert done.returncode == -signal.SIGKILL, done.stderr


def fresh(folder: Path) -> None:
    """All of the database stands in its log."""


def with_a_past(folder: Path) -> None:
    """The log holds but the pages that were written last."""
    with create_smithers_db(folder, watch=False) as db:
        db.state.set_many({f"k{n}": "x" * 200 for n in range(50)})


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with a whole database."""
    with create_smithers_db(tmp_path / "own", watch=False) as db:
        db.state.set("who", "this one")
        db.state.set_many({f"k{n}": "y" * 200 for n in range(70)})
    return tmp_path / "own"


@pytest.mark.parametrize("past", [fresh, with_a_past])
def test_it_is_refused_by_every_way_in_and_both_databases_stay_whole(
    own: Path, tmp_path: Path, smithers: Run, past: Callable[[Path], None]
) -> None:
    other = tmp_path / "other"
    past(other)
    killed(other)
    log = own / "db.sqlite-wal"
    shutil.move(other / "db.sqlite-wal", log)

    for read_only in (False, True):
        error = opened(own, read_only=read_only)
        assert isinstance(error, ForeignLog)
        assert (error.path, error.log) == (str(own / "db.sqlite"), str(log))
    assert refused_by_the_command_line(smithers, own)

    async def awaited() -> None:
        await create_async_smithers_db(own)

    with pytest.raises(ForeignLog):
        asyncio.run(awaited())

    shutil.move(log, other / "db.sqlite-wal")
    for folder, who in ((own, "this one"), (other, "the other")):
        with create_smithers_db(folder, watch=False) as db:
            assert db.state.get("who") == who
            assert [found for found in db.check() if found.level == "error"] == []


def test_it_is_refused_where_the_file_keeps_no_log_of_its_own(own: Path, tmp_path: Path) -> None:
    connection = sqlite3.connect(own / "db.sqlite")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    killed(tmp_path / "other")
    shutil.move(tmp_path / "other" / "db.sqlite-wal", own / "db.sqlite-wal")
    assert isinstance(opened(own), ForeignLog)


def test_a_file_of_memories_is_not_opened_with_it_either(tmp_path: Path) -> None:
    for folder in (tmp_path / "own", tmp_path / "other"):
        with create_smithers_db(folder, memory_path=folder, project="p", watch=False) as db:
            db.memories.add("fact", "who", f"begun by {folder.name}")
    killed(tmp_path / "other", doing="db.memories.add('fact', 'who', 'foreign')")
    log = tmp_path / "own" / "memories.sqlite-wal"
    shutil.move(tmp_path / "other" / log.name, log)
    before = bytes_of(tmp_path / "own")
    with create_smithers_db(
        tmp_path / "own", memory_path=tmp_path / "own", project="p", watch=False
    ) as db:
        with pytest.raises(ForeignLog) as raised:
            db.memories.list()
        assert raised.value.log == str(log)
        assert bytes_of(tmp_path / "own").items() >= before.items()
        log.unlink()
        assert [memory.content for memory in db.memories.list()] == ["begun by own"]


def test_its_own_log_is_never_refused_while_another_process_writes_and_empties_it(
    own: Path,
) -> None:
    command = [sys.executable, "-c", BUSY, str(own)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        try:
            found: list[Any] = []
            for _ in range(100):
                with create_smithers_db(own, watch=False) as db:
                    found.append(db.state.get("n"))
        finally:
            writer.kill()
    assert found == sorted(found)
    assert found[-1] > found[0]


def test_threads_that_open_one_file_at_once_keep_their_locks(own: Path) -> None:
    killed(own, doing="db.state.set('who', 'one that was killed')")
    log = own / "db.sqlite-wal"
    handles: list[SmithersDB] = []
    together = threading.Barrier(8)

    def open_one() -> None:
        together.wait()
        handles.append(create_smithers_db(own, watch=False))

    threads = [threading.Thread(target=open_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(handles) == 8
    before = log.stat().st_ino
    # Without our locks it would take itself for the last one, and the log away.
    done = python(LOOKING, own / "db.sqlite")
    assert done.stdout == '"one that was killed"\n', done.stderr
    assert log.stat().st_ino == before
    handles[0].state.set("who", "one that lives")
    assert python(LOOKING, own / "db.sqlite").stdout == '"one that lives"\n'
    for handle in handles:
        handle.close()


def test_a_file_without_a_mark_is_taken_as_it_is(tmp_path: Path) -> None:
    oldest = min(fixtures())
    own = tmp_path / "own"
    own.mkdir()
    shutil.copy(fixtures()[oldest], own / "db.sqlite")
    with sqlite3.connect(own / "db.sqlite", isolation_level=None) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE state SET value = '41' WHERE key = 'attempts'")
        copy = tmp_path / "copy"
        copy.mkdir()
        for path in own.iterdir():
            shutil.copy(path, copy / path.name)
    connection.close()
    assert bytes_of(copy)["db.sqlite-wal"]
    with create_smithers_db(copy, watch=False) as db:
        assert db.state.get("attempts") == 41


def test_a_reader_takes_no_log_away_for_want_of_its_file(tmp_path: Path, smithers: Run) -> None:
    own = tmp_path / "own"
    killed(own)
    shutil.move(own / "db.sqlite", tmp_path / "moved.sqlite")
    (own / "db.sqlite").touch()
    assert isinstance(opened(own, read_only=True), ForeignLog)
    assert refused_by_the_command_line(smithers, own)
    shutil.move(tmp_path / "moved.sqlite", own / "db.sqlite")
    assert opened(own) == {"who": "the other"}
