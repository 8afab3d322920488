"""Steps and phases of scripts: recorded once, found again by a resumed run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from smithers import AsyncSmithersDB, StepFailed, create_async_smithers_db


class Calls:
    """Work that counts how often it was done."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def work(self, value: Any) -> Any:
        self.made.append(value)
        return value

    async def slow(self, value: Any, *, pause: float = 0) -> Any:
        await asyncio.sleep(pause)
        self.made.append(value)
        return value


@pytest.fixture
def calls() -> Calls:
    return Calls()


async def test_a_step_is_recorded_with_its_result_below_its_phase(
    db: AsyncSmithersDB, calls: Calls
) -> None:
    async with db.run("w") as run, run.phase("build") as phase:
        assert await run.step("compile", calls.work, {"n": 1}) == {"n": 1}
        assert await run.step("link", calls.slow, 2, pause=0) == 2
    steps = await db.steps.list(phase)
    assert [(s.name, s.status, s.result) for s in steps] == [
        ("compile", "completed", {"n": 1}),
        ("link", "completed", 2),
    ]
    assert all(step.execution_id == run.id for step in steps)
    found = await db.phases.get(phase)
    assert found is not None and found.status == "completed"
    execution = await db.execution.get(run.id)
    assert execution is not None and execution.status == "completed"


async def test_a_resumed_run_returns_recorded_results_and_runs_what_was_cut_off(
    path: Path, calls: Calls
) -> None:
    async def script(*, fail: bool) -> list[Any]:
        async with create_async_smithers_db(path) as db, db.run("w") as run:
            first = await run.step("one", calls.work, 1)
            async with run.phase("p"):
                second = await run.step("two", calls.work, 2)
            if fail:
                raise KeyboardInterrupt
            return [run.resumed, first, second, await run.step("three", calls.work, 3)]
        raise AssertionError("the script has returned")

    with pytest.raises(KeyboardInterrupt):
        await script(fail=True)
    assert await script(fail=False) == [True, 1, 2, 3]
    assert calls.made == [1, 2, 3]
    async with create_async_smithers_db(path) as db:
        assert [e.status for e in await db.execution.list()] == ["completed"]
        assert [p.name for p in await db.phases.list()] == ["p"], "the phase is entered, not begun"


async def test_a_result_is_the_same_json_in_the_first_run_and_in_a_resumed_one(
    path: Path, calls: Calls
) -> None:
    @dataclass
    class Found:
        names: tuple[str, ...]

    results: list[Any] = []
    for number in range(2):
        async with create_async_smithers_db(path) as db:
            with pytest.raises(KeyboardInterrupt) if number == 0 else nullcontext():
                async with db.run("w") as run:
                    results.append(await run.step("find", calls.work, Found(("a", "b"))))
                    if number == 0:
                        raise KeyboardInterrupt
    assert results == [{"names": ["a", "b"]}] * 2
    assert len(calls.made) == 1


async def test_two_steps_of_one_name_are_told_apart_by_order_or_by_key(
    db: AsyncSmithersDB, calls: Calls
) -> None:
    async with db.run("w") as run:
        assert await run.step("same", calls.work, 1) == 1
        assert await run.step("same", calls.work, 2) == 2
        assert await run.step("same", calls.work, 3, key="mine") == 3
    assert calls.made == [1, 2, 3]


async def test_a_failing_step_raises_stepfailed_and_is_recorded(db: AsyncSmithersDB) -> None:
    def broken() -> None:
        raise ValueError("no such file")

    with pytest.raises(StepFailed, match="step 'read' failed: ValueError: no such file") as caught:
        async with db.run("w") as run:
            await run.step("read", broken)
    assert isinstance(caught.value.__cause__, ValueError)
    (step,) = await db.steps.list()
    assert step.status == "failed" and (step.error or "").startswith("ValueError: no such file")
    (execution,) = await db.execution.list()
    assert execution.status == "failed"
    assert "ValueError: no such file" in (execution.error or ""), "the cause is told as well"


async def test_a_step_that_failed_and_was_caught_runs_again_in_a_resumed_run(path: Path) -> None:
    attempts: list[int] = []

    def sometimes() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("busy")
        return "done"

    async with create_async_smithers_db(path) as db:
        with pytest.raises(KeyboardInterrupt):
            async with db.run("w") as run:
                with pytest.raises(StepFailed):
                    await run.step("fetch", sometimes)
                raise KeyboardInterrupt
        async with db.run("w") as run:
            assert await run.step("fetch", sometimes) == "done"


@pytest.mark.parametrize("result", [object(), float("nan"), {1: 2}, b"bytes"])
async def test_a_result_without_json_names_the_step_and_is_not_recorded(
    db: AsyncSmithersDB, result: object
) -> None:
    with pytest.raises((TypeError, ValueError), match="the result of step 'odd'"):
        async with db.run("w") as run:
            await run.step("odd", lambda: result)
    (step,) = await db.steps.list()
    assert (step.status, step.result) == ("failed", None)


async def test_what_a_step_starts_stands_below_it(db: AsyncSmithersDB) -> None:
    async def work() -> str:
        return await db.agents.start("do it")

    async with db.run("w") as run:
        agent = await run.step("agent", work)
    found = await db.agents.get(agent)
    (step,) = await db.steps.list()
    assert found is not None and found.step_id == step.id


async def test_names_are_checked_before_anything_is_written(db: AsyncSmithersDB) -> None:
    async with db.run("w") as run:
        with pytest.raises(ValueError, match="the name of a step"):
            await run.step("", print)
        with pytest.raises(TypeError, match="the key of a step"):
            await run.step("a", print, key=3)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="the name of a phase"):
            async with run.phase("\0"):
                pass
    assert await db.steps.list() == []
    assert await db.phases.list() == []


async def test_a_phase_is_failed_by_what_leaves_it(db: AsyncSmithersDB) -> None:
    async with db.run("w") as run:
        with pytest.raises(RuntimeError):
            async with run.phase("p"):
                raise RuntimeError("no")
        assert await db.phases.current() is None
    (phase,) = await db.phases.list()
    assert phase.status == "failed" and "RuntimeError: no" in (phase.error or "")


async def test_outside_of_its_run_nothing_can_be_done(db: AsyncSmithersDB) -> None:
    run = db.run("w")
    with pytest.raises(RuntimeError, match="enter the run first"):
        await run.step("a", print)
    with pytest.raises(RuntimeError, match="enter the run first"):
        run.stop()


async def test_an_interrupted_phase_is_entered_again_and_its_step_runs_again(path: Path) -> None:
    async def script(compile: Callable[[], Awaitable[None]]) -> str:
        async with create_async_smithers_db(path) as db, db.run("w") as run:
            async with run.phase("build"):
                await run.step("compile", compile)
            return run.id
        raise AssertionError("the script has returned")

    async def until_time_is_up() -> None:
        limit.reschedule(asyncio.get_running_loop().time())
        await asyncio.Event().wait()

    async def quickly() -> None:
        pass

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit:
            await script(until_time_is_up)
    await script(quickly)
    async with create_async_smithers_db(path) as db:
        assert [(p.name, p.status) for p in await db.phases.list()] == [("build", "completed")]
        steps = await db.steps.list()
        assert [(step.name, step.status) for step in steps] == [
            ("compile", "failed"),
            ("compile", "completed"),
        ]
        assert "cut off" in (steps[0].error or "")


async def test_what_a_script_itself_gives_up_has_failed(db: AsyncSmithersDB) -> None:
    async def until_time_is_up() -> None:
        limit.reschedule(asyncio.get_running_loop().time())
        await asyncio.Event().wait()

    async with db.run("w") as run:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit, run.phase("slow"):
                await run.step("sleep", until_time_is_up)
        async with run.phase("next"):
            found = {phase.name: phase.status for phase in await db.phases.list()}
            assert found == {"slow": "failed", "next": "running"}
    (step,) = await db.steps.list()
    assert step.status == "failed" and "CancelledError" in (step.error or "")


@pytest.mark.parametrize("kind", ["step", "phase"])
async def test_wherever_a_timeout_falls_nothing_is_left_running_or_is_a_parent(
    db: AsyncSmithersDB, kind: str
) -> None:
    async def once(number: int) -> None:
        if kind == "step":
            await run.step(f"{number}", lambda: number)
        else:
            async with run.phase(f"{number}"):
                pass

    async with db.run("w") as run:
        for number in range(24):
            attempt = asyncio.ensure_future(once(number))
            for _ in range(number):
                await asyncio.sleep(0)
            attempt.cancel()
            await asyncio.wait({attempt})
        assert await run.step("after", lambda: 1) == 1
        last = (await db.steps.list())[-1]
        assert (last.name, last.phase_id) == ("after", None)
        rows = await (db.steps.list() if kind == "step" else db.phases.list())
        assert {row.status for row in rows} <= {"completed", "failed"}


async def test_a_step_that_has_done_its_work_is_completed_though_a_timeout_passes_right_then(
    db: AsyncSmithersDB,
) -> None:
    def work() -> int:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return 1

    async with db.run("w") as run:
        attempt = asyncio.ensure_future(run.step("work", work))
        await asyncio.wait({attempt})
        assert attempt.cancelled()
        (step,) = await db.steps.list()
        assert (step.status, step.result) == ("completed", 1)


async def test_a_step_that_is_no_function_is_refused_before_anything_is_written(
    db: AsyncSmithersDB,
) -> None:
    async def fetch() -> None:
        pass

    async with db.run("w") as run:
        for wrong in (fetch(), 5, None):
            with pytest.raises(TypeError, match="step 'odd' takes a function"):
                await run.step("odd", wrong)  # type: ignore[arg-type]
    assert await db.steps.list() == []


async def test_a_function_may_have_parameters_of_any_name(db: AsyncSmithersDB) -> None:
    def greet(name: str, fn: str) -> str:
        return f"{fn} {name}"

    async with db.run("w") as run:
        assert await run.step("greet", greet, name="Ada", fn="hello") == "hello Ada"
