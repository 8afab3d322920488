"""What another program may have put into a cell of a table: found where a row becomes a record."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar, cast

from reactive_sqlite.arguments import shown
from smithers.errors import StateTypeError

R = TypeVar("R")
Shape: TypeAlias = (
    "tuple[tuple[str, ...], tuple[frozenset[type], ...], Callable[[Any], tuple[Any, ...]]]"
)

_SHAPES: dict[type[Any], Shape] = {}


def checked(record: R) -> R:
    """Return a record whose fields are what they say; StateTypeError, which names the field.

    SQLite puts a blob or a number wherever somebody writes one, and whoever shows or adds up the
    fields of a record would stumble over it far from here.
    """
    kind = cast("type[Any]", type(record))
    fields, kinds, values_of = _SHAPES.get(kind) or _SHAPES.setdefault(kind, _shape(kind))
    values = values_of(record)
    for at, value in enumerate(values):
        if type(value) not in kinds[at]:
            name = type(record).__name__.lower()
            id = shown(getattr(record, "id", getattr(record, "key", None)))
            raise StateTypeError(
                f"{name} {id}: the stored {fields[at]} is of another type: {shown(value)}"
            )
    return record


def reading(read: Callable[..., R], kind: str) -> Callable[..., R]:
    """Make what makes a record of a row raise StateTypeError for whatever is in the cells."""

    def whole(*row: Any) -> R:
        try:
            return checked(read(*row))
        except StateTypeError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise StateTypeError(f"a row of {kind} cannot be read: {error}") from error

    return whole


def _shape(kind: type[Any]) -> Shape:
    """Tell of which fields the types are known, what these are, and how to read all of them."""
    known = {
        name: allowed
        for name, hint in typing.get_type_hints(kind).items()
        if (allowed := _allowed(hint)) is not None
    }
    if len(known) == 1:  # then it gives no tuple
        return tuple(known), tuple(known.values()), lambda record: (getattr(record, *known),)
    return tuple(known), tuple(known.values()), attrgetter(*known)


def _allowed(hint: Any) -> frozenset[type] | None:
    if typing.get_origin(hint) is list:
        return frozenset((list,))
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if not all(part in (str, int, float, bool, types.NoneType) for part in parts):
        return None
    return frozenset(parts) | (frozenset((int,)) if float in parts else frozenset[type]())
