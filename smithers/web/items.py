"""What a page is shown, as items: a name, and JSON text that is written once for all pages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from reactive_sqlite.diff import Insert, Move, Remove, Update, diff_lists
from smithers.jsontext import json_text

# A name that no other item of its list has, and the item as JSON on one line.
Item = tuple[str, str]


def item(name: str, /, **values: Any) -> Item:
    """Make an item of values."""
    return name, json_text(values)


def record_item(record: Any, *, without: Sequence[str] = (), **further: Any) -> Item:
    """Make an item of a record that has an `id`, and of further values."""
    return str(record.id), json_text({**record_fields(record, without=without), **further})


def record_fields(record: Any, *, without: Sequence[str] = ()) -> dict[str, Any]:
    """List the fields of a record, not copied."""
    names = [field.name for field in fields(record) if field.name not in without]
    return {name: getattr(record, name) for name in names}


def raw(text: str) -> str:
    """Put JSON text that somebody else has written on one line, unread.

    A line break can only stand between its values, since inside a string it is written `\\n`.
    """
    return text.replace("\r", " ").replace("\n", " ")


def listed(items: Iterable[Item]) -> str:
    """Write items as a JSON array."""
    return f"[{','.join([text for _, text in items])}]"


def digest(text: str) -> str:
    """Tell two values apart, also those of different runs of the server."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def difference(old: Sequence[Item], new: Sequence[Item]) -> str | None:
    """Write what makes one list out of another as a JSON array; None where it is the longer way.

    Its steps are `["remove", index]`, `["move", origin, index]`, `["insert", index, item]` and
    `["update", index, item]`, to be taken in order, each of the list as those before have left it.
    """
    start, end = _same_ends(old, new)
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    steps = diff_lists(before, after, _name).steps
    if len(steps) > len(new) // 2 + 1:
        return None
    texts: list[str] = []
    for step in steps:
        match step:
            case Remove(index):
                texts.append(f'["remove",{start + index}]')
            case Move(origin, index):
                texts.append(f'["move",{start + origin},{start + index}]')
            case Insert(index, (_, text)):
                texts.append(f'["insert",{start + index},{text}]')
            case Update(index, _, (_, text)):
                texts.append(f'["update",{start + index},{text}]')
    return f"[{','.join(texts)}]"


def _name(item: Item) -> str:
    return item[0]


def _same_ends(old: Sequence[Item], new: Sequence[Item]) -> tuple[int, int]:
    """How many items at the start and at the end of both are the same: nearly all, usually."""
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return start, end
