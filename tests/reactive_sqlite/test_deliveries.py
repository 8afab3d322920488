"""Who is told what, when and on which thread: order, snapshots, callbacks and their errors."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reactivex.abc import DisposableBase
from reactivex.scheduler import EventLoopScheduler

from reactive_sqlite import (
    Database,
    batch,
    catch_error,
    create_effect,
    create_memo,
    create_root,
    sqlite3,
)
from tests.reactive_sqlite.threads import beside, elsewhere, together
from tests.recorder import Recorder

ROUNDS = 60


@pytest.fixture(autouse=True)
def pair(db: Database) -> None:
    """Two tables of one row each, which honest transactions change together."""
    db.conn.executescript("""
        CREATE TABLE a(v); INSERT INTO a VALUES (0);
        CREATE TABLE b(v); INSERT INTO b VALUES (0);
    """)


def write_pairs(db: Database, start: int) -> None:
    for number in range(start, start + ROUNDS):
        with db.transaction():
            db.execute("UPDATE a SET v = ?", [number])
            db.execute("UPDATE b SET v = ?", [number])


def write_b(db: Database, value: Any) -> None:
    db.execute("UPDATE b SET v = ?", [value])


def write_a(db: Database, value: Any) -> None:
    db.execute("UPDATE a SET v = ?", [value])


# -- order and snapshots ---------------------------------------------------------------------------


def test_observe_many_never_shows_half_a_commit(db: Database, recorder: Recorder[Any]) -> None:
    a, b = db.observe_value("SELECT v FROM a"), db.observe_value("SELECT v FROM b")
    db.observe_many(a, b).subscribe(recorder.on_next)

    together(lambda: write_pairs(db, 1000), lambda: write_pairs(db, 2000))

    assert all(one == other for one, other in recorder.values), recorder.values
    assert recorder.last == (a.peek(), b.peek())


def test_observe_many_emits_one_tuple_per_commit(db: Database, recorder: Recorder[Any]) -> None:
    a, b = db.observe_value("SELECT v FROM a"), db.observe_value("SELECT v FROM b")
    db.observe_many(a, b).subscribe(recorder.on_next)

    with db.transaction():
        write_a(db, 1)
        db.execute("UPDATE b SET v = 1")
    write_a(db, 2)

    assert recorder.values == [(0, 0), (1, 1), (2, 1)]


def test_observe_many_takes_the_same_query_twice(db: Database, recorder: Recorder[Any]) -> None:
    a = db.observe_value("SELECT v FROM a")
    db.observe_many(a, a).subscribe(recorder.on_next)
    write_a(db, 1)
    assert recorder.values == [(0, 0), (1, 1)]


def test_observe_many_inside_a_transaction_begins_at_its_end(
    db: Database, recorder: Recorder[Any]
) -> None:
    a, b = db.observe_value("SELECT v FROM a"), db.observe_value("SELECT v FROM b")
    with db.transaction():
        write_a(db, 1)
        db.observe_many(a, b).subscribe(recorder.on_next)
        assert recorder.values == []
    assert recorder.values == [(1, 0)]


def test_a_disposed_observe_many_releases_its_queries(
    db: Database, recorder: Recorder[Any]
) -> None:
    a, b = db.observe_value("SELECT v FROM a"), db.observe_value("SELECT v FROM b")
    db.observe_many(a, b).subscribe(recorder.on_next).dispose()
    fetches = db.broker.fetches
    write_a(db, 1)
    assert recorder.values == [(0, 0)]
    assert db.broker.fetches == fetches, "nothing runs for a query without subscribers"


@pytest.mark.parametrize("inside", [False, True])
def test_observe_many_ends_when_one_of_its_first_fetches_fails(
    db: Database, recorder: Recorder[Any], inside: bool
) -> None:
    pair = db.observe_many(db.observe_value("SELECT v FROM a"), db.observe("SELECT * FROM nowhere"))
    with db.transaction() if inside else contextlib.nullcontext():
        pair.subscribe(recorder.on_next, recorder.on_error)
    assert [str(error) for error in recorder.errors] == ["no such table: nowhere"]
    assert recorder.values == []
    write_a(db, 1)
    assert not db.broker.live, "the query that works is let go"


def test_observe_many_waits_for_a_broken_query_to_recover(
    db: Database, recorder: Recorder[Any], observer_errors: list[BaseException]
) -> None:
    a, b = db.observe_value("SELECT v FROM a"), db.observe_value("SELECT v FROM b")
    db.observe_many(a, b).subscribe(recorder.on_next, recorder.on_error)
    db.execute("ALTER TABLE b RENAME TO c")
    write_a(db, 1)
    db.execute("ALTER TABLE c RENAME TO b")
    write_a(db, 2)
    assert recorder.values == [(0, 0), (1, 0), (2, 0)]
    assert (len(observer_errors), recorder.errors) == (1, [])


def test_observe_many_refuses_nothing_and_queries_of_another_database(db: Database) -> None:
    with pytest.raises(ValueError, match="one or more"):
        db.observe_many()
    with Database(memory=True) as other, pytest.raises(ValueError, match="of this database"):
        db.observe_many(other.observe("SELECT 1"))


def test_a_memo_over_two_queries_never_shows_half_a_commit(db: Database) -> None:
    a, b = db.observe_value("SELECT v FROM a"), db.observe_value("SELECT v FROM b")
    seen: list[tuple[Any, Any]] = []

    def root(dispose: Callable[[], None]) -> Callable[[], None]:
        both = create_memo(lambda: (a(), b()))
        create_effect(lambda: seen.append(both()))
        return dispose

    dispose = create_root(root)
    together(lambda: write_pairs(db, 1000), lambda: write_pairs(db, 2000))
    dispose()

    assert all(one == other for one, other in seen), seen
    assert seen[-1] == (a.peek(), b.peek())


def test_an_unobserved_memo_never_shows_half_a_commit(db: Database) -> None:
    a, b = db.observe_value("SELECT v FROM a"), db.observe_value("SELECT v FROM b")
    both = create_memo(lambda: (a(), b()))
    a.subscribe(lambda _: None)
    b.subscribe(lambda _: None)
    seen: list[tuple[Any, Any]] = []
    with beside(lambda: write_pairs(db, 1000)) as writing:
        while not writing.done():
            seen.append(both())
    assert all(one == other for one, other in seen), seen
    assert both() == (1000 + ROUNDS - 1, 1000 + ROUNDS - 1)


def test_an_effect_over_several_queries_runs_once_per_commit(db: Database) -> None:
    a, b = db.observe_value("SELECT v FROM a"), db.observe_value("SELECT v FROM b")
    seen: list[tuple[Any, Any]] = []

    def root(dispose: Callable[[], None]) -> Callable[[], None]:
        create_effect(lambda: seen.append((a(), b())))
        return dispose

    dispose = create_root(root)
    with db.transaction():
        write_a(db, 1)
        db.execute("UPDATE b SET v = 1")
    dispose()
    db.execute("UPDATE b SET v = 2")

    assert seen == [(0, 0), (1, 1)]


def test_values_appear_in_commit_order(db: Database) -> None:
    query = db.observe_value("SELECT v FROM a")
    seen: list[Recorder[int]] = [Recorder() for _ in range(3)]
    for recorder in seen:
        query.subscribe(recorder.on_next)

    def count() -> None:
        for _ in range(ROUNDS):
            db.execute("UPDATE a SET v = v + 1")

    together(count, count, count, count)

    for recorder in seen:
        assert recorder.values == sorted(set(recorder.values)), "later values are larger here"
        assert recorder.last == 4 * ROUNDS


def test_subscribing_while_others_write_loses_no_change(db: Database) -> None:
    query = db.observe_value("SELECT v FROM a")
    late: list[Recorder[int]] = []

    def count() -> None:
        for _ in range(ROUNDS):
            db.execute("UPDATE a SET v = v + 1")

    def subscribe() -> None:
        for number in range(ROUNDS):
            recorder: Recorder[int] = Recorder()
            subscription = query.subscribe(recorder.on_next)
            assert recorder.values, "the current value comes at once"
            if number % 2:
                subscription.dispose()
            else:
                late.append(recorder)

    together(count, count, subscribe, subscribe)

    for recorder in late:
        assert recorder.values == sorted(set(recorder.values)), "no value comes twice, none back"
        assert recorder.last == 2 * ROUNDS


def test_listeners_may_come_and_go_on_any_thread(
    db: Database, observer_errors: list[BaseException]
) -> None:
    def count() -> None:
        for _ in range(ROUNDS):
            db.execute("UPDATE a SET v = v + 1")

    def come_and_go() -> None:
        for _ in range(ROUNDS):
            subscriptions = [db.changes("a").subscribe(lambda _: None) for _ in range(5)]
            for subscription in subscriptions:
                subscription.dispose()

    together(count, count, come_and_go, come_and_go)

    assert db.observe_value("SELECT v FROM a").peek() == 2 * ROUNDS
    assert observer_errors == []


# -- when a write call returns ---------------------------------------------------------------------


def test_observers_have_been_called_once_when_a_write_returns(
    db: Database, recorder: Recorder[Any]
) -> None:
    db.observe_value("SELECT v FROM a").subscribe(recorder.on_next)
    write_a(db, 1)
    assert recorder.values == [0, 1]
    assert set(recorder.threads) == {threading.current_thread()}


def test_observers_are_called_on_the_thread_that_committed(
    db: Database, recorder: Recorder[Any]
) -> None:
    db.observe_value("SELECT v FROM a").subscribe(recorder.on_next)

    def write() -> threading.Thread:
        write_a(db, 1)
        return threading.current_thread()

    thread = elsewhere(write)
    assert recorder.threads == [threading.current_thread(), thread]


def test_a_scheduler_calls_on_its_own_thread(db: Database, recorder: Recorder[Any]) -> None:
    scheduler = EventLoopScheduler()
    subscription = db.observe_value("SELECT v FROM a").subscribe(
        recorder.on_next, scheduler=scheduler
    )
    recorder.wait_for_count(1)
    write_a(db, 1)
    recorder.wait_for(lambda value: value == 1)
    subscription.dispose()
    scheduler.dispose()
    assert threading.current_thread() not in recorder.threads
    assert recorder.values == [0, 1]


def test_accessors_show_a_write_while_another_thread_delivers(db: Database) -> None:
    query = db.observe_value("SELECT v FROM a")
    entered, leave = threading.Event(), threading.Event()

    def slow(value: int) -> None:
        if value == 1:
            entered.set()
            assert leave.wait(10)

    query.subscribe(slow)
    with beside(lambda: write_a(db, 1)):
        assert entered.wait(10)
        write_a(db, 2)
        assert (query(), query.peek()) == (2, 2), "what this thread wrote it can read"
        leave.set()


def test_a_slow_callback_never_delays_the_writes_of_another_thread(
    db: Database, recorder: Recorder[Any]
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(value: int) -> None:
        if value == 1:
            entered.set()
            assert leave.wait(10)

    query = db.observe_value("SELECT v FROM a")
    query.subscribe(slow)
    query.subscribe(recorder.on_next)
    with beside(lambda: write_a(db, 1)):
        assert entered.wait(10)
        for number in range(2, 12):
            write_a(db, number)
            with db.transaction():
                db.execute("UPDATE b SET v = ?", [number])
        assert not leave.is_set()
        leave.set()
    assert recorder.last == 11, "what queued behind the slow callback is told in the end"
    assert recorder.values == sorted(set(recorder.values))


def test_a_write_is_not_held_captive_by_the_writes_of_others(db: Database) -> None:
    delivering, returned = threading.Event(), threading.Event()

    def flood() -> None:
        assert delivering.wait(10)
        until = time.monotonic() + 20
        while not returned.is_set() and time.monotonic() < until:
            db.execute("UPDATE a SET v = v + 1")
        assert returned.is_set(), "the first write went on delivering for those that came later"

    def told(_: int) -> None:
        if threading.current_thread() is threading.main_thread():
            delivering.set()

    db.observe_value("SELECT v FROM a").subscribe(told)
    seen: Recorder[int] = Recorder()
    db.observe_value("SELECT v + 1 FROM a").subscribe(seen.on_next)
    delivering.clear()
    with beside(flood), beside(flood):
        write_a(db, 0.5)
        returned.set()
    seen.wait_for(lambda value: value == db.observe_value("SELECT v + 1 FROM a").peek())


def test_a_scheduler_that_fails_never_reaches_the_writer(
    db: Database, observer_errors: list[BaseException], recorder: Recorder[Any]
) -> None:
    scheduler = EventLoopScheduler()
    query = db.observe_value("SELECT v FROM a")
    query.subscribe(lambda _: None, scheduler=scheduler)
    query.subscribe(recorder.on_next)
    scheduler.dispose()
    write_a(db, 1)
    assert recorder.values == [0, 1]
    assert [type(error).__name__ for error in observer_errors] == ["DisposedException"]


# -- what callbacks may do -------------------------------------------------------------------------


def test_deliveries_queue_and_never_nest(db: Database) -> None:
    query = db.observe_value("SELECT v FROM a")
    depth, deepest, seen = 0, 0, list[int]()

    def write_on(value: int) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        seen.append(value)
        if 0 < value < 5:
            write_a(db, value + 1)
            assert query.peek() == value + 1, "inside a callback values are current"
        depth -= 1

    query.subscribe(write_on)
    write_a(db, 1)

    assert seen == [0, 1, 2, 3, 4, 5], "the outermost write returns when all is told"
    assert deepest == 1


def test_a_later_subscriber_is_not_told_values_in_the_wrong_order(
    db: Database, recorder: Recorder[Any]
) -> None:
    query = db.observe_value("SELECT v FROM a")
    query.subscribe(lambda value: write_a(db, 2) if value == 1 else None)
    query.subscribe(recorder.on_next)
    write_a(db, 1)
    assert recorder.values in ([0, 1, 2], [0, 2]), "commits may merge, never swap"


def test_a_callback_may_open_transactions(db: Database, recorder: Recorder[Any]) -> None:
    def copy(value: int) -> None:
        with db.transaction():
            db.execute("UPDATE b SET v = ?", [value])
            with db.transaction():
                db.execute("INSERT INTO b VALUES (?)", [value])

    db.observe("SELECT v FROM b").subscribe(recorder.on_next)
    db.observe_value("SELECT v FROM a").subscribe(copy)
    recorder.take()
    write_a(db, 7)
    assert recorder.values == [[{"v": 7}, {"v": 7}, {"v": 7}]]


def test_a_callback_may_subscribe(db: Database, recorder: Recorder[Any]) -> None:
    query = db.observe_value("SELECT v FROM a")

    def subscribe(value: int) -> None:
        if value == 1:
            query.subscribe(recorder.on_next)
            db.observe_value("SELECT v FROM b").subscribe(recorder.on_next)

    query.subscribe(subscribe)
    write_a(db, 1)
    assert recorder.values == [1, 0], "each begins with the current value, told once"
    write_a(db, 2)
    assert recorder.values == [1, 0, 2]


def test_a_callback_may_dispose_itself_and_others(db: Database) -> None:
    query = db.observe_value("SELECT v FROM a")
    seen: list[tuple[str, int]] = []

    def first(value: int) -> None:
        seen.append(("first", value))
        if value == 1:
            mine.dispose()
            other.dispose()

    mine = query.subscribe(first)
    other = query.subscribe(lambda value: seen.append(("other", value)))
    query.subscribe(lambda value: seen.append(("last", value)))
    write_a(db, 1)
    write_a(db, 2)

    assert seen[3:] == [("first", 1), ("last", 1), ("last", 2)], "what was pending is dropped"


def test_a_disposed_subscription_hears_nothing_more(db: Database, recorder: Recorder[Any]) -> None:
    subscription = db.observe_value("SELECT v FROM a").subscribe(recorder.on_next)
    subscription.dispose()
    subscription.dispose()
    write_a(db, 1)
    assert recorder.values == [0]


def test_an_effect_that_writes_settles_before_the_write_returns(db: Database) -> None:
    a, b = db.observe_value("SELECT v FROM a"), db.observe_value("SELECT v FROM b")
    seen: list[int] = []

    def root(dispose: Callable[[], None]) -> Callable[[], None]:
        create_effect(lambda: write_b(db, a()))
        create_effect(lambda: seen.append(b()))
        return dispose

    dispose = create_root(root)
    write_a(db, 3)
    assert seen == [0, 3]
    dispose()


def test_a_batch_of_signals_holds_effects_back_not_accessors(db: Database) -> None:
    a = db.observe_value("SELECT v FROM a")
    seen: list[int] = []

    def root(dispose: Callable[[], None]) -> Callable[[], None]:
        create_effect(lambda: seen.append(a()))
        return dispose

    dispose = create_root(root)
    with batch():
        write_a(db, 1)
        assert a.peek() == 1
        write_a(db, 2)
    assert seen == [0, 2]
    dispose()


def test_a_callback_reads_untracked(db: Database) -> None:
    a, b = db.observe_value("SELECT v FROM a"), db.observe_value("SELECT v FROM b")
    runs: list[int] = []

    def effect() -> None:
        runs.append(a())
        b.subscribe(lambda _: b()).dispose()

    def root(dispose: Callable[[], None]) -> Callable[[], None]:
        create_effect(effect)
        return dispose

    dispose = create_root(root)
    db.execute("UPDATE b SET v = 9")
    assert runs == [0], "what a callback reads is no dependency of the effect that subscribed it"
    dispose()


# -- errors ----------------------------------------------------------------------------------------


class Broken(Exception):
    """What the observers of these tests raise."""


def raising(value: Any) -> None:
    if value == 1:
        raise Broken(value)


def test_an_error_never_reaches_the_writer_nor_other_subscribers(
    db: Database, observer_errors: list[BaseException], recorder: Recorder[Any]
) -> None:
    query = db.observe_value("SELECT v FROM a")
    query.subscribe(raising)
    query.subscribe(recorder.on_next)

    write_a(db, 1)

    assert recorder.values == [0, 1]
    assert [type(error) for error in observer_errors] == [Broken]
    assert db.observe_value("SELECT v FROM a").peek() == 1, "the commit stands"


def test_an_error_goes_to_the_subscribers_own_on_error_which_lives_on(
    db: Database, observer_errors: list[BaseException], recorder: Recorder[Any]
) -> None:
    seen: list[Any] = []

    def on_next(value: Any) -> None:
        seen.append(value)
        raising(value)

    db.observe_value("SELECT v FROM a").subscribe(on_next, recorder.on_error)
    write_a(db, 1)
    write_a(db, 2)
    assert [type(error) for error in recorder.errors] == [Broken]
    assert observer_errors == []
    assert seen == [0, 1, 2]


def test_an_error_of_on_error_goes_to_on_observer_error(
    db: Database, observer_errors: list[BaseException]
) -> None:
    def fail_again(error: Exception) -> None:
        raise LookupError("again") from error

    db.observe_value("SELECT v FROM a").subscribe(raising, fail_again)
    write_a(db, 1)
    assert [type(error) for error in observer_errors] == [LookupError]


def test_an_error_behind_operators_goes_to_on_observer_error(
    db: Database, observer_errors: list[BaseException], recorder: Recorder[Any]
) -> None:
    from reactivex import operators

    query = db.observe_value("SELECT v FROM a")
    query.pipe(operators.map(lambda v: v)).subscribe(raising)
    query.subscribe(recorder.on_next)
    write_a(db, 1)
    assert [type(error) for error in observer_errors] == [Broken]
    assert recorder.values == [0, 1]


def test_an_error_of_the_first_value_does_not_reach_the_subscriber_call(
    db: Database, observer_errors: list[BaseException]
) -> None:
    write_a(db, 1)
    db.observe_value("SELECT v FROM a").subscribe(raising)
    assert [type(error) for error in observer_errors] == [Broken]


def test_an_effects_error_goes_to_its_catch_error(
    db: Database, observer_errors: list[BaseException], recorder: Recorder[Any]
) -> None:
    query = db.observe_value("SELECT v FROM a")

    def root(dispose: Callable[[], None]) -> Callable[[], None]:
        catch_error(lambda: create_effect(lambda: raising(query())), recorder.on_error)
        return dispose

    dispose = create_root(root)
    write_a(db, 1)
    dispose()
    assert [type(error) for error in recorder.errors] == [Broken]
    assert observer_errors == []


def test_an_effects_error_without_handler_goes_to_on_observer_error(
    db: Database, observer_errors: list[BaseException], recorder: Recorder[Any]
) -> None:
    query = db.observe_value("SELECT v FROM a")

    def root(dispose: Callable[[], None]) -> Callable[[], None]:
        create_effect(lambda: raising(query()))
        create_effect(lambda: recorder.on_next(query()))
        return dispose

    dispose = create_root(root)
    write_a(db, 1)
    dispose()
    assert [type(error) for error in observer_errors] == [Broken]
    assert recorder.values == [0, 1], "every other effect still runs"


def test_errors_go_to_the_threads_hook_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    hooked: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", hooked.append)
    with Database(memory=True) as db:
        db.execute("CREATE TABLE t(v)")
        db.observe_value("SELECT count(*) FROM t").subscribe(raising)
        db.execute("INSERT INTO t VALUES (1)")
        assert [args.exc_type for args in hooked] == [Broken]


async def test_errors_go_to_the_running_loops_handler_by_default() -> None:
    handled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: handled.append(context))
    with Database(memory=True) as db:
        db.execute("CREATE TABLE t(v)")
        db.observe_value("SELECT count(*) FROM t").subscribe(raising)
        db.execute("INSERT INTO t VALUES (1)")
        assert [type(context["exception"]) for context in handled] == [Broken]


def test_an_error_of_a_listener_never_reaches_the_writer(
    db: Database, observer_errors: list[BaseException], recorder: Recorder[Any]
) -> None:
    def fail(_: Any) -> None:
        raise Broken

    db.changes().subscribe(fail)
    db.changes().subscribe(recorder.on_next)
    write_a(db, 1)
    assert [type(error) for error in observer_errors] == [Broken]
    assert len(recorder.values) == 1


def test_sqlite_errors_in_a_callback_are_its_own(
    db: Database, observer_errors: list[BaseException]
) -> None:
    def on_next(value: int) -> None:
        if value:
            db.execute("INSERT INTO nowhere VALUES (1)")

    db.observe_value("SELECT v FROM a").subscribe(on_next)
    write_a(db, 1)
    assert [type(error) for error in observer_errors] == [sqlite3.OperationalError]


def test_who_was_disposed_meanwhile_asks_nothing_of_its_scheduler_any_more(
    tmp_path: Path,
) -> None:
    reported: list[BaseException] = []
    path = tmp_path / "disposed.db"
    with Database(path, watch=False, on_observer_error=reported.append) as db:
        db.execute("CREATE TABLE gone(n)")
        query = db.observe_value("SELECT count(*) FROM gone")
        scheduler = EventLoopScheduler()
        late: list[DisposableBase] = []

        def dispose(count: int) -> None:
            if count:
                late[0].dispose()
                scheduler.dispose()

        query.subscribe(dispose)
        late.append(query.subscribe(lambda _: None, scheduler=scheduler))
        db.execute("INSERT INTO gone VALUES (1)")
    assert reported == []
