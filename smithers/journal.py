"""How a change of the state becomes transitions, and how those of one commit belong together.

A change is one INSERT into `transitions`; the schema applies it to `state` in the same statement,
so value and history cannot part. A transaction of ours numbers its transitions as one commit: when
the outermost ends, whatever it wrote, by this journal or by plain SQL, gets one `"commit"`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

from reactive_sqlite.database import Database
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

_INSERT = f"""
    INSERT INTO transitions
        (key, previous_value, value, "trigger", timestamp, deleted, "commit", apply)
    VALUES (:key, (SELECT value FROM state WHERE key = :key), :value, :trigger, :timestamp,
        :value IS NULL, coalesce(:commit, {NEXT_COMMIT}), 1)
    RETURNING {COLUMNS}
"""
_NEXT = f"SELECT {NEXT_COMMIT}"
_GROUP = 'UPDATE transitions SET "commit" = :commit WHERE seq > :commit AND "commit" <> :commit'
_STATE = "SELECT key, value FROM state"


class WorkflowDatabase(Database):
    """A `Database` whose outermost transactions number their transitions as one commit.

    Attributes:
        numbering: whether they do; False until the tables are there.
    """

    numbering = False
    _commit: int | None = None

    @property
    def commit_number(self) -> int | None:
        """The number of the commit under way, or None outside `transaction()`."""
        return self._commit

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


class Journal:
    """Write changes of the state as transitions, all the changes of a call in one commit."""

    def __init__(
        self, database: WorkflowDatabase, *, clock: Clock = utc_now, read_only: bool = False
    ) -> None:
        self.database = database
        self._clock = clock
        self._read_only = read_only

    def record(self, key: str, text: str | None, trigger: str | None) -> Transition:
        """Write one change, `None` for a deletion, and return its transition."""
        self.check_writable(f"change state {key!r}")
        return self._insert(key, text, trigger, to_text(self._clock()))

    def record_all(
        self, changes: Iterable[tuple[str, str | None]], trigger: str | None
    ) -> list[Transition]:
        """Write several changes in order: all or nothing, one commit, one moment."""
        self.check_writable("change the state")
        now = to_text(self._clock())
        with self.database.transaction():
            return [self._insert(key, text, trigger, now) for key, text in changes]

    def become(self, target: Mapping[str, str], trigger: str | None) -> list[Transition]:
        """Make the state exactly `target` (JSON texts by key), writing only what differs."""
        self.check_writable("change the state")
        with self.database.transaction():
            present: dict[str, str] = dict(self.database.conn.execute(_STATE).fetchall())
            gone = [(key, None) for key in sorted(present.keys() - target.keys())]
            changed = [
                (key, text)
                for key, text in target.items()
                if key not in present or not same_json(present[key], text)
            ]
            return self.record_all([*gone, *changed], trigger)

    def check_writable(self, action: str) -> None:
        """Raise ReadOnly, before anything else happens, where nothing can be written."""
        if self._read_only:
            raise ReadOnly(action)

    def _insert(self, key: str, text: str | None, trigger: str | None, now: str) -> Transition:
        values = {
            "key": key,
            "value": text,
            "trigger": trigger,
            "timestamp": now,
            "commit": self.database.commit_number,
        }
        return to_transition(self.database.conn.execute(_INSERT, values).fetchone())


def to_transition(row: tuple[Any, ...]) -> Transition:
    """Read a row of `transitions` with the columns of `COLUMNS`."""
    seq, key, previous, value, trigger, timestamp, execution_id, agent_id, deleted, commit = row
    name = f"state {key!r} in transition {transition_id(seq)}"
    return Transition(
        id=transition_id(seq),
        seq=seq,
        key=key,
        previous_value=None if previous is None else _readable(previous, name),
        value=None if value is None else _readable(value, name),
        trigger=trigger,
        timestamp=from_text(timestamp),
        execution_id=execution_id,
        agent_id=agent_id,
        deleted=bool(deleted),
        commit=commit,
    )


def _readable(text: str, name: str) -> Any:
    # A write over such a value has happened when this is asked, and history must stay readable:
    # only reading the value itself is an error.
    try:
        return decode(text, name=name)
    except StateTypeError:
        return text
