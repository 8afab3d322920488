"""Values as JSON text that every reader takes, also those that other programs have stored."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

# Python's words for what JSON has no word for, where they do not stand inside a string.
_NOT_FINITE = re.compile(r'"(?:[^"\\]|\\.)*"|(-?)Infinity|NaN')


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """Write a value as one line of JSON.

    Times are ISO-8601 text, bytes the text of their hexadecimal digits. Infinity is `9e999`, as
    SQLite writes it: a number that every reader of JSON takes, and most read as infinity. What is
    no number is null.
    """
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
