"""Agents: runs of a model, with prompt, result, tokens and cost."""

from __future__ import annotations

import builtins
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from reactive_sqlite.arguments import shown
from reactive_sqlite.observation import ObservableQuery
from smithers.clock import to_text
from smithers.codec import check_text, encode
from smithers.context import Frame
from smithers.failure import error_text
from smithers.ids import new_id
from smithers.parents import parents
from smithers.records import Agent
from smithers.rows import (
    Rows,
    check_id,
    current,
    json_or_none,
    left_with,
    moment,
    moment_or_none,
    unless_ended,
)
from smithers.workspace import Workspace

# What no bill shows; beyond it the totals of an execution could leave the integers of SQLite.
MOST_TOKENS = 10**15
MOST_DOLLARS = 10**6

_COUNTS = {
    "input": "tokens_input",
    "output": "tokens_output",
    "cache_read": "tokens_cache_read",
    "cache_write": "tokens_cache_write",
}
_COLUMNS = """id, execution_id, phase_id, step_id, parent_agent_id, model, system_prompt, prompt,
    status, output, structured, error, session_id, turns, tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, cost_usd, started_at, completed_at, duration_ms"""
_OUTPUT = "SELECT output FROM agents WHERE id = ?"


class Agents:
    """Runs of a model.

    Unknown ids raise NotFound, ended rows InvalidStatus, a run that has lost the execution
    OwnershipLost, and nothing is written then.

    >>> id = db.agents.start("Implement the feature", "sonnet", "You are a senior engineer")
    >>> db.agents.complete(id, "Done", {"success": True}, {"input": 1000, "output": 500})
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._rows = Rows(workspace, "agent", "agents", _COLUMNS, _agent)

    def start(
        self,
        prompt: str,
        model: str = "sonnet",
        system_prompt: str | None = None,
        *,
        execution_id: str | None = None,
        phase_id: str | None = None,
        step_id: str | None = None,
    ) -> str:
        """Start an agent and return its id.

        It stands below what is named, else below what runs here, another agent included; with no
        execution it stands alone. What is started next, here or in tasks made from here, stands
        below it. Raises NotFound and InvalidStatus for a parent that does not run, ValueError for
        parents that do not belong together.

        >>> id = db.agents.start("Review the change", "opus")
        """
        return self.begin(
            prompt,
            model,
            system_prompt,
            execution_id=execution_id,
            phase_id=phase_id,
            step_id=step_id,
        ).enter()

    def begin(
        self,
        prompt: str,
        model: str = "sonnet",
        system_prompt: str | None = None,
        *,
        execution_id: str | None = None,
        phase_id: str | None = None,
        step_id: str | None = None,
    ) -> Frame:
        """Start an agent as `start` does, without letting it run in this context."""
        check_text(prompt, "the prompt of an agent", empty=True)
        check_text(model, "the model of an agent")
        if system_prompt is not None:
            check_text(system_prompt, "the system prompt of an agent", empty=True)
        self._workspace.check_writable("start an agent")
        above = parents(
            self._workspace, execution_id=execution_id, phase_id=phase_id, step_id=step_id
        )
        id = new_id()
        values = {
            "id": id,
            "execution_id": above.execution_id,
            "phase_id": above.phase_id,
            "step_id": above.step_id,
            "parent_agent_id": above.agent_id,
            "model": model,
            "started_at": to_text(self._workspace.now()),
            "system_prompt": system_prompt,
            "prompt": prompt,
        }
        self._rows.insert(values, above.execution_id)
        return self._workspace.started(
            "agent", id, above.execution_id, above.phase_id, above.step_id
        )

    @contextmanager
    def open(
        self,
        prompt: str,
        model: str = "sonnet",
        system_prompt: str | None = None,
        *,
        execution_id: str | None = None,
        phase_id: str | None = None,
        step_id: str | None = None,
    ) -> Generator[str]:
        """Run a block as an agent; see `start` for what it stands below.

        At its end the agent is completed with the text that `progress` has noted, or none. An
        error that leaves the block fails it; asyncio.CancelledError, KeyboardInterrupt and
        SystemExit, which are no errors, cancel it. One that the block has ended itself stays as it
        is.

        >>> with db.agents.open("Review the change") as id:
        ...     db.agents.complete(id, "Looks good")
        """
        id = self.start(
            prompt,
            model,
            system_prompt,
            execution_id=execution_id,
            phase_id=phase_id,
            step_id=step_id,
        )
        with left_with(self.leave, id):
            yield id

    def leave(self, id: str, error: BaseException | None = None) -> None:
        """End an agent as leaving `open` does, with the exception that leaves it if there is one.

        One that has ended already stays as it is.

        >>> db.agents.leave(id)
        """
        check_id(id, "agent")
        with unless_ended:
            if error is None:
                self.complete(id, self._output(id))
            elif isinstance(error, Exception):
                self.fail(id, error)
            else:
                self.cancel(id)

    def progress(
        self,
        id: str,
        *,
        output: str | None = None,
        session_id: str | None = None,
        turns: int | None = None,
        tokens: Mapping[str, float] | None = None,
    ) -> None:
        """Note what is known of a running agent so far; what is None stays as it was.

        `output` is the whole text up to now, `tokens` (names as of `complete`) the sums up to now,
        `session_id` and `turns` those of the model's session.

        >>> db.agents.progress(id, output="I will read the tests", tokens={"input": 300})
        """
        values = _spent(tokens)
        if output is not None:
            check_text(output, "the output of an agent", empty=True)
            values["output"] = output
        if session_id is not None:
            check_text(session_id, "the session id of an agent")
            values["session_id"] = session_id
        if turns is not None:
            values["turns"] = _count(turns, "turns")
        if not values:
            raise ValueError("nothing was given to be noted")
        self._rows.change(id, "note the progress of", **values)

    def complete(
        self,
        id: str,
        output: str,
        structured: Any = None,
        tokens: Mapping[str, float] | None = None,
    ) -> None:
        """End an agent as completed, with the text of its result.

        `structured` is the same as any JSON. `tokens` counts what the model bills: `input`,
        `output`, `cache_read`, `cache_write` in tokens, `cost_usd` in US dollars; one that is left
        out stays as `progress` has noted it, or 0. Raises ValueError for any other name, and for
        what is no such number.

        >>> db.agents.complete(id, "Done", tokens={"input": 1000, "output": 500, "cost_usd": 0.02})
        """
        check_text(output, "the output of an agent", empty=True)
        text = None
        if structured is not None:
            text = encode(structured, name="the structured output of an agent")
        values = _spent(tokens)
        self._rows.end(id, "completed", "complete", output=output, structured=text, **values)

    def fail(self, id: str, error: BaseException | str) -> None:
        """End an agent as failed, with an exception or a text; what it wrote and used so far stays.

        >>> db.agents.fail(id, "the model is overloaded")
        """
        self._rows.end(id, "failed", "fail", error=error_text(error))

    def cancel(self, id: str) -> None:
        """End an agent as cancelled; what it wrote and used so far stays.

        >>> db.agents.cancel(id)
        """
        self._rows.end(id, "cancelled", "cancel")

    def get(self, id: str) -> Agent | None:
        """Return an agent, None when there is none of that id.

        >>> db.agents.get(id).tokens_output
        500
        """
        return self._rows.get(id)

    def current(self) -> Agent | None:
        """Return the agent that runs here, else the newest running one of the current execution.

        >>> db.agents.current().prompt
        'Review the change'
        """
        return current(self._workspace, self._rows, "agent")

    def is_running(self, id: str) -> bool:
        """Tell whether an agent has not ended; False for an unknown id.

        >>> db.agents.is_running(id)
        False
        """
        return self._rows.is_running(id)

    def list(
        self, execution_id: str | None = None, *, limit: int | None = None
    ) -> builtins.list[Agent]:
        """List agents in the order of their starts, of one execution or of all; with a limit the
        newest of them.

        >>> [agent.model for agent in db.agents.list(execution_id)]
        ['sonnet', 'opus']
        """
        return self._rows.list(_of(execution_id), limit=limit)

    def observe(self, execution_id: str | None = None) -> ObservableQuery[builtins.list[Agent]]:
        """Observe what `list` gives.

        >>> db.agents.observe(execution_id).subscribe(print)
        """
        return self._rows.observe(_of(execution_id))

    def observe_one(self, id: str) -> ObservableQuery[Agent | None]:
        """Observe what `get` gives.

        >>> db.agents.observe_one(id).subscribe(print)
        """
        return self._rows.observe_one(id)

    def _output(self, id: str) -> str:
        row = self._workspace.database.conn.execute(_OUTPUT, (id,)).fetchone()
        return "" if row is None or row[0] is None else row[0]


def _of(execution_id: str | None) -> dict[str, str]:
    if execution_id is None:
        return {}
    check_id(execution_id, "execution")
    return {"execution_id": execution_id}


def _spent(tokens: Mapping[str, float] | None) -> dict[str, Any]:
    """Check what a model has used and return it by column, always in the same order."""
    if tokens is None:
        return {}
    if not isinstance(tokens, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        kind = type(tokens).__name__
        raise TypeError(f"tokens is a mapping of names to numbers, not {kind}: {shown(tokens)}")
    unknown = [name for name in tokens if name not in _COUNTS and name != "cost_usd"]
    if unknown:
        known = ", ".join((*_COUNTS, "cost_usd"))
        raise ValueError(f"tokens are counted as {known}; not as {shown(unknown)}")
    values: dict[str, Any] = {
        column: _count(tokens[name], f"tokens: {name}")
        for name, column in _COUNTS.items()
        if name in tokens
    }
    if "cost_usd" in tokens:
        values["cost_usd"] = _cost(tokens["cost_usd"])
    return values


def _count(value: object, name: str) -> int:
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise ValueError(f"{name} is a whole number from 0 to {MOST_TOKENS}, not {shown(value)}")
    return value


def _cost(value: object) -> float:
    # NaN is in no range.
    if isinstance(value, int | float) and type(value) is not bool and 0 <= value <= MOST_DOLLARS:
        return float(value)
    raise ValueError(f"tokens: cost_usd is a number from 0 to {MOST_DOLLARS}, not {shown(value)}")


def _agent(
    id: str,
    execution_id: str | None,
    phase_id: str | None,
    step_id: str | None,
    parent_agent_id: str | None,
    model: str,
    system_prompt: str | None,
    prompt: str,
    status: str,
    output: str | None,
    structured: str | None,
    error: str | None,
    session_id: str | None,
    turns: int,
    tokens_input: int,
    tokens_output: int,
    tokens_cache_read: int,
    tokens_cache_write: int,
    cost_usd: float,
    started_at: str,
    completed_at: str | None,
    duration_ms: int | None,
) -> Agent:
    return Agent(
        id=id,
        execution_id=execution_id,
        phase_id=phase_id,
        step_id=step_id,
        parent_agent_id=parent_agent_id,
        model=model,
        system_prompt=system_prompt,
        prompt=prompt,
        status=status,
        output=output,
        structured=json_or_none(structured, f"the structured output of agent {shown(id)}"),
        error=error,
        session_id=session_id,
        turns=turns,
        tokens_input=tokens_input,
        tokens_output=tokens_output,
        tokens_cache_read=tokens_cache_read,
        tokens_cache_write=tokens_cache_write,
        cost_usd=cost_usd,
        started_at=moment(started_at),
        completed_at=moment_or_none(completed_at),
        duration_ms=duration_ms,
    )
