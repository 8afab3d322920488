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

import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from reactive_sqlite.database import Database
from smithers.cells import checked
from smithers.clock import Clock, to_text
from smithers.errors import ExecutionBusy, OwnershipLost
from smithers.heart import Heart
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
_TOKEN = "SELECT token FROM _smithers_leases WHERE execution_id = ?"
_LEASED = "SELECT execution_id FROM _smithers_leases"

Fence = tuple[str | None, str | None, str | None]
UNFENCED: Fence = (None, None, None)
Undo = Callable[[], None]


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
    """The executions that one handle owns, and whether those of others are live.

    Attributes:
        released: whether the handle is closing, and has given everything back.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self.released = False
        self._database = database
        self._clock = clock
        # Read without a lock, changed in transactions and therefore by one thread at a time.
        self._tokens: dict[str, str] = {}
        # Those of them that the transaction under way has taken; it may still be rolled back.
        self._unsettled: set[str] = set()
        self._holder: Process | None = None
        # When, since the boot, a transaction that ends has kept the heartbeat from its work.
        self._late = math.inf
        self._heart = Heart("smithers-heartbeat", pause=lambda: HEARTBEAT, retry=lambda: RETRY)
        # Of machines whose clock says nothing here: the last beat, and when it was first seen.
        self._seen: dict[str, tuple[int, float]] = {}

    def only(self) -> str | None:
        """Return the execution that this handle owns when it is the only one.

        What the transaction of another thread has taken does not count before it is committed.
        """
        if not self._tokens:
            return None
        # One look at it: another thread may take or end one in between.
        tokens = tuple(self._tokens)
        if self._unsettled and not self._database.conn.owned_here():
            tokens = tuple(token for token in tokens if token not in self._unsettled)
        return tokens[0] if len(tokens) == 1 else None

    def fence(self, execution_id: str | None) -> Fence:
        """Return the values for `FENCE`, for a write below an execution."""
        token = self._tokens.get(execution_id) if execution_id is not None else None
        return UNFENCED if token is None else (token, execution_id, token)

    def owns(self, execution_id: str | None) -> bool:
        """Tell whether this handle took the execution and has not ended it."""
        return execution_id in self._tokens

    def owned(self) -> list[str]:
        """List the executions that this handle took and has not ended; none after a fork."""
        return list(self._tokens) if self._holder == this_process() else []

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
        row = self._database.conn.execute(_TOKEN, (execution_id,)).fetchone()
        return row is None or row[0] != token

    def take(self, execution_id: str) -> Undo:
        """Take an execution whose lease is free, or renew that of this handle.

        Call it inside a transaction. Returns what is to be done should that be rolled back. Raises
        ExecutionBusy while another live run has it.
        """
        me = this_process()
        if self._holder != me:
            # Those of the process that this one was forked from are not ours.
            self._tokens, self._holder = {}, me
        mine = self._tokens.get(execution_id)
        lease = self.lease(execution_id)
        if lease is not None and lease.token == mine:
            self._renew(execution_id, mine)
            return partial(self._set, execution_id, mine)
        if lease is not None and self.is_live(lease):
            raise _busy(execution_id, lease)
        token = uuid.uuid4().hex
        self._database.conn.execute(
            _TAKE,
            (
                *(execution_id, token, me.host, me.boot, me.namespace, me.pid, me.start),
                *(since_boot() + LEASE, to_text(self._clock())),
            ),
        )
        if mine is None:
            self._unsettled.add(execution_id)
        self._tokens[execution_id] = token
        self._late = min(self._late, since_boot() + HEARTBEAT + RETRY)
        self._heart.start(self)
        return partial(self._set, execution_id, mine)

    def forget(self, execution_id: str) -> Undo:
        """Forget an execution that has ended; returns what undoes that."""
        return partial(self._set, execution_id, self._tokens.pop(execution_id, None))

    def give_back(self, execution_id: str) -> Undo:
        """Give the lease of one execution back, in a transaction; returns what undoes that."""
        token = self._tokens.get(execution_id)
        if token is not None:
            self._database.conn.execute(_RELEASE, (execution_id, token))
        return self.forget(execution_id)

    def refuse_others(self, execution_id: str) -> None:
        """Raise unless this run may end the execution: it owns it, or nobody does any more.

        Raises OwnershipLost where this one owned it, ExecutionBusy where a live run does.
        """
        self.check(execution_id)
        if not self.owns(execution_id):
            lease = self.lease(execution_id)
            if lease is not None and self.is_live(lease):
                raise _busy(execution_id, lease)

    def refuse_live(self) -> None:
        """Raise ExecutionBusy while a live run owns any execution, this one included.

        Call it inside the transaction that would take away what they work below.
        """
        for execution_id in self.live_executions():
            lease = self.lease(execution_id)
            assert lease is not None
            raise _busy(execution_id, lease)

    def release(self) -> None:
        """Give every lease of this handle back; whoever writes on owns nothing any more."""
        for held in [(id, self._tokens[id]) for id in self.owned()]:
            self._database.conn.execute(_RELEASE, held)
        self._tokens = {}
        self.released = True

    def stop(self) -> None:
        """Let the heart stand still."""
        self._heart.stop()

    def lease(self, execution_id: str) -> Lease | None:
        """Return the lease of an execution."""
        row = self._database.conn.execute(_LEASE, (execution_id,)).fetchone()
        if row is None:
            return None
        token, host, boot, namespace, pid, start, expires, beat = row
        return checked(
            Lease(token, checked(Process(host, boot, namespace, pid, start)), expires, beat)
        )

    def is_live(self, lease: Lease | None) -> bool:
        """Tell whether whoever holds a lease still lives, as far as can be seen from here."""
        if lease is None or self.has_ended(lease.process):
            return False
        if this_process().shares_clock(lease.process):
            return lease.expires > since_boot()
        beat, first_seen = self._seen.get(lease.token, (-1, 0.0))
        if beat != lease.beat:
            first_seen = since_boot()
            self._seen[lease.token] = (lease.beat, first_seen)
        return since_boot() - first_seen < LEASE

    def has_ended(self, process: Process) -> bool:
        """Tell whether the holder of a lease is seen to have ended, whatever the lease says."""
        me = this_process()
        return me.restarted_since(process) or me.knows_dead(process)

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
        leased = self._database.conn.execute(_LEASED).fetchall()
        return [id for (id,) in leased if self.live_owner(id)]

    def beat(self) -> None:
        """Renew every lease of this handle; one that was taken over stays with its new owner."""
        for execution_id in self.owned():
            self._renew(execution_id, self._tokens.get(execution_id))
        self._late = since_boot() + HEARTBEAT + RETRY

    def settle(self) -> None:
        """Take note that a transaction is about to be committed; what it took counts now.

        Beats where it has kept the heartbeat from its work. While it lasted nobody could take
        anything over; this way nobody can after it, either.
        """
        self._unsettled.clear()
        if self._tokens and since_boot() > self._late:
            self.beat()

    def _renew(self, execution_id: str, token: str | None) -> None:
        values = (since_boot() + LEASE, to_text(self._clock()), execution_id, token)
        self._database.conn.execute(_BEAT, values)

    def _set(self, execution_id: str, token: str | None) -> None:
        self._unsettled.discard(execution_id)
        if token is None:
            self._tokens.pop(execution_id, None)
        else:
            self._tokens[execution_id] = token


def _busy(execution_id: str, lease: Lease) -> ExecutionBusy:
    far = not this_process().shares_clock(lease.process)
    advice = f" (on another machine: ask again after {LEASE:.0f} s)" if far else ""
    return ExecutionBusy(execution_id, str(lease.process), advice)
