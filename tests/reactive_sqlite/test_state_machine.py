"""After random writes by random routes, each observed query has said what the database holds."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlite_utils
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from reactive_sqlite import Database, NotReady, ObservableQuery, sqlite3
from reactive_sqlite.signals.effect import create_effect
from reactive_sqlite.signals.owner import create_root
from tests.reactive_sqlite.random_writes import (
    DEFINITIONS,
    PIECES,
    QUERIES,
    REPEATED,
    SETUP,
    TABLES,
    WRITES,
    Write,
)

# What a fetch by the plain connection gives when the query does not compile now.
BROKEN = "broken"
GONE = "the transaction of this block has been rolled back: nothing more can be done in it"
# The default hundred would take longer than the rest of the tests together.
EXAMPLES = settings().max_examples // 4

Outcome = tuple[Any, ...]


class OwnCursor(sqlite3.Cursor):
    """A cursor class of the user's own."""


class Followed:
    """One subscription: every emission is compared with what is committed at that very moment."""

    def __init__(
        self, query: ObservableQuery[Any], fresh: Callable[[], str], problems: list[str]
    ) -> None:
        self.query = query
        self.fresh = fresh
        self.problems = problems
        self.last: str | None = None
        self.ended = False
        self.subscription = query.subscribe(self.on_next, self.on_error)

    def on_next(self, value: Any) -> None:
        said, committed = repr(value), self.fresh()
        if said != committed:
            self.problems.append(f"{self.query} emitted {said}, committed was {committed}")
        if said == self.last:
            self.problems.append(f"{self.query} emitted {said} twice in a row")
        self.last = said

    def on_error(self, error: Exception) -> None:
        if self.last is None and self.fresh() == BROKEN:
            self.ended = True  # its first fetch, after a transaction, has failed
            return
        self.problems.append(f"{self.query} raised or ended: {error!r}")


class ObservedDatabase(RuleBasedStateMachine):
    """An observed database beside a plain one that is told the same, and a plain second reader."""

    tracked: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.problems: list[str] = []
        self.followed: list[Followed] = []
        self.waiting: list[Followed] = []
        self.tuples: list[str] = []
        self.effects: list[str] = []
        self.dispose: Callable[[], None] = lambda: None

    def teardown(self) -> None:
        self.dispose()
        self.db.close()
        self.twin.close()
        self.other.close()
        self.other_twin.close()
        shutil.rmtree(self.folder)

    def observer_failed(self, error: BaseException) -> None:
        if not isinstance(error, sqlite3.Error):
            self.problems.append(f"an observer failed: {error!r}")

    @property
    def inside(self) -> bool:
        return self.db.conn.in_transaction

    # -- what is observed ----------------------------------------------------------------------

    @initialize(
        pieces=st.sets(st.sampled_from(PIECES), max_size=4),
        queries=st.lists(st.sampled_from(QUERIES), min_size=1, max_size=5),
        journal=st.sampled_from(["WAL", "DELETE"]),
    )
    def begin(
        self, pieces: set[tuple[str, str]], queries: list[tuple[str, Any]], journal: str
    ) -> None:
        path, twin = self.folder / "random.db", self.folder / "twin.db"
        self.other = plain(path)
        self.other.execute(f"PRAGMA journal_mode = {journal}")
        # The twin is asked whether a statement may fail, and what it returns.
        self.twin, self.other_twin = plain(twin), plain(twin)
        self.twin.execute("PRAGMA journal_mode = WAL")
        self.db = Database(path, watch=False, on_observer_error=self.observer_failed)
        self.both(lambda db: run_script(db, SETUP))
        for table in self.tracked:
            self.db[table].track()
        self.idle = [(self.db.observe(*query), query) for query in QUERIES[:3]]
        for make, _ in sorted(pieces):
            self.define(Write(make, ()), "cursor")
        for sql, params in queries:
            self.observe((sql, params))
        self.observe_together()

    def observe_together(self) -> None:
        names = self.db.observe("SELECT name FROM grps")
        count = self.db.observe_value("SELECT count(*) FROM grps")

        def say(told: list[str], rows: Any, number: Any) -> None:
            said = repr((rows, number))
            committed = repr(
                (
                    list(self.other.query("SELECT name FROM grps")),
                    self.other.execute("SELECT count(*) FROM grps").fetchone()[0],
                )
            )
            if said != committed:
                self.problems.append(f"together {said}, committed was {committed}")
            told.append(said)

        def root(dispose: Callable[[], None]) -> None:
            self.dispose = dispose
            create_effect(lambda: say(self.effects, names(), count()))

        create_root(root)
        self.db.observe_many(names, count).subscribe(lambda pair: say(self.tuples, *pair))

    @rule(chosen=st.sampled_from(QUERIES))
    def observe(self, chosen: tuple[str, Any]) -> None:
        sql, params = chosen
        self.follow(self.db.observe(sql, params), lambda: self.fetched(sql, params))

    @rule(where=st.sampled_from([{"id": 1}, {"grp": "g"}, {"qty": 1, "grp": "h"}, {"grp": None}]))
    def observe_where(self, where: dict[str, Any]) -> None:
        tests = " AND ".join(
            f"{c} IS :{c}" if v is None else f"{c} = :{c}" for c, v in where.items()
        )
        self.follow(
            self.db["items"].observe(where, order_by="id"),
            lambda: self.fetched(f"SELECT * FROM items WHERE {tests} ORDER BY id", where),
        )

    @rule(table=st.sampled_from(["items", "grps"]), key=st.sampled_from([1, 2, "g"]))
    def observe_row(self, table: str, key: Any) -> None:
        column = "id" if table == "items" else "name"
        sql = f"SELECT * FROM {table} WHERE {column} = ?"
        self.follow(
            self.db[table].observe_row(key),
            lambda: repr(next(iter(self.other.query(sql, [key])), None)),
        )

    @rule(
        chosen=st.sampled_from(
            [
                ("items", "qty", {"id": 1}),
                ("items", "name", {"id": 2}),
                ("grps", "note", {"name": "g"}),
                ("pairs", "c", {"a": "p", "b": 1}),
                ("log", "item", {"n": 1}),
            ]
        )
    )
    def observe_column(self, chosen: tuple[str, str, dict[str, Any]]) -> None:
        table, column, where = chosen
        sql = f"SELECT {table}.{column} FROM {table} WHERE "
        sql += " AND ".join(f"{name} = :{name}" for name in where)

        def fresh() -> str:
            try:
                row = self.other.execute(sql, where).fetchone()
            except sqlite3.Error as error:
                return repr(None) if str(error).startswith("no such table") else BROKEN
            return repr(None if row is None else row[0])

        self.follow(self.db.table(table).observe_column(column, where), fresh)

    def follow(self, query: ObservableQuery[Any], fresh: Callable[[], str]) -> None:
        if not self.inside and fresh() == BROKEN:
            return
        followed = Followed(query, fresh, self.problems)
        if self.inside:
            self.waiting.append(followed)
        self.followed.append(followed)

    @precondition(lambda self: self.followed)
    @rule(which=st.integers(0, 20))
    def stop(self, which: int) -> None:
        followed = self.followed.pop(which % len(self.followed))
        followed.subscription.dispose()

    # -- what is written -----------------------------------------------------------------------

    @rule(write=WRITES, route=st.sampled_from(["db", "connection", "cursor", "own", "bare"]))
    def write(self, write: Write, route: str) -> None:
        self.both(lambda db: run(db, write, route))

    @rule(writes=REPEATED)
    def repeat(self, writes: list[Write]) -> None:
        for write in writes:
            self.both(partial(run, write=write, route="db"))

    @rule(write=DEFINITIONS, route=st.sampled_from(["db", "connection", "cursor"]))
    def define(self, write: Write, route: str) -> None:
        self.both(lambda db: run(db, write, route))

    @rule(writes=st.lists(WRITES | DEFINITIONS, min_size=1, max_size=4))
    def script(self, writes: list[Write]) -> None:
        text = ";\n-- ;'\n".join(write.inlined for write in writes)
        self.both(lambda db: run_script(db, text))

    @rule(write=WRITES, more=st.integers(1, 2))
    def many(self, write: Write, more: int) -> None:
        def call(db: Any) -> Any:
            if db is self.twin and not db.conn.in_transaction:
                with db.atomic():
                    return db.conn.executemany(write.sql, [write.values] * more).rowcount
            return db.conn.executemany(write.sql, [write.values] * more).rowcount

        if not write.sql.startswith("SELECT") and "RETURNING" not in write.sql:
            self.both(call)

    @precondition(lambda self: not self.inside)
    @rule(
        row=st.fixed_dictionaries({"id": st.integers(1, 3), "qty": st.sampled_from([1, 2, "1"])}),
        how=st.sampled_from(["insert", "replace", "ignore", "upsert", "update", "delete", "where"]),
    )
    def sqlite_utils(self, row: dict[str, Any], how: str) -> None:
        def call(db: Any) -> None:
            items = db["items"]
            if how == "upsert":
                items.upsert(row, pk="id")
            elif how == "update":
                items.update(row["id"], {"qty": row["qty"]})
            elif how == "delete":
                items.delete(row["id"])
            elif how == "where":
                items.delete_where("id = ?", [row["id"]])
            else:
                items.insert(row, pk="id", replace=how == "replace", ignore=how == "ignore")

        self.both(call)

    @precondition(lambda self: not self.inside)
    @rule(
        writes=st.lists(WRITES, max_size=3),
        inner=st.lists(WRITES, max_size=2),
        fails=st.booleans(),
        inner_fails=st.booleans(),
        how=st.sampled_from(["transaction", "with"]),
    )
    def block(
        self, writes: list[Write], inner: list[Write], fails: bool, inner_fails: bool, how: str
    ) -> None:
        def call(db: Any) -> None:
            with in_block(db) if how == "with" else db.atomic():
                for write in writes:
                    attempt(run_whole, db, write)
                attempt(nested, db)
                if fails:
                    raise InterruptedError
                refuse_what_is_gone(db)

        def nested(db: Any) -> None:
            refuse_what_is_gone(db)
            with db.atomic():
                for write in inner:
                    attempt(run_whole, db, write)
                if inner_fails:
                    raise InterruptedError

        self.both(call)

    @precondition(lambda self: not self.inside)
    @rule(writes=st.lists(WRITES | DEFINITIONS, min_size=1, max_size=3), together=st.booleans())
    def elsewhere(self, writes: list[Write], together: bool) -> None:
        def call(db: Any) -> list[Any]:
            # Not every error of a statement makes SQLite look for a newer schema.
            db.execute("SELECT count(*) FROM sqlite_master").fetchall()
            if together:
                db.execute("BEGIN")
            outcomes = [outcome(run, db, write, "db") for write in writes]
            if db.conn.in_transaction:
                attempt(db.execute, "COMMIT")
            if db.conn.in_transaction:
                db.execute("ROLLBACK")
            return outcomes

        mine, theirs = call(self.other), call(self.other_twin)
        assert mine == theirs, f"the observed file lets others write as any: {mine} {theirs}"
        self.db.broker.check()

    # -- textual transactions ------------------------------------------------------------------

    @rule(
        text=st.sampled_from([
            "BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT s", "SAVEPOINT t", "ROLLBACK TO s", "RELEASE s",
            "RELEASE t", "ROLLBACK", "COMMIT", "COMMIT",
        ]),
        route=st.sampled_from(["db", "connection", "cursor"]),
    )  # fmt: skip
    def bracket(self, text: str, route: str) -> None:
        self.both(lambda db: run(db, Write(text, ()), route))

    @precondition(lambda self: self.inside)
    @rule(commits=st.booleans())
    def finish(self, commits: bool) -> None:
        self.both(lambda db: db.conn.commit() if commits else db.conn.rollback())

    # -- what must hold ------------------------------------------------------------------------

    @invariant()
    def nothing_went_wrong(self) -> None:
        assert not self.problems, self.problems

    @invariant()
    def an_open_transaction_is_silent(self) -> None:
        if not self.inside:
            return
        for followed in self.waiting:
            assert followed.last is None, "the first emission waits for the end of the transaction"
        for followed in self.followed:
            try:
                now = repr(followed.query.peek())
            except (NotReady, sqlite3.Error):
                continue
            assert followed.fresh() in (now, BROKEN), "an accessor gives the last committed value"

    @invariant()
    def the_last_emission_is_the_database(self) -> None:
        if self.inside:
            return
        self.waiting.clear()
        self.followed = [followed for followed in self.followed if not followed.ended]
        for followed in self.followed:
            committed = followed.fresh()
            if committed == BROKEN:
                continue
            assert followed.last == committed, f"{followed.query} lags behind"
            assert repr(followed.query.peek()) == committed, f"{followed.query}'s accessor lags"
        for query, (sql, params) in self.idle:
            committed = self.fetched(sql, params)
            if committed != BROKEN:
                assert repr(query.peek()) == committed, f"{query}, which is idle, lags behind"
        pair = repr(
            (
                list(self.other.query("SELECT name FROM grps")),
                self.other.execute("SELECT count(*) FROM grps").fetchone()[0],
            )
        )
        assert self.tuples[-1:] in ([], [pair]), "observe_many lags behind"
        assert self.effects[-1:] in ([], [pair]), "the effect lags behind"

    @invariant()
    def the_twin_holds_the_same(self) -> None:
        for table in TABLES:
            sql = f"SELECT * FROM {table}"
            mine, theirs = outcome(rows, self.db, sql), outcome(rows, self.twin, sql)
            assert mine == theirs, f"{table} is not what a plain connection would have made"

    def fetched(self, sql: str, params: Any) -> str:
        try:
            return repr(list(self.other.query(sql, params)))
        except sqlite3.Error:
            return BROKEN

    def both(self, call: Callable[[Any], Any]) -> None:
        mine, theirs = outcome(call, self.db), outcome(call, self.twin)
        assert mine == theirs, f"a statement ends as with a plain connection: {mine} {theirs}"
        assert self.inside == self.twin.conn.in_transaction


class TrackedDatabase(ObservedDatabase):
    """The same with a change log: what others write re-runs only what it can touch."""

    tracked = TABLES


def plain(path: Any) -> Any:
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = OFF")
    return sqlite_utils.Database(connection)


@contextlib.contextmanager
def in_block(db: Any) -> Generator[None]:
    """`with db.conn`, which plain sqlite3 does not begin by itself, nor every version undo."""
    if isinstance(db, Database):
        with db.conn:
            yield
        return
    db.execute("BEGIN")
    try:
        yield
        db.conn.commit()
    except BaseException:
        db.conn.rollback()
        raise


def run_whole(db: Any, write: Write) -> None:
    """Run a write of a block, unless its transaction has been rolled back as a whole."""
    refuse_what_is_gone(db)
    run(db, write, "db")


def refuse_what_is_gone(db: Any) -> None:
    """Refuse, as `Database` does by itself, to go on in a block whose transaction has ended."""
    if not isinstance(db, Database) and not db.conn.in_transaction:
        raise sqlite3.OperationalError(GONE)


def run_script(db: Any, script: str) -> None:
    db.conn.executescript(script)


def run(db: Any, write: Write, route: str) -> Outcome:
    if route == "db":
        return result(db.execute(write.sql, write.values), write.sql)
    if route == "connection":
        return result(db.conn.execute(write.sql, write.values), write.sql)
    if route == "own":
        return cursor_run(db.conn.cursor(OwnCursor), write)
    if route == "bare":
        try:
            return cursor_run(sqlite3.Cursor(db.conn), write)
        finally:
            db.conn.execute("SELECT 1")
    return cursor_run(db.conn.cursor(), write)


def cursor_run(cursor: Any, write: Write) -> Outcome:
    return result(cursor.execute(write.sql, write.values), write.sql)


def result(cursor: Any, sql: str) -> Outcome:
    rows, described = repr(cursor.fetchall()), cursor.description
    if described is not None:
        # A cursor that fetches its rows at once knows the row count of RETURNING earlier.
        return rows, described
    # After anything else SQLite gives the rowid of some earlier insert, even of one that failed.
    inserts = cursor.rowcount > 0 and sql.startswith(("INSERT", "REPLACE"))
    inserts = inserts and "ON CONFLICT" not in sql and "grps" not in sql  # which has no rowids
    return cursor.rowcount, cursor.lastrowid if inserts else None


def rows(db: Any, sql: str) -> str:
    return repr(list(db.query(sql)))


def attempt(call: Callable[..., Any], *args: Any) -> None:
    with contextlib.suppress(sqlite3.Error, InterruptedError):
        call(*args)


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    try:
        return call(*args)
    except (sqlite3.Error, InterruptedError, sqlite_utils.db.NotFoundError) as error:
        return type(error), str(error)


TestObservedDatabase = ObservedDatabase.TestCase
TestObservedDatabase.settings = settings(max_examples=EXAMPLES, stateful_step_count=30)
TestTrackedDatabase = TrackedDatabase.TestCase
TestTrackedDatabase.settings = settings(max_examples=EXAMPLES, stateful_step_count=30)


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("machine", [ObservedDatabase, TrackedDatabase])
def test_a_database_is_the_plain_ones_at_length(machine: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=300, stateful_step_count=30))
