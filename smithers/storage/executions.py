"""Executions: the runs of a workflow, from start to end, and who owns each."""

from __future__ import annotations

import builtins
import os
from contextlib import nullcontext
from typing import Any, overload

from reactive_sqlite.arguments import is_one_of, shown
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.opening import path_text
from smithers.cells import checked
from smithers.clock import to_text
from smithers.codec import check_text, encode
from smithers.context import Frame
from smithers.errors import ExecutionBusy, InvalidStatus, NotFound
from smithers.failure import error_text
from smithers.ids import new_id
from smithers.ownership import Lease
from smithers.process import Process, this_process
from smithers.records import Execution
from smithers.rows import Rows, check_id, json_or_none, moment, moment_or_none
from smithers.schema.executions import ENDED, EXECUTION_STATUSES
from smithers.schema.times import duration
from smithers.workspace import Workspace

_OWN = """id, name, file_path, status, config, result, error, owner, cancel_requested_at,
    cancel_reason, started_at, completed_at, created_at, duration_ms, total_iterations,
    total_agents, total_tool_calls, total_tokens_used, total_cost_usd"""
# Not `expires` nor `beat`: a heartbeat is no change of what is observed.
_OWNER = "host, boot, namespace, pid, process_start"
_SOURCE = "executions LEFT JOIN _smithers_leases ON _smithers_leases.execution_id = executions.id"
_INSERT = """
    INSERT INTO executions (id, name, file_path, status, config, owner, started_at, created_at)
    VALUES (?, ?, ?, 'running', ?, ?, ?, ?)
"""
_END = f"""
    UPDATE executions SET
        status = ?, result = coalesce(?, result), error = ?, completed_at = ?,
        duration_ms = {duration("started_at", "?")},
        cancel_requested_at = CASE ? WHEN 'cancelled' THEN coalesce(cancel_requested_at, ?)
            ELSE cancel_requested_at END,
        cancel_reason = coalesce(?, cancel_reason)
    WHERE id = ?
"""
_REQUEST = """
    UPDATE executions SET
        cancel_requested_at = coalesce(cancel_requested_at, ?),
        cancel_reason = coalesce(cancel_reason, ?)
    WHERE id = ?
"""
_RESUME = "UPDATE executions SET status = 'running', owner = ?, error = NULL WHERE id = ?"
_REVIVE = """
    UPDATE executions SET status = 'interrupted', completed_at = NULL, duration_ms = NULL
    WHERE id = ? AND status = 'failed'
"""
_INTERRUPT = "UPDATE executions SET status = 'interrupted' WHERE id = ?"
_RESUMABLE = """
    SELECT id FROM executions
    WHERE status IN (?, ?, ?) AND cancel_requested_at IS NULL AND name = ?
    ORDER BY seq DESC
"""
_STATUS = "SELECT status, cancel_requested_at FROM executions WHERE id = ?"
_INCOMPLETE = """
    SELECT id FROM executions
    WHERE status IN ('running', 'interrupted') AND cancel_requested_at IS NULL {name}
    ORDER BY seq DESC
"""


class Executions:
    """Runs of a workflow.

    Whoever starts or resumes an execution owns it, by a lease that a heartbeat renews; nobody else
    can end it while that run lives. Unknown ids raise NotFound, ended rows InvalidStatus, and
    nothing is written then.

    >>> id = db.execution.start("Feature", "scripts/feature.py")
    >>> db.execution.complete(id, {"summary": "done"})
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._database = workspace.database
        self._ownership = workspace.ownership
        self._rows = Rows(
            workspace,
            "execution",
            "executions",
            f"{_OWN}, {_OWNER}, token, expires, beat",
            self._record,
            source=_SOURCE,
            newest_first=True,
        )
        self._observed = Rows(
            workspace,
            "execution",
            "executions",
            f"{_OWN}, {_OWNER}",
            self._record,
            source=_SOURCE,
            newest_first=True,
        )

    def start(
        self, name: str, file_path: str | os.PathLike[str] | None = None, config: Any = None
    ) -> str:
        """Start an execution that this run owns, and return its id.

        `file_path` names the script, `config` is any JSON. What is started next, here or in tasks
        made from here, stands below it.

        >>> db.execution.start("Feature", "scripts/feature.py", {"retries": 2})
        '01890a5d-ac96-774b-bcce-b302099a8057'
        """
        return self.begin(name, file_path, config).enter()

    def begin(
        self, name: str, file_path: str | os.PathLike[str] | None = None, config: Any = None
    ) -> Frame:
        """Start an execution as `start` does, without letting it run in this context."""
        check_text(name, "the name of an execution")
        path = None if file_path is None else path_text(file_path, "file_path")
        if path is not None:
            check_text(path, "file_path")
        text = None if config is None else encode(config, name="the config of an execution")
        self._workspace.check_writable(f"start execution {shown(name)}")
        id = new_id()
        now = to_text(self._workspace.now())
        with self._database.transaction():
            values = (id, name, path, text, str(this_process()), now, now)
            self._database.conn.execute(_INSERT, values)
            self._database.on_rollback(self._ownership.take(id))
        return self._workspace.started("execution", id, id)

    def complete(self, id: str, result: Any = None) -> None:
        """End an execution as completed; `result` is any JSON.

        What is still open below it ends with it: phases and steps as failed, agents and tool calls
        as cancelled. Raises ExecutionBusy while another live run owns it.

        >>> db.execution.complete(id, {"summary": "Feature implemented"})
        """
        text = None if result is None else encode(result, name="the result of an execution")
        self._end(id, "completed", "complete", result=text)

    def finish(self, id: str) -> None:
        """End an execution as completed, unless it has been ended already.

        >>> db.execution.finish(id)
        """
        check_id(id, "execution")
        self._workspace.check_writable(f"complete execution {shown(id)}")
        with self._database.transaction():
            row = self._database.conn.execute(_STATUS, (id,)).fetchone()
            if self._ownership.owns(id) or row is None or row[0] not in ENDED:
                self._ownership_before(id, "complete")
                self._write_end(id, "completed")

    def fail(self, id: str, error: BaseException | str) -> None:
        """End an execution as failed, with an exception or a text; see `complete`.

        >>> db.execution.fail(id, "Tests failed")
        """
        self._end(id, "failed", "fail", error=error_text(error))

    def cancel(self, id: str, reason: str | None = None) -> None:
        """Cancel an execution, or ask the live run that owns it to.

        Owned by another live run it only gets `cancel_requested_at` and `cancel_reason`, which its
        owner can observe; it is cancelled when that one closes its handle or dies.

        >>> db.execution.cancel(id, "no longer wanted")
        """
        if reason is not None:
            check_text(reason, "the reason of a cancellation", empty=True)
        check_id(id, "execution")
        self._workspace.check_writable(f"cancel execution {shown(id)}")
        with self._database.transaction():
            self._check_open(id, "cancel")
            if self._ownership.owned_by_others(id):
                now = to_text(self._workspace.now())
                self._database.conn.execute(_REQUEST, (now, reason, id))
            else:
                self._write_end(id, "cancelled", reason=reason)

    def current(self) -> Execution | None:
        """Return the execution that runs here, else the newest running one of any process.

        >>> db.execution.current().name
        'Feature'
        """
        here = self._workspace.context.execution_id
        found = None if here is None else self._rows.first({"id": here, "status": "running"})
        return found or self._rows.first({"status": "running"})

    def get(self, id: str) -> Execution | None:
        """Return an execution, None when there is none of that id.

        >>> db.execution.get(id).status
        'completed'
        """
        return self._rows.get(id)

    def list(self, status: str | None = None, limit: int | None = 20) -> builtins.list[Execution]:
        """List executions, newest first; `status` narrows them, `limit=None` lists all.

        >>> [execution.name for execution in db.execution.list("failed")]
        []
        """
        if status is None:
            return self._rows.list(limit=limit)
        if not is_one_of(status, EXECUTION_STATUSES):
            raise ValueError(f"the status is one of {EXECUTION_STATUSES}, not {shown(status)}")
        return self._rows.list({"status": status}, limit=limit)

    @overload
    def observe(self, id: str) -> ObservableQuery[Execution | None]: ...
    @overload
    def observe(
        self, id: None = None, *, limit: int | None = 20
    ) -> ObservableQuery[builtins.list[Execution]]: ...
    def observe(self, id: str | None = None, *, limit: int | None = 20) -> ObservableQuery[Any]:
        """Observe one execution (None while there is none of that id), or what `list()` gives.

        Heartbeats are no change, and so `is_live` is what could be seen of the owner's process when
        the execution last changed.

        >>> db.execution.observe(id).subscribe(print)
        """
        return self._observed.observe(limit=limit) if id is None else self._observed.observe_one(id)

    def find_incomplete(self, name: str | None = None) -> Execution | None:
        """Return the newest running or interrupted execution that no other live run owns.

        `name` narrows them to one name. One whose cancellation was requested is not to be resumed.

        >>> incomplete = db.execution.find_incomplete()
        """
        if name is not None:
            check_text(name, "the name of an execution")
        sql = _INCOMPLETE.format(name="" if name is None else "AND name = ?")
        values = () if name is None else (name,)
        for (id,) in self._database.conn.execute(sql, values).fetchall():
            if not self._ownership.owned_by_others(id):
                return self.get(id)
        return None

    def resume(self, id: str) -> Execution:
        """Take an incomplete execution over, so that this run owns it.

        Of several at once exactly one succeeds, the others get ExecutionBusy. An earlier owner
        that still lives gets OwnershipLost for whatever it writes below it from now on.

        >>> db.execution.resume(incomplete.id).status
        'running'
        """
        self.retake(id).enter()
        found = self.get(id)
        assert found is not None
        return found

    def retake(self, id: str, *, failed: bool = False) -> Frame:
        """Take an execution over as `resume` does, without letting it run in this context.

        With `failed` one that has failed is taken up again as well.
        """
        check_id(id, "execution")
        self._workspace.check_writable(f"resume execution {shown(id)}")
        with self._database.transaction():
            if failed:
                self._database.conn.execute(_REVIVE, (id,))
            status, cancelled = self._check_open(id, "resume")
            if cancelled and not self._ownership.owned_by_others(id):
                self._write_end(id, "cancelled")
            else:
                self._database.on_rollback(self._ownership.take(id))
                self._database.conn.execute(_RESUME, (str(this_process()), id))
                return self._workspace.started("execution", id, id)
        raise InvalidStatus("execution", id, f"{status}, and to be cancelled", "resume")

    def take_incomplete(self, name: str, *, failed: bool = False) -> Frame | None:
        """Take over the newest incomplete execution of a name that is not open anywhere.

        Not even through this handle; None when there is none. With `failed` a failed one counts
        as incomplete.
        """
        check_text(name, "the name of an execution")
        self._workspace.check_writable(f"resume execution {shown(name)}")
        statuses = ("running", "interrupted", "failed" if failed else "interrupted")
        for (id,) in self._database.conn.execute(_RESUMABLE, (*statuses, name)).fetchall():
            if self._ownership.owns(id):
                continue
            try:
                return self.retake(id, failed=failed)
            except (ExecutionBusy, InvalidStatus):
                continue  # somebody was faster, and runs it or has ended it
        return None

    def interrupt(self, id: str) -> None:
        """Leave an execution that this run owns to be resumed later, by anybody.

        >>> db.execution.interrupt(id)
        """
        check_id(id, "execution")
        self._workspace.check_writable(f"interrupt execution {shown(id)}")
        with self._database.transaction():
            self._ownership_before(id, "interrupt")
            self._database.conn.execute(_INTERRUPT, (id,))
            self._database.on_rollback(self._ownership.give_back(id))
            left = self._workspace.context.leave_execution(id)
            self._database.on_rollback(lambda: self._workspace.context.reenter(left))

    def let_go(self) -> None:
        """Give back what this run owns; what was asked to be cancelled is cancelled now."""
        try:
            self._database.roll_back()  # closing would, and with it what is given back here
            owned = self._ownership.owned()
            with self._database.transaction() if owned else nullcontext():
                for id in owned:
                    row = self._database.conn.execute(_STATUS, (id,)).fetchone()
                    wanted = row is not None and row[1] is not None and row[0] not in ENDED
                    if wanted and not self._ownership.lost(id):
                        self._write_end(id, "cancelled")
                self._ownership.release()
        finally:
            self._ownership.stop()

    def _end(
        self,
        id: str,
        status: str,
        action: str,
        *,
        result: str | None = None,
        error: str | None = None,
    ) -> None:
        check_id(id, "execution")
        self._workspace.check_writable(f"{action} execution {shown(id)}")
        with self._database.transaction():
            self._ownership_before(id, action)
            self._write_end(id, status, result=result, error=error)

    def _ownership_before(self, id: str, action: str) -> None:
        if self._database.conn.execute(_STATUS, (id,)).fetchone() is not None:
            self._ownership.refuse_others(id)
        self._check_open(id, action)

    def _check_open(self, id: str, action: str) -> tuple[str, bool]:
        row = self._database.conn.execute(_STATUS, (id,)).fetchone()
        if row is None:
            raise NotFound("execution", id)
        if row[0] in ENDED:
            raise InvalidStatus("execution", id, row[0], action)
        return row[0], row[1] is not None

    def _write_end(
        self,
        id: str,
        status: str,
        *,
        result: str | None = None,
        error: str | None = None,
        reason: str | None = None,
    ) -> None:
        now = to_text(self._workspace.now())
        values = (status, result, error, now, now, status, now, reason, id)
        self._database.conn.execute(_END, values)
        context = self._workspace.context
        self._database.on_rollback(self._ownership.forget(id))
        left = context.leave_execution(id)
        self._database.on_rollback(lambda: context.reenter(left))

    def _record(
        self,
        id: str,
        name: str,
        file_path: str | None,
        status: str,
        config: str | None,
        result: str | None,
        error: str | None,
        owner: str | None,
        cancel_requested_at: str | None,
        cancel_reason: str | None,
        started_at: str,
        completed_at: str | None,
        created_at: str,
        duration_ms: int | None,
        total_iterations: int,
        total_agents: int,
        total_tool_calls: int,
        total_tokens_used: int,
        total_cost_usd: float,
        host: str | None,
        boot: str,
        namespace: str,
        pid: int,
        process_start: str,
        token: str | None = None,
        expires: float = 0.0,
        beat: int = 0,
    ) -> Execution:
        is_live = False
        if host is not None:
            holder = checked(Process(host, boot, namespace, pid, process_start))
            if token is None:
                is_live = not self._ownership.has_ended(holder)
            else:
                is_live = self._ownership.is_live(checked(Lease(token, holder, expires, beat)))
        return Execution(
            id=id,
            name=name,
            file_path=file_path,
            status=status,
            config=json_or_none(config, f"the config of execution {shown(id)}"),
            result=json_or_none(result, f"the result of execution {shown(id)}"),
            error=error,
            owner=owner,
            is_live=is_live,
            cancel_requested_at=moment_or_none(cancel_requested_at),
            cancel_reason=cancel_reason,
            started_at=moment(started_at),
            completed_at=moment_or_none(completed_at),
            created_at=moment(created_at),
            duration_ms=duration_ms,
            total_iterations=total_iterations,
            total_agents=total_agents,
            total_tool_calls=total_tool_calls,
            total_tokens_used=total_tokens_used,
            total_cost_usd=total_cost_usd,
        )
