"""What SQLite's compiler says of one statement, read from what it asks the authorizer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from reactive_sqlite.region import TableName

# Action codes of sqlite3_set_authorizer; Python's module does not export all of them.
DELETE, INSERT, PRAGMA, READ, SELECT, TRANSACTION, UPDATE = 9, 18, 19, 20, 21, 22, 23
ATTACH, DETACH, ALTER, REINDEX, ANALYZE, FUNCTION, SAVEPOINT, RECURSIVE = (
    24, 25, 26, 27, 28, 31, 32, 33,
)  # fmt: skip
_SCHEMA = frozenset({*range(1, 9), *range(10, 18), ATTACH, DETACH, ALTER, REINDEX, ANALYZE, 29, 30})
_WRITES = frozenset({DELETE, INSERT, UPDATE})
QUERY = frozenset({READ, SELECT, FUNCTION, RECURSIVE})
MASTER = frozenset({"sqlite_master", "sqlite_temp_master", "sqlite_schema", "sqlite_temp_schema"})

# Pragmas that only report although they take an argument, and those that act without one.
_READING_WITH_ARGUMENT = frozenset({
    "foreign_key_check", "foreign_key_list", "index_info", "index_list", "index_xinfo",
    "integrity_check", "quick_check", "table_info", "table_list", "table_xinfo",
})  # fmt: skip
_ACTING_ALONE = frozenset(
    {"incremental_vacuum", "optimize", "shrink_memory", "wal_checkpoint", "case_sensitive_like"}
)


Action = tuple[Any, ...]
"""What the authorizer is asked: (code, first, second, schema, trigger or view)."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A compiled statement: what it reads and writes, and what it does to transactions."""

    reads: frozenset[tuple[str | None, str, str]] = frozenset()
    """(schema or None, table, column), lower case; the column "" means the table's rows alone."""
    writes: frozenset[TableName] = frozenset()
    schema: bool = False
    disturbs_triggers: bool = False
    savepoint: tuple[str, str] | None = None
    """(BEGIN, ROLLBACK or RELEASE; name in lower case)."""
    transaction: str | None = None
    """BEGIN, COMMIT or ROLLBACK."""
    pragmas: tuple[tuple[str, str | None], ...] = ()
    selects: bool = False
    foreign: tuple[int, ...] = ()
    """Codes of the actions that no mere query asks for."""
    plain: bool = field(init=False)
    """Whether it touches rows alone: no schema, transaction, savepoint or setting."""

    def __post_init__(self) -> None:
        # Asked at every run, so it is stored.
        plain = not (self.schema or self.savepoint or self.transaction or self.pragmas)
        object.__setattr__(self, "plain", plain and not self.disturbs_triggers)

    @property
    def matters(self) -> bool:
        """Whether it does anything that an observer of the connection must note."""
        return bool(self.writes or self.schema or self.savepoint or self.pragmas)

    @property
    def reads_only(self) -> bool:
        """Whether running it changes nothing: a query, or a PRAGMA that only reports."""
        if not (self.selects or self.pragmas):
            return False  # VACUUM: nothing is asked for before it runs
        return all(code == PRAGMA for code in self.foreign) and all(
            _reports(name, argument) for name, argument in self.pragmas
        )


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the compiler said of a statement: its actions, its program, or why it refused."""

    actions: list[Action]
    program: list[tuple[Any, ...]]
    error: Exception | None


def read_actions(actions: Iterable[Action]) -> Statement:
    """Read the authorizer's calls for one statement."""
    reads: set[tuple[str | None, str, str]] = set()
    writes: set[TableName] = set()
    pragmas: list[tuple[str, str | None]] = []
    foreign: list[int] = []
    schema = selects = master = alters = False
    savepoint: tuple[str, str] | None = None
    transaction: str | None = None
    for code, first, second, schema_name, _ in actions:
        if code == READ:
            reads.add((schema_name and schema_name.lower(), first.lower(), (second or "").lower()))
        elif code in _WRITES:
            if first.lower() in MASTER:
                master = True
                continue
            writes.add(((schema_name or "main").lower(), first.lower()))
        elif code in (SELECT, RECURSIVE):
            selects = True
        elif code == SAVEPOINT:
            savepoint = (first, second.lower())
        elif code == TRANSACTION:
            transaction = first
        elif code == PRAGMA:
            pragmas.append((first.lower(), second))
        if code in _SCHEMA:
            schema = True
            alters = alters or code in (ALTER, DETACH)
        if code not in QUERY:
            foreign.append(code)
    if master and not selects:
        # Connecting a virtual table inside a query looks like a write to the schema too.
        schema = True
        foreign.append(UPDATE)
    return Statement(
        frozenset(reads), frozenset(writes), schema, alters, savepoint, transaction,
        tuple(pragmas), selects, tuple(foreign),
    )  # fmt: skip


def _reports(name: str, argument: str | None) -> bool:
    if argument is None:
        return name not in _ACTING_ALONE
    return name in _READING_WITH_ARGUMENT
