"""Branches at once: results in order, errors together, each in a place of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from smithers import AsyncSmithersDB, StepFailed, create_async_smithers_db


async def test_results_come_in_the_order_of_the_arguments(db: AsyncSmithersDB) -> None:
    async def answer(value: int, pause: float) -> int:
        await asyncio.sleep(pause)
        return value

    async with db.run("w") as run:
        assert await run.parallel(answer(1, 0.01), answer(2, 0)) == [1, 2]
        assert await run.parallel() == []


async def test_branches_stand_below_the_phase_and_are_found_again(path: Path) -> None:
    done: list[str] = []

    async def script() -> list[str]:
        async with create_async_smithers_db(path) as db, db.run("w") as run:

            def review(name: str) -> str:
                done.append(name)
                return name

            async def branch(name: str) -> str:
                return str(await run.step("review", review, name))

            async with run.phase("p"):
                found = await run.parallel(branch("a"), branch("b"))
            assert {step.phase_id for step in await db.steps.list()} == {
                phase.id for phase in await db.phases.list()
            }
            if len(done) == 2 and not run.resumed:
                raise KeyboardInterrupt
            return found
        raise AssertionError("the script has returned")

    with pytest.raises(KeyboardInterrupt):
        await script()
    assert await script() == ["a", "b"]
    assert sorted(done) == ["a", "b"]


async def test_all_are_awaited_and_their_errors_raised_together(db: AsyncSmithersDB) -> None:
    ended: list[str] = []

    def broken(name: str) -> None:
        raise ValueError(name)

    async def slow() -> None:
        await asyncio.sleep(0.01)
        ended.append("slow")

    with pytest.raises(ExceptionGroup) as caught:
        async with db.run("w") as run:
            await run.parallel(run.step("a", broken, "a"), slow(), run.step("b", broken, "b"))
    assert ended == ["slow"]
    assert [type(error) for error in caught.value.exceptions] == [StepFailed, StepFailed]


async def test_a_cancelled_call_cancels_its_branches(db: AsyncSmithersDB) -> None:
    cancelled: list[int] = []
    begun = asyncio.Event()

    async def forever(number: int) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(number)

    async with db.run("w") as run:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await run.parallel(forever(1), forever(2))
    assert sorted(cancelled) == [1, 2]


@pytest.mark.parametrize("other", ["a task", "no awaitable"])
async def test_what_cannot_be_a_branch_is_refused_before_any_of_them_begins(
    db: AsyncSmithersDB, other: str
) -> None:
    ran: list[int] = []

    async def branch() -> None:
        ran.append(1)

    async with db.run("w") as run:
        task = asyncio.create_task(asyncio.sleep(0))
        wrong: Any = task if other == "a task" else 3
        with pytest.raises(TypeError, match="have not begun" if other == "a task" else "not int"):
            await run.parallel(branch(), wrong, branch())
        await task
        await asyncio.sleep(0)
    assert ran == []
