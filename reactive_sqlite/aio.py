"""The asynchronous face of the database: the same calls, awaited; observers served on the loop."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

from reactivex import Observable

from reactive_sqlite.asyncfeed import AsyncFeed
from reactive_sqlite.asyncquery import AsyncObservableQuery, observable
from reactive_sqlite.changes import ChangeSet
from reactive_sqlite.database import Database, ErrorHandler
from reactive_sqlite.errors import DatabaseClosed, NotReady
from reactive_sqlite.face import AsyncFace, awaited
from reactive_sqlite.tables import Table, View, Where
from reactive_sqlite.worker import Worker, post, running_loop

if TYPE_CHECKING:
    import asyncio

P = ParamSpec("P")
R = TypeVar("R")
Rows = list[dict[str, Any]]


class LoopHome:
    """The event loop on which the observers of a database are called."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._thread = threading.get_ident()

    def here(self) -> bool:
        return threading.get_ident() == self._thread

    def post(self, fn: Callable[[], None], /) -> None:
        post(self.loop, fn)


class AsyncDatabase(AsyncFace[Database]):
    """`Database` for asyncio: every call runs on one worker thread, in the order it was made.

    Await it or enter it to open the file. Observers are called on the event loop, before the
    `await` of the write that caused them returns. A cancelled call that had not begun never
    begins; one that had is finished. No transaction is held across an `await`: use `transact`.

    The arguments are those of `Database`.

    Example:
        >>> async with AsyncDatabase("shop.db") as db:
        ...     await db.execute("INSERT INTO orders VALUES (?)", [1])
        ...     print(await db.observe_value("SELECT count(*) FROM orders"))
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        memory: bool = False,
        read_only: bool = False,
        watch: bool = True,
        busy_timeout: float = 5.0,
        synchronous: str = "NORMAL",
        on_observer_error: ErrorHandler | None = None,
    ) -> None:
        def make(home: LoopHome) -> Database:
            return Database(
                path,
                memory=memory,
                read_only=read_only,
                watch=watch,
                busy_timeout=busy_timeout,
                synchronous=synchronous,
                on_observer_error=on_observer_error or loop_report(home),
                home=home,
            )

        self._open = make
        self._database: Database | None = None

    def __await__(self) -> Generator[Any, Any, AsyncDatabase]:
        """Open the database."""
        return self._opened().__await__()

    async def __aenter__(self) -> AsyncDatabase:
        return await self._opened()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # -- calls -----------------------------------------------------------------------------------

    execute = awaited(Database.execute)
    refresh = awaited(Database.refresh)
    reads_only = awaited(Database.reads_only)
    track = awaited(Database.track)
    tracked = awaited(Database.tracked)
    feeds = awaited(Database.feeds)
    drop_consumer = awaited(Database.drop_consumer)
    trim_feed = awaited(Database.trim_feed)

    async def query(self, sql: str, params: Sequence[Any] | dict[str, Any] | None = None) -> Rows:
        """Execute a statement that returns rows and return them as dicts."""
        return await self._call(_rows, sql, params)

    async def transact(
        self, fn: Callable[Concatenate[Database, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run ``fn(db, …)`` with the synchronous `Database` as one transaction on the worker.

        What it raises undoes everything and is raised here. It must not keep the database.

        Example:
            >>> await db.transact(lambda db: db["todos"].insert({"title": "tea"}))
        """
        return await self._call(_transaction, fn, *args, **kwargs)

    async def close(self) -> None:
        """Complete all observables and close the file; every later call raises DatabaseClosed."""
        if self._database is None:
            return
        try:
            await self._call(Database.close)
        except DatabaseClosed:
            return
        self._worker.close()

    # -- observing -------------------------------------------------------------------------------

    def observe(
        self, sql: str, params: Any = (), *, skip_initial: bool = False
    ) -> AsyncObservableQuery[Rows]:
        """Observe all rows of a query. See `Database.observe`; errors come when it is awaited."""
        return self._query(lambda db: db.observe(sql, params, skip_initial=skip_initial))

    def observe_one(
        self, sql: str, params: Any = (), *, skip_initial: bool = False
    ) -> AsyncObservableQuery[dict[str, Any] | None]:
        """Observe the first row of a query, None when there is none."""
        return self._query(lambda db: db.observe_one(sql, params, skip_initial=skip_initial))

    def observe_value(
        self, sql: str, params: Any = (), *, skip_initial: bool = False
    ) -> AsyncObservableQuery[Any]:
        """Observe the first column of the first row, None when there is none."""
        return self._query(lambda db: db.observe_value(sql, params, skip_initial=skip_initial))

    def observe_many(self, *queries: AsyncObservableQuery[Any]) -> Observable[tuple[Any, ...]]:
        """Observe several queries together: one tuple per commit. See `Database.observe_many`."""
        db = self._ready()
        given: Any = queries
        if not all(isinstance(query, AsyncObservableQuery) for query in given):
            raise ValueError("observe_many takes one or more queries of this database")
        return observable(self._worker, lambda: db.observe_many(*[q.opened() for q in queries]))

    def changes(self, *tables: str) -> Observable[ChangeSet]:
        """Observe commits. See `Database.changes`."""
        db = self._ready()
        return observable(self._worker, lambda: db.changes(*tables))

    def feed(
        self,
        consumer: str,
        *tables: str,
        start: Literal["now", "beginning"] = "now",
        batch_size: int = 100,
    ) -> AsyncFeed:
        """Read the change log of tracked tables. See `Database.feed`; errors come at its use."""
        db = self._ready()
        return AsyncFeed(
            self._worker,
            lambda: db.feed(consumer, *tables, start=start, batch_size=batch_size),
            db.broker.report,
        )

    def __getitem__(self, name: str) -> AsyncTable:
        """Return the table or view, with `observe`, `observe_row` and `track`."""
        return AsyncTable(self._ready(), self._worker, name)

    # -- private ---------------------------------------------------------------------------------

    async def _opened(self) -> AsyncDatabase:
        if self._database is None:
            home = LoopHome(running_loop())
            worker = Worker("reactive-sqlite-worker")
            try:
                self._database = await worker.run(self._open, home)
            except BaseException:
                worker.close()
                raise
            super().__init__(self._database, worker)
        return self

    async def _call(
        self,
        method: Callable[Concatenate[Database, P], R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        self._ready()
        return await super()._call(method, *args, **kwargs)

    def _query(self, make: Callable[[Database], Any]) -> AsyncObservableQuery[Any]:
        db = self._ready()
        return AsyncObservableQuery(self._worker, lambda: make(db))

    def _ready(self) -> Database:
        if self._database is None:
            raise NotReady("open the database first: `async with` it, or await it")
        return self._database


class AsyncTable:
    """A table or view of an `AsyncDatabase`, to be observed."""

    def __init__(self, database: Database, worker: Worker, name: str) -> None:
        self._database = database
        self._worker = worker
        self.name = name

    def observe(
        self,
        where: Where = None,
        where_args: Any = (),
        *,
        order_by: str | None = None,
        limit: int | None = None,
        select: str = "*",
        skip_initial: bool = False,
    ) -> AsyncObservableQuery[Rows]:
        """Observe rows. See `Table.observe`."""

        def make() -> Any:
            table: Table | View = self._database[self.name]
            return table.observe(
                where,
                where_args,
                order_by=order_by,
                limit=limit,
                select=select,
                skip_initial=skip_initial,
            )

        return AsyncObservableQuery(self._worker, make)

    def observe_row(self, pk: Any) -> AsyncObservableQuery[dict[str, Any] | None]:
        """Observe one row by its primary key. See `Table.observe_row`."""
        database, name = self._database, self.name
        return AsyncObservableQuery(self._worker, lambda: database.table(name).observe_row(pk))

    async def track(self) -> None:
        """Log every change of the table from now on. See `Table.track`."""
        await self._worker.run(lambda: self._database[self.name].track())

    async def untrack(self) -> None:
        """Log the table's changes no more. See `Table.untrack`."""
        await self._worker.run(lambda: self._database[self.name].untrack())


def loop_report(home: LoopHome) -> ErrorHandler:
    """Report errors of observers to the loop's exception handler."""

    def report(error: BaseException) -> None:
        context = {"message": "an observer of a database failed", "exception": error}
        post(home.loop, home.loop.call_exception_handler, context)

    return report


def _rows(db: Database, sql: str, params: Sequence[Any] | dict[str, Any] | None) -> Rows:
    return list(db.query(sql, params))


def _transaction(
    db: Database, fn: Callable[Concatenate[Database, P], R], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    with db.transaction():
        return fn(db, *args, **kwargs)
