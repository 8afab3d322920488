"""What one commit did, as an immutable value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Operation = Literal["insert", "update", "delete"]


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row that a commit inserted, updated or deleted.

    `key` is the primary key after the change (before it, for a delete): the bare value of a
    single column, a tuple of several, the rowid where the table declares none. `old_key` is the
    key before an update, else None.
    """

    table: str
    op: Operation
    key: Any
    old_key: Any = None


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """The changes of one commit made here, or of one or more commits made elsewhere.

    `tables` names the tables touched (a table of an attached database as ``alias.table``);
    None means unknown: any table may have changed (the commit altered the schema, or was made
    elsewhere and not every table is tracked). `rows` lists the rows in the order they were
    written; None means that only the tables are known (a very large commit, a virtual table, or
    a commit made elsewhere). Of a commit made elsewhere the rows of tracked tables are listed, also
    where `tables` is None. `external` is True for commits made by other connections.
    """

    tables: frozenset[str] | None
    rows: tuple[RowChange, ...] | None
    external: bool = False

    def touches(self, tables: Iterable[str]) -> bool:
        """Say whether any of the tables may have changed."""
        return self.tables is None or not self.tables.isdisjoint(tables)
