"""Below what a new row stands: what was named, else what runs here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smithers.context import Kind
from smithers.errors import InvalidStatus, NotFound
from smithers.rows import check_id
from smithers.workspace import Workspace

_SELECT = {
    "execution": "SELECT status, id, NULL, NULL FROM executions WHERE id = ?",
    "phase": "SELECT status, execution_id, id, NULL FROM phases WHERE id = ?",
    "step": "SELECT status, execution_id, phase_id, id FROM steps WHERE id = ?",
    "agent": "SELECT status, execution_id, phase_id, step_id FROM agents WHERE id = ?",
}


@dataclass(frozen=True, slots=True)
class Parents:
    """The rows that a new one stands below; None where there is none."""

    execution_id: str | None
    phase_id: str | None = None
    step_id: str | None = None
    agent_id: str | None = None


def parents(
    workspace: Workspace,
    *,
    execution_id: str | None = None,
    phase_id: str | None = None,
    step_id: str | None = None,
    agent_id: str | None = None,
) -> Parents:
    """Find the parents of a new row.

    The innermost id that is named decides, and what stands above it comes from its row. What is
    not named comes from this context, as far as that runs below what is named.

    Raises NotFound for an id that is nowhere, InvalidStatus for a row that has ended, ValueError
    for ids that do not belong together.
    """
    named: tuple[tuple[Kind, str | None], ...] = (
        ("execution", execution_id),
        ("phase", phase_id),
        ("step", step_id),
        ("agent", agent_id),
    )
    found: Parents | None = None
    for kind, id in named:
        if id is not None:
            found = _named(workspace, kind, id, outer=found)
    return _around(workspace) if found is None else _completed(workspace, found)


def _named(workspace: Workspace, kind: Kind, id: str, *, outer: Parents | None) -> Parents:
    check_id(id, kind)
    row: tuple[Any, ...] | None
    row = workspace.database.conn.execute(_SELECT[kind], (id,)).fetchone()
    if row is None:
        raise NotFound(kind, id)
    status, execution_id, phase_id, step_id = row
    if status != "running":
        raise InvalidStatus(kind, id, status, "start anything below")
    found = Parents(execution_id, phase_id, step_id, id if kind == "agent" else None)
    if outer is not None:
        for name in ("execution_id", "phase_id", "step_id"):
            wanted, has = getattr(outer, name), getattr(found, name)
            if wanted is not None and wanted != has:
                raise ValueError(f"{kind} {id!r} stands below {name} {has!r}, not {wanted!r}")
    return found


def _around(workspace: Workspace) -> Parents:
    context = workspace.context
    top = context.top
    if top is None:
        return Parents(context.execution_id)
    agent = context.nearest("agent")
    return Parents(
        top.execution_id or context.execution_id,
        top.phase_id,
        top.step_id,
        None if agent is None else agent.id,
    )


def _completed(workspace: Workspace, named: Parents) -> Parents:
    """Add what runs here, inside of what was named."""
    around = _around(workspace)
    if around.execution_id != named.execution_id:
        return named
    phase, step, agent = named.phase_id, named.step_id, named.agent_id
    if agent is None and phase is None and step is None:
        return around
    if agent is None and step is None and around.phase_id == phase:
        step = around.step_id
    if agent is None and around.phase_id == phase and around.step_id == step:
        agent = around.agent_id
    return Parents(named.execution_id, phase, step, agent)
