"""One query text with its parameters: what it returned last, and who depends on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol
from weakref import WeakSet

from sqlite_utils.utils import dedupe_keys

from reactive_sqlite.arguments import check_parameter, check_parameters
from reactive_sqlite.equality import kind_of
from reactive_sqlite.onerow import OneRow
from reactive_sqlite.region import Region

Parameters = Sequence[Any] | Mapping[str, Any]


class Fetched:
    """What one run of a query gave: rows and column names, or the error it raised."""

    __slots__ = ("_dicts", "columns", "error", "rows")

    def __init__(
        self,
        rows: list[tuple[Any, ...]],
        columns: tuple[str, ...],
        error: BaseException | None = None,
    ) -> None:
        self.rows = rows
        self.columns = columns
        self.error = error
        self._dicts: list[dict[str, Any]] | None = None

    def dicts(self) -> list[dict[str, Any]]:
        """The rows as sqlite-utils gives them; made once and shared by all who ask."""
        if self._dicts is None:
            names = list(dedupe_keys(self.columns))
            self._dicts = [dict(zip(names, row, strict=True)) for row in self.rows]
        return self._dicts


class Dependent(Protocol):
    """A view of a source's rows that somebody may be looking at."""

    @property
    def wanted(self) -> bool: ...


class Source:
    """A query that equal requests share: fetched once per commit, whoever asks."""

    __slots__ = (
        *("__weakref__", "_dependents", "fetched", "given_pins", "live", "missing_is_empty"),
        *("one_row", "parameters", "reads", "region", "seen", "selected", "sql", "tracked"),
    )

    def __init__(
        self,
        sql: str,
        parameters: Parameters,
        given_pins: tuple[tuple[str, Any], ...] | None,
        *,
        selected: tuple[str, ...] | None = None,
        missing_is_empty: bool,
    ) -> None:
        self.sql = sql
        self.parameters = parameters
        self.given_pins = given_pins
        self.selected = selected  # of one table, where nothing but the pins is asked of a row
        self.one_row: OneRow | None = None
        self.missing_is_empty = missing_is_empty
        self.region: Region | None = None
        self.fetched: Fetched | None = None
        self.seen: tuple[Any, ...] | None = None
        self.live = False
        # One alone as it is: a dict for each of thousands would be most of their memory.
        self._dependents: Any = None
        self.tracked: WeakSet[Any] | None = None
        self.reads: frozenset[str] = frozenset()

    def audience(self) -> Iterable[Any]:
        """Everybody who looks at it: subscribers' views first, then those that memos read."""
        there = self._dependents
        if there is None:
            views: tuple[Any, ...] = ()
        else:
            views = tuple(there) if there.__class__ is dict else (there,)
        if self.tracked:
            return [*views, *(view for view in self.tracked if view not in views)]
        return views

    def join(self, view: Dependent) -> None:
        """Let the view be told of what is fetched."""
        there = self._dependents
        if there is None:
            self._dependents = view
        elif there.__class__ is dict:
            there[view] = None
        elif there is not view:
            self._dependents = {there: None, view: None}

    def leave(self, view: Dependent) -> None:
        """Tell the view nothing any more."""
        there = self._dependents
        if there is view:
            self._dependents = None
        elif there.__class__ is dict:
            there.pop(view, None)


def frozen_parameters(parameters: Any) -> Parameters:
    """Copy parameters, so that the caller may change its own list or dict afterwards."""
    check_parameters(parameters)
    if isinstance(parameters, Mapping):
        return {str(name): _frozen(value, name) for name, value in parameters.items()}  # pyright: ignore
    return tuple([_frozen(value, number) for number, value in enumerate(parameters, start=1)])


def source_key(sql: str, parameters: Parameters, extra: Any = None) -> Any:
    """Return what makes queries equal: text, parameters by value and type; None if unhashable."""
    # Flat, since one is kept for each of thousands.
    key: tuple[Any, ...]
    if isinstance(parameters, Mapping):
        names = sorted(parameters)
        values = [part for name in names for part in _typed(parameters[name])]
        key = (sql, extra, tuple(names), *values)
    else:
        key = (sql, extra, *[part for value in parameters for part in _typed(value)])
    try:
        hash(key)
    except Exception:  # of a value that SQLite will refuse
        return None
    return key


def _typed(value: Any) -> tuple[Any, Any]:
    kind = kind_of(value)
    # repr tells 0.0 from -0.0 and makes nan equal itself.
    return kind, repr(value) if kind is float else value


def _frozen(value: Any, name: Any) -> Any:
    kind = kind_of(value)
    check_parameter(value, name)
    return bytes(value) if issubclass(kind, bytearray | memoryview) else value
