"""What becomes of everything that knows the time when the clock is turned; run under the shim.

Run as `turned.py FOLDER`; prints one line of JSON: what was found wrong, by scenario.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from reactive_sqlite import sqlite3
from smithers import ExecutionBusy, SmithersDB, create_smithers_db, ownership
from smithers.ids import new_id
from smithers.process import since_boot
from tests.faults.clock import DAY, HOUR, Clock

# Two days back in all, and ahead of where it began at the end.
TURNS = (0, -DAY, DAY, -DAY, 2 * DAY)
TABLES = ("executions", "phases", "steps", "agents", "tool_calls")


def moves(db: SmithersDB, clock: Clock) -> Iterator[str]:
    """Whether the clock that is turned is that of Python and of SQLite, and only the day's."""
    since, began = since_boot(), datetime.now(UTC)
    for ahead in TURNS:
        clock.ahead(ahead)
        python = datetime.now(UTC)
        (row,) = db.query("SELECT strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now') AS now")
        if abs(python - began - timedelta(microseconds=ahead // 1000)) > timedelta(minutes=1):
            yield f"at {ahead} Python says {python}"
        if abs(python - datetime.fromisoformat(row["now"])) > timedelta(minutes=1):
            yield f"SQLite says {row['now']}, Python {python}"
    if not 0 <= since_boot() - since < 3600:
        yield "the time since boot was turned too"


def ids(db: SmithersDB, clock: Clock) -> Iterator[str]:
    """Ids are unique and sort by the order of their making, in one process."""
    made: list[str] = []
    for ahead in TURNS:
        clock.ahead(ahead)
        made += [new_id() for _ in range(500)]
        clock.stop()
        made += [new_id() for _ in range(500)]
        clock.stop(stand=False)
    if len(set(made)) != len(made):
        yield "an id was made twice"
    if made != sorted(made):
        yield "an id sorts before one that was made earlier"


def order(db: SmithersDB, clock: Clock) -> Iterator[str]:
    """History, feeds and listings are in the order of what happened."""
    executions: list[str] = []
    feed = db.database.feed("follower", "transitions")
    for number, ahead in enumerate(TURNS):
        clock.ahead(ahead)
        db.state.set("phase", number)
        foreign(db, f"UPDATE state SET value = '\"{number}\"' WHERE key = 'phase'")
        executions.append(db.execution.start(str(number)))
        db.execution.complete(executions[-1])
    history = db.state.history("phase")
    wanted = [value for number in range(len(TURNS)) for value in (number, str(number))]
    if [change.value for change in history] != wanted:
        yield f"history is {[change.value for change in history]}"
    if db.state.state_at(history[3].id)["phase"] != "1":
        yield "the state at a transition is that of another one"
    listed = [execution.id for execution in db.execution.list()]
    if listed != executions[::-1]:
        yield f"executions are listed as {listed}, newest first"
    seqs = [change.seq for change in feed.due()]
    if seqs != sorted(seqs) or len(seqs) < len(wanted):
        yield f"the feed gives {seqs}"


def durations(db: SmithersDB, clock: Clock) -> Iterator[str]:
    """No duration is negative, whoever ends what, and wherever it is measured."""
    for ahead in TURNS:
        clock.ahead(0)
        id = db.execution.start("own")
        phase = db.phases.start("phase")
        step = db.steps.start("step")
        agent = db.agents.start("prompt")
        tool = db.tools.start(agent, "Bash", {})
        clock.ahead(ahead)
        db.tools.complete(tool, "done")
        db.agents.complete(agent, "done")
        db.steps.complete(step)
        db.phases.complete(phase)
        db.execution.complete(id)
        clock.ahead(0)
        yield from ended_by_sql(db, clock, ahead)
    for table in TABLES:
        odd = db.query(f"SELECT id, duration_ms FROM {table} WHERE duration_ms < 0")
        yield from (f"{table}: {row}" for row in odd)
    yield from (found.message for found in db.check() if found.level == "error")


def ended_by_sql(db: SmithersDB, clock: Clock, ahead: int) -> Iterator[str]:
    assert db.path is not None
    with create_smithers_db(db.path.parent, watch=False) as other:
        id = other.execution.start("ended by SQL, and all below it")
        phase = other.phases.start("phase")
        other.tools.start(other.agents.start("prompt"), "Bash", {})
        clock.ahead(ahead)
        foreign(db, f"UPDATE executions SET status = 'failed' WHERE id = '{id}'")
        if (found := db.phases.get(phase)) is None or found.duration_ms is None:
            yield "what SQL has ended has no duration"


def leases(db: SmithersDB, clock: Clock) -> Iterator[str]:
    """A live run keeps what it owns, and its heart beats on; what was given back is free."""
    ownership.HEARTBEAT = 0.02
    assert db.path is not None
    with create_smithers_db(db.path.parent, watch=False) as other:
        clock.ahead(0)
        id = db.execution.start("mine")
        for ahead in TURNS:
            clock.ahead(ahead)
            before = beat(db, id)
            try:
                other.execution.resume(id)
                yield f"taken from a live run at {ahead}"
            except ExecutionBusy:
                pass
            waited = threading.Event()
            for _ in range(1000):
                if beat(db, id) > before or waited.wait(0.01):
                    break
            else:
                yield f"the heart stands still at {ahead}"
        db.execution.interrupt(id)
        if other.execution.resume(id).status != "running":
            yield "what was given back cannot be taken"
        other.execution.complete(id)


def memories(db: SmithersDB, clock: Clock) -> Iterator[str]:
    """What expires is there until its time, by the clock as it is, and is never pruned before."""
    clock.ahead(0)
    until = datetime.now(UTC) + timedelta(hours=1)
    db.memories.add("fact", "fleeting", "for an hour", expires_at=until)
    for ahead, there in ((0, True), (-DAY, True), (2 * HOUR, False), (0, True)):
        clock.ahead(ahead)
        if (db.memories.get("fact", "fleeting") is not None) is not there:
            yield f"at {ahead} it is {'gone' if there else 'there'}"
        if there:
            db.prune(before=timedelta(0))
    clock.ahead(-DAY)
    changed = db.memories.add("fact", "fleeting", "said anew")
    if changed.created_at > until or changed.content != "said anew":
        yield f"changed to {changed}"


def pruning(db: SmithersDB, clock: Clock) -> Iterator[str]:
    """By age goes only what is older than its elders all are; the newest stay, in order."""
    clock.ahead(0)
    for number in range(3):
        db.state.set("young", number)
    clock.ahead(-DAY)
    db.state.set("young", "by a clock set back")
    clock.ahead(0)
    db.prune(before=timedelta(hours=12))
    kept = [change.value for change in db.state.history("young")]
    if kept != [0, 1, 2, "by a clock set back"]:
        yield f"history is {kept}"
    id = db.execution.start("young")
    clock.ahead(-DAY)
    db.execution.complete(id)
    clock.ahead(0)
    loose = db.agents.start("of no execution")
    clock.ahead(-DAY)
    db.agents.complete(loose, "done")
    clock.ahead(0)
    db.prune(before=timedelta(hours=12))
    if db.execution.get(id) is None or db.agents.get(loose) is None:
        yield "what has begun just now is gone"


def trimming(db: SmithersDB, clock: Clock) -> Iterator[str]:
    """What is trimmed by age out of the midst of the log is missed by nobody who observes."""
    assert db.path is not None
    with create_smithers_db(db.path.parent, watch=False) as other:
        told: list[Any] = []
        other.state.observe("trimmed").subscribe(told.append)
        clock.ahead(0)
        db.state.set("another", 1)
        clock.ahead(-DAY)
        db.state.set("trimmed", "seen")
        clock.ahead(0)
        db.state.set("another", 2)
        db.database.drop_consumer("follower")
        db.database.trim_feed(timedelta(hours=12))
        other.database.refresh()
        if told != [None, "seen"]:
            yield f"told {told}"


def triggers(db: SmithersDB, clock: Clock) -> Iterator[str]:
    """A pause before the next attempt ends when its time has come, or makes no sense any more."""
    calls: list[Any] = []

    @db.triggers.on("turned", name="fails")
    def fail(transition: Any) -> None:
        calls.append(transition.value)
        raise RuntimeError("not yet")

    clock.ahead(0)
    db.state.set("turned", 1)
    for ahead in (0, -DAY, DAY, -DAY):
        clock.ahead(ahead)
        before = len(calls)
        db.triggers.deliver()
        if len(calls) != before + 1:
            yield f"not called at {ahead}"
        db.triggers.deliver()
        if len(calls) != before + 1:
            yield f"called without a pause at {ahead}"


def beat(db: SmithersDB, id: str) -> int:
    (row,) = db.query("SELECT beat FROM _smithers_leases WHERE execution_id = ?", [id])
    return int(row["beat"])


def foreign(db: SmithersDB, sql: str) -> None:
    """Write as a program that knows nothing of this package."""
    assert db.path is not None
    with closing(sqlite3.connect(db.path)) as connection, connection:
        connection.execute(sql)
    db.database.refresh()


SCENARIOS: dict[str, Callable[[SmithersDB, Clock], Iterator[str]]] = {
    scenario.__name__: scenario
    for scenario in (
        *(moves, ids, order, durations, leases, memories, pruning, trimming, triggers),
    )
}


if __name__ == "__main__":
    shim = Clock()
    with create_smithers_db(Path(sys.argv[1]), watch=False) as opened:
        found = {name: list(scenario(opened, shim)) for name, scenario in SCENARIOS.items()}
    print(json.dumps(found))
