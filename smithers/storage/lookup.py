"""Ids of rows: by an abbreviation, as a person types it, and the newest ones."""

from __future__ import annotations

from typing import Literal

from smithers.workspace import WorkflowDatabase

IdKind = Literal["execution", "phase", "step", "agent"]

SHORTEST = 4
_TABLES: dict[IdKind, str] = {
    "execution": "executions",
    "phase": "phases",
    "step": "steps",
    "agent": "agents",
}
_EXACT = "SELECT id FROM {table} WHERE id = :text"
# CPython 3.12 before 3.12.4 takes `?1` for a name, and warns: so it has one.
_ENDS = """
    SELECT id FROM {table}
    WHERE substr(id, 1, length(:text)) = :text OR substr(id, -length(:text)) = :text
    ORDER BY seq DESC
"""


class Lookup:
    """Find ids.

    The ids of this package begin with the time, so that those of one minute differ at their ends.
    """

    def __init__(self, database: WorkflowDatabase) -> None:
        self._database = database

    def matching(self, kind: IdKind, text: str) -> list[str]:
        """List the ids that are this text, else those that begin or end with it, newest first."""
        for sql in (_EXACT, _ENDS):
            found = self._database.conn.execute(sql.format(table=_TABLES[kind]), {"text": text})
            ids = [id for (id,) in found]
            if ids or len(text) < SHORTEST:
                return ids
        return []
