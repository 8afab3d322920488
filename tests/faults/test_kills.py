"""`kill -9` at any moment: what was acknowledged is there, and nothing is half there."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import sqlite3
from smithers import create_smithers_db
from smithers.schema import SCHEMA_VERSION
from tests.faults import workload
from tests.faults.workload import MANY, STATES, WORK, acknowledgements
from tests.smithers.commandline import environment
from tests.smithers.schemas import fixtures

QUICK = 20
LONG = int(os.environ.get("SMITHERS_KILLS", "200"))
# A file is used so often, one crash after the other, and then a new one.
KILLS_OF_A_FILE = 25
LONGEST = 0.08
OLD = 1

# Rows of the state that are not what history says of their key last, and the other way round. What
# was pruned stands in the baseline.
TORN_STATE = """
    WITH newest AS (
        SELECT key, value, deleted FROM transitions
        WHERE seq IN (SELECT max(seq) FROM transitions GROUP BY key)
        UNION ALL
        SELECT key, value, 0 FROM _smithers_baseline AS pruned
        WHERE NOT EXISTS (SELECT 1 FROM transitions WHERE key = pruned.key)
    )
    SELECT key, value FROM newest WHERE NOT deleted EXCEPT SELECT key, value FROM state
    UNION ALL
    SELECT key, value FROM state
    EXCEPT SELECT key, value FROM newest WHERE NOT deleted
"""
TORN_TOTALS = """
    SELECT id FROM executions AS e WHERE
        total_agents <> (SELECT count(*) FROM agents WHERE execution_id = e.id)
        OR total_tokens_used <> (
            SELECT coalesce(sum(tokens_input + tokens_output), 0) FROM agents
            WHERE execution_id = e.id
        )
        OR total_tool_calls <> (
            SELECT count(*) FROM tool_calls JOIN agents ON agents.id = tool_calls.agent_id
            WHERE agents.execution_id = e.id
        )
        OR status = 'completed' AND (
            EXISTS (SELECT 1 FROM phases WHERE execution_id = e.id AND status = 'running')
        )
"""


@dataclass
class Figures:
    """What came of the kills."""

    kills: Counter[str] = field(default_factory=lambda: Counter[str]())
    acknowledged: int = 0

    def __str__(self) -> str:
        kinds = ", ".join(f"{n} of {kind}" for kind, n in sorted(self.kills.items()))
        return (
            f"{self.kills.total()} kills ({kinds}): {self.acknowledged} calls acknowledged, "
            "0 of them lost, 0 torn, quick_check ok after each"
        )


class Workers:
    """Starts workers, one at a time, and kills them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def killed(self, order: dict[str, Any], seconds: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        said = {self._line(), self._line()}  # two processes write there
        assert "working" in said, said
        (pid,) = said - {"working"}
        threading.Event().wait(seconds)
        os.kill(int(pid), signal.SIGKILL)
        assert self._line() == f"ended {-signal.SIGKILL}", "it did its work until it was killed"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")


@contextmanager
def workers() -> Generator[Workers]:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", workload.__name__],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Workers(process)
        finally:
            process.kill()


def kills(folder: Path, count: int, seed: int) -> Figures:
    """Kill workers of every kind in turn, and look at what each has left."""
    rng, figures = random.Random(seed), Figures()
    kinds = list(WORK)
    with workers() as started:
        for number in range(count):
            kind, turn = kinds[number % len(kinds)], number // len(kinds)
            place = folder / f"{kind} {turn // KILLS_OF_A_FILE}"
            if kind == "migrate":
                place = folder / f"{kind} {turn}"
                place.mkdir()
                shutil.copy(fixtures()[OLD], place / "db.sqlite")
            log = folder / "acknowledged"
            log.unlink(missing_ok=True)
            order = {
                "kind": kind,
                "path": str(place),
                "log": str(log),
                "first": number * 1000,
                "early": kind == "migrate" or rng.random() < 0.2,
            }
            started.killed(order, rng.uniform(0, LONGEST))
            said = list(acknowledgements(log)) if log.exists() else []
            figures.kills[kind] += 1
            figures.acknowledged += len(said)
            whereabouts = f"kill {number} of seed {seed}, at {kind}"
            if (place / "db.sqlite").exists():
                examine(place, kind, said, whereabouts)
            else:
                assert not said, f"{whereabouts}: the file is gone"
            if kind == "migrate":
                shutil.rmtree(place)
    return figures


def examine(place: Path, kind: str, said: list[list[Any]], whereabouts: str) -> None:
    """Check what a killed process has left, by SQLite alone and then by this package."""
    with closing(sqlite3.connect(place / "db.sqlite")) as plain:
        assert plain.execute("PRAGMA quick_check").fetchall() == [("ok",)], whereabouts
        (version,) = plain.execute("PRAGMA user_version").fetchone()
        assert version in (0 if kind != "migrate" else OLD, SCHEMA_VERSION), "all of it or nothing"
        if version == SCHEMA_VERSION:
            assert plain.execute(TORN_STATE).fetchall() == [], whereabouts
            assert plain.execute(TORN_TOTALS).fetchall() == [], whereabouts
            never_half(plain, kind, whereabouts)
            lost = [what for what in said if not is_there(plain, what)]
            assert not lost, f"{whereabouts}: {len(lost)} of {len(said)} lost, first {lost[0]}"
        else:
            assert not said, whereabouts
    with create_smithers_db(place, watch=False) as db:
        assert [found for found in db.check(quick=True) if found.level == "error"] == []
        assert db.state.set("after", whereabouts).value == whereabouts, "and then it works"
        db.state.delete("after")
        if kind == "migrate":
            assert db.state.get("phase") == "review", "what the old file had"


def never_half(plain: sqlite3.Connection, kind: str, whereabouts: str) -> None:
    """Check that what belongs together is there together."""
    if kind == "set_many":
        halves = plain.execute(
            'SELECT "trigger", count(*) AS n FROM transitions WHERE "trigger" LIKE \'many %\''
            ' GROUP BY "trigger" HAVING n <> ? OR count(DISTINCT "commit") > 1',
            (MANY,),
        ).fetchall()
        assert halves == [], whereabouts
    if kind in ("restore", "replay"):
        state = {
            key: json.loads(value)
            for key, value in plain.execute("SELECT key, value FROM state WHERE key LIKE 'r%'")
        }
        assert state in ({}, *STATES.values()), whereabouts
    if (
        kind == "feed"
        and plain.execute("SELECT 1 FROM sqlite_master WHERE name = 'done'").fetchone()
    ):
        done = [seq for (seq,) in plain.execute("SELECT seq FROM done ORDER BY seq")]
        assert len(done) == len(set(done)), f"{whereabouts}: done twice"
        cursor = plain.execute(
            "SELECT cursor FROM _reactive_consumers WHERE name = 'worker'"
        ).fetchone()
        assert cursor is None or not done or cursor[0] == done[-1], whereabouts


def is_there(plain: sqlite3.Connection, what: list[Any]) -> bool:
    """Tell whether what was acknowledged is in the file."""
    match what:
        case ["set", seq, key, n]:
            sql, values = "SELECT key, value FROM transitions WHERE seq = ?", (seq,)
            return bool(plain.execute(sql, values).fetchall() == [(key, str(n))])
        case ["many", first, last, n]:
            sql = "SELECT count(*) FROM transitions WHERE seq BETWEEN ? AND ? AND value = ?"
            return bool(plain.execute(sql, (first, last, str(n))).fetchone() == (MANY,))
        case ["whole", seq, _]:
            return bool(plain.execute("SELECT 1 FROM transitions WHERE seq = ?", (seq,)).fetchone())
        case ["newest", id]:
            # The older ones may have been pruned, but not past those that came later.
            sql = "SELECT count(*), min(id) FROM executions WHERE status = 'completed'"
            kept, oldest = plain.execute(sql).fetchone()
            return bool(kept >= 1 and (oldest <= id or kept >= 2))
        case ["value", key, n]:
            (text,) = plain.execute("SELECT value FROM state WHERE key = ?", (key,)).fetchone()
            return bool(int(text) >= n)
        case ["done", seq]:
            return bool(plain.execute("SELECT 1 FROM done WHERE seq = ?", (seq,)).fetchone())
        case ["row", table, id, status]:
            found = plain.execute(f"SELECT status FROM {table} WHERE id = ?", (id,)).fetchone()
            return bool(found and found[0] in (status, "completed"))
        case _:
            raise AssertionError(f"nobody knows what {what} is")


def test_nothing_acknowledged_is_lost_by_a_kill_and_nothing_is_half_there(tmp_path: Path) -> None:
    figures = kills(tmp_path, QUICK, seed=random.randrange(2**32))
    assert figures.kills.total() == QUICK
    assert figures.kills.keys() == WORK.keys()


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_nothing_acknowledged_is_lost_by_hundreds_of_kills(tmp_path: Path) -> None:
    figures = kills(tmp_path, LONG, seed=random.randrange(2**32))
    assert figures.kills.total() == LONG
    assert figures.acknowledged > LONG, "most of them were killed at their work"
    print(figures)
