"""The new answer of a query for one row, taken from the captured row instead of fetched."""

from __future__ import annotations

from typing import Any

from reactive_sqlite.catalog import Catalog, Table
from reactive_sqlite.entry import DELETED, UPDATED, Entry, TableCapture
from reactive_sqlite.region import Region

# Every write to the table carries them, whichever row it is of.
_MOST_COLUMNS = 8

EVERY_COLUMN = ("*",)


class OneRow:
    """What equal query texts have in common that ask for plain columns of the row with a key.

    An AFTER trigger sees a row as it is stored. So when exactly one row was captured in a commit,
    and it is the one with the key, its new values are what a fetch would return; a fetch is needed
    for everything else.
    """

    __slots__ = ("_captured", "_places", "carried", "columns")

    def __init__(self, columns: tuple[str, ...], key: tuple[str, ...]) -> None:
        self.columns = columns
        self.carried = tuple([name for name in columns if name not in key])
        self._captured: tuple[str, ...] | None = None
        self._places: tuple[tuple[int, bool], ...] = ()

    def rows(self, entry: Entry, capture: TableCapture) -> list[tuple[Any, ...]] | None:
        """Return the query's rows after the only captured change, of the row that it is pinned to;
        None when a fetch must tell."""
        kind = entry[1]
        if kind == DELETED:
            return []
        if capture.captured is not self._captured and not self._find(capture):
            return None
        new = 0
        if kind == UPDATED:
            if entry[2] & 1:
                return None  # another key: whether this row came or left is for a fetch to tell
            new = len(capture.captured)
        values: list[Any] = []
        for place, carried in self._places:
            value = entry[new + place]
            if not carried:
                values.append(value)
                continue
            if value.__class__ is bytes:
                try:
                    value = value.decode()
                except UnicodeDecodeError:
                    return None
            elif value.__class__ is str:
                return None  # it stands for a blob
            values.append(value)
        return [tuple(values)]

    def _find(self, capture: TableCapture) -> bool:
        """Note where an entry of the triggers as installed has the columns; False if it has not."""
        captured, carries = capture.captured, capture.carries
        if not {*self.columns} <= {*captured, *carries}:
            return False
        self._captured = captured
        self._places = tuple(
            [
                (3 + captured.index(name), False)
                if name in captured
                else (3 + len(captured) + carries.index(name), True)
                for name in self.columns
            ]
        )
        return True


def one_row(
    catalog: Catalog, region: Region, selected: tuple[str, ...], pins: int
) -> OneRow | None:
    """Return how captured rows answer a query, None when it has to be fetched.

    Args:
        selected: the columns that it selects, in order, or `EVERY_COLUMN`.
        pins: how many columns its WHERE compares, all joined by AND; it has no other condition.
    """
    if len(region.tables) != 1 or region.everything or len(region.pins) != pins:
        return None
    table = catalog.tables.get(next(iter(region.tables)))
    if table is None or table.kind != "table" or not table.capturable:
        return None
    key = {name.lower() for name in table.primary_key}
    if not key or key != {name for name, _ in region.pins}:
        return None
    columns = tuple(table.columns) if selected == EVERY_COLUMN else _lower(selected)
    if len(columns) > _MOST_COLUMNS or not all(_is_plain(table, name) for name in columns):
        return None
    # A BEFORE trigger may write the same row, and what the statement itself then does to it can
    # look like no change at all, so that it is not captured.
    if not (table.only_after_triggers and catalog.is_utf8):
        return None
    return OneRow(columns, tuple(key))


def _lower(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([name.lower() for name in names])


def _is_plain(table: Table, name: str) -> bool:
    column = table.columns.get(name)
    return column is not None and column.plain
