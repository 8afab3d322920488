"""Change-driven triggers as they stand in the file: cursors, failed attempts, dead letters."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeGuard, cast

from reactive_sqlite.arguments import shown
from reactive_sqlite.observation import ObservableQuery
from smithers.cells import checked
from smithers.clock import to_text
from smithers.codec import check_limit, check_text, decode
from smithers.errors import NotFound, StateTypeError
from smithers.journal import COLUMNS, to_transition
from smithers.ownership import Lease
from smithers.process import Process
from smithers.records import DeadLetter, Transition, Trigger
from smithers.rows import moment, moment_or_none
from smithers.workspace import Workspace

_NEWEST = "SELECT coalesce(max(seq), 0) FROM transitions"
# The number that was given last, also where what had it was pruned.
_LAST = "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'transitions'), 0)"
_SUBJECT = "SELECT key, sql FROM _smithers_triggers WHERE name = ?"
_INSERT = f"""
    INSERT INTO _smithers_triggers (name, key, sql, cursor, handled, registered_at)
    VALUES (
        :name, :key, :sql,
        CASE WHEN :key IS NULL THEN NULL WHEN :beginning THEN 0 ELSE {_LAST} END,
        :handled, :now
    )
"""
_CHANGE_SUBJECT = "UPDATE _smithers_triggers SET key = ?, sql = ? WHERE name = ?"
_STANDING = """
    SELECT cursor, handled, attempts, next_at, key IS NULL FROM _smithers_triggers WHERE name = ?
"""
_AFTER = f"""
    SELECT {COLUMNS} FROM transitions WHERE key = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?
"""
_REQUEUED = """
    SELECT seq, change, attempts FROM _smithers_dead_letters
    WHERE name = ? AND requeued = 1 ORDER BY seq LIMIT 1
"""
# A write of whoever has lost the trigger to another process changes nothing.
_HELD = """
    EXISTS (SELECT 1 FROM _smithers_trigger_leases WHERE name = :name AND token = :token)
"""
_MOVE = f"UPDATE _smithers_triggers SET cursor = :cursor WHERE name = :name AND {_HELD}"
_DONE = f"""
    UPDATE _smithers_triggers SET
        cursor = coalesce(:cursor, cursor), handled = coalesce(:handled, handled),
        attempts = 0, next_at = NULL, error = NULL
    WHERE name = :name AND {_HELD}
"""
_FAIL = f"""
    UPDATE _smithers_triggers SET attempts = :attempts, next_at = :next_at, error = :error
    WHERE name = :name AND {_HELD}
"""
_DELAY = f"UPDATE _smithers_triggers SET next_at = :next_at WHERE name = :name AND {_HELD}"
_LETTER = "a dead letter"
_WIDTH = len(COLUMNS.split(","))
_FAIL_LETTER = "UPDATE _smithers_dead_letters SET attempts = ?, error = ? WHERE seq = ?"
_BURY_AGAIN = """
    UPDATE _smithers_dead_letters SET attempts = ?, error = ?, at = ?, requeued = 0 WHERE seq = ?
"""
_BURY_CHANGE = f"""
    INSERT INTO _smithers_dead_letters (name, change, attempts, at, error)
    SELECT ?, json_array({COLUMNS}), ?, ?, ? FROM transitions WHERE seq = ?
"""
_BURY_ANSWER = """
    INSERT INTO _smithers_dead_letters (name, digest, attempts, at, error) VALUES (?, ?, ?, ?, ?)
"""
_REMOVE_LETTER = "DELETE FROM _smithers_dead_letters WHERE seq = ?"
_REMOVE_REQUEUED = "DELETE FROM _smithers_dead_letters WHERE name = ? AND requeued = 1"
_REQUEUE = """
    UPDATE _smithers_dead_letters SET requeued = 1, attempts = 0 WHERE name = ? AND requeued = 0
"""
_HURRY = "UPDATE _smithers_triggers SET next_at = NULL WHERE name = ? AND next_at IS NOT NULL"
_DROP = "DELETE FROM _smithers_triggers WHERE name = ?"
_LISTED = """
    SELECT
        name, key, sql, cursor, attempts, next_at, error, registered_at,
        (SELECT count(*) FROM transitions AS t WHERE t.key = triggers.key AND t.seq > cursor),
        (SELECT count(*) FROM _smithers_dead_letters AS dead WHERE dead.name = triggers.name
         AND requeued = 0),
        (SELECT count(*) FROM _smithers_dead_letters AS dead WHERE dead.name = triggers.name
         AND requeued = 1),
        token, host, boot, namespace, pid, process_start, expires, beat
    FROM _smithers_triggers AS triggers LEFT JOIN _smithers_trigger_leases USING (name)
    ORDER BY name LIMIT ?
"""
_DEAD = """
    SELECT seq, name, change, error, attempts, requeued, at FROM _smithers_dead_letters
    WHERE (:name IS NULL OR name = :name) ORDER BY seq LIMIT :limit
"""
# What others do that is to be looked at: a trigger given back, one taken, a retry asked for.
_SIGNALS = """
    SELECT name, token AS sign FROM _smithers_trigger_leases
    UNION ALL
    SELECT name, next_at FROM _smithers_triggers WHERE next_at IS NOT NULL
    UNION ALL
    SELECT name, seq FROM _smithers_dead_letters WHERE requeued = 1
"""
_PAGE = 100


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a trigger has come: see the columns of its table."""

    cursor: int
    handled: str | None
    attempts: int
    next_at: datetime | None
    on_query: bool


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter that is to be tried again; its transition, None of a query."""

    seq: int
    transition: Transition | None
    attempts: int


class TriggerRows:
    """The tables of triggers.

    What says that a change was handled, failed or was set aside takes the token of the lease, and
    returns False, with nothing written, where another process has taken the trigger over.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._database = workspace.database

    def register(
        self, name: str, key: str | None, sql: str | None, *, beginning: bool, handled: str | None
    ) -> None:
        """Know a trigger; one that is known goes on where it was, also when its subject changed.

        Raises ValueError for one on a key that is known as one on a query, and the other way.
        """
        if self._known(name, key, sql):
            return
        now = to_text(self._workspace.now())
        values = {"name": name, "key": key, "sql": sql, "beginning": beginning}
        with self._database.transaction():
            if self._known(name, key, sql):
                return
            if not self._database.conn.execute(_CHANGE_SUBJECT, (key, sql, name)).rowcount:
                self._database.conn.execute(_INSERT, {**values, "handled": handled, "now": now})

    def newest(self) -> int:
        """Tell the `seq` of the newest transition, 0 when there is none."""
        newest: int = self._database.conn.execute(_NEWEST).fetchone()[0]
        return newest

    def standing(self, name: str) -> Standing | None:
        """Tell how far a trigger has come, None when it is not known."""
        row = self._database.conn.execute(_STANDING, (name,)).fetchone()
        if row is None:
            return None
        cursor, handled, attempts, next_at, on_query = row
        return Standing(cursor or 0, handled, attempts, moment_or_none(next_at), bool(on_query))

    def after(
        self, key: str, cursor: int, until: int, *, limit: int = _PAGE
    ) -> builtins.list[Transition]:
        """Read the next transitions of a key, a page at most."""
        rows = self._database.conn.execute(_AFTER, (key, cursor, until, limit))
        return [to_transition(row) for row in rows]

    def requeued(self, name: str) -> Letter | None:
        """Return the oldest dead letter that is to be tried again."""
        row = self._database.conn.execute(_REQUEUED, (name,)).fetchone()
        return None if row is None else Letter(row[0], _transition(row[1]), row[2])

    # -- what has become of a change -----------------------------------------------------------

    def moved(self, name: str, token: str, cursor: int) -> bool:
        """Be done with the transitions up to one."""
        return self._write(_MOVE, name, token, cursor=cursor)

    def handled(
        self, name: str, token: str, *, cursor: int | None = None, digest: str | None = None
    ) -> bool:
        """Be done with the transitions up to one, or with an answer and what was requeued of it."""
        with self._database.transaction():
            if not self._write(_DONE, name, token, cursor=cursor, handled=digest):
                return False
            if digest is not None:
                self._database.conn.execute(_REMOVE_REQUEUED, (name,))
        return True

    def failed(
        self, name: str, token: str, *, attempts: int, next_at: datetime, error: str
    ) -> bool:
        """Have the next attempt made at some time."""
        values = {"attempts": attempts, "next_at": to_text(next_at), "error": error}
        return self._write(_FAIL, name, token, **values)

    def set_aside(
        self,
        name: str,
        token: str,
        *,
        attempts: int,
        error: str,
        cursor: int | None = None,
        digest: str | None = None,
    ) -> bool:
        """Keep a change that could not be handled as a dead letter, and be done with it."""
        now = to_text(self._workspace.now())
        with self._database.transaction():
            if not self.handled(name, token, cursor=cursor, digest=digest):
                return False
            if digest is not None:
                self._database.conn.execute(_BURY_ANSWER, (name, digest, attempts, now, error))
            else:
                self._database.conn.execute(_BURY_CHANGE, (name, attempts, now, error, cursor))
        return True

    def letter_handled(self, name: str, token: str, letter: Letter) -> bool:
        """Be done with a dead letter."""
        return self._letter_written(name, token, None, _REMOVE_LETTER, letter.seq)

    def letter_failed(
        self, name: str, token: str, letter: Letter, *, next_at: datetime | None, error: str
    ) -> bool:
        """Have a dead letter tried again at some time, never (None) without being asked to."""
        attempts = letter.attempts + 1
        if next_at is not None:
            values = (attempts, error, letter.seq)
            return self._letter_written(name, token, to_text(next_at), _FAIL_LETTER, *values)
        now = to_text(self._workspace.now())
        return self._letter_written(
            name, token, None, _BURY_AGAIN, attempts, error, now, letter.seq
        )

    # -- looking and managing --------------------------------------------------------------------

    def list(self, limit: int | None) -> builtins.list[Trigger]:
        """List all triggers by name."""
        check_limit(limit)
        rows = self._database.conn.execute(_LISTED, (-1 if limit is None else limit,)).fetchall()
        return [self._trigger(row) for row in rows]

    def dead(self, name: str | None, limit: int | None) -> builtins.list[DeadLetter]:
        """List dead letters, of one trigger or of all, oldest first."""
        if name is not None:
            check_text(name, "the name of a trigger")
        check_limit(limit)
        values = {"name": name, "limit": -1 if limit is None else limit}
        return [_letter(*row) for row in self._database.conn.execute(_DEAD, values)]

    def observe(self) -> ObservableQuery[builtins.list[Trigger]]:
        """Observe all triggers by name."""
        found = self._database.observe(_LISTED, (-1,))
        return found.decoded(lambda rows: [self._trigger(tuple(row.values())) for row in rows])

    def observe_dead(self, limit: int) -> ObservableQuery[builtins.list[DeadLetter]]:
        """Observe dead letters of all triggers, oldest first."""
        found = self._database.observe(_DEAD, {"name": None, "limit": limit})
        return found.decoded(lambda rows: [_letter(*row.values()) for row in rows])

    def retry(self, name: str) -> int:
        """Requeue the dead letters of a trigger, and let what waits be tried at once."""
        check_text(name, "the name of a trigger")
        self._workspace.check_writable(f"retry {shown(name)}")
        with self._database.transaction():
            if self.standing(name) is None:
                raise NotFound("trigger", name)
            self._database.conn.execute(_HURRY, (name,))
            requeued: int = self._database.conn.execute(_REQUEUE, (name,)).rowcount
        return requeued

    def drop(self, name: str) -> bool:
        """Forget a trigger, its cursor and its dead letters."""
        check_text(name, "the name of a trigger")
        self._workspace.check_writable(f"drop {shown(name)}")
        dropped: int = self._database.conn.execute(_DROP, (name,)).rowcount
        return dropped > 0

    def observe_key(self, key: str) -> ObservableQuery[Any]:
        """Observe the newest transition of a key."""
        return self._database.table("transitions").observe(
            {"key": key}, select="seq", order_by="seq DESC", limit=1
        )

    def observe_signals(self) -> ObservableQuery[Any]:
        """Observe what is done to triggers from elsewhere."""
        return self._database.observe(_SIGNALS)

    def _known(self, name: str, key: str | None, sql: str | None) -> bool:
        row = self._database.conn.execute(_SUBJECT, (name,)).fetchone()
        if row is not None and (row[0] is None) != (key is None):
            kind = "query" if row[0] is None else "key"
            raise ValueError(
                f"trigger {shown(name)} is known as one on a {kind}: give this one another name, "
                "or drop that one"
            )
        return row is not None and tuple(row) == (key, sql)

    def _write(self, sql: str, name: str, token: str, **values: Any) -> bool:
        bound = {"name": name, "token": token, **values}
        written: int = self._database.conn.execute(sql, bound).rowcount
        return written > 0

    def _letter_written(
        self, name: str, token: str, next_at: str | None, sql: str, *values: Any
    ) -> bool:
        with self._database.transaction():
            if not self._write(_DELAY, name, token, next_at=next_at):
                return False
            self._database.conn.execute(sql, values)
        return True

    def _trigger(self, row: Sequence[Any]) -> Trigger:
        name, key, sql, cursor, attempts, next_at, error, registered_at, lag, dead, requeued = row[
            :11
        ]
        trigger = Trigger(
            name=name,
            key=key,
            sql=sql,
            state=_state(next_at, lag + requeued),
            cursor=cursor,
            lag=None if key is None else lag,
            attempts=attempts,
            next_at=moment_or_none(next_at),
            error=error,
            owner=self._owner(row[11:]),
            dead=dead,
            requeued=requeued,
            registered_at=moment(registered_at),
        )
        return checked(trigger)

    def _owner(self, lease: Sequence[Any]) -> str | None:
        token, host, boot, namespace, pid, start, expires, beat = lease
        if token is None:
            return None
        holder = checked(Process(host, boot, namespace, pid, start))
        live = self._workspace.ownership.is_live(checked(Lease(token, holder, expires, beat)))
        return str(holder) if live else None


def _state(next_at: str | None, lag: int) -> str:
    if next_at is not None:
        return "retrying"
    return "behind" if lag else "idle"


def _transition(change: str | None) -> Transition | None:
    if change is None:
        return None
    row = decode(change, name=_LETTER)
    if not _is_row(row):
        raise StateTypeError(f"{_LETTER}: the stored change is no row of history: {shown(change)}")
    return to_transition(tuple(row))


def _is_row(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and len(cast("list[object]", value)) == _WIDTH


def _letter(
    seq: int,
    name: str,
    change: str | None,
    error: str,
    attempts: int,
    requeued: int,
    at: str,
) -> DeadLetter:
    letter = DeadLetter(
        id=seq,
        trigger=name,
        transition=_transition(change),
        error=error,
        attempts=attempts,
        requeued=bool(requeued),
        at=moment(at),
    )
    return checked(letter)
