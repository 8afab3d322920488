"""Shows an outcome as a table on the screen, and keeps it as JSON and as a chart."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.chart import draw
from benchmarks.figures import Figure, Outcome, shown
from benchmarks.timing import Effort
from reactive_sqlite import sqlite3

COLOURS = {None: "", True: "green", False: "bold red"}


def machine() -> dict[str, object]:
    """Say what the figures depend on; no name of the machine."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "sqlite": sqlite3.sqlite_version,
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }


def show(outcome: Outcome, console: Console, *, details: bool = False) -> None:
    """Print the table, with every verdict."""
    table = Table(title=outcome.title, title_justify="left", title_style="bold")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("beside")
    table.add_column("target", justify="right")
    table.add_column("verdict")
    for figure in (*outcome.figures, *(outcome.details if details else ())):
        table.add_row(*_cells(figure), style=COLOURS[figure.met])
    console.print(table)
    for note in outcome.notes:
        console.print(note, style="dim")


def keep(outcome: Outcome, effort: Effort, folder: Path) -> None:
    """Write `<subject>.json` and `<subject>.svg`."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "machine": machine(),
        "rounds": effort.rounds,
        "scale": effort.scale,
        "title": outcome.title,
        "figures": [_record(figure) for figure in outcome.figures],
        "details": [_record(figure) for figure in outcome.details],
        "notes": list(outcome.notes),
    }
    text = json.dumps(record, indent=1, ensure_ascii=False)
    (folder / f"{outcome.subject}.json").write_text(text + "\n", encoding="utf-8")
    chart = draw(outcome.title, outcome.figures)
    (folder / f"{outcome.subject}.svg").write_text(chart, encoding="utf-8")


def _cells(figure: Figure) -> tuple[str, ...]:
    target = "" if figure.at_most is None else f"≤ {shown(figure.at_most, figure.unit)}"
    return figure.name, shown(figure.value, figure.unit), figure.peer, target, figure.verdict


def _record(figure: Figure) -> dict[str, object]:
    return {**asdict(figure), "verdict": figure.verdict}
