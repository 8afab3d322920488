"""The subjects by name; each is a module with `measure(effort, folder)`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from benchmarks.figures import Outcome
from benchmarks.timing import Effort

SUBJECTS = {
    "signals": "benchmarks.signals",
    "state": "benchmarks.state",
    "observers": "benchmarks.observers",
    "columns": "benchmarks.columns",
    "bulk": "benchmarks.bulk",
    "latency": "benchmarks.latency",
    "workflow": "benchmarks.workflow",
    "async": "benchmarks.asynchronous",
    "imports": "benchmarks.imports",
}

Measure = Callable[[Effort, Path], Outcome]


def measured(subject: str, effort: Effort, folder: Path) -> Outcome:
    """Measure one subject, with databases in `folder`."""
    return cast(Measure, import_module(SUBJECTS[subject]).measure)(effort, folder)
