"""What callers pass, whatever it is: shown in errors, and refused by them where it is no use."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import cast

# Longer than any path that a system takes.
LONGEST_PATH = 4_200
_LENGTH = 80
# Ten years, in seconds: what takes a time-out can wait no longer than some hundreds of these.
_LONGEST_WAIT = 315_576_000
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


def check_has(value: object, method: str, name: str) -> None:
    """Refuse with a TypeError what has no such method; `name` says what it is."""
    if not callable(getattr(value, method, None)):
        kind = type(value).__name__
        raise TypeError(f"{name} has a method `{method}`, and {kind} has not: {shown(value)}")


def check_flag(value: object, name: str) -> None:
    """Refuse with a TypeError what merely counts as true or false: "no" counts as true."""
    if value is not True and value is not False:
        raise TypeError(f"{name} is True or False, not {shown(value)}")


def check_observer(
    on_next: object, on_error: object, on_completed: object, scheduler: object
) -> None:
    """Refuse with a TypeError what cannot be told values, an error or the end, or schedules
    nothing; each may be None."""
    if on_next is not None and not callable(on_next) and not hasattr(on_next, "on_next"):
        kind = type(on_next).__name__
        raise TypeError(f"on_next is a function or an observer, not {kind}: {shown(on_next)}")
    if on_error is not None:
        check_callable(on_error, "on_error")
    if on_completed is not None:
        check_callable(on_completed, "on_completed")
    if scheduler is not None:
        check_has(scheduler, "schedule", "scheduler")


def seconds(value: object, name: str) -> float:
    """Return a number of seconds that can be waited: TypeError for what is no number, ValueError
    for one below 0."""
    if not isinstance(value, int | float):
        kind = type(value).__name__
        raise TypeError(f"{name} is a number of seconds, not {kind}: {shown(value)}")
    if not value >= 0:
        raise ValueError(f"{name} is a number of seconds from 0 up, not {shown(value)}")
    return float(min(value, _LONGEST_WAIT))


def check_label(name: object, what: str) -> None:
    """Refuse with a TypeError a name, for messages alone, that is no text; `what` says whose."""
    if not (name is None or isinstance(name, str)):
        raise TypeError(f"{what} is a str or None, not {type(name).__name__}: {shown(name)}")


def is_one_of(value: object, words: Container[str]) -> bool:
    """Tell whether a value is one of some words, without asking it what it equals."""
    return isinstance(value, str) and str.__str__(value) in words


def sql_text(sql: object, name: str = "the SQL") -> str:
    """Return SQL as plain text: TypeError unless it is text, ValueError outside UTF-8."""
    if not isinstance(sql, str):
        raise TypeError(f"{name} is a str, not {type(sql).__name__}: {shown(sql)}")
    if not is_unicode(sql):
        raise ValueError(f"{name} has lone surrogates: {shown(sql)}")
    return str.__str__(sql)


def name_text(name: object, what: str) -> str:
    """Return a name as plain text, as `sql_text` does; `what` says whose it is (`a table`)."""
    if not isinstance(name, str):
        raise TypeError(f"the name of {what} is a str, not {type(name).__name__}: {shown(name)}")
    if not is_unicode(name):
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
    elif isinstance(value, str) and not is_unicode(value):
        raise ValueError(f"parameter {shown(name)} has lone surrogates: {shown(value)}")


def is_unicode(text: str) -> bool:
    """Tell whether text has a UTF-8 form: with lone surrogates it has none."""
    if str.isascii(text):
        return True
    try:
        str.encode(text)
    except UnicodeEncodeError:
        return False
    return True
