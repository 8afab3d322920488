"""Below what a new row stands: what was named, else what runs here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from reactive_sqlite.arguments import shown
from smithers.context import Frame, Kind
from smithers.errors import InvalidStatus, NotFound
from smithers.rows import check_id
from smithers.workspace import Workspace

# A program that does not enforce foreign keys may have left ids behind that lead nowhere.
_PHASE = "(SELECT id FROM phases WHERE phases.id = phase_id)"
_STEP = "(SELECT id FROM steps WHERE steps.id = step_id)"
_SELECT = {
    "execution": "SELECT status, id, NULL, NULL FROM executions WHERE id = ?",
    "phase": "SELECT status, execution_id, id, NULL FROM phases WHERE id = ?",
    "step": f"SELECT status, execution_id, {_PHASE}, id FROM steps WHERE id = ?",
    "agent": f"SELECT status, execution_id, {_PHASE}, {_STEP} FROM agents WHERE id = ?",
}
_Row = tuple[str, str | None, str | None, str | None]


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
    row = _row(workspace, kind, id)
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
                raise ValueError(
                    f"{kind} {shown(id)} stands below {name} {shown(has)}, not {shown(wanted)}"
                )
    return found


def _row(workspace: Workspace, kind: Kind, id: str) -> _Row | None:
    row: _Row | None = workspace.database.conn.execute(_SELECT[kind], (id,)).fetchone()
    return row


def _around(workspace: Workspace) -> Parents:
    context = workspace.context
    found = _running(workspace, lambda: context.top)
    if found is None:
        return Parents(context.execution_id)
    top, (_, execution_id, phase_id, step_id) = found
    agent = found if top.kind == "agent" else _running(workspace, lambda: context.nearest("agent"))
    return Parents(
        execution_id or context.execution_id,
        phase_id,
        step_id,
        None if agent is None else agent[0].id,
    )


def _running(
    workspace: Workspace, innermost: Callable[[], Frame | None]
) -> tuple[Frame, _Row] | None:
    """Return what runs here with its row; what another program ended or deleted is passed over.

    Raises OwnershipLost where that is so because another run has taken the execution over.
    """
    context = workspace.context
    while (frame := innermost()) is not None:
        if frame.kind == "execution":
            return frame, ("running", frame.id, None, None)  # the fence of what is written asks
        row = _row(workspace, frame.kind, frame.id)
        if row is not None and row[0] == "running":
            return frame, row
        workspace.ownership.check(frame.execution_id)
        workspace.database.on_rollback(partial(context.reenter, context.leave(frame.id)))
    return None


def _completed(workspace: Workspace, named: Parents) -> Parents:
    """Add what runs here, where that is inside of what was named."""
    if named.agent_id is not None:
        return named
    around = _around(workspace)
    inside = (
        around.execution_id == named.execution_id
        and named.phase_id in (None, around.phase_id)
        and named.step_id in (None, around.step_id)
    )
    return around if inside else named
