"""The ways to look at fetched rows: all of them, the first, its first value, or decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from reactive_sqlite.equality import same_rows, same_value
from reactive_sqlite.source import Fetched


class Projection(Protocol):
    """A value made of fetched rows, and when two of them count as the same.

    Sameness is asked of the rows, which nobody else holds: a reader may have changed a value that
    it was given.
    """

    def value(self, fetched: Fetched, /) -> Any: ...
    def same(self, old: Fetched, old_value: Any, new: Fetched, new_value: Any, /) -> bool: ...


class AllRows:
    """All rows as dicts."""

    def value(self, fetched: Fetched, /) -> list[dict[str, Any]]:
        return fetched.dicts()

    def same(self, old: Fetched, old_value: Any, new: Fetched, new_value: Any, /) -> bool:
        # Without a row, nobody can see the columns.
        if not (old.rows or new.rows):
            return True
        return old.columns == new.columns and same_rows(old.rows, new.rows)


class FirstRow:
    """The first row as a dict, None when there is none."""

    def value(self, fetched: Fetched, /) -> dict[str, Any] | None:
        return fetched.dicts()[0] if fetched.rows else None

    def same(self, old: Fetched, old_value: Any, new: Fetched, new_value: Any, /) -> bool:
        if not (old.rows and new.rows):
            return not (old.rows or new.rows)
        return old.columns == new.columns and same_rows(old.rows[:1], new.rows[:1])


class FirstValue:
    """The first column of the first row, None when there is none."""

    def value(self, fetched: Fetched, /) -> Any:
        return fetched.rows[0][0] if fetched.rows else None

    def same(self, old: Fetched, old_value: Any, new: Fetched, new_value: Any, /) -> bool:
        return same_value(old_value, new_value)


class Decoded:
    """Another projection's value, passed through a function."""

    __slots__ = ("_decode", "_inner")

    def __init__(self, inner: Projection, decode: Callable[[Any], Any]) -> None:
        self._inner = inner
        self._decode = decode

    def value(self, fetched: Fetched, /) -> Any:
        if self._inner is FIRST_VALUE:
            rows = fetched.rows
            return self._decode(rows[0][0] if rows else None)
        return self._decode(self._inner.value(fetched))

    def same(self, old: Fetched, old_value: Any, new: Fetched, new_value: Any, /) -> bool:
        kind = old_value.__class__
        if kind is int or kind is str:
            return new_value.__class__ is kind and bool(old_value == new_value)
        if kind is dict or kind is list:
            old_value = self.value(old)  # a reader may have changed the one it was given
        return same_value(old_value, new_value)


ALL_ROWS = AllRows()
FIRST_ROW = FirstRow()
FIRST_VALUE = FirstValue()
