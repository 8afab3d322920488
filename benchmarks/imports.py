"""How long imports take, and a short command as a process, each in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks.figures import Figure, Outcome
from benchmarks.timing import Effort
from smithers import create_smithers_db

TITLE = "Imports, each in a fresh interpreter"
ROUNDS = 9

ROOT = Path(__file__).parent.parent
TIMED = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
SIGNALS, DATABASE, COMMAND = "reactive_sqlite, signals", "with Database", "smithers db state"
BESIDE = {"asyncio": "import asyncio", "sqlite_utils": "import sqlite_utils"}
IMPORTS = {
    SIGNALS: "import reactive_sqlite; reactive_sqlite.create_signal",
    DATABASE: "import reactive_sqlite; reactive_sqlite.Database",
    **BESIDE,
}
AT_MOST = {SIGNALS: 60.0, DATABASE: 200.0, COMMAND: 350.0}


def measure(effort: Effort, folder: Path) -> Outcome:
    """Time every import and the command by turns; the command from its start to its end."""
    with create_smithers_db(folder / "workflow") as db:
        db.state.set("phase", "review")
    command = ["from smithers.cli import main; main()", "db", "state", "--path"]
    command.append(str(folder / "workflow"))
    seconds: dict[str, list[float]] = {name: [] for name in (*IMPORTS, COMMAND, "pass")}
    # Compiled beforehand, as an installer leaves packages; also where the environment forbids to
    # write beside the sources.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for statement in IMPORTS.values():
        _run(environment, statement)
    _run(environment, *command)
    for _ in range(min(ROUNDS, effort.rounds)):
        for name, statement in IMPORTS.items():
            seconds[name].append(float(_run(environment, TIMED.format(statement))))
        for name, arguments in ((COMMAND, command), ("pass", ["pass"])):
            began = time.perf_counter()
            _run(environment, *arguments)
            seconds[name].append(time.perf_counter() - began)

    def ratio(name: str, peer: str) -> float:
        return median(a / b for a, b in zip(seconds[name], seconds[peer], strict=True))

    figures = (
        *(
            Figure(name, median(seconds[name]) * 1e3, unit="ms", at_most=most)
            for name, most in AT_MOST.items()
        ),
        Figure(SIGNALS, ratio(SIGNALS, "asyncio"), "import asyncio"),
        Figure(DATABASE, ratio(DATABASE, "sqlite_utils"), "import sqlite_utils"),
        Figure(COMMAND, ratio(COMMAND, "pass"), "an interpreter that does nothing"),
    )
    return Outcome("imports", TITLE, figures)


def _run(environment: dict[str, str], *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
