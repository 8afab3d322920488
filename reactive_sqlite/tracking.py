"""The durable triggers of a tracked table: what they are on the table as it is now.

They work for writers in any language, with nothing of ours loaded, and so they may never make a
user's statement fail: no name in them vanishes with a dropped column, no value is computed that
the table does not store, and nothing in the log can be violated.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

from reactive_sqlite.arguments import shown
from reactive_sqlite.catalog import Catalog, Table
from reactive_sqlite.dialect import quote, sqlite3
from reactive_sqlite.entry import ALL_COLUMNS, DELETED, INSERTED, UPDATED, TableCapture
from reactive_sqlite.region import TableName

LOG = "_reactive_log"
TRACKED = "_reactive_tracked"
CONSUMERS = "_reactive_consumers"
_INTERNAL = frozenset((LOG, TRACKED, CONSUMERS))

PREFIX = "_reactive_sqlite_log_"
KINDS = "iud"
FIRST_KEY = 5
"""Where in a row of the log the keys begin: key1, old1, key2, old2, …"""
# Milliseconds since 1970: the one moment of the statement.
NOW = "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)"

# An entry tells the changed columns as bits of one SQLite integer: bit 0 is the key, the last one
# stands for all columns that have no bit of their own.
_MOST_COLUMNS = 60
_THE_REST = 1 << (_MOST_COLUMNS + 1)
_VIRTUAL, _STORED = 2, 3  # generated columns, as PRAGMA table_xinfo marks them


@dataclass(frozen=True, slots=True)
class Shape:
    """What the triggers of a table name of it."""

    key: tuple[str, ...]
    """The columns that name a row, as spelled: the declared key, else the rowid, else none."""
    columns: tuple[str, ...]
    """The columns that are compared, as spelled, in the order of an entry's bits."""
    derived: tuple[str, ...]
    """Generated columns that are not stored: computing one could make a user's UPDATE fail."""
    rowid: str | None = None
    """A rowid beside the declared key: the rows of a scan come in its order."""

    def text(self) -> str:
        """Return it as it is kept in the file."""
        return as_json([self.key, self.columns, self.derived])


@dataclass(frozen=True, slots=True)
class Generation:
    """A table tracked under one shape; each new shape is another generation."""

    id: int
    name: str  # of the table, in lower case
    key: tuple[str, ...]
    columns: tuple[str, ...]
    derived: tuple[str, ...]
    current: bool

    def bits(self, stored: int | None) -> int:
        """Return an entry's bits as captured rows have them; `ALL_COLUMNS` for the whole row."""
        return ALL_COLUMNS if stored is None or stored & _THE_REST else stored

    def keys(self, row: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the key in a row of the log, and the key before it."""
        end, changed = FIRST_KEY + 2 * len(self.key), row[3]
        keys = row[FIRST_KEY:end:2]
        moved = changed is not None and changed & 1
        return keys, row[FIRST_KEY + 1 : end : 2] if moved else keys

    def changed(self, bits: int) -> list[str]:
        """Return the names of the columns that the bits stand for, the key apart."""
        return [name for at, name in enumerate(self.columns, start=1) if bits >> at & 1]

    def capture(self, table: Table) -> TableCapture:
        """Return what an entry is made of, as for captured rows."""
        compared = tuple([name.lower() for name in self.columns])
        key = tuple([name.lower() for name in self.key])
        derived = frozenset(name.lower() for name in self.derived)
        return TableCapture(
            self.id, table.id, table, captured=key, compared=compared, derived=derived
        )


def as_json(value: Any) -> str:
    """Return the JSON text of what is kept in the file."""
    return json.dumps(value, ensure_ascii=False)


def from_json(text: str) -> Any:
    """Return what `as_json` made the text of; DatabaseError where that is not there any more."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged(text) from error


def names_from_json(text: str) -> tuple[str, ...]:
    """Return a list of names that `as_json` made the text of; raises as `from_json`."""
    names = from_json(text)
    if not _are_names(names):
        raise damaged(text)
    return tuple(names)


def damaged(text: object) -> sqlite3.DatabaseError:
    """Make the error that says so of what another program has written in the place of ours."""
    return sqlite3.DatabaseError(f"the change log is damaged: {shown(text)} is not what it writes")


def generation(row: tuple[Any, ...]) -> Generation:
    """Read a row (id, name, shape, current) of the tracked tables."""
    id, name, shape, current = row
    lists = from_json(shape)
    if not _are_three(lists):
        raise damaged(shape)
    key, columns, derived = lists
    if not all(map(_are_names, (key, columns, derived))):
        raise damaged(shape)
    return Generation(id, name, tuple(key), tuple(columns), tuple(derived), bool(current))


def _are_three(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and len(cast("list[object]", value)) == 3


def _are_names(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(
        isinstance(name, str) for name in cast("list[object]", value)
    )


def same_shape(generation: Generation, table: Table) -> bool:
    """Whether the generation names the table's columns as they are now."""
    shape = shape_of(table)
    named = (generation.key, generation.columns, generation.derived)
    return named == (shape.key, shape.columns, shape.derived)


def shape_of(table: Table) -> Shape:
    """Return what the triggers of the table have to name, as it is now."""
    rowid = table.rowid_name
    key = table.primary_key or ((rowid,) if rowid is not None else ())
    own = {name.lower() for name in key}
    plain = [column for name, column in table.columns.items() if name not in own]
    return Shape(
        key,
        tuple([column.name for column in plain if column.hidden != _VIRTUAL]),
        tuple([column.name for column in plain if column.hidden == _VIRTUAL]),
        rowid if table.primary_key else None,
    )


def is_internal(table: TableName) -> bool:
    """Whether it is a table of the log itself, perhaps of an attached database's."""
    return table[1] in _INTERNAL


def refusal(catalog: Catalog, name: str) -> str | None:
    """Say why a table that exists cannot be tracked; None when it can."""
    table = catalog.find(name)
    assert table is not None
    if is_internal(table.id) or table.name.lower().startswith("sqlite_"):
        return "it belongs to the database itself"
    if table.schema.lower() == "temp":
        return "it is temporary: no other connection can see it"
    if table.schema.lower() != "main":
        return f"it is in the attached database {table.schema}: track it where that is opened"
    if table.kind == "table":
        return None
    kinds = {"virtual": "a virtual table", "shadow": "a part of a virtual table"}
    return (
        f"it is {kinds.get(table.kind, 'a view')}, and SQLite allows no trigger that sees its rows"
    )


def trigger_names(id: int) -> list[str]:
    """Return the names of a generation's three triggers."""
    return [f"{PREFIX}{id}_{kind}" for kind in KINDS]


def triggers(table: Table, shape: Shape, id: int) -> list[str]:
    """Return the triggers as SQLite keeps them, without the leading CREATE TRIGGER."""
    on = f"ON {quote(table.name)}"
    names = [quote(name) for name in trigger_names(id)]
    new = [f"NEW.{quote(column)}" for column in shape.key]
    old = [f"OLD.{quote(column)}" for column in shape.key]
    identity = list(shape.key) if shape.rowid is None else [*shape.key, shape.rowid]
    moved = "(" + (" OR ".join([_differs(quote(name)) for name in identity]) or "0") + ")"
    before = [f"CASE WHEN {moved} THEN {value} END" for value in old]
    return [
        f"{names[0]} AFTER INSERT {on} BEGIN {_entry(id, INSERTED, new=new)}; END",
        f"{names[1]} AFTER UPDATE {on} BEGIN"
        f" {_entry(id, UPDATED, new=new, old=before, changed=_changed(shape, moved))}; END",
        f"{names[2]} AFTER DELETE {on} BEGIN {_entry(id, DELETED, new=old)}; END",
    ]


def _entry(
    id: int, op: int, *, new: list[str], old: list[str] | None = None, changed: str = "NULL"
) -> str:
    columns = ["tbl", "op", "changed", "at"]
    values = [str(id), str(op), changed, NOW]
    for at, value in enumerate(new, start=1):
        columns.append(f"key{at}")
        values.append(value)
        if old is not None:
            columns.append(f"old{at}")
            values.append(old[at - 1])
    return f"INSERT INTO {LOG} ({', '.join(columns)}) VALUES ({', '.join(values)})"


def _changed(shape: Shape, moved: str) -> str:
    own = shape.columns[:_MOST_COLUMNS]
    terms = [f"{_differs(quote(name))} * {1 << at}" for at, name in enumerate(own, start=1)]
    rest = [_differs(quote(name)) for name in shape.columns[_MOST_COLUMNS:]]
    if rest:
        terms.append(f"({' OR '.join(rest)}) * {_THE_REST}")
    if not terms:
        return moved
    # ALTER TABLE DROP COLUMN fails when a trigger names the column. Here the name would then be
    # found one query further out, as a NULL that never changes. Kept nested: joined in one FROM
    # the two would cost some microseconds for each row.
    nothing = ", ".join([f"NULL AS {quote(name)}" for name in shape.columns])
    bits = " + ".join(terms)
    return (
        f"{moved} + (SELECT (SELECT (SELECT {bits}) FROM (SELECT {nothing}) AS NEW)"
        f" FROM (SELECT {nothing}) AS OLD)"
    )


def _differs(name: str) -> str:
    # By type as well, since 1 IS 1.0; and byte by byte, since 'x' IS 'X' under NOCASE.
    return (
        f"(OLD.{name} IS NOT NEW.{name} COLLATE BINARY OR typeof(OLD.{name}) <> typeof(NEW.{name}))"
    )
