"""Rows with a life: started, then ended once; each write fenced by the lease of its execution."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Generic, TypeVar

from reactive_sqlite.arguments import shown
from reactive_sqlite.errors import DatabaseClosed
from reactive_sqlite.observation import ObservableQuery
from smithers.cells import reading
from smithers.clock import from_text, to_text
from smithers.codec import check_limit, check_text, decode
from smithers.context import Kind
from smithers.errors import InvalidStatus, NotFound, OwnershipLost
from smithers.ownership import FENCE, UNFENCED, Fence
from smithers.schema.times import duration
from smithers.workspace import Workspace

R = TypeVar("R")
NOTHING: Mapping[str, str] = {}
# True where a row may stand: below no execution, or below one that has not ended.
_RUNNING = """(? IS NULL OR EXISTS (
    SELECT 1 FROM executions WHERE id = ? AND status = 'running'
))"""
_EXECUTION_STATUS = "SELECT status FROM executions WHERE id = ?"
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
        newest_first: whether the newest row is listed first; otherwise the oldest is.
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
        newest_first: bool = False,
    ) -> None:
        self._workspace = workspace
        self._database = workspace.database
        self._kind = kind
        self._table = table
        self._read = reading(read, table)
        self._source = source or table
        self._select = f"SELECT {columns} FROM {self._source}"
        self._newest_first = newest_first
        self._status = f"SELECT status, execution_id FROM {table} WHERE id = ?"
        self._statements: dict[tuple[str, ...], str] = {}

    def get(self, id: str) -> R | None:
        """Return one row, None when there is none."""
        check_id(id, self._kind)
        row = self._database.conn.execute(f"{self._select} WHERE id = ?", (id,)).fetchone()
        return None if row is None else self._read(*row)

    def list(
        self, where: Mapping[str, str] = NOTHING, *, limit: int | None = None
    ) -> builtins.list[R]:
        """List the rows with these values, in their order; with a limit the newest of them."""
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
        check_id(id, self._kind)
        found = self._database.observe_one(f"{self._select} WHERE id = ?", (id,))
        return found.decoded(lambda row: None if row is None else self._read(*row.values()))

    def insert(self, values: dict[str, Any], execution_id: str | None) -> None:
        """Insert a running row below an execution, or below none.

        Raises OwnershipLost where this handle owned the execution and no longer does; NotFound or
        InvalidStatus where another one does not run.
        """
        fence = self._workspace.ownership.fence(execution_id)
        fenced = fence[0] is not None
        guards = fence if fenced else (execution_id, execution_id)
        names = ("insert fenced" if fenced else "insert", *values)
        sql = self._statements.get(names)
        if sql is None:
            listed, marks = ", ".join(values), ", ".join("?" * len(values))
            guard = FENCE if fenced else _RUNNING
            sql = f"INSERT INTO {self._table} ({listed}) SELECT {marks} WHERE {guard}"
            self._statements[names] = sql
        if not self._database.conn.execute(sql, (*values.values(), *guards)).rowcount:
            assert execution_id is not None
            raise self._no_place(execution_id)

    def end(self, id: str, status: str, action: str, **values: Any) -> None:
        """End a running row, with the time and how long it ran; further columns as given.

        `action` says in errors what could not be done. Raises NotFound, InvalidStatus for a row
        that has ended, OwnershipLost; then nothing was written.
        """
        check_id(id, self._kind)
        self._workspace.check_writable(f"{action} {self._kind} {shown(id)}")
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
        fence = self._fence(id)
        now = to_text(self._workspace.now())
        bound = (status, now, now, *values.values(), id, *fence)
        if not self._database.conn.execute(sql, bound).rowcount:
            raise self._refusal(id, action)
        context = self._workspace.context
        left = context.leave(id)
        self._database.on_rollback(lambda: context.reenter(left))

    def change(self, id: str, action: str, **values: Any) -> None:
        """Change columns of a running row; errors as of `end`."""
        check_id(id, self._kind)
        self._workspace.check_writable(f"{action} {self._kind} {shown(id)}")
        names = ("change", *values)
        sql = self._statements.get(names)
        if sql is None:
            listed = ", ".join(f"{name} = ?" for name in values)
            sql = (
                f"UPDATE {self._table} SET {listed} WHERE id = ? AND status = 'running' AND {FENCE}"
            )
            self._statements[names] = sql
        fence = self._fence(id)
        if not self._database.conn.execute(sql, (*values.values(), id, *fence)).rowcount:
            raise self._refusal(id, action)

    def is_running(self, id: str) -> bool:
        """Tell whether a row has not ended; False when there is none."""
        check_id(id, self._kind)
        row = self._database.conn.execute(self._status, (id,)).fetchone()
        return row is not None and row[0] == "running"

    def _query(
        self, where: Mapping[str, str], limit: int | None
    ) -> tuple[str, tuple[str | int, ...]]:
        order = "seq DESC" if self._newest_first else "seq"
        values = tuple(where.values())
        if limit is None:
            return f"{self._select}{_where(where)} ORDER BY {order}", values
        newest = f"SELECT seq FROM {self._source}{_where(where)} ORDER BY seq DESC LIMIT ?"
        return f"{self._select} WHERE seq IN ({newest}) ORDER BY {order}", (*values, limit)

    def _fence(self, id: str) -> Fence:
        frame = self._workspace.context.started_here(id)
        if frame is not None:
            return self._workspace.ownership.fence(frame.execution_id)
        row = self._database.conn.execute(self._status, (id,)).fetchone()
        return UNFENCED if row is None else self._workspace.ownership.fence(row[1])

    def _no_place(self, execution_id: str) -> Exception:
        if self._workspace.ownership.lost(execution_id):
            return OwnershipLost(execution_id)
        row = self._database.conn.execute(_EXECUTION_STATUS, (execution_id,)).fetchone()
        if row is None:
            return NotFound("execution", execution_id)
        self._refuse_closing(row[0])
        return InvalidStatus("execution", execution_id, row[0], "start anything below")

    def _refusal(self, id: str, action: str) -> Exception:
        row = self._database.conn.execute(self._status, (id,)).fetchone()
        if row is None:
            return NotFound(self._kind, id)
        status, execution_id = row
        if execution_id is not None and self._workspace.ownership.lost(execution_id):
            return OwnershipLost(execution_id)
        self._refuse_closing(status)
        return InvalidStatus(self._kind, id, status, action)

    def _refuse_closing(self, status: str) -> None:
        """Raise DatabaseClosed where nothing else stands in the way of what was refused."""
        if status == "running" and self._workspace.ownership.released:
            raise DatabaseClosed("the database is closed")


def _where(where: Mapping[str, str]) -> str:
    return f" WHERE {' AND '.join(f'{name} = ?' for name in where)}" if where else ""


@contextmanager
def left_with(leave: Callable[[str, BaseException | None], None], id: str) -> Generator[None]:
    """End a row with the block, as `leave(id, error)` does.

    An exception goes on in any case; that the row could not be ended is added to it as a note.
    """
    try:
        yield
    except BaseException as error:
        try:
            leave(id, error)
        except Exception as further:
            error.add_note(f"the row could not be ended: {type(further).__name__}: {further}")
        raise
    leave(id, None)


# Whoever has ended the row already, or taken it away, has the last word.
unless_ended = suppress(InvalidStatus, NotFound)


def current(workspace: Workspace, rows: Rows[R], kind: Kind) -> R | None:
    """Return the row of a kind that runs here, else the newest running one of the execution.

    That is the execution that runs here, else the newest running one of any process.
    """
    frame = workspace.context.nearest(kind)
    if frame is not None:
        found = rows.first({"id": frame.id, "status": "running"})
        if found is not None:
            return found
    execution_id = workspace.context.execution_id
    if execution_id is None:
        row = workspace.database.conn.execute(_NEWEST_RUNNING).fetchone()
        if row is None:
            return None
        (execution_id,) = row
    return rows.first({"execution_id": execution_id, "status": "running"})


def check_id(id: object, kind: str) -> None:
    """Refuse what cannot be an id, as `check_text` does."""
    check_text(id, f"the id of {'an' if kind[0] in 'ae' else 'a'} {kind}")


def moment(text: str) -> datetime:
    """Read a time of a row."""
    return from_text(text)


def moment_or_none(text: str | None) -> datetime | None:
    """Read a time of a row that may be missing."""
    return None if text is None else from_text(text)


def json_or_none(text: str | None, name: str) -> Any:
    """Read a JSON column that may be missing; `name` says in errors which one."""
    return None if text is None else decode(text, name=name)
