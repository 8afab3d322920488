"""The part of a database that a query depends on: tables x columns x pinned keys, a pure value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

TableName: TypeAlias = tuple[str, str]
"""(schema, table), both in lower case: ("main", "users")."""


@dataclass(frozen=True, slots=True)
class Region:
    """Tables and columns that a query reads, and the key values it is pinned to.

    `tables` maps each table to the columns read (lower case; empty when only the number or the
    order of its rows matters). `pins` holds (column, value) pairs that every row which can
    influence the result must equal; only ever for a query over exactly one table.
    `everything` is True when the tables cannot be known: any write may matter.

    Printed short, for tests and logs: ``state(value)[key='phase']``.
    """

    tables: Mapping[TableName, frozenset[str]] = field(
        default_factory=dict[TableName, frozenset[str]]
    )
    pins: tuple[tuple[str, Any], ...] = ()
    everything: bool = False

    def __str__(self) -> str:
        if self.everything:
            return "*"
        pinned = "".join(f"[{column}={value!r}]" for column, value in self.pins)
        return ", ".join(
            f"{spelled(table)}({','.join(sorted(columns))}){pinned}"
            for table, columns in sorted(self.tables.items())
        )


def spelled(table: TableName) -> str:
    """Name the table as users do: the schema only where it is not the main one."""
    schema, name = table
    return name if schema == "main" else f"{schema}.{name}"
