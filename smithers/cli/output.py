"""How values look: for people, and as JSON for programs."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import click

from smithers.jsontext import json_text
from smithers.records import Transition

ABSENT = "-"
# Joiners, without which some scripts and emoji are misspelt; no terminal obeys them.
HARMLESS = frozenset("\u200c\u200d")

_UNITS = ("KB", "MB", "GB", "TB")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def print_json(value: Any) -> None:
    """Print one value as one line of JSON, as `json_text` writes it."""
    # ASCII, so that every terminal and every pipe takes it.
    click.echo(json_text(value, ascii_only=True))


def shown_value(value: Any) -> str:
    """Write a value as JSON for the eye."""
    text = json_text(value, ascii_only=False)
    # What is not printable can only stand inside of strings here.
    return text if text.isprintable() else "".join(map(_escaped, text))


def shown_text(text: str | None) -> str:
    """Write a text as it is, as JSON where a terminal would obey it or it would mislead."""
    if text is None:
        return ABSENT
    plain = text not in ("", ABSENT) and all(map(_is_printable, text))
    return text if plain else shown_value(text)


def glance(text: str | None) -> str:
    """Write a text on one line for a terminal, its line breaks as spaces."""
    if text is None:
        return ABSENT
    return "".join(map(_escaped, " ".join(text.split()))) or ABSENT


def glance_id(id: str) -> str:
    """Write the end of an id that this package made, by which commands find it as well."""
    return id[-8:] if _UUID.fullmatch(id) else shown_text(id)


def glance_time(moment: datetime) -> str:
    """Write a time in the reader's own zone, to the minute."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def shown_duration(milliseconds: float | None) -> str:
    """Write how long something took: `350 ms`, `12.3 s`, `2 min 05 s`, `3 h 07 min`."""
    if milliseconds is None:
        return ABSENT
    seconds = round(milliseconds / 1000)
    if milliseconds < 1000:
        return f"{round(milliseconds)} ms"
    if milliseconds < 59_950:
        return f"{milliseconds / 1000:.1f} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min"


def shown_lasting(started_at: datetime, duration_ms: int | None) -> str:
    """Write how long something took, or has been running until now."""
    if duration_ms is not None:
        return shown_duration(duration_ms)
    return shown_duration(max(0.0, (datetime.now(UTC) - started_at).total_seconds() * 1000))


def shown_cost(dollars: float) -> str:
    """Write an amount in US dollars, small ones to the hundredth of a cent."""
    return f"${dollars:,.2f}" if abs(dollars) >= 1 else f"${dollars:.4f}"


def shown_size(size: int | None) -> str:
    """Write a number of bytes: `512 B`, `1.5 KB`, `64.0 MB`, in steps of 1,024."""
    if size is None:
        return ABSENT
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / 1024**power:.1f} {_UNITS[power - 1]}"


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


def _is_printable(mark: str) -> bool:
    return mark.isprintable() or mark in HARMLESS


def _escaped(mark: str) -> str:
    return mark if _is_printable(mark) else json.dumps(mark)[1:-1]


def _local(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _offset(moment: datetime) -> str:
    offset = moment.astimezone().strftime("%z")
    return "UTC" if offset == "+0000" else f"UTC{offset[:3]}:{offset[3:5]}"
