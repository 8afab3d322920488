"""What callers pass, whatever it is: shown in errors, and refused by them where it is no use."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import cast

# Longer than any path that a system takes.
LONGEST_PATH = 4_200
_LENGTH = 80
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def shown(value: object, length: int = _LENGTH) -> str:
    """Write a value for an error: as `repr` does, cut to a length, and never raising.

    What a class of text says of itself counts for nothing, and only as much is read as is shown.
    """
    kind = type(value)
    try:
        if issubclass(kind, str):
            text = str.__repr__(str.__getitem__(cast("str", value), slice(length)))
        else:
            text = repr(value)
    except Exception:  # of that object's own; or an int of too many digits, a list of many levels
        return f"<{kind.__name__}>"
    return text if len(text) <= length else f"{text[: length - 1]}…"


def check_callable(function: object, name: str) -> None:
    """Refuse what cannot be called with a TypeError; `name` says what it is."""
    if not callable(function):
        raise TypeError(f"{name} is a function, not {type(function).__name__}: {shown(function)}")


def is_one_of(value: object, words: Container[str]) -> bool:
    """Tell whether a value is one of some words, without asking it what it equals."""
    return isinstance(value, str) and str.__str__(value) in words


def sql_text(sql: object) -> str:
    """Return SQL as plain text: TypeError unless it is text, ValueError outside UTF-8."""
    if not isinstance(sql, str):
        raise TypeError(f"the SQL is a str, not {type(sql).__name__}: {shown(sql)}")
    if not _is_writable(sql):
        raise ValueError(f"the SQL has lone surrogates: {shown(sql)}")
    return str.__str__(sql)


def name_text(name: object, what: str) -> str:
    """Return a name as plain text, as `sql_text` does; `what` says whose it is (`a table`)."""
    if not isinstance(name, str):
        raise TypeError(f"the name of {what} is a str, not {type(name).__name__}: {shown(name)}")
    if not _is_writable(name):
        raise ValueError(f"the name of {what} has lone surrogates: {shown(name)}")
    return str.__str__(name)


def check_parameters(parameters: object) -> None:
    """Refuse with a TypeError what is no list and no mapping of parameters."""
    if not isinstance(parameters, Iterable):
        kind = type(parameters).__name__
        raise TypeError(f"the parameters are a list or a dict, not {kind}: {shown(parameters)}")


def check_parameter(value: object, name: object) -> None:
    """Refuse with a ValueError a number or a text that no column can hold.

    The `sqlite3` module would raise an OverflowError or a UnicodeEncodeError that names nothing.
    """
    if isinstance(value, int):
        if not _SMALLEST <= value <= _LARGEST:
            raise ValueError(f"parameter {shown(name)} is wider than 64 bits: {shown(value)}")
    elif isinstance(value, str) and not _is_writable(value):
        raise ValueError(f"parameter {shown(name)} has lone surrogates: {shown(value)}")


def _is_writable(text: str) -> bool:
    if str.isascii(text):
        return True
    try:
        str.encode(text)
    except UnicodeEncodeError:
        return False
    return True
