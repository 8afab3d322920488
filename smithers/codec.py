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
from datetime import date, datetime, time
from enum import Enum
from typing import Any, cast

from smithers.errors import StateTypeError

MAX_DEPTH = 500
MAX_KEY_LENGTH = 1024
_SCALARS = frozenset({str, int, bool, type(None)})
_PLAIN = _SCALARS | {float, list, tuple, dict}
_BASES: tuple[type[Any], ...] = (str, int, float, list, tuple, dict)


def encode(value: object, *, name: str) -> str:
    """Write a value as JSON text; `name` says in errors what it belongs to (`state 'phase'`)."""
    try:
        text = json.dumps(
            _plain(value, name, 0), ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
    except RecursionError:
        raise ValueError(f"{name}: nested deeper than the call stack is") from None
    except ValueError as error:
        # An int beyond the interpreter's limit on digits arrives here without a name.
        if str(error).startswith(name):
            raise
        raise ValueError(f"{name}: {error}") from error
    if _is_unicode(text):
        return text
    # A lone surrogate has no UTF-8 form; escaped it survives.
    return json.dumps(json.loads(text), allow_nan=False, separators=(",", ":"))


def decode(text: str, *, name: str) -> Any:
    """Read JSON text that a table holds.

    Raises StateTypeError for what only a foreign writer can have stored: nesting or digits beyond
    what Python reads.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateTypeError(f"{name}: the stored value cannot be read: {error}") from error


def same_json(one: str, other: str) -> bool:
    """Tell whether two JSON texts mean the same value; `1`, `1.0` and `true` differ."""
    return one == other or _canonical(one) == _canonical(other)


def check_key(key: object) -> None:
    """Refuse what cannot be a key: TypeError unless it is text, ValueError outside the rule."""
    if not isinstance(key, str):
        raise TypeError(f"a key is a str, not {type(key).__name__}: {key!r}")
    if not key:
        raise ValueError("a key is not empty")
    if len(key) > MAX_KEY_LENGTH:
        raise ValueError(
            f"a key has at most {MAX_KEY_LENGTH} characters, not {len(key)}: {key[:40]!r}…"
        )
    _check_text(key, "a key")


def check_trigger(trigger: object) -> None:
    """Refuse what cannot be a trigger: TypeError unless text or None, ValueError outside UTF-8."""
    if trigger is None:
        return
    if not isinstance(trigger, str):
        raise TypeError(f"a trigger is a str or None, not {type(trigger).__name__}: {trigger!r}")
    _check_text(trigger, "a trigger")


def _plain(value: Any, name: str, depth: int) -> Any:
    """Copy a value into what `json` writes without guessing, checking it on the way.

    `json` alone would turn the keys 1, True and None into text and stop at cycles late.
    """
    while (kind := cast("type[object]", type(value))) not in _PLAIN:
        value = _converted(value, name)
    if kind in _SCALARS:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise ValueError(f"{name}: {value!r} has no form in JSON")
        return value
    if depth >= MAX_DEPTH:
        raise ValueError(f"{name}: nested deeper than {MAX_DEPTH} levels (or it contains itself)")
    if kind is dict:
        fields: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{name}: the keys of a dict are str in JSON, not {key!r}")
            fields[key] = item if type(item) in _SCALARS else _plain(item, name, depth + 1)
        return fields
    items: list[Any] = []
    for item in value:
        items.append(item if type(item) in _SCALARS else _plain(item, name, depth + 1))
    return items


def _converted(value: Any, name: str) -> Any:
    """Take one step from a richer type towards a plain one, without going into it."""
    # Before str and int: a member of a StrEnum or IntEnum is both.
    if isinstance(value, Enum):
        return value.value
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
    raise TypeError(f"{name}: {kind.__name__} has no form in JSON: {_shown(value)}")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_text(text: str, name: str) -> None:
    if "\0" in text:
        raise ValueError(f"{name} has no NUL character: {text!r}")
    if not _is_unicode(text):
        raise ValueError(f"{name} has no lone surrogates: {text!r}")


def _canonical(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:79] + "…"
