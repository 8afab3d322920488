"""The sqlite3 connection that sees every statement and every end of a transaction.

Python's module has no commit or update hooks. This connection therefore runs every statement
itself: under one lock, with the rows buffered (a half-read cursor would freeze the view of other
processes' commits and block our own), under a permanent authorizer that records what the
compiler says of each statement. What it learns goes to a `Ledger`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Literal, Protocol, cast

from .dialect import sqlite3
from .errors import DatabaseClosed
from .statement import Statement, first_keyword, read_actions

# More texts than Python's own statement cache keeps prepared, so that a cached statement, for
# which the authorizer stays silent, is nearly always known here.
_KNOWN_STATEMENTS = 4096
_DISTURBED_BY_TRIGGERS = frozenset({"ALTER", "DETACH"})


class Ledger(Protocol):
    """What is told of the statements: called with the connection's lock held."""

    def mark(self) -> int: ...
    def savepoint(self, action: str, name: str, mark: int) -> None: ...
    def wrote(self, statement: Statement) -> None: ...
    def schema_changed(self) -> None: ...
    def forget(self, mark: int) -> None: ...
    def rolled_back(self) -> None: ...
    def committed(self) -> None: ...
    def pending(self) -> bool: ...
    def make_way(self) -> None: ...
    def repair(self) -> bool: ...
    def pragma(self) -> None: ...
    def deliver(self) -> None: ...


class Cursor(sqlite3.Cursor):
    """A cursor whose rows are fetched when the statement runs."""

    _rows: Iterator[Any] | None = None

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor:
        return cast("Connection", self.connection).run(self, sql, parameters)

    def executemany(self, sql: str, seq_of_parameters: Iterable[Any], /) -> Cursor:
        return cast("Connection", self.connection).run_many(self, sql, seq_of_parameters)

    def executescript(self, sql_script: str, /) -> Cursor:
        return cast("Connection", self.connection).run_script(self, sql_script)

    def __next__(self) -> Any:
        if self._rows is None:
            raise StopIteration
        return next(self._rows)

    def fetchone(self) -> Any:
        return next(self, None)

    def fetchmany(self, size: int | None = None) -> list[Any]:
        wanted = self.arraysize if size is None else size
        return [row for _, row in zip(range(wanted), self, strict=False)]

    def fetchall(self) -> list[Any]:
        return list(self)

    def close(self) -> None:
        self._rows = None
        super().close()


class Connection(sqlite3.Connection):
    """An autocommit connection that may be used from many threads, one statement at a time.

    An open transaction, however it was begun, belongs to the thread that began it: other threads
    wait for its end, at most `busy_timeout` seconds, then get "database is locked".
    """

    def __init__(self, *args: Any, busy_timeout: float = 5.0, **kwargs: Any) -> None:
        kwargs.update(isolation_level=None, check_same_thread=False, timeout=busy_timeout)
        super().__init__(*args, **kwargs)
        self.lock = threading.RLock()
        self.ledger: Ledger | None = None
        self.closed = False
        self.read_only = False
        self.immutable = False  # a closed file that nobody can write
        self.busy_timeout = busy_timeout
        self._owned = False  # the lock is held once more for the open transaction
        self._depth = 0  # statements running inside statements (a Python function called by SQL)
        self._quiet = 0  # inside a script: its commits are told at its end
        self._statements: dict[str, Statement] = {}
        self._actions: list[tuple[Any, ...]] = []
        self._denied: frozenset[int] | None = None
        self._user_authorizer: Callable[..., int] | None = None
        super().set_authorizer(self._authorize)

    # -- the statements of the user ------------------------------------------------------------

    def cursor(self, factory: type[sqlite3.Cursor] = Cursor, /) -> Any:
        self._check_open()
        if not issubclass(factory, Cursor):
            # Rows and commits of a foreign class would pass us by: mix our methods in below it.
            factory = type(factory.__name__, (factory, Cursor), {})
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor:
        return self.run(self.cursor(), sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Cursor:
        return self.run_many(self.cursor(), sql, parameters)

    def executescript(self, sql_script: str, /) -> Cursor:
        return self.run_script(self.cursor(), sql_script)

    def commit(self) -> None:
        if self.in_transaction:
            self.execute("COMMIT")

    def rollback(self) -> None:
        if self.in_transaction:
            self.execute("ROLLBACK")

    def __enter__(self) -> Connection:
        # In autocommit mode nothing would begin a transaction for `with connection:` to end.
        if not self.in_transaction or not self.owned_here():
            self.execute("BEGIN" if self.read_only else "BEGIN IMMEDIATE")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> Literal[False]:
        if kind is None:
            try:
                self.commit()
            except BaseException:
                self.rollback()
                raise
        else:
            self.rollback()
        return False

    @property
    def isolation_level(self) -> None:  # type: ignore[override]
        """Always None; setting it through the C attribute would commit behind our back."""
        return None

    @isolation_level.setter
    def isolation_level(self, value: str | None) -> None:
        if value is not None:
            raise ValueError(
                "this connection is always in autocommit mode; use db.transaction() or BEGIN"
            )

    def set_authorizer(self, authorizer_callback: Callable[..., int] | None, /) -> None:
        """Ask the callback as well; the connection's own recording goes on."""
        self._user_authorizer = authorizer_callback
        self._statements.clear()
        super().set_authorizer(self._authorize)  # prepares every statement anew

    def blobopen(self, *args: Any, **kwargs: Any) -> Any:
        """Open a blob for reading; writes to a blob fire no trigger and are refused."""
        if not kwargs.get("readonly", args[3] if len(args) > 3 else False):
            raise sqlite3.NotSupportedError(
                "a writable blob would change a row unseen; pass readonly=True, or UPDATE the row"
            )
        with self.exclusive():
            return super().blobopen(*args, **kwargs)

    def deserialize(self, *args: Any, **kwargs: Any) -> None:
        with self.exclusive():
            super().deserialize(*args, **kwargs)
            self._replaced()
        self._deliver()

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        with self.exclusive():
            if self.closed:
                return
            self.closed = True
            super().close()
            if self._owned:
                self._owned = False
                self.lock.release()

    # -- for the rooms above -------------------------------------------------------------------

    def raw(self, sql: str, parameters: Any = ()) -> list[Any]:
        """Run a statement of our own, unrecorded, and return its rows as tuples."""
        outer, self._actions = self._actions, []
        try:
            return sqlite3.Cursor(self).execute(sql, parameters).fetchall()
        finally:
            self._actions = outer

    def raw_described(self, sql: str, parameters: Any = ()) -> tuple[list[Any], tuple[str, ...]]:
        """Run a query unrecorded and return its rows and column names."""
        outer, self._actions = self._actions, []
        try:
            cursor = sqlite3.Cursor(self).execute(sql, parameters)
            rows = cursor.fetchall()
            return rows, tuple([d[0] for d in cursor.description or ()])
        finally:
            self._actions = outer

    def explain(
        self, sql: str, parameters: Any = (), *, deny: frozenset[int] | None = None
    ) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Compile a statement without running it: (the compiler's actions, the program).

        Actions with a code in `deny` are recorded and forbidden: a PRAGMA acts when compiled.
        """
        with self.exclusive():
            outer, self._actions = self._actions, []
            self._denied = deny
            try:
                program = sqlite3.Cursor(self).execute("EXPLAIN " + sql, parameters).fetchall()
                return self._actions, program
            except sqlite3.Error as error:
                error.reactive_sqlite_actions = self._actions  # type: ignore[attr-defined]
                raise
            finally:
                self._actions, self._denied = outer, None

    def owned_here(self) -> bool:
        """Whether this thread is inside the open transaction."""
        return self._owned and cast(bool, self.lock._is_owned())  # type: ignore[attr-defined]

    # -- running -------------------------------------------------------------------------------

    def run(self, cursor: Cursor, sql: str, parameters: Any) -> Cursor:
        """Execute one statement on the cursor."""
        self._acquire()
        try:
            return self._one(cursor, sql, parameters)
        finally:
            self.lock.release()
            self._deliver()

    def run_many(self, cursor: Cursor, sql: str, rows: Iterable[Any]) -> Cursor:
        """Execute one statement for each row of parameters: all of them or, on an error, none."""
        self._acquire()
        try:
            if self.in_transaction:
                return self._one(cursor, sql, rows, many=True)
            self._one(sqlite3.Cursor(self), "BEGIN IMMEDIATE", ())
            try:
                self._one(cursor, sql, rows, many=True)
            except BaseException:
                if self.in_transaction:
                    self._one(sqlite3.Cursor(self), "ROLLBACK", ())
                raise
            self._end(sqlite3.Cursor(self))
            return cursor
        finally:
            self.lock.release()
            self._deliver()

    def run_script(self, cursor: Cursor, script: str) -> Cursor:
        """Execute a script statement by statement; as in sqlite3, an open transaction is
        committed first. Observers are told once, at its end."""
        self._acquire()
        try:
            if self.in_transaction:
                self._one(sqlite3.Cursor(self), "COMMIT", ())
            self._quiet += 1
            try:
                for statement in _statements(script):
                    self._one(cursor, statement, ())
            finally:
                self._quiet -= 1
                if not self.in_transaction and not self._depth:
                    self._boundary()
            return cursor
        finally:
            self.lock.release()
            self._deliver()

    def _end(self, cursor: sqlite3.Cursor) -> None:
        try:
            self._one(cursor, "COMMIT", ())
        except BaseException:
            if self.in_transaction:
                self._one(sqlite3.Cursor(self), "ROLLBACK", ())
            raise

    def _one(self, cursor: Any, sql: str, parameters: Any, *, many: bool = False) -> Any:
        ledger = self.ledger
        if ledger is None:
            return _execute(cursor, sql, parameters, many=many)
        was = self.in_transaction
        if not (was or self._depth) and ledger.pending():
            self._boundary()  # a write went past us through a bare sqlite3.Cursor
        outer, self._actions = self._actions, []
        known = self._statements.get(sql)
        if known is None and first_keyword(sql) in _DISTURBED_BY_TRIGGERS:
            ledger.make_way()
        mark, changes = ledger.mark(), self.total_changes
        self._depth += 1
        try:
            try:
                _execute(cursor, sql, parameters, many=many)
            except sqlite3.OperationalError:
                # A schema change of another process can break our triggers under this statement.
                if self.total_changes != changes or many or not ledger.repair():
                    raise
                self._actions = []
                _execute(cursor, sql, parameters, many=many)
        except BaseException:
            self._depth -= 1
            self._actions = outer
            if self.total_changes == changes:
                ledger.forget(mark)
            self._after_failure(ledger, was)
            raise
        self._depth -= 1
        actions, self._actions = self._actions, outer
        self._after(ledger, self._statement(sql, known, actions), was, mark)
        return cursor

    def _statement(self, sql: str, known: Statement | None, actions: list[tuple[Any, ...]]) -> Statement:
        if known is not None and not actions:
            return known
        if not actions:
            # Prepared before it was forgotten here: let the compiler say it once more.
            try:
                actions = self.explain(sql)[0]
            except sqlite3.Error:
                actions = []
        statement = read_actions(actions)
        if len(self._statements) >= _KNOWN_STATEMENTS:
            self._statements.clear()
        if not statement.disturbs_triggers:
            self._statements[sql] = statement
        return statement

    def _after(self, ledger: Ledger, statement: Statement, was: bool, mark: int) -> None:
        now = self.in_transaction
        if statement.matters:
            if statement.schema:
                ledger.schema_changed()
            if statement.savepoint is not None:
                ledger.savepoint(*statement.savepoint, mark)
            if statement.writes:
                ledger.wrote(statement)
        if statement.pragmas:
            ledger.pragma()
        if now:
            if not was:
                self._own()
            return
        if was:
            self._disown()
            if statement.transaction == "ROLLBACK":
                ledger.rolled_back()
                return
        if not self._depth:
            self._boundary()

    def _after_failure(self, ledger: Ledger, was: bool) -> None:
        now = self.in_transaction
        if was and not now:
            self._disown()
            ledger.rolled_back()
        elif now and not was:
            self._own()
        elif not now and not self._depth:
            self._boundary()  # INSERT OR FAIL raises and keeps its earlier rows

    def _boundary(self) -> None:
        if not self._quiet and self.ledger is not None and self.ledger.pending():
            self.ledger.committed()

    def _replaced(self) -> None:
        if self.ledger is not None:
            self._statements.clear()
            self.ledger.schema_changed()
            self._boundary()

    def _deliver(self) -> None:
        if self.ledger is not None and not self._depth:
            self.ledger.deliver()

    # -- the lock ------------------------------------------------------------------------------

    def _acquire(self) -> None:
        if not self.lock.acquire(timeout=self.busy_timeout):
            raise sqlite3.OperationalError("database is locked")
        if self.closed:
            self.lock.release()
            self._check_open()

    def exclusive(self) -> _Exclusive:
        """Hold the lock for a `with` block, waiting no longer than the busy timeout."""
        return _Exclusive(self)

    def _own(self) -> None:
        if not self._owned:
            self._owned = True
            self.lock.acquire()

    def _disown(self) -> None:
        if self._owned:
            self._owned = False
            self.lock.release()

    def _check_open(self) -> None:
        if self.closed:
            raise DatabaseClosed("the database is closed")

    def _authorize(self, *action: Any) -> int:
        self._actions.append(action)
        if self._denied is not None and action[0] in self._denied:
            return 1  # SQLITE_DENY
        if self._user_authorizer is not None:
            return self._user_authorizer(*action)
        return 0


class _Exclusive:
    """Hold the connection's lock, waiting no longer than its busy timeout."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        if not self._connection.lock.acquire(timeout=self._connection.busy_timeout):
            raise sqlite3.OperationalError("database is locked")

    def __exit__(self, *_: object) -> None:
        self._connection.lock.release()


def _execute(cursor: Any, sql: str, parameters: Any, *, many: bool) -> Any:
    if many:
        sqlite3.Cursor.executemany(cursor, sql, parameters)
    else:
        sqlite3.Cursor.execute(cursor, sql, parameters)
    if isinstance(cursor, Cursor):
        cursor._rows = (  # pyright: ignore[reportPrivateUsage]
            None if cursor.description is None else iter(sqlite3.Cursor.fetchall(cursor))
        )
    return cursor


def _statements(script: str) -> Iterator[str]:
    start, at = 0, script.find(";")
    while at >= 0:
        if sqlite3.complete_statement(script[start : at + 1]):
            yield script[start : at + 1]
            start = at + 1
        at = script.find(";", at + 1)
    rest = script[start:]
    if first_keyword(rest):
        yield rest
