"""Who handles which trigger: leases, judged as those of executions are."""

from __future__ import annotations

import uuid

from smithers.cells import checked
from smithers.heart import Heart
from smithers.ownership import HEARTBEAT, LEASE, RETRY, Lease
from smithers.process import Process, since_boot, this_process
from smithers.workspace import Workspace

_LEASE = """
    SELECT token, host, boot, namespace, pid, process_start, expires, beat
    FROM _smithers_trigger_leases WHERE name = ?
"""
_TAKE = """
    INSERT INTO _smithers_trigger_leases
        (name, token, host, boot, namespace, pid, process_start, expires)
    SELECT name, ?, ?, ?, ?, ?, ?, ? FROM _smithers_triggers WHERE name = ?
    ON CONFLICT (name) DO UPDATE SET
        token = excluded.token, host = excluded.host, boot = excluded.boot,
        namespace = excluded.namespace, pid = excluded.pid,
        process_start = excluded.process_start, expires = excluded.expires, beat = beat + 1
"""
_BEAT = "UPDATE _smithers_trigger_leases SET expires = ?, beat = beat + 1 WHERE token = ?"
_RELEASE = "DELETE FROM _smithers_trigger_leases WHERE name = ? AND token = ?"


class Claims:
    """The triggers that one handle handles, alone among all processes.

    A lease is taken for as long as there is something to handle, kept alive by a heartbeat on a
    thread of its own, however long a handler runs, and free at once when its process has ended.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._database = workspace.database
        self._ownership = workspace.ownership
        self._held: set[str] = set()
        self._token = ""
        self._holder: Process | None = None
        self._heart = Heart(
            "smithers-trigger-heartbeat", pause=lambda: HEARTBEAT, retry=lambda: RETRY
        )

    @property
    def token(self) -> str:
        """What the leases of this handle carry; another one after a fork."""
        me = this_process()
        if self._holder != me:
            self._held, self._token, self._holder = set(), uuid.uuid4().hex, me
        return self._token

    def holds(self, name: str) -> bool:
        """Tell whether this handle took a trigger; it may have lost it meanwhile."""
        return bool(self.token) and name in self._held

    def take(self, name: str) -> bool:
        """Take a trigger, or renew its lease; False while another live handle has it."""
        token, me = self.token, this_process()
        with self._database.transaction():
            lease = self._lease(name)
            if lease is not None and lease.token != token and self._ownership.is_live(lease):
                return False
            values = (token, me.host, me.boot, me.namespace, me.pid, me.start)
            taken = self._database.conn.execute(_TAKE, (*values, since_boot() + LEASE, name))
            if not taken.rowcount:
                return False  # it was dropped meanwhile
        self._held.add(name)
        self._heart.start(self)
        return True

    def lose(self, name: str) -> None:
        """Know that another process has taken a trigger over."""
        self._held.discard(name)

    def release(self, name: str) -> None:
        """Give a trigger back, for others to handle."""
        if self.holds(name):
            self._held.discard(name)
            self._database.conn.execute(_RELEASE, (name, self.token))

    def release_all(self) -> None:
        """Give everything back and let the heart stand still."""
        self._heart.stop()
        for name in sorted(self._held) if self.token else ():
            self.release(name)

    def beat(self) -> None:
        """Renew every lease of this handle."""
        if self.token and self._held:
            self._database.conn.execute(_BEAT, (since_boot() + LEASE, self.token))

    def _lease(self, name: str) -> Lease | None:
        row = self._database.conn.execute(_LEASE, (name,)).fetchone()
        if row is None:
            return None
        token, host, boot, namespace, pid, start, expires, beat = row
        return checked(
            Lease(token, checked(Process(host, boot, namespace, pid, start)), expires, beat)
        )
