"""A file in which one cell holds what another program has put there, whatever the schema says."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from smithers import Agent, SmithersDB, ToolCall, create_smithers_db
from smithers.schema import INTERNAL_TABLES, TABLES

FILE = "db.sqlite"
WHOLE = (
    *(*TABLES, *INTERNAL_TABLES, "_smithers_leases", "_smithers_trigger_leases"),
    *("_reactive_log", "_reactive_tracked", "_reactive_consumers", "_sqlite_migrations"),
)
# As SQL, since some of them no parameter can be. What an affinity makes of them is as it is.
BAD: Mapping[str, str] = {
    "a blob": "x'ff00fe'",
    "a blob of text": "CAST('1' AS BLOB)",
    "an empty blob": "x''",
    "a real": "1.5",
    "infinity": "9e999",
    "an integer": "7",
    "a wide integer": "9223372036854775807",
    "a negative integer": "-1",
    "nothing": "NULL",
    "no UTF-8": "CAST(x'ff61' AS TEXT)",
    "a NUL": "char(97, 0, 98)",
    "a surrogate": "CAST(x'eda080' AS TEXT)",
    "no JSON": "'{'",
    "JSON of another kind": "'[null]'",
    "deep JSON": "replace(hex(zeroblob(2000)), '00', '[')",
    "a long number": "replace(hex(zeroblob(3000)), '00', '99')",
    "no time": "'yesterday'",
    "a time outside": "'9999-12-31T23:59:59-23:59'",
    "empty text": "''",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of one table, and what is in it."""

    table: str
    column: str
    value: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}: {self.value}"


def fill(db: SmithersDB) -> None:
    """Write rows into every table, with something in nearly every column."""
    db.state.set("phase", "plan", trigger="begun")
    id = db.execution.start("work", file_path="work.py", config={"a": 1})
    with db.phases.open("plan"), db.steps.open("write"):
        agent = db.agents.start("Why?", "opus", "Be short.")
        db.agents.progress(agent, turns=1, session_id="s")
        tool = db.tools.start(agent, "Read", {"path": "a"})
        db.tools.complete(tool, {"b": 1}, summary="read")
        db.vcs.log_commit(hash="abc", message="fix", author="me", files_changed=1)
        db.vcs.log_snapshot(snapshot_id="s", description="before")
        db.vcs.log_review(
            review_id="r", target="t", approved=False, summary="s", issues=["i"], blocking=True
        )
        db.state.set("phase", "review")
        db.agents.complete(agent, "done", structured={"c": 1})
    db.approvals.request(id, "gate", "Deploy?")
    db.approvals.request(id, "other", "Really?")
    db.approvals.approve("other", comment="yes")
    db.memories.add_fact("api", "at /v2", source="auth.ts", expires_at=timedelta(days=9))
    db.execution.complete(id, result={"d": 1})
    db.execution.start("more")
    db.database.feed("reader", "state", start="beginning")


BY_HAND = (
    "INSERT INTO _smithers_baseline VALUES ('phase', '1', 1, '2026-01-01T00:00:00.000000Z')",
    """INSERT INTO _smithers_places SELECT id, '[["step","a",0]]', 'step', 'x', 0, NULL
       FROM executions""",
    "INSERT INTO _smithers_sessions VALUES ('s', 0.5)",
    """INSERT INTO _smithers_triggers VALUES
       ('named', 'phase', NULL, 0, NULL, 1, '2026-01-01T00:00:00.000000Z', 'no', '2026-01-01')""",
    """INSERT INTO _smithers_triggers VALUES
       ('asked', NULL, 'SELECT 1', NULL, '[]', 0, NULL, NULL, '2026-01-01T00:00:00.000000Z')""",
    """INSERT INTO _smithers_dead_letters (name, change, digest, attempts, requeued, at, error)
       SELECT 'named', json_array(seq, key, previous_value, value, "trigger", timestamp,
           execution_id, agent_id, deleted, "commit"), NULL, 5, 0, timestamp, 'no'
       FROM transitions WHERE seq = 1""",
    """INSERT INTO _smithers_trigger_leases
       VALUES ('named', 't', 'h', 'b', 'n', 1, '1', 1.0, 1)""",
    """INSERT INTO _smithers_leases SELECT id, 't', 'h', 'b', 'n', 1, '1', 1.0, 1, '2026-01-01'
       FROM executions WHERE status = 'running'""",
)


class Original:
    """A whole database, of which copies are made with one cell of another kind."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._file = place / "original" / FILE
        with create_smithers_db(place / "original", watch=False) as db:
            fill(db)
        with closing(_writer(self._file)) as writer:
            for sql in BY_HAND:
                writer.execute(sql)
            self.columns = [
                (table, str(name), str(spelled))
                for table in WHOLE
                for _, name, spelled, *_ in writer.execute(f'PRAGMA table_info("{table}")')
            ]
            for table in WHOLE:
                assert writer.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0], table
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def cells(self) -> Iterator[Cell]:
        """List all that can be put into one column."""
        for table, column, _ in self.columns:
            for value in BAD:
                yield Cell(table, column, value)

    def with_cell(self, cell: Cell) -> Path | None:
        """Return the directory of a copy with it; None where SQLite itself refuses it."""
        copy = self.place / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        shutil.copy(self._file, copy / FILE)
        with closing(_writer(copy / FILE)) as writer:
            writer.execute("BEGIN")
            triggers = writer.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall()
            for name, _ in triggers:
                writer.execute(f'DROP TRIGGER "{name}"')
            first = f'(SELECT min(rowid) FROM "{cell.table}")'
            where = f"rowid = {first}" if _has_rowid(writer, cell.table) else "true"
            try:
                writer.execute(
                    f'UPDATE "{cell.table}" SET "{cell.column}" = {BAD[cell.value]} WHERE {where}'
                )
            except sqlite3.IntegrityError:
                return None  # NOT NULL, a unique key, a rowid that is none
            for _, sql in triggers:
                writer.execute(sql)
            writer.execute("COMMIT")
        return copy


def _writer(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def _has_rowid(writer: sqlite3.Connection, table: str) -> bool:
    try:
        writer.execute(f'SELECT rowid FROM "{table}"')
    except sqlite3.OperationalError:
        return False
    return True


def _ids(rows: Sequence[Agent | ToolCall]) -> list[str]:
    """List those ids that could be ids: asking for another is the caller's mistake."""
    return [str(row.id) for row in rows if row.id and "\0" not in str(row.id)]


READING: Mapping[str, Callable[[SmithersDB], Any]] = {
    "state.get": lambda db: db.state.get("phase"),
    "state.entry": lambda db: db.state.entry("phase"),
    "state.entries": lambda db: db.state.entries(),
    "state.get_all": lambda db: db.state.get_all(),
    "state.keys": lambda db: db.state.keys(),
    "state.has": lambda db: db.state.has("phase"),
    "state.history": lambda db: db.state.history(limit=None),
    "state.history of a key": lambda db: db.state.history("phase"),
    "state.state_at": lambda db: db.state.state_at("t2"),
    "state.snapshot": lambda db: db.state.snapshot(),
    "state.observe": lambda db: db.state.observe("phase").peek(),
    "state.observe_all": lambda db: db.state.observe_all().peek(),
    "state.key": lambda db: db.state.key("phase", str, default="").get(),
    "execution.list": lambda db: db.execution.list(limit=None),
    "execution.current": lambda db: db.execution.current(),
    "execution.find_incomplete": lambda db: db.execution.find_incomplete(),
    "execution.observe": lambda db: db.execution.observe().peek(),
    "phases.list": lambda db: db.phases.list(),
    "phases.observe": lambda db: db.phases.observe().peek(),
    "steps.list": lambda db: db.steps.list(),
    "steps.observe": lambda db: db.steps.observe().peek(),
    "agents.list": lambda db: db.agents.list(),
    "agents.observe": lambda db: db.agents.observe().peek(),
    "tools.list": lambda db: [db.tools.list(id) for id in _ids(db.agents.list())],
    "tools.get_output": lambda db: [
        db.tools.get_output(call)
        for agent in _ids(db.agents.list())
        for call in _ids(db.tools.list(agent))
    ],
    "vcs.commits": lambda db: db.vcs.commits(),
    "vcs.snapshots": lambda db: db.vcs.snapshots(),
    "vcs.reviews": lambda db: db.vcs.reviews(),
    "vcs.blocking_reviews": lambda db: db.vcs.blocking_reviews(),
    "memories.list": lambda db: db.memories.list(),
    "memories.get": lambda db: db.memories.get("fact", "api"),
    "memories.search": lambda db: db.memories.search("v2"),
    "memories.stats": lambda db: db.memories.stats(),
    "approvals.list": lambda db: db.approvals.list(),
    "triggers.list": lambda db: db.triggers.list(),
    "triggers.dead": lambda db: db.triggers.dead("named"),
    "stats": lambda db: db.stats(),
    "check": lambda db: db.check(),
    "dump": lambda db: db.dump(db.path.parent / "dump.jsonl") if db.path else None,
    "prune": lambda db: db.prune(keep_executions=0, dry_run=True),
    "feeds": lambda db: db.database.feeds(),
    "feed.due": lambda db: db.database.feed("reader", "state").due(),
}
