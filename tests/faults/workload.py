"""What a process is at when it is killed: one kind of work for ever, each answer written down.

Run as a program it imports once and then forks a worker for each order that it reads.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from smithers import SmithersDB, create_smithers_db

MANY = 50
STATES: dict[str, dict[str, str]] = {
    name: {f"r{i}": f"{name}{i}" for i in keys}
    for name, keys in (("a", range(40)), ("b", range(20, 60)))
}
Say = Callable[..., None]
Work = Callable[[SmithersDB, int, Say], None]


def set_one(db: SmithersDB, n: int, acknowledged: Say) -> None:
    made = db.state.set(f"k{n % 7}", n, trigger="one")
    acknowledged("set", made.seq, made.key, n)


def set_many(db: SmithersDB, n: int, acknowledged: Say) -> None:
    made = db.state.set_many({f"m{i}": n for i in range(MANY)}, trigger=f"many {n}")
    acknowledged("many", made[0].seq, made[-1].seq, n)


def restore(db: SmithersDB, n: int, acknowledged: Say) -> None:
    name = "ab"[n % 2]
    made = db.state.restore(STATES[name], trigger=f"restore {name}")
    if made:
        acknowledged("whole", made[-1].seq, name)


def replay(db: SmithersDB, n: int, acknowledged: Say) -> None:
    if n % 1000 == 0:
        for name, state in STATES.items():
            made = db.state.restore(state, trigger=f"restore {name}")
            if made:
                db.state.set("to " + name, made[-1].id)  # and away it is with the next
    name = "ab"[n % 2]
    first = db.query(
        'SELECT min("commit"), max(seq) AS seq FROM transitions WHERE "trigger" = $1'
        ' GROUP BY "commit" ORDER BY "commit" LIMIT 1',
        [f"restore {name}"],
    )
    made = db.state.replay_to(first[0]["seq"])
    if made:
        acknowledged("whole", made[-1].seq, name)


def prune(db: SmithersDB, n: int, acknowledged: Say) -> None:
    for _ in range(3):
        id = db.execution.start("Work")
        with db.phases.open("plan"), db.agents.open("Think") as agent:
            db.tools.complete(db.tools.start(agent, "Read", {}), "text")
        db.execution.complete(id)
        acknowledged("newest", id)
    db.state.set_many({f"p{i}": n for i in range(5)})
    acknowledged("value", "p0", n)
    db.prune(before=timedelta(0), keep_executions=2)


def migrate(db: SmithersDB, n: int, acknowledged: Say) -> None:
    made = db.state.set("migrated", n)
    acknowledged("set", made.seq, made.key, n)


def feed(db: SmithersDB, n: int, acknowledged: Say) -> None:
    orders = db.database["orders"]
    if not orders.exists():
        with db.transaction():
            orders.create({"id": int, "n": int}, pk="id")
            orders.track()
            db.database["done"].create({"seq": int})  # no key: twice done is two rows
    consumer = db.database.feed("worker", "orders", start="beginning")
    orders.insert({"n": n})
    for change in consumer.due():
        with db.transaction():
            db.database["done"].insert({"seq": change.seq})
            consumer.ack(change)
        acknowledged("done", change.seq)


def records(db: SmithersDB, n: int, acknowledged: Say) -> None:
    execution = db.execution.start("Work")
    acknowledged("row", "executions", execution, "running")
    with db.phases.open("plan") as phase, db.steps.open("think") as step:
        acknowledged("row", "phases", phase, "running")
        agent = db.agents.start("Think")
        tool = db.tools.start(agent, "Read", {"n": n})
        db.tools.complete(tool, "text")
        acknowledged("row", "tool_calls", tool, "completed")
        db.agents.progress(agent, turns=n)
        db.agents.complete(agent, "done", tokens={"input": n, "output": 1, "cost_usd": 0.01})
        acknowledged("row", "agents", agent, "completed")
    acknowledged("row", "steps", step, "completed")
    acknowledged("row", "phases", phase, "completed")
    db.execution.complete(execution, {"n": n})
    acknowledged("row", "executions", execution, "completed")


WORK: dict[str, Work] = {
    work.__name__: work
    for work in (set_one, set_many, restore, replay, prune, migrate, feed, records)
}


def acknowledgements(file: Path) -> Iterator[list[Any]]:
    """Yield what was acknowledged; a line that was cut off was not."""
    for line in file.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield json.loads(line)


def main() -> None:
    """Do as each line says: {"kind", "path", "log", "first", "early"}; never returns in a worker.

    Says the number of the worker, "working", which is before it opens the database where that is
    `early`, and when it is gone "ended" and why.
    """
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if not pid:
            try:
                _work(**order)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        _say(f"{pid}")
        _, status = os.waitpid(pid, 0)
        _say(f"ended {os.waitstatus_to_exitcode(status)}")


def _work(kind: str, path: str, log: str, first: int, *, early: bool) -> None:
    file = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)

    def acknowledged(*what: Any) -> None:
        os.write(file, json.dumps(what).encode() + b"\n")  # in one piece, and past any buffer

    if early:
        _say("working")
    db = create_smithers_db(path, watch=False)
    if not early:
        _say("working")
    for n in itertools.count(first):
        WORK[kind](db, n, acknowledged)


def _say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
