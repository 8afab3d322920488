"""Runs the whole suite on every Python that is installed, and once on `pysqlite3`: `make test-all`.

`python -m tests.versions` does all of it; `python -m tests.versions 3.13 pysqlite3` a part. `other`
stands for the newest Python that is not the one running this, if there is one. It needs nothing but
the standard library and `make`, which makes the environments.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
OTHER = "other"
PYSQLITE3 = "pysqlite3"

_SUMMARY = re.compile(r"=+ (.*\b(?:passed|failed|errors?)\b.*) in [\d.]+s.* =+\s*$")
_BARE_SUMMARY = re.compile(r"(\d+ (?:passed|failed|errors?)\b.*) in [\d.]+s.*$")
_SQLITE = "from reactive_sqlite import sqlite3 as s; print(s.sqlite_version, s.__name__)"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the suite: which interpreter, in which environment, and with which extras."""

    name: str
    python: Path
    environment: str
    extras: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run; `summary` is pytest's own last line."""

    name: str
    sqlite: str
    summary: str
    seconds: float
    ok: bool


def main() -> int:
    """Run what is asked for, show a table of it, and return 1 if any of it failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help=", ".join((*PYTHONS, OTHER, PYSQLITE3))
    )
    asked: list[str] = parser.parse_args().runs
    unknown = set(asked) - {*PYTHONS, OTHER, PYSQLITE3}
    if unknown:
        parser.error(f"no such run: {', '.join(sorted(unknown))}")
    installed = {version: path for version in PYTHONS if (path := interpreter(version)) is not None}
    runs, absent = chosen(asked, installed, own=f"{sys.version_info[0]}.{sys.version_info[1]}")
    for reason in absent:
        print(f"not run: {reason}", flush=True)
    outcomes = [_done(run) for run in runs]
    print("\n".join(table(outcomes)))
    return 0 if all(outcome.ok for outcome in outcomes) else 1


def chosen(
    asked: Sequence[str], installed: dict[str, Path], *, own: str
) -> tuple[list[Run], list[str]]:
    """Return the runs that are asked for, and why others of them cannot be.

    What names a version that is absent fails nothing: who has one Python tests with one.
    """
    runs: list[Run] = []
    absent: list[str] = []
    for name in asked or (*PYTHONS, PYSQLITE3):
        if name == PYSQLITE3:
            # The newest, where its own way of closing and its warnings are as new as the SQLite.
            python = installed[max(installed, key=_number)] if installed else Path(sys.executable)
            runs.append(Run(name, python, ".venv-pysqlite3", "dev,sqlite"))
            continue
        others = [version for version in installed if version != own]
        version = max(others, key=_number, default="") if name == OTHER else name
        if version in installed:
            runs.append(Run(version, installed[version], f".venv-{version}", "dev"))
        elif name == OTHER:
            absent.append(f"no Python but {own} is installed, of {', '.join(PYTHONS)}")
        else:
            absent.append(f"Python {name} is not installed")
    return runs, absent


def interpreter(version: str) -> Path | None:
    """Find a Python of that version by its name on PATH or among those of pyenv."""
    name = f"python{version}"
    on_path = [Path(folder) / name for folder in os.get_exec_path()]
    return next((path for path in (*on_path, *_of_pyenv(version)) if _works(path, version)), None)


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the lines of a table of outcomes, for people to read."""
    rows = [("run", "SQLite", "", "time", "tests")] + [
        (one.name, one.sqlite, "ok" if one.ok else "FAILED", f"{one.seconds:.0f} s", one.summary)
        for one in outcomes
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _of_pyenv(version: str) -> list[Path]:
    """The interpreters of that version which pyenv has, the newest first.

    Its shims on PATH run only the one that is chosen at the moment.
    """
    if shutil.which("pyenv") is None:
        return []
    asked = subprocess.run(["pyenv", "root"], capture_output=True, text=True)
    if asked.returncode != 0:
        return []
    folders = Path(asked.stdout.strip(), "versions").glob(f"{version}.*")
    newest = sorted(folders, key=lambda folder: _number(folder.name), reverse=True)
    return [folder / "bin" / f"python{version}" for folder in newest]


def _works(path: Path, version: str) -> bool:
    """Whether it is there, is what its name says, and can make environments."""
    if not os.access(path, os.X_OK):
        return False
    program = "import ensurepip, venv, sqlite3, sys; print('%d.%d' % sys.version_info[:2])"
    asked = subprocess.run([path, "-c", program], capture_output=True, text=True)
    return asked.returncode == 0 and asked.stdout.strip() == version


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _done(run: Run) -> Outcome:
    print(f"\n=== {run.name}: {run.python}", flush=True)
    make = [
        *("make", "--no-print-directory", f"PYTHON={run.python}", f"VENV={run.environment}"),
        *(f"EXTRAS={run.extras}", "test"),
    ]
    # The variables that the outer `make` was given are not for this one.
    outside = {"MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL"}
    environment = {name: value for name, value in os.environ.items() if name not in outside}
    summary = "it came to no tests"
    began = time.monotonic()
    with subprocess.Popen(
        make, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            found = _SUMMARY.match(line) or _BARE_SUMMARY.match(line)
            summary = found[1] if found else summary
    seconds = time.monotonic() - began
    sqlite = _sqlite(ROOT / run.environment)
    ok = process.returncode == 0 and (run.name != PYSQLITE3 or PYSQLITE3 in sqlite)
    return Outcome(run.name, sqlite, summary, seconds, ok)


def _sqlite(environment: Path) -> str:
    python = environment / "bin" / "python"
    if not python.exists():
        return "?"
    asked = subprocess.run([python, "-c", _SQLITE], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip() or "?"


if __name__ == "__main__":
    sys.exit(main())
