"""Days in fast motion, and everything that is begun and ended again: what is held stays the same.

Held are memory (blocks in use, once nothing waits for the collector), descriptors and threads. By
default in small, where little can be said of memory; the long forms print their figures.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import create_effect, create_memo, create_root
from smithers import AsyncSmithersDB, SmithersDB, create_async_smithers_db, create_smithers_db

HOURS = 24
ROUNDS = int(os.environ.get("SMITHERS_ROUNDS", "200"))
DESCRIPTORS = Path("/proc/self/fd")
PAGES = Path("/proc/self/statm")
# Of one round: less than any object that stays behind takes with what it holds.
MOST_BLOCKS = 2
# Caches that fill up meanwhile, whatever is done how often; they are fuller after many rounds.
NOISE, NOISE_AT_FIRST = 400, 4_000
MANY = 100
# From noon to midnight; what is freed goes back to the system in pieces.
MOST_MEGABYTES = 2


@dataclass(frozen=True)
class Held:
    """What this process holds; of its memory `resident` megabytes, that of SQLite among them."""

    blocks: int
    descriptors: int
    threads: int
    resident: float

    @classmethod
    def now(cls) -> Held:
        gc.collect()
        gc.collect()
        descriptors = len(list(DESCRIPTORS.iterdir())) if DESCRIPTORS.exists() else 0
        pages = int(PAGES.read_text().split()[1]) if PAGES.exists() else 0
        resident = round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)
        return cls(sys.getallocatedblocks(), descriptors, threading.active_count(), resident)

    def check(self, earlier: Held, rounds: int) -> None:
        """Compare with what was held so many rounds before."""
        # One that was told to end may be about to.
        assert abs(self.threads - earlier.threads) <= 1 and rounds > 1
        assert self.descriptors <= earlier.descriptors
        grown = self.blocks - earlier.blocks
        noise = NOISE if rounds >= MANY else NOISE_AT_FIRST
        assert grown < noise + MOST_BLOCKS * rounds, f"{grown} blocks more after {rounds} rounds"


class Calendar:
    """A clock in fast motion."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 31, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def flat(work: Callable[[], object], rounds: int) -> str:
    """Do something again and again; check what is held by then, and tell it."""
    for _ in range(rounds // 4 + 3):
        work()
    before = Held.now()
    for _ in range(rounds):
        work()
    after = Held.now()
    after.check(before, rounds)
    return f"{rounds} rounds: {before} before, {after} after"


def execution(db: SmithersDB) -> None:
    """Begin and end an execution with all below it, and roll another one back."""
    id = db.execution.start("Feature")
    with db.phases.open("plan"), db.steps.open("think"), db.agents.open("Think.") as agent:
        db.tools.complete(db.tools.start(agent, "Bash", {"command": "ls"}), "done")
    db.execution.complete(id)
    try:
        with db.transaction():
            db.agents.start("never") if db.execution.start("never") else None
            raise LookupError
    except LookupError:
        pass


def observers(db: SmithersDB) -> None:
    """Let observers of each kind come, see a change and go."""
    get, put = db.state.signal("phase")
    query = db.state.observe("phase")
    seen: list[Any] = []
    subscription = query.subscribe(seen.append)
    history = db.state.transitions().subscribe(seen.append)

    def grow(dispose: Callable[[], None]) -> Callable[[], None]:
        double = create_memo(lambda: [get(), query()])
        create_effect(lambda: seen.append(double()))
        return dispose

    dispose = create_root(grow)
    put(len(seen))
    dispose()
    subscription.dispose()
    history.dispose()


def ignore(_: Any) -> None:
    """Handle anything."""


def triggers(folder: Path) -> None:
    """Register triggers, have them called, and forget them with the handle."""
    with create_smithers_db(folder, watch=False) as db:
        db.triggers.on("phase", name="on a key")(ignore)
        db.triggers.on_query("SELECT count(*) FROM state", name="on a query")(ignore)
        db.state.set("phase", 1)
        assert db.triggers.deliver() > 0
        db.triggers.drop("on a key")
        db.triggers.drop("on a query")


def opening(folder: Path) -> None:
    """Open a database, observe it, and close it."""
    with create_smithers_db(folder) as db:
        db.state.observe("phase").subscribe(lambda _: None)
        db.state.set("phase", 1)


async def opening_async(folder: Path) -> None:
    """Do the same with the asynchronous face, with a stream and an execution besides."""
    async with create_async_smithers_db(folder) as db:
        await db.state.set("phase", 1)
        id = await db.execution.start("Feature")
        async for value in db.state.observe("phase"):
            assert value == 1
            break
        await db.execution.complete(id)


async def running(db: AsyncSmithersDB) -> None:
    """Run a script of one phase and one step."""
    async with db.run("Feature", resume=False) as run, run.phase("plan"):
        await run.step("think", lambda: 1)


async def flat_async(work: Callable[[], Awaitable[object]], rounds: int) -> str:
    """Do something again and again on this loop, as `flat` does."""
    for _ in range(rounds // 4 + 3):
        await work()
    before = Held.now()
    for _ in range(rounds):
        await work()
    after = Held.now()
    after.check(before, rounds)
    return f"{rounds} rounds: {before} before, {after} after"


def begun_and_ended(folder: Path, rounds: int) -> None:
    """Check everything that is begun and ended again."""
    with create_smithers_db(folder, watch=False) as db:
        print("executions", flat(lambda: execution(db), rounds))
        print("observers", flat(lambda: observers(db), rounds))
    print("triggers", flat(lambda: triggers(folder), rounds))
    print("opened and closed", flat(lambda: opening(folder), rounds))


async def begun_and_ended_async(folder: Path, rounds: int) -> None:
    async with create_async_smithers_db(folder, watch=False) as db:
        print("runs", await flat_async(lambda: running(db), rounds))
    print("opened and closed", await flat_async(lambda: opening_async(folder), rounds))


def day(folder: Path, sets: int) -> None:
    """Live through a day of so many sets, all but two in a hundred of them in transactions."""
    clock = Calendar()
    held: list[Held] = []
    left: list[tuple[int, int, int]] = []
    written = number = 0
    with create_smithers_db(folder, watch=False) as opened:
        db = SmithersDB(opened.database, path=opened.path, clock=clock)
        for _ in range(HOURS):
            for number in range(sets // HOURS // 100):
                with db.transaction():
                    for part in (0, 1):
                        many = {f"{part} {key}": number for key in range(49)}
                        db.state.set_many(many, "many")
                for key in ("first", "second"):
                    db.state.set(key, number)
                written += 100
                clock.now += timedelta(hours=1) / (sets // HOURS // 100)
                if number % 10 == 0:
                    observers(db)
                    execution(db)
            db.prune(before=timedelta(hours=2), keep_executions=10)
            (rows,) = db.query(
                "SELECT (SELECT count(*) FROM transitions) AS kept, "
                "(SELECT count(*) FROM _reactive_log) AS logged"
            )
            assert db.path is not None
            size = sum(file.stat().st_size for file in db.path.parent.iterdir())
            left.append((rows["kept"], rows["logged"], size))
            held.append(Held.now())
        assert db.state.get("first") == db.state.get("1 48") == number
    print(f"{written} sets in {HOURS} hours; {held[HOURS // 2]} at noon, {held[-1]} at midnight")
    print(f"transitions, log and bytes on disk: {left[HOURS // 2]} at noon, {left[-1]} at midnight")
    noon, midnight = held[HOURS // 2], held[-1]
    assert (midnight.descriptors, midnight.threads) == (noon.descriptors, noon.threads)
    assert midnight.blocks < noon.blocks + NOISE, "memory is flat"
    assert midnight.resident < noon.resident + MOST_MEGABYTES, "that of SQLite, too"
    assert left[-1][0] <= left[HOURS // 2][0] * 1.1, "history is pruned meanwhile"
    assert left[-1][1] <= max(left[HOURS // 2][1] * 1.1, 13_000), "the log trims itself"
    assert left[-1][2] <= left[HOURS // 2][2] * 1.5, "the file does not grow"


def test_a_short_day_leaves_nothing_behind(tmp_path: Path) -> None:
    day(tmp_path, 100 * HOURS)


def test_what_is_begun_and_ended_leaves_nothing_behind(tmp_path: Path) -> None:
    begun_and_ended(tmp_path, 8)


def test_what_is_begun_and_ended_on_a_loop_leaves_nothing_behind(tmp_path: Path) -> None:
    asyncio.run(begun_and_ended_async(tmp_path, 8))


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_long_day_leaves_nothing_behind(tmp_path: Path) -> None:
    day(tmp_path, int(os.environ.get("SMITHERS_SETS", "1000000")))


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_what_is_begun_and_ended_for_long_leaves_nothing_behind(tmp_path: Path) -> None:
    begun_and_ended(tmp_path, ROUNDS)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_what_is_begun_and_ended_on_a_loop_for_long_leaves_nothing_behind(tmp_path: Path) -> None:
    asyncio.run(begun_and_ended_async(tmp_path, ROUNDS))
