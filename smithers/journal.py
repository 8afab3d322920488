"""How a change of the state becomes transitions, and how those of one commit belong together.

A change is one INSERT into `transitions`; the schema applies it to `state` in the same statement,
so value and history cannot part. A transaction of ours numbers its transitions as one commit: when
the outermost ends, whatever it wrote, by this journal or by plain SQL, gets one `"commit"` (see
`workspace`). Written below an execution, it carries that and the agent, and is fenced.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from reactive_sqlite.arguments import shown
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.tables import Table
from reactive_sqlite.trail import Trail
from smithers.cells import checked
from smithers.clock import from_text, to_text
from smithers.codec import decode, same_json
from smithers.errors import StateTypeError
from smithers.ids import transition_id
from smithers.ownership import FENCE
from smithers.records import Transition
from smithers.schema.history import NEXT_COMMIT
from smithers.workspace import Workspace

COLUMNS = (
    'seq, key, previous_value, value, "trigger", timestamp, execution_id, agent_id, deleted, '
    '"commit"'
)

# By position: named parameters are looked up one by one at every call.
_COLUMNS_SET = (
    'key, previous_value, value, "trigger", timestamp, deleted, execution_id, agent_id, "commit", '
    "apply"
)
# What RETURNING would give costs a tenth of the write. The function hands the previous value over
# where it is read anyhow; as bytes, since a text that is no UTF-8 would make the statement fail.
_NOTE = "_smithers_previous"
_PREVIOUS = f"""(
    SELECT value FROM state WHERE key = ? AND {_NOTE}(?, CAST(value AS BLOB)) IS NULL
)"""
_VALUES = f"?, {_PREVIOUS}, ?, ?, ?, ?, ?, ?, coalesce(?, {NEXT_COMMIT}), 1"
_INSERT = f"INSERT INTO transitions ({_COLUMNS_SET}) VALUES ({_VALUES})"
_FENCED_INSERT = f"INSERT INTO transitions ({_COLUMNS_SET}) SELECT {_VALUES} WHERE {FENCE}"
VALUE = "SELECT value FROM state WHERE key = ?"
_STATE = "SELECT key, value FROM state"
_TRAIL = Trail(
    ("main", "state"),
    "key",
    newest="SELECT max(seq) FROM (SELECT seq FROM sqlite_sequence WHERE name = 'transitions')",
    entries="SELECT seq, key FROM transitions WHERE seq > ? ORDER BY seq LIMIT ?",
)


@dataclass(frozen=True, slots=True)
class Change:
    """A change to be made: a key, its new JSON text (None: removed) and what that decodes to."""

    key: str
    text: str | None = None
    value: Any = None


class Journal:
    """Write changes of the state as transitions, all the changes of a call in one commit."""

    def __init__(self, workspace: Workspace) -> None:
        self.database = workspace.database
        self._workspace = workspace
        # Kept, since `database.table` asks each time whether the name is that of a view.
        self._values = Table(workspace.database, "state")
        # By the number of the write: an observer that it calls may write again.
        self._previous: dict[int, bytes] = {}
        self._numbers = itertools.count()
        # Not a method: what SQLite holds must not keep the database from being collected.
        workspace.database.conn.create_function(_NOTE, 2, self._previous.__setitem__)
        ((self._encoding,),) = workspace.database.conn.raw("PRAGMA encoding")

    def follow_foreign_writes(self) -> None:
        """Learn from the transitions which keys other programs have written.

        They hold both keys of a row that was renamed, and every other key that was touched.
        """
        self.database.broker.follow_trail(_TRAIL)

    def text(self, key: str) -> str | None:
        """Return the JSON text of a key, None when it is absent."""
        row = self.database.conn.execute(VALUE, (key,)).fetchone()
        return None if row is None else row[0]

    def observe(self, key: str) -> ObservableQuery[str | None]:
        """Observe the JSON text of a key, None while it is absent; other keys cause no fetch."""
        if self.database.closed:
            raise self.database.conn.closed_error()
        return self._values.observe_column("value", {"key": key})

    def record(
        self, key: str, text: str | None, value: Any, trigger: str | None = None
    ) -> Transition:
        """Write one change and return its transition; `value` is what `text` decodes to."""
        if self._workspace.read_only:  # asked first, for the message takes longer to make
            self.check_writable("change state", key)
        return self._insert(key, text, value, trigger, self._workspace.now())

    def record_all(self, changes: Iterable[Change], trigger: str | None) -> list[Transition]:
        """Write several changes in order: all or nothing, one commit, one moment."""
        self.check_writable("change the state")
        now = self._workspace.now()
        with self.database.transaction():
            return [
                self._insert(change.key, change.text, change.value, trigger, now)
                for change in changes
            ]

    def become(self, target: Sequence[Change], trigger: str | None) -> list[Transition]:
        """Make the state exactly what `target` sets, writing only what differs."""
        self.check_writable("change the state")
        with self.database.transaction():
            present: dict[str, str] = dict(self.database.conn.execute(_STATE).fetchall())
            gone = sorted(present.keys() - {change.key for change in target})
            changed = [
                change
                for change in target
                if change.text is None
                or change.key not in present
                or not same_json(present[change.key], change.text)
            ]
            return self.record_all([*map(Change, gone), *changed], trigger)

    def check_writable(self, action: str, key: str | None = None) -> None:
        """Raise ReadOnly, before anything else happens, where nothing can be written."""
        self._workspace.check_writable(action if key is None else f"{action} {shown(key)}")

    def _insert(
        self, key: str, text: str | None, value: Any, trigger: str | None, now: datetime
    ) -> Transition:
        deleted = text is None
        database = self.database
        execution_id, agent_id = self._workspace.cause()
        number, commit = next(self._numbers), database.commit_number
        values = (
            *(key, key, number, text, trigger, to_text(now), deleted, execution_id, agent_id),
            commit,
        )
        fence = self._workspace.ownership.fence(execution_id)
        try:
            if fence[0] is None:
                cursor = database.conn.execute(_INSERT, values)
            else:
                cursor = database.conn.execute(_FENCED_INSERT, (*values, *fence))
        finally:
            previous = self._previous.pop(number, None)
        if not cursor.rowcount:
            self._workspace.ownership.check(execution_id)
            # Another thread of ours has ended it, or undone its start, while this one waited.
            return self._insert(key, text, value, trigger, now)
        seq = cursor.lastrowid
        made: Any = _Unfrozen()
        made.id = transition_id(seq)
        made.seq = seq
        made.key = key
        if previous is None:
            made.previous_value = None
        else:
            made.previous_value = readable(previous.decode(self._encoding, "replace"), key)
        made.value = value
        made.trigger = trigger
        made.timestamp = now
        made.execution_id = execution_id
        made.agent_id = agent_id
        made.deleted = deleted
        made.commit = seq if commit is None else commit
        made.__class__ = Transition
        return cast("Transition", made)


class _Unfrozen:
    """A transition while it is being made: a frozen class sets its fields five times as slowly."""

    __slots__ = Transition.__slots__


def to_transition(row: tuple[Any, ...]) -> Transition:
    """Read a row of `transitions` with the columns of `COLUMNS`."""
    seq, key, previous, value, trigger, timestamp, execution_id, agent_id, deleted, commit = row
    transition = Transition(
        id=transition_id(seq),
        seq=seq,
        key=key,
        previous_value=None if previous is None else readable(previous, key),
        value=None if value is None else readable(value, key),
        trigger=trigger,
        timestamp=from_text(timestamp),
        execution_id=execution_id,
        agent_id=agent_id,
        deleted=bool(deleted),
        commit=commit,
    )
    return checked(transition)


def readable(text: str, key: str) -> Any:
    """Read a value of history; one that Python cannot read is given as it is stored.

    A write over such a value has happened when this is asked, and history must stay readable:
    only reading the value itself is an error.
    """
    try:
        return decode(text, name=key)
    except StateTypeError:
        return text
