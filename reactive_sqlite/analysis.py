"""SQL text to region: what a query reads, asked of SQLite's own compiler."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reactive_sqlite.catalog import Catalog, Table
from reactive_sqlite.connection import Connection
from reactive_sqlite.dialect import noted
from reactive_sqlite.equality import kind_of
from reactive_sqlite.pins import Literal, Parameter, Shape, prove
from reactive_sqlite.region import Region, TableName
from reactive_sqlite.statement import (
    DELETE,
    INSERT,
    MASTER,
    QUERY,
    UPDATE,
    Statement,
    read_actions,
)
from reactive_sqlite.tokens import first_keyword

_BY_NAME = re.compile(r"\b(natural|using)\b", re.IGNORECASE)
_QUERY_WORDS = frozenset({"SELECT", "VALUES", "WITH"})
# Forbidden while anything else is compiled, since some statements (PRAGMA, ATTACH) act as they are.
_NOT_QUERY = frozenset(range(1, 34)) - QUERY - {DELETE, INSERT, UPDATE}


class Analysis:
    """What the compiler said of one query text, for one state of the schema."""

    __slots__ = ("columns", "everything", "shape", "tables")

    def __init__(
        self,
        connection: Connection,
        catalog: Catalog,
        sql: str,
        parameters: Any,
        *,
        free: bool = True,
    ) -> None:
        statement, program = compile_query(connection, sql, parameters)
        self.columns: tuple[str, ...] | None = None  # names of the result's, once it was fetched
        self.everything = False
        self.tables: dict[TableName, frozenset[str]] = {}
        self.shape: Shape | None = None
        found: dict[TableName, set[str]] = {}
        for schema, name, column in statement.reads:
            if name in MASTER:
                continue  # every schema change runs every query again
            for table in _meant(catalog, schema, name):
                self._read(catalog, table, column, found)
        opened = _opened(connection, program)
        for id, columns in _index_columns(connection, opened).items():
            # Rows come in an index's order, also by columns that the query does not name.
            if id in found:
                found[id] |= columns
        if self._joins_by_name(catalog, sql, statement.reads):
            # The columns compared are not reported; nor is a table of which no other is read.
            self.everything |= any(row[1] == "VOpen" for row in program)
            for id in _tables(connection, opened) & catalog.tables.keys():
                found.setdefault(id, set()).update(catalog.tables[id].columns)
        self.tables = {id: frozenset(columns - {""}) for id, columns in found.items()}
        if free and len(self.tables) == 1 and not self.everything:
            self.shape = _single(catalog, next(iter(self.tables)), prove(sql))

    def region(self, catalog: Catalog, parameters: Any) -> Region:
        """The region of this query with these parameters."""
        if self.everything:
            return Region(everything=True)
        pins: tuple[tuple[str, Any], ...] = ()
        if self.shape is not None:
            table = catalog.tables[next(iter(self.tables))]
            pins = proven_pins(table, _bound(self.shape, parameters))
        return Region(self.tables, pins)

    def _joins_by_name(
        self, catalog: Catalog, sql: str, reads: Iterable[tuple[str | None, str, str]]
    ) -> bool:
        """Whether the query, or a view that it reads, may hold a join that is NATURAL or USING."""
        views = {
            table.sql
            for schema, name, _ in reads
            for table in _meant(catalog, schema, name)
            if table.kind == "view"
        }
        return any(_BY_NAME.search(text) for text in (sql, *views))

    def _read(
        self, catalog: Catalog, table: Table, column: str, found: dict[TableName, set[str]]
    ) -> None:
        if table.kind == "view":
            return  # its base tables are reported as well
        if table.kind == "virtual":
            behind = catalog.behind(table)
            if behind is None:
                self.everything = True
            for id in behind or ():
                base = catalog.tables[id]
                found.setdefault(id, set()).update(base.columns if base.kind == "table" else ())
            return
        if not table.capturable and table.kind != "shadow":
            self.everything = True  # sqlite_sequence and its kin change unseen
        found.setdefault(table.id, set()).add(column)


def compile_query(
    connection: Connection, sql: str, parameters: Any
) -> tuple[Statement, list[tuple[Any, ...]]]:
    """Compile a query and return what it reads and its program; run nothing.

    Raises:
        ValueError: the statement is not a mere query.
        sqlite3.Error: as SQLite says, with the SQL as a note.
    """
    keyword = first_keyword(sql)
    if keyword in _QUERY_WORDS:
        # Nothing is forbidden: a virtual table's constructor may ask for what no query does.
        compiled = connection.explain(sql, parameters)
        statement = read_actions(compiled.actions)
        if not statement.writes:
            if compiled.error is not None:
                raise noted(compiled.error, sql)
            return statement, compiled.program
    else:
        compiled = connection.explain(sql, parameters, deny=_NOT_QUERY)
        if compiled.error is not None and not compiled.actions and keyword != "EXPLAIN":
            raise noted(compiled.error, sql)
    raise ValueError(f"only queries can be observed, and this is none: {sql.strip()}")


def proven_pins(table: Table, candidates: Sequence[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    """Keep the (column, value) equalities that compare in Python as they do in SQLite."""
    pins: dict[str, Any] = {}
    for name, value in candidates:
        column = name.lower()
        if column not in table.columns and column == (table.rowid_name or "").lower():
            continue
        if column not in table.columns and column in ("rowid", "_rowid_", "oid"):
            column = table.rowid_alias or column
        if column in pins or column not in table.columns:
            continue
        if not _compares_plainly(table, column, value) or column not in table.binary_columns:
            continue
        pins[column] = int(value) if type(value) is bool else value
    proven = tuple(sorted(pins.items()))
    # The same tuple where it is the same: thousands are kept for single keys.
    return (
        candidates if isinstance(candidates, tuple) and _same_pins(candidates, proven) else proven
    )


def _same_pins(one: Sequence[tuple[str, Any]], other: Sequence[tuple[str, Any]]) -> bool:
    return len(one) == len(other) and all(
        a[0] == b[0] and a[1] is b[1] for a, b in zip(one, other, strict=True)
    )


def _meant(catalog: Catalog, schema: str | None, name: str) -> list[Table]:
    if schema is not None:
        table = catalog.tables.get((schema, name))
        return [table] if table is not None else []
    return catalog.by_name.get(name, [])  # count(*) is reported without a schema: any of that name


def _single(catalog: Catalog, table: TableName, shape: Shape | None) -> Shape | None:
    if shape is None:
        return None
    meant = catalog.find(shape.table, shape.schema)
    return shape if meant is not None and meant.id == table and meant.kind == "table" else None


def _bound(shape: Shape, parameters: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for column, operand in shape.equalities:
        if isinstance(operand, Literal):
            found.append((column, operand.value))
        else:
            try:
                found.append((column, _parameter(operand, parameters)))
            except (KeyError, IndexError):
                continue
    return found


def _parameter(operand: Parameter, parameters: Any) -> Any:
    if isinstance(parameters, Mapping):
        return parameters[operand.key]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(operand.key, str):
        raise KeyError(operand.key)
    return parameters[operand.key]


def _compares_plainly(table: Table, column: str, value: Any) -> bool:
    affinity = _affinity(table.columns[column].declared_type)
    kind = kind_of(value)
    if kind is bool:
        kind = int
    if kind is float and value != value:
        return False
    if affinity in ("INTEGER", "REAL", "NUMERIC"):
        return kind in (int, float)
    if affinity == "TEXT":
        return kind is str
    return kind in (int, float, str, bytes)


def _affinity(declared: str) -> str:
    """The affinity of a declared type, by the five rules of SQLite's documentation.

    ANY is that of a BLOB in a STRICT table; taken for NUMERIC like elsewhere, only numbers pin it.
    """
    kind = declared.upper()
    if "INT" in kind:
        return "INTEGER"
    if any(part in kind for part in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if not kind or "BLOB" in kind:
        return "BLOB"
    if any(part in kind for part in ("REAL", "FLOA", "DOUB")):
        return "REAL"
    return "NUMERIC"


def _opened(connection: Connection, program: Sequence[tuple[Any, ...]]) -> set[tuple[str, int]]:
    """The tables and indexes that a program reads: by the schema and the page where each begins."""
    opened = {(row[4], row[3]) for row in program if row[1] in ("OpenRead", "ReopenIdx")}
    if not opened:
        return set()
    schemas = {number: name for number, name, _ in connection.raw("PRAGMA database_list")}
    return {(schemas[number], root) for number, root in opened if number in schemas}


def _tables(connection: Connection, opened: Iterable[tuple[str, int]]) -> set[TableName]:
    return {
        (schema.lower(), table.lower())
        for schema, root in opened
        for (table,) in connection.raw(
            f"SELECT tbl_name FROM {_master(schema)} WHERE rootpage = ?", (root,)
        )
    }


def _index_columns(
    connection: Connection, opened: Iterable[tuple[str, int]]
) -> dict[TableName, set[str]]:
    found: dict[TableName, set[str]] = {}
    for schema, root in opened:
        for index, table in connection.raw(
            f"SELECT name, tbl_name FROM {_master(schema)} WHERE rootpage = ? AND type = 'index'",
            (root,),
        ):
            rows = connection.raw("SELECT name FROM pragma_index_info(?, ?)", (index, schema))
            columns = {name.lower() for (name,) in rows if name is not None}
            if len(columns) < len(rows):
                # An expression, or the rowid: any column may be behind it.
                columns |= {
                    name.lower()
                    for (name,) in connection.raw(
                        "SELECT name FROM pragma_table_xinfo(?, ?)", (table, schema)
                    )
                }
            found.setdefault((schema.lower(), table.lower()), set()).update(columns)
    return found


def _master(schema: str) -> str:
    return "temp.sqlite_temp_master" if schema == "temp" else f'"{schema}".sqlite_master'
