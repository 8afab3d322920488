"""Row capture: which rows, and which key values, the open transaction has touched.

Tables that somebody observes carry TEMP triggers, seen by this connection only, that hand each
changed row to a Python function. They fire for cascades, upserts and other triggers alike.
A Python list does not roll back by itself, so savepoints remember how long it was.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Iterable
from typing import Any

from reactive_sqlite.catalog import Table
from reactive_sqlite.connection import Connection
from reactive_sqlite.dialect import locked_elsewhere, quote, sqlite3
from reactive_sqlite.entry import (
    A_BLOB,
    ALL_COLUMNS,
    DELETED,
    INSERTED,
    UPDATED,
    Entry,
    TableCapture,
)
from reactive_sqlite.region import TableName
from reactive_sqlite.statement import Statement

# Beyond so many captured rows in one transaction only the tables are remembered: a bulk load must
# not grow memory, and looking each row up would cost more than running the queries again.
ROW_LIMIT = 10_000
# An UPDATE reports its changed columns as bits of one SQLite integer; bit 0 is the key.
_MOST_COLUMNS = 60
# Values of a row are carried along only in the first entries of a transaction: they may be large.
_CARRYING = 16
_PREFIX = "_reactive_sqlite_"
# Said as well where a function of the user's has failed: then it fails once more.
_FUNCTION_FAILED = "user-defined function raised exception"


class Capture:
    """The ledger of one connection: see `connection.Ledger` for who calls what, and when."""

    def __init__(
        self,
        connection: Connection,
        *,
        on_commit: Callable[[], None],
        on_commit_alone: Callable[[Statement], None],
        on_rollback: Callable[[], None],
        on_deliver: Callable[[], None],
        find: Callable[[TableName], Table | None],
        moved: Callable[[], bool],
        elsewhere: Callable[[], bool],
        look: Callable[[], None] | None = None,
    ) -> None:
        self.entries: list[Entry] = []
        self.dirty: set[TableName] = set()
        self.schema = False  # the schema is another one, whoever changed it
        self.redefined = False  # it was the open transaction
        self.wrote_any = False
        self.tables: dict[TableName, TableCapture] = {}
        self.numbers: dict[int, TableCapture] = {}
        self._next_number = 0
        self.unseen: set[TableName] = set()  # observed, but SQLite allows no trigger on them
        self.evictions_seen = True  # the rows that REPLACE removes
        self.due = False  # something waits for the end of the transaction
        self.elsewhere = True  # another connection may have committed before the first entry
        self._connection = connection
        self._on_commit = on_commit
        self.committed_alone = on_commit_alone
        self._on_rollback = on_rollback
        self._find = find
        self._moved = moved
        self._elsewhere = elsewhere
        self._look = look
        self._carrying = False  # some table's entries carry values
        self._overflowed: set[int] = set()
        self._unsettled: set[TableName] = set()  # their triggers wait for the transaction's end
        self._savepoints: list[tuple[str, int, set[TableName]]] = []
        self._remade = False  # the open transaction has dropped or made triggers
        self._loose = False  # triggers were dropped for a statement and must come back
        self.deliver = on_deliver
        # Weakly: what SQLite holds no collection finds, so a database that was dropped without
        # being closed would keep its file, and the thread that watches it, for ever.
        known = weakref.ref(self)

        def record(*entry: Any) -> None:
            found = known()
            if found is not None:
                found._record(*entry)

        connection.create_function(_PREFIX + "row", -1, record)

    # -- told by the connection, its lock held -------------------------------------------------

    def mark(self) -> int:
        return len(self.entries)

    def begins(self) -> None:
        if self._look is not None:
            self._look()

    def pending(self) -> bool:
        return bool(self.entries or self.dirty or self.schema or self.due or self.wrote_any)

    def wrote(self, statement: Statement) -> None:
        self.wrote_any = True
        if self.unseen or self._unsettled:
            self.dirty |= statement.writes & (self.unseen | self._unsettled)
        if self._loose or not self.evictions_seen:
            self.dirty |= statement.writes & self.tables.keys()

    def wrote_table(self, table: TableName) -> None:
        self.wrote_any = True
        self.dirty.add(table)

    def schema_changed(self) -> None:
        self.schema = self.redefined = True
        self._restore()

    def savepoint(self, action: str, name: str, mark: int) -> None:
        if action == "BEGIN":
            self._savepoints.append((name, mark, set(self.dirty)))
            return
        at = next(
            (i for i in range(len(self._savepoints) - 1, -1, -1) if self._savepoints[i][0] == name),
            None,
        )
        if at is None:
            return
        if action == "ROLLBACK":
            _, length, dirty = self._savepoints[at]
            del self.entries[length:]
            self.dirty = set(dirty)
            del self._savepoints[at + 1 :]
            self._verify()
        else:
            del self._savepoints[at:]

    def forget(self, mark: int) -> None:
        del self.entries[mark:]
        self._restore()

    def rolled_back(self) -> None:
        if self.schema:
            self._moved()  # what was derived from the schema of the transaction is void
        remade = self._remade
        self.clear()
        self._remade = remade
        self._verify()
        self._remade = False
        self._on_rollback()

    def committed(self) -> None:
        self._restore()
        self._on_commit()

    def make_way(self) -> None:
        """Take our triggers away: one naming a column would break the user's ALTER TABLE."""
        if self.tables:
            self.remove_triggers()
            self._loose = True

    def repair(self, error: Exception) -> bool:
        """After a failed statement: True if it may have been for our triggers, and can be tried
        again. Another process had changed the schema under them, and they have been made anew; or
        a text that they hand on is no UTF-8, and they are away until the transaction ends."""
        if not self.tables:
            return False
        if self._moved():
            self.schema = True
            self.reinstall()
            return True
        if self._loose or str(error) != _FUNCTION_FAILED:
            return False
        self.make_way()
        self.dirty |= self.tables.keys()
        return True

    def pragma(self) -> None:
        """A PRAGMA ran: without recursive triggers the rows that REPLACE evicts are not seen."""
        self.evictions_seen = bool(self._connection.raw("PRAGMA recursive_triggers")[0][0])

    # -- used by the broker --------------------------------------------------------------------

    def clear(self) -> None:
        """Begin an empty transaction."""
        self.schema = self.redefined = self.wrote_any = self.due = False
        if self._remade:
            self._remade = self._connection.busy
        self.entries.clear()
        if self.dirty or self._overflowed or self._savepoints:
            self.dirty.clear()
            self._overflowed.clear()
            self._savepoints.clear()

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
        self._carrying = self._carrying or bool(capture.carried)
        capture.every_column = capture.every_column or every_column
        if capture.installed != capture.wanted:
            if self._connection.busy:
                self._unsettled.add(table.id)
            else:
                self._install(capture)

    def drop_unwatched(self, wanted: Container[TableName]) -> None:
        """Capture no longer what was touched and is not wanted.

        Tables keep their triggers until then: subscribing and disposing in a loop must not make
        and drop them each time.
        """
        if len(self.entries) == 1:
            numbers = {self.entries[0][0]}
        else:
            numbers = {entry[0] for entry in self.entries}
        for table in {self.numbers[number].id for number in numbers}:
            if table not in wanted:
                self.unwatch(table)

    def unwatch(self, table: TableName) -> None:
        """Capture the table no longer; its number is never given to another."""
        self.unseen.discard(table)
        capture = self.tables.pop(table, None)
        if capture is not None and not self._connection.busy:
            self._drop(capture)
            # Triggers whose table another process has dropped are not found, and write entries
            # again when that is made anew, until the change of the schema has them removed.
            if _trigger(capture, "i") not in map(quote, self._installed_names()):
                del self.numbers[capture.number]

    def settle(self) -> None:
        """Make the triggers that could not be made while a transaction was open."""
        self._unsettled.clear()
        for name, capture in self.tables.items():
            if capture.installed != capture.wanted:
                self._install_on(name, capture)

    def reinstall(self) -> None:
        """Make every trigger anew, on the tables as they are now."""
        self.remove_triggers()
        for name, capture in self.tables.items():
            self._install_on(name, capture)

    def remove_triggers(self) -> None:
        """Drop our triggers, also those whose table another process has dropped."""
        self._remade = self._connection.busy
        raw = self._connection.raw
        left = self._installed_names()
        for name in left:
            try:
                raw(f"DROP TRIGGER IF EXISTS temp.{quote(name)}")
            except sqlite3.OperationalError:
                continue  # an orphan; found again below
        left = self._installed_names()
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

    # -- private -------------------------------------------------------------------------------

    def _record(self, *entry: Any) -> None:
        # Called by SQLite inside the user's statement: it must not raise.
        if self._overflowed and entry[0] in self._overflowed:
            return
        entries = self.entries
        if not entries and self._carrying:
            # Asked here, where the write lock is held: nobody else's commit comes before this one,
            # and no lock has to be taken for the question.
            try:
                self.elsewhere = self._elsewhere()
            except Exception:
                self.elsewhere = True  # then nothing is taken from this entry
        if len(entries) < _CARRYING:
            entries.append(entry)
        else:
            entries.append(self.numbers[entry[0]].without_carried(entry))
            if len(entries) >= ROW_LIMIT:
                self._collapse()

    def _collapse(self) -> None:
        numbers = {entry[0] for entry in self.entries}
        tables = {self.numbers[number].table.id for number in numbers}
        self._overflowed |= numbers
        self.dirty |= tables
        self.entries.clear()
        # What lay before a savepoint must survive a rollback to it.
        self._savepoints = [(name, 0, dirty | tables) for name, _, dirty in self._savepoints]

    def _restore(self) -> None:
        if self._loose:
            self._loose = False
            self._mend()

    def _mend(self) -> None:
        try:
            if self._moved():
                self.schema = True
            self.reinstall()
        except sqlite3.OperationalError as error:
            if not locked_elsewhere(error):
                raise
            # Another process has locked the file meanwhile. What the user did is done; the end of
            # the transaction, or else the next, makes our triggers.
            self.schema = True

    def _verify(self) -> None:
        # Triggers made or dropped inside a transaction come and go with its rollback.
        if self.tables and (self._remade or len(self._installed_names()) != self._expected()):
            self._mend()

    def _expected(self) -> int:
        return 3 * sum(capture.installed is not None for capture in self.tables.values())

    def _installed_names(self) -> list[str]:
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
    call = _PREFIX + "row"
    on = f"ON {table.qualified}"
    yield (
        f"CREATE TEMP TRIGGER {_trigger(capture, 'i')} AFTER INSERT {on}"
        f" BEGIN SELECT {call}({number}, {INSERTED}, {ALL_COLUMNS}{new}); END"
    )
    yield (
        f"CREATE TEMP TRIGGER {_trigger(capture, 'd')} AFTER DELETE {on}"
        f" BEGIN SELECT {call}({number}, {DELETED}, {ALL_COLUMNS}{old}); END"
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
        f" BEGIN SELECT {call}({number}, {UPDATED}, {bits}{old}{new}); END"
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
