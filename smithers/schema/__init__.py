"""All tables and triggers, as migrations: what a database file of this package holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smithers.schema.executions import EXECUTIONS
from smithers.schema.history import HISTORY
from smithers.schema.identity import IDENTITY
from smithers.schema.memories import MEMORIES, STORE
from smithers.schema.runtime import RUNTIME
from smithers.schema.transfer import TRANSFER
from smithers.schema.triggers import TRIGGERS
from smithers.schema.vcs import VCS

if TYPE_CHECKING:
    from sqlite_utils import Database
    from sqlite_utils.migrations import Migrations

# "smth", in the header of every file that this package made.
APPLICATION_ID = 0x736D7468
# "smtm", of a file that holds memories alone.
STORE_ID = 0x736D746D
TABLES = (
    "executions",
    "phases",
    "steps",
    "agents",
    "tool_calls",
    "state",
    "transitions",
    "memories",
    "commits",
    "snapshots",
    "reviews",
)
# What is no table for users and still belongs to what the database holds. Leases do not: they say
# which process of this machine is at work.
INTERNAL_TABLES = (
    "_smithers_baseline",
    "_smithers_places",
    "_smithers_approvals",
    "_smithers_sessions",
    "_smithers_triggers",
    "_smithers_dead_letters",
)
# Every table is tracked: whatever program writes to it, the change log knows which rows.
TRACKED_TABLES = (*TABLES, *INTERNAL_TABLES, "_smithers_leases", "_smithers_trigger_leases")

# Every step from an empty file to the present schema. One that has been released never changes.
STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("0001_state_and_history", HISTORY),
    ("0002_executions", EXECUTIONS),
    ("0003_vcs", VCS),
    ("0004_memories", MEMORIES),
    ("0005_transfer", TRANSFER),
    ("0006_runtime", RUNTIME),
    ("0007_triggers", TRIGGERS),
    # The opener tracks the tables then; by statements alone that cannot be said.
    ("0008_change_log", ()),
    ("0009_identity", IDENTITY),
)
SCHEMA_VERSION = len(STEPS)
# The same of a file that holds memories alone.
STORE_STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("0001_memories", STORE),
    ("0002_identity", IDENTITY),
)
STORE_VERSION = len(STORE_STEPS)


def migrations() -> Migrations:
    """List every step from an empty file to the present schema."""
    return _migrations("smithers", STEPS)


def migrate_store(db: Database) -> None:
    """Bring the schema of a file of memories up to date; call it as `migrate`."""
    _migrations("smithers_memories", STORE_STEPS).apply(db)
    db.conn.execute(f"PRAGMA application_id = {STORE_ID}")
    db.conn.execute(f"PRAGMA user_version = {STORE_VERSION}")


def store_version(db: Database) -> int:
    """Tell the version of the schema of a file of memories, as `version`."""
    application, marked = _marks(db)
    return marked if application == STORE_ID else 0


def migrate(db: Database) -> None:
    """Bring the schema up to date; of several processes at once, one does it and the rest see it.

    Call it inside a transaction that holds the write lock.
    """
    marks = _marks(db)
    migrations().apply(db)
    # The header belongs to us only where nobody else has written it.
    if marks in ((0, 0), (APPLICATION_ID, marks[1])):
        db.conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.conn.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def version(db: Database) -> int:
    """Tell the version of the schema in a file: 0 for none of ours, maybe more than we know."""
    steps = migrations()
    application, marked = _marks(db)
    applied = len(steps.applied(db))
    return max(applied, marked) if application == APPLICATION_ID else applied


def _migrations(name: str, steps: tuple[tuple[str, tuple[str, ...]], ...]) -> Migrations:
    from sqlite_utils.migrations import Migrations

    migrations = Migrations(name)
    for step, statements in steps:
        _add(migrations, step, statements)
    return migrations


def _add(steps: Migrations, name: str, statements: tuple[str, ...]) -> None:
    @steps(name=name)
    def _step(db: Database) -> None:
        for statement in statements:
            db.conn.execute(statement)


def _marks(db: Database) -> tuple[int, int]:
    application = db.conn.execute("PRAGMA application_id").fetchone()[0]
    return application, db.conn.execute("PRAGMA user_version").fetchone()[0]
