"""A table, kept by triggers, that says which keys of another were written by any program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reactive_sqlite.catalog import Catalog
from reactive_sqlite.entry import ALL_COLUMNS, INSERTED, TableCapture
from reactive_sqlite.region import TableName
from reactive_sqlite.witness import MOST, Written


@dataclass(frozen=True, slots=True)
class Trail:
    """Where to read what other programs wrote to `table`.

    Triggers in the schema have to write an entry for every row that is inserted, updated or
    deleted, numbered without gaps. `newest` is a query for the number of the newest entry there
    ever was (None before the first). `entries` is a query for (number, key) of the entries after
    the number given first, at most as many as given second; `key` is a value of `column`.
    """

    table: TableName
    column: str
    newest: str
    entries: str


class TrailReader:
    """Reads a trail from where it was read last; used with the connection's lock held."""

    def __init__(
        self, trail: Trail, fetch: Callable[..., list[Any]], catalog: Callable[[], Catalog]
    ) -> None:
        self.trail = trail
        self._fetch = fetch
        self._catalog = catalog
        self._seen = self._newest()

    def written(self) -> Written | None:
        keys = self._keys()
        table = self._catalog().tables.get(self.trail.table)
        if keys is None or table is None:
            return None
        # One entry for each key: it may have come, gone or changed.
        capture = TableCapture(0, table.id, table, captured=(self.trail.column,))
        entries = [(0, INSERTED, ALL_COLUMNS, key) for key in keys]
        return Written({table.id}, entries, {0: capture})

    def _keys(self) -> set[Any] | None:
        """Return the keys written since the last call; None when there are too many to tell."""
        seen, self._seen = self._seen, self._newest()
        if not 0 <= self._seen - seen <= MOST:
            return None
        rows = self._fetch(self.trail.entries, (seen, MOST))
        if len(rows) != self._seen - seen:
            return None  # some were removed before they were read
        return {key for _, key in rows}

    def _newest(self) -> int:
        return int(self._fetch(self.trail.newest)[0][0] or 0)
