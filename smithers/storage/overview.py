"""What stands below an execution, in few words: the tree that a person looks at."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from reactive_sqlite.observation import ObservableQuery
from smithers.rows import moment, moment_or_none
from smithers.workspace import WorkflowDatabase

PartKind = Literal["phase", "step", "agent", "tool"]

# Of a prompt, a summary or an error; whole ones stand in the rows.
_FEW = 400
# (its kind, its table, its name, the text that tells most, the phase, step and agent it stands
# below, what it has spent: tokens, dollars, and its count)
_KINDS = (
    ("phase", "phases", "name", "NULL", ("NULL", "NULL", "NULL"), ("0", "0.0", "iteration")),
    ("step", "steps", "name", "NULL", ("phase_id", "NULL", "NULL"), ("0", "0.0", "0")),
    (
        *("agent", "agents", "model", "prompt", ("phase_id", "step_id", "parent_agent_id")),
        (
            *("tokens_input + tokens_output", "cost_usd"),
            "(SELECT count(*) FROM tool_calls WHERE agent_id = agents.id)",
        ),
    ),
    (
        *("tool", "tool_calls", "name", "coalesce(summary, input)"),
        *(("NULL", "NULL", "agent_id"), ("0", "0.0", "coalesce(output_size, 0)")),
    ),
)
_OF_ONE = "execution_id = :id"
_OF_RUNNING = "execution_id IN (SELECT id FROM executions WHERE status = 'running')"
# The select list, in the order of `_part`; every column has a name of its own, since rows that
# are observed are dicts.
_COLUMNS = """
    '{kind}' AS kind, id, execution_id, {phase} AS phase, {step} AS step, {agent} AS agent,
    {name} AS name, substr({text}, 1, :few) AS text, status, substr(error, 1, :few) AS error,
    started_at, completed_at, duration_ms, {tokens} AS tokens, {cost} AS cost, {count} AS count,
    {rank} AS rank, seq
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One row below an execution.

    `name` is that of a phase, a step or a tool, and the model of an agent; `text` is the beginning
    of a prompt or of what a tool was called with. `parents` are the ids it stands below, the
    nearest first. `count` is the iteration of a phase, the number of tool calls of an agent, the
    bytes of a tool call's output.
    """

    kind: PartKind
    id: str
    execution_id: str
    parents: tuple[str, ...]
    name: str
    text: str | None
    status: str
    error: str | None
    started_at: datetime
    completed_at: datetime | None
    duration_ms: int | None
    tokens: int
    cost_usd: float
    count: int


class Overview:
    """Tell what stands below an execution without reading a long text."""

    def __init__(self, database: WorkflowDatabase) -> None:
        self._database = database

    def everything(self, execution_id: str, *, limit: int | None = None) -> list[Part]:
        """List phases, steps and agents, of each the newest ones, in the order of their starts."""
        return self._parts(execution_id, _ALL, limit)

    def running(self, execution_id: str, *, limit: int | None = None) -> list[Part]:
        """List what runs: phases, steps, agents and tool calls."""
        return self._parts(execution_id, _RUNNING, limit)

    def observe(
        self, execution_id: str, *, limit: int | None = None
    ) -> ObservableQuery[list[Part]]:
        """Observe everything, and the tool calls that run."""
        rows = self._database.observe(_LIVE, _values(execution_id, limit))
        return rows.decoded(lambda found: [_part(*row.values()) for row in found])

    def observe_all(
        self, execution_id: str, *, limit: int | None = None
    ) -> ObservableQuery[list[Part]]:
        """Observe everything, and all tool calls."""
        rows = self._database.observe(_WHOLE, _values(execution_id, limit))
        return rows.decoded(lambda found: [_part(*row.values()) for row in found])

    def observe_running(self, *, limit: int | None = None) -> ObservableQuery[list[Part]]:
        """Observe what runs below all executions that run."""
        rows = self._database.observe(_ALL_RUNNING, {"few": _FEW, "limit": _rows(limit)})
        return rows.decoded(lambda found: [_part(*row.values()) for row in found])

    def _parts(self, execution_id: str, sql: str, limit: int | None) -> list[Part]:
        found = self._database.conn.execute(sql, _values(execution_id, limit))
        return [_part(*row) for row in found]


def _values(execution_id: str, limit: int | None) -> dict[str, Any]:
    return {"id": execution_id, "few": _FEW, "limit": _rows(limit)}


def _rows(limit: int | None) -> int:
    return -1 if limit is None else limit


def _selects(only: str, *kinds: str, of: str = _OF_ONE) -> list[str]:
    selects: list[str] = []
    for rank, (kind, table, name, text, above, spent) in enumerate(_KINDS):
        if kind not in kinds:
            continue
        phase, step, agent = above
        tokens, cost, count = spent
        columns = _COLUMNS.format(
            kind=kind,
            name=name,
            text=text,
            phase=phase,
            step=step,
            agent=agent,
            tokens=tokens,
            cost=cost,
            count=count,
            rank=rank,
        )
        selects.append(
            f"""
            SELECT *, max(started_at) OVER (ORDER BY seq) AS reached FROM (
                SELECT {columns} FROM {table} WHERE {of} {only}
                ORDER BY seq DESC LIMIT :limit
            )
            """
        )
    return selects


def _together(*selects: str) -> str:
    # A clock that was set back puts none before an earlier one of its kind.
    return f"{' UNION ALL '.join(selects)} ORDER BY reached, rank, seq"


_RUNS = "AND status = 'running'"
_ALL = _together(*_selects("", "phase", "step", "agent"))
_RUNNING = _together(*_selects(_RUNS, "phase", "step", "agent", "tool"))
_WHOLE = _together(*_selects("", "phase", "step", "agent", "tool"))
_ALL_RUNNING = _together(*_selects(_RUNS, "phase", "step", "agent", "tool", of=_OF_RUNNING))
_LIVE = _together(*_selects("", "phase", "step", "agent"), *_selects(_RUNS, "tool"))


def _part(
    kind: PartKind,
    id: str,
    execution_id: str,
    phase_id: str | None,
    step_id: str | None,
    agent_id: str | None,
    name: str,
    text: str | None,
    status: str,
    error: str | None,
    started_at: str,
    completed_at: str | None,
    duration_ms: int | None,
    tokens: int,
    cost_usd: float,
    count: int,
    *_order: int | str,
) -> Part:
    return Part(
        kind=kind,
        id=id,
        execution_id=execution_id,
        parents=tuple(one for one in (agent_id, step_id, phase_id) if one is not None),
        name=name,
        text=text,
        status=status,
        error=error,
        started_at=moment(started_at),
        completed_at=moment_or_none(completed_at),
        duration_ms=duration_ms,
        tokens=tokens,
        cost_usd=cost_usd,
        count=count,
    )
