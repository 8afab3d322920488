"""A table, kept by triggers, that says which keys of another were written by any program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reactive_sqlite.region import TableName

# Beyond so many entries since the last look, running every query again is cheaper.
_MOST = 1_000


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

    def __init__(self, trail: Trail, fetch: Callable[..., list[Any]]) -> None:
        self.trail = trail
        self._fetch = fetch
        self._seen = self._newest()

    def keys(self) -> set[Any] | None:
        """Return the keys written since the last call; None when there are too many to tell."""
        seen, self._seen = self._seen, self._newest()
        if not 0 <= self._seen - seen <= _MOST:
            return None
        rows = self._fetch(self.trail.entries, (seen, _MOST))
        if len(rows) != self._seen - seen:
            return None  # some were removed before they were read
        return {key for _, key in rows}

    def _newest(self) -> int:
        return int(self._fetch(self.trail.newest)[0][0] or 0)
