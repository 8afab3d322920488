"""Gates: a run waits until somebody has answered, in whatever process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from smithers import Approval, AsyncSmithersDB, NotFound, SmithersError, create_async_smithers_db

DECIDE = """
import sys
from smithers import create_smithers_db
with create_smithers_db(sys.argv[1], watch=False) as db:
    getattr(db.approvals, sys.argv[2])(sys.argv[3], "from elsewhere")
"""


async def waiting(db: AsyncSmithersDB, count: int = 1) -> list[Approval]:
    """Wait until so many gates wait."""
    return await db.approvals.observe("pending").first(
        lambda found: len(found) == count, timeout=10
    )


@pytest.mark.parametrize(("answer", "approved"), [("approve", True), ("deny", False)])
async def test_an_answer_of_another_process_lets_it_go_on(
    db: AsyncSmithersDB, path: Path, answer: str, approved: bool
) -> None:
    async def decide() -> None:
        await waiting(db)
        command = [sys.executable, "-c", DECIDE, str(path), answer, "deploy"]
        await asyncio.to_thread(subprocess.run, command, check=True, timeout=30)

    async with db.run("w") as run:
        deciding = asyncio.create_task(decide())
        approval = await run.human("deploy", "Deploy?")
        await deciding
    assert (approval.key, approval.prompt, approval.approved) == ("deploy", "Deploy?", approved)
    assert approval.comment == "from elsewhere" and approval.decided_at is not None


async def test_an_old_answer_never_passes_a_new_gate(db: AsyncSmithersDB) -> None:
    async with db.run("w") as run:
        first = asyncio.create_task(run.human("deploy", "First?"))
        await waiting(db)
        await db.approvals.approve("deploy")
        assert (await first).approved
        with pytest.raises(TimeoutError):
            await run.human("deploy", "Second?", timeout=0.05)
    async with db.run("w") as run:
        with pytest.raises(TimeoutError):
            await run.human("deploy", "Of another execution?", timeout=0.05)


async def test_a_resumed_run_asks_nothing_again_and_takes_the_answer(path: Path) -> None:
    async with create_async_smithers_db(path) as db:
        with pytest.raises(KeyboardInterrupt):
            async with db.run("w") as run:
                with pytest.raises(TimeoutError):
                    await run.human("deploy", "Deploy?", timeout=0.01)
                raise KeyboardInterrupt
        await db.approvals.approve("deploy", "yes")
        async with db.run("w") as run:
            assert (await run.human("deploy", "Deploy?")).comment == "yes"
        assert len(await db.approvals.list()) == 1


async def test_what_cannot_be_decided_is_a_clear_error(db: AsyncSmithersDB) -> None:
    with pytest.raises(NotFound, match="waiting gate 'deploy'"):
        await db.approvals.approve("deploy")
    ids: list[str] = []
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            async with db.run("w", resume=False) as run:
                ids.append(run.id)
                with pytest.raises(TimeoutError):
                    await run.human("deploy", "Deploy?", timeout=0.01)
                raise KeyboardInterrupt
    with pytest.raises(SmithersError, match="several executions wait at 'deploy'"):
        await db.approvals.approve("deploy")
    denied = await db.approvals.deny("deploy", execution_id=ids[1])
    assert denied.execution_id == ids[1]
    assert (await db.approvals.approve("deploy")).approved, "only one of them is left"


async def test_the_gate_of_an_execution_that_has_ended_stands_in_the_way_of_no_other(
    db: AsyncSmithersDB,
) -> None:
    with pytest.raises(TimeoutError):
        async with db.run("w") as run:
            await run.human("deploy", "Deploy?", timeout=0.01)
    async with db.run("w") as run:
        gate = asyncio.create_task(run.human("deploy", "Deploy?"))
        await waiting(db)
        assert (await db.approvals.approve("deploy")).execution_id == run.id
        assert (await gate).approved
    with pytest.raises(NotFound, match="waiting gate 'deploy'"):
        await db.approvals.approve("deploy")


async def test_asked_again_after_a_while_it_is_the_same_question(db: AsyncSmithersDB) -> None:
    async with db.run("w") as run:
        for _ in range(3):
            with pytest.raises(TimeoutError, match="nobody has answered 'deploy'"):
                await run.human("deploy", "Deploy?", timeout=0.01)
        assert len(await db.approvals.list()) == 1
        await db.approvals.approve("deploy")
        assert (await run.human("deploy", "Deploy?")).approved
        with pytest.raises(TimeoutError):
            await run.human("deploy", "Deploy again?", timeout=0.01)
        assert [gate.occurrence for gate in await db.approvals.list()] == [0, 1]


async def test_gates_of_an_ended_execution_are_void_and_asked_anew_by_a_resumed_run(
    db: AsyncSmithersDB,
) -> None:
    with pytest.raises(ValueError, match="broken"):
        async with db.run("w") as run:
            with pytest.raises(TimeoutError):
                await run.human("deploy", "Deploy?", timeout=0.01)
            raise ValueError("broken")
    (gate,) = await db.approvals.list()
    assert gate.status == "void" and gate.decided_at is not None
    assert await db.approvals.list("pending") == []
    async with db.run("w", resume="failed") as run:
        asking = asyncio.create_task(run.human("deploy", "Deploy?"))
        await waiting(db)
        await db.approvals.deny("deploy")
        assert not (await asking).approved
