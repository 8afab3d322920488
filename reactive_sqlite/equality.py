"""When two results count as the same: by value, type, order and number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast


def same_value(old: object, new: object) -> bool:
    """Compare two values so that 1, 1.0, True and '1' differ and nan equals itself; JSON-like
    containers are compared by content."""
    if old is new:
        return True
    kind: type[Any] = type(old)
    if kind is not type(new):
        return False
    if kind is float:
        # -0.0 == 0.0, but they are printed and divided by differently.
        return repr(old) == repr(new)
    if kind is dict:
        return _same_dict(cast("dict[Any, Any]", old), cast("dict[Any, Any]", new))
    if kind is list or kind is tuple:
        before, after = cast("list[Any]", old), cast("list[Any]", new)
        return len(before) == len(after) and all(map(same_value, before, after))
    return bool(old == new)


def kind_of(value: object) -> type[Any]:
    """Return the value's exact type."""
    return type(value)


def same_rows(old: Sequence[tuple[Any, ...]], new: Sequence[tuple[Any, ...]]) -> bool:
    """Compare two fetched results row by row, with the types of their values."""
    if len(old) != len(new) or old != new:
        return False
    # Equal by ==: only numbers can still differ, by type or by the sign of zero.
    for before, after in zip(old, new, strict=True):
        for left, right in zip(before, after, strict=True):
            if left is not right and (
                type(left) is not type(right)
                or (type(left) is float and not same_value(left, right))
            ):
                return False
    return True


def _same_dict(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    # The order of keys is part of a row's shape (the order of its columns).
    return len(old) == len(new) and all(
        same_value(left, right) and same_value(old[left], new[right])
        for left, right in zip(old, new, strict=True)
    )
