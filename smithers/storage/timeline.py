"""The commits of the state, one after the other: what a slider moves along."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from smithers.rows import moment
from smithers.workspace import WorkflowDatabase

# So many keys of a commit are named.
NAMED_KEYS = 20
_ROWS = """
    SELECT seq, "commit", key, "trigger", timestamp FROM transitions
    WHERE seq < :before ORDER BY seq DESC LIMIT :limit
"""
_ENDS = "SELECT min(seq), max(seq) FROM transitions"
_COMMIT_AT = 'SELECT "commit" FROM transitions WHERE seq <= ? ORDER BY seq DESC LIMIT 1'
_ROWS_FROM = """
    SELECT seq, "commit", key, "trigger", timestamp FROM transitions
    WHERE seq > :after ORDER BY seq LIMIT :limit
"""
_PAGE = 500
Row = tuple[int, int, str, str | None, str]
_FAR = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One commit of the state.

    `seq` is that of its last transition; of its keys, `count` in number, the first are named.
    """

    seq: int
    commit: int
    timestamp: datetime
    trigger: str | None
    keys: tuple[str, ...]
    count: int


class Timeline:
    """Tell when the state changed, without reading what it was."""

    def __init__(self, database: WorkflowDatabase) -> None:
        self._database = database

    def ends(self) -> tuple[int | None, int | None]:
        """Tell the `seq` of the first transition that there still is, and of the newest."""
        first, last = self._database.conn.execute(_ENDS).fetchone()
        return first, last

    def at(self, seq: int) -> Moment | None:
        """Return the commit of a transition, or the last before it where it is not there."""
        found = self._database.conn.execute(_COMMIT_AT, (seq,)).fetchone()
        if found is None:
            return None
        rows: list[Row] = []
        while True:
            values = {"after": rows[0][0] if rows else found[0] - 1, "limit": _PAGE}
            page = self._database.conn.execute(_ROWS_FROM, values).fetchall()
            ours = [row for row in page if row[1] == found[0]]
            rows = [*reversed(ours), *rows]
            if len(ours) < _PAGE:
                return _moment(rows)

    def newest(self, limit: int, *, before: int | None = None) -> list[Moment]:
        """List the newest commits, the newest first; `before` is the exclusive `seq` of one."""
        moments: list[Moment] = []
        before = _FAR if before is None else before
        under_way: list[Row] = []
        while len(moments) < limit:
            values = {"before": before, "limit": _PAGE}
            page = self._database.conn.execute(_ROWS, values).fetchall()
            for row in page:
                if under_way and row[1] != under_way[0][1]:
                    moments.append(_moment(under_way))
                    under_way = []
                under_way.append(row)
            if len(page) < _PAGE:
                moments += [_moment(under_way)] if under_way else []
                break
            before = page[-1][0]
        return moments[:limit]


def _moment(rows: list[Row]) -> Moment:
    seq, commit, _, _, timestamp = rows[0]
    triggers = [row[3] for row in rows if row[3] is not None]
    return Moment(
        seq=seq,
        commit=commit,
        timestamp=moment(timestamp),
        trigger=triggers[-1] if triggers else None,
        keys=tuple(row[2] for row in rows[: -NAMED_KEYS - 1 : -1]),
        count=len(rows),
    )
