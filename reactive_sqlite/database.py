"""`Database`: sqlite-utils' Database, every write of which is noticed. Wiring only."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

import sqlite_utils
from reactivex import Observable

from reactive_sqlite.arguments import (
    check_callable,
    check_flag,
    is_one_of,
    name_text,
    shown,
    sql_text,
)
from reactive_sqlite.broker import Broker
from reactive_sqlite.changelog import ChangeLog
from reactive_sqlite.changes import ChangeSet
from reactive_sqlite.changestream import changes
from reactive_sqlite.connection import Connection
from reactive_sqlite.delivery import Home, default_report
from reactive_sqlite.dialect import MINIMUM_SQLITE, locked_elsewhere, noted, sqlite3
from reactive_sqlite.errors import DatabaseReplaced, NotTracked
from reactive_sqlite.forks import NO_COPY
from reactive_sqlite.many import observe_many
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.opening import Frozen, connect, log_kept, path_text
from reactive_sqlite.projection import ALL_ROWS, FIRST_ROW, FIRST_VALUE, Projection
from reactive_sqlite.source import frozen_parameters
from reactive_sqlite.statement import PRAGMA, read_actions
from reactive_sqlite.tables import Table, View
from reactive_sqlite.tokens import first_keyword
from reactive_sqlite.watcher import Identity, Watcher, identity_of

if TYPE_CHECKING:  # few read the change log, so what reads it is imported when they do
    from reactive_sqlite.consumers import Consumers, FeedStatus
    from reactive_sqlite.feed import Feed

# One name for all: SQLite finds the innermost, and what is known of a statement is kept by its
# text. Texts that never come again would push out all that do.
_SAVEPOINT = "reactive_sqlite"

ErrorHandler = Callable[[BaseException], None]


class Database(sqlite_utils.Database):
    """An SQLite database whose queries can be observed, whoever writes.

    It is a `sqlite_utils.Database`: every method of sqlite-utils works, and every write made
    through it, by whatever road, is noticed; commits of other processes are noticed by a watcher.
    May be used from many threads; an open transaction keeps the other threads out until it ends.

    Args:
        path: the file; ":memory:" or `memory=True` for a database without one.
        read_only: open without ever writing to the file.
        watch: notice commits of other processes (False: only at `refresh()`, and when an own
            commit touches an observed query).
        busy_timeout: seconds to wait for a lock of another process or thread.
        synchronous: SQLite's PRAGMA: OFF, NORMAL, FULL or EXTRA.
        on_observer_error: called with errors of observers that have no other receiver; by
            default the running event loop's exception handler, else `threading.excepthook`.
        home: the one thread on which observers are called, of an asynchronous face.

    Raises:
        ValueError: an argument that makes no sense.
        sqlite3.Error: as SQLite says, with the path as a note.

    Example:
        >>> with Database("shop.db") as db:
        ...     db["orders"].observe(where="paid = 0").subscribe(print)
        ...     db["orders"].insert({"id": 1, "paid": 0}, pk="id")
    """

    conn: Connection  # pyright: ignore[reportIncompatibleVariableOverride]

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
        home: Home | None = None,
    ) -> None:
        if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
            wanted = ".".join(map(str, MINIMUM_SQLITE))
            raise RuntimeError(
                f"SQLite {sqlite3.sqlite_version} is too old: {wanted} or newer is needed"
            )
        check_flag(watch, "watch")
        if on_observer_error is not None:
            check_callable(on_observer_error, "on_observer_error")
        self._report = on_observer_error or default_report
        self._watcher: Watcher | None = None
        self.path = _file_of(path, memory=memory)
        in_memory = self.path is None
        # Before it is opened: what is there later may have taken its place.
        identity = _identity(self.path)
        connection = connect(
            self.path, read_only=read_only, busy_timeout=busy_timeout, synchronous=synchronous
        )
        identity = identity or _identity(self.path)  # it was made just now
        try:
            super().__init__(connection)
            self.memory = in_memory
            self.accept(connection)
            mended = read_only or _mend(connection)
            self.broker = Broker(connection, self._report, home)
            if not mended:
                self.broker.mend_later()
            if watch and self.path is not None:
                self._watcher = _watching(self.broker, str(self.path), identity, self._report)
        except BaseException:
            with log_kept(self.path):
                connection.close()
            raise

    def accept(self, connection: Connection) -> None:
        """Look at the file when it has been opened, before anything is written to it.

        What this raises, in a subclass, closes it again.
        """

    # -- observing -----------------------------------------------------------------------------

    def observe(
        self, sql: str, params: Any = (), *, skip_initial: bool = False
    ) -> ObservableQuery[list[dict[str, Any]]]:
        """Observe all rows of a query, as dicts.

        Args:
            skip_initial: emit changes only, not the value at the time of subscribing.

        Raises:
            ValueError: the statement is not a mere query.
            sqlite3.Error: it is no SQL, or its parameters do not fit.

        Example:
            >>> db.observe("SELECT * FROM users WHERE age > ?", [30]).subscribe(print)
        """
        return self._observed(sql, params, ALL_ROWS, skip_initial=skip_initial)

    def observe_one(
        self, sql: str, params: Any = (), *, skip_initial: bool = False
    ) -> ObservableQuery[dict[str, Any] | None]:
        """Observe the first row of a query, None when there is none. See `observe`."""
        return self._observed(sql, params, FIRST_ROW, skip_initial=skip_initial)

    def observe_value(
        self, sql: str, params: Any = (), *, skip_initial: bool = False
    ) -> ObservableQuery[Any]:
        """Observe the first column of the first row, None when there is none. See `observe`."""
        return self._observed(sql, params, FIRST_VALUE, skip_initial=skip_initial)

    def observe_many(self, *queries: ObservableQuery[Any]) -> Observable[tuple[Any, ...]]:
        """Observe several queries together: one tuple per commit, all its values from that commit.

        Raises:
            ValueError: no query was given, or one of another database.
        """
        given: Sequence[object] = queries
        if not given or any(getattr(query, "broker", None) is not self.broker for query in given):
            raise ValueError("observe_many takes one or more queries of this database")
        return observe_many(queries)

    def changes(self, *tables: str) -> Observable[ChangeSet]:
        """Observe commits: which tables, and where known which rows, each of them changed.

        Without table names every commit is told; a table of an attached database is named
        ``alias.table``. Starts with the next commit. Of commits made elsewhere the rows of tracked
        tables are known.
        """
        return changes(self.broker, _names(tables))

    def refresh(self, *tables: str) -> None:
        """Run observed queries again (those that read one of the tables, if any are named): for
        what depends on the clock, on random() or on Python functions."""
        self._check_open()
        self.broker.refresh(_names(tables))

    def reads_only(self, sql: str, params: Any = ()) -> bool:
        """Say whether running the statement would change nothing; it is compiled, not run.

        A query reads only, and so does a PRAGMA that merely reports.

        Raises:
            sqlite3.Error: the statement does not compile.
        """
        self._check_open()
        sql = sql_text(sql)
        if first_keyword(sql) == "EXPLAIN":
            return True
        compiled = self.conn.explain(sql, frozen_parameters(params), deny=frozenset({PRAGMA}))
        statement = read_actions(compiled.actions)
        if compiled.error is not None and not statement.pragmas:
            raise noted(compiled.error, sql)
        return statement.reads_only

    # -- the change log ------------------------------------------------------------------------

    def track(self, *tables: str) -> None:
        """Log every change of several tables from now on: all of them or none. See `Table.track`.

        Example:
            >>> db.track("orders", "customers")
        """
        names = _names(tables)
        with self.transaction():
            catalog = self.broker.catalog()
            for name in names:
                self.broker.log.track(catalog, name)

    def tracked(self) -> list[str]:
        """Return the names of the tables whose changes are logged, in lower case, sorted."""
        with self.broker.locked():
            return self.broker.log.tracked()

    def feed(
        self,
        consumer: str,
        *tables: str,
        start: Literal["now", "beginning"] = "now",
        batch_size: int = 100,
    ) -> Feed:
        """Read the change log of tracked tables from where this consumer left off.

        Args:
            consumer: the name under which its cursor is kept; several never disturb each other.
            tables: those whose changes it wants; without any, of all that are or will be tracked.
                A known consumer may come with other tables: of an added one it gets what the log
                still has after its cursor.
            start: where a new consumer begins: "now", with the next change, or at the "beginning"
                of what the log still has.
            batch_size: so many changes are read at a time.

        Raises:
            NotTracked: one of the tables is not tracked.
            ValueError: an argument that makes no sense.

        Example:
            >>> db["orders"].track()
            >>> for change in (feed := db.feed("mailer", "orders")):
            ...     print(change.op, change.key)
            ...     feed.ack(change)
        """
        from reactive_sqlite.feed import Feed, check_batch_size

        self._check_open()
        if type(consumer) is not str or not consumer.isprintable() or not consumer:
            raise ValueError(f"the name of a consumer is a printable text, not {shown(consumer)}")
        if not is_one_of(start, ("now", "beginning")):
            raise ValueError(f'start is "now" or "beginning", not {shown(start)}')
        check_batch_size(batch_size, "batch_size")
        broker = self.broker
        wanted = tuple(dict.fromkeys(table.lower() for table in _names(tables))) or None
        with broker.locked():
            tracked = broker.log.tracked() if wanted is not None else []
            for table in wanted or ():
                if table not in tracked:
                    raise NotTracked(table)
            known = self._consumers.is_registered(consumer, wanted)
        if not known:
            with self.transaction():
                self._consumers.register(consumer, wanted, start)
        return Feed(broker, self._consumers, consumer, wanted, batch_size)

    def feeds(self) -> list[FeedStatus]:
        """Return the consumers of the change log by name: tables, cursor, and how far behind."""
        with self.broker.locked():
            return self._consumers.statuses()

    def drop_consumer(self, name: str) -> bool:
        """Forget a consumer and its cursor, and trim the log of what only it needed; False when
        there is none of that name."""
        name = name_text(name, "a consumer")
        with self.transaction():
            return self._consumers.drop(name)

    def trim_feed(self, older_than: datetime | timedelta | None = None) -> int:
        """Delete from the change log what no consumer has still to read, and return how many
        entries that were.

        The log trims itself: beyond what consumers need, the newest 10,000 entries are kept.

        Args:
            older_than: only entries from before that moment, or of at least that age.
        """
        if not (older_than is None or isinstance(older_than, datetime | timedelta)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"older_than is a datetime or a timedelta, not {shown(older_than)}")
        from reactive_sqlite.consumers import milliseconds

        try:
            limit = None if older_than is None else milliseconds(older_than)
        except (OverflowError, ValueError):
            raise ValueError(f"older_than is no time that there is: {shown(older_than)}") from None
        with self.transaction():
            return self._consumers.trim(limit)

    @cached_property
    def _consumers(self) -> Consumers:
        from reactive_sqlite.consumers import Consumers

        return Consumers(self.broker.log, self.conn, self.broker.catalog)

    # -- transactions --------------------------------------------------------------------------

    @contextlib.contextmanager
    def transaction(self) -> Generator[Database, None, None]:
        """Group writes: all of them are committed when the block ends, none when it raises.

        The outermost is a BEGIN IMMEDIATE, which takes the write lock at once; nested ones are
        savepoints. Observers are told once, after the outermost has been committed.

        Nothing else commits it: COMMIT is refused inside, and where it was rolled back as a whole,
        as SQLite does for `OR ROLLBACK` or an interrupt, so is all that the block goes on to do.
        """
        self._check_open()
        conn = self.conn
        if not conn.owned_here():
            try:
                # Inside, for a signal's handler may raise when it has begun.
                conn.begin(sealed=True)
                yield self
                if self.broker.capture.redefined:
                    self.broker.log.mend()  # here, so that no change of others goes unlogged
                conn.complete()
            except BaseException:
                conn.abort()
                raise
            return
        conn.execute(f"SAVEPOINT {_SAVEPOINT}")
        try:
            yield self
        except BaseException:
            # RAISE(ROLLBACK) and its kin have ended the whole transaction, savepoints and all.
            if conn.owned_here() and not conn.broken:
                conn.execute(f"ROLLBACK TO {_SAVEPOINT}")
                conn.execute(f"RELEASE {_SAVEPOINT}")
            raise
        conn.execute(f"RELEASE {_SAVEPOINT}")

    atomic = transaction

    # -- sqlite-utils, with our tables -----------------------------------------------------------

    def execute(
        self, sql: str, parameters: Sequence[Any] | dict[str, Any] | None = None
    ) -> sqlite3.Cursor:
        """Execute one statement; outside a transaction, a write is committed at once."""
        cursor: sqlite3.Cursor = cast(Any, super()).execute(sql, parameters)
        return cursor

    def query(
        self, sql: str, params: Sequence[Any] | dict[str, Any] | None = None
    ) -> Generator[dict[str, Any], None, None]:
        """Execute a statement that returns rows and iterate over them as dicts."""
        self._check_open()
        rows: Generator[dict[str, Any], None, None] = cast(Any, super()).query(sql, params)
        return rows

    def table(self, table_name: str, **kwargs: Any) -> Table:
        """Return the table, with `observe` and `observe_row`."""
        self._check_open()
        table_name = name_text(table_name, "a table")
        if table_name in self.view_names():
            raise sqlite_utils.db.NoTable(f"Table {table_name} is actually a view")
        return Table(self, table_name, **kwargs)

    def view(self, view_name: str) -> View:
        """Return the view, with `observe`."""
        self._check_open()
        view_name = name_text(view_name, "a view")
        if view_name not in self.view_names():
            raise sqlite_utils.db.NoView(f"View {view_name:.80} does not exist")
        return View(self, view_name)

    def __getitem__(self, table_name: str) -> Any:
        self._check_open()
        return super().__getitem__(table_name)

    def close(self) -> None:
        """Complete all observables and close the file; every later call raises DatabaseClosed."""
        self.broker.shut(None)  # first: it may be refused, and then the watching must go on
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called, or the file was replaced."""
        return self.conn.closed

    def __reduce__(self) -> NoReturn:
        raise TypeError(NO_COPY)

    # -- private -------------------------------------------------------------------------------

    def _observed(
        self, sql: str, params: Any, projection: Projection, *, skip_initial: bool
    ) -> ObservableQuery[Any]:
        self._check_open()
        source = self.broker.source(sql_text(sql), frozen_parameters(params))
        if not source.live:
            self.broker.check_query(source)
        return ObservableQuery(self.broker, source, projection, skip_initial=skip_initial)

    def _check_open(self) -> None:
        if self.conn.closed:
            raise self.conn.closed_error()


def _names(tables: Iterable[object]) -> list[str]:
    return [name_text(table, "a table") for table in tables]


def _file_of(path: str | os.PathLike[str] | None, *, memory: bool) -> Path | None:
    check_flag(memory, "memory")
    if path is None or is_one_of(path, (":memory:",)):
        if path is None and not memory:
            raise ValueError("give a path, or memory=True for a database without a file")
        return None
    if memory:
        raise ValueError(f"memory=True is for a database without a file, not for {shown(path)}")
    return Path(path_text(path, "the path of a database"))


def _mend(connection: Connection) -> bool:
    """Track what others have altered; False where the file is locked."""
    try:
        ChangeLog(connection).mend()
    except sqlite3.OperationalError as error:
        if not locked_elsewhere(error):
            raise
        return False
    return True


def _identity(path: Path | None) -> Identity | None:
    if path is not None:
        with contextlib.suppress(OSError, ValueError):  # opening it says why
            return identity_of(path)
    return None


def _watching(
    broker: Broker, path: str, identity: Identity | None, report: ErrorHandler
) -> Watcher:
    # Weakly: a database that was dropped without being closed must not be watched for ever.
    known = weakref.ref(broker)

    def check() -> bool:
        found = known()
        if found is None:
            return False
        if isinstance(found.connection, Frozen) and (reason := found.connection.difference()):
            replaced(reason)
            return False
        try:
            return found.check()
        except DatabaseReplaced as error:
            replaced(str(error))  # somebody wrote between that look and the end of this one
            return False

    def replaced(reason: str) -> None:
        found = known()
        if found is not None:
            found.shut(DatabaseReplaced(reason))

    watcher = Watcher(path, check=check, replaced=replaced, failed=report, identity=identity)
    weakref.finalize(broker, watcher.close)
    try:
        watcher.start()
    except BaseException:  # no thread is to be had
        watcher.close()
        raise
    return watcher
