"""A query for one row is answered from the captured row, and always as a fetch would answer it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reactive_sqlite import Database, ObservableQuery, create_effect, create_root, sqlite3

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, i INTEGER, r REAL, n NUMERIC, s TEXT, b BLOB, x)"
UPSERT = "INSERT INTO t (id, {0}) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET {0} = excluded.{0}"

Statement = tuple[str, tuple[Any, ...]]

COLUMNS = st.sampled_from("irnsbx")
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0, 1, 2**53 + 1]),
    st.floats(),
    st.sampled_from([1.0, -0.0, 9e18, -9.3e18]),
    st.text(max_size=3),
    st.sampled_from(["1", "1.0", " 1", "1e3", "a\0b", "é", "blob"]),
    st.binary(max_size=3),
)
STATEMENTS = st.one_of(
    st.tuples(COLUMNS.map(UPSERT.format), st.tuples(st.integers(1, 2), VALUES)),
    st.tuples(COLUMNS.map("UPDATE t SET {} = ? WHERE id = 1".format), st.tuples(VALUES)),
    st.tuples(COLUMNS.map("REPLACE INTO t (id, {}) VALUES (1, ?)".format), st.tuples(VALUES)),
    st.tuples(
        COLUMNS.map("UPDATE t SET {} = CAST(? AS TEXT)".format), st.tuples(st.binary(max_size=2))
    ),
    st.tuples(st.just("UPDATE t SET id = 3 - id"), st.just(())),
    st.tuples(st.just("UPDATE t SET id = 2 WHERE id = 1"), st.just(())),
    st.tuples(st.just("DELETE FROM t WHERE id = 1"), st.just(())),
)

Observe = Callable[[Database], ObservableQuery[Any]]

QUERIES: dict[str, Observe] = {
    "SELECT i FROM t WHERE id = 1": lambda db: db.table("t").observe_column("i", {"id": 1}),
    "SELECT r FROM t WHERE id = 1": lambda db: db.table("t").observe_column("r", {"id": 1}),
    "SELECT n FROM t WHERE id = 1": lambda db: db.table("t").observe_column("n", {"id": 1}),
    "SELECT s FROM t WHERE id = 1": lambda db: db.table("t").observe_column("s", {"id": 1}),
    "SELECT b FROM t WHERE id = 1": lambda db: db.table("t").observe_column("b", {"id": 1}),
    "SELECT x FROM t WHERE id = 1": lambda db: db.table("t").observe_column("x", {"id": 1}),
    "SELECT * FROM t WHERE id = 1": lambda db: db.table("t").observe_row(1),
}

WAYS: dict[str, Observe] = {
    "observe_column": lambda db: db.table("t").observe_column("x", {"id": 1}),
    "observe_row": lambda db: db.table("t").observe_row(1),
    "observe": lambda db: db.table("t").observe({"id": 1}),
}
UNPROVEN: dict[str, tuple[str, Observe]] = {
    "generated": (
        "CREATE TABLE u (id INTEGER PRIMARY KEY, x, y GENERATED ALWAYS AS (x * 2))",
        lambda db: db.table("u").observe_column("y", {"id": 1}),
    ),
    "is null": (
        "CREATE TABLE u (id INTEGER PRIMARY KEY, x, y UNIQUE)",
        lambda db: db.table("u").observe({"id": 1, "y": None}),
    ),
    "limit": (
        "CREATE TABLE u (id INTEGER PRIMARY KEY, x, y)",
        lambda db: db.table("u").observe({"id": 1}, limit=0),
    ),
    "part of a key": (
        "CREATE TABLE u (id INTEGER, part INTEGER, x, PRIMARY KEY (id, part))",
        lambda db: db.table("u").observe({"id": 1}),
    ),
    "nocase": (
        "CREATE TABLE u (id TEXT PRIMARY KEY COLLATE NOCASE, x)",
        lambda db: db.table("u").observe_row("1"),
    ),
    "many columns": (
        "CREATE TABLE u (id INTEGER PRIMARY KEY, x, b, c, d, e, f, g, h)",
        lambda db: db.table("u").observe_row(1),
    ),
}


class Fetches:
    """Counts the fetches since it was last asked."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._before = db.broker.fetches

    def since(self) -> int:
        before, self._before = self._before, self._db.broker.fetches
        return self._before - before


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "one.db", watch=False) as opened:
        opened.execute(TABLE)
        opened.execute("INSERT INTO t (id, i, s) VALUES (1, 10, 'a'), (2, 20, 'b')")
        yield opened


@given(st.lists(STATEMENTS, min_size=1, max_size=6))
@example([(UPSERT.format("b"), (1, b"ab")), (UPSERT.format("s"), (1, "blob"))])
def test_a_captured_row_is_what_a_fetch_would_give(statements: list[Statement]) -> None:
    problems: list[BaseException] = []
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(Database(memory=True, on_observer_error=problems.append))
            for _ in range(len(QUERIES) + 2)
        ]
        for db in opened:
            db.execute(TABLE)
        plain, crowded, *others = opened
        said: list[tuple[str, list[Any]]] = []
        for (sql, observe), db in zip(QUERIES.items(), others, strict=True):
            for observed in (db, crowded):  # each alone, and all together
                told: list[Any] = []
                observe(observed).subscribe(told.append)
                said.append((sql, told))
        # Twice, since a text that is new to the connection takes the general way.
        for sql, values in statements * 2:
            outcomes = {outcome(db, sql, values) for db in opened}
            assert len(outcomes) == 1, "an observed database takes and refuses what any other does"
            for query, told in said:
                with contextlib.suppress(sqlite3.OperationalError):  # it is no UTF-8
                    stored = plain.execute(query).fetchone()
                    value = stored and (stored[0] if len(stored) == 1 else stored)
                    last = told[-1] if "*" not in query else told[-1] and tuple(told[-1].values())
                    assert repr(last) == repr(value), f"{query} after {sql} {values}"
    assert all("UTF-8" in str(problem) for problem in problems)


def test_nothing_is_fetched_after_a_write_to_the_observed_row(db: Database) -> None:
    seen: list[Any] = []
    db.table("t").observe_column("i", {"id": 1}).subscribe(seen.append)
    delete = "DELETE FROM t WHERE id = ?"
    for statement in (delete, UPSERT.format("i"), UPSERT.format("s")):
        db.execute(statement, (3, "known to the connection")[: statement.count("?")])
    fetches = Fetches(db)
    db.execute(UPSERT.format("i"), (1, 11))
    db.execute(delete, (1,))
    db.execute(UPSERT.format("i"), (1, 12))
    db.execute(UPSERT.format("s"), (1, "another column"))
    db.execute(UPSERT.format("i"), (2, 13))
    assert seen == [10, 11, None, 12]
    assert fetches.since() == 0


@pytest.mark.parametrize("observe", WAYS.values(), ids=WAYS)
def test_every_way_to_observe_one_row_needs_no_fetch(db: Database, observe: Observe) -> None:
    query = observe(db)
    query.subscribe()
    db.execute(UPSERT.format("x"), (1, 1))
    fetches = Fetches(db)
    db.execute(UPSERT.format("x"), (1, 2))
    assert fetches.since() == 0
    with Database(db.path, watch=False) as other:
        assert repr(query()) == repr(observe(other)())


@pytest.mark.parametrize(("table", "observe"), UNPROVEN.values(), ids=UNPROVEN)
def test_what_is_not_proved_is_fetched(db: Database, table: str, observe: Observe) -> None:
    db.execute(table)
    query = observe(db)
    query.subscribe()
    db.execute("INSERT INTO u (id, x) VALUES (1, 1)")
    db.execute("UPDATE u SET x = ?", (2,))
    fetches = Fetches(db)
    db.execute("UPDATE u SET x = ?", (3,))
    assert fetches.since() == 1
    with Database(db.path, watch=False) as other:
        assert repr(query()) == repr(observe(other)())


def test_a_query_without_a_pin_beside_it_is_still_found(db: Database) -> None:
    column: list[Any] = []
    total: list[Any] = []
    db.table("t").observe_column("s", {"id": 1}).subscribe(column.append)
    db.observe_value("SELECT sum(i) FROM t").subscribe(total.append)
    for name in "si":
        db.execute(UPSERT.format(name), (3, 0))
    fetches = Fetches(db)
    db.execute(UPSERT.format("s"), (1, "b"))
    assert fetches.since() == 0, "the sum reads another column"
    db.execute(UPSERT.format("i"), (1, 11))
    db.execute(UPSERT.format("s"), (4, "a row more, and so another sum"))
    assert (column, total[0], total[-1]) == (["a", "b"], 30, 31)


def test_a_row_that_a_trigger_writes_again_is_fetched(db: Database) -> None:
    seen: list[Any] = []
    db.execute(
        "CREATE TRIGGER again AFTER UPDATE OF i ON t WHEN new.i > 0"
        " BEGIN UPDATE t SET i = -new.i WHERE id = new.id; END"
    )
    db.table("t").observe_column("i", {"id": 1}).subscribe(seen.append)
    for value in (4, 5, 6):
        db.execute(UPSERT.format("i"), (1, value))
    assert seen == [10, -4, -5, -6]


def test_a_row_that_a_trigger_writes_before_is_fetched(db: Database) -> None:
    seen: list[Any] = []
    db.execute(
        "CREATE TRIGGER before BEFORE UPDATE ON t WHEN new.i <> 99"
        " BEGIN UPDATE t SET i = 99 WHERE id = old.id; END"
    )
    db.table("t").observe_column("i", {"id": 1}).subscribe(seen.append)
    for _ in range(2):
        # The statement itself writes what it found at first: to a trigger that is no change.
        db.execute("UPDATE t SET i = i WHERE id = ?", (1,))
    assert seen[-1] == db.execute("SELECT i FROM t WHERE id = 1").fetchone()[0]


def test_a_trigger_named_after_is_a_trigger_before(db: Database) -> None:
    db.execute('CREATE TRIGGER "AFTER" UPDATE ON t BEGIN SELECT 1; END')
    db.table("t").observe_column("i", {"id": 1}).subscribe()
    db.execute(UPSERT.format("i"), (1, 1))
    fetches = Fetches(db)
    db.execute(UPSERT.format("i"), (1, 2))
    assert fetches.since() == 1


def test_a_trigger_that_is_made_later_is_noticed(db: Database) -> None:
    seen: list[Any] = []
    db.table("t").observe_column("i", {"id": 1}).subscribe(seen.append)
    db.execute(UPSERT.format("i"), (1, 1))
    with contextlib.closing(sqlite3.connect(str(db.path), isolation_level=None)) as other:
        other.execute(
            "CREATE TRIGGER before BEFORE UPDATE ON t WHEN new.i <> 99"
            " BEGIN UPDATE t SET i = 99 WHERE id = old.id; END"
        )
    for value in (1, 2, 1):
        db.execute(UPSERT.format("i"), (1, value))
        assert seen[-1] == db.execute("SELECT i FROM t WHERE id = 1").fetchone()[0]


def test_text_that_is_no_utf8_fails_no_write(tmp_path: Path) -> None:
    errors: list[BaseException] = []
    with Database(tmp_path / "bad.db", watch=False, on_observer_error=errors.append) as db:
        db.execute(TABLE)
        query = db.table("t").observe_column("s", {"id": 1})
        seen: list[Any] = []
        query.subscribe(seen.append)
        db.execute(UPSERT.format("s"), (1, "good"))
        for number in (2, 1):
            db.execute("REPLACE INTO t (id, s) VALUES (?, CAST(x'ff' AS TEXT))", (number,))
        assert db.execute("SELECT hex(s) FROM t").fetchall() == [("FF",), ("FF",)]
        assert ["UTF-8" in str(error) for error in errors] == [True]
        db.execute(UPSERT.format("s"), (1, "good again"))
        assert seen == [None, "good", "good again"]


def test_texts_of_a_utf16_database_are_fetched(tmp_path: Path) -> None:
    seen: list[Any] = []
    with contextlib.closing(sqlite3.connect(tmp_path / "wide.db")) as made:
        made.execute("PRAGMA encoding = 'UTF-16le'")
        made.execute(TABLE)
    with Database(tmp_path / "wide.db", watch=False) as db:
        db.table("t").observe_column("s", {"id": 1}).subscribe(seen.append)
        for text in ("a", "é\0b", "c"):
            db.execute(UPSERT.format("s"), (1, text))
    assert seen == [None, "a", "é\0b", "c"]


def test_a_text_factory_is_heeded(db: Database) -> None:
    seen: list[Any] = []
    db.table("t").observe_column("s", {"id": 1}).subscribe(seen.append)
    db.execute(UPSERT.format("s"), (1, "b"))
    db.conn.text_factory = bytes
    db.execute(UPSERT.format("s"), (1, "c"))
    assert seen == ["a", "b", b"c"]


def test_several_writes_of_a_transaction_are_fetched_once(db: Database) -> None:
    seen: list[Any] = []
    db.table("t").observe_column("i", {"id": 1}).subscribe(seen.append)
    fetches = Fetches(db)
    with db.transaction():
        for value in (1, 2, 3):
            db.execute(UPSERT.format("i"), (1, value))
    assert (seen, fetches.since()) == ([10, 3], 1)


def test_what_a_bare_cursor_rolled_back_is_not_believed(db: Database) -> None:
    seen: list[Any] = []
    db.table("t").observe_column("i", {"id": 1}).subscribe(seen.append)
    for column in ("s", "i"):
        db.execute(UPSERT.format(column), (1, 11))
    bare = sqlite3.Cursor(db.conn)
    for statement in ("BEGIN", "UPDATE t SET i = 12 WHERE id = 1", "ROLLBACK"):
        bare.execute(statement)
    db.execute(UPSERT.format("s"), (2, "no column that is observed"))
    assert seen == [10, 11]


def test_half_of_another_connections_commit_is_never_shown(db: Database) -> None:
    first = db.table("t").observe_column("i", {"id": 1})
    second = db.table("t").observe_column("i", {"id": 2})
    pairs: list[tuple[Any, Any]] = []
    create_root(lambda _: create_effect(lambda: pairs.append((first(), second()))))
    told: list[Any] = []
    row = db.table("t").observe_row(1)
    row.subscribe(lambda row: told.append((row and row["i"], second.peek())))
    for text in ("w", "x"):
        db.execute(UPSERT.format("s"), (1, text))
    with contextlib.closing(sqlite3.connect(str(db.path), isolation_level=None)) as other:
        other.execute("UPDATE t SET i = i + 1")
    db.execute(UPSERT.format("s"), (1, "y"))  # carries the foreign value of `i` along
    assert pairs == [(10, 20), (11, 21)]
    assert told == [(10, 20), (10, 20), (10, 20), (11, 21)]


def test_a_python_function_that_writes_inside_a_statement_is_noticed(db: Database) -> None:
    seen: list[Any] = []
    db.table("t").observe_column("i", {"id": 1}).subscribe(seen.append)

    def writes(value: int) -> int:
        with contextlib.suppress(sqlite3.IntegrityError):
            db.execute("UPDATE t SET i = ?, id = 2 WHERE id = 1", [value])
        return value

    db.conn.create_function("writes", 1, writes)
    for value in (1, 2):
        db.execute("UPDATE t SET n = writes(?) WHERE id = 2", [value])
    assert seen == [10]


def test_a_query_may_be_let_go_while_a_value_is_decoded(db: Database) -> None:
    seen: list[Any] = []
    other = db.table("t").observe_column("i", {"id": 2}).subscribe()

    def decode(value: int) -> int:
        if value == 11:
            other.dispose()
        return value

    db.table("t").observe_column("i", {"id": 1}).decoded(decode).subscribe(seen.append)
    for value in (11, 11, 12):
        db.execute(UPSERT.format("i"), (1, value))
    assert seen == [10, 11, 12]
    assert len(db.broker.live) == 1


def test_a_large_load_asks_nothing_for_each_row(db: Database) -> None:
    run: list[str] = []
    db.table("t").observe_column("i", {"id": 1}).subscribe()
    db.table("t").observe_column("i", {"id": 2}).subscribe()
    db.conn.set_trace_callback(run.append)
    db.conn.executemany(UPSERT.format("i"), [(number, 1) for number in range(12_000)])
    db.conn.set_trace_callback(None)
    assert sum("data_version" in statement for statement in run) < 10


def test_large_values_are_not_kept_for_a_whole_transaction(db: Database) -> None:
    db.table("t").observe_column("s", {"id": 1}).subscribe()
    with db.transaction():
        for number in range(3, 103):
            db.execute("INSERT INTO t (id, s) VALUES (?, ?)", [number, "x" * 1000])
        kept = [entry for entry in db.broker.capture.entries if b"x" * 1000 in entry]
        assert len(kept) < 20


def outcome(db: Database, sql: str, values: tuple[Any, ...]) -> str | None:
    try:
        db.execute(sql, values)
    except (sqlite3.Error, OverflowError) as error:
        return f"{type(error)} {error}"
    return None
