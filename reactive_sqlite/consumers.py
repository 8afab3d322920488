"""Who reads the change log and how far each has come: cursors that are kept in the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from reactive_sqlite.catalog import Catalog
from reactive_sqlite.changelog import KEPT, NEEDED, ChangeLog, placeholders
from reactive_sqlite.changes import Operation
from reactive_sqlite.connection import Connection
from reactive_sqlite.dialect import sqlite3
from reactive_sqlite.entry import ALL_COLUMNS, DELETED, INSERTED
from reactive_sqlite.equality import same_value
from reactive_sqlite.errors import ConsumerDropped
from reactive_sqlite.tracking import (
    CONSUMERS,
    LOG,
    TRACKED,
    Generation,
    as_json,
    damaged,
    names_from_json,
    same_shape,
)

_OPERATIONS: dict[int, Operation] = {INSERTED: "insert", DELETED: "delete"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Change:
    """One row that some program inserted, updated or deleted, as the change log has it.

    `seq` counts up in the order of commits. `key` is the primary key after the change (before it,
    for a delete): the bare value of a single column, a tuple of several, the rowid where the table
    declares none. `old_key` is the key before an update, else None. `columns` names the columns
    that an update changed, generated ones that are not stored apart; None where that is not known,
    and for an insert or a delete. `at` is the time of the statement, to the millisecond, by the
    clock of the machine that ran it. `table` is in lower case.

    The log has no values: what the row holds now is for the table to tell.
    """

    seq: int
    table: str
    op: Operation
    key: Any
    old_key: Any
    columns: frozenset[str] | None
    at: datetime


@dataclass(frozen=True, slots=True)
class FeedStatus:
    """A consumer of the change log: its tables (None: all that are tracked), the number of the
    last change it has acknowledged, and how many changes are still to come."""

    consumer: str
    tables: tuple[str, ...] | None
    cursor: int
    lag: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes in order, the number up to which the log was read, and whether that is its end."""

    changes: tuple[Change, ...]
    position: int
    complete: bool


class Consumers:
    """The consumers of one change log; used with the connection's lock held."""

    def __init__(
        self, log: ChangeLog, connection: Connection, catalog: Callable[[], Catalog]
    ) -> None:
        self._log = log
        self._connection = connection
        self._catalog = catalog
        self._judged: tuple[Catalog, dict[int, bool]] | None = None

    def register(self, name: str, tables: tuple[str, ...] | None, start: str) -> None:
        """Remember the consumer; one that is known keeps its cursor. Inside a transaction."""
        run = self._connection.execute
        wanted = _listed(tables)
        self._log.create(run)
        known = self._row(name)
        if known is None:
            cursor = 0 if start == "beginning" else self._log.newest()
            run(
                f"INSERT INTO main.{CONSUMERS} (name, cursor, tables) VALUES (?, ?, ?)",
                (name, cursor, wanted),
            )
        elif known[1] != wanted:
            run(f"UPDATE main.{CONSUMERS} SET tables = ? WHERE name = ?", (wanted, name))

    def is_registered(self, name: str, tables: tuple[str, ...] | None) -> bool:
        """Whether the consumer is known with just these tables."""
        if not self._log.exists:
            return False
        known = self._row(name)
        return known is not None and known[1] == (
            None if tables is None else as_json(sorted(tables))
        )

    def cursor(self, name: str) -> int:
        """Return the number of the last change that the consumer has acknowledged.

        Raises:
            ConsumerDropped: there is no such consumer any more.
        """
        row = self._row(name)
        if row is None:
            raise ConsumerDropped(name)
        if type(row[0]) is not int:
            raise damaged(row[0])
        return row[0]

    def acknowledge(self, name: str, seq: int) -> None:
        """Move the cursor on to the number, never back; without the lock. Raises as `cursor`."""
        moved = self._connection.execute(
            f"UPDATE main.{CONSUMERS} SET cursor = ? WHERE name = ? AND cursor < ?",
            (seq, name, seq),
        )
        if not moved.rowcount:
            with self._connection.exclusive():
                self.cursor(name)

    def drop(self, name: str) -> bool:
        """Forget the consumer; False when there is none of that name. Inside a transaction."""
        if not self._log.exists:
            return False
        run = self._connection.execute
        dropped = run(f"DELETE FROM main.{CONSUMERS} WHERE name = ?", (name,)).rowcount
        if dropped:
            self.trim(None, keep=True)
        return bool(dropped)

    def statuses(self) -> list[FeedStatus]:
        """Return all consumers by name."""
        if not self._log.exists:
            return []
        rows = self._connection.raw(
            f"SELECT name, tables, cursor, (SELECT count(*) FROM main.{LOG} AS l"
            f" JOIN main.{TRACKED} AS t ON t.id = l.tbl"
            " WHERE l.seq > c.cursor AND (c.tables IS NULL OR instr(c.tables, t.listed)))"
            f" FROM main.{CONSUMERS} AS c ORDER BY name"
        )
        return [
            FeedStatus(name, None if tables is None else names_from_json(tables), cursor, lag)
            for name, tables, cursor, lag in rows
        ]

    def trim(self, before: int | None, *, keep: bool = False) -> int:
        """Delete what no consumer needs (with `keep`, only beyond the newest that are always kept)
        and return how many entries that were. Inside a transaction."""
        if not self._log.exists:
            return 0
        sql = f"DELETE FROM main.{LOG} WHERE NOT {NEEDED}"
        values: list[int] = []
        if before is not None:
            sql += " AND at < ?"
            values.append(before)
        if keep:
            sql += " AND seq <= ?"
            values.append(self._log.newest() - KEPT)
        return int(self._connection.execute(sql, values).rowcount)

    def read(self, tables: tuple[str, ...] | None, after: int, limit: int) -> Batch:
        """Return at most so many entries of the log as changes, after a number."""
        raw = self._connection.raw
        newest = self._log.newest()  # first: what is up to here does not change any more
        if newest <= after:
            return Batch((), after, complete=True)
        where, values = "seq > ? AND seq <= ?", list[Any]((after, newest))
        if tables is not None:
            where += f" AND tbl IN (SELECT id FROM main.{TRACKED} WHERE name IN"
            where += f" ({placeholders(tables)}))"
            values += tables
        sql = f"FROM main.{LOG} WHERE {where} ORDER BY seq LIMIT ?"
        try:
            rows = raw(f"SELECT * {sql}", (*values, limit))
        except sqlite3.OperationalError as error:
            if "decode" not in str(error).lower():
                raise
            rows = self._leniently(sql, (*values, limit))
        generations = self._log.generations() if rows else {}
        changes = [self._change(row, generations[row[1]]) for row in rows]
        complete = len(rows) < limit
        position = max(after, newest) if complete else rows[-1][0]
        return Batch(tuple([c for c in changes if c is not None]), position, complete)

    # -- private ---------------------------------------------------------------------------------

    def _row(self, name: str) -> tuple[Any, ...] | None:
        sql = f"SELECT cursor, tables FROM main.{CONSUMERS} WHERE name = ?"
        rows = self._connection.raw(sql, (name,))
        return rows[0] if rows else None

    def _leniently(self, sql: str, values: Any) -> list[tuple[Any, ...]]:
        """Read rows of which a key is a text that is no UTF-8: a change must not block the rest."""
        names = [row[1] for row in self._connection.raw(f"PRAGMA main.table_info({LOG})")]
        texts = ", ".join(f"CASE typeof({n}) WHEN 'text' THEN CAST({n} AS BLOB) END" for n in names)
        # The numbers are never texts; a text in its own column is what cannot be read.
        shown = ", ".join(f"CASE typeof({n}) WHEN 'text' THEN NULL ELSE {n} END" for n in names)
        rows = self._connection.raw(f"SELECT {shown}, {texts} {sql}", values)
        return [
            tuple(
                value if text is None else text.decode(errors="surrogateescape")
                for value, text in zip(row[: len(names)], row[len(names) :], strict=True)
            )
            for row in rows
        ]

    def _change(self, row: tuple[Any, ...], generation: Generation) -> Change | None:
        """Return an entry as a change; None for an UPDATE that changed nothing."""
        seq, _, op, changed, at, *_ = row
        key, old_key = generation.keys(row)
        when = _EPOCH + timedelta(milliseconds=at)
        if op in _OPERATIONS:
            return Change(seq, generation.name, _OPERATIONS[op], _bare(key), None, None, when)
        columns: frozenset[str] | None = None
        if changed and generation.bits(changed) != ALL_COLUMNS:
            moved = [
                name
                for name, old, new in zip(generation.key, old_key, key, strict=True)
                if not same_value(old, new)
            ]
            columns = frozenset([*moved, *generation.changed(changed)])
        elif not changed and self._names_all(generation):
            return None
        return Change(seq, generation.name, "update", _bare(key), _bare(old_key), columns, when)

    def _names_all(self, generation: Generation) -> bool:
        """Whether the generation names every column that its table has now."""
        catalog = self._catalog()
        if self._judged is None or self._judged[0] is not catalog:
            self._judged = catalog, {}
        known = self._judged[1]
        if generation.id not in known:
            table = catalog.tables.get(("main", generation.name))
            known[generation.id] = table is not None and same_shape(generation, table)
        return known[generation.id]


def milliseconds(moment: datetime | timedelta) -> int:
    """Write a moment, or an age, as the log does.

    Raises OverflowError, or ValueError where there is no time zone, for one outside the calendar.
    """
    if isinstance(moment, timedelta):
        moment = datetime.now(UTC) - moment
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


def _listed(tables: tuple[str, ...] | None) -> str | None:
    return None if tables is None else as_json(sorted(tables))


def _bare(key: tuple[Any, ...]) -> Any:
    return key[0] if len(key) == 1 else key or None
