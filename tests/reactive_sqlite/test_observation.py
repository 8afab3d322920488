"""One observed query seen from every side: accessor, Observable, stream, and what it costs."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import reactivex
from reactivex import operators
from reactivex.scheduler import EventLoopScheduler

from reactive_sqlite import (
    Database,
    DatabaseClosed,
    ObservableQuery,
    create_effect,
    create_memo,
    create_root,
    create_signal,
    sqlite3,
)
from tests.reactive_sqlite.threads import beside
from tests.recorder import Recorder

# Some releases of Python 3.12 warn of `?1` with a sequence; it is the user's own SQL here.
pytestmark = pytest.mark.filterwarnings("ignore:Binding \\d+ :DeprecationWarning")


@pytest.fixture(autouse=True)
def people(db: Database) -> None:
    db.conn.executescript("""
        CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT, age INT);
        INSERT INTO people VALUES (1, 'ann', 30), (2, 'bob', 40);
        CREATE TABLE other(v);
    """)


def names(db: Database) -> ObservableQuery[list[dict[str, Any]]]:
    return db.observe("SELECT name FROM people ORDER BY id")


def effect(fn: Callable[[], Any]) -> Callable[[], None]:
    """Run an effect and return how to end it."""

    def root(dispose: Callable[[], None]) -> Callable[[], None]:
        create_effect(lambda: fn() and None)
        return dispose

    return create_root(root)


# -- what is emitted -------------------------------------------------------------------------------


def test_all_rows_come_as_dicts(db: Database, recorder: Recorder[Any]) -> None:
    names(db).subscribe(recorder.on_next)
    db.execute("INSERT INTO people(name) VALUES ('cat')")
    assert recorder.values == [
        [{"name": "ann"}, {"name": "bob"}],
        [{"name": "ann"}, {"name": "bob"}, {"name": "cat"}],
    ]


def test_observe_one_gives_the_first_row_or_none(db: Database, recorder: Recorder[Any]) -> None:
    query = db.observe_one("SELECT name, age FROM people WHERE age > ? ORDER BY age", [35])
    query.subscribe(recorder.on_next)
    db.execute("DELETE FROM people WHERE id = 2")
    assert recorder.values == [{"name": "bob", "age": 40}, None]


def test_observe_one_is_quiet_when_only_later_rows_change(
    db: Database, recorder: Recorder[Any]
) -> None:
    db.observe_one("SELECT name FROM people ORDER BY id").subscribe(recorder.on_next)
    db.execute("INSERT INTO people(name) VALUES ('cat')")
    assert recorder.values == [{"name": "ann"}]


def test_observe_value_gives_the_first_column_or_none(
    db: Database, recorder: Recorder[Any]
) -> None:
    query = db.observe_value("SELECT age, name FROM people WHERE id = 1")
    query.subscribe(recorder.on_next)
    db.execute("UPDATE people SET name = 'eve' WHERE id = 1")
    db.execute("UPDATE people SET age = NULL WHERE id = 1")
    db.execute("DELETE FROM people")
    assert recorder.values == [30, None], "no row and NULL are the same value"


def test_repeated_column_names_are_told_apart_as_sqlite_utils_does(db: Database) -> None:
    sql = "SELECT id, name, id, age AS name FROM people ORDER BY id"
    assert db.observe(sql).peek() == list(db.query(sql))
    assert list(db.observe(sql).peek()[0]) == ["id", "name", "id_2", "name_2"]


def test_table_observe_gives_what_rows_where_gives(db: Database) -> None:
    people = db["people"]
    assert people.observe().peek() == list(people.rows)
    assert people.observe("age > ?", [35]).peek() == list(people.rows_where("age > ?", [35]))
    assert people.observe("age > :a", {"a": 35}).peek() == [{"id": 2, "name": "bob", "age": 40}]
    found = people.observe(order_by="age desc", limit=1, select="name").peek()
    assert found == list(people.rows_where(order_by="age desc", limit=1, select="name"))
    assert people.observe({"name": "ann"}, select="id").peek() == [{"id": 1}]
    assert people.observe({"name": "ann", "age": 40}).peek() == []
    assert people.observe({"name": None}).peek() == []
    assert people.observe({}).peek() == list(people.rows)


def test_table_observe_refuses_what_makes_no_sense(db: Database) -> None:
    with pytest.raises(ValueError, match="dict"):
        db["people"].observe({"name": "ann"}, ["ann"])
    for limit in (-1, "1", 1.5, True):
        with pytest.raises(ValueError, match="limit"):
            db["people"].observe(limit=limit)


def test_a_dict_names_columns_that_exist(db: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="nope"):
        db["people"].observe({"nope": "nope"}).peek()


def test_an_absent_table_is_empty_until_it_is_made(db: Database, recorder: Recorder[Any]) -> None:
    db["later"].observe().subscribe(recorder.on_next)
    db["later"].insert({"id": 1}, pk="id")
    assert (recorder.values[0], recorder.last) == ([], [{"id": 1}])


def test_a_view_is_observed_like_a_table(db: Database, recorder: Recorder[Any]) -> None:
    db.create_view("adults", "SELECT name FROM people WHERE age > 35")
    db["adults"].observe().subscribe(recorder.on_next)
    db["people"].insert({"name": "cat", "age": 50})
    assert recorder.values == [[{"name": "bob"}], [{"name": "bob"}, {"name": "cat"}]]


def test_observe_row_follows_one_row(db: Database, recorder: Recorder[Any]) -> None:
    db["people"].observe_row(1).subscribe(recorder.on_next)
    db["people"].update(1, {"age": 31})
    db["people"].update(2, {"age": 41})
    db["people"].delete(1)
    db["people"].insert({"id": 1, "name": "new", "age": 1})
    assert [row and row["age"] for row in recorder.values] == [30, 31, None, 1]


def test_observe_row_takes_compound_keys(db: Database, recorder: Recorder[Any]) -> None:
    db["pairs"].insert({"a": 1, "b": "x", "v": 0}, pk=("a", "b"))
    db["pairs"].observe_row((1, "x")).subscribe(recorder.on_next)
    db["pairs"].update((1, "x"), {"v": 1})
    assert [row["v"] for row in recorder.values] == [0, 1]
    with pytest.raises(ValueError, match="a, b"):
        db["pairs"].observe_row(1)
    with pytest.raises(sqlite3.OperationalError, match="no such table: nowhere"):
        db["nowhere"].observe_row(1)


def test_observe_row_of_a_table_without_key_goes_by_rowid(
    db: Database, recorder: Recorder[Any]
) -> None:
    db.execute("INSERT INTO other VALUES ('a')")
    db["other"].observe_row(1).subscribe(recorder.on_next)
    db.execute("UPDATE other SET v = 'b'")
    assert [row["v"] for row in recorder.values] == ["a", "b"]


def test_skip_initial_emits_changes_only(db: Database, recorder: Recorder[Any]) -> None:
    query = db.observe_value("SELECT count(*) FROM people", skip_initial=True)
    query.subscribe(recorder.on_next)
    db["people"].observe(skip_initial=True).decoded(len).subscribe(recorder.on_next)
    assert recorder.values == []
    assert query() == 2, "the accessor skips nothing"
    db.execute("DELETE FROM people WHERE id = 1")
    assert recorder.values == [1, 1]


def test_parameters_of_every_kind(db: Database) -> None:
    sql = "SELECT typeof(?1), ?1"
    for value in (None, 1, 1.5, "x", b"x", True):
        row = db.execute(sql, [value]).fetchone()
        assert tuple(db.observe(sql, [value]).peek()[0].values()) == row
    assert db.observe("SELECT :a AS x, @b AS y, $c AS z", {"a": 1, "b": 2, "c": 3}).peek() == [
        {"x": 1, "y": 2, "z": 3}
    ]
    assert db.observe_value("SELECT ?2 || ?1", ["a", "b"]).peek() == "ba"


def test_changing_ones_own_parameters_afterwards_changes_nothing(
    db: Database, recorder: Recorder[Any]
) -> None:
    params: list[Any] = [1]
    blob = bytearray(b"x")
    query = db.observe_value("SELECT name FROM people WHERE id = ?", params)
    binary = db.observe_value("SELECT ?", [blob])
    params[0] = 2
    blob[:] = b"y"
    assert (query.peek(), binary.peek()) == ("ann", b"x")


# -- the accessor ----------------------------------------------------------------------------------


def test_the_accessor_tracks_and_peek_does_not(db: Database) -> None:
    query = names(db)
    tracked: list[int] = []
    peeked: list[int] = []
    dispose = effect(lambda: tracked.append(len(query())))
    also = effect(lambda: peeked.append(len(query.peek())))
    db.execute("DELETE FROM people")
    assert (tracked, peeked) == ([2, 0], [2])
    dispose()
    also()


def test_a_memo_over_a_query_is_followed_only_while_observed(db: Database) -> None:
    query = names(db)
    count = create_memo(lambda: len(query()))
    assert count() == 2
    db.execute("DELETE FROM people WHERE id = 1")
    assert count() == 1, "a memo without observers reads afresh"
    fetches = db.broker.fetches
    db.execute("INSERT INTO people(name) VALUES ('eve')")
    assert db.broker.fetches == fetches, "nobody is told of it"
    seen: list[int] = []
    dispose = effect(lambda: seen.append(count()))
    db.execute("INSERT INTO people(name) VALUES ('fay')")
    dispose()
    db.execute("INSERT INTO people(name) VALUES ('gus')")
    assert seen == [2, 3]


def test_an_effect_may_choose_what_it_reads(db: Database) -> None:
    which, choose = create_signal(1)
    rows: dict[int, Any] = {n: db["people"].observe_row(n) for n in (1, 2)}
    seen: list[Any] = []
    dispose = effect(lambda: seen.append(rows[which()]()["name"]))
    choose(2)
    fetches = db.broker.fetches
    db["people"].update(1, {"name": "unseen"})
    assert db.broker.fetches == fetches, "the query it no longer reads is idle"
    db["people"].update(2, {"name": "seen"})
    assert seen == ["ann", "bob", "seen"]
    dispose()


def test_signals_and_queries_meet_in_one_effect(db: Database) -> None:
    query = db.observe_value("SELECT count(*) FROM people")
    factor, set_factor = create_signal(1)
    seen: list[int] = []
    dispose = effect(lambda: seen.append(query() * factor()))
    set_factor(10)
    db.execute("DELETE FROM people WHERE id = 1")
    assert seen == [2, 20, 10]
    dispose()


# -- idle and shared -------------------------------------------------------------------------------


def test_nothing_runs_for_a_query_that_nobody_looks_at(db: Database) -> None:
    fetches = db.broker.fetches
    query = names(db)
    db.execute("INSERT INTO people(name) VALUES ('cat')")
    assert db.broker.fetches == fetches
    assert len(query()) == 3
    db.execute("DELETE FROM people")
    assert query() == [], "an idle accessor fetches at each read"


def test_equal_queries_share_one_fetch_per_commit(db: Database) -> None:
    seen: list[Recorder[Any]] = [Recorder() for _ in range(5)]
    for recorder in seen:
        names(db).subscribe(recorder.on_next)
    db.observe_one("SELECT name FROM people ORDER BY id").subscribe(lambda _: None)
    before = db.broker.fetches
    db.execute("INSERT INTO people(name) VALUES ('cat')")
    assert db.broker.fetches == before + 1
    assert all(len(recorder.last) == 3 for recorder in seen)


@pytest.mark.parametrize("other", [1.0, True, "1", b"1", None])
def test_parameters_of_other_types_are_other_queries(db: Database, other: Any) -> None:
    sql = "SELECT ? || '' || count(*) FROM people"
    db.observe_value(sql, [1]).subscribe(lambda _: None)
    before = db.broker.fetches
    db.observe_value(sql, [other]).subscribe(lambda _: None)
    assert db.broker.fetches == before + 1
    again = db.broker.fetches
    db.observe_value(sql, [1]).subscribe(lambda _: None)
    assert db.broker.fetches == again, "an equal one shares"


def test_positional_and_named_parameters_are_different_queries(db: Database) -> None:
    assert db.observe_value("SELECT ?1", [1]).peek() == 1
    assert db.observe_value("SELECT :a", {"a": 2}).peek() == 2
    assert db.observe_value("SELECT :a", {"a": 3}).peek() == 3


def test_the_last_subscriber_to_leave_stops_the_query(db: Database) -> None:
    query = names(db)
    one, two = query.subscribe(lambda _: None), query.subscribe(lambda _: None)
    one.dispose()
    before = db.broker.fetches
    db.execute("INSERT INTO people(name) VALUES ('cat')")
    assert db.broker.fetches == before + 1
    two.dispose()
    db.execute("INSERT INTO people(name) VALUES ('dan')")
    assert db.broker.fetches == before + 1
    assert not db.broker.live


def test_a_query_can_be_subscribed_again(db: Database, recorder: Recorder[Any]) -> None:
    query = db.observe_value("SELECT count(*) FROM people")
    query.subscribe(recorder.on_next).dispose()
    db.execute("DELETE FROM people WHERE id = 1")
    query.subscribe(recorder.on_next)
    db.execute("DELETE FROM people")
    assert recorder.values == [2, 1, 0]


# -- decoded ---------------------------------------------------------------------------------------


def test_decoded_values_are_made_once_per_change(db: Database, recorder: Recorder[Any]) -> None:
    calls: list[int] = []

    def decode(rows: list[dict[str, Any]]) -> int:
        calls.append(len(rows))
        return len(rows)

    query = names(db).decoded(decode)
    query.subscribe(recorder.on_next)
    query.subscribe(lambda _: None)
    assert query.peek() == 2
    db.execute("INSERT INTO people(name) VALUES ('cat')")
    assert recorder.values == [2, 3]
    assert calls == [2, 3]


def test_an_equal_decoded_value_is_not_emitted_again(db: Database, recorder: Recorder[Any]) -> None:
    names(db).decoded(len).subscribe(recorder.on_next)
    db.execute("UPDATE people SET name = 'x'")
    assert recorder.values == [2]


def test_a_failing_decoder_is_reported_and_recovers(
    db: Database, recorder: Recorder[Any], observer_errors: list[BaseException]
) -> None:
    query = db.observe_value("SELECT age FROM people WHERE id = 1").decoded(lambda age: 60 // age)
    query.subscribe(recorder.on_next, recorder.on_error)
    db.execute("UPDATE people SET age = 0")
    with pytest.raises(ZeroDivisionError):
        query()
    db.execute("UPDATE people SET age = 20")
    assert recorder.values == [2, 3]
    assert [type(error) for error in observer_errors] == [ZeroDivisionError]


def test_a_view_beside_a_followed_one_is_decoded_once_per_change_and_fetches_nothing(
    db: Database,
) -> None:
    calls: list[int] = []

    def decode(rows: list[dict[str, Any]]) -> int:
        calls.append(len(rows))
        return len(rows)

    rows = names(db)
    rows.subscribe(lambda _: None)
    count = rows.decoded(decode)
    before = db.broker.fetches
    assert (count(), count.peek(), count()) == (2, 2, 2)
    assert db.broker.fetches == before
    db.execute("INSERT INTO people(name) VALUES ('cat')")
    assert (count(), count.peek(), count()) == (3, 3, 3)
    assert db.broker.fetches == before + 1, "that of the view that is followed"
    assert calls == [2, 3]


def test_what_a_decoder_raises_is_raised_to_whoever_reads(db: Database) -> None:
    query = names(db).decoded(lambda rows: 1 // (len(rows) - 2))
    for read in (query, query.peek):
        with pytest.raises(ZeroDivisionError):
            read()
    db.execute("INSERT INTO people(name) VALUES ('cat')")
    assert (query(), query.peek()) == (1, 1)


# -- as an Observable ------------------------------------------------------------------------------


def test_it_is_a_reactivex_observable(db: Database, recorder: Recorder[Any]) -> None:
    query = db.observe_value("SELECT count(*) FROM people")
    assert isinstance(query, reactivex.Observable)
    query.pipe(operators.skip(1), operators.map(str)).subscribe(recorder.on_next)
    db.execute("DELETE FROM people WHERE id = 1")
    assert recorder.values == ["1"]


def test_operators_dispose_what_they_subscribed(db: Database, recorder: Recorder[Any]) -> None:
    query = db.observe_value("SELECT count(*) FROM people")
    query.pipe(operators.take(2)).subscribe(recorder.on_next, None, recorder.on_completed)
    db.execute("DELETE FROM people WHERE id = 1")
    assert (recorder.values, recorder.completed) == ([2, 1], 1)
    before = db.broker.fetches
    db.execute("DELETE FROM people")
    assert db.broker.fetches == before


def test_as_observable_goes_where_a_callable_would_be_called(
    db: Database, recorder: Recorder[Any]
) -> None:
    ages = db.observe_value("SELECT sum(age) FROM people")
    plain = ages.as_observable()
    assert not callable(plain)
    reactivex.of(1, 2).pipe(operators.flat_map(plain)).subscribe(recorder.on_next)
    assert recorder.values == [70, 70]


def test_as_observable_calls_on_the_scheduler_it_is_given(
    db: Database, recorder: Recorder[Any]
) -> None:
    scheduler = EventLoopScheduler()
    plain = db.observe_value("SELECT sum(age) FROM people").as_observable()
    subscription = plain.subscribe(recorder.on_next, scheduler=scheduler)
    recorder.wait_for_count(1)
    subscription.dispose()
    scheduler.dispose()
    assert threading.current_thread() not in recorder.threads


def test_an_observer_object_can_be_subscribed(db: Database) -> None:
    subject: reactivex.Subject[Any] = reactivex.Subject()
    seen: list[Any] = []
    subject.subscribe(seen.append)
    db.observe_value("SELECT count(*) FROM people").subscribe(subject)
    db.execute("DELETE FROM people")
    assert seen == [2, 0]


def test_a_subscription_without_callbacks_is_allowed(db: Database) -> None:
    names(db).subscribe().dispose()


def test_operators_that_lock_their_source_work(db: Database, recorder: Recorder[Any]) -> None:
    query = db.observe_value("SELECT count(*) FROM people")
    query.pipe(operators.amb(reactivex.never())).subscribe(recorder.on_next)
    db.execute("DELETE FROM people")
    assert recorder.values == [2, 0]


def test_combine_latest_and_merge_work(db: Database, recorder: Recorder[Any]) -> None:
    count, total = (db.observe_value(f"SELECT {f} FROM people") for f in ("count(*)", "sum(age)"))
    reactivex.combine_latest(count, total).subscribe(recorder.on_next)
    db.execute("DELETE FROM people WHERE id = 1")
    assert recorder.values[0] == (2, 70)
    assert recorder.last == (1, 40)


def test_a_scheduler_given_to_an_operator_is_used(db: Database, recorder: Recorder[Any]) -> None:
    scheduler = EventLoopScheduler()
    query = db.observe_value("SELECT count(*) FROM people")
    subscription = query.pipe(operators.observe_on(scheduler)).subscribe(recorder.on_next)
    db.execute("DELETE FROM people")
    recorder.wait_for(lambda n: n == 0)
    assert threading.current_thread() not in recorder.threads
    subscription.dispose()
    scheduler.dispose()


def test_it_is_not_iterable_and_not_false(db: Database) -> None:
    query: Any = names(db)
    with pytest.raises(TypeError):
        iter(query)
    assert bool(query)


# -- waiting ---------------------------------------------------------------------------------------


def test_wait_returns_the_first_value_that_fits(db: Database) -> None:
    query = db.observe_value("SELECT count(*) FROM people")
    assert query.wait() == 2
    assert query.wait(lambda n: n == 2) == 2
    asked = threading.Event()

    def emptied(count: int) -> bool:
        asked.set()
        return count == 0

    with beside(lambda: query.wait(emptied, timeout=10)) as waiting:
        assert asked.wait(10)
        db.execute("DELETE FROM people")
    assert waiting.result() == 0
    assert not db.broker.live, "whoever waited has left"


def test_wait_gives_up_after_its_timeout(db: Database) -> None:
    with pytest.raises(TimeoutError, match="SELECT count"):
        db.observe_value("SELECT count(*) FROM people").wait(lambda n: n > 9, timeout=0.02)
    assert not db.broker.live


def test_wait_passes_on_what_its_predicate_raises(db: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        names(db).wait(lambda _: bool(1 // 0), timeout=5)


def test_closing_ends_a_wait(db: Database) -> None:
    query = names(db)
    asked = threading.Event()

    def never(_: Any) -> bool:
        asked.set()
        return False

    def refused() -> None:
        with pytest.raises(DatabaseClosed):
            query.wait(never, timeout=10)

    with beside(refused):
        assert asked.wait(10)
        db.close()


async def test_first_and_await_give_the_current_value(db: Database) -> None:
    query = db.observe_value("SELECT count(*) FROM people")
    assert await query == 2
    assert await query.first() == 2
    assert await query.first(lambda n: n > 1) == 2
    assert not db.broker.live


async def test_first_waits_for_a_value_that_fits(db: Database) -> None:
    query = db.observe_value("SELECT count(*) FROM people")
    task = asyncio.create_task(query.first(lambda n: n == 0, timeout=10))
    await asyncio.sleep(0)
    db.execute("DELETE FROM people")
    assert await task == 0


async def test_first_gives_up_after_its_timeout(db: Database) -> None:
    with pytest.raises(TimeoutError):
        await names(db).first(lambda rows: len(rows) > 9, timeout=0.02)
    assert not db.broker.live


async def test_a_slow_loop_gets_the_newest_value(db: Database) -> None:
    query = db.observe_value("SELECT count(*) FROM people")
    seen: list[int] = []
    async for count in query:
        seen.append(count)
        if count == 2:
            for _ in range(5):
                db.execute("INSERT INTO people(name) VALUES ('x')")
        elif count == 7:
            break
    assert seen == [2, 7], "what was overtaken while the loop was busy is skipped"


async def test_a_loop_hears_of_writes_of_other_threads(db: Database) -> None:
    query = db.observe_value("SELECT count(*) FROM people")
    seen: list[int] = []
    async with asyncio.timeout(10):
        async for count in query:
            seen.append(count)
            if count == 0:
                break
            await asyncio.to_thread(db.execute, "DELETE FROM people WHERE id = ?", [count])
    assert seen == [2, 1, 0]


async def test_leaving_a_loop_releases_the_query(db: Database) -> None:
    stream = names(db).__aiter__()
    await anext(stream)
    assert db.broker.live
    await stream.aclose()
    assert not db.broker.live


async def test_closing_ends_a_loop(db: Database) -> None:
    seen: list[int] = []
    async for count in db.observe_value("SELECT count(*) FROM people"):
        seen.append(count)
        db.close()
    assert seen == [2]


async def test_a_failing_first_fetch_is_raised_from_await(db: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await db.observe("SELECT * FROM nowhere")


# -- refused, failing and recovering ---------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO people(name) VALUES ('x')", "UPDATE people SET age = 1 RETURNING id",
        "DELETE FROM people", "REPLACE INTO people(id) VALUES (1)", "CREATE TABLE x(y)",
        "DROP TABLE people", "WITH n AS (SELECT 1) DELETE FROM people", "BEGIN", "COMMIT",
        "SAVEPOINT s", "PRAGMA user_version = 7", "PRAGMA user_version", "ATTACH ':memory:' AS x",
        "VACUUM", "EXPLAIN SELECT 1", "EXPLAIN QUERY PLAN SELECT 1", "ANALYZE", "REINDEX",
        "/* SELECT */ DELETE FROM people", "PRAGMA journal_mode = DELETE", "DETACH main",
    ],
)  # fmt: skip
def test_a_query_that_writes_is_refused(db: Database, sql: str) -> None:
    with pytest.raises(ValueError, match="queries can be observed"):
        db.observe(sql)
    assert db.execute("SELECT count(*), max(age) FROM people").fetchone() == (2, 40)
    assert db.execute("PRAGMA user_version").fetchone() == (0,)
    assert not db.conn.in_transaction


@pytest.mark.parametrize(
    ("sql", "params", "error"),
    [
        ("SELEKT 1", (), sqlite3.OperationalError),
        ("SELECT 1; SELECT 2", (), (sqlite3.ProgrammingError, sqlite3.Warning)),
        ("SELECT ?", (), sqlite3.ProgrammingError),
        ("SELECT ?", (1, 2), sqlite3.ProgrammingError),
        ("SELECT :a", {}, sqlite3.ProgrammingError),
        ("SELECT ?", (object(),), (sqlite3.ProgrammingError, sqlite3.InterfaceError)),
        ("SELECT count(1, 2) FROM people", (), sqlite3.OperationalError),
    ],
)
def test_wrong_sql_and_parameters_are_sqlites_errors(
    db: Database, sql: str, params: Any, error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        db.observe(sql, params)
    assert any(sql in note for note in caught.value.__notes__), "the SQL comes as a note"


def test_parameter_values_stay_out_of_errors(db: Database) -> None:
    with pytest.raises(sqlite3.Error) as caught:
        db.observe("SELECT * FROM nowhere WHERE a = ?", ["secret"]).peek()
    assert "secret" not in str(caught.value) + str(caught.value.__notes__)


@pytest.mark.parametrize("sql", ["", "   ", "-- nothing", ";"])
def test_no_statement_at_all_is_refused(db: Database, sql: str) -> None:
    with pytest.raises((ValueError, sqlite3.Error)):
        db.observe(sql)


def test_a_failing_first_fetch_raises_from_subscribe_or_goes_to_on_error(
    db: Database, recorder: Recorder[Any]
) -> None:
    query = db.observe("SELECT * FROM nowhere")
    with pytest.raises(sqlite3.OperationalError, match="no such table: nowhere"):
        query.subscribe(recorder.on_next)
    query.subscribe(recorder.on_next, recorder.on_error)
    assert [type(error) for error in recorder.errors] == [sqlite3.OperationalError]
    assert not db.broker.live
    db.execute("CREATE TABLE nowhere(v)")
    assert recorder.values == [], "on_error was the last call"
    query.subscribe(recorder.on_next)
    assert recorder.values == [[]]


def test_a_first_fetch_that_fails_at_the_end_of_a_transaction_goes_to_on_error(
    db: Database, recorder: Recorder[Any]
) -> None:
    with db.transaction():
        db.execute("CREATE TABLE brief(v)")
        query = db.observe("SELECT * FROM brief")
        query.subscribe(recorder.on_next, recorder.on_error, recorder.on_completed)
        query.subscribe(recorder.on_next, recorder.on_error, recorder.on_completed)
        db.execute("DROP TABLE brief")
        assert recorder.errors == [], "it begins with what is committed"
    assert [str(error) for error in recorder.errors] == ["no such table: brief"] * 2
    assert (recorder.values, recorder.completed) == ([], 0)
    assert not db.broker.live


def test_a_rerun_that_fails_is_reported_and_recovers(
    db: Database, recorder: Recorder[Any], observer_errors: list[BaseException]
) -> None:
    query = names(db)
    query.subscribe(recorder.on_next, recorder.on_error, recorder.on_completed)
    db.execute("ALTER TABLE people RENAME TO persons")
    with pytest.raises(sqlite3.OperationalError, match="no such table: people"):
        query()
    assert [str(error) for error in observer_errors] == ["no such table: people"]
    db.execute("ALTER TABLE persons RENAME TO people")
    assert len(query()) == 2
    db.execute("DELETE FROM people WHERE id = 1")
    assert (recorder.errors, recorder.completed) == ([], 0), "the observable lives on"
    assert recorder.values == [[{"name": "ann"}, {"name": "bob"}], [{"name": "bob"}]]


def test_an_effect_sees_the_error_and_the_recovery(
    db: Database, observer_errors: list[BaseException]
) -> None:
    query = names(db)
    seen: list[Any] = []

    def look() -> None:
        try:
            seen.append(len(query()))
        except sqlite3.OperationalError as error:
            seen.append(str(error))

    dispose = effect(look)
    db.execute("ALTER TABLE people RENAME TO persons")
    db.execute("ALTER TABLE persons RENAME TO people")
    assert seen == [2, "no such table: people", 2]
    dispose()


def test_an_effect_or_memo_whose_query_fails_at_once_has_its_error(db: Database) -> None:
    query = db.observe("SELECT * FROM nowhere")
    count = create_memo(lambda: len(query()))
    for read in (lambda: create_effect(query), count, lambda: create_effect(count)):
        with pytest.raises(sqlite3.OperationalError, match="no such table: nowhere"):
            read()
    assert not db.broker.live
    db.execute("CREATE TABLE nowhere(v)")
    assert (query(), count()) == ([], 0)


def test_refresh_reruns_what_depends_on_python(db: Database, recorder: Recorder[Any]) -> None:
    now = [1]
    db.conn.create_function("now", 0, lambda: now[0])
    db.observe_value("SELECT now()").subscribe(recorder.on_next)
    db.observe_value("SELECT now() + age FROM people").subscribe(recorder.on_next)
    now[0] = 2
    assert recorder.take() == [1, 31]
    db.refresh("other")
    assert recorder.take() == [], "neither reads that table"
    db.refresh("people")
    assert recorder.take() == [32]
    db.refresh()
    assert recorder.take() == [2]
    db.refresh()
    assert recorder.take() == [], "nothing is told that is equal"


def test_refresh_inside_a_transaction_waits_for_its_end(
    db: Database, recorder: Recorder[Any]
) -> None:
    now = [1]
    db.conn.create_function("now", 0, lambda: now[0])
    db.observe_value("SELECT now() + age FROM people").subscribe(recorder.on_next)
    with db.transaction():
        now[0] = 2
        db.refresh("people")
        assert recorder.values == [31]
    assert recorder.values == [31, 32]


# -- memory ----------------------------------------------------------------------------------------


def test_dropping_a_query_releases_it(db: Database) -> None:
    query = names(db)
    query.subscribe(lambda _: None).dispose()
    query()
    gone = weakref.ref(query)
    del query
    gc.collect()
    assert gone() is None


def test_a_query_read_by_a_dropped_memo_is_released(db: Database) -> None:
    query = names(db)
    memo: Any = create_memo(query)
    assert len(memo()) == 2
    gone = weakref.ref(query)
    del query, memo
    gc.collect()
    assert gone() is None
    db.execute("DELETE FROM people")
    assert not db.broker.live


def test_a_query_read_by_a_disposed_effect_is_released(db: Database) -> None:
    query = names(db)
    dispose = effect(query)
    gone = weakref.ref(query)
    dispose()
    del query, dispose
    gc.collect()
    assert gone() is None
    db.execute("DELETE FROM people")
    assert not db.broker.live


def test_a_query_whose_effect_has_ended_is_idle_and_current(db: Database) -> None:
    query = names(db)
    count = create_memo(lambda: len(query()))
    seen: list[int] = []
    for number in (2, 3):
        effect(lambda: seen.append(count()))()
        before = db.broker.fetches
        db.execute("INSERT INTO people(name) VALUES ('cat')")
        assert db.broker.fetches == before, "nobody looks at it any more"
        assert (seen[-1], count()) == (number, number + 1)
    assert seen == [2, 3]


def test_a_subscription_keeps_its_query_alive(db: Database, recorder: Recorder[Any]) -> None:
    names(db).decoded(len).subscribe(recorder.on_next)
    gc.collect()
    db.execute("DELETE FROM people")
    assert recorder.values == [2, 0]


def test_an_effect_keeps_its_query_alive(db: Database) -> None:
    seen: list[int] = []

    def look(query: ObservableQuery[Any]) -> Callable[[], None]:
        return effect(lambda: seen.append(len(query())))

    dispose = look(names(db))
    gc.collect()
    db.execute("DELETE FROM people")
    assert seen == [2, 0]
    dispose()


def test_a_table_that_is_observed_again_and_again_leaves_one_capture(db: Database) -> None:
    for name in range(20):
        subscription = db["people"].observe_row(1).subscribe()
        db["people"].update(1, {"name": f"observed {name}"})
        subscription.dispose()
        db["people"].update(1, {"name": f"observed no more {name}"})
    triggers = db.broker.capture.triggers
    assert len(triggers.numbers) == len(triggers.tables) <= 1


def test_subscribing_and_disposing_for_long_leaves_nothing(db: Database) -> None:
    def rounds(count: int) -> None:
        for number in range(count):
            query = db["people"].observe_row(number)
            query.subscribe().dispose()

    rounds(50)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    rounds(500)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000, f"{grown} bytes were kept by 500 finished subscriptions"


def test_thousands_of_pinned_observers_cost_little(db: Database) -> None:
    keep: list[Any] = []
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(3_000):
        keep.append(db["people"].observe_row(number).subscribe())
    each = (tracemalloc.get_traced_memory()[0] - before) / 3_000
    tracemalloc.stop()
    assert each < 4_000, f"{each:.0f} bytes for one observer of one row"
    before = db.broker.fetches
    db.execute("UPDATE people SET age = 99 WHERE id = 2")
    assert db.broker.fetches == before + 1
