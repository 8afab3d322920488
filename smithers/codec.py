"""JSON in and out: the one encoder every stored value passes, and the rules for keys.

What is taken, and how it comes back:

    None, bool, int, float, str                 as it is; an int is exact, however large
    list, tuple                                 a list
    dict with str keys                          a dict, in the same order
    dataclass instance                          a dict of its fields
    Enum member                                 its `.value`
    datetime, date, time                        ISO-8601 text
    pydantic model                              a dict, by its own `model_dump(mode="json")`

Anything else is a TypeError. NaN, the infinities and nesting deeper than `MAX_DEPTH` are a
ValueError. Each names what it was about.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable
from datetime import date, datetime, time
from enum import Enum
from typing import Any, cast

from reactive_sqlite.arguments import is_unicode, shown
from smithers.errors import StateTypeError

MAX_DEPTH = 500
MAX_KEY_LENGTH = 1024
_LARGEST = 2**63  # as wide as SQLite's; beyond some thousands of digits Python refuses
_SCALARS = frozenset({str, int, bool, type(None)})
_PLAIN = _SCALARS | {float, list, tuple, dict}
_BASES: tuple[type[Any], ...] = (int, float, list, tuple, dict)

# From so many items or characters on, the C coder, which lets no other thread run until it has
# finished, would stop an event loop for longer than a frame of a display.
_MANY_ITEMS = 20_000
_MANY_CHARACTERS = 250_000
# Most large values are large in their outer levels; below them the C decoder reads piece by piece.
_LEVELS = 4

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_escaping_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_scan = json.JSONDecoder().raw_decode
# The same in C alone; where nothing begins that is JSON it raises StopIteration.
_scan_once: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder())["scan_once"]
_space = re.compile(r"[ \t\n\r]*").match


def encode(value: object, *, name: str) -> str:
    """Write a value as JSON text; `name` says in errors what it belongs to (`state 'phase'`)."""
    return encoded(value, name=name)[0]


def encoded(value: object, *, name: str, key: str | None = None) -> tuple[str, Any]:
    """Write a value as JSON text, and return with it what `decode` would make of that text.

    `name` says in errors what it belongs to, together with `key` where that is given.
    """
    # Whole types, so that a bool or a member of an enumeration goes the long way.
    if type(value) is str and value.isascii():
        return _encoder.encode(value), value
    if type(value) is int and -_LARGEST <= value <= _LARGEST:
        return int.__repr__(value), value
    name = _named(name, key)
    plainly = _Plain(name)
    try:
        plain = plainly.copy(value, 0)
        text = (
            _encoder.encode(plain)
            if plainly.items < _MANY_ITEMS
            else "".join(_encoder.iterencode(plain))
        )
    except RecursionError:
        raise ValueError(f"{name}: nested deeper than the call stack is") from None
    except ValueError as error:
        # An int beyond the interpreter's limit on digits arrives here without a name.
        if str(error).startswith(name):
            raise
        raise ValueError(f"{name}: {error}") from error
    if not is_unicode(text):
        # A lone surrogate has no UTF-8 form; escaped it survives.
        text = _escaping_encoder.encode(plain)
    return text, plain


def decode(text: str, *, name: str, key: str | None = None) -> Any:
    """Read JSON text that a table holds; `name` as for `encoded`.

    Raises StateTypeError for what only a foreign writer can have stored: nesting or digits beyond
    what Python reads, or no text at all.
    """
    try:
        length = len(text)
        if length > _MANY_CHARACTERS:
            return _read_by_pieces(text)
        if text[:1] > " ":  # what this package wrote: nothing to skip, nothing after it
            try:
                value, end = _scan_once(text, 0)
            except StopIteration:
                value, end = None, -1
            if end == length:
                return value
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable(error, name, key) from error
    except TypeError as error:  # a blob or a number: asking first would cost every reading
        reason = f"it is JSON text, not {type(text).__name__}"
        raise _unreadable(reason, name, key) from error


def same_json(one: str, other: str) -> bool:
    """Tell whether two JSON texts mean the same value; `1`, `1.0` and `true` differ."""
    return one == other or _canonical(one) == _canonical(other)


def check_key(key: object) -> None:
    """Refuse what cannot be a key: TypeError unless it is text, ValueError outside the rule."""
    if type(key) is str and key.isascii() and 0 < len(key) <= MAX_KEY_LENGTH and "\0" not in key:
        return
    if not isinstance(key, str):
        raise TypeError(f"a key is a str, not {type(key).__name__}: {shown(key)}")
    length = str.__len__(key)  # and not what its own class may say
    if not length:
        raise ValueError("a key is not empty")
    if length > MAX_KEY_LENGTH:
        raise ValueError(
            f"a key has at most {MAX_KEY_LENGTH} characters, not {length}: {shown(key, 40)}"
        )
    _check_text(key, "a key")


def check_trigger(trigger: object) -> None:
    """Refuse what cannot be a trigger: TypeError unless text or None, ValueError outside UTF-8."""
    if trigger is None or (type(trigger) is str and trigger.isascii() and "\0" not in trigger):
        return
    if not isinstance(trigger, str):
        raise TypeError(
            f"a trigger is a str or None, not {type(trigger).__name__}: {shown(trigger)}"
        )
    _check_text(trigger, "a trigger")


def check_text(text: object, name: str, *, empty: bool = False) -> None:
    """Refuse what cannot be a text column: TypeError unless text, ValueError outside UTF-8.

    `name` says in errors what it is (`the name of an execution`).
    """
    if not isinstance(text, str):
        raise TypeError(f"{name} is a str, not {type(text).__name__}: {shown(text)}")
    if not empty and not str.__len__(text):
        raise ValueError(f"{name} is not empty")
    if str.__contains__(text, "\0") or not str.isascii(text):
        _check_text(text, name)


def check_limit(limit: object, *, name: str = "limit") -> None:
    """Refuse what is no number of rows: ValueError unless None (all) or a whole one from 0 up."""
    if limit is not None and (type(limit) is not int or not 0 <= limit < 2**63):
        raise ValueError(f"{name} is a number of rows from 0 up, or None, not {shown(limit)}")


class _Plain:
    """Copies a value into what `json` writes without guessing, checking it on the way.

    `json` alone would turn the keys 1, True and None into text and stop at cycles late.
    """

    __slots__ = ("items", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.items = 0

    def copy(self, value: Any, depth: int) -> Any:
        name = self.name
        while (kind := cast("type[object]", type(value))) not in _PLAIN:
            value = _converted(value, name)
        if kind in _SCALARS:
            return value
        if kind is float:
            if not math.isfinite(value):
                raise ValueError(f"{name}: {shown(value)} has no form in JSON")
            return value
        if depth >= MAX_DEPTH:
            raise ValueError(
                f"{name}: nested deeper than {MAX_DEPTH} levels (or it contains itself)"
            )
        self.items += len(value)
        copy, depth = self.copy, depth + 1
        if kind is dict:
            fields: dict[str, Any] = {}
            for key, item in value.items():
                if type(key) is not str:
                    if not isinstance(key, str):
                        raise TypeError(
                            f"{name}: the keys of a dict are str in JSON, not {shown(key)}"
                        )
                    key = str.__str__(key)
                fields[key] = item if type(item) in _SCALARS else copy(item, depth)
            return fields
        # A comprehension would cost a frame of its own at each level.
        items: list[Any] = []
        for item in value:
            items.append(item if type(item) in _SCALARS else copy(item, depth))
        return items


def _converted(value: Any, name: str) -> Any:
    """Take one step from a richer type towards a plain one, without going into it."""
    # Before str and int: a member of a StrEnum or IntEnum is both.
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return str.__str__(value)  # its own class may have it show something else
    for plain in _BASES:
        if isinstance(value, plain):
            return plain(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    kind = cast("type[object]", type(value))
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    if hasattr(kind, "__pydantic_validator__"):
        return value.model_dump(mode="json")
    raise TypeError(f"{name}: {kind.__name__} has no form in JSON: {shown(value)}")


def _named(name: str, key: str | None) -> str:
    return name if key is None else f"{name} {shown(key, 2 * MAX_KEY_LENGTH)}"


def _check_text(text: str, name: str) -> None:
    if str.__contains__(text, "\0"):
        raise ValueError(f"{name} has no NUL character: {shown(text)}")
    if not is_unicode(text):
        raise ValueError(f"{name} has no lone surrogates: {shown(text)}")


def _unreadable(reason: object, name: str, key: str | None) -> StateTypeError:
    return StateTypeError(f"{_named(name, key)}: the stored value cannot be read: {reason}")


def _read_by_pieces(text: str) -> Any:
    """Read a large text so that other threads may run in between."""
    try:
        value, end = _piece(text, _after_space(text, 0), _LEVELS)
        if _after_space(text, end) == len(text):
            return value
    except (IndexError, ValueError):
        pass
    return json.loads(text)  # for its error


def _piece(text: str, at: int, levels: int) -> tuple[Any, int]:
    """Read the value that begins at a place; return it and the place after it."""
    opening = text[at]
    if not levels or opening not in "[{":
        return _scan(text, at)
    closing = "]" if opening == "[" else "}"
    items: list[Any] = []
    fields: dict[str, Any] = {}
    at = _after_space(text, at + 1)
    if text[at] == closing:
        return (items if opening == "[" else fields), at + 1
    while True:
        if opening == "[":
            item, at = _piece(text, at, levels - 1)
            items.append(item)
        else:
            key, at = _scan(text, at)
            at = _expect(":", text, at)
            fields[key], at = _piece(text, at, levels - 1)
        at = _after_space(text, at)
        if text[at] == closing:
            return (items if opening == "[" else fields), at + 1
        at = _expect(",", text, at)


def _expect(mark: str, text: str, at: int) -> int:
    at = _after_space(text, at)
    if text[at] != mark:
        raise ValueError(mark)
    return _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    if text[at : at + 1] > " ":
        return at
    found = _space(text, at)
    return found.end() if found else at


def _canonical(text: object) -> object:
    if not isinstance(text, str):  # a foreign writer's: it means what it is
        return text
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text
