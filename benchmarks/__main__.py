"""Runs the benchmarks and prints their tables."""

from __future__ import annotations

import platform
import tempfile
from pathlib import Path

from benchmarks import costs, latency
from benchmarks.timing import show
from reactive_sqlite import sqlite3


def main() -> None:
    """Print what everything costs on this machine; takes some ten seconds."""
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}; best of several")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        show("Signals, beside an attribute", costs.signals())
        show("A write and its commit, beside sqlite3", costs.writes(folder))
        show("A state change with history, beside sqlite3", costs.state(folder))
        delays = latency.other_process(folder)
        middle, late = delays[len(delays) // 2], delays[int(len(delays) * 0.99)]
        print("\nA commit of another process, from its end to the subscriber here")
        print(f"  {len(delays)} commits: half within {middle:.2f} ms, 99 % within {late:.2f} ms")


if __name__ == "__main__":
    main()
