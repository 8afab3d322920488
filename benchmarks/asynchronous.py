"""The asynchronous face beside the synchronous one, and tasks that wait for one another."""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from statistics import median

from benchmarks.databases import TOUCHED, UPSERT, keyed, writer
from benchmarks.figures import Figure, Outcome
from benchmarks.timing import Effort, timed
from reactive_sqlite import Database
from reactive_sqlite.aio import AsyncDatabase
from smithers import create_async_smithers_db

TITLE = "Async: points read and written, tasks waiting for each other"
READ = "SELECT value FROM t WHERE key = ?"
CALLS = 300  # in one turn
TASKS = 100
BLOCK = 8_000_000  # bytes of the value that is written while the loop is watched

READ_AT_MOST = 60.0
WRITE_EXTRA_AT_MOST = 80.0
PAUSE_AT_MOST = 50.0
SYNC = "the synchronous call"
# A hop to another thread and back takes 50 or 150 µs here, as the system puts the threads.
BY_HAND = "sqlite3 on an executor's thread"

Turns = Sequence[tuple[float, ...]]


def measure(effort: Effort, folder: Path) -> Outcome:
    """Compare awaited calls with plain ones, by turns, each on a database of its own."""
    return Outcome("async", TITLE, tuple(asyncio.run(_measure(effort, folder))))


async def _measure(effort: Effort, folder: Path) -> list[Figure]:
    with keyed(folder / "sync.sqlite") as plain:
        keyed(folder / "async.sqlite").close()
        async with AsyncDatabase(folder / "async.sqlite") as database:
            plain.execute(UPSERT, (TOUCHED, 0))
            await database.execute(UPSERT, (TOUCHED, 0))
            with ThreadPoolExecutor(1) as pool:
                reads = await _reads(plain, database, pool, effort)
            writes = await _writes(plain, database, effort)
            values = await _values(folder / "state", effort)
            hop = await _ring(database, effort)
            size = effort.count(BLOCK)
            text = await _pause(database.execute(UPSERT, ("large", "x" * size)))
            data = await _pause(database.transact(_write_json, [{"n": 1.5}] * (size // 12)))
    return [
        Figure("point read: state.get", values * 1e6, "", "µs", READ_AT_MOST),
        Figure("a row by SQL", median(turn[0] for turn in reads) * 1e6, "", "µs"),
        Figure("a row by SQL", _ratio(reads), SYNC),
        Figure("a row by SQL", median(turn[0] / turn[2] for turn in reads), BY_HAND),
        Figure("write, over", _extra(writes) * 1e6, SYNC, "µs", WRITE_EXTRA_AT_MOST),
        Figure("write", _ratio(writes), SYNC),
        Figure(f"from one of {TASKS} tasks to the next", hop * 1e6, unit="µs"),
        Figure("pause of the loop, 8 MB of text written", text * 1e3, "", "ms", PAUSE_AT_MOST),
        Figure("pause of the loop, 8 MB encoded as JSON", data * 1e3, unit="ms"),
    ]


async def _reads(plain: Database, database: AsyncDatabase, pool: Executor, effort: Effort) -> Turns:
    """Time reads by turns: awaited, plain, and awaited by hand; seconds a call of each."""
    calls = effort.count(CALLS)
    loop = asyncio.get_running_loop()
    by_hand = await loop.run_in_executor(pool, _connected, plain)

    async def read() -> object:
        return await database.query(READ, (TOUCHED,))

    async def read_by_hand() -> object:
        return await loop.run_in_executor(pool, _fetched, by_hand)

    def plain_read() -> object:
        return list(plain.query(READ, (TOUCHED,)))

    turns = [
        (
            await _awaited(read, calls),
            timed(plain_read, calls),
            await _awaited(read_by_hand, calls),
        )
        for _ in range(effort.rounds)
    ]
    await loop.run_in_executor(pool, _closed, by_hand)
    return turns


async def _values(folder: Path, effort: Effort) -> float:
    """Time `state.get` of a workflow database; seconds a call."""
    calls = effort.count(CALLS)
    async with create_async_smithers_db(folder) as db:
        await db.state.set(TOUCHED, 0)

        async def read() -> object:
            return await db.state.get(TOUCHED)

        return median([await _awaited(read, calls) for _ in range(effort.rounds)])


async def _writes(plain: Database, database: AsyncDatabase, effort: Effort) -> Turns:
    """Time writes by turns: awaited and plain; seconds a call of each.

    Not between the reads: the watchers look around for a while after each commit.
    """
    calls = effort.count(CALLS)
    numbers = itertools.count()

    async def write() -> object:
        return await database.execute(UPSERT, (TOUCHED, next(numbers)))

    plain_write = writer(plain)
    return [(await _awaited(write, calls), timed(plain_write, calls)) for _ in range(effort.rounds)]


def _connected(database: Database) -> sqlite3.Connection:
    return sqlite3.connect(str(database.path), isolation_level=None)


def _fetched(connection: sqlite3.Connection) -> object:
    return connection.execute(READ, (TOUCHED,)).fetchall()


def _closed(connection: sqlite3.Connection) -> None:
    connection.close()


async def _awaited(call: Callable[[], Awaitable[object]], calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        await call()
    return (time.perf_counter() - began) / calls


async def _ring(database: AsyncDatabase, effort: Effort) -> float:
    """Let each task wait for its own key and then write the next one's; seconds for a hop."""
    tasks = effort.count(TASKS, least=2)

    async def member(number: int) -> None:
        own = database["t"].observe({"key": f"task {number}"}, select="value")
        ready.release()
        await own.first(bool)
        if number + 1 < tasks:
            await database.execute(UPSERT, (f"task {number + 1}", 1))

    ready = asyncio.Semaphore(0)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for number in range(tasks):
            group.create_task(member(number))
        for _ in range(tasks):
            await ready.acquire()
        began = time.perf_counter()
        await database.execute(UPSERT, ("task 0", 1))
    return (time.perf_counter() - began) / tasks


async def _pause(writing: Awaitable[object]) -> float:
    """The longest time the loop stood still while something was written, in seconds."""
    longest = 0.0
    ended = False

    async def watch() -> None:
        nonlocal longest
        last = time.perf_counter()
        while not ended:
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    await writing
    ended = True
    await watching
    return longest


def _write_json(database: Database, data: object) -> None:
    database.execute(UPSERT, ("large", json.dumps(data)))


def _ratio(turns: Turns) -> float:
    return median(turn[0] / turn[1] for turn in turns)


def _extra(turns: Turns) -> float:
    return median(turn[0] - turn[1] for turn in turns)
