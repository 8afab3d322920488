"""Values that nobody expects: one list of them, for every argument of every call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from tests.smithers.hostile import HOSTILE, UNWRITABLE


class Mischief(Exception):
    """What the methods of the objects below raise where they raise anything."""


class Unshowable:
    """Has no text."""

    def __repr__(self) -> str:
        raise Mischief("repr")


class Incomparable:
    """Equals nothing, and can be in no set; nor is it true or false."""

    def __eq__(self, other: object) -> bool:
        raise Mischief("eq")

    def __hash__(self) -> int:
        raise Mischief("hash")

    def __bool__(self) -> bool:
        raise Mischief("bool")

    def __len__(self) -> int:
        raise Mischief("len")


class Agreeable:
    """Equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("project")


class Text(str):
    """Text that is not what it says."""

    def __repr__(self) -> str:
        raise Mischief("repr of text")

    def __str__(self) -> str:
        return "'; DROP TABLE state; --"

    def __eq__(self, other: object) -> bool:
        raise Mischief("eq of text")

    __hash__ = str.__hash__

    def __len__(self) -> int:
        return 0


class Number(int):
    """A number that is shown as something else."""

    def __repr__(self) -> str:
        return "1; DROP TABLE state"

    __str__ = __repr__


class Broken(Mapping[str, Any]):
    """A mapping that breaks in the middle."""

    def __getitem__(self, key: str) -> Any:
        raise Mischief("item")

    def __iter__(self) -> Iterator[str]:
        yield "key"
        raise Mischief("iteration")

    def __len__(self) -> int:
        return 2


class Endless(list[Any]):
    """A list that lies about what is in it."""

    def __iter__(self) -> Iterator[Any]:
        raise Mischief("iteration of a list")

    def __len__(self) -> int:
        return 2**62


class Nowhere:
    """A path that is none."""

    def __fspath__(self) -> str:
        return "nul \0 inside"


class Lying:
    """A path that is a number."""

    def __fspath__(self) -> Any:
        return 5


class Word(StrEnum):
    """A member of an enumeration that is text as well."""

    RUNNING = "running"


class Unreadable(Exception):
    """An error without a message."""

    def __str__(self) -> str:
        raise Mischief("str of an error")


def cycle() -> list[Any]:
    inner: list[Any] = []
    inner.append({"again": inner})
    return inner


def nested(depth: int) -> list[Any]:
    outer: list[Any] = []
    for _ in range(depth):
        outer = [outer]
    return outer


# Made anew for each call, since some are used up or grow.
VALUES: Mapping[str, Callable[[], Any]] = {
    **{f"text {number}": partial(str, text) for number, text in enumerate(HOSTILE)},
    **{f"unwritable {number}": partial(str, text) for number, text in enumerate(UNWRITABLE)},
    "empty": lambda: "",
    "key of 2,000": lambda: "k" * 2_000,
    "a number as text": lambda: "-1",
    "a word as text": lambda: Word.RUNNING,
    "lying text": lambda: Text("phase"),
    "unpaired text": lambda: Text("\udfff"),
    "None": lambda: None,
    "True": lambda: True,
    "zero": lambda: 0,
    "minus one": lambda: -1,
    "2**31": lambda: 2**31,
    "2**63 - 1": lambda: 2**63 - 1,
    "2**63": lambda: 2**63,
    "-2**63 - 1": lambda: -(2**63) - 1,
    "10**5000": lambda: 10**5000,
    "lying number": lambda: Number(1),
    "half": lambda: 0.5,
    "nan": lambda: math.nan,
    "infinity": lambda: math.inf,
    "minus infinity": lambda: -math.inf,
    "1e308": lambda: 1e308,
    "decimal": lambda: Decimal("NaN"),
    "fraction": lambda: Fraction(1, 3),
    "complex": lambda: 1j,
    "bytes": lambda: b"\xff\x00",
    "bytearray": lambda: bytearray(b"state"),
    "object": object,
    "a class": lambda: dict,
    "a function": lambda: _nothing,
    "a function that raises": lambda: _raise,
    "ellipsis": lambda: ...,
    "list": lambda: [],
    "list of objects": lambda: [object(), Unshowable()],
    "cycle": cycle,
    "nested 600 deep": lambda: nested(600),
    "nested 100,000 deep": lambda: nested(100_000),
    "generator": lambda: (each for each in "abc"),
    "set": lambda: {"a", 1},
    "dict": lambda: {},
    "dict of a number": lambda: {1: 2, None: 3},
    "dict of an object": lambda: {"key": Unshowable()},
    "dict of a lone surrogate": lambda: {"\ud800": "\ud800", "nul \0": "\0"},
    "broken mapping": Broken,
    "endless list": lambda: Endless([1]),
    "unshowable": Unshowable,
    "unshowable class": lambda: Unshowable,
    "incomparable": Incomparable,
    "agreeable": Agreeable,
    "error": lambda: ValueError("an \0 error \ud800"),
    "unreadable error": Unreadable,
    "naive": lambda: datetime(2026, 1, 1),
    "naive at the end": lambda: datetime.max,
    "aware at the beginning": lambda: datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    "aware at the end": lambda: datetime.max.replace(tzinfo=UTC),
    "date": lambda: date(2026, 1, 1),
    "age": lambda: timedelta.max,
    "age before": lambda: timedelta.min,
    "path": lambda: Path("no/such/place"),
    "path with nul": Nowhere,
    "path that is a number": Lying,
}


def _nothing(*args: object, **kwargs: object) -> None:
    pass


def _raise(*args: object, **kwargs: object) -> Any:
    raise Mischief("call")
