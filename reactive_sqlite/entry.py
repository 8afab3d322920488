"""One captured row: an entry, and what its values are by the columns of its table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reactive_sqlite.catalog import Table
from reactive_sqlite.region import TableName

INSERTED, UPDATED, DELETED = 0, 1, 2
ALL_COLUMNS = -1

_KNOWN_BITS = 256

Entry = tuple[Any, ...]
"""(table number, INSERTED/UPDATED/DELETED, bits of the changed columns, *captured values,
*carried values).

An update has the old captured values first and the new ones behind them. Carried are the new values
of further columns, a text as its bytes and a blob as `A_BLOB`: a text that is no UTF-8, turned into
a str on its way, would make the user's statement fail."""
A_BLOB = "blob"


@dataclass(slots=True)
class TableCapture:
    """What is captured of one table; columns only ever grow while it is observed."""

    number: int
    id: TableName
    table: Table
    watched: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    every_column: bool = False
    installed: tuple[Any, ...] | None = None
    captured: tuple[str, ...] = ()
    """Lower-case names of the values that each entry has, in order, as installed."""
    compared: tuple[str, ...] = ()
    """The watched columns in the order of an entry's bits, as installed."""
    carries: tuple[str, ...] = ()
    """Lower-case names of the carried columns, in order, as installed."""
    derived: frozenset[str] = frozenset()
    """Columns that are not compared, since they follow from others: changed with any."""
    changed: dict[int, frozenset[str] | None] = field(default_factory=dict[int, Any])
    """What the bits of an entry stand for, as installed; see `columns_of`."""
    placed: dict[tuple[str, ...], tuple[int, ...] | None] = field(
        default_factory=dict[tuple[str, ...], Any]
    )

    def columns_of(self, bits: int) -> frozenset[str] | None:
        """Return the watched columns that an entry changed; None for the whole row."""
        if bits == ALL_COLUMNS or bits & 1:
            return None
        if bits not in self.changed:
            if len(self.changed) >= _KNOWN_BITS:
                self.changed.clear()
            names = [c for at, c in enumerate(self.compared, start=1) if bits >> at & 1]
            self.changed[bits] = self.derived.union(names)
        return self.changed[bits]

    def places(self, names: tuple[str, ...]) -> tuple[int, ...] | None:
        """Return where an entry has the (old) values of these columns; None when it has not all."""
        if names not in self.placed:
            at = [3 + self.captured.index(name) for name in names if name in self.captured]
            self.placed[names] = tuple(at) if len(at) == len(names) else None
        return self.placed[names]

    def without_carried(self, entry: Entry) -> Entry:
        """Return the entry as it is for a table of which nothing is carried."""
        width = len(self.captured)
        return entry[: 3 + (2 * width if entry[1] == UPDATED else width)]

    @property
    def wanted(self) -> tuple[Any, ...]:
        return self.watched, self.pinned, self.carried, self.every_column

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that name a row: the declared key, else the rowid."""
        rowid = self.table.rowid_name
        return self.table.primary_key or ((rowid,) if rowid else ())
