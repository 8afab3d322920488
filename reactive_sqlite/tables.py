"""sqlite-utils' tables and views with `.observe`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

import sqlite_utils.db

from reactive_sqlite.arguments import name_text, shown, sql_text
from reactive_sqlite.broker import Broker
from reactive_sqlite.dialect import quote, sqlite3
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.onerow import EVERY_COLUMN
from reactive_sqlite.projection import ALL_ROWS, FIRST_ROW, FIRST_VALUE, Projection
from reactive_sqlite.source import frozen_parameters

Where = str | Mapping[str, Any] | None


class _Owner(Protocol):
    broker: Broker


class Observing:
    """What tables and views have in common."""

    if TYPE_CHECKING:
        db: Any
        name: str

    def observe(
        self,
        where: Where = None,
        where_args: Any = (),
        *,
        order_by: str | None = None,
        limit: int | None = None,
        select: str = "*",
        skip_initial: bool = False,
    ) -> ObservableQuery[list[dict[str, Any]]]:
        """Observe the rows that `rows_where` would give; [] while the table does not exist.

        Args:
            where: SQL with `where_args` for its placeholders, or a dict: equality on those
                columns (None: IS NULL). A dict lets commits to other rows pass without a re-run.
            order_by: a column, or any SQL that may follow ORDER BY.
            limit: at most so many rows, 0 or more.
            select: the columns, as SQL.

        Example:
            >>> db["todos"].observe({"done": 0}, order_by="id").subscribe(print)
        """
        select = sql_text(select, "select")
        sql = f"SELECT {select} FROM {quote(self.name)}"
        parameters: Any = where_args if where_args is not None else ()
        pins: tuple[tuple[str, Any], ...] | None = None
        selected: tuple[str, ...] | None = None
        if isinstance(where, Mapping):
            if where_args:
                raise ValueError("where_args go with a where in SQL, not with a dict")
            terms = [
                f"{_column(self.name, c)} IS NULL" if v is None else f"{_column(self.name, c)} = ?"
                for c, v in where.items()
            ]
            parameters = [value for value in where.values() if value is not None]
            sql += f" WHERE {' AND '.join(terms)}" if terms else ""
            # What the caller selects or orders by may hold another query: then nothing is pinned.
            if select == "*" or _plain(select):
                pins = tuple([(c, v) for c, v in where.items() if v is not None])
            if order_by is not None and not _plain(sql_text(order_by, "order_by")):
                pins = None
            if select == "*" and order_by is None and limit is None and None not in where.values():
                selected = EVERY_COLUMN
        elif where is not None:
            sql += f" WHERE {sql_text(where, 'where')}"
        if order_by is not None:
            order_by = sql_text(order_by, "order_by")
            sql += f" ORDER BY {order_by}"
        if limit is not None:
            if type(limit) is not int or not 0 <= limit < 2**63:
                raise ValueError(f"limit is a whole number from 0 on, not {shown(limit)}")
            sql += f" LIMIT {limit}"
        return _observed(
            self.db, sql, parameters, pins, ALL_ROWS, selected=selected, skip_initial=skip_initial
        )

    def track(self) -> Self:
        """Log every change of the table from now on, by whatever program it is made.

        The log is kept by triggers in the file, so that a `feed` can consume it later, and commits
        of other processes re-run only the observed queries that they can have changed. Costs each
        write one more row. Tracking again changes nothing.

        Raises:
            Untrackable: a view, a virtual or temporary table, or one of an attached database.
            sqlite3.OperationalError: the table does not exist.

        Example:
            >>> db["orders"].track()
            >>> db.feed("mailer", "orders").observe().subscribe(print)
        """
        broker: Broker = self.db.broker
        with broker.locked():
            table = broker.log.trackable(broker.catalog(), self.name)
            if broker.log.is_tracked(table):
                return self
        with self.db.transaction():
            broker.log.track(broker.catalog(), self.name)
        return self

    def untrack(self) -> Self:
        """Log the table's changes no more; what is logged stays until its consumers have it."""
        with self.db.transaction():
            self.db.broker.log.untrack(self.name)
        return self


class Table(Observing, sqlite_utils.db.Table):
    """A table of sqlite-utils that can be observed."""

    def observe_column(self, column: str, where: Mapping[str, Any]) -> ObservableQuery[Any]:
        """Observe one column of the row in which other columns have these values, None while
        there is no such row; of several rows, the first. Commits to other rows cause no re-run.

        Example:
            >>> db["accounts"].observe_column("balance", {"id": 7}).subscribe(print)
        """
        if not isinstance(where, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"where is a dict of columns and values, not {shown(where)}")
        if not where or any(value is None for value in where.values()):
            raise ValueError("observe_column needs columns to find the row by, and their values")
        terms = [f"{_column(self.name, name)} = ?" for name in where]
        sql = f"SELECT {_column(self.name, column)} FROM {quote(self.name)}"
        sql += f" WHERE {' AND '.join(terms)}"
        pins = tuple(where.items())
        return _observed(self.db, sql, list(where.values()), pins, FIRST_VALUE, selected=(column,))

    def observe_row(self, pk: Any) -> ObservableQuery[dict[str, Any] | None]:
        """Observe one row by its primary key (a tuple or list for several columns), None while
        there is no such row. Commits to other rows cause no re-run.

        Raises:
            ValueError: not as many values as the key has columns.
            sqlite3.OperationalError: the table does not exist.
        """
        if not self.exists():
            raise sqlite3.OperationalError(f"no such table: {self.name}")
        columns = self.pks
        values: list[Any] = [*pk] if issubclass(type(pk), list | tuple) else [pk]
        if len(values) != len(columns):
            raise ValueError(f"the key of {self.name} is ({', '.join(columns)}), not {shown(pk)}")
        terms = [f"{_column(self.name, column)} = ?" for column in columns]
        sql = f"SELECT * FROM {quote(self.name)} WHERE {' AND '.join(terms)}"
        if any(value is None for value in values):
            return _observed(self.db, sql, values, None, FIRST_ROW)
        pins = tuple(zip(columns, values, strict=True))
        return _observed(self.db, sql, values, pins, FIRST_ROW, selected=EVERY_COLUMN)


class View(Observing, sqlite_utils.db.View):
    """A view of sqlite-utils that can be observed."""


def _observed(
    db: _Owner,
    sql: str,
    parameters: Any,
    pins: tuple[tuple[str, Any], ...] | None,
    projection: Projection,
    *,
    selected: tuple[str, ...] | None = None,
    skip_initial: bool = False,
) -> ObservableQuery[Any]:
    broker = db.broker
    source = broker.source(
        sql, frozen_parameters(parameters), pins=pins, selected=selected, missing_is_empty=True
    )
    if pins is None and not source.live:
        broker.check_query(source)
    return ObservableQuery(broker, source, projection, skip_initial=skip_initial)


def _plain(sql: str) -> bool:
    """Whether the text is only names, commas and directions: no sub-query can hide in it."""
    return "(" not in sql and "select" not in sql.lower()


def _column(table: str, column: str) -> str:
    # Alone and in quotes, the name of a column that does not exist would be taken for a text.
    return f"{quote(table)}.{quote(name_text(column, 'a column'))}"
