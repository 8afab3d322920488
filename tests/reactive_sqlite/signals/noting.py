"""Writing down what happens, within the expression in which it happens."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def note(seen: list[T], item: T, value: U) -> U:
    """Append `item` to `seen` and return `value`."""
    seen.append(item)
    return value
