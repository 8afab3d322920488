"""Rows with a life: started, then ended once; each write fenced by the lease of its execution."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Generic, TypeVar

from reactive_sqlite.observation import ObservableQuery
from smithers.clock import from_text, to_text
from smithers.codec import check_limit, check_text, decode
from smithers.context import Frame, Kind
from smithers.errors import InvalidStatus, NotFound, OwnershipLost
from smithers.ownership import FENCE
from smithers.schema.times import duration
from smithers.workspace import Workspace

R = TypeVar("R")
NOTHING: Mapping[str, str] = {}
_NEWEST_RUNNING = "SELECT id FROM executions WHERE status = 'running' ORDER BY seq DESC LIMIT 1"


class Rows(Generic[R]):
    """The rows of one table, read as records and written below their executions.

    Args:
        workspace: the handle.
        kind: what a row is called in errors (`phase`).
        table: its table.
        columns: what is read of it, as SQL, in the order in which `read` takes it.
        read: makes a record of a row.
        source: what is read from, when that is more than the table.
        order: of what is listed.
    """

    def __init__(
        self,
        workspace: Workspace,
        kind: str,
        table: str,
        columns: str,
        read: Callable[..., R],
        *,
        source: str | None = None,
        order: str = "seq",
    ) -> None:
        self._workspace = workspace
        self._database = workspace.database
        self._kind = kind
        self._table = table
        self._read = read
        self._select = f"SELECT {columns} FROM {source or table}"
        self._order = order
        self._status = f"SELECT status, execution_id FROM {table} WHERE id = ?"
        self._statements: dict[tuple[str, ...], str] = {}

    def get(self, id: str) -> R | None:
        """Return one row, None when there is none."""
        check_text(id, f"the id of a {self._kind}")
        row = self._database.conn.execute(f"{self._select} WHERE id = ?", (id,)).fetchone()
        return None if row is None else self._read(*row)

    def list(
        self, where: Mapping[str, str] = NOTHING, *, limit: int | None = None
    ) -> builtins.list[R]:
        """List the rows with these values, in their order; with a limit the first ones of it."""
        check_limit(limit)
        sql, values = self._query(where, limit)
        return [self._read(*row) for row in self._database.conn.execute(sql, values)]

    def first(self, where: Mapping[str, str]) -> R | None:
        """Return the newest row with these values, None when there is none."""
        sql = f"{self._select}{_where(where)} ORDER BY seq DESC LIMIT 1"
        row = self._database.conn.execute(sql, tuple(where.values())).fetchone()
        return None if row is None else self._read(*row)

    def observe(
        self, where: Mapping[str, str] = NOTHING, *, limit: int | None = None
    ) -> ObservableQuery[builtins.list[R]]:
        """Observe what `list` gives."""
        check_limit(limit)
        sql, values = self._query(where, limit)
        found = self._database.observe(sql, values)
        return found.decoded(lambda rows: [self._read(*row.values()) for row in rows])

    def observe_one(self, id: str) -> ObservableQuery[R | None]:
        """Observe what `get` gives."""
        check_text(id, f"the id of a {self._kind}")
        found = self._database.observe_one(f"{self._select} WHERE id = ?", (id,))
        return found.decoded(lambda row: None if row is None else self._read(*row.values()))

    def insert(self, values: dict[str, Any], execution_id: str | None) -> None:
        """Insert a running row below an execution, or below none.

        Raises OwnershipLost where this handle owned the execution and no longer does.
        """
        names = tuple(values)
        sql = self._statements.get(names)
        if sql is None:
            listed, marks = ", ".join(names), ", ".join("?" * len(names))
            sql = f"INSERT INTO {self._table} ({listed}) SELECT {marks} WHERE {FENCE}"
            self._statements[names] = sql
        fence = self._workspace.ownership.fence(execution_id)
        if not self._database.conn.execute(sql, (*values.values(), *fence)).rowcount:
            assert execution_id is not None
            raise OwnershipLost(execution_id)

    def end(self, id: str, status: str, action: str, **values: Any) -> None:
        """End a running row, with the time and how long it ran; further columns as given.

        `action` says in errors what could not be done. Raises NotFound, InvalidStatus for a row
        that has ended, OwnershipLost; then nothing was written.
        """
        check_text(id, f"the id of a {self._kind}")
        self._workspace.check_writable(f"{action} {self._kind} {id!r}")
        names = ("end", *values)
        sql = self._statements.get(names)
        if sql is None:
            further = "".join(f", {name} = ?" for name in values)
            sql = (
                f"UPDATE {self._table} SET status = ?, completed_at = ?, "
                f"duration_ms = {duration('started_at', '?')}{further} "
                f"WHERE id = ? AND status = 'running' AND {FENCE}"
            )
            self._statements[names] = sql
        context = self._workspace.context
        frame = context.started_here(id)
        execution_id = self._execution_of(id) if frame is None else frame.execution_id
        fence = self._workspace.ownership.fence(execution_id)
        now = to_text(self._workspace.now())
        bound = (status, now, now, *values.values(), id, *fence)
        if not self._database.conn.execute(sql, bound).rowcount:
            raise self._refusal(id, action)
        self._leave(id, frame)

    def change(self, id: str, action: str, **values: Any) -> None:
        """Change columns of a running row; errors as of `end`."""
        check_text(id, f"the id of a {self._kind}")
        self._workspace.check_writable(f"{action} {self._kind} {id!r}")
        names = ("change", *values)
        sql = self._statements.get(names)
        if sql is None:
            listed = ", ".join(f"{name} = ?" for name in values)
            sql = (
                f"UPDATE {self._table} SET {listed} WHERE id = ? AND status = 'running' AND {FENCE}"
            )
            self._statements[names] = sql
        frame = self._workspace.context.started_here(id)
        execution_id = self._execution_of(id) if frame is None else frame.execution_id
        fence = self._workspace.ownership.fence(execution_id)
        if not self._database.conn.execute(sql, (*values.values(), id, *fence)).rowcount:
            raise self._refusal(id, action)

    def is_running(self, id: str) -> bool:
        """Tell whether a row has not ended."""
        row = self._database.conn.execute(self._status, (id,)).fetchone()
        return row is not None and row[0] == "running"

    def _query(
        self, where: Mapping[str, str], limit: int | None
    ) -> tuple[str, tuple[str | int, ...]]:
        sql = f"{self._select}{_where(where)} ORDER BY {self._order}"
        values = tuple(where.values())
        return (sql, values) if limit is None else (f"{sql} LIMIT ?", (*values, limit))

    def _execution_of(self, id: str) -> str | None:
        row = self._database.conn.execute(self._status, (id,)).fetchone()
        return None if row is None else row[1]

    def _refusal(self, id: str, action: str) -> Exception:
        row = self._database.conn.execute(self._status, (id,)).fetchone()
        if row is None:
            return NotFound(self._kind, id)
        status, execution_id = row
        if execution_id is not None and self._workspace.ownership.lost(execution_id):
            return OwnershipLost(execution_id)
        return InvalidStatus(self._kind, id, status, action)

    def _leave(self, id: str, frame: Frame | None) -> None:
        context = self._workspace.context
        context.leave(id)
        if frame is not None:
            self._database.on_rollback(lambda: context.reenter(frame))


def _where(where: Mapping[str, str]) -> str:
    return f" WHERE {' AND '.join(f'{name} = ?' for name in where)}" if where else ""


@contextmanager
def ended_with(
    rows: Rows[Any],
    id: str,
    *,
    complete: Callable[[str], None],
    fail: Callable[[str, BaseException], None],
) -> Generator[None]:
    """End a running row with the block: completed, or failed by the exception that leaves it.

    The exception goes on in any case; that the row could not be ended is added to it as a note.
    """
    try:
        yield
    except BaseException as error:
        try:
            if rows.is_running(id):
                fail(id, error)
        except Exception as further:
            error.add_note(f"{id!r} could not be ended: {type(further).__name__}: {further}")
        raise
    if rows.is_running(id):
        complete(id)


def current(workspace: Workspace, rows: Rows[R], kind: Kind) -> R | None:
    """Return the row of a kind that runs here, else the newest running one of the execution.

    That is the execution that runs here, else the newest running one of any process.
    """
    frame = workspace.context.nearest(kind)
    if frame is not None and (found := rows.get(frame.id)) is not None:
        return found
    execution_id = workspace.context.execution_id
    if execution_id is None:
        row = workspace.database.conn.execute(_NEWEST_RUNNING).fetchone()
        if row is None:
            return None
        (execution_id,) = row
    return rows.first({"execution_id": execution_id, "status": "running"})


def moment(text: str) -> datetime:
    """Read a time of a row."""
    return from_text(text)


def moment_or_none(text: str | None) -> datetime | None:
    """Read a time of a row that may be missing."""
    return None if text is None else from_text(text)


def json_or_none(text: str | None, name: str) -> Any:
    """Read a JSON column that may be missing; `name` says in errors which one."""
    return None if text is None else decode(text, name=name)
