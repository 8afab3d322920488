"""Sessions of models: what each has cost so far, by the total that the model itself keeps."""

from __future__ import annotations

from smithers.codec import check_text
from smithers.workspace import Workspace

_COST = "SELECT cost_usd FROM _smithers_sessions WHERE session_id = ?"
# A total that a model begins anew, because it has lost the session, is none of the session's.
_NOTE = """
    INSERT INTO _smithers_sessions (session_id, cost_usd) VALUES (?, ?)
    ON CONFLICT (session_id) DO UPDATE SET cost_usd = max(cost_usd, excluded.cost_usd)
"""


class Sessions:
    """Running totals of sessions, which go on when a session is resumed or forked."""

    def __init__(self, workspace: Workspace) -> None:
        self._database = workspace.database

    def cost(self, session_id: str) -> float | None:
        """Return the last total of a session, in US dollars; None for one never heard of."""
        row = self._database.conn.execute(_COST, (session_id,)).fetchone()
        return None if row is None else row[0]

    def note_cost(self, session_id: str, cost_usd: float) -> None:
        """Note the total of a session; write it with the agent's own row, which is fenced."""
        check_text(session_id, "the id of a session")
        self._database.conn.execute(_NOTE, (session_id, cost_usd))
