"""The ledger of a connection: which rows, and which key values, the open transaction has touched.

`triggers` hand each changed row to a Python function, here, as an `entry`. A Python list does not
roll back by itself, so savepoints remember how long it was.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container
from typing import Any

from reactive_sqlite.catalog import Table
from reactive_sqlite.connection import Connection
from reactive_sqlite.dialect import locked_elsewhere, sqlite3
from reactive_sqlite.entry import Entry
from reactive_sqlite.region import TableName
from reactive_sqlite.statement import Statement
from reactive_sqlite.triggers import FUNCTION, Triggers

# Beyond so many captured rows in one transaction only the tables are remembered: a bulk load must
# not grow memory, and looking each row up would cost more than running the queries again.
ROW_LIMIT = 10_000
# Values of a row are carried along only in the first entries of a transaction: they may be large.
_CARRYING = 16
# Said as well where a function of the user's has failed: then it fails once more.
_FUNCTION_FAILED = "user-defined function raised exception"


class Capture:
    """The ledger of one connection: see `ledger.Ledger` for who calls what, and when."""

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
        self.triggers = triggers = Triggers(connection, find)
        self.numbers = triggers.numbers  # what the entries are made of, by table number
        self.entries: list[Entry] = []
        self.dirty: set[TableName] = set()
        self.schema = False  # the schema is another one, whoever changed it
        self.redefined = False  # it was the open transaction
        self.wrote_any = False
        self.due = False  # something waits for the end of the transaction
        self.elsewhere = True  # another connection may have committed before the first entry
        self._connection = connection
        self._on_commit = on_commit
        self.committed_alone = on_commit_alone
        self._on_rollback = on_rollback
        self.deliver = on_deliver
        self._moved = moved
        self._elsewhere = elsewhere
        self._look = look
        self._overflowed: set[int] = set()
        self._savepoints: list[tuple[str, int, set[TableName]]] = []
        # Weakly: what SQLite holds no collection finds, so a database that was dropped without
        # being closed would keep its file, and the thread that watches it, for ever.
        known = weakref.ref(self)

        def record(*entry: Any) -> None:
            found = known()
            if found is not None:
                found._record(*entry)

        connection.create_function(FUNCTION, -1, record)

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
        self.dirty |= self.triggers.blind(statement.writes)

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
        self._empty()
        self._verify()
        self.triggers.remade = False
        self._on_rollback()

    def committed(self) -> None:
        self._restore()
        self._on_commit()

    def make_way(self) -> None:
        """Take our triggers away: one naming a column would break the user's ALTER TABLE."""
        self.triggers.make_way()

    def repair(self, error: Exception) -> bool:
        """After a failed statement: True if it may have been for our triggers, and can be tried
        again. Another process had changed the schema under them, and they have been made anew; or
        a text that they hand on is no UTF-8, and they are away until the transaction ends."""
        triggers = self.triggers
        if not triggers.tables:
            return False
        if self._moved():
            self.schema = True
            triggers.reinstall()
            return True
        if triggers.loose or str(error) != _FUNCTION_FAILED:
            return False
        triggers.make_way()
        self.dirty |= triggers.tables.keys()
        return True

    def pragma(self) -> None:
        """A PRAGMA ran: without recursive triggers the rows that REPLACE evicts are not seen."""
        recursive = self._connection.raw("PRAGMA recursive_triggers")[0][0]
        self.triggers.evictions_seen = bool(recursive)

    # -- used by the broker --------------------------------------------------------------------

    def clear(self) -> None:
        """Begin an empty transaction."""
        self._empty()
        if self.triggers.remade:
            self.triggers.remade = self._connection.busy

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
                self.triggers.unwatch(table)

    # -- private -------------------------------------------------------------------------------

    def _record(self, *entry: Any) -> None:
        # Called by SQLite inside the user's statement: it must not raise.
        if self._overflowed and entry[0] in self._overflowed:
            return
        entries = self.entries
        if not entries and self.triggers.carrying:
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

    def _empty(self) -> None:
        self.schema = self.redefined = self.wrote_any = self.due = False
        self.entries.clear()
        if self.dirty or self._overflowed or self._savepoints:
            self.dirty.clear()
            self._overflowed.clear()
            self._savepoints.clear()

    def _restore(self) -> None:
        if self.triggers.loose:
            self.triggers.loose = False
            self._mend()

    def _verify(self) -> None:
        if not self.triggers.are_as_made():
            self._mend()

    def _mend(self) -> None:
        try:
            if self._moved():
                self.schema = True
            self.triggers.reinstall()
        except sqlite3.OperationalError as error:
            if not locked_elsewhere(error):
                raise
            # Another process has locked the file meanwhile. What the user did is done; the end of
            # the transaction, or else the next, makes our triggers.
            self.schema = True
