"""The asynchronous face: the same promises, kept on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import (
    Database,
    DatabaseClosed,
    NotReady,
    create_effect,
    create_memo,
    sqlite3,
)
from reactive_sqlite.aio import AsyncDatabase
from reactive_sqlite.changes import ChangeSet
from reactive_sqlite.diff import Diff
from tests.recorder import Recorder


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[AsyncDatabase]:
    async with AsyncDatabase(tmp_path / "async.db") as db:
        await db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
        yield db


async def test_a_query_awaited_gives_its_value_and_is_followed_from_then_on(
    db: AsyncDatabase,
) -> None:
    count = db.observe_value("SELECT count(*) FROM t")
    with pytest.raises(NotReady):
        count()
    assert await count == 0
    await db.execute("INSERT INTO t (v) VALUES ('a')")
    assert count() == count.peek() == 1


async def test_observers_are_called_on_the_loop_before_the_await_of_the_write_returns(
    db: AsyncDatabase,
) -> None:
    seen, effects = Recorder[int](), Recorder[int]()
    count = db.observe_value("SELECT count(*) FROM t")
    await count
    count.subscribe(seen)
    double = create_memo(lambda: count() * 2)
    effect = create_effect(lambda: effects(double()))
    for number in range(1, 4):
        await db.execute("INSERT INTO t (v) VALUES (?)", [number])
        assert (seen.last, effects.last, double()) == (number, 2 * number, 2 * number)
    effect.dispose()
    assert {*seen.threads, *effects.threads} == {threading.main_thread()}


async def test_a_slow_loop_over_a_query_sees_the_newest_value(db: AsyncDatabase) -> None:
    seen: list[int] = []
    async for value in db.observe_value("SELECT count(*) FROM t"):
        seen.append(value)
        if value == 0:
            for _ in range(5):
                await db.execute("INSERT INTO t (v) VALUES (1)")
        if value == 5:
            break
    assert seen == [0, 5]


async def test_first_waits_for_a_fitting_value(db: AsyncDatabase) -> None:
    count = db.observe_value("SELECT count(*) FROM t")
    waiting = asyncio.create_task(count.first(lambda value: value == 2, timeout=5))
    await db.execute("INSERT INTO t (v) VALUES (1), (2)")
    assert await waiting == 2
    with pytest.raises(TimeoutError):
        await count.first(lambda value: value == 3, timeout=0.01)


async def test_100_tasks_await_each_others_changes(db: AsyncDatabase) -> None:
    await db.execute("INSERT INTO t VALUES (1, 0)")
    value = db.observe_value("SELECT v FROM t WHERE id = 1")

    async def relay(turn: int) -> None:
        await value.first(lambda current: current == turn, timeout=20)
        await db.execute("UPDATE t SET v = ? WHERE id = 1", [turn + 1])

    await asyncio.gather(*(relay(turn) for turn in range(100)))
    assert await value == 100


async def test_transact_is_one_transaction_and_one_notification(db: AsyncDatabase) -> None:
    seen = Recorder[list[dict[str, Any]]]()
    db["t"].observe(order_by="id").subscribe(seen)
    await db["t"].observe()

    def two(sync: Database, first: str, *, second: str) -> int:
        sync["t"].insert({"id": 1, "v": first})
        sync["t"].insert({"id": 2, "v": second})
        return 2

    assert await db.transact(two, "a", second="b") == 2
    assert seen.values == [[], [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]]

    def fails(sync: Database) -> None:
        sync.execute("DELETE FROM t")
        raise KeyError("undo")

    with pytest.raises(KeyError, match="undo"):
        await db.transact(fails)
    assert len(await db.query("SELECT * FROM t")) == 2
    assert len(seen.values) == 2


async def test_a_call_cancelled_while_it_waits_never_begins_and_one_begun_is_finished(
    db: AsyncDatabase,
) -> None:
    begun, finish = threading.Event(), threading.Event()

    def slow(sync: Database) -> None:
        begun.set()
        assert finish.wait(5)
        sync.execute("INSERT INTO t (v) VALUES ('slow')")

    first = asyncio.create_task(db.transact(slow))
    second = asyncio.create_task(db.execute("INSERT INTO t (v) VALUES ('queued')"))
    await asyncio.to_thread(begun.wait, 5)
    first.cancel()
    second.cancel()
    finish.set()
    await asyncio.gather(first, second, return_exceptions=True)
    assert await db.query("SELECT v FROM t") == [{"v": "slow"}]


@pytest.mark.parametrize("turns", range(6))
async def test_cancelling_a_write_at_any_await_leaves_all_or_nothing(
    db: AsyncDatabase, turns: int
) -> None:
    def pair(sync: Database) -> None:
        sync.execute("INSERT INTO t (v) VALUES ('left')")
        sync.execute("INSERT INTO t (v) VALUES ('right')")

    task = asyncio.create_task(db.transact(pair))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await db.observe_value("SELECT count(*) FROM t") in (0, 2)
    await db.execute("INSERT INTO t (v) VALUES ('after')")
    assert await db.observe_value("SELECT count(*) FROM t") in (1, 3)


async def test_the_loop_goes_on_while_another_process_holds_the_write_lock(
    db: AsyncDatabase, tmp_path: Path
) -> None:
    script = (
        "import sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('BEGIN IMMEDIATE'); print('locked', flush=True)\n"
        "sys.stdin.readline(); c.execute('COMMIT')\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(tmp_path / "async.db"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    count = db.observe_value("SELECT count(*) FROM t")
    await count
    await process.stdout.readline()
    loop = asyncio.get_running_loop()
    write = asyncio.create_task(db.execute("INSERT INTO t (v) VALUES (1)"))
    until, turns = loop.time() + 0.5, 0
    while loop.time() < until or turns < 20:
        assert count() == 0, "reading waits for nobody"
        count.subscribe().dispose()
        await asyncio.sleep(0)
        turns += 1
    assert not write.done(), "the loop went on while the write waited for the lock"
    process.stdin.write(b"\n")
    await process.stdin.drain()
    await write
    await process.wait()
    assert count() == 1


async def test_tables_views_rows_many_changes_and_diffs(db: AsyncDatabase) -> None:
    rows, many = Recorder[Any](), Recorder[tuple[Any, ...]]()
    changed, differences = Recorder[ChangeSet](), Recorder[Diff[Any]]()
    row, count = db["t"].observe_row(1), db.observe_value("SELECT count(*) FROM t")
    row.decoded(lambda found: found and found["v"]).subscribe(rows)
    db.observe_many(row, count).subscribe(many)
    db.changes("t").subscribe(changed)
    db["t"].observe().diffs().subscribe(differences)
    await db.query("SELECT 1")
    await db.execute("INSERT INTO t VALUES (1, 'x')")
    assert rows.values == [None, "x"]
    assert many.values == [(None, 0), ({"id": 1, "v": "x"}, 1)]
    assert [change.rows[0].key for change in changed.values if change.rows] == [1]
    assert [len(difference.steps) for difference in differences.values] == [0, 1]


async def test_errors_of_a_query_come_when_it_is_awaited(db: AsyncDatabase) -> None:
    with pytest.raises(ValueError, match="DELETE"):
        await db.observe("DELETE FROM t")
    with pytest.raises(sqlite3.OperationalError, match="absent"):
        await db.observe("SELECT * FROM absent")
    failed = Recorder[Any]()
    db.observe("SELECT * FROM absent").subscribe(failed.on_next, failed.on_error)
    await db.query("SELECT 1")
    assert [type(error) for error in failed.errors] == [sqlite3.OperationalError]


async def test_an_error_of_an_observer_goes_to_the_loops_handler(db: AsyncDatabase) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def fails(value: int) -> None:
        if value:
            raise KeyError(value)

    db.observe_value("SELECT count(*) FROM t").subscribe(fails)
    await db.execute("INSERT INTO t (v) VALUES (1)")
    await asyncio.sleep(0)
    assert [type(context["exception"]) for context in told] == [KeyError]


async def test_context_variables_reach_the_worker(db: AsyncDatabase) -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who")
    who.set("me")
    assert await db.transact(lambda _: who.get()) == "me"


async def test_a_dropped_query_is_followed_no_longer(db: AsyncDatabase) -> None:
    assert await db.observe_value("SELECT count(*) FROM t") == 0
    gc.collect()
    await db.execute("INSERT INTO t (v) VALUES (1)")
    assert await db.transact(lambda sync: len(sync.broker.live)) == 0


async def test_closing_completes_and_every_later_call_raises(tmp_path: Path) -> None:
    seen = Recorder[int]()
    async with AsyncDatabase(tmp_path / "closing.db") as db:
        one = db.observe_value("SELECT 1")
        one.subscribe(seen.on_next, seen.on_error, seen.on_completed)
        await one
    await asyncio.sleep(0)
    assert (seen.values, seen.completed) == ([1], 1)
    with pytest.raises(DatabaseClosed):
        one()
    with pytest.raises(DatabaseClosed):
        await db.execute("SELECT 1")
    with pytest.raises(DatabaseClosed):
        await db.observe("SELECT 1")
    await db.close()


async def test_awaiting_the_database_opens_it(tmp_path: Path) -> None:
    db = await AsyncDatabase(memory=True)
    assert await db.observe_value("SELECT 1") == 1
    await db.close()
    with pytest.raises(NotReady, match="async with"):
        AsyncDatabase(memory=True).observe("SELECT 1")
    with pytest.raises(sqlite3.OperationalError):
        await AsyncDatabase(tmp_path / "no" / "such" / "directory.db")


def test_without_asyncio_there_is_a_clear_error(tmp_path: Path) -> None:
    opening = AsyncDatabase(tmp_path / "x.db").__await__()
    with pytest.raises(RuntimeError, match="trio"):
        next(opening)


async def test_what_an_async_effect_writes_itself_never_cancels_it(db: AsyncDatabase) -> None:
    await db.execute("INSERT INTO t VALUES (1, 0)")
    value = db.observe_value("SELECT v FROM t WHERE id = 1")
    await value
    told: list[tuple[str, int]] = []
    finished = asyncio.Event()

    async def climb() -> None:
        seen = value()
        told.append(("began", seen))
        if seen < 3:
            await db.execute("UPDATE t SET v = v + 1 WHERE id = 1")
        await asyncio.sleep(0)
        told.append(("ended", seen))
        if seen == 3:
            finished.set()

    effect = create_effect(climb)
    async with asyncio.timeout(5):
        await finished.wait()
    effect.dispose()
    assert told == [(what, seen) for seen in range(4) for what in ("began", "ended")]


async def test_a_task_that_an_async_effect_started_writes_from_elsewhere(db: AsyncDatabase) -> None:
    await db.execute("INSERT INTO t VALUES (1, 0)")
    value = db.observe_value("SELECT v FROM t WHERE id = 1")
    await value
    told: list[str] = []
    finished = asyncio.Event()

    async def write() -> None:
        await asyncio.sleep(0)
        await db.execute("UPDATE t SET v = 1 WHERE id = 1")

    async def run() -> None:
        if value() == 0:
            task = asyncio.create_task(write())
            try:
                await asyncio.Event().wait()
            finally:
                told.append("cancelled")
                await task
        told.append("ended")
        finished.set()

    effect = create_effect(run)
    async with asyncio.timeout(5):
        await finished.wait()
    effect.dispose()
    assert told == ["cancelled", "ended"]
