"""Who wants the change sets of commits, and how a commit becomes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from reactive_sqlite.capture import Capture
from reactive_sqlite.catalog import Catalog
from reactive_sqlite.changes import ChangeSet, Operation, RowChange
from reactive_sqlite.delivery import Deliveries
from reactive_sqlite.entry import DELETED, INSERTED, UPDATED, Entry, TableCapture
from reactive_sqlite.region import spelled
from reactive_sqlite.tracking import LOG, is_internal
from reactive_sqlite.witness import LogReader, Written

_OPERATIONS: dict[int, Operation] = {INSERTED: "insert", UPDATED: "update", DELETED: "delete"}
_LOG = ("main", LOG)
ELSEWHERE = ChangeSet(None, None, external=True)
REDEFINED = ChangeSet(None, None)  # a table was dropped, made or altered, with what it held


class Listener(Protocol):
    """Somebody who wants the change sets of some tables (None: of all)."""

    tables: frozenset[str] | None

    def post(self, changes: ChangeSet) -> None: ...
    def drain(self) -> None: ...
    def end(self, error: BaseException | None) -> None: ...


class Tail(Protocol):
    """Somebody who reads the change log, and waits for more of it; called under the lock."""

    def wake(self) -> None: ...
    def end(self, error: BaseException | None) -> None: ...


class Listeners:
    """All listeners of a database; used with the connection's lock held."""

    def __init__(
        self,
        capture: Capture,
        deliveries: Deliveries,
        catalog: Callable[[], Catalog],
        reader: LogReader,
    ) -> None:
        self._capture = capture
        self._deliveries = deliveries
        self._catalog = catalog
        self._reader = reader
        self.members: dict[Listener, None] = {}
        self.tails: dict[Tail, None] = {}

    def __bool__(self) -> bool:
        return bool(self.members or self.tails)

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
            if table.id == _LOG:
                self._capture.triggers.watch(table, (), ())  # which entries are ours
            if is_internal(table.id) and not any(w is not None and name in w for w in wanted):
                continue
            if table.kind in ("table", "virtual") and any(w is None or name in w for w in wanted):
                self._capture.triggers.watch(table, (), (), every_column=True)

    def wake(self) -> None:
        """Something was committed: let those look who read the change log."""
        for tail in tuple(self.tails):
            tail.wake()

    def committed(self) -> ChangeSet | None:
        """Return the change set of what is captured now."""
        capture = self._capture
        self.wake()
        if not self.members:
            return None
        if capture.redefined or _LOG in capture.dirty:
            self._reader.lost_count()
        if not (capture.entries or capture.dirty):
            return None
        entries = capture.entries
        captured = capture.triggers.tables
        if _LOG in captured:
            log = captured[_LOG].number
            for entry in entries:
                if entry[0] == log and entry[1] == INSERTED:
                    self._reader.wrote(entry[3])
            if not any(w.tables is not None and LOG in w.tables for w in self.members):
                entries = [entry for entry in entries if entry[0] != log]
        touched = {capture.numbers[entry[0]].id for entry in entries}
        if capture.dirty:
            touched |= {table for table in capture.dirty if not is_internal(table)}
            return ChangeSet(frozenset(map(spelled, touched)), None) if touched else None
        if not entries:
            return None
        rows = tuple([_row(capture.numbers[entry[0]], entry) for entry in entries])
        return ChangeSet(frozenset(row.table for row in rows), rows)

    def tell(self, changes: ChangeSet) -> None:
        """Queue the change set for those whom it concerns."""
        for listener in self.members:
            if listener.tables is None or changes.touches(listener.tables):
                listener.post(_only(changes, listener.tables))
                self._deliveries.add(listener)

    def tell_elsewhere(self, written: Written | None) -> None:
        """Tell of commits of other connections, each listener as much as is known of its tables."""
        self.wake()
        for listener in self.members:
            changes = self._elsewhere(listener, written)
            if changes is not None:
                listener.post(changes)
                self._deliveries.add(listener)

    def _elsewhere(self, listener: Listener, written: Written | None) -> ChangeSet | None:
        if written is None or written.foreign is None:
            return ELSEWHERE
        captures, tables = written.captures, listener.tables
        rows = tuple([_row(captures[entry[0]], entry) for entry in written.foreign])
        known = {spelled(table) for table in written.tables}
        if tables is None:
            tables = frozenset(
                spelled(table.id)
                for table in self._catalog().tables.values()
                if table.kind in ("table", "virtual")
                and not is_internal(table.id)
                and not table.name.lower().startswith("sqlite_")
            )
        rows = tuple([row for row in rows if row.table in tables])
        if tables <= known:
            if not rows:
                return None
            return ChangeSet(frozenset(row.table for row in rows), rows, external=True)
        return ChangeSet(None, rows or None, external=True)

    def end(self, error: BaseException | None) -> None:
        """Complete all of them, or end them with an error."""
        for tail in tuple(self.tails):
            tail.end(error)
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
