"""How soon a commit of another process is heard of, from the commit's end to the subscriber."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from reactive_sqlite import Database

COMMITS = 200
WRITER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)
connection.execute("pragma synchronous=normal")
for number in range(int(sys.argv[2])):
    time.sleep(0.02)
    connection.execute("insert into t values (?)", (number,))
    print(time.monotonic_ns(), flush=True)
"""


def other_process(folder: Path) -> list[float]:
    """Return the delays in milliseconds, sorted."""
    heard: dict[int, int] = {}
    last = threading.Event()

    def hear(number: int | None) -> None:
        if number is not None:
            heard[number] = time.monotonic_ns()
            if number == COMMITS - 1:
                last.set()

    path = folder / "latency.sqlite"
    with Database(path) as database:
        database.execute("create table t (n integer)")
        database.observe_value("select max(n) from t").subscribe(hear)
        writer = subprocess.run(
            [sys.executable, "-c", WRITER, str(path), str(COMMITS)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert last.wait(10), "the last commit was not heard of"
    committed = [int(line) for line in writer.stdout.split()]
    # A commit that was heard of together with a later one counts from its own end.
    return sorted(
        max(0.0, (min(heard[n] for n in heard if n >= number) - at) / 1e6)
        for number, at in enumerate(committed)
    )
