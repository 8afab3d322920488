"""Readers that stop half-way and subscribers that take long: nobody who writes waits for them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from smithers import SmithersDB, create_smithers_db
from smithers.dumpfile import DumpWriter
from tests.smithers.commandline import environment

LARGEST_LOG = 64 * 1024 * 1024
SET = """
import sys
from smithers import create_smithers_db
with create_smithers_db(sys.argv[1], watch=False) as db:
    for n in range(20):
        db.state.set("elsewhere", n)
"""
READERS: dict[str, Callable[[SmithersDB], Iterator[Any]]] = {
    "history": lambda db: iter(db.state.history(limit=None)),
    "query": lambda db: iter(db.query("SELECT * FROM transitions")),
    "rows": lambda db: db.database.query("SELECT * FROM transitions"),
    "cursor": lambda db: iter(db.database.execute("SELECT * FROM transitions")),
    "feed": lambda db: iter(db.database.feed("slow", "state", start="beginning", batch_size=1)),
}


def write_here_and_elsewhere(db: SmithersDB, path: Path) -> None:
    """Write in another thread and another process, which end although the reader does not."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: [db.state.set("here", n) for n in range(20)]).result(30)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SET, path],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (db.state.get("here"), db.state.get("elsewhere")) == (19, 19)


def pause(db: SmithersDB, path: Path, reader: str, seconds: float) -> None:
    db.state.set_many({str(n): n for n in range(50)})
    rows = READERS[reader](db)
    next(rows)
    until = time.monotonic() + seconds
    write_here_and_elsewhere(db, path)
    while time.monotonic() < until:
        db.state.set("meanwhile", 1)
    assert next(rows) is not None, "it goes on where it was"


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_that_pauses_keeps_nobody_from_writing(tmp_path: Path, reader: str) -> None:
    with create_smithers_db(tmp_path) as db:
        pause(db, tmp_path, reader, 0)


@pytest.mark.soak
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_that_pauses_10_seconds_keeps_nobody_from_writing(
    tmp_path: Path, reader: str
) -> None:
    with create_smithers_db(tmp_path) as db:
        pause(db, tmp_path, reader, 10)


def test_a_dump_that_pauses_keeps_nobody_from_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, go_on = threading.Event(), threading.Event()
    write_row = DumpWriter.row

    def slow_row(writer: DumpWriter, *args: Any) -> None:
        paused.set()
        assert go_on.wait(50)
        write_row(writer, *args)

    monkeypatch.setattr(DumpWriter, "row", slow_row)
    path = tmp_path / "data"
    with create_smithers_db(path) as db, ThreadPoolExecutor(1) as pool:
        db.state.set("before", 1)
        dump = pool.submit(db.dump, tmp_path / "dump.jsonl")
        try:
            assert paused.wait(30)
            write_here_and_elsewhere(db, path)
            assert not dump.done()
        finally:
            go_on.set()
        assert dump.result(30)["transitions"] == 1, "it is of the moment at which it began"


def write_for_a_day(path: Path, writes: int) -> None:
    """Write what a day brings, large values among it, while readers pause and observers look."""
    with create_smithers_db(path) as db:
        db.state.set_many({str(n): n for n in range(50)})
        readers = [make(db) for make in READERS.values()]
        for rows in readers:
            next(rows)
        seen: list[Any] = []
        db.state.observe("3").subscribe(seen.append)
        assert db.path is not None
        log = db.path.with_name(db.path.name + "-wal")
        largest = 0
        for n in range(writes):
            db.state.set(str(n % 50), f"{n} " + "x" * 4000)
            if n % 100 == 0:
                largest = max(largest, log.stat().st_size)
        largest = max(largest, log.stat().st_size)
        print(f"{writes} writes of 4 kB: the log had at most {largest / 2**20:.1f} MB")
        assert largest < LARGEST_LOG
        assert len(seen) == 1 + writes // 50
        assert all(next(rows) is not None for rows in readers)


def test_the_log_stays_small_while_readers_pause(tmp_path: Path) -> None:
    write_for_a_day(tmp_path, 2_000)


@pytest.mark.soak
@pytest.mark.timeout(180)
def test_the_log_stays_small_for_all_the_writes_of_a_day(tmp_path: Path) -> None:
    write_for_a_day(tmp_path, 86_400)


def test_a_subscriber_that_takes_long_delays_no_other_threads_writes(tmp_path: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def take_long(value: Any) -> None:
        if value == "slow":
            inside.set()
            assert go_on.wait(50)

    with create_smithers_db(tmp_path) as db, ThreadPoolExecutor(1) as pool:
        db.state.observe("phase").subscribe(take_long)
        writer = pool.submit(db.state.set, "phase", "slow")
        try:
            assert inside.wait(30)
            write_here_and_elsewhere(db, tmp_path)
            assert not writer.done(), "the subscriber is still at it"
        finally:
            go_on.set()
        writer.result(30)
