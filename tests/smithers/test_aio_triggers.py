"""Triggers of an asynchronous database: handlers on the event loop, side by side."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import DatabaseClosed, sqlite3
from smithers import (
    AsyncSmithersDB,
    InTransaction,
    NotFound,
    ReadOnly,
    Transition,
    create_async_smithers_db,
    create_smithers_db,
)
from tests.smithers.hostile import contents

# Handles until it is killed, and is held up by "hang".
WORKER = """
import asyncio, sys
from smithers import create_async_smithers_db

async def main():
    async with create_async_smithers_db(sys.argv[1], busy_timeout=20.0) as db:
        @db.triggers.on("job", name="worker", start="beginning")
        async def handle(transition):
            print(transition.value, flush=True)
            if transition.value == "hang":
                await asyncio.Event().wait()
        await db.triggers.deliver_forever()

asyncio.run(main())
"""


@pytest.fixture
async def db(made: Path) -> AsyncIterator[AsyncSmithersDB]:
    async with create_async_smithers_db(made) as opened:
        yield opened


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let retries and looking again come soon."""
    monkeypatch.setattr("smithers.deliveries.FIRST", 0.02)
    monkeypatch.setattr("smithers.deliveries.RECHECK", 0.05)
    monkeypatch.setattr("smithers.aio.triggers.RECHECK", 0.05)


class Seen:
    """What handlers were called with, which may be waited for."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._grown = asyncio.Event()

    def __call__(self, change: Any) -> None:
        assert threading.current_thread() is threading.main_thread(), "on the event loop"
        self.values.append(change.value if isinstance(change, Transition) else change)
        self._grown.set()

    async def later(self, change: Any) -> None:
        await asyncio.sleep(0)
        self(change)

    async def count(self, count: int) -> list[Any]:
        async with asyncio.timeout(20):
            while len(self.values) < count:
                self._grown.clear()
                await self._grown.wait()
        return self.values


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait for what stands in the file, where no query is observed that would tell."""
    async with asyncio.timeout(20):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def worker(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", WORKER, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )


# -- deliver ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("color", ["async", "sync"])
async def test_each_change_is_handled_once_in_order(db: AsyncSmithersDB, color: str) -> None:
    seen = Seen()
    db.triggers.on("phase", name="one", to=None)(seen)
    db.triggers.on("phase", name="two")(seen.later if color == "async" else seen)
    for value in range(120):
        await db.state.set("phase", value)
    assert await db.triggers.deliver() == 120
    assert seen.values == [*range(120)]
    assert await db.triggers.deliver() == 0


async def test_what_is_registered_misses_nothing_that_is_awaited_after_it(
    db: AsyncSmithersDB,
) -> None:
    await db.state.set("phase", "before")
    seen, all = Seen(), Seen()
    db.triggers.on("phase", name="one")(seen)
    db.triggers.on("phase", name="all", start="beginning")(all.later)
    await db.state.set("phase", "after")
    assert await db.triggers.deliver() == 3
    assert (seen.values, all.values) == (["after"], ["before", "after"])


async def test_answers_of_queries_are_handled(db: AsyncSmithersDB) -> None:
    seen = Seen()
    db.triggers.on_query("SELECT key FROM state WHERE key = $1", ["a"], name="rows")(seen.later)
    assert await db.triggers.deliver() == 0
    await db.state.set_many({"a": 1, "b": 2})
    assert await db.triggers.deliver() == 1
    assert (await db.triggers.deliver(), seen.values) == (0, [[{"key": "a"}]])


async def test_handlers_of_different_triggers_run_side_by_side(db: AsyncSmithersDB) -> None:
    met = asyncio.Barrier(2)

    async def meet(_: Transition) -> None:
        async with asyncio.timeout(20):
            await met.wait()

    for name in ("one", "two"):
        db.triggers.on("phase", name=name)(meet)
    await db.state.set("phase", 1)
    assert await db.triggers.deliver() == 2


async def test_handlers_write_and_what_they_write_is_left_to_the_next_call(
    db: AsyncSmithersDB,
) -> None:
    @db.triggers.on("n", name="counts", when=lambda transition: transition.value < 3)
    async def count(transition: Transition) -> None:
        await db.execution.start("inside")
        await db.state.set("n", transition.value + 1)

    await db.state.set("n", 0)
    assert [await db.triggers.deliver() for _ in range(5)] == [1, 1, 1, 0, 0]
    assert (await db.state.set("n", 9)).execution_id is None, "nothing of it runs here"


async def test_failures_are_tried_again_and_then_set_aside(db: AsyncSmithersDB) -> None:
    calls: list[Any] = []

    @db.triggers.on("phase", name="bad", retries=1)
    async def fail(transition: Transition) -> None:
        calls.append(transition.value)
        await asyncio.sleep(0)
        raise ConnectionError("no way")

    seen = Seen()
    db.triggers.on("phase", name="good")(seen)
    await db.state.set("phase", 1)
    assert (await db.triggers.deliver(), seen.values) == (1, [1])
    (bad, _) = await db.triggers.list()
    assert (bad.state, bad.attempts) == ("retrying", 1)
    await asyncio.sleep(0.05)
    assert await db.triggers.deliver() == 0
    (letter,) = await db.triggers.dead("bad")
    assert letter.error.startswith("ConnectionError: no way\nTraceback") and calls == [1, 1]
    assert await db.triggers.retry("bad") == 1
    assert await db.triggers.drop("bad")
    with pytest.raises(NotFound):
        await db.triggers.retry("bad")


async def test_a_cancellation_inside_a_handler_is_a_failure_and_one_from_outside_is_none(
    db: AsyncSmithersDB,
) -> None:
    started = asyncio.Event()
    cancelled: list[Any] = []

    @db.triggers.on("phase", name="one", retries=0)
    async def handle(transition: Transition) -> None:
        if transition.value == "inside":
            task = asyncio.create_task(asyncio.sleep(60))
            task.cancel()
            await task
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(transition.value)
            raise

    await db.state.set("phase", "inside")
    assert await db.triggers.deliver() == 0
    assert [letter.error[:14] for letter in await db.triggers.dead()] == ["CancelledError"]
    await db.state.set("phase", "outside")
    delivering = asyncio.create_task(db.triggers.deliver())
    await started.wait()
    delivering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivering
    (trigger,) = await db.triggers.list()
    assert (trigger.lag, trigger.dead, trigger.owner, trigger.attempts) == (1, 1, None, 0)
    assert cancelled == ["outside"]


# -- for ever --------------------------------------------------------------------------------------


async def test_changes_are_handled_as_they_are_made_here_and_by_other_programs(
    db: AsyncSmithersDB,
) -> None:
    seen = Seen()
    db.triggers.on("phase", name="one")(seen.later)
    task = asyncio.create_task(db.triggers.deliver_forever())
    await db.state.set("phase", 1)
    await seen.count(1)
    foreign = sqlite3.connect(str(db.path), isolation_level=None)
    foreign.execute("UPDATE state SET value = '2' WHERE key = 'phase'")
    foreign.close()
    await seen.count(2)
    rows = Seen()
    db.triggers.on_query("SELECT value FROM state", name="rows")(rows)
    await db.state.set("phase", 3)
    assert await seen.count(3) == [1, 2, 3]
    await rows.count(1)
    await db.close()
    async with asyncio.timeout(20):
        await task  # the close ends it


async def test_left_alone_it_ends_with_the_database_and_says_nothing(path: Path) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    for _ in range(5):
        async with create_async_smithers_db(path) as db:
            seen = Seen()
            db.triggers.on("phase", name="one")(seen.later)
            db.triggers.on_query("SELECT value FROM state", name="rows")(seen.later)
            task = asyncio.create_task(db.triggers.deliver_forever())
            await db.state.set("phase", 1)
            await seen.count(1)
        task.cancel()
        await asyncio.wait([task])
    gc.collect()
    assert reported == []


async def test_a_failure_never_ends_it_and_is_tried_again_in_time(db: AsyncSmithersDB) -> None:
    seen = Seen()

    @db.triggers.on("phase", name="one", retries=2)
    async def fail(transition: Transition) -> None:
        await seen.later(transition)
        raise RuntimeError("broken")

    good = Seen()
    db.triggers.on("phase", name="two")(good)
    task = asyncio.create_task(db.triggers.deliver_forever())
    await db.state.set("phase", 1)
    assert await seen.count(3) == [1, 1, 1]
    await until(db.triggers.dead)
    await db.triggers.retry("one")
    assert await seen.count(4) == [1, 1, 1, 1]
    await db.state.set("phase", 2)
    assert await good.count(2) == [1, 2]
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [trigger.owner for trigger in await db.triggers.list()] == [None, None]


async def test_a_cancelled_one_cancels_its_handlers_and_their_changes_come_again(
    db: AsyncSmithersDB,
) -> None:
    started, let = asyncio.Event(), asyncio.Event()
    seen = Seen()

    @db.triggers.on("phase", name="one")
    async def handle(transition: Transition) -> None:
        started.set()
        await let.wait()
        seen(transition)

    task = asyncio.create_task(db.triggers.deliver_forever())
    await db.state.set("phase", 1)
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    let.set()
    assert await db.triggers.deliver() == 1
    assert seen.values == [1]


async def test_what_a_handler_has_done_is_noted_though_it_is_cancelled_then(
    db: AsyncSmithersDB,
) -> None:
    tasks: list[asyncio.Task[None]] = []

    @db.triggers.on("phase", name="one")
    def last(_: Transition) -> None:
        for task in tasks:
            task.cancel()

    async def deliver() -> None:
        await db.triggers.deliver()

    await db.state.set("phase", 1)
    tasks.append(asyncio.create_task(deliver()))
    await asyncio.wait(tasks)
    assert tasks[0].cancelled()
    assert [(one.lag, one.owner) for one in await db.triggers.list()] == [(0, None)]


async def test_another_process_takes_over_what_one_that_was_killed_had_begun(
    db: AsyncSmithersDB, path: Path
) -> None:
    await db.state.set("job", "hang")
    process = worker(path)
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == "hang\n"
    seen = Seen()
    db.triggers.on("job", name="worker")(seen)
    assert await db.triggers.deliver() == 0, "the other one handles it"
    task = asyncio.create_task(db.triggers.deliver_forever())
    process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(process.communicate)
    assert await seen.count(1) == ["hang"]
    task.cancel()
    await asyncio.wait([task])


# -- what is refused -------------------------------------------------------------------------------


async def test_what_makes_no_sense_is_refused_at_once_and_nothing_is_written(
    db: AsyncSmithersDB, path: Path
) -> None:
    wrong: list[dict[str, Any]] = [
        {"key": ""},
        {"name": ""},
        {"start": "soon"},
        {"retries": -1},
        {"to": object()},
        {"when": asyncio.sleep},
        {"handler": 1},
    ]
    with create_smithers_db(path) as reader:
        before = contents(reader)
        for arguments in wrong:
            given: dict[str, Any] = {"key": "phase", "name": "one", **arguments}
            decorated = given.pop("handler", print)
            with pytest.raises((ValueError, TypeError)):
                db.triggers.on(**given)(decorated)
        assert contents(reader) == before
    db.triggers.on("phase", name="one")(print)
    with pytest.raises(ValueError, match="has a handler already"):
        db.triggers.on_query("SELECT 1", name="one")


async def test_what_only_the_file_can_tell_is_raised_by_the_next_delivery(
    db: AsyncSmithersDB,
) -> None:
    seen = Seen()
    db.triggers.on_query("SELECT nonsense FROM nowhere", name="rows")(seen)
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        await db.triggers.deliver()
    db.triggers.on_query("DELETE FROM state", name="rows")(seen)
    with pytest.raises(ValueError, match="writes"):
        await db.triggers.deliver_forever()
    assert (await db.triggers.deliver(), await db.triggers.list()) == (0, [])
    task = asyncio.create_task(db.triggers.deliver_forever())
    await asyncio.sleep(0)
    db.triggers.on_query("DELETE FROM state", name="rows")(seen)
    with pytest.raises(ValueError, match="writes"):
        await task


async def test_nothing_is_delivered_inside_a_transaction_or_where_nothing_can_be_written(
    db: AsyncSmithersDB, path: Path
) -> None:
    with pytest.raises(InTransaction):
        await db.transact(lambda sync: sync.triggers.deliver())
    async with create_async_smithers_db(path, read_only=True) as reader:
        assert await reader.triggers.list() == []
        with pytest.raises(ReadOnly):
            reader.triggers.on("phase", name="one")
        for call in (reader.triggers.deliver, reader.triggers.deliver_forever):
            with pytest.raises(ReadOnly):
                await call()


async def test_after_the_close_every_call_says_so(db: AsyncSmithersDB) -> None:
    triggers = db.triggers
    register = triggers.on("phase", name="one")
    await db.close()
    with pytest.raises(DatabaseClosed):
        register(print)
    with pytest.raises(DatabaseClosed):
        triggers.on("phase", name="two")
    for call in (triggers.deliver, triggers.deliver_forever, triggers.list):
        with pytest.raises(DatabaseClosed):
            await call()
