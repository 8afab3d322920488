"""`read_only=True` and the commands that list: no byte changes, no file appears, nothing is old."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import sqlite3
from smithers import (
    CannotOpen,
    ReadOnly,
    create_async_smithers_db,
    create_smithers_db,
)
from smithers.schema import SCHEMA_VERSION
from tests.locked import WAYS, Reader, unlock
from tests.recorder import Recorder

# Runs commands of the command line, and then asks the library for everything, in one process.
EVERYTHING = """
    import contextlib, io, json, os, sys
    from smithers import CannotOpen, create_smithers_db
    from smithers.cli import main
    path, commands = sys.argv[1], json.loads(sys.argv[2])
    for command in commands:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(["db", *command, "--path", path])
        print(command[0], code, "said" if said.getvalue() else "silent")
    with create_smithers_db(path, read_only=True, watch=False) as db:
        print(sorted(db.state.get_all().items()), db.state.observe("n").peek())
        print([one.hash for one in db.vcs.commits()], db.execution.list()[0].name)
"""
VALUES = """
    import sys
    from smithers import create_smithers_db
    with create_smithers_db(sys.argv[1], read_only=True, watch=False) as db:
        print(db.state.get("n"), flush=True)
        sys.stdin.readline()
        print(db.state.get("n"))
"""
REFUSED = """
    import sys
    from smithers import CannotOpen, create_smithers_db
    try:
        create_smithers_db(sys.argv[1], read_only=sys.argv[2] == "read only")
    except CannotOpen as error:
        print(error)
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "workflow"
    directory.mkdir()
    yield directory
    unlock(directory)


def filled(place: Path) -> list[list[str]]:
    """Make a database with something of everything; return the commands that list it."""
    with create_smithers_db(place, project=str(place)) as db:
        db.state.set_many({"n": 1, "phase": "review"}, "init")
        execution = db.execution.start("Feature", "scripts/feature.py")
        with db.phases.open("implement"):
            step = db.steps.start("write tests")
            agent = db.agents.start("Write tests", "sonnet")
            tool = db.tools.start(agent, "bash", {"command": "ls"})
            db.tools.complete(tool, "a.py")
            db.agents.complete(agent, "done", tokens={"input": 10, "output": 5})
            db.steps.complete(step)
        db.memories.add_fact("api-endpoint", "The endpoint is /api/v2")
        db.vcs.log_commit(hash="abc", message="feat: add")
        db.vcs.log_snapshot(snapshot_id="s1")
        db.vcs.log_review(review_id="r1", target="abc", approved=False, blocking=True, summary="no")
    return [
        *(["executions"], ["execution", execution], ["current"], ["phases", execution]),
        *(["steps", execution], ["agents"], ["tools", agent], ["state"], ["history"]),
        *(["commits"], ["reviews"], ["stats"], ["check"], ["query", "SELECT * FROM agents"]),
    ]


def contents(place: Path, *, index: bool = True) -> dict[str, tuple[str, int]]:
    """What the files of a directory hold and when they were written; the index only where told."""
    return {
        file.name: (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in place.iterdir()
        if index or not file.name.endswith("-shm")
    }


def assert_listed(said: list[str], commands: list[list[str]], state: str) -> None:
    """Every command printed something and ended well, and the library read it all."""
    assert said[: len(commands)] == [f"{command[0]} 0 said" for command in commands]
    assert said[len(commands) :] == [state, "['abc'] Feature"]


def test_listing_a_closed_database_leaves_everything_as_it_was(place: Path) -> None:
    commands = filled(place)
    before = contents(place)
    assert list(before) == ["db.sqlite"]
    program = [sys.executable, "-c", textwrap.dedent(EVERYTHING), str(place), json.dumps(commands)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=True)
    assert_listed(done.stdout.splitlines(), commands, "[('n', 1), ('phase', 'review')] 1")
    assert contents(place) == before, "no -wal and no -shm where there were none"


def test_listing_beside_a_live_writer_changes_neither_database_nor_log(place: Path) -> None:
    commands = filled(place)
    with create_smithers_db(place) as writer:
        writer.state.set("n", 2)
        before = contents(place, index=False)
        assert sorted(before) == ["db.sqlite", "db.sqlite-wal"]
        program = [
            sys.executable,
            "-c",
            textwrap.dedent(EVERYTHING),
            str(place),
            json.dumps(commands),
        ]
        done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=True)
        assert_listed(done.stdout.splitlines(), commands, "[('n', 2), ('phase', 'review')] 2")
        assert contents(place, index=False) == before


@pytest.mark.parametrize("way", WAYS)
def test_everything_is_listed_where_nothing_can_be_written(place: Path, way: str) -> None:
    commands = filled(place)
    before = contents(place)
    said = Reader(way, place, EVERYTHING, place, json.dumps(commands)).end()
    assert_listed(said, commands, "[('n', 1), ('phase', 'review')] 1")
    assert contents(place) == before


@pytest.mark.parametrize("way", WAYS)
def test_a_live_writer_is_followed_from_where_nothing_can_be_written(place: Path, way: str) -> None:
    filled(place)
    with create_smithers_db(place) as writer:
        writer.state.set("n", 2)
        before = contents(place, index=False)
        reader = Reader(way, place, VALUES, place)
        assert reader.line() == "2"
        assert contents(place, index=False) == before
        writer.state.set("n", 3)
        before = contents(place, index=False)
        reader.tell()
        assert reader.end() == ["3"]
        assert contents(place, index=False) == before


def crashed(place: Path) -> None:
    """Write n = 2 in a process that then ends without closing anything."""
    program = (
        "import os, sys\n"
        "from smithers import create_smithers_db\n"
        "create_smithers_db(sys.argv[1]).state.set('n', 2)\n"
        "os._exit(0)\n"
    )
    subprocess.run((sys.executable, "-c", program, place), check=True, timeout=60)
    assert (place / "db.sqlite-wal").stat().st_size > 0, "what it wrote is in the log alone"


@pytest.mark.parametrize("way", WAYS)
def test_what_a_crashed_writer_left_is_read_where_nothing_can_be_written(
    place: Path, way: str
) -> None:
    filled(place)
    crashed(place)
    before = contents(place, index=False)
    reader = Reader(way, place, VALUES, place)
    reader.tell()
    assert reader.end() == ["2", "2"]
    assert contents(place, index=False) == before


@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_be_read_to_its_end_is_an_error_and_never_old(place: Path, way: str) -> None:
    filled(place)
    crashed(place)
    (place / "db.sqlite-shm").unlink()
    before = contents(place)
    (said,) = Reader(way, place, REFUSED, place, "read only").end()
    assert "its newest commits are still in the -wal" in said
    assert "open it once where its directory can be written" in said
    assert contents(place) == before


@pytest.mark.parametrize("way", WAYS)
def test_a_database_that_is_not_there_is_not_made(place: Path, way: str) -> None:
    (said,) = Reader(way, place, REFUSED, place, "read only").end()
    assert "there is no such file" in said
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("made", [True, False])
def test_writing_where_nothing_can_be_written_is_an_error(place: Path, made: bool) -> None:
    if made:
        filled(place)
    before = contents(place)
    (said,) = Reader("directory and files", place, REFUSED, place, "for writing").end()
    assert said.startswith("cannot open ")
    assert contents(place) == before


def test_an_older_schema_says_both_versions_and_what_to_do(tmp_path: Path) -> None:
    old = tmp_path / "db.sqlite"
    old.write_bytes((Path(__file__).parent / "schemas" / "1.sqlite").read_bytes())
    before = contents(tmp_path)
    with pytest.raises(CannotOpen) as caught:
        create_smithers_db(tmp_path, read_only=True)
    for part in ("version 1", str(SCHEMA_VERSION), "open it once for writing"):
        assert part in caught.value.reason
    assert contents(tmp_path) == before
    create_smithers_db(tmp_path).close()
    create_smithers_db(tmp_path, read_only=True).close()


def test_every_write_is_refused_before_anything_happens(place: Path) -> None:
    filled(place)
    with create_smithers_db(place, read_only=True) as db:
        execution = db.execution.list()[0].id
        agent = db.agents.list()[0].id
        before = contents(place, index=False)
        writes: tuple[Callable[[], Any], ...] = (
            lambda: db.state.set("n", 2),
            lambda: db.state.set_many({"n": 2}),
            lambda: db.state.update("n", lambda n: n),
            lambda: db.state.delete("n"),
            lambda: db.state.reset(),
            lambda: db.state.restore({}),
            lambda: db.state.replay_to("t1"),
            lambda: db.execution.start("x"),
            lambda: db.execution.resume(execution),
            lambda: db.execution.complete(execution),
            lambda: db.execution.cancel(execution),
            lambda: db.phases.start("x", execution_id=execution),
            lambda: db.steps.start("x"),
            lambda: db.agents.start("x"),
            lambda: db.agents.fail(agent, "x"),
            lambda: db.tools.start(agent, "x", {}),
            lambda: db.memories.add_fact("x", "y"),
            lambda: db.vcs.log_commit(hash="x", message="y"),
            lambda: db.vcs.resolve_review("r1"),
            lambda: db.prune(keep_executions=0),
        )
        for write in writes:
            with pytest.raises(ReadOnly):
                write()
        with pytest.raises(ReadOnly, match="replay to 't1'"):
            db.state.replay_to("t1")
        for sql in ("DELETE FROM state", "PRAGMA user_version = 7", "CREATE TABLE t (v)"):
            with pytest.raises((ValueError, ReadOnly, sqlite3.OperationalError)):
                db.query(sql, write=True)
        assert contents(place, index=False) == before


def test_observers_of_a_read_only_handle_follow_a_writer(
    place: Path, recorder: Recorder[Any]
) -> None:
    filled(place)
    with create_smithers_db(place, read_only=True) as reading:
        reading.state.observe("n").subscribe(recorder)
        with create_smithers_db(place) as writer:
            writer.state.set("n", 2)
            recorder.wait_for(lambda value: value == 2)
    assert recorder.values == [1, 2]


async def test_an_asynchronous_reader_leaves_nothing_either(place: Path) -> None:
    await asyncio.to_thread(filled, place)
    before = contents(place)
    async with create_async_smithers_db(place, read_only=True) as db:
        assert await db.state.get("n") == 1
        with pytest.raises(ReadOnly):
            await db.vcs.log_commit(hash="x", message="y")
    assert contents(place) == before


def test_memories_are_searched_without_a_trace(place: Path, user_home: Path) -> None:
    filled(place)
    before = contents(place)
    with create_smithers_db(place, read_only=True, project=str(place)) as db:
        found: list[Any] = db.memories.search("endpoint")
        assert [memory.key for memory in found] == ["api-endpoint"]
        assert db.memories.get("fact", "api-endpoint") is not None
    assert contents(place) == before
    assert not user_home.exists(), "the store of the user is made by its first memory"
