"""How much of what is stored a tool tells: what is short whole, what is long by its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smithers.jsontext import json_text

# However many values share the room, so many characters are told of each; so many of other text.
LEAST_SHARE = 80
FEW = 300


def put(row: dict[str, Any], name: str, value: Any, room: int) -> dict[str, Any]:
    """Put a value into a row, or the beginning of its JSON where it is longer than its share."""
    text = json_text(value)
    if len(text) <= room:
        row[name] = value
    else:
        row[f"{name}_beginning"] = text[:room]
        row[f"{name}_characters"] = len(text)
    return row


def share_out(values: Sequence[Any], room: int) -> list[int]:
    """Share out room so that what is short is told whole, and what is long as far as it goes."""
    sizes = [len(json_text(value)) for value in values]
    shares = [0] * len(sizes)
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    for taken, index in enumerate(order):
        share = max(room // (len(order) - taken), LEAST_SHARE)
        shares[index] = min(sizes[index], share)
        room = max(room - shares[index], 0)
    return shares


def cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def short(text: str | None) -> str | None:
    return None if text is None else cut(text, FEW)
