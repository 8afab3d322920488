"""Whatever a script passes to its run, or its runner gives back: a result, or an error of it."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from smithers import (
    AgentFailed,
    AgentOutcome,
    AgentRecorder,
    AgentTask,
    AsyncSmithersDB,
    ClaudeMissing,
    Run,
    StepFailed,
    create_async_smithers_db,
)
from tests.faults.mischief import VALUES, Mischief
from tests.faults.verdict import wrong

SHORT = 10
# Seconds after which what waits for somebody is left alone.
PATIENCE = 0.2


def nothing(*args: object, **kwargs: object) -> None:
    """Take whatever comes."""


class Ready:
    """A runner that has the answer."""

    model = "ready"

    async def run(self, task: AgentTask, recorder: AgentRecorder) -> AgentOutcome:
        recorder.tool_started("t", "Read", {})
        recorder.tool_ended("t", "done")
        return AgentOutcome(output="done")


async def branch() -> None:
    """Do nothing."""


# What fits the arguments of each call; ralph runs once, and human asks nobody.
FITTING: Mapping[str, Callable[[], dict[str, Any]]] = {
    "phase": lambda: {"name": "plan"},
    "step": lambda: {"name": "write", "fn": nothing, "key": None, "value": 1},
    "ralph": lambda: {"body": nothing, "max_iterations": 1, "until": None, "wait": False},
    "agent": lambda: {
        **{"runner": Ready(), "prompt": "Why?", "model": None, "system_prompt": None},
        **{"output_type": None, "on_finished": None, "on_tool": None, "key": None},
        **{"timeout": 60, "retries": 0},
    },
    "claude": lambda: {
        **{"prompt": "Why?", "model": "opus", "system_prompt": None, "output_type": None},
        **{"on_finished": None, "on_tool": None, "key": None, "cwd": None, "timeout": None},
        **{"max_turns": None, "max_cost_usd": None, "retries": 0, "options": None},
    },
    "parallel": lambda: {"awaitables": branch()},
    "human": lambda: {"key": "gate", "prompt": "Deploy?", "timeout": 0},
    "stop": lambda: {"reason": "enough"},
    "run": lambda: {"name": "inner", "file_path": None, "resume": False, "initial_state": None},
}
# By place, as the signature wants them.
PLACED = {"step": ("name", "fn", "value"), "parallel": ("awaitables",)}
# Those that a script's own code is, whose errors are its own.
CALLED = frozenset({"fn", "body", "until", "runner", "on_finished", "on_tool", "awaitables"})


def arguments() -> Iterator[tuple[str, str]]:
    for call, fitting in FITTING.items():
        for name, value in fitting().items():
            if inspect.iscoroutine(value):
                value.close()
            yield call, name


async def called(run: Run[AsyncSmithersDB], call: str, given: dict[str, Any]) -> object:
    placed = [given.pop(name) for name in PLACED.get(call, ())]
    if call == "run":
        async with run.db.run(given.pop("name"), given.pop("file_path"), **given) as inner:
            return inner.id
    answer: Any = getattr(run, call)(*placed, **given)
    if call == "phase":
        async with answer as id:
            return id
    return await answer if inspect.isawaitable(answer) else answer


async def judged(run: Run[AsyncSmithersDB], call: str, argument: str, value: str) -> str | None:
    """Make a call, and tell what is wrong with the error that comes of it."""
    given = FITTING[call]()
    instead = given.get(argument)
    if inspect.iscoroutine(instead):
        instead.close()
    given[argument] = VALUES[value]()
    try:
        async with asyncio.timeout(PATIENCE if call == "human" else 30):
            await called(run, call, given)
    except (ClaudeMissing, StepFailed):
        return None
    except TimeoutError:
        return None if call == "human" else "nothing came of it"
    except BaseExceptionGroup as group:
        return None if call == "parallel" else repr(group)
    except Exception as error:
        if argument in CALLED and callable(given.get(argument)):
            return None
        return wrong(error, argument)
    return None


async def swept(path: Path, share: int) -> tuple[int, list[str]]:
    pairs = [(call, name, value) for call, name in arguments() for value in VALUES]
    if share != 1:
        random.Random(time.strftime("%j")).shuffle(pairs)
    pairs = pairs[: len(pairs) // share]
    findings: list[str] = []
    async with create_async_smithers_db(path, watch=False) as db:
        async with db.run("work", resume=False) as run:
            for number, (call, name, value) in enumerate(pairs):
                async with run.phase(f"phase {number}"):
                    found = await judged(run, call, name, value)
                findings += [] if found is None else [f"run.{call}({name}) of {value}: {found}"]
        assert [found for found in await db.check() if found.level == "error"] == []
        executions = await db.executions.list(limit=None)
        assert {execution.status for execution in executions} <= {"completed", "failed"}
    return len(pairs), findings


@pytest.fixture(autouse=True)
def no_claude(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let Claude Code be nowhere: what is wrong is refused before anybody looks for it."""
    monkeypatch.setenv("SMITHERS_CLAUDE_CLI", str(tmp_path / "nowhere"))


async def test_whatever_a_script_passes_there_is_a_result_or_an_error_that_names_it(
    tmp_path: Path,
) -> None:
    _, findings = await swept(tmp_path / "workflow", SHORT)
    assert findings == []


@pytest.mark.soak
@pytest.mark.timeout(400)
async def test_whatever_a_script_passes_to_each_call_there_is_a_result_or_an_error(
    tmp_path: Path,
) -> None:
    tried, findings = await swept(tmp_path / "workflow", 1)
    print(f"\nruns: {tried} calls with a hostile argument")
    assert findings == []


# -- what a runner tells and gives back ------------------------------------------------------------


class Talking:
    """A runner that tells one hostile value in every way there is, or gives it back."""

    def __init__(self, say: Callable[[AgentRecorder], object], answer: Any) -> None:
        self._say = say
        self._answer = answer
        self.model = "talking"

    async def run(self, task: AgentTask, recorder: AgentRecorder) -> AgentOutcome:
        self._say(recorder)
        answer: AgentOutcome = self._answer
        return answer


def told_output(recorder: AgentRecorder, value: Any) -> None:
    recorder.tool_started("t", "Read", {})
    recorder.tool_ended("t", value)


TOLD: Mapping[str, Callable[[AgentRecorder, Any], object]] = {
    "text": lambda recorder, value: recorder.text(value),
    "agent": lambda recorder, value: recorder.text("said", agent=value),
    "session": lambda recorder, value: recorder.session(value),
    "id": lambda recorder, value: recorder.tool_started(value, "Read", {}),
    "name": lambda recorder, value: recorder.tool_started("t", value, {}),
    "input": lambda recorder, value: recorder.tool_started("t", "Read", value),
    "output": told_output,
}
GIVEN: Mapping[str, Callable[[Any], Any]] = {
    "outcome": lambda value: value,
    "output": lambda value: AgentOutcome(output=value),
    "structured": lambda value: AgentOutcome(output="done", structured=value),
}


async def talked(path: Path, values: list[str]) -> list[str]:
    findings: list[str] = []
    async with create_async_smithers_db(path, watch=False) as db, db.run("work") as run:
        told: list[tuple[str, Callable[[Any], Talking]]] = [
            (name, lambda value, tell=tell: Talking(lambda to: tell(to, value), done))  # type: ignore[misc]
            for name, tell in TOLD.items()
        ]
        told += [
            (name, lambda value, give=give: Talking(nothing, give(value)))  # type: ignore[misc]
            for name, give in GIVEN.items()
        ]
        for value in values:
            for name, make in told:
                try:
                    await run.agent(make(VALUES[value]()), "Why?")
                except AgentFailed:
                    continue
                except Exception as error:
                    if not isinstance(error, Mischief):
                        findings.append(f"{name} of {value}: {error!r:.200}")
        rows = await db.agents.list(limit=None)
        assert {row.status for row in rows} <= {"completed", "failed"}
        assert [found for found in await db.check() if found.level == "error"] == []
    return findings


done = AgentOutcome(output="done")


async def test_whatever_a_runner_tells_and_gives_the_agent_completes_or_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = random.Random(time.strftime("%j")).sample([*VALUES], 12)
    asyncio.get_running_loop().set_exception_handler(nothing)  # of what cannot be written
    assert await talked(tmp_path / "workflow", chosen) == []
