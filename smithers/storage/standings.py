"""Which rows stand in which places of the script of an execution."""

from __future__ import annotations

from dataclasses import dataclass

from smithers.clock import to_text
from smithers.errors import OwnershipLost
from smithers.ownership import FENCE
from smithers.schema.times import duration
from smithers.workspace import Workspace

_ALL = "SELECT place, kind, row_id, done, outcome FROM _smithers_places WHERE execution_id = ?"
_PUT = f"""
    INSERT INTO _smithers_places (execution_id, place, kind, row_id, done, outcome)
    SELECT ?, ?, ?, ?, ?, ? WHERE {FENCE}
    ON CONFLICT (execution_id, place) DO UPDATE SET
        kind = excluded.kind, row_id = excluded.row_id, done = excluded.done,
        outcome = excluded.outcome
"""
# What a run that has died left open, and nobody goes on with: phases alone are entered again.
_CUT_OFF = (
    ("tool_calls", "cancelled"),
    ("agents", "cancelled"),
    ("steps", "failed"),
)
_END = f"""
    UPDATE {{table}} SET status = ?, error = ?, completed_at = ?,
        duration_ms = {duration("started_at", "?")}
    WHERE execution_id = ? AND status = 'running'
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands in one place.

    Attributes:
        kind: phase, step, agent, loop or gate.
        row_id: its row, where it has one.
        done: iterations of a loop that have ended; 1 for an agent whose `on_finished` has.
        outcome: why a loop has ended, None before.
    """

    kind: str
    row_id: str | None = None
    done: int = 0
    outcome: str | None = None


class Standings:
    """What stands in the places of executions; written below their leases.

    Attributes:
        scripts: the executions in which a script of this handle runs now.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.scripts: set[str] = set()
        self._workspace = workspace
        self._database = workspace.database

    def all(self, execution_id: str) -> dict[str, Standing]:
        """Return what stands in each place of an execution."""
        rows = self._database.conn.execute(_ALL, (execution_id,))
        return {place: Standing(*standing) for place, *standing in rows}

    def put(self, execution_id: str, place: str, standing: Standing) -> None:
        """Say what stands in a place; raises OwnershipLost where another run owns it now."""
        values = (
            *(execution_id, place, standing.kind, standing.row_id, standing.done),
            *(standing.outcome, *self._workspace.ownership.fence(execution_id)),
        )
        if not self._database.conn.execute(_PUT, values).rowcount:
            raise OwnershipLost(execution_id)

    def cut_off(self, execution_id: str, reason: str) -> None:
        """End the steps, agents and tool calls that a run has left open."""
        now = to_text(self._workspace.now())
        with self._database.transaction():
            self._workspace.ownership.check(execution_id)
            for table, status in _CUT_OFF:
                values = (status, reason, now, now, execution_id)
                self._database.conn.execute(_END.format(table=table), values)
