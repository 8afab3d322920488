"""The sqlite3 connection that sees every statement and every end of a transaction.

Python's module has no commit or update hooks. This connection therefore runs every statement
itself: under one lock, with the rows buffered, and under a permanent authorizer that records what
the compiler says of each statement. What it learns goes to a `Ledger`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal

from reactive_sqlite.authorizer import Authorizer
from reactive_sqlite.blob import Blob
from reactive_sqlite.cursor import Cursor
from reactive_sqlite.dialect import LIMITS, noted, sqlite3
from reactive_sqlite.grouping import Grouping
from reactive_sqlite.ledger import Ledger
from reactive_sqlite.region import TableName
from reactive_sqlite.shared import SharedConnection, is_in_transaction
from reactive_sqlite.statement import Action, Compiled, Statement, read_actions
from reactive_sqlite.tokens import first_keyword

# Of a value that is read at once, without another thread: so much takes a fraction of a ms.
AT_ONCE_BYTES = 100_000

# More texts than Python's own statement cache keeps prepared, so that a cached statement, for
# which the authorizer stays silent, is nearly always known here.
_KNOWN_STATEMENTS = 4096
_DISTURBED_BY_TRIGGERS = frozenset({"ALTER", "DETACH"})
_COMMITTING = frozenset({"COMMIT", "END"})
_INNER = "_reactive_sqlite_with"

# The attributes in C, which the properties below cover.
_text_factory: Any = vars(sqlite3.Connection)["text_factory"]
_cursor: Callable[..., Any] = sqlite3.Connection.cursor


class Connection(SharedConnection):
    """A shared connection that tells its ledger what it runs; to its users, one of sqlite3."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ledger: Ledger | None = None
        self.read_only = False
        self.immutable = False  # a file that nobody can write to
        self.memory = False  # no file at all
        self.wal = False  # nobody who writes makes readers wait
        self.plain_text = True
        self._quiet = 0  # inside a script: its commits are told at its end
        self._explained = 0
        self._spare: sqlite3.Cursor | None = None
        self._statements: dict[str, Statement] = {}
        self._authorizer = Authorizer()
        super().set_authorizer(self._authorizer)

    # -- as its users know it --------------------------------------------------------------------

    def cursor(self, factory: Any = None, /) -> Any:
        self._check_open()
        if factory is None:
            return super().cursor(Cursor)
        kind: type[Any] = factory if isinstance(factory, type) else object
        if not issubclass(kind, sqlite3.Cursor):
            raise TypeError("the factory of a cursor must be a class derived from sqlite3.Cursor")
        if not issubclass(kind, Cursor):
            # Rows and commits of a foreign class would pass us by: mix our methods in below it.
            mixed: Any = type(kind.__name__, (kind, Cursor), {})  # pyright: ignore
            return super().cursor(mixed)
        return super().cursor(kind)

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        if self.closed:
            self._check_open()
        cursor = _cursor(self, Cursor)
        self.run(cursor, sql, parameters)
        return cursor

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
        return self.cursor().executemany(sql, parameters)

    def executescript(self, sql_script: str, /) -> Any:
        return self.cursor().executescript(sql_script)

    def commit(self) -> None:
        self._check_open()
        if self.owned_here():
            self.execute("COMMIT")

    def rollback(self) -> None:
        self._check_open()
        if self.owned_here() and not self.broken:
            self.execute("ROLLBACK")

    def __enter__(self) -> Connection:
        self._check_open()
        # In autocommit mode nothing would begin a transaction for `with connection:` to end.
        if not self.owned_here():
            self.begin(sealed=False)
        elif self._grouping is not None and self._grouping.sealed:
            self.execute(f"SAVEPOINT {_INNER}")
            self._grouping.inner += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> Literal[False]:
        self._check_open()
        if not self.owned_here():
            return False
        grouping = self._grouping
        if grouping is not None and grouping.sealed:
            self._leave_inner(grouping, failed=kind is not None)
        elif kind is not None:
            self.abort()
        else:
            try:
                self.complete()
            except BaseException:
                self.abort()
                raise
        return False

    def set_authorizer(self, authorizer_callback: Callable[..., int] | None) -> None:
        """Ask the callback as well; the connection's own recording goes on."""
        self._authorizer.user = authorizer_callback
        self._statements.clear()
        super().set_authorizer(self._authorizer)  # SQLite prepares every statement anew

    def blobopen(
        self,
        table: str,
        column: str,
        row: int,
        /,
        *,
        readonly: bool = False,
        name: str = "main",
    ) -> Any:
        """Open a blob; while a writable one is open, other threads wait as for a transaction."""
        self._acquire()
        try:
            blob = super().blobopen(table, column, row, readonly=readonly, name=name)
            if readonly:
                return blob
            self.turn.own()
            return Blob(blob, lambda wrote: self._blob_closed((name.lower(), table.lower()), wrote))
        finally:
            self.turn.release()

    def deserialize(self, *args: Any, **kwargs: Any) -> None:
        with self.exclusive():
            super().deserialize(*args, **kwargs)
            if self.ledger is not None:
                self._statements.clear()
                self.ledger.schema_changed()
                self._boundary()
        self._deliver()

    def close(self) -> None:
        """Close the connection; an open transaction of this thread is rolled back."""
        with self.exclusive():
            if self.closed:
                return
            self._spare = None
            # The collector sees no callbacks of pysqlite3, nor what they hold: the user's.
            super().set_authorizer(None)
            super().close()

    # -- for the rooms above ---------------------------------------------------------------------

    def begin(self, *, sealed: bool) -> None:
        """Begin the transaction of a `with` block; only its end may commit where it is sealed."""
        self.execute("BEGIN" if self.read_only else "BEGIN IMMEDIATE")
        self._grouping = Grouping(sealed=sealed)

    def complete(self) -> None:
        """Commit the transaction of a `with` block, at its end.

        Raises OperationalError where it has been rolled back before.
        """
        if self.turn.is_mine():
            if self._grouping is not None and self._grouping.ended is not None:
                raise self._grouping.error()
            self._grouping = None
        self.execute("COMMIT")

    def abort(self) -> None:
        """Roll the transaction of a `with` block back, at its end."""
        if not self.owned_here():
            return
        grouping = self._grouping
        if grouping is None or grouping.ended is None:
            self._grouping = None
            self.execute("ROLLBACK")
            return
        with self.exclusive():
            self._grouping = None
            self.turn.disown()
            grouping.ended()
        self._deliver()

    @property
    def text_factory(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What makes values of SQLite's texts, as in sqlite3; our own queries always get str."""
        return _text_factory.__get__(self)

    @text_factory.setter
    def text_factory(self, factory: Any) -> None:  # pyright: ignore
        _text_factory.__set__(self, factory)
        self.plain_text = factory is str

    def raw(self, sql: str, parameters: Any = ()) -> list[Any]:
        """Run a statement of our own, unnoticed, and return its rows as tuples."""
        if self.plain_text:
            return self.fetch(sql, parameters, ())[0]
        with self._own_texts():
            return self.fetch(sql, parameters, ())[0]

    @contextmanager
    def _own_texts(self, own: Callable[[bytes], str] = str) -> Generator[None, None, None]:
        factory = self.text_factory
        _text_factory.__set__(self, own)
        try:
            yield
        finally:
            _text_factory.__set__(self, factory)

    def fetch(
        self, sql: str, parameters: Any, columns: tuple[str, ...] | None
    ) -> tuple[list[Any], tuple[str, ...]]:
        """Run a query unnoticed and return its rows and the names of its columns, which are not
        looked at again where they are given."""
        authorizer = self._authorizer
        outer, authorizer.actions = authorizer.actions, []
        # One cursor over and over: sqlite3 keeps a reference to each that was ever made. A query
        # that runs inside another (by a Python function called from SQL) gets one of its own.
        cursor, self._spare = self._spare or sqlite3.Cursor(self), None
        try:
            rows = cursor.execute(sql, parameters).fetchall()
            if columns is None:
                columns = tuple([described[0] for described in cursor.description or ()])
            return rows, columns
        finally:
            authorizer.actions, self._spare = outer, cursor

    def at_once(self, sql: str, parameters: Any) -> list[Any] | None:
        """Run a query of our own, unnoticed, if it has to wait for nobody and moves little.

        None where another thread is at the connection, writers of the file make readers wait, a
        value is longer than `AT_ONCE_BYTES` or no such limit can be set, or there is an error: ask
        in an ordinary way then.
        """
        turn = self.turn
        if not LIMITS or not (self.wal or self.memory):
            return None
        if turn.owner or not turn.try_acquire():
            return None
        try:
            if self.closed:
                return None
            longest = self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, AT_ONCE_BYTES)
            try:
                return self.raw(sql, parameters)
            finally:
                self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
        except sqlite3.Error:
            return None
        finally:
            turn.release()

    def look_at_journal(self) -> None:
        """Learn whether readers wait for writers; nobody else can change that meanwhile."""
        try:
            self.wal = self.raw("PRAGMA main.journal_mode")[0][0] == "wal"
        except sqlite3.Error:
            self.wal = False

    def explain(
        self, sql: str, parameters: Any = (), *, deny: frozenset[int] = frozenset()
    ) -> Compiled:
        """Compile a statement and return what the compiler said, without running it.

        Actions with a code in `deny` are forbidden, since some statements act as they are
        compiled (PRAGMA). A statement that does not compile gives its error, not an exception.
        """
        with self.exclusive(), self._own_texts(_legible):
            authorizer = self._authorizer
            outer, authorizer.actions = authorizer.actions, []
            authorizer.denied = deny
            try:
                # A text of its own each time: for one in Python's cache the compiler stays silent.
                self._explained += 1
                text = f"EXPLAIN /*{self._explained}*/ {sql}"
                cursor = super().cursor(sqlite3.Cursor)
                cursor.row_factory = None
                program = cursor.execute(text, parameters).fetchall()
                return Compiled(authorizer.actions, program, None)
            except (sqlite3.Error, sqlite3.Warning) as error:
                return Compiled(authorizer.actions, [], error)
            finally:
                authorizer.actions, authorizer.denied = outer, frozenset()

    # -- running, for the cursor -----------------------------------------------------------------

    def run(self, cursor: Cursor, sql: str, parameters: Any) -> None:
        """Execute one statement on the cursor."""
        turn, ledger = self.turn, self.ledger
        # Nearly always it is free, and nobody is inside a transaction.
        if not turn.acquire_now(False):
            self._acquire()
        elif turn.owner or self.closed:
            turn.release()
            self._acquire()
        try:
            known = self._statements.get(sql) if sql.__class__ is str else None
            if (
                known is None
                or not known.plain
                or ledger is None
                or self._depth
                or self._quiet
                or is_in_transaction(self)
                or ledger.pending()
            ):
                self._one(cursor, sql, parameters)
            else:
                self._alone(cursor, sql, parameters, known, ledger)
        except BaseException:
            self._keep_account()
            raise
        finally:
            try:
                if turn.owner < 0:
                    turn.wake()
            finally:
                turn.release_now()
            if ledger is not None and not self._depth and not self.broken:
                ledger.deliver()

    def run_many(self, cursor: Cursor, sql: str, rows: Iterable[Any]) -> None:
        """Execute one statement for each row of parameters: all of them or, on an error, none."""
        self._acquire()
        try:
            if is_in_transaction(self):
                self._one(cursor, sql, rows, many=True)
                return
            self._own_statement("BEGIN IMMEDIATE")
            try:
                self._one(cursor, sql, rows, many=True)
                self._own_statement("COMMIT")
            except BaseException:
                if is_in_transaction(self):
                    self._own_statement("ROLLBACK")
                raise
        finally:
            self.turn.release()
            self._deliver()

    def run_script(self, cursor: Cursor, script: str) -> None:
        """Execute a script statement by statement; as in sqlite3, an open transaction is committed
        first. Observers are told once, at its end."""
        self._acquire()
        try:
            if is_in_transaction(self):
                self._own_statement("COMMIT")  # refused where a block is to be whole
            self._quiet += 1
            try:
                for statement in _statements(script):
                    self._one(cursor, statement, ())
            finally:
                self._quiet -= 1
                if not (is_in_transaction(self) or self._depth):
                    self._boundary()
        finally:
            self.turn.release()
            self._deliver()

    def _own_statement(self, sql: str) -> None:
        self._one(super().cursor(Cursor), sql, ())

    def _one(self, cursor: Cursor, sql: str, parameters: Any, *, many: bool = False) -> None:
        ledger = self.ledger
        if ledger is None or not isinstance(sql, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            cursor.run_now(sql, parameters, many=many)
            return
        was = is_in_transaction(self)
        if not (was or self._depth):
            ledger.begins()
            if ledger.pending():
                self._boundary()  # a write went past us, through a bare sqlite3.Cursor
        known = self._statements.get(sql)
        if known is None and first_keyword(sql) in _DISTURBED_BY_TRIGGERS:
            ledger.make_way()
        if self._grouping is not None and self._grouping.sealed and _commits(sql, known):
            raise sqlite3.OperationalError("only its end can commit the transaction of this block")
        authorizer = self._authorizer
        outer, authorizer.actions = authorizer.actions, []
        mark, changes = ledger.mark(), self.total_changes
        self._depth += 1
        try:
            try:
                cursor.run_now(sql, parameters, many=many)
            except sqlite3.OperationalError as error:
                # A schema change of another process can break our triggers under this statement.
                # Inside a transaction, what it did until it failed may stand.
                stands = (was or is_in_transaction(self)) and self.total_changes != changes
                if many or stands or not ledger.repair(error):
                    raise
                authorizer.actions = []
                cursor.run_now(sql, parameters, many=many)
        except BaseException as error:
            self._depth -= 1
            authorizer.actions = outer
            self._failed(error, sql, ledger, mark, changes, was=was)
            raise
        self._depth -= 1
        actions, authorizer.actions = authorizer.actions, outer
        if known is None or actions:
            known = self._learn(sql, actions)
        self._after(ledger, known, mark, was=was)

    def _alone(
        self, cursor: Cursor, sql: str, parameters: Any, known: Statement, ledger: Ledger
    ) -> None:
        """Do what `_one` does, for the case that is nearly every one: a known statement that
        touches rows alone, outside a transaction, while nothing waits for the end of one."""
        if self.memory:
            ledger.begins()
            if ledger.pending():
                self._boundary()
        authorizer = self._authorizer
        authorizer.actions = []
        changes = self.total_changes
        self._depth = 1
        try:
            try:
                cursor.run_now(sql, parameters)
            except sqlite3.OperationalError as error:
                if is_in_transaction(self) or not ledger.repair(error):
                    raise
                authorizer.actions = []
                cursor.run_now(sql, parameters)
        except BaseException as error:
            self._depth = 0
            self._failed(error, sql, ledger, 0, changes, was=False)
            raise
        self._depth = 0
        if authorizer.actions or is_in_transaction(self):
            if authorizer.actions:
                known = self._learn(sql, authorizer.actions)
            self._after(ledger, known, 0, was=False)
        elif known.writes:
            ledger.committed_alone(known)
        elif ledger.pending():
            ledger.committed()

    def _failed(
        self,
        error: BaseException,
        sql: str,
        ledger: Ledger,
        mark: int,
        changes: int,
        *,
        was: bool,
    ) -> None:
        if isinstance(error, sqlite3.Error):
            noted(error, sql)
        if self.total_changes == changes:
            ledger.forget(mark)
        self._after_failure(error, ledger, was=was)

    def _learn(self, sql: str, actions: list[Action]) -> Statement:
        if not actions:
            # Prepared long ago and forgotten here: let the compiler say it once more.
            actions = self.explain(sql).actions
        statement = read_actions(actions)
        if len(self._statements) >= _KNOWN_STATEMENTS:
            self._statements.clear()
        if not statement.disturbs_triggers:
            self._statements[sql] = statement
        return statement

    def _after(self, ledger: Ledger, statement: Statement, mark: int, *, was: bool) -> None:
        if statement.matters:
            if statement.schema:
                ledger.schema_changed()
            if statement.savepoint is not None:
                ledger.savepoint(*statement.savepoint, mark)
            if statement.writes:
                ledger.wrote(statement)
            if statement.pragmas:
                self.look_at_journal()
                ledger.pragma()
        if is_in_transaction(self):
            self.turn.own()
            return
        if was:
            if self._grouping is not None and self._grouping.sealed:
                self._grouping.end(ledger.rolled_back)
                return
            self._grouping = None
            self.turn.disown()
            if statement.transaction == "ROLLBACK":
                ledger.rolled_back()
                return
        if not self._depth:
            self._boundary()

    def _after_failure(self, error: BaseException, ledger: Ledger, *, was: bool) -> None:
        if is_in_transaction(self):
            self.turn.own()
        elif was and self._grouping is not None:
            self._grouping.end(ledger.rolled_back, error)
        elif was:
            self.turn.disown()
            ledger.rolled_back()
        elif not self._depth:
            self._boundary()  # INSERT OR FAIL raises and keeps its earlier rows

    def _take_over(self) -> None:
        super()._take_over()
        if self.ledger is not None:
            self.ledger.rolled_back()

    def _boundary(self) -> None:
        if not self._quiet and self.ledger is not None and self.ledger.pending():
            self.ledger.committed()

    def _deliver(self) -> None:
        if self.ledger is not None and not self._depth and not self.broken:
            self.ledger.deliver()

    def _blob_closed(self, table: TableName, wrote: bool) -> None:
        with self.exclusive():
            if wrote and self.ledger is not None:
                self.ledger.wrote_table(table)
            if not (is_in_transaction(self) or self.broken):
                self.turn.disown()
                if not self._depth:
                    self._boundary()
        self._deliver()

    def _leave_inner(self, grouping: Grouping, *, failed: bool) -> None:
        if not grouping.inner or self.broken:
            return
        grouping.inner -= 1
        if failed:
            self.execute(f"ROLLBACK TO {_INNER}")
        self.execute(f"RELEASE {_INNER}")


def _legible(text: bytes) -> str:
    # A program has the statement's blobs among its texts, such as the x'ff' of a query.
    return text.decode(errors="replace")


def _commits(sql: str, known: Statement | None) -> bool:
    if known is not None:
        return known.transaction == "COMMIT"
    return first_keyword(sql) in _COMMITTING


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
