"""A cursor whose rows are fetched when its statement runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from reactive_sqlite.dialect import sqlite3

# In C, as `super()` would find them at every call.
_execute = sqlite3.Cursor.execute
_executemany = sqlite3.Cursor.executemany
_fetchall = sqlite3.Cursor.fetchall


class Cursor(sqlite3.Cursor):
    """A cursor of an observed connection (`connection.Connection`); to its user, like any other.

    The rows are buffered, because a half-read statement would hide the commits of other processes
    and make a later write of our own fail.
    """

    _rows: Iterator[Any] | None = None
    _closed = False

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor:
        runner: Any = self.connection
        runner.run(self, sql, parameters)
        return self

    def executemany(self, sql: str, seq_of_parameters: Iterable[Any], /) -> Cursor:
        runner: Any = self.connection
        runner.run_many(self, sql, seq_of_parameters)
        return self

    def executescript(self, sql_script: str, /) -> Cursor:
        runner: Any = self.connection
        runner.run_script(self, sql_script)
        return self

    def __next__(self) -> Any:
        if self._rows is None:
            if self._closed:
                raise sqlite3.ProgrammingError("Cannot operate on a closed cursor.")
            raise StopIteration
        return next(self._rows)

    def fetchone(self) -> Any:
        return next(self if self._rows is None else self._rows, None)

    def fetchmany(self, size: int | None = None) -> list[Any]:
        wanted = self.arraysize if size is None else size
        return [row for _, row in zip(range(wanted), self, strict=False)]

    def fetchall(self) -> list[Any]:
        return list(self)

    def close(self) -> None:
        self._rows, self._closed = None, True
        super().close()

    def run_now(self, sql: str, parameters: Any, *, many: bool = False) -> None:
        """Execute in SQLite itself, and buffer the rows; called by the connection."""
        self._rows = None
        if many:
            _executemany(self, sql, parameters)
        else:
            _execute(self, sql, parameters)
        if self.description is not None:
            self._rows = iter(_fetchall(self))
