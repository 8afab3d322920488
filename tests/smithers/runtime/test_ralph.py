"""The Ralph loop: runs again while what it read has changed; counted in the database."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import create_memo, create_signal
from smithers import AsyncSmithersDB, RalphResult, create_async_smithers_db

SET = """
import sys
from smithers import create_smithers_db
with create_smithers_db(sys.argv[1], watch=False) as db:
    db.state.set("phase", sys.argv[2])
"""


def set_elsewhere(path: Path, value: str) -> None:
    subprocess.run([sys.executable, "-c", SET, str(path), value], check=True, timeout=30)


async def test_it_runs_again_while_what_it_read_has_changed(db: AsyncSmithersDB) -> None:
    phase, set_phase = await db.state.signal("phase", "start")
    seen: list[str] = []

    async def body() -> None:
        seen.append(phase())
        await asyncio.sleep(0)
        if phase() != "done":
            await set_phase({"start": "review", "review": "done"}[phase()])

    async with db.run("w") as run:
        assert await run.ralph(body) == RalphResult(3, "settled")
    assert seen == ["start", "review", "done"]


async def test_what_is_read_after_an_await_counts(db: AsyncSmithersDB) -> None:
    count, set_count = create_signal(0)
    runs: list[int] = []

    async def body() -> None:
        await asyncio.sleep(0.001)
        runs.append(count())
        await asyncio.sleep(0.001)
        if len(runs) < 3:
            set_count(len(runs))

    async with db.run("w") as run:
        assert (await run.ralph(body)).iterations == 3
    assert runs == [0, 1, 2]


async def test_awaiting_a_query_is_a_read(db: AsyncSmithersDB) -> None:
    seen: list[Any] = []

    async def body() -> None:
        seen.append(await db.state.observe("phase", "start"))
        if seen[-1] == "start":
            await db.state.set("phase", "done")

    async with db.run("w") as run:
        assert await run.ralph(body) == RalphResult(2, "settled")
    assert seen == ["start", "done"]


async def test_a_memo_between_is_followed_and_an_equal_one_settles(db: AsyncSmithersDB) -> None:
    count, set_count = create_signal(0)
    even = create_memo(lambda: count() % 2 == 0)

    async def body() -> None:
        even()
        set_count(lambda n: n + 2)

    async with db.run("w") as run:
        assert await run.ralph(body) == RalphResult(1, "settled")


async def test_a_body_that_reads_nothing_runs_once(db: AsyncSmithersDB) -> None:
    runs: list[None] = []
    async with db.run("w") as run:
        assert await run.ralph(lambda: runs.append(None)) == RalphResult(1, "settled")
        assert len(runs) == 1


async def test_it_ends_at_the_maximum(db: AsyncSmithersDB) -> None:
    count, set_count = create_signal(0)

    async def body() -> None:
        set_count(count() + 1)

    async with db.run("w") as run:
        assert await run.ralph(body, max_iterations=4) == RalphResult(4, "max_iterations")
        assert count() == 4


async def test_until_is_asked_after_each_iteration(db: AsyncSmithersDB) -> None:
    count, set_count = create_signal(0)

    async def body() -> None:
        set_count(count() + 1)

    async def enough() -> bool:
        return count() == 2

    async with db.run("w") as run:
        assert await run.ralph(body, until=lambda: count() == 1) == RalphResult(1, "until")
        assert await run.ralph(body, until=enough) == RalphResult(1, "until")


async def test_stop_ends_it_and_is_cleared(db: AsyncSmithersDB) -> None:
    count, set_count = create_signal(0)

    async def body() -> None:
        set_count(count() + 1)
        if count.peek() == 2:
            run.stop("enough")

    async with db.run("w") as run:
        assert await run.ralph(body) == RalphResult(2, "stopped")
        assert (await run.ralph(body, max_iterations=3)).reason == "max_iterations"


async def test_a_change_of_another_process_counts(db: AsyncSmithersDB, path: Path) -> None:
    phase, _ = await db.state.signal("phase", "start")
    seen: list[str] = []

    async def body() -> None:
        seen.append(phase())
        if len(seen) == 1:
            await asyncio.to_thread(set_elsewhere, path, "elsewhere")

    async with db.run("w") as run:
        assert await run.ralph(body) == RalphResult(2, "settled")
    assert seen == ["start", "elsewhere"]


async def test_with_wait_it_waits_for_a_change_of_another_process(
    db: AsyncSmithersDB, path: Path
) -> None:
    phase, _ = await db.state.signal("phase", "start")
    seen: list[str] = []
    first = asyncio.Event()

    async def body() -> None:
        seen.append(phase())
        first.set()

    async def change() -> None:
        await first.wait()
        await asyncio.to_thread(set_elsewhere, path, "done")

    async with db.run("w") as run:
        changing = asyncio.create_task(change())
        result = await run.ralph(body, wait=True, until=lambda: phase.peek() == "done")
        await changing
    assert result == RalphResult(2, "until")
    assert seen == ["start", "done"]


async def test_with_seconds_it_waits_that_long_and_settles(db: AsyncSmithersDB) -> None:
    count, _ = create_signal(0)
    async with db.run("w") as run:
        assert await run.ralph(lambda: count(), wait=0.01) == RalphResult(1, "settled")


async def test_stop_ends_the_waiting(db: AsyncSmithersDB) -> None:
    count, _ = create_signal(0)
    async with db.run("w") as run:
        loop = asyncio.create_task(run.ralph(lambda: count(), wait=True))
        counted = db.observe("SELECT 1 FROM _smithers_places WHERE done = 1")
        await counted.first(lambda rows: len(rows) == 1, timeout=10)
        run.stop("enough")
        assert await loop == RalphResult(1, "stopped")


async def test_phases_carry_the_number_of_their_iteration(db: AsyncSmithersDB) -> None:
    count, set_count = create_signal(0)

    async def body() -> None:
        async with run.phase("p"):
            if count() < 2:
                set_count(count() + 1)

    async with db.run("w") as run:
        await run.ralph(body)
    assert [phase.iteration for phase in await db.phases.list()] == [0, 1, 2]
    execution = await db.execution.get(run.id)
    assert execution is not None and execution.total_iterations == 3


async def test_a_resumed_loop_goes_on_with_the_iteration_that_was_cut_off(path: Path) -> None:
    began: list[int] = []

    def script(stop_at: int | None) -> Callable[[], Any]:
        async def go() -> RalphResult:
            async with create_async_smithers_db(path) as db, db.run("w") as run:
                count, set_count = await db.state.signal("n", 0)

                async def body() -> None:
                    n = count()
                    began.append(n)
                    if n == stop_at:
                        raise KeyboardInterrupt
                    await set_count(n + 1)

                return await run.ralph(body, max_iterations=4)
            raise AssertionError("the script has returned")

        return go

    with pytest.raises(KeyboardInterrupt):
        await script(2)()
    assert await script(None)() == RalphResult(4, "max_iterations"), "the maximum holds"
    assert began == [0, 1, 2, 2, 3]


async def test_an_ended_loop_returns_its_result_without_running(path: Path) -> None:
    runs: list[None] = []
    results: list[RalphResult] = []
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            async with create_async_smithers_db(path) as db, db.run("w") as run:
                results.append(await run.ralph(lambda: runs.append(None)))
                raise KeyboardInterrupt
    assert results == [RalphResult(1, "settled")] * 2
    assert len(runs) == 1


async def test_an_error_of_the_body_leaves_the_loop_to_be_resumed(path: Path) -> None:
    async with create_async_smithers_db(path) as db:
        with pytest.raises(ValueError, match="broken"):
            async with db.run("w") as run:

                async def broken() -> None:
                    raise ValueError("broken")

                await run.ralph(broken)
        async with db.run("w", resume="failed") as run:
            assert run.resumed
            assert await run.ralph(lambda: None) == RalphResult(1, "settled")


@pytest.mark.parametrize("most", [0, -1, True, 1.5, "3"])
async def test_a_maximum_below_one_is_refused(db: AsyncSmithersDB, most: Any) -> None:
    async with db.run("w") as run:
        with pytest.raises(ValueError, match="max_iterations"):
            await run.ralph(lambda: None, max_iterations=most)


@pytest.mark.parametrize("wait", [-1, "long", None])
async def test_an_impossible_wait_is_refused(db: AsyncSmithersDB, wait: Any) -> None:
    async with db.run("w") as run:
        with pytest.raises(ValueError, match="wait is True"):
            await run.ralph(lambda: None, wait=wait)


async def test_a_body_that_is_no_function_is_refused(db: AsyncSmithersDB) -> None:
    async with db.run("w") as run:
        with pytest.raises(TypeError, match="body is a function"):
            await run.ralph(3)  # type: ignore[arg-type]
