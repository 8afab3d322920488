"""Who wants the change sets of commits, and how a commit becomes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from reactive_sqlite.capture import DELETED, INSERTED, UPDATED, Capture, Entry, TableCapture
from reactive_sqlite.catalog import Catalog
from reactive_sqlite.changes import ChangeSet, Operation, RowChange
from reactive_sqlite.delivery import Deliveries
from reactive_sqlite.region import spelled

_OPERATIONS: dict[int, Operation] = {INSERTED: "insert", UPDATED: "update", DELETED: "delete"}
ELSEWHERE = ChangeSet(None, None, external=True)
REDEFINED = ChangeSet(None, None)  # a table was dropped, made or altered, with what it held


class Listener(Protocol):
    """Somebody who wants the change sets of some tables (None: of all)."""

    tables: frozenset[str] | None

    def post(self, changes: ChangeSet) -> None: ...
    def drain(self) -> None: ...
    def end(self, error: BaseException | None) -> None: ...


class Listeners:
    """All listeners of a database; used with the connection's lock held."""

    def __init__(
        self, capture: Capture, deliveries: Deliveries, catalog: Callable[[], Catalog]
    ) -> None:
        self._capture = capture
        self._deliveries = deliveries
        self._catalog = catalog
        self.members: dict[Listener, None] = {}

    def __bool__(self) -> bool:
        return bool(self.members)

    def add(self, listener: Listener) -> None:
        self.members[listener] = None

    def discard(self, listener: Listener) -> None:
        self.members.pop(listener, None)

    def watch(self) -> None:
        """Capture every row of the tables that are listened to, as they are now."""
        wanted = [listener.tables for listener in self.members]
        if not wanted:
            return
        for table in self._catalog().tables.values():
            name = spelled(table.id)
            if table.kind in ("table", "virtual") and any(w is None or name in w for w in wanted):
                self._capture.watch(table, (), (), every_column=True)

    def committed(self) -> ChangeSet | None:
        """Return the change set of what is captured now."""
        capture = self._capture
        if not (self.members and (capture.entries or capture.dirty)):
            return None
        if capture.dirty:
            touched = {capture.numbers[entry[0]].id for entry in capture.entries}
            return ChangeSet(frozenset(map(spelled, touched | capture.dirty)), None)
        rows = tuple([_row(capture.numbers[entry[0]], entry) for entry in capture.entries])
        return ChangeSet(frozenset(row.table for row in rows), rows)

    def tell(self, changes: ChangeSet) -> None:
        """Queue the change set for those whom it concerns."""
        for listener in self.members:
            if listener.tables is None or changes.touches(listener.tables):
                listener.post(_only(changes, listener.tables))
                self._deliveries.add(listener)

    def end(self, error: BaseException | None) -> None:
        """Complete all of them, or end them with an error."""
        for listener in self.members:
            listener.end(error)
            self._deliveries.add(listener)


def _row(capture: TableCapture, entry: Entry) -> RowChange:
    count, width = len(capture.key), len(capture.captured)
    first = _key(entry[3 : 3 + count])
    name, operation = spelled(capture.table.id), _OPERATIONS[entry[1]]
    if operation != "update":
        return RowChange(name, operation, first)
    return RowChange(name, operation, _key(entry[3 + width : 3 + width + count]), first)


def _key(values: tuple[object, ...]) -> object:
    return values[0] if len(values) == 1 else values or None


def _only(changes: ChangeSet, tables: frozenset[str] | None) -> ChangeSet:
    if tables is None or changes.tables is None or changes.tables <= tables:
        return changes
    rows = changes.rows
    return ChangeSet(
        changes.tables & tables,
        None if rows is None else tuple([row for row in rows if row.table in tables]),
        external=changes.external,
    )
