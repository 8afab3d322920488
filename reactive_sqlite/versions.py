"""SQLite's own counters: whether another connection has committed, whether the schema moved."""

from __future__ import annotations

from reactive_sqlite.connection import Connection
from reactive_sqlite.dialect import quote

_MAIN_DATA = "PRAGMA main.data_version"


class Versions:
    """The counters of the main and the attached databases, as last looked at.

    `PRAGMA data_version` moves for commits of other connections only, and inside a transaction it
    is exact for that snapshot. The TEMP schema is left out: our own triggers move it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._names = ["main"]  # as SQL spells them
        self._data = self.read("data_version")
        self._schema = self.read("schema_version")

    def read(self, pragma: str) -> tuple[int, ...]:
        """Return the counter of each database."""
        fetch = self._connection.fetch
        return tuple([fetch(f"PRAGMA {name}.{pragma}", (), ())[0][0][0] for name in self._names])

    @property
    def data_pending(self) -> bool:
        """Whether another connection has committed since `data_moved` was last asked."""
        if len(self._names) == 1:  # asked at nearly every commit
            return bool(self._connection.fetch(_MAIN_DATA, (), ())[0][0] != self._data)
        return self.read("data_version") != self._data

    @property
    def schema_pending(self) -> bool:
        """Whether the schema moved since `schema_moved` was last asked. `backup` into this
        connection moves this counter alone."""
        return self.read("schema_version") != self._schema

    def data_moved(self) -> bool:
        """Whether another connection has committed since this was last asked."""
        before, self._data = self._data, self.read("data_version")
        return self._data != before

    def schema_moved(self) -> bool:
        """Whether the schema, or the list of databases, is another one since last asked."""
        listed = self._connection.raw("PRAGMA database_list")
        names = ["main", *(quote(name) for _, name, _ in listed if name not in ("main", "temp"))]
        if names != self._names:
            self._names = names
            self._data = self.read("data_version")
            self._schema = ()
        before, self._schema = self._schema, self.read("schema_version")
        return self._schema != before
