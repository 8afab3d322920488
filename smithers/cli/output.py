"""How results look: tables for people, JSON for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import click

from smithers.records import Transition

ABSENT = "-"


def print_json(value: Any) -> None:
    """Print one value as one line of JSON; bytes become their hexadecimal digits."""
    # ASCII, so that every terminal and every pipe takes it.
    click.echo(json.dumps(value, default=_plain))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, folded: str) -> None:
    """Print a table; where it is too wide the column `folded` is broken into lines, never cut."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        narrow = column != folded
        table.add_column(column, overflow="fold", no_wrap=narrow, ratio=None if narrow else 1)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False, soft_wrap=False).print(table)


def shown_value(value: Any) -> str:
    """Write a value as JSON for the eye."""
    text = json.dumps(value, ensure_ascii=False, default=_plain)
    return text if text.isprintable() else json.dumps(value, default=_plain)


def shown_text(text: str | None) -> str:
    """Write a key or a trigger as it is, escaped where a terminal would obey it."""
    if text is None:
        return ABSENT
    return text if text.isprintable() and text else json.dumps(text)


def shown_time(moment: datetime) -> str:
    """Write a time in the reader's own zone, to the millisecond."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def shown_change(transition: Transition) -> str:
    """Write what a transition did: `phase: "start" → "review"`."""
    before = shown_value(transition.previous_value)
    after = "deleted" if transition.deleted else shown_value(transition.value)
    arrow = "" if before == "null" else f"{before} → "
    return f"{shown_text(transition.key)}: {arrow}{after}"


def as_fields(record: Any) -> dict[str, Any]:
    """Turn a record into what `print_json` takes, under the names of its fields."""
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
