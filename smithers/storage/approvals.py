"""Gates: questions of a workflow that a person answers, from any process."""

from __future__ import annotations

import builtins

from reactive_sqlite.arguments import is_one_of, shown
from reactive_sqlite.observation import ObservableQuery
from smithers.clock import to_text
from smithers.codec import check_limit, check_text
from smithers.errors import NotFound, OwnershipLost, SmithersError
from smithers.ids import new_id
from smithers.ownership import FENCE
from smithers.records import Approval
from smithers.rows import Rows, check_id, moment, moment_or_none
from smithers.workspace import Workspace

STATUSES = ("pending", "approved", "denied", "void")
_TABLE = "_smithers_approvals"
_COLUMNS = "id, execution_id, key, occurrence, prompt, status, comment, requested_at, decided_at"
_INSERT = f"""
    INSERT INTO {_TABLE} (id, execution_id, key, occurrence, prompt, requested_at)
    SELECT ?, ?, ?, ?, ?, ? WHERE {FENCE}
"""
_EXECUTION = "SELECT 1 FROM executions WHERE id = ?"
_PENDING = f"""
    SELECT {_COLUMNS} FROM {_TABLE} WHERE status = 'pending' AND key = ? {{execution}}
    AND execution_id IN (SELECT id FROM executions WHERE status IN ('running', 'interrupted'))
    ORDER BY seq
"""
_DECIDE = f"""
    UPDATE {_TABLE} SET status = ?, comment = ?, decided_at = ?
    WHERE id = ? AND status = 'pending'
"""


class Approvals:
    """The gates of executions.

    >>> db.approvals.approve("deploy")
    Approval(id=..., key='deploy', status='approved', ...)
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._database = workspace.database
        self._rows = Rows(workspace, "approval", _TABLE, _COLUMNS, _approval)

    def request(self, execution_id: str, key: str, prompt: str, *, occurrence: int = 0) -> str:
        """Ask a question in the name of an execution; return the id of its gate.

        Raises NotFound for an unknown execution, OwnershipLost where this run has lost it.

        >>> id = db.approvals.request(execution_id, "deploy", "Deploy to production?")
        """
        check_id(execution_id, "execution")
        check_text(key, "the key of a gate")
        check_text(prompt, "the prompt of a gate", empty=True)
        if type(occurrence) is not int or not 0 <= occurrence < 2**63:
            raise ValueError(f"occurrence is a whole number from 0 up, not {shown(occurrence)}")
        self._workspace.check_writable(f"ask for {shown(key)}")
        id = new_id()
        now = to_text(self._workspace.now())
        fence = self._workspace.ownership.fence(execution_id)
        values = (id, execution_id, key, occurrence, prompt, now, *fence)
        with self._database.transaction():
            if self._database.conn.execute(_EXECUTION, (execution_id,)).fetchone() is None:
                raise NotFound("execution", execution_id)
            if not self._database.conn.execute(_INSERT, values).rowcount:
                raise OwnershipLost(execution_id)
        return id

    def approve(
        self, key: str, comment: str | None = None, *, execution_id: str | None = None
    ) -> Approval:
        """Let the gate of a key pass, in whichever process it waits.

        Raises NotFound when no gate of that key waits, SmithersError when several executions wait
        at one of that key and none is named.

        >>> db.approvals.approve("deploy", "looks good").status
        'approved'
        """
        return self._decide(key, "approved", comment, execution_id)

    def deny(
        self, key: str, comment: str | None = None, *, execution_id: str | None = None
    ) -> Approval:
        """Refuse the gate of a key; errors as of `approve`.

        >>> db.approvals.deny("deploy", "not on a Friday").approved
        False
        """
        return self._decide(key, "denied", comment, execution_id)

    def get(self, id: str) -> Approval | None:
        """Return a gate, None when there is none of that id.

        >>> db.approvals.get(id).prompt
        'Deploy to production?'
        """
        return self._rows.get(id)

    def list(
        self, status: str | None = None, *, limit: int | None = None
    ) -> builtins.list[Approval]:
        """List gates in the order in which they were asked; `status` narrows them, and a limit
        leaves the newest.

        >>> [approval.key for approval in db.approvals.list("pending")]
        ['deploy']
        """
        check_limit(limit)
        return self._rows.list(_of(status), limit=limit)

    def observe(self, status: str | None = None) -> ObservableQuery[builtins.list[Approval]]:
        """Observe what `list` gives.

        >>> db.approvals.observe("pending").subscribe(print)
        """
        return self._rows.observe(_of(status))

    def observe_one(self, id: str) -> ObservableQuery[Approval | None]:
        """Observe what `get` gives.

        >>> db.approvals.observe_one(id).subscribe(print)
        """
        return self._rows.observe_one(id)

    def _decide(
        self, key: str, status: str, comment: str | None, execution_id: str | None
    ) -> Approval:
        check_text(key, "the key of a gate")
        if comment is not None:
            check_text(comment, "the comment of a decision", empty=True)
        if execution_id is not None:
            check_text(execution_id, "the id of an execution")
        self._workspace.check_writable(f"decide {shown(key)}")
        sql = _PENDING.format(execution="" if execution_id is None else "AND execution_id = ?")
        values = (key,) if execution_id is None else (key, execution_id)
        with self._database.transaction():
            waiting = [_approval(*row) for row in self._database.conn.execute(sql, values)]
            if not waiting:
                raise NotFound("waiting gate", key)
            executions = sorted({approval.execution_id for approval in waiting})
            if len(executions) > 1:
                raise SmithersError(
                    f"several executions wait at {shown(key)}, name one: {', '.join(executions)}"
                )
            id = waiting[0].id
            now = to_text(self._workspace.now())
            self._database.conn.execute(_DECIDE, (status, comment, now, id))
            decided = self._rows.get(id)
        assert decided is not None
        return decided


def _of(status: str | None) -> dict[str, str]:
    if status is None:
        return {}
    if not is_one_of(status, STATUSES):
        raise ValueError(f"the status of a gate is one of {STATUSES}, not {shown(status)}")
    return {"status": status}


def _approval(
    id: str,
    execution_id: str,
    key: str,
    occurrence: int,
    prompt: str,
    status: str,
    comment: str | None,
    requested_at: str,
    decided_at: str | None,
) -> Approval:
    return Approval(
        id=id,
        execution_id=execution_id,
        key=key,
        occurrence=occurrence,
        prompt=prompt,
        status=status,
        comment=comment,
        requested_at=moment(requested_at),
        decided_at=moment_or_none(decided_at),
    )
