"""The index from what a transaction touched to the queries that must run again.

Looking up costs by what was written, not by how many observe: unpinned queries are found by
table and column, pinned ones by the hash of their key values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reactive_sqlite.entry import UPDATED, Entry, TableCapture
from reactive_sqlite.region import Region, TableName
from reactive_sqlite.source import Source

Sources = dict[Source, None]  # a set that keeps the order of subscription

# In the place of a query: there is none that the row is of interest to.
NOBODY = Source("", (), None, missing_is_empty=False)


class TableInterest:
    """The live queries that read one table."""

    __slots__ = ("by_column", "pins", "unpinned")

    def __init__(self) -> None:
        self.unpinned: Sources = {}
        self.by_column: dict[str, Sources] = {}
        # By the names of the pinned columns, then by their values, or the value where it is one.
        self.pins: dict[tuple[str, ...], dict[Any, Source | Sources]] = {}

    def __bool__(self) -> bool:
        return bool(self.unpinned or self.pins)

    def add(
        self, source: Source, columns: Iterable[str], pins: tuple[tuple[str, Any], ...]
    ) -> None:
        if pins:
            names, values = _split(pins)
            of_names = self.pins.setdefault(names, {})
            there = of_names.get(values)
            # Nearly always alone: a dict for each of thousands would be most of the memory.
            of_names[values] = source if there is None else {**_all(there), source: None}
            return
        self.unpinned[source] = None
        for column in columns:
            self.by_column.setdefault(column, {})[source] = None

    def remove(
        self, source: Source, columns: Iterable[str], pins: tuple[tuple[str, Any], ...]
    ) -> None:
        if pins:
            names, values = _split(pins)
            of_names = self.pins[names]
            left = {**_all(of_names[values])}
            del left[source]
            if left:
                of_names[values] = left
            else:
                del of_names[values]
            if not of_names:
                del self.pins[names]
            return
        del self.unpinned[source]
        for column in columns:
            of_column = self.by_column[column]
            del of_column[source]
            if not of_column:
                del self.by_column[column]

    def unpinned_hit(self, columns: frozenset[str] | None, hit: Sources) -> None:
        """Add to `hit` the queries without a pin that read one of the columns (None: of any)."""
        if columns is None:
            hit.update(self.unpinned)
        else:
            for column in columns:
                hit.update(self.by_column.get(column, ()))

    def pinned_hit(self, entry: Entry, capture: TableCapture, hit: Sources) -> None:
        """Add to `hit` the queries pinned to the row, before or after, that the entry touches."""
        for names, of_names in self.pins.items():
            at = capture.placed.get(names) or capture.places(names)
            if at is None:
                columns = capture.columns_of(entry[2])
                for there in of_names.values():
                    for source in _all(there):
                        if columns is None or not columns.isdisjoint(source.reads):
                            hit[source] = None
                continue
            old = _values(entry, at, 0)
            if entry[1] == UPDATED:
                new = _values(entry, at, len(capture.captured))
                if new != old:
                    # A row came into the pinned key or left it, whatever columns are read.
                    hit.update(_all(of_names.get(old)))
                    hit.update(_all(of_names.get(new)))
                    continue
            found = of_names.get(old)
            if found is not None:
                columns = capture.columns_of(entry[2])
                for source in _all(found):
                    if columns is None or not columns.isdisjoint(source.reads):
                        hit[source] = None

    def everyone(self) -> Iterable[Source]:
        yield from self.unpinned
        for of_names in self.pins.values():
            for there in of_names.values():
                yield from _all(there)


class Interests:
    """All live queries of a database, by what they read."""

    def __init__(self) -> None:
        self.tables: dict[TableName, TableInterest] = {}
        self.everything: Sources = {}

    def add(self, source: Source, region: Region) -> None:
        if region.everything:
            self.everything[source] = None
            return
        if len(region.tables) == 1:
            (source.reads,) = region.tables.values()
        else:
            source.reads = frozenset().union(*region.tables.values())
        for table, columns in region.tables.items():
            self.tables.setdefault(table, TableInterest()).add(source, columns, region.pins)

    def remove(self, source: Source, region: Region) -> None:
        if region.everything:
            del self.everything[source]
            return
        for table, columns in region.tables.items():
            interest = self.tables[table]
            interest.remove(source, columns, region.pins)
            if not interest:
                del self.tables[table]

    def touched(
        self,
        entries: Iterable[Entry],
        dirty: Iterable[TableName],
        captures: dict[int, TableCapture],
    ) -> Sources:
        """Return the queries that the captured rows and dirty tables can have changed."""
        hit: Sources = {}
        for table in dirty:
            interest = self.tables.get(table)
            if interest is not None:
                hit.update(dict.fromkeys(interest.everyone()))
        known: set[tuple[int, int]] = set()
        for entry in entries:
            number, bits = entry[0], entry[2]
            capture = captures[number]
            interest = self.tables.get(capture.id)
            if interest is None:
                continue
            if interest.unpinned and (number, bits) not in known:
                known.add((number, bits))
                interest.unpinned_hit(capture.columns_of(bits), hit)
            if interest.pins:
                interest.pinned_hit(entry, capture, hit)
        return hit

    def row_hit(self, entry: Entry, capture: TableCapture) -> Source | None:
        """Return the only query that one captured row can have changed, or `NOBODY`, where its key
        alone tells; None when it takes `touched` to find out."""
        interest = self.tables.get(capture.id)
        if interest is None or len(interest.pins) != 1:
            return None
        columns = capture.changed.get(entry[2]) or capture.columns_of(entry[2])
        if interest.unpinned and (
            columns is None or not columns.isdisjoint(interest.by_column.keys())
        ):
            return None
        for names, of_names in interest.pins.items():
            at = capture.placed.get(names) or capture.places(names)
            if at is None or len(at) != 1:
                break
            value = entry[at[0]]
            if entry[1] == UPDATED and entry[at[0] + len(capture.captured)] != value:
                break  # the row came into a key and left another
            found = of_names.get(value)
            if found is None:
                return NOBODY
            if isinstance(found, dict):
                break
            return NOBODY if columns is not None and columns.isdisjoint(found.reads) else found
        return None


def _all(there: Source | Sources | None) -> Sources:
    if there is None:
        return {}
    return there if isinstance(there, dict) else {there: None}


def _split(pins: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, ...], Any]:
    names = tuple([name for name, _ in pins])
    return names, pins[0][1] if len(pins) == 1 else tuple([value for _, value in pins])


def _values(entry: Entry, at: tuple[int, ...], width: int) -> Any:
    return entry[at[0] + width] if len(at) == 1 else tuple([entry[i + width] for i in at])
