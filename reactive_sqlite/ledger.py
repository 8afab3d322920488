"""What a connection tells of its statements and of the ends of transactions."""

from __future__ import annotations

from typing import Protocol

from reactive_sqlite.region import TableName
from reactive_sqlite.statement import Statement


class Ledger(Protocol):
    """Who is told of the statements; always called with the connection's lock held."""

    def begins(self) -> None:
        """A statement outside any transaction is about to run."""
        ...

    def mark(self) -> int:
        """Return a mark of what is noted so far."""
        ...

    def forget(self, mark: int) -> None:
        """A statement failed and wrote nothing: drop what was noted since the mark."""
        ...

    def wrote(self, statement: Statement) -> None:
        """A statement that may write has run."""
        ...

    def wrote_table(self, table: TableName) -> None:
        """The table was written by a road that no trigger and no statement shows."""
        ...

    def schema_changed(self) -> None:
        """A statement changed the schema, or all of the database."""
        ...

    def pragma(self) -> None:
        """A PRAGMA has run."""
        ...

    def savepoint(self, action: str, name: str, mark: int) -> None:
        """A savepoint began, was released or rolled back to; `mark` is from before."""
        ...

    def pending(self) -> bool:
        """Whether the end of a transaction would be of interest now."""
        ...

    def committed(self) -> None:
        """What was noted is committed."""
        ...

    def committed_alone(self, statement: Statement, /) -> None:
        """A statement that may write has run outside any transaction, and it alone has caused all
        that is noted."""
        ...

    def rolled_back(self) -> None:
        """What was noted was undone."""
        ...

    def make_way(self) -> None:
        """A statement comes that our triggers would break."""
        ...

    def repair(self, error: Exception) -> bool:
        """A statement failed; True if our triggers were the reason and are mended."""
        ...

    def deliver(self) -> None:
        """Tell observers what is due; the only one called without the lock."""
        ...
