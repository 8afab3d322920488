"""A workflow database grown large: reads, opening, memory, and an agent beside sqlite3 by hand."""

from __future__ import annotations

import itertools
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from benchmarks.figures import Figure, Outcome
from benchmarks.timing import Effort, interleave
from smithers import SmithersDB, create_smithers_db

TITLE = "Workflow: a database with 1,000,000 transitions, 100,000 agents and as many tool calls"
TRANSITIONS = 1_000_000
AGENTS = 100_000
AGENTS_OF_AN_EXECUTION = 100
KEYS = 1_000
OUTPUT_MB = 64

READ_AT_MOST = 5.0
STATS_AT_MOST = 1_000.0
REPLAY_AT_MOST = 200.0
OPEN_AT_MOST = 50.0
GROWTH_AT_MOST = 30.0
AGENT_AT_MOST = 2.5

MOMENT = "2026-01-31T12:00:00.000000Z"
BY_HAND = "the same statements by hand"
# Run in a process of its own, which has loaded everything before it opens the database. What it
# holds is looked at after each question: the most that it ever held would hide behind the loading.
GROWTH = """
import os, resource, sys
from smithers import create_smithers_db
def held():
    if not os.path.exists("/proc/self/statm"):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
with create_smithers_db(":memory:") as db:
    db.execution.start("warm"), db.agents.list(), db.state.history(), db.stats()
before = most = held()
with create_smithers_db(sys.argv[1]) as db:
    execution = db.execution.list(limit=1)[0].id
    for ask in (
        lambda: db.state.get("key 1"),
        lambda: db.state.history("key 1", 10),
        db.execution.current,
        lambda: db.agents.list(execution),
        db.stats,
        lambda: db.state.state_at(sys.argv[2]),
        lambda: db.state.replay_to(sys.argv[2]),
    ):
        answer = ask()
        most = max(most, held())
print((most - before) / (1 << 20))
"""
START = """
    INSERT INTO agents (id, execution_id, model, prompt, started_at) VALUES (?, ?, ?, ?, ?)
"""
COMPLETE = """
    UPDATE agents SET status = 'completed', output = ?, tokens_input = ?, tokens_output = ?,
        completed_at = ?, duration_ms = ? WHERE id = ? AND status = 'running'
"""


def measure(effort: Effort, folder: Path) -> Outcome:
    """Fill a database by plain SQL, then ask it what users ask."""
    path = folder / "large"
    transitions, agents = effort.count(TRANSITIONS, least=2_000), effort.count(AGENTS, least=200)
    create_smithers_db(path).close()
    fill(path / "db.sqlite", transitions, agents)
    middle = f"t{transitions // 2}"
    opening = _fastest(lambda: create_smithers_db(path).close(), 5)
    with create_smithers_db(path) as db:
        execution = db.execution.list(limit=1)[0].id
        reads = {
            "state.get": lambda: db.state.get("key 1"),
            "state.history(key, 10)": lambda: db.state.history("key 1", 10),
            "execution.current()": db.execution.current,
            "agents.list(execution)": lambda: db.agents.list(execution),
        }
        series = interleave(reads, effort)
        stats = _fastest(db.stats, 3)
        replay = _fastest(lambda: db.state.replay_to(middle), 1)
        back = _fastest(lambda: db.state.replay_to(f"t{transitions}"), 1)
        went_in, came_out = _output(db, effort.count(OUTPUT_MB))
    figures = (
        *(
            Figure(name, series.typical(name) * 1e3, unit="ms", at_most=READ_AT_MOST)
            for name in reads
        ),
        Figure("stats", stats * 1e3, unit="ms", at_most=STATS_AT_MOST),
        Figure(
            f"replay_to over {KEYS:,} keys",
            max(replay, back) * 1e3,
            unit="ms",
            at_most=REPLAY_AT_MOST,
        ),
        Figure("opening and closing", opening * 1e3, unit="ms", at_most=OPEN_AT_MOST),
        Figure("memory to open and ask all that", _growth(path, middle), "", "MB", GROWTH_AT_MOST),
        Figure("agents.start + complete", _agents(effort, folder), BY_HAND, at_most=AGENT_AT_MOST),
        Figure(f"a tool's output of {effort.count(OUTPUT_MB)} MB in", went_in * 1e3, unit="ms"),
        Figure(f"a tool's output of {effort.count(OUTPUT_MB)} MB out", came_out * 1e3, unit="ms"),
    )
    return Outcome("workflow", TITLE, figures)


def fill(file: Path, transitions: int, agents: int) -> None:
    """Write history, executions, agents and tool calls as another program would."""
    with closing(sqlite3.connect(file)) as plain:
        keys = min(KEYS, transitions)
        plain.executemany(
            'INSERT INTO transitions (key, previous_value, value, timestamp, "commit", apply)'
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                (f"key {n % keys}", f"{n - keys}", f"{n}", MOMENT, n + 1, n >= transitions - keys)
                for n in range(transitions)
            ),
        )
        executions = max(1, agents // AGENTS_OF_AN_EXECUTION)
        plain.executemany(
            "INSERT INTO executions (id, name, status) VALUES (?, 'large', ?)",
            (
                (f"e{n}", "running" if n == executions - 1 else "completed")
                for n in range(executions)
            ),
        )
        plain.executemany(
            "INSERT INTO agents (id, execution_id, model, prompt, status, tokens_input)"
            " VALUES (?, ?, 'sonnet', 'do it', 'completed', 10)",
            ((f"a{n}", f"e{n * executions // agents}") for n in range(agents)),
        )
        plain.executemany(
            "INSERT INTO tool_calls (id, agent_id, execution_id, name, input, output, status)"
            " VALUES (?, ?, ?, 'Edit', '{}', 'edited', 'completed')",
            ((f"c{n}", f"a{n}", f"e{n * executions // agents}") for n in range(agents)),
        )
        plain.commit()


def _agents(effort: Effort, folder: Path) -> float:
    """Start and complete agents in a running execution, beside the statements alone."""
    numbers = itertools.count()
    with create_smithers_db(folder / "agents") as db, create_smithers_db(folder / "hand") as other:
        db.execution.start("measured")
        execution = other.execution.start("measured")
        plain = sqlite3.connect(folder / "hand" / "db.sqlite", isolation_level=None)
        plain.executescript("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;")

        def ours() -> None:
            id = db.agents.start("do it")
            db.agents.complete(id, "done", tokens={"input": 10, "output": 5})

        def by_hand() -> None:
            id = f"agent {next(numbers)}"
            plain.execute(START, (id, execution, "sonnet", "do it", MOMENT))
            plain.execute(COMPLETE, ("done", 10, 5, MOMENT, 1, id))

        with closing(plain):
            return interleave({"ours": ours, BY_HAND: by_hand}, effort).ratio("ours", BY_HAND)


def _output(db: SmithersDB, megabytes: int) -> tuple[float, float]:
    agent = db.agents.start("read it all")
    call = db.tools.start(agent, "Read", {"file": "large"})
    text = "x" * (megabytes << 20)
    began = time.perf_counter()
    db.tools.complete(call, text)
    written = time.perf_counter()
    whole = db.tools.get_output(call)
    read = time.perf_counter()
    if whole != text:
        raise AssertionError("an output came back other than it went in")
    return written - began, read - written


def _growth(path: Path, transition: str) -> float:
    command = [sys.executable, "-c", GROWTH, str(path), transition]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _fastest(work: Callable[[], object], times: int) -> float:
    seconds: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)
