"""One record with what stands below it: its fields, then a tree; lines in a pipe."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from smithers.cli.output import (
    glance,
    glance_id,
    shown_cost,
    shown_lasting,
    shown_text,
    shown_time,
)
from smithers.cli.tables import MOST_LINES, Column, cut, print_listing
from smithers.storage.overview import Part

if TYPE_CHECKING:
    from rich.text import Text

STYLES = {
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
    "interrupted": "yellow",
    "skipped": "dim",
}


def print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Print names and values, which are free of control characters, one on a line.

    A terminal shows no more than a screen of a value, a pipe gets it whole after a tab.
    """
    if not sys.stdout.isatty():
        click.echo("\n".join(f"{name}\t{value}" for name, value in fields))
        return
    width = shutil.get_terminal_size().columns
    longest = max(len(name) for name, _ in fields)
    for name, value in fields:
        room = max(width - longest - 2, 1)
        click.echo(f"{click.style(name.ljust(longest), dim=True)}  {cut(value, MOST_LINES * room)}")


def print_parts(parts: Sequence[Part]) -> None:
    """Print what stands below an execution: a tree on a terminal, a line for each in a pipe."""
    if not sys.stdout.isatty():
        _print_lines([part for _, part, _ in _walk(parts)])
        return
    from rich.console import Console

    width = shutil.get_terminal_size().columns
    screen = io.StringIO()
    console = Console(file=screen, width=width, highlight=False, force_terminal=True)
    for line in tree_lines(parts, width):
        console.print(line, no_wrap=True, crop=True)
    click.echo(screen.getvalue().rstrip("\n"))


def tree_lines(parts: Sequence[Part], width: int) -> Iterator[Text]:
    """Draw the tree, a line for each part, none wider than a terminal."""
    for lead, part, is_last in _walk(parts):
        line = _line(part, lead + ("└─ " if is_last else "├─ "))
        line.truncate(width, overflow="ellipsis")
        yield line


def _walk(parts: Sequence[Part]) -> Iterator[tuple[str, Part, bool]]:
    """Go through the tree from the top: the lines that lead to a part, it, whether it is last."""
    listed = {part.id for part in parts}
    below: dict[str, list[Part]] = {}
    for part in parts:
        # The nearest that is shown: a step that has ended is none of what runs.
        parent = next((id for id in part.parents if id in listed and id != part.id), "")
        below.setdefault(parent, []).append(part)
    # By a list of one's own, since agents may stand below each other deeper than Python calls.
    waiting = _level(below, "", "")
    while waiting:
        lead, part, is_last = waiting.pop()
        yield lead, part, is_last
        waiting += _level(below, part.id, lead + ("   " if is_last else "│  "))


def _level(below: dict[str, list[Part]], id: str, lead: str) -> list[tuple[str, Part, bool]]:
    children = below.pop(id, [])
    return [(lead, part, part is children[-1]) for part in reversed(children)]


def _line(part: Part, lead: str) -> Text:
    from rich.text import Text

    number = f" #{part.count}" if part.kind == "phase" and part.count else ""
    line = Text.assemble((lead, "dim"), (f"{part.kind} ", "dim"), glance(part.name) + number)
    if part.kind == "agent":
        line.append(f" {glance_id(part.id)}", "dim")
    line.append(f"  {part.status}", STYLES.get(part.status, ""))
    line.append(f"  {shown_lasting(part.started_at, part.duration_ms)}")
    if part.kind == "agent":
        calls = f"  {part.count} tool call{'' if part.count == 1 else 's'}" if part.count else ""
        spent = f"  {part.tokens:,} tokens  {shown_cost(part.cost_usd)}" if part.tokens else ""
        line.append(calls + spent)
    if part.error is not None:
        line.append(f"  {glance(part.error)}", "red")
    elif part.text is not None:
        line.append(f"  {glance(part.text)}", "dim")
    return line


def _print_lines(parts: Sequence[Part]) -> None:
    print_listing(
        [
            Column("kind", [part.kind for part in parts]),
            Column("id", [shown_text(part.id) for part in parts]),
            Column("parent", [shown_text(next(iter(part.parents), None)) for part in parts]),
            Column("name", [shown_text(part.name) for part in parts]),
            Column("status", [part.status for part in parts]),
            Column("started", [shown_time(part.started_at) for part in parts]),
            Column("took", [shown_lasting(part.started_at, part.duration_ms) for part in parts]),
            Column("tokens", [str(part.tokens) for part in parts]),
            Column("cost", [str(part.cost_usd) for part in parts]),
        ]
    )
