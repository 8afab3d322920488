"""Runs: taken, resumed, ended; interrupted and cancelled from anywhere."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from smithers import (
    AsyncSmithersDB,
    Execution,
    ExecutionBusy,
    ExecutionCancelled,
    InvalidStatus,
    NotFound,
    create_async_smithers_db,
    create_smithers_db,
)

WAITS = """
import asyncio, sys
from smithers import create_async_smithers_db
async def main():
    async with create_async_smithers_db(sys.argv[1]) as db, db.run("w") as run:
        async with run.phase("p"):
            await db.agents.start("wait")
            print("waiting", flush=True)
            await asyncio.Event().wait()
asyncio.run(main())
"""


async def the_only(db: AsyncSmithersDB) -> Execution:
    (execution,) = await db.execution.list()
    return execution


async def test_a_run_is_an_execution_with_its_state_in_the_first_commit(
    db: AsyncSmithersDB,
) -> None:
    async with db.run("w", __file__, initial_state={"phase": "start", "n": 0}) as run:
        assert not run.resumed and run.db is db
        assert await db.state.get_all() == {"n": 0, "phase": "start"}
        now = await the_only(db)
        assert (now.id, now.name, now.file_path, now.status) == (run.id, "w", __file__, "running")
        assert now.is_live
        assert (await db.state.set("n", 1)).execution_id == run.id
    first = (await db.state.history())[0]
    assert (first.commit, first.trigger, first.execution_id) == (1, "initial_state", run.id)
    assert (await the_only(db)).status == "completed"
    assert (await db.state.set("n", 2)).execution_id is None


async def test_an_exception_fails_it(db: AsyncSmithersDB) -> None:
    with pytest.raises(ValueError, match="broken"):
        async with db.run("w"):
            await db.agents.start("left open")
            raise ValueError("broken")
    execution = await the_only(db)
    assert execution.status == "failed" and (execution.error or "").startswith("ValueError: broken")
    assert [agent.status for agent in await db.agents.list()] == ["cancelled"]


@pytest.mark.parametrize(("code", "status"), [(0, "completed"), (None, "completed"), (3, "failed")])
async def test_exit_completes_or_fails_it(
    db: AsyncSmithersDB, code: int | None, status: str
) -> None:
    with pytest.raises(SystemExit):
        async with db.run("w"):
            sys.exit(code)
    assert (await the_only(db)).status == status


async def test_cancelling_its_task_leaves_it_interrupted_and_resumable(
    db: AsyncSmithersDB,
) -> None:
    ready = asyncio.Event()

    async def script() -> None:
        async with db.run("w"), db.agents.open("wait"):
            ready.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(script())
    await ready.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    left = await the_only(db)
    assert (left.status, left.is_live) == ("interrupted", False)
    async with db.run("w") as run:
        assert run.resumed and run.id == left.id
    assert (await the_only(db)).status == "completed"
    assert [agent.status for agent in await db.agents.list()] == ["cancelled"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, -2), (signal.SIGTERM, 143)])
def test_a_signal_leaves_it_interrupted(path: Path, number: signal.Signals, code: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", WAITS, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        assert process.wait(timeout=20) in (code, 128 + number, -number)
    with create_smithers_db(path, watch=False) as db:
        (execution,) = db.execution.list()
        assert (execution.status, execution.is_live) == ("interrupted", False)
        assert [agent.status for agent in db.agents.list()] == ["cancelled"]


def test_a_killed_run_is_resumed_and_what_it_left_open_is_ended(path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "waiting\n"
        process.kill()
        process.wait(timeout=20)

    async def script() -> None:
        async with create_async_smithers_db(path) as db:
            async with db.run("w") as run:
                assert run.resumed
                agents = await db.agents.list()
                assert [a.status for a in agents] == ["cancelled"], "it was cut off"
                async with run.phase("p"):
                    pass
            (phase,) = await db.phases.list()
            assert phase.status == "completed", "the phase that was cut off was entered again"
            assert (await the_only(db)).status == "completed"

    asyncio.run(script())


def test_a_cancellation_from_another_process_stops_it(path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "waiting\n"
        with create_smithers_db(path, watch=False) as db:
            (execution,) = db.execution.list()
            db.execution.cancel(execution.id, "no longer wanted")
            assert process.wait(timeout=20) != 0
            found = db.execution.get(execution.id)
            assert found is not None
            assert (found.status, found.cancel_reason) == ("cancelled", "no longer wanted")
            assert db.execution.find_incomplete() is None
            assert [phase.status for phase in db.phases.list()] != ["running"]


async def test_a_run_that_is_open_is_not_resumed_by_another(
    db: AsyncSmithersDB, path: Path
) -> None:
    async with db.run("w") as run:
        async with db.run("w") as other:
            assert not other.resumed and other.id != run.id
        async with create_async_smithers_db(path) as second, second.run("w") as third:
            assert not third.resumed and third.id != run.id


async def test_which_execution_is_resumed_can_be_said(db: AsyncSmithersDB) -> None:
    async def leave(error: BaseException) -> str:
        run = db.run("w", resume=False)
        with pytest.raises(type(error)):
            async with run:
                raise error
        return run.id

    failed = await leave(ValueError())
    interrupted = await leave(KeyboardInterrupt())
    async with db.run("w", resume=False) as run:
        assert not run.resumed
    async with db.run("w") as run:
        assert run.id == interrupted
    async with db.run("w") as run:
        assert not run.resumed, "a failed one is over"
    async with db.run("w", resume="failed") as run:
        assert run.id == failed
    again = await leave(ValueError())
    async with db.run("w", resume=again) as run:
        assert run.resumed and run.id == again
    with pytest.raises(InvalidStatus):
        async with db.run("w", resume=again):
            pass
    with pytest.raises(NotFound):
        async with db.run("w", resume="nowhere"):
            pass


async def test_one_open_elsewhere_cannot_be_named(db: AsyncSmithersDB, path: Path) -> None:
    async with db.run("w") as run, create_async_smithers_db(path) as second:
        with pytest.raises(ExecutionBusy):
            async with second.run("w", resume=run.id):
                pass


@pytest.mark.parametrize("name", ["", 3, "a\0b", None])
async def test_a_bad_name_is_refused_at_once(db: AsyncSmithersDB, name: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="the name of a run"):
        db.run(name)


async def test_a_state_that_is_not_json_starts_nothing(db: AsyncSmithersDB) -> None:
    with pytest.raises(TypeError, match="state 'a'"):
        async with db.run("w", initial_state={"a": object()}):
            pass
    assert await db.execution.list() == []
    assert await db.execution.current() is None
    assert (await db.state.set("a", 1)).execution_id is None


def test_sigterm_is_handled_as_before_when_the_run_is_over(path: Path) -> None:
    async def script() -> None:
        before = signal.getsignal(signal.SIGTERM)
        async with create_async_smithers_db(path) as db, db.run("w"):
            pass
        assert signal.getsignal(signal.SIGTERM) is before

    asyncio.run(script())


async def test_a_script_may_end_its_execution_itself_with_a_result(db: AsyncSmithersDB) -> None:
    async with db.run("w") as run:
        await db.execution.complete(run.id, {"found": 3})
    execution = await the_only(db)
    assert (execution.status, execution.result) == ("completed", {"found": 3})
    with pytest.raises(RuntimeError, match="the run is over"):
        await run.step("late", print)
    assert run.id == execution.id


async def test_a_run_that_is_cancelled_while_it_is_entered_can_be_resumed(
    db: AsyncSmithersDB,
) -> None:
    for turns in range(12):
        run = db.run("w")
        entering = asyncio.ensure_future(run.__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        entering.cancel()
        await asyncio.wait({entering})
        if not entering.cancelled():  # it was faster
            await run.__aexit__(None, None, None)
    found = {execution.status for execution in await db.execution.list()}
    assert found <= {"interrupted", "completed"}
    async with db.run("w"):
        pass
    assert {execution.status for execution in await db.execution.list()} == {"completed"}


async def test_the_end_of_a_run_is_recorded_although_its_task_is_cancelled_right_then(
    db: AsyncSmithersDB,
) -> None:
    with pytest.raises(asyncio.CancelledError):
        async with db.run("w"):
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
    assert (await the_only(db)).status == "completed", "the block had come to its end"


async def test_an_execution_in_which_a_script_of_this_process_runs_is_busy(
    db: AsyncSmithersDB,
) -> None:
    async with db.run("w") as run:

        async def again() -> None:
            with pytest.raises(ExecutionBusy, match="in this very process"):
                async with db.run("w", resume=run.id):
                    pass

        await run.step("again", again)
        async with db.run("w") as other:
            assert other.id != run.id
    assert {step.status for step in await db.steps.list()} == {"completed"}
    assert {execution.status for execution in await db.execution.list()} == {"completed"}


async def test_what_a_run_does_inside_another_one_stands_below_itself(db: AsyncSmithersDB) -> None:
    async with db.run("outer") as outer, outer.phase("p") as phase:
        await outer.step("in the phase", print)
        async with db.run("inner") as inner:
            await outer.step("of the outer one", print)
            await inner.step("of the inner one", print)
            async with outer.phase("of the outer one"):
                await inner.step("of the inner one", print)
    assert [(s.name, s.execution_id, s.phase_id) for s in await db.steps.list()] == [
        ("in the phase", outer.id, phase),
        ("of the outer one", outer.id, None),
        ("of the inner one", inner.id, None),
        ("of the inner one", inner.id, None),
    ]
    assert {phase.execution_id for phase in await db.phases.list()} == {outer.id}


async def test_a_run_is_entered_once(db: AsyncSmithersDB) -> None:
    run = db.run("w")
    async with run:
        with pytest.raises(RuntimeError, match="entered once"):
            await run.__aenter__()
    with pytest.raises(RuntimeError, match="entered once"):
        await run.__aenter__()
    assert (await the_only(db)).status == "completed"


@pytest.mark.parametrize("resume", [None, 0, 1, b"id"])
async def test_what_is_to_be_resumed_is_said_by_name(db: AsyncSmithersDB, resume: Any) -> None:
    with pytest.raises(TypeError, match="resume is True, False"):
        db.run("w", resume=resume)


async def test_a_cancelled_execution_leaves_its_block_as_an_error_of_its_own(
    db: AsyncSmithersDB,
) -> None:
    async def cancel(id: str) -> None:
        async with create_async_smithers_db(db.path or "") as elsewhere:
            await elsewhere.execution.cancel(id, "no longer wanted")

    run = db.run("w")
    with pytest.raises(ExecutionCancelled, match="no longer wanted") as caught:
        async with run:
            await cancel(run.id)
            await asyncio.Event().wait()
    assert (caught.value.id, caught.value.reason) == (run.id, "no longer wanted")
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0
    assert (await the_only(db)).status == "cancelled"


async def test_cancelling_an_inner_run_is_an_error_for_the_outer_one(db: AsyncSmithersDB) -> None:
    async with db.run("outer") as outer:
        with pytest.raises(ExecutionCancelled):
            async with db.run("inner") as inner:
                await db.execution.cancel(inner.id)
                await asyncio.Event().wait()
        assert await outer.step("goes on", str, 1) == "1"
    assert [e.status for e in await db.execution.list()] == ["cancelled", "completed"]
