"""How a change of the state becomes transitions, and how those of one commit belong together.

A change is one INSERT into `transitions`; the schema applies it to `state` in the same statement,
so value and history cannot part. A transaction of ours numbers its transitions as one commit: when
the outermost ends, whatever it wrote, by this journal or by plain SQL, gets one `"commit"`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reactive_sqlite.database import Database
from reactive_sqlite.errors import DatabaseClosed
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.tables import Table
from reactive_sqlite.trail import Trail
from smithers.clock import Clock, from_text, to_text, utc_now
from smithers.codec import decode, same_json
from smithers.errors import ReadOnly, StateTypeError
from smithers.ids import transition_id
from smithers.records import Transition
from smithers.schema import NEXT_COMMIT

COLUMNS = (
    'seq, key, previous_value, value, "trigger", timestamp, execution_id, agent_id, deleted, '
    '"commit"'
)

# By position: named parameters are looked up one by one at every call.
_INSERT = f"""
    INSERT INTO transitions
        (key, previous_value, value, "trigger", timestamp, deleted, "commit", apply)
    VALUES (?, (SELECT value FROM state WHERE key = ?), ?, ?, ?, ?, coalesce(?, {NEXT_COMMIT}), 1)
    RETURNING seq, previous_value, "commit"
"""
_VALUE = "SELECT value FROM state WHERE key = ?"
_NEXT = f"SELECT {NEXT_COMMIT}"
_GROUP = 'UPDATE transitions SET "commit" = :commit WHERE seq > :commit AND "commit" <> :commit'
_STATE = "SELECT key, value FROM state"
_TRAIL = Trail(
    ("main", "state"),
    "key",
    newest="SELECT max(seq) FROM (SELECT seq FROM sqlite_sequence WHERE name = 'transitions')",
    entries="SELECT seq, key FROM transitions WHERE seq > ? ORDER BY seq LIMIT ?",
)


class WorkflowDatabase(Database):
    """A `Database` whose outermost transactions number their transitions as one commit.

    Attributes:
        numbering: whether they do; False until the tables are there.
    """

    numbering = False
    _commit: int | None = None

    @property
    def commit_number(self) -> int | None:
        """The number of this thread's commit under way, or None outside `transaction()`."""
        number = self._commit
        # Another thread's number must not be taken along into the wait for its end.
        return number if number is None or self.conn.owned_here() else None

    @contextmanager
    def transaction(self) -> Generator[WorkflowDatabase]:
        """Group writes: one commit, one notification; nested ones are savepoints."""
        with super().transaction():
            if not self.numbering or self._commit is not None or self.conn.read_only:
                yield self
                return
            # The lock is ours until the end, so nobody else counts on from here.
            self._commit = self.conn.execute(_NEXT).fetchone()[0]
            try:
                yield self
                self.conn.execute(_GROUP, {"commit": self._commit})
            finally:
                self._commit = None

    atomic = transaction


@dataclass(frozen=True, slots=True)
class Change:
    """A change to be made: a key, its new JSON text (None: removed) and what that decodes to."""

    key: str
    text: str | None = None
    value: Any = None


class Journal:
    """Write changes of the state as transitions, all the changes of a call in one commit."""

    def __init__(
        self, database: WorkflowDatabase, *, clock: Clock = utc_now, read_only: bool = False
    ) -> None:
        self.database = database
        self._clock = clock
        self._read_only = read_only
        # Kept, since `database.table` asks each time whether the name is that of a view.
        self._values = Table(database, "state")

    def follow_foreign_writes(self) -> None:
        """Learn from the transitions which keys other programs have written.

        They hold both keys of a row that was renamed, and every other key that was touched.
        """
        self.database.broker.follow_trail(_TRAIL)

    def text(self, key: str) -> str | None:
        """Return the JSON text of a key, None when it is absent."""
        row = self.database.conn.execute(_VALUE, (key,)).fetchone()
        return None if row is None else row[0]

    def observe(self, key: str) -> ObservableQuery[str | None]:
        """Observe the JSON text of a key, None while it is absent; other keys cause no fetch."""
        if self.database.closed:
            raise DatabaseClosed("the database is closed")
        return self._values.observe_column("value", {"key": key})

    def record(
        self, key: str, text: str | None, value: Any, trigger: str | None = None
    ) -> Transition:
        """Write one change and return its transition; `value` is what `text` decodes to."""
        self.check_writable("change state", key)
        return self._insert(key, text, value, trigger, self._now())

    def record_all(self, changes: Iterable[Change], trigger: str | None) -> list[Transition]:
        """Write several changes in order: all or nothing, one commit, one moment."""
        self.check_writable("change the state")
        now = self._now()
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
        if self._read_only:
            raise ReadOnly(action if key is None else f"{action} {key!r}")

    def _now(self) -> datetime:
        moment = self._clock()
        return moment if moment.tzinfo is UTC else moment.astimezone(UTC)

    def _insert(
        self, key: str, text: str | None, value: Any, trigger: str | None, now: datetime
    ) -> Transition:
        deleted = text is None
        database = self.database
        values = (key, key, text, trigger, to_text(now), deleted, database.commit_number)
        seq, previous, commit = database.conn.execute(_INSERT, values).fetchone()
        return Transition(
            id=transition_id(seq),
            seq=seq,
            key=key,
            previous_value=None if previous is None else readable(previous, key),
            value=value,
            trigger=trigger,
            timestamp=now,
            execution_id=None,
            agent_id=None,
            deleted=deleted,
            commit=commit,
        )


def to_transition(row: tuple[Any, ...]) -> Transition:
    """Read a row of `transitions` with the columns of `COLUMNS`."""
    seq, key, previous, value, trigger, timestamp, execution_id, agent_id, deleted, commit = row
    return Transition(
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


def readable(text: str, key: str) -> Any:
    """Read a value of history; one that Python cannot read is given as its text.

    A write over such a value has happened when this is asked, and history must stay readable:
    only reading the value itself is an error.
    """
    try:
        return decode(text, name=key)
    except StateTypeError:
        return text
