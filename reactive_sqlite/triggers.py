"""Our TEMP triggers: three on each captured table, which hand every changed row to a function.

This connection alone sees them. They fire for cascades, upserts and other triggers alike. Inside a
transaction they come and go with its rollback, and so they are made and mended outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from reactive_sqlite.catalog import Table
from reactive_sqlite.connection import Connection
from reactive_sqlite.dialect import quote, sqlite3
from reactive_sqlite.entry import A_BLOB, ALL_COLUMNS, DELETED, INSERTED, UPDATED, TableCapture
from reactive_sqlite.region import TableName

_PREFIX = "_reactive_sqlite_"
FUNCTION = _PREFIX + "row"
"""The SQL function that they call with each entry."""
# An UPDATE reports its changed columns as bits of one SQLite integer; bit 0 is the key.
_MOST_COLUMNS = 60


class Triggers:
    """Which tables are captured, and the triggers on them; the connection's lock is held."""

    def __init__(self, connection: Connection, find: Callable[[TableName], Table | None]) -> None:
        self.tables: dict[TableName, TableCapture] = {}
        self.numbers: dict[int, TableCapture] = {}
        self.unseen: set[TableName] = set()  # observed, but SQLite allows no trigger on them
        self.evictions_seen = True  # the rows that REPLACE removes
        self.carrying = False  # some table's entries carry values
        self.remade = False  # the open transaction has dropped or made triggers
        self.loose = False  # they were dropped for a statement and must come back
        self._connection = connection
        self._find = find
        self._next_number = 0
        self._unsettled: set[TableName] = set()  # theirs wait for the transaction's end

    def watch(
        self,
        table: Table,
        columns: Iterable[str],
        pinned: Iterable[str],
        *,
        carried: Iterable[str] = (),
        every_column: bool = False,
    ) -> None:
        """Capture the table's rows from now on: changes of `columns`, values of `pinned`, new
        values of `carried`."""
        if not table.capturable:
            self.unseen.add(table.id)
            return
        capture = self.tables.get(table.id)
        if capture is None:
            capture = TableCapture(self._next_number, table.id, table)
            self._next_number += 1
            self.tables[table.id] = self.numbers[capture.number] = capture
        capture.watched = _grown(capture.watched, (c for c in columns if c in table.columns))
        capture.pinned = _grown(capture.pinned, pinned)
        capture.carried = _grown(capture.carried, carried)
        self.carrying = self.carrying or bool(capture.carried)
        capture.every_column = capture.every_column or every_column
        if capture.installed != capture.wanted:
            if self._connection.busy:
                self._unsettled.add(table.id)
            else:
                self._install(capture)

    def unwatch(self, table: TableName) -> None:
        """Capture the table no longer; its number is never given to another."""
        self.unseen.discard(table)
        capture = self.tables.pop(table, None)
        if capture is not None and not self._connection.busy:
            self._drop(capture)
            # Triggers whose table another process has dropped are not found, and write entries
            # again when that is made anew, until the change of the schema has them removed.
            if _trigger(capture, "i") not in map(quote, self._names()):
                del self.numbers[capture.number]

    def blind(self, written: frozenset[TableName]) -> frozenset[TableName]:
        """Return those of the tables of which not every row that is written now is captured."""
        missed: frozenset[TableName] = frozenset()
        if self.unseen or self._unsettled:
            missed |= written & (self.unseen | self._unsettled)
        if self.loose or not self.evictions_seen:
            missed |= written & self.tables.keys()
        return missed

    def settle(self) -> None:
        """Make the triggers that could not be made while a transaction was open."""
        self._unsettled.clear()
        for name, capture in self.tables.items():
            if capture.installed != capture.wanted:
                self._install_on(name, capture)

    def make_way(self) -> None:
        """Take them away until they are made anew, for a statement that they would break."""
        if self.tables:
            self.remove()
            self.loose = True

    def are_as_made(self) -> bool:
        """Whether they are there after a rollback, which undoes what was made or dropped."""
        if not self.tables:
            return True
        made = 3 * sum(capture.installed is not None for capture in self.tables.values())
        return not self.remade and len(self._names()) == made

    def reinstall(self) -> None:
        """Make every trigger anew, on the tables as they are now."""
        self.remove()
        for name, capture in self.tables.items():
            self._install_on(name, capture)

    def remove(self) -> None:
        """Drop our triggers, also those whose table another process has dropped."""
        self.remade = self._connection.busy
        raw = self._connection.raw
        left = self._names()
        for name in left:
            try:
                raw(f"DROP TRIGGER IF EXISTS temp.{quote(name)}")
            except sqlite3.OperationalError:
                continue  # an orphan; found again below
        left = self._names()
        if left:
            # DROP TRIGGER finds no trigger without its table, yet it breaks every later RENAME.
            raw("PRAGMA writable_schema = ON")
            try:
                for name in left:
                    raw("DELETE FROM temp.sqlite_temp_master WHERE name = ?", (name,))
            finally:
                raw("PRAGMA writable_schema = RESET")
        for capture in self.numbers.values():
            capture.installed = None

    def _names(self) -> list[str]:
        return [
            name
            for (name,) in self._connection.raw(
                "SELECT name FROM sqlite_temp_master WHERE type = 'trigger' AND name GLOB ?",
                (_PREFIX + "[0-9]*",),
            )
        ]

    def _drop(self, capture: TableCapture) -> None:
        for kind in "iud":
            self._connection.raw(f"DROP TRIGGER IF EXISTS temp.{_trigger(capture, kind)}")
        capture.installed = None

    def _install_on(self, name: TableName, capture: TableCapture) -> None:
        """Make the triggers on the table as it is now."""
        table = self._find(name)
        if table is None or not table.capturable:
            return  # it may come back; the next schema change looks again
        capture.table = table
        self._install(capture)

    def _install(self, capture: TableCapture) -> None:
        if capture.installed is not None:
            self._drop(capture)
        # A column may be away for a while: its transaction is rolled back, or it is named back.
        columns = capture.table.columns
        pinned = [column for column in capture.pinned if column in columns]
        capture.captured = tuple(dict.fromkeys([*(c.lower() for c in capture.key), *pinned]))
        capture.compared = tuple(column for column in capture.watched if column in columns)
        capture.carries = tuple(column for column in capture.carried if column in columns)
        capture.changed.clear()
        capture.placed.clear()
        for sql in _trigger_sql(capture):
            self._connection.raw(sql)
        capture.installed = capture.wanted


def _grown(known: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    extra = sorted(set(more) - set(known))
    return known + tuple(extra) if extra else known


def _trigger(capture: TableCapture, kind: str) -> str:
    return quote(f"{_PREFIX}{capture.number}_{kind}")


def _trigger_sql(capture: TableCapture) -> Iterable[str]:
    table, number = capture.table, capture.number
    names = [_spelled(table, column) for column in capture.captured]
    new = "".join(f", NEW.{name}" for name in names)
    old = "".join(f", OLD.{name}" for name in names)
    new += "".join(f", {_carried(quote(table.columns[c].name))}" for c in capture.carries)
    on = f"ON {table.qualified}"
    yield (
        f"CREATE TEMP TRIGGER {_trigger(capture, 'i')} AFTER INSERT {on}"
        f" BEGIN SELECT {FUNCTION}({number}, {INSERTED}, {ALL_COLUMNS}{new}); END"
    )
    yield (
        f"CREATE TEMP TRIGGER {_trigger(capture, 'd')} AFTER DELETE {on}"
        f" BEGIN SELECT {FUNCTION}({number}, {DELETED}, {ALL_COLUMNS}{old}); END"
    )
    key = _key_differs(capture)
    watched = [_differs(_spelled(table, column)) for column in capture.compared]
    bits = " + ".join(f"({test}) * {1 << at}" for at, test in enumerate([key, *watched]))
    if len(watched) > _MOST_COLUMNS:
        bits = str(ALL_COLUMNS)
    noticed = [key, *watched]
    if capture.every_column:
        noticed = [key, *(_differs(quote(column.name)) for column in table.columns.values())]
    yield (
        f"CREATE TEMP TRIGGER {_trigger(capture, 'u')} AFTER UPDATE {on}"
        f" WHEN {' OR '.join(noticed)}"
        f" BEGIN SELECT {FUNCTION}({number}, {UPDATED}, {bits}{old}{new}); END"
    )


def _carried(name: str) -> str:
    return (
        f"CASE typeof(NEW.{name}) WHEN 'text' THEN CAST(NEW.{name} AS BLOB)"
        f" WHEN 'blob' THEN '{A_BLOB}' ELSE NEW.{name} END"
    )


def _key_differs(capture: TableCapture) -> str:
    table = capture.table
    names = [_spelled(table, column.lower()) for column in table.primary_key]
    if table.rowid_name is not None:
        # The hidden rowid orders the rows of a scan, also where another key is declared.
        names.append(table.rowid_name)
    return "(" + (" OR ".join(map(_differs, names)) or "0") + ")"


def _differs(name: str) -> str:
    # By type as well, since 1 IS 1.0; and byte by byte, since 'x' IS 'X' under NOCASE.
    return (
        f"(typeof(OLD.{name}) <> typeof(NEW.{name})"
        f" OR OLD.{name} COLLATE BINARY IS NOT NEW.{name} COLLATE BINARY)"
    )


def _spelled(table: Table, column: str) -> str:
    known = table.columns.get(column)
    return quote(known.name) if known is not None else column
