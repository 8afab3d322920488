"""Leases: which run owns an execution, kept alive by a heartbeat, and fencing off late writes.

A lease names a token and a process. It is live until it expires, counted on the clock of the
machine since its boot, so that no setting of a clock moves it; a process that is seen to have ended
ends it at once. Machines that share nothing but the file cannot compare clocks: a lease of another
one counts as live until it was seen from here not to beat for as long as a lease lasts.

A run that was stopped past its lease may go on writing when another has taken the execution over.
Every write below an execution therefore carries the token and finds, in the same statement, that it
is still the one of the lease.
"""

from __future__ import annotations

import threading
import uuid
import weakref
from dataclasses import dataclass
from typing import Any

from reactive_sqlite.database import Database
from reactive_sqlite.dialect import sqlite3
from reactive_sqlite.errors import DatabaseClosed
from smithers.clock import Clock, to_text
from smithers.errors import ExecutionBusy, OwnershipLost
from smithers.process import Process, since_boot, this_process

# Seconds.
LEASE = 30.0
HEARTBEAT = 10.0
# After a heartbeat that could not be written.
RETRY = 1.0

# True where the write may go on: nothing is to be fenced, or the lease still has the token.
FENCE = """(? IS NULL OR EXISTS (
    SELECT 1 FROM _smithers_leases WHERE execution_id = ? AND token = ?
))"""

_LEASE = """
    SELECT token, host, boot, namespace, pid, process_start, expires, beat
    FROM _smithers_leases WHERE execution_id = ?
"""
_TAKE = """
    INSERT INTO _smithers_leases
        (execution_id, token, host, boot, namespace, pid, process_start, expires, beat_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (execution_id) DO UPDATE SET
        token = excluded.token, host = excluded.host, boot = excluded.boot,
        namespace = excluded.namespace, pid = excluded.pid,
        process_start = excluded.process_start, expires = excluded.expires,
        beat = beat + 1, beat_at = excluded.beat_at
"""
_BEAT = """
    UPDATE _smithers_leases SET expires = ?, beat = beat + 1, beat_at = ?
    WHERE execution_id = ? AND token = ?
"""
_RELEASE = "DELETE FROM _smithers_leases WHERE execution_id = ? AND token = ?"
_OTHERS = "SELECT execution_id FROM _smithers_leases"

Fence = tuple[str | None, str | None, str | None]
UNFENCED: Fence = (None, None, None)


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as it stands in the file.

    Attributes:
        token: of whoever holds it.
        process: the process that holds it.
        expires: when it ends, in seconds since the boot of that machine.
        beat: how many times it has been renewed.
    """

    token: str
    process: Process
    expires: float
    beat: int


class Ownership:
    """The executions that one handle owns, and whether those of others are live."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._tokens: dict[str, str] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._heart: threading.Thread | None = None
        # Of machines whose clock says nothing here: the last beat, and when it was first seen.
        self._seen: dict[str, tuple[int, float]] = {}

    def only(self) -> str | None:
        """Return the execution that this handle owns when it is the only one."""
        tokens = self._tokens
        return next(iter(tokens), None) if len(tokens) == 1 else None

    def fence(self, execution_id: str | None) -> Fence:
        """Return the values for `FENCE`, for a write below an execution."""
        token = self._tokens.get(execution_id) if execution_id is not None else None
        return UNFENCED if token is None else (token, execution_id, token)

    def owns(self, execution_id: str) -> bool:
        """Tell whether this handle took the execution and has not ended it."""
        return execution_id in self._tokens

    def check(self, execution_id: str | None) -> None:
        """Raise OwnershipLost where this handle owned the execution and no longer does.

        Call it inside the transaction of the write.
        """
        if execution_id is not None and self.lost(execution_id):
            raise OwnershipLost(execution_id)

    def lost(self, execution_id: str) -> bool:
        """Tell whether this handle owned an execution, has not ended it, and no longer does."""
        token = self._tokens.get(execution_id)
        if token is None:
            return False
        lease = self.lease(execution_id)
        return lease is None or lease.token != token

    def take(self, execution_id: str) -> None:
        """Take an execution whose lease is free; call it inside a transaction.

        Raises ExecutionBusy while another live run has it.
        """
        lease = self.lease(execution_id)
        if lease is not None and self.is_live(lease):
            if self._tokens.get(execution_id) == lease.token:
                return
            raise self.busy(execution_id, lease)
        me = this_process()
        token = uuid.uuid4().hex
        self._database.conn.execute(
            _TAKE,
            (
                *(execution_id, token, me.host, me.boot, me.namespace, me.pid, me.start),
                *(since_boot() + LEASE, to_text(self._clock())),
            ),
        )
        self._tokens[execution_id] = token
        self._start_heart()

    def refuse_others(self, execution_id: str) -> None:
        """Raise unless this run may end the execution: it owns it, or nobody does any more.

        Raises OwnershipLost where this one owned it, ExecutionBusy where a live run does.
        """
        self.check(execution_id)
        if not self.owns(execution_id):
            lease = self.lease(execution_id)
            if lease is not None and self.is_live(lease):
                raise self.busy(execution_id, lease)

    def owned(self) -> list[str]:
        """List the executions that this handle took and has not ended."""
        return list(self._tokens)

    def forget(self, execution_id: str) -> str | None:
        """Forget an execution that has ended, or whose taking was rolled back; return its token."""
        with self._lock:
            return self._tokens.pop(execution_id, None)

    def remember(self, execution_id: str, token: str) -> None:
        """Own an execution again whose end was rolled back."""
        with self._lock:
            self._tokens[execution_id] = token

    def release(self) -> None:
        """Give every lease of this handle back; those who write on own nothing any more."""
        self._wake.set()
        with self._lock:
            tokens, self._tokens = self._tokens, {}
        for held in tokens.items():
            self._database.conn.execute(_RELEASE, held)

    def lease(self, execution_id: str) -> Lease | None:
        """Return the lease of an execution."""
        row = self._database.conn.execute(_LEASE, (execution_id,)).fetchone()
        if row is None:
            return None
        token, host, boot, namespace, pid, start, expires, beat = row
        return Lease(token, Process(host, boot, namespace, pid, start), expires, beat)

    def is_live(self, lease: Lease | None) -> bool:
        """Tell whether whoever holds a lease still lives, as far as can be seen from here."""
        if lease is None:
            return False
        me = this_process()
        if me.shares_clock(lease.process):
            return lease.expires > since_boot() and not me.knows_dead(lease.process)
        if me.restarted_since(lease.process):
            return False
        beat, first_seen = self._seen.get(lease.token, (-1, 0.0))
        if beat != lease.beat:
            first_seen = since_boot()
            self._seen[lease.token] = (lease.beat, first_seen)
        return since_boot() - first_seen < LEASE

    def lives(self, process: Process, expires: float | None) -> bool:
        """Tell whether the holder of a lease lives, as a record shows it.

        Without the time at which the lease expires, or with that of another machine, whoever is
        not seen to have ended lives.
        """
        me = this_process()
        if me.restarted_since(process) or me.knows_dead(process):
            return False
        return expires is None or not me.shares_clock(process) or expires > since_boot()

    def live_owner(self, execution_id: str) -> bool:
        """Tell whether a live run owns an execution, this one included."""
        return self.is_live(self.lease(execution_id))

    def owned_by_others(self, execution_id: str) -> bool:
        """Tell whether another live run owns an execution."""
        lease = self.lease(execution_id)
        mine = self._tokens.get(execution_id)
        return lease is not None and lease.token != mine and self.is_live(lease)

    def live_executions(self) -> list[str]:
        """List the executions that live runs own, this one included."""
        listed = self._database.conn.execute(_OTHERS).fetchall()
        return [id for (id,) in listed if self.live_owner(id)]

    def busy(self, execution_id: str, lease: Lease) -> ExecutionBusy:
        """Make the error that says who owns an execution."""
        far = not this_process().shares_clock(lease.process)
        advice = f" (on another machine: ask again after {LEASE:.0f} s)" if far else ""
        return ExecutionBusy(execution_id, str(lease.process), advice)

    def beat(self) -> None:
        """Renew every lease of this handle; one that was taken over stays with its new owner."""
        with self._lock:
            tokens = dict(self._tokens)
        for execution_id, token in tokens.items():
            values = (since_boot() + LEASE, to_text(self._clock()), execution_id, token)
            self._database.conn.execute(_BEAT, values)

    def _start_heart(self) -> None:
        with self._lock:
            if self._heart is None or not self._heart.is_alive():
                self._wake.clear()
                heart = threading.Thread(
                    target=_beat_on,
                    args=(weakref.ref(self), self._wake),
                    name="smithers-heartbeat",
                    daemon=True,
                )
                self._heart = heart
                heart.start()


def _beat_on(reference: Any, wake: threading.Event) -> None:
    """Beat until the handle is closed or collected."""
    pause = HEARTBEAT
    while not wake.wait(pause):
        ownership: Ownership | None = reference()
        if ownership is None:
            return
        try:
            ownership.beat()
            pause = HEARTBEAT
        except DatabaseClosed:
            return
        except sqlite3.Error:
            # Locked for longer than the handle waits, or the disk is full: the lease may end, but
            # fencing holds, so a later beat makes it good or the next write is refused.
            pause = RETRY
        del ownership
