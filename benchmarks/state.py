"""Workflow state beside sqlite3 by hand: a write with its history, and reads."""

from __future__ import annotations

import itertools
import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.databases import ignore
from benchmarks.figures import Figure, Outcome
from benchmarks.timing import Effort, interleave
from reactive_sqlite import create_signal
from smithers import create_smithers_db

TITLE = "State: a write with history, and reads"
SET_AT_MOST = 1.5
GET_AT_MOST = 3.0
SIGNAL_READ_AT_MOST = 100.0

BY_HAND = "the transaction by hand"
POINT_READ = "a point read by hand"
# The rows, keys and index of ours, and one row for a change log that other processes read;
# without its checks and triggers, which nobody writes by hand.
SCHEMA = """
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE state (
        key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL, updated_at TEXT NOT NULL, seq INTEGER
    ) WITHOUT ROWID;
    CREATE TABLE transitions (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, previous_value TEXT, value TEXT,
        "trigger" TEXT, timestamp TEXT NOT NULL, execution_id TEXT, agent_id TEXT,
        deleted INTEGER NOT NULL DEFAULT 0, "commit" INTEGER NOT NULL
    );
    CREATE INDEX transitions_by_key ON transitions (key, seq);
    CREATE TABLE changes (
        seq INTEGER PRIMARY KEY, tbl TEXT NOT NULL, op TEXT NOT NULL, key, at INTEGER NOT NULL
    );
"""
READ = "SELECT value FROM state WHERE key = ?"
RECORD = """
    INSERT INTO transitions (key, previous_value, value, "trigger", timestamp, "commit")
    VALUES (?, ?, ?, ?, ?, coalesce((SELECT seq FROM sqlite_sequence), 0) + 1)
"""
LOG = "INSERT INTO changes (tbl, op, key, at) VALUES ('state', 'set', ?, ?)"
UPSERT = """
    INSERT INTO state VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE
    SET value = excluded.value, updated_at = excluded.updated_at, seq = excluded.seq
"""


class ByHand:
    """What a careful program without a library does for each change: value, history and log."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.executescript(SCHEMA)

    def set(self, key: str, value: object, trigger: str) -> None:
        execute = self.connection.execute
        text = json.dumps(value, allow_nan=False)
        now = datetime.now(UTC).isoformat()
        execute("BEGIN IMMEDIATE")
        try:
            old = execute(READ, (key,)).fetchone()
            previous = None if old is None else old[0]
            recorded = execute(RECORD, (key, previous, text, trigger, now))
            execute(UPSERT, (key, text, now, recorded.lastrowid))
            execute(LOG, (key, time.time_ns() // 1_000_000))
        except BaseException:
            execute("ROLLBACK")
            raise
        execute("COMMIT")

    def get(self, key: str) -> object:
        return self.connection.execute(READ, (key,)).fetchone()

    def close(self) -> None:
        self.connection.close()


def measure(effort: Effort, folder: Path) -> Outcome:
    """Compare `db.state` with the same rows written and read by hand."""
    numbers = itertools.count()
    with (
        closing(ByHand(folder / "by_hand.sqlite")) as by_hand,
        create_smithers_db(folder / "quiet") as quiet,
        create_smithers_db(folder / "observed") as observed,
    ):
        observed.state.observe("phase").subscribe(ignore)
        writes = interleave(
            {
                BY_HAND: lambda: by_hand.set("phase", next(numbers), "bench"),
                "set": lambda: quiet.state.set("phase", next(numbers), "bench"),
                "observed": lambda: observed.state.set("phase", next(numbers), "bench"),
            },
            effort,
        )
        phase, _ = observed.state.signal("phase")
        plain, _ = create_signal(0)
        reads = interleave(
            {
                POINT_READ: lambda: by_hand.get("phase"),
                "get": lambda: observed.state.get("phase"),
            },
            effort,
        )
        signals = interleave({"plain": plain, "state": phase}, effort)
    figures = (
        Figure("set, one observer", writes.ratio("observed", BY_HAND), BY_HAND, "x", SET_AT_MOST),
        Figure("set, nobody observes", writes.ratio("set", BY_HAND), BY_HAND),
        Figure("get", reads.ratio("get", POINT_READ), POINT_READ, "x", GET_AT_MOST),
        _read("create_signal's", signals.typical("plain")),
        _read("state.signal's", signals.typical("state")),
        Figure(BY_HAND, writes.typical(BY_HAND) * 1e6, unit="µs"),
        Figure(POINT_READ, reads.typical(POINT_READ) * 1e6, unit="µs"),
    )
    return Outcome("state", TITLE, figures)


def _read(whose: str, seconds: float) -> Figure:
    return Figure(f"{whose} accessor", seconds * 1e9, unit="ns", at_most=SIGNAL_READ_AT_MOST)
