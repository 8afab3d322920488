"""Executions and what stands below them as the type checkers see it; read by them, never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

from reactive_sqlite import ObservableQuery
from reactive_sqlite.asyncquery import AsyncObservableQuery
from smithers import Agent, AsyncSmithersDB, Execution, Phase, SmithersDB, Step, ToolCall


def executions(db: SmithersDB) -> None:
    assert_type(db.execution.start("Feature", Path("f.py"), {"retries": 2}), str)
    assert_type(db.execution.get("id"), Execution | None)
    assert_type(db.execution.current(), Execution | None)
    assert_type(db.execution.find_incomplete(), Execution | None)
    assert_type(db.execution.resume("id"), Execution)
    assert_type(db.execution.list("failed", limit=None), list[Execution])
    assert_type(db.execution.observe(), ObservableQuery[list[Execution]])
    assert_type(db.execution.observe("id"), ObservableQuery[Execution | None])
    db.execution.fail("id", ValueError("bad"))
    db.execution.fail("id", "text")
    db.execution.fail("id", 7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    db.execution.start()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def below(db: SmithersDB) -> None:
    with db.phases.open("p", 1) as phase_id, db.steps.open("s", phase_id=phase_id) as step_id:
        assert_type(step_id, str)
    with db.agents.open("prompt", "opus", step_id=step_id) as agent_id:
        assert_type(agent_id, str)
    db.agents.complete(agent_id, "done", {"ok": True}, {"input": 1, "cost_usd": 0.1})
    db.agents.complete(agent_id, "done", tokens={"input": 1})
    assert_type(db.phases.list(), list[Phase])
    assert_type(db.steps.list("id"), list[Step])
    assert_type(db.agents.list("id"), list[Agent])
    assert_type(db.tools.list("id"), list[ToolCall])
    assert_type(db.tools.get_output("id"), Any)
    assert_type(db.tools.observe("id"), ObservableQuery[list[ToolCall]])
    assert_type(db.agents.observe(), ObservableQuery[list[Agent]])
    db.tools.list()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    db.agents.complete("id")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    db.agents.complete("id", 7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    db.phases.start("p", 0, "id")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def awaited(db: AsyncSmithersDB) -> None:
    assert_type(await db.execution.start("Feature", Path("f.py"), {"retries": 2}), str)
    assert_type(await db.execution.get("id"), Execution | None)
    assert_type(await db.execution.resume("id"), Execution)
    assert_type(db.execution.observe(), AsyncObservableQuery[list[Execution]])
    assert_type(db.execution.observe("id"), AsyncObservableQuery[Execution | None])
    async with db.phases.open("p", 1) as phase_id, db.steps.open("s", phase_id=phase_id) as step_id:
        assert_type(await db.agents.start("prompt", step_id=step_id), str)
    async with db.agents.open("prompt", "opus") as agent_id:
        assert_type(await db.tools.start(agent_id, "Bash", None), str)
    assert_type(await db.agents.list(), list[Agent])
    assert_type(await db.tools.list("id"), list[ToolCall])
    assert_type(db.steps.observe("id"), AsyncObservableQuery[list[Step]])
    await db.agents.complete("id", "done", tokens={"output": 2})
    await db.agents.complete("id")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await db.tools.list()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with db.agents.open("prompt"):  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues]
        pass
