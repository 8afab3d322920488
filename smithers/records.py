"""The rows that calls return, as frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class StateEntry:
    """One key of the state as it stands.

    >>> db.state.entry("phase")
    StateEntry(key='phase', value='review', updated_at=datetime.datetime(...))
    """

    key: str
    value: Any
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One change of one key of the state, as history keeps it.

    `seq` is 1, 2, … in commit order and `id` the same as text (`t1`, `t2`, …). `commit` is shared
    by the transitions of one commit. `value` is None when `deleted`; `previous_value` is None when
    the key was absent. What another program did to the table carries no `trigger` and no ids; a
    value of its that Python cannot read (nested 1,000 deep) is given as its JSON text.

    >>> db.state.set("phase", "review", trigger="tests_passed").trigger
    'tests_passed'
    """

    id: str
    seq: int
    key: str
    previous_value: Any
    value: Any
    trigger: str | None
    timestamp: datetime
    execution_id: str | None
    agent_id: str | None
    deleted: bool
    commit: int
