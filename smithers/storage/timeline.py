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
_NEAREST = "SELECT max(seq) FROM transitions WHERE seq <= ?"
_PAGE = 500
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

    def nearest(self, seq: int) -> int | None:
        """Tell the newest `seq` up to a number, None where there is none."""
        found: int | None = self._database.conn.execute(_NEAREST, (seq,)).fetchone()[0]
        return found

    def newest(self, limit: int, *, before: int | None = None) -> list[Moment]:
        """List the newest commits, the newest first; `before` is the exclusive `seq` of one."""
        moments: list[Moment] = []
        before = _FAR if before is None else before
        under_way: list[tuple[int, int, str, str | None, str]] = []
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


def _moment(rows: list[tuple[int, int, str, str | None, str]]) -> Moment:
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
