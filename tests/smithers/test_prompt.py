"""What the loop reads for itself: it overtakes nothing, waits for nobody, and answers alike."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import DatabaseClosed, sqlite3
from reactive_sqlite.connection import AT_ONCE_BYTES
from smithers import AsyncSmithersDB, SmithersDB, StateTypeError, create_async_smithers_db
from tests.forgotten import limited


@pytest.fixture
async def db(made: Path) -> AsyncIterator[AsyncSmithersDB]:
    async with create_async_smithers_db(made) as opened:
        yield opened


class Readers:
    """Writes down which threads run SQL."""

    def __init__(self, sync: SmithersDB) -> None:
        self.threads: list[int] = []
        # Called as a program runs, of whatever statement, by the thread that runs it.
        sync.database.conn.set_progress_handler(self._ran, 1)

    def _ran(self) -> int:
        ident = threading.get_ident()
        if not self.threads or self.threads[-1] != ident:
            self.threads.append(ident)
        return 0


async def readers(db: AsyncSmithersDB) -> Readers:
    found = await db.transact(Readers)
    await db.stats()
    found.threads.clear()
    return found


@limited
async def test_one_value_is_read_by_the_loop_when_nothing_is_before_it(db: AsyncSmithersDB) -> None:
    attempts = db.state.key("attempts", int, default=0)
    await attempts.set(2)
    read = await readers(db)
    assert await db.state.get("attempts") == 2
    assert await db.state.has("attempts") is True
    assert await attempts.get() == 2
    assert (await db.state.get("absent", 7), await db.state.has("absent")) == (7, False)
    assert read.threads == [threading.get_ident()]


async def test_a_read_overtakes_no_call_that_was_made_before_it(db: AsyncSmithersDB) -> None:
    begun, go = threading.Event(), threading.Event()

    def hold(_: SmithersDB) -> None:
        begun.set()
        go.wait(20)

    holding = asyncio.create_task(db.transact(hold))
    await asyncio.to_thread(begun.wait, 20)
    made = [
        asyncio.create_task(call)
        for call in (
            db.state.get("n"),
            db.state.set("n", 1),
            db.state.get("n"),
            db.state.set("n", 2),
            db.state.has("n"),
            db.state.get("n"),
        )
    ]
    await asyncio.sleep(0)
    go.set()
    await holding
    first, _, second, _, there, third = [await task for task in made]
    assert (first, second, there, third) == (None, 1, True, 2)


async def test_a_read_made_before_a_write_does_not_see_it(db: AsyncSmithersDB) -> None:
    for number in range(50):
        before, _, after = await asyncio.gather(
            db.state.get("n", -1), db.state.set("n", number), db.state.get("n")
        )
        assert (before, after) == (number - 1, number)


async def test_a_transaction_on_the_worker_is_never_seen_into(db: AsyncSmithersDB) -> None:
    written, go = threading.Event(), threading.Event()

    def undone(sync: SmithersDB) -> None:
        sync.state.set("phase", "unfinished")
        written.set()
        go.wait(20)
        raise RuntimeError("undone")

    undoing = asyncio.create_task(db.transact(undone))
    await asyncio.to_thread(written.wait, 20)
    reading = asyncio.create_task(db.state.get("phase", "before"))
    await asyncio.sleep(0.01)
    assert not reading.done()
    go.set()
    with pytest.raises(RuntimeError, match="undone"):
        await undoing
    assert await reading == "before"


@limited
@pytest.mark.parametrize("size", [AT_ONCE_BYTES - 100, AT_ONCE_BYTES, 10 * AT_ONCE_BYTES])
async def test_a_long_value_comes_whole_from_whichever_thread(
    db: AsyncSmithersDB, size: int
) -> None:
    await db.state.set("long", "é" * (size // 2))
    read = await readers(db)
    assert await db.state.get("long") == "é" * (size // 2)
    assert (read.threads[-1] == threading.get_ident()) is (size < AT_ONCE_BYTES)


async def test_readers_let_the_other_tasks_go_on(db: AsyncSmithersDB) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    for _ in range(100):
        await db.state.get("phase")
    counting.cancel()
    assert turns >= 99


async def test_errors_are_the_same(made: Path) -> None:
    async with create_async_smithers_db(made) as db:
        await db.state.set("phase", "start")
        number = db.state.key("phase", int)
        with pytest.raises(StateTypeError, match="phase"):
            await number.get()
        with pytest.raises(TypeError, match="a key is a str"):
            await db.state.get(5)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        with pytest.raises(ValueError, match="a key is not empty"):
            await db.state.has("")

        def spoil(sync: SmithersDB) -> None:
            sync.database.conn.execute("PRAGMA ignore_check_constraints = ON")
            sync.database.conn.execute("UPDATE state SET value = '{'")

        await db.transact(spoil)
        with pytest.raises(StateTypeError, match="'phase': the stored value cannot be read"):
            await db.state.get("phase")
        await db.transact(lambda sync: sync.database.conn.execute("DROP TABLE state") and None)
        with pytest.raises(sqlite3.OperationalError, match="no such table: state"):
            await db.state.get("phase")
    for call in (db.state.get("phase"), db.state.has("phase"), number.get()):
        with pytest.raises(DatabaseClosed):
            await call


@limited
async def test_without_a_write_ahead_log_the_worker_reads(made: Path) -> None:
    async with create_async_smithers_db(made) as db:
        await db.state.set("phase", "start")
        await db.query("PRAGMA journal_mode = DELETE", write=True)
        read = await readers(db)
        assert await db.state.get("phase") == "start"
        assert threading.get_ident() not in read.threads
        await db.query("PRAGMA journal_mode = WAL", write=True)
        read = await readers(db)
        assert await db.state.get("phase") == "start"
        assert read.threads == [threading.get_ident()]


WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
connection.execute("UPDATE state SET value = '\\"elsewhere\\"' WHERE key = 'phase'")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
print("done", flush=True)
sys.stdin.readline()
"""


@limited
async def test_another_process_that_writes_makes_no_reader_wait_and_is_seen_when_it_commits(
    db: AsyncSmithersDB,
) -> None:
    await db.state.set("phase", "here")
    read = await readers(db)
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(db.path), stdin=-1, stdout=-1
    )
    assert writer.stdin is not None and writer.stdout is not None
    await writer.stdout.readline()
    assert await db.state.get("phase") == "here"
    assert threading.get_ident() in read.threads
    writer.stdin.write(b"\n")
    await writer.stdout.readline()
    assert await db.state.get("phase") == "elsewhere"
    writer.stdin.write(b"\n")
    await writer.wait()


@limited
async def test_an_in_memory_database_is_read_by_the_loop(tmp_path: Path) -> None:
    async with create_async_smithers_db(":memory:") as db:
        await db.state.set("phase", "start")
        read = await readers(db)
        values: list[Any] = await asyncio.gather(*(db.state.get("phase") for _ in range(10)))
        assert values == ["start"] * 10
        assert read.threads == [threading.get_ident()]
