"""How values look: for people, and as JSON for programs."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import click

from smithers.records import Transition

ABSENT = "-"

# Python's words for what JSON has no word for, where they do not stand inside a string.
_NOT_FINITE = re.compile(r'"(?:[^"\\]|\\.)*"|(-?)Infinity|NaN')


def print_json(value: Any) -> None:
    """Print one value as one line of JSON.

    Bytes become the text of their hexadecimal digits. Infinity is `9e999`, as SQLite writes it: a
    number that every reader of JSON takes, and most read as infinity. What is no number is null.
    """
    # ASCII, so that every terminal and every pipe takes it.
    click.echo(_json(value, ascii_only=True))


def shown_value(value: Any) -> str:
    """Write a value as JSON for the eye."""
    text = _json(value, ascii_only=False)
    return text if text.isprintable() else _json(value, ascii_only=True)


def shown_text(text: str | None) -> str:
    """Write a key or a trigger as it is, escaped where a terminal would obey it."""
    if text is None:
        return ABSENT
    return text if text.isprintable() and text not in ("", ABSENT) else shown_value(text)


def shown_time(moment: datetime) -> str:
    """Write a time in the reader's own zone, to the millisecond, with the zone's offset."""
    return f"{_local(moment)} {_offset(moment)}"


def shown_times(name: str, moments: Iterable[datetime]) -> tuple[str, list[str]]:
    """Write a column of times in the reader's own zone, and its name with the zone's offset.

    Where the clocks were changed in between, each time carries its offset itself.
    """
    listed = list(moments)
    offsets = {_offset(moment) for moment in listed}
    if len(offsets) == 1:
        return f"{name} ({offsets.pop()})", [_local(moment) for moment in listed]
    return name, [shown_time(moment) for moment in listed]


def shown_change(transition: Transition) -> str:
    """Write what a transition did: `phase: "start" → "review"`."""
    before = shown_value(transition.previous_value)
    after = "deleted" if transition.deleted else shown_value(transition.value)
    arrow = "" if before == "null" else f"{before} → "
    return f"{shown_text(transition.key)}: {arrow}{after}"


def as_fields(record: Any) -> dict[str, Any]:
    """Turn a record into what `print_json` takes, under the names of its fields."""
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def _json(value: Any, *, ascii_only: bool) -> str:
    try:
        return json.dumps(value, ensure_ascii=ascii_only, default=_plain, allow_nan=False)
    except ValueError:
        text = json.dumps(value, ensure_ascii=ascii_only, default=_plain)
        return _NOT_FINITE.sub(_finite, text)


def _finite(found: re.Match[str]) -> str:
    if found[0].startswith('"'):
        return found[0]
    return "null" if found[0] == "NaN" else f"{found[1]}9e999"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _local(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _offset(moment: datetime) -> str:
    offset = moment.astimezone().strftime("%z")
    return "UTC" if offset == "+0000" else f"UTC{offset[:3]}:{offset[3:5]}"
