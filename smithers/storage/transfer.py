"""Moving a database: all of its rows to a file, and back."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, cast

from reactive_sqlite.connection import Connection
from reactive_sqlite.database import Database
from reactive_sqlite.dialect import quote, sqlite3
from reactive_sqlite.opening import connect, path_text
from smithers.dumpfile import BrokenText, DumpReader, DumpWriter, check_target, written
from smithers.errors import DumpConflict, DumpTooNew, InTransaction
from smithers.schema import INTERNAL_TABLES, SCHEMA_VERSION, TABLES
from smithers.schema.identity import MARKED
from smithers.workspace import Workspace

MOVED: tuple[str, ...] = (*TABLES, *INTERNAL_TABLES)

_BUSY_TIMEOUT = 5.0
_META = "SELECT value FROM _smithers_meta WHERE name = ?"
_SET_META = "UPDATE _smithers_meta SET value = ? WHERE name = ?"
_LOADING = "INSERT INTO _smithers_meta (name, value) VALUES ('loading', '1')"
_LOADED = "DELETE FROM _smithers_meta WHERE name = 'loading'"
_COLUMNS = "SELECT name, pk FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid"
# The last numbers that were given, so that none is given twice.
_SEQUENCES = f"SELECT name, seq FROM sqlite_sequence WHERE NOT {MARKED} ORDER BY name"
_RAISE = "UPDATE sqlite_sequence SET seq = max(seq, :seq) WHERE name = :name"
_BEGIN = """
    INSERT INTO sqlite_sequence (name, seq) SELECT :name, :seq WHERE NOT EXISTS (
        SELECT 1 FROM sqlite_sequence WHERE name = :name
    )
"""
_APPLIED = "UPDATE transitions SET apply = 1 WHERE seq = ?"
_TOTAL = "total_"
# Applied rows that are marked as such at a time.
_BATCH = 1_000


class Transfer:
    """Dump all rows of this package's tables to a file, and load them again."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._database = workspace.database

    def dump(self, path: str | os.PathLike[str]) -> dict[str, int]:
        """Write every row to a file; `SmithersDB.dump` is its public face."""
        target = check_target(path, self._database.path)
        with self._snapshot() as connection, written(target) as file:
            writer = DumpWriter(file)
            writer.header(
                {
                    "schema": SCHEMA_VERSION,
                    "database": _one(connection, _META, "database"),
                    "pruned": int(_one(connection, _META, "pruned")),
                    "sequences": {
                        name: seq
                        for name, seq in connection.execute(_SEQUENCES).fetchall()
                        if name in MOVED
                    },
                }
            )
            counts = {table: _write_table(connection, writer, table) for table in MOVED}
            writer.end({table: count for table, count in counts.items() if count})
        return counts

    def load(self, path: str | os.PathLike[str]) -> dict[str, int]:
        """Read every row of a dump; `SmithersDB.load` is its public face."""
        name = path_text(path, "the path of a dump")
        self._workspace.check_writable(f"load {name!r}")
        self._database.conn.execute("SELECT 1")  # raises what there is to be raised once closed
        self._refuse_transaction("load a dump")
        with open(name, "rb") as file:
            reader = DumpReader(file, name)
            _check_version(reader, name)
            try:
                # Not the transaction that would number all of this as one commit of ours.
                with Database.transaction(self._database):
                    return _Loading(self._workspace, reader, name).run()
            except sqlite3.IntegrityError as error:
                raise DumpConflict(name, reader.line, str(error)) from error
            except UnicodeEncodeError as error:
                # The escapes of JSON can write lone surrogates, UTF-8 cannot.
                raise reader.damaged(str(error)) from error

    @contextmanager
    def _snapshot(self) -> Generator[Connection]:
        """Read one state of the database, while everybody goes on writing."""
        self._refuse_transaction("dump")
        database = self._database
        database.conn.execute("SELECT 1")  # raises what there is to be raised once it is closed
        if database.path is None:
            with Database.transaction(database), _bytes_kept(database.conn):
                yield database.conn
            return
        # A transaction of the handle's own connection would keep its other threads waiting.
        connection = connect(
            database.path, read_only=True, busy_timeout=_BUSY_TIMEOUT, synchronous="NORMAL"
        )
        try:
            connection.raw("BEGIN")
            with _bytes_kept(connection):
                yield connection
        finally:
            connection.close()

    def _refuse_transaction(self, action: str) -> None:
        if not self._database.closed and self._database.conn.owned_here():
            raise InTransaction(action)


class _Loading:
    """One dump on its way into the database, inside the transaction that is all of it."""

    def __init__(self, workspace: Workspace, reader: DumpReader, path: str) -> None:
        self._workspace = workspace
        self._connection = workspace.database.conn
        self._reader = reader
        self._path = path
        self._tables = {table: _Target(self._connection, table) for table in MOVED}
        self._added = dict.fromkeys(MOVED, 0)
        self._empty = False  # so that there is nothing to compare a row with
        self._applied: list[tuple[Any]] = []
        self._totals: list[dict[str, Any]] = []

    def run(self) -> dict[str, int]:
        execute = self._connection.execute
        self._accept(self._reader.header)
        execute("PRAGMA defer_foreign_keys = ON")
        execute(_LOADING)
        for table, row in self._reader.rows():
            self._take(table, row)
        self._mark_applied()
        for totals in self._totals:
            self._tables["executions"].set(totals)
        execute(_LOADED)
        return self._added

    def _accept(self, header: Mapping[str, Any]) -> None:
        database, pruned = header.get("database"), header.get("pruned")
        sequences = _sequences(header.get("sequences"))
        if not isinstance(database, str) or type(pruned) is not int or sequences is None:
            raise self._reader.damaged("the header does not say what is dumped")
        self._refuse_live()
        execute = self._connection.execute
        if not any(_one(self._connection, target.any_row) for target in self._tables.values()):
            self._empty = True
            execute(_SET_META, (database, "database"))
            execute(_SET_META, (str(pruned), "pruned"))
        elif _one(self._connection, _META, "database") != database:
            raise self._conflict("it is of another database, and this one is not empty")
        elif int(_one(self._connection, _META, "pruned")) != pruned:
            raise self._conflict("the history of this database was pruned to another point")
        for name, seq in sequences.items():
            execute(_BEGIN, {"name": name, "seq": seq})
            execute(_RAISE, {"name": name, "seq": seq})

    def _refuse_live(self) -> None:
        ownership = self._workspace.ownership
        for id in ownership.live_executions():
            ownership.refuse_others(id)

    def _take(self, table: str, row: dict[str, Any]) -> None:
        target = self._tables.get(table)
        if target is None:
            raise self._conflict(f"there is no table {table!r}")
        strange = row.keys() - target.columns
        if strange or not row.keys() >= target.key:
            wrong = f"no column {min(strange)!r}" if strange else "not its key in this row"
            raise self._conflict(f"table {table!r} has {wrong}")
        try:
            same = None if self._empty else target.find(row)
            if same is None:
                self._add(table, target, row)
            elif not same:
                key = ", ".join(repr(row[name]) for name in sorted(target.key))
                raise self._conflict(f"{table} has another row {key}")
        except OverflowError as error:
            raise self._reader.damaged(str(error)) from error
        if table == "executions":
            self._totals.append(
                {name: value for name, value in row.items() if name.startswith(_TOTAL)}
                | {name: row[name] for name in target.key}
            )

    def _add(self, table: str, target: _Target, row: dict[str, Any]) -> None:
        applied = table == "transitions" and row.get("apply") == 1
        # What was applied to the state once is not to be applied again.
        target.insert({**row, "apply": 0} if applied else row)
        self._added[table] += 1
        if applied:
            self._applied.append((row["seq"],))
            if len(self._applied) >= _BATCH:
                self._mark_applied()

    def _mark_applied(self) -> None:
        self._connection.executemany(_APPLIED, self._applied)
        self._applied.clear()

    def _conflict(self, reason: str) -> DumpConflict:
        return DumpConflict(self._path, self._reader.line, reason)


class _Target:
    """A table that rows are loaded into.

    Attributes:
        columns: the names of what can be written.
        key: those of its primary key.
        any_row: asks whether it has a row.
    """

    def __init__(self, connection: Connection, table: str) -> None:
        self._connection = connection
        self._table = quote(table)
        described = connection.execute(_COLUMNS, (table,)).fetchall()
        self.columns = frozenset(name for name, _ in described)
        self.key = frozenset(name for name, position in described if position)
        self.any_row = f"SELECT EXISTS (SELECT 1 FROM {self._table})"
        self._statements: dict[tuple[Any, ...], str] = {}

    def find(self, row: Mapping[str, Any]) -> bool | None:
        """Tell whether the table has this row; None when it has none with this key."""
        sql = self._statement("find", row, self._finding)
        values = [*_bound(row.values()), *_bound(row[name] for name in sorted(self.key))]
        found = self._connection.execute(sql, values).fetchone()
        return None if found is None else bool(found[0])

    def insert(self, row: Mapping[str, Any]) -> None:
        """Insert a row."""
        sql = self._statement("insert", row, self._inserting)
        self._connection.execute(sql, _bound(row.values()))

    def set(self, row: Mapping[str, Any]) -> None:
        """Set columns of the row with this key."""
        sql = self._statement("set", row, self._setting)
        values = [*_bound(row.values()), *_bound(row[name] for name in sorted(self.key))]
        self._connection.execute(sql, values)

    def _statement(
        self, kind: str, row: Mapping[str, Any], make: Callable[[Mapping[str, Any]], str]
    ) -> str:
        names = (kind, *row, *(name for name, value in row.items() if type(value) is BrokenText))
        sql = self._statements.get(names)
        if sql is None:
            sql = self._statements[names] = make(row)
        return sql

    def _finding(self, row: Mapping[str, Any]) -> str:
        same = " AND ".join(f"{quote(name)} IS {_mark(value)}" for name, value in row.items())
        return f"SELECT {same} FROM {self._table} WHERE {self._by_key(row)}"

    def _inserting(self, row: Mapping[str, Any]) -> str:
        names = ", ".join(map(quote, row))
        marks = ", ".join(map(_mark, row.values()))
        return f"INSERT INTO {self._table} ({names}) VALUES ({marks})"

    def _setting(self, row: Mapping[str, Any]) -> str:
        listed = ", ".join(f"{quote(name)} = {_mark(value)}" for name, value in row.items())
        return f"UPDATE {self._table} SET {listed} WHERE {self._by_key(row)}"

    def _by_key(self, row: Mapping[str, Any]) -> str:
        return " AND ".join(f"{quote(name)} = {_mark(row[name])}" for name in sorted(self.key))


def _write_table(connection: Connection, writer: DumpWriter, table: str) -> int:
    described = connection.execute(_COLUMNS, (table,)).fetchall()
    names = [name for name, _ in described]
    listed = ", ".join(map(quote, names))
    key = ", ".join(quote(name) for name, position in described if position)
    count = 0
    # Past the buffering of the connection's own cursor: row by row, however large the table.
    cursor = sqlite3.Cursor(connection)
    for row in cursor.execute(f"SELECT {listed} FROM {quote(table)} ORDER BY {key}"):
        writer.row(table, dict(zip(names, row, strict=True)))
        count += 1
    return count


def _check_version(reader: DumpReader, path: str) -> None:
    schema = reader.header.get("schema")
    if type(schema) is not int:
        raise reader.damaged("the header does not say what is dumped")
    if schema > SCHEMA_VERSION:
        raise DumpTooNew(path, "schema", found=schema, supported=SCHEMA_VERSION)


def _sequences(found: Any) -> dict[str, int] | None:
    if not isinstance(found, dict):
        return None
    sequences = cast("dict[str, Any]", found)
    right = all(
        name in MOVED and type(seq) is int and 0 <= seq < 2**63 for name, seq in sequences.items()
    )
    return sequences if right else None


@contextmanager
def _bytes_kept(connection: Connection) -> Generator[None]:
    """Have a text that is no UTF-8 read as it is, not refused."""
    factory = connection.text_factory
    connection.text_factory = _text
    try:
        yield
    finally:
        connection.text_factory = factory


def _text(content: bytes) -> str | BrokenText:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return BrokenText(content)


def _one(connection: Connection, sql: str, *values: Any) -> Any:
    return connection.execute(sql, values).fetchone()[0]


def _mark(value: Any) -> str:
    return "CAST(? AS TEXT)" if type(value) is BrokenText else "?"


def _bound(values: Iterable[Any]) -> list[Any]:
    return [value.content if type(value) is BrokenText else value for value in values]
