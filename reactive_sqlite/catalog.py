"""What tables a connection can see now, as SQLite's own catalog tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reactive_sqlite.dialect import quote
from reactive_sqlite.region import TableName
from reactive_sqlite.tokens import tokenize

Fetch = Callable[..., list[tuple[Any, ...]]]

_ROWID_NAMES = ("rowid", "_rowid_", "oid")
# Modules whose content is wholly in their own shadow tables (and, for full text, a content table).
_KNOWN_MODULES = frozenset({"fts3", "fts4", "fts5", "rtree", "rtree_i32", "geopoly"})


@dataclass(frozen=True, slots=True)
class Column:
    """One column as PRAGMA table_xinfo describes it."""

    name: str
    declared_type: str
    key_position: int
    hidden: int

    @property
    def plain(self) -> bool:
        """Whether it is neither generated nor hidden."""
        return not self.hidden


class Table:
    """A table, view or virtual table of one schema."""

    def __init__(
        self, fetch: Fetch, schema: str, name: str, kind: str, sql: str, *, without_rowid: bool
    ) -> None:
        self.schema = schema
        self.name = name
        self.kind = kind  # table, view, virtual, shadow
        self.sql = sql
        self.without_rowid = without_rowid
        self._fetch = fetch

    @property
    def id(self) -> TableName:
        return self.schema.lower(), self.name.lower()

    @property
    def qualified(self) -> str:
        """The name as SQL spells it."""
        return f"{quote(self.schema)}.{quote(self.name)}"

    @property
    def capturable(self) -> bool:
        """Whether SQLite allows a trigger on it."""
        return self.kind == "table" and not self.name.lower().startswith("sqlite_")

    @cached_property
    def columns(self) -> dict[str, Column]:
        """Its columns by lower-case name, hidden and generated ones included."""
        rows = self._fetch(
            "SELECT name, type, pk, hidden FROM pragma_table_xinfo(?, ?) ORDER BY cid",
            (self.name, self.schema),
        )
        return {
            name.lower(): Column(name, declared, position, hidden)
            for name, declared, position, hidden in rows
        }

    @cached_property
    def primary_key(self) -> tuple[str, ...]:
        """The declared key's columns in key order; empty when none is declared."""
        keyed = [column for column in self.columns.values() if column.key_position]
        return tuple(c.name for c in sorted(keyed, key=lambda column: column.key_position))

    @cached_property
    def rowid_alias(self) -> str | None:
        """The INTEGER PRIMARY KEY column that is the rowid itself, in lower case."""
        key = self.primary_key
        if self.without_rowid or len(key) != 1:
            return None
        column = key[0].lower()
        if self.columns[column].declared_type.upper() != "INTEGER":
            return None
        # "INTEGER PRIMARY KEY DESC" is not the rowid; SQLite then keeps an index for the key.
        indexed = self._fetch(
            "SELECT 1 FROM pragma_index_list(?, ?) WHERE origin = 'pk'", (self.name, self.schema)
        )
        return None if indexed else column

    @cached_property
    def rowid_name(self) -> str | None:
        """How the hidden rowid can be named in SQL; None when it has no name of its own."""
        if self.without_rowid or self.rowid_alias is not None:
            return None
        return next((name for name in _ROWID_NAMES if name not in self.columns), None)

    @cached_property
    def unique_columns(self) -> frozenset[str] | None:
        """Lower-case names of the columns that are unique beside the primary key; None when an
        expression is."""
        names = self._fetch(
            "SELECT c.name FROM pragma_index_list(?, ?) AS i, pragma_index_info(i.name, ?) AS c"
            " WHERE i.[unique] AND i.origin <> 'pk'",
            (self.name, self.schema, self.schema),
        )
        if any(name is None for (name,) in names):
            return None
        return frozenset(name.lower() for (name,) in names)

    @cached_property
    def binary_columns(self) -> frozenset[str]:
        """Lower-case names of the columns that compare by COLLATE BINARY."""
        return frozenset(name for name in self.columns if self._collation(name) == "BINARY")

    @cached_property
    def only_after_triggers(self) -> bool:
        """Whether no trigger of it runs before its row is written, as far as their texts say."""
        for master in (f"{quote(self.schema)}.sqlite_master", "temp.sqlite_temp_master"):
            for (sql,) in self._fetch(
                f"SELECT sql FROM {master} WHERE type = 'trigger' AND lower(tbl_name) = lower(?)",
                (self.name,),
            ):
                # SQLite keeps them as CREATE TRIGGER, the name, and what the user wrote behind it.
                tokens = tokenize(sql or "") or []
                if len(tokens) < 4 or tokens[3].keyword() != "AFTER":
                    return False
        return True

    def _collation(self, column: str) -> str:
        # There is no pragma for a column's collation: ask the compiler which one a comparison
        # uses. The unary plus keeps it from seeking in an index, which would hide the answer.
        program = self._fetch(
            f"EXPLAIN SELECT 1 FROM {self.qualified}"
            f" WHERE +{quote(self.columns[column].name)} > x''"
        )
        compared = [row[5] for row in program if row[1] in ("Le", "Lt", "Gt", "Ge")]
        if len(compared) != 1:
            return "?"
        # A rowid is compared without any; else it is spelled "NOCASE-8" or the like.
        return compared[0].rpartition("-")[0].upper() if compared[0] else "BINARY"


class Catalog:
    """All tables and views that a connection can see, looked up by (schema, name) in lower case."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self.tables: dict[TableName, Table] = {}
        self.by_name: dict[str, list[Table]] = {}
        for schema, name, kind, without_rowid, sql in self._rows():
            table = Table(fetch, schema, name, kind, sql or "", without_rowid=bool(without_rowid))
            self.tables[table.id] = table
            self.by_name.setdefault(name.lower(), []).append(table)

    @cached_property
    def is_utf8(self) -> bool:
        """Whether texts are stored as UTF-8, in all of the databases: SQLite allows no mixture."""
        return bool(self._fetch("PRAGMA encoding")[0][0] == "UTF-8")

    def _rows(self) -> Iterable[tuple[Any, ...]]:
        schemas = [name for _, name, _ in self._fetch("PRAGMA database_list")]
        for schema in schemas:
            master = "sqlite_temp_master" if schema == "temp" else "sqlite_master"
            yield from self._fetch(
                f"SELECT ?, l.name, l.type, l.wr, m.sql FROM pragma_table_list l"
                f" LEFT JOIN {quote(schema)}.{master} m"
                f" ON m.name = l.name AND m.type IN ('table', 'view')"
                f" WHERE l.schema = ? ORDER BY l.name",
                (schema, schema),
            )

    def find(self, name: str, schema: str | None = None) -> Table | None:
        """Return the table that an unqualified name means (temp, then main, then attached)."""
        if schema is not None:
            return self.tables.get((schema.lower(), name.lower()))
        found = self.by_name.get(name.lower(), [])
        for wanted in ("temp", "main"):
            for table in found:
                if table.schema.lower() == wanted:
                    return table
        return found[0] if found else None

    def behind(self, table: Table) -> frozenset[TableName] | None:
        """Return the tables that hold a virtual table's content, itself included.

        None when that cannot be known: the module is not one of SQLite's own.
        """
        module, options = _module(table.sql)
        if module not in _KNOWN_MODULES:
            return None
        prefix = table.name.lower() + "_"
        own = {
            id
            for id, other in self.tables.items()
            if id[0] == table.schema.lower() and other.kind == "shadow" and id[1].startswith(prefix)
        }
        content = options.get("content", "")
        if content:
            source = self.find(content, table.schema)
            if source is None or source.kind not in ("table", "shadow"):
                return None
            own.add(source.id)
        return frozenset(own | {table.id})


def _module(sql: str) -> tuple[str, dict[str, str]]:
    """Split CREATE VIRTUAL TABLE … USING module(a, b=c) as SQLite passes it to the module."""
    tokens = tokenize(sql) or []
    keywords = [token.keyword() for token in tokens]
    if "USING" not in keywords[:-1]:
        return "", {}
    start = keywords.index("USING") + 1
    options = {
        tokens[at].text.lower(): tokens[at + 2].text
        for at in range(start, len(tokens) - 2)
        if keywords[at + 1] == "="
    }
    return tokens[start].text.lower(), options
