"""Feeds: each consumer gets every change of its tables, in order, from where it left off."""

from __future__ import annotations

import asyncio
import gc
import pickle
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from reactivex.abc import DisposableBase
from reactivex.scheduler import EventLoopScheduler

from reactive_sqlite import (
    Change,
    ConsumerDropped,
    Database,
    DatabaseClosed,
    DatabaseReplaced,
    FeedStatus,
    NotTracked,
    ReactiveError,
    sqlite3,
)
from reactive_sqlite.aio import AsyncDatabase
from tests.reactive_sqlite.feed_programs import statements
from tests.recorder import Recorder

PROGRAMS = "tests.reactive_sqlite.feed_programs"
Changes = Recorder[Change]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "feed.db"


@pytest.fixture
def db(path: Path) -> Iterator[Database]:
    with Database(path, watch=False) as db:
        db.executescript("CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(v)")
        db["t"].track()
        db["u"].track()
        yield db


@pytest.fixture
def other(db: Database, path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def insert(db: Database, *ids: int) -> None:
    for id in ids:
        db["t"].insert({"id": id, "v": 0})


def keys(changes: list[Change]) -> list[Any]:
    return [change.key for change in changes]


# -- cursors --------------------------------------------------------------------------------------


def test_a_new_consumer_begins_now_or_at_the_beginning(db: Database) -> None:
    insert(db, 1, 2)
    late, early = db.feed("late", "t"), db.feed("early", "t", start="beginning")
    insert(db, 3)
    assert keys(late.due()) == [3]
    assert keys(early.due()) == [1, 2, 3]


def test_a_known_consumer_goes_on_where_it_left_off(db: Database, path: Path) -> None:
    feed = db.feed("c", "t")
    insert(db, 1, 2, 3)
    feed.ack(feed.due()[1])
    assert keys(db.feed("c", "t", start="beginning").due()) == [3], "start is for a new one only"
    with Database(path, watch=False) as again:
        assert keys(again.feed("c", "t").due()) == [3]


def test_what_is_not_acknowledged_comes_again(db: Database) -> None:
    feed = db.feed("c", "t")
    insert(db, 1, 2)
    assert keys(feed.due()) == keys(feed.due()) == [1, 2]


def test_acknowledging_an_older_change_is_no_step_back(db: Database) -> None:
    feed = db.feed("c", "t")
    insert(db, 1, 2, 3)
    first, _, third = feed.due()
    feed.ack(third)
    feed.ack(first)
    assert feed.due() == []
    assert feed.cursor == third.seq


def test_acknowledging_in_a_transaction_counts_when_it_is_committed(db: Database) -> None:
    feed = db.feed("c", "t")
    insert(db, 1)
    (change,) = feed.due()
    with pytest.raises(ZeroDivisionError), db.transaction():
        feed.ack(change)
        raise ZeroDivisionError
    assert feed.due() == [change]
    with db.transaction():
        feed.ack(change)
    assert feed.due() == []


def test_consumers_never_disturb_each_other(db: Database) -> None:
    one, two = db.feed("one", "t"), db.feed("two", "t")
    insert(db, 1, 2)
    one.ack(one.due()[-1])
    assert (one.due(), keys(two.due())) == ([], [1, 2])


def test_a_feed_gives_the_tables_it_was_asked_for_in_order(db: Database) -> None:
    t, u, both = db.feed("t", "t"), db.feed("u", "U"), db.feed("both", "t", "u")
    everything = db.feed("everything")
    db.execute("CREATE TABLE later(id INTEGER PRIMARY KEY)")
    db["later"].track()
    insert(db, 1)
    db["u"].insert({"v": 1})
    db["later"].insert({"id": 5})
    insert(db, 2)
    assert keys(t.due()) == [1, 2]
    assert [c.table for c in u.due()] == ["u"]
    assert [c.table for c in both.due()] == ["t", "u", "t"]
    assert [c.table for c in everything.due()] == ["t", "u", "later", "t"]


def test_a_consumer_may_come_back_for_other_tables(db: Database) -> None:
    db.feed("c", "t")
    insert(db, 1)
    db["u"].insert({"v": 1})
    assert [c.table for c in db.feed("c", "u").due()] == ["u"]
    assert [status.tables for status in db.feeds()] == [("u",)]


def test_many_changes_that_concern_nobody_are_passed_by(db: Database) -> None:
    feed = db.feed("c", "t", batch_size=3)
    with db.transaction():
        db["u"].insert_all({"v": n} for n in range(1000))
    insert(db, 1, 2, 3, 4, 5)
    assert keys(feed.due()) == [1, 2, 3]
    assert keys(feed.due(100)) == [1, 2, 3, 4, 5]
    db.execute("UPDATE t SET v = v")
    assert keys(feed.due(6)) == [1, 2, 3, 4, 5], "what changed nothing is no change"


def test_feeds_tell_who_reads_what_and_how_far_behind(db: Database) -> None:
    db.feed("b", "u", "t")
    feed = db.feed("a")
    insert(db, 1, 2)
    feed.ack(feed.due()[0])
    assert db.feeds() == [FeedStatus("a", None, 1, 1), FeedStatus("b", ("t", "u"), 0, 2)]


def test_a_dropped_consumer_has_no_cursor(db: Database) -> None:
    feed = db.feed("c", "t")
    insert(db, 1)
    (change,) = feed.due()
    assert db.drop_consumer("c")
    for call in (lambda: feed.ack(change), feed.due, lambda: feed.cursor, lambda: list(feed)):
        with pytest.raises(ConsumerDropped, match="'c' was dropped") as caught:
            call()
        assert caught.value.consumer == "c"
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert db.feed("c", "t").due() == [], "it begins anew"


# -- bad input ------------------------------------------------------------------------------------


def test_a_table_that_is_not_tracked_is_refused_by_name(db: Database) -> None:
    db.execute("CREATE TABLE loose(v)")
    for name in ("loose", "nowhere"):
        with pytest.raises(NotTracked, match=rf"db\['{name}'\].track\(\)") as caught:
            db.feed("c", "t", name)
        assert caught.value.table == name
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert db.feeds() == [], "nothing was written"


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "\ud800", 5, None])
def test_what_is_no_name_of_a_consumer_is_refused(db: Database, name: Any) -> None:
    with pytest.raises(ValueError, match="name of a consumer"):
        db.feed(name, "t")


@pytest.mark.parametrize("name", ["it's", 'say "x"', "x; DROP TABLE t; --", "ünï 💥", "%_?"])
def test_any_printable_name_is_a_name(db: Database, name: str) -> None:
    insert(db, 1)
    feed = db.feed(name, "t", start="beginning")
    feed.ack(feed.due()[0])
    assert [status.consumer for status in db.feeds()] == [name]
    assert db.drop_consumer(name)


def test_other_arguments_are_checked(db: Database) -> None:
    with pytest.raises(ValueError, match='"now" or "beginning"'):
        db.feed("c", "t", start="later")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    for size in (0, -1, True, 1.5, None):
        with pytest.raises(ValueError, match="batch_size"):
            db.feed("c", "t", batch_size=size)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    feed = db.feed("c", "t")
    with pytest.raises(ValueError, match="limit"):
        feed.due(0)
    with pytest.raises(TypeError, match="a Change is acknowledged"):
        feed.ack(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_tables_with_awkward_names(db: Database) -> None:
    for name in ('it"s', "a b", "x','y", "[z]", "ünï", "select"):
        db.execute('CREATE TABLE "{}"(id INTEGER PRIMARY KEY)'.format(name.replace('"', '""')))
        db[name].track()
        feed = db.feed(name, name)
        db[name].insert({"id": 1})
        assert [(c.table, c.key) for c in feed.due()] == [(name, 1)]
        assert [s.lag for s in db.feeds() if s.consumer == name] == [1]


def test_a_read_only_database_reads_what_is_due_for_a_known_consumer(
    db: Database, path: Path
) -> None:
    db.feed("c", "t")
    insert(db, 1)
    with Database(path, read_only=True, watch=False) as reader:
        feed = reader.feed("c", "t")
        assert keys(feed.due()) == [1]
        writes: list[Callable[[], Any]] = [
            lambda: feed.ack(feed.due()[0]),
            lambda: reader.feed("new", "t"),
        ]
        for write in writes:
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                write()


# -- only what is committed -----------------------------------------------------------------------


def test_a_feed_cannot_be_read_inside_a_transaction(db: Database) -> None:
    feed = db.feed("c", "t", start="beginning")
    with db.transaction():
        insert(db, 1)
        with pytest.raises(ReactiveError, match="inside a transaction"):
            feed.due()
        with pytest.raises(ReactiveError, match="inside a transaction"):
            next(iter(feed))
    assert keys(feed.due()) == [1]


def test_rolled_back_changes_never_come(db: Database, other: sqlite3.Connection) -> None:
    feed = db.feed("c", "t")
    other.executescript("BEGIN; INSERT INTO t VALUES (1, 0); ROLLBACK")
    other.execute("INSERT INTO t VALUES (2, 0)")
    assert keys(feed.due()) == [2]


# -- iterating ------------------------------------------------------------------------------------


class Reader(threading.Thread):
    """Iterates over a feed and acknowledges, in a thread of its own."""

    def __init__(self, feed: Any) -> None:
        super().__init__(daemon=True)
        self.feed = feed
        self.seen = Changes()
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for change in self.feed:
                self.feed.ack(change)
                self.seen.on_next(change)
        except BaseException as error:
            self.error = error

    def ended(self) -> BaseException | None:
        self.join(10)
        assert not self.is_alive(), "the iteration has ended"
        return self.error


def test_iterating_waits_for_more_and_ends_with_the_database(db: Database) -> None:
    insert(db, 1)
    reader = Reader(db.feed("c", "t", start="beginning"))
    insert(db, 2)
    reader.seen.wait_for_count(2)
    with db.transaction():
        insert(db, 3, 4)
    assert keys(reader.seen.wait_for_count(4)) == [1, 2, 3, 4]
    db.close()
    assert reader.ended() is None


def test_iterating_takes_what_others_commit(path: Path, db: Database) -> None:
    db.close()
    with Database(path) as watched:
        reader = Reader(watched.feed("c", "t"))
        other = sqlite3.connect(path, isolation_level=None)
        for id in range(50):
            other.execute("INSERT INTO t VALUES (?, 0)", [id])
            reader.seen.wait_for_count(id + 1)
        other.close()
        assert keys(reader.seen.values) == list(range(50))


def test_iterating_again_begins_after_the_last_acknowledged(db: Database) -> None:
    insert(db, 1, 2, 3)
    feed = db.feed("c", "t", start="beginning", batch_size=2)
    changes = iter(feed)
    feed.ack(next(changes))
    assert next(changes).key == 2
    assert next(iter(feed)).key == 2


def test_a_replaced_file_ends_the_iteration_with_an_error(path: Path, db: Database) -> None:
    db.close()
    with Database(path) as watched:
        seen = Changes()
        feed = watched.feed("c", "t")
        feed.observe().subscribe(seen.on_next, seen.on_error)
        reader = Reader(feed)
        path.unlink()
        assert isinstance(reader.ended(), DatabaseReplaced)
        assert isinstance(seen.wait_for_error(), DatabaseReplaced)


def test_a_closed_feed_ends_what_reads_it_and_nothing_else(db: Database) -> None:
    feed, seen = db.feed("c", "t"), Changes()
    feed.observe().subscribe(seen.on_next, seen.on_error, seen.on_completed)
    reader = Reader(feed)
    insert(db, 1)
    reader.seen.wait_for_count(1)
    feed.close()
    assert reader.ended() is None
    assert seen.completed == 1
    insert(db, 2)
    assert keys(seen.values) == [1]
    assert keys(feed.due()) == [2]


def test_after_close_every_call_says_so(db: Database) -> None:
    feed = db.feed("c", "t")
    db.close()
    calls: list[Any] = [feed.due, lambda: list(feed), lambda: feed.cursor, db.feeds, db.tracked]
    calls += [lambda: db.feed("c", "t"), lambda: db.drop_consumer("c"), db.trim_feed]
    for call in calls:
        with pytest.raises(DatabaseClosed):
            call()


# -- observing ------------------------------------------------------------------------------------


def test_an_observer_is_told_every_change_in_order(db: Database, other: sqlite3.Connection) -> None:
    insert(db, *range(10))
    seen = Changes()
    db.feed("c", "t", start="beginning", batch_size=3).observe().subscribe(
        seen.on_next, seen.on_error, seen.on_completed
    )
    assert keys(seen.values) == list(range(10)), "those that were there, before subscribe returns"
    insert(db, 10)
    assert keys(seen.values)[-1] == 10, "and before the write returns"
    other.execute("INSERT INTO t VALUES (11, 0), (12, 0)")
    db.broker.check()
    assert keys(seen.values) == list(range(13))
    db.close()
    assert seen.completed == 1


def test_two_observers_of_a_feed_are_told_all_of_it(db: Database) -> None:
    insert(db, 1)
    feed = db.feed("c", "t", start="beginning")
    one, two = Changes(), Changes()
    feed.observe().subscribe(one.on_next)
    insert(db, 2)
    feed.observe().subscribe(two.on_next)
    insert(db, 3)
    assert keys(one.values) == keys(two.values) == [1, 2, 3]


def test_an_observer_may_acknowledge_write_and_leave(db: Database) -> None:
    seen = Changes()
    feed = db.feed("c", "t")

    def told(change: Change) -> None:
        seen.on_next(change)
        feed.ack(change)
        if change.key < 5:
            insert(db, change.key + 1)
        else:
            subscription.dispose()

    subscription = feed.observe().subscribe(told)
    insert(db, 1)
    assert keys(seen.values) == [1, 2, 3, 4, 5]
    insert(db, 6)
    assert len(seen.values) == 5
    assert keys(feed.due()) == [6]


def test_an_observer_inside_a_transaction_is_told_at_its_end(db: Database) -> None:
    seen = Changes()
    insert(db, 1)
    feed = db.feed("c", "t", start="beginning")
    for commits in (False, True):
        db.execute("BEGIN")
        insert(db, 2)
        subscription = feed.observe().subscribe(seen.on_next)
        assert seen.values == []
        db.execute("COMMIT" if commits else "ROLLBACK")
        assert keys(seen.take()) == ([1, 2] if commits else [1])
        subscription.dispose()


def test_an_observers_error_is_its_own_and_the_rest_is_told(tmp_path: Path) -> None:
    errors: list[BaseException] = []
    with Database(tmp_path / "e.db", watch=False, on_observer_error=errors.append) as db:
        db["t"].insert({"id": 0, "v": 0}, pk="id")
        db["t"].track()
        seen = Changes()

        def told(change: Change) -> None:
            seen.on_next(change)
            raise ZeroDivisionError(change.key)

        db.feed("c", "t").observe().subscribe(told)
        insert(db, 1, 2)
        assert keys(seen.values) == [1, 2]
        assert [str(error) for error in errors] == ["1", "2"]


def test_an_observer_on_a_scheduler_is_told_there_in_order(db: Database) -> None:
    scheduler = EventLoopScheduler()
    seen = Changes()
    feed = db.feed("c", "t", batch_size=2)
    subscription = feed.observe().subscribe(seen.on_next, scheduler=scheduler)
    insert(db, *range(20))
    assert keys(seen.wait_for_count(20)) == list(range(20))
    assert {thread is threading.main_thread() for thread in seen.threads} == {False}
    subscription.dispose()
    scheduler.dispose()


def test_an_observer_that_was_disposed_meanwhile_asks_nothing_of_its_scheduler(
    tmp_path: Path,
) -> None:
    reported: list[BaseException] = []
    path = tmp_path / "disposed.db"
    with Database(path, watch=False, on_observer_error=reported.append) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
        db["t"].track()
        scheduler = EventLoopScheduler()
        late: list[DisposableBase] = []

        def dispose(_: Change) -> None:
            late[0].dispose()
            scheduler.dispose()

        db.feed("a", "t").observe().subscribe(dispose)
        late.append(db.feed("b", "t").observe().subscribe(scheduler=scheduler))
        insert(db, 1)
    assert reported == []


def test_writers_of_many_threads_are_told_in_the_order_of_the_log(db: Database) -> None:
    seen = Changes()
    db.feed("c", "t").observe().subscribe(seen.on_next)
    threads = [
        threading.Thread(target=insert, args=(db, *range(n * 1000, n * 1000 + 100)))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = seen.wait_for_count(400)
    assert [change.seq for change in told] == list(range(1, 401))


def test_a_feed_that_was_dropped_is_not_kept(db: Database) -> None:
    feed = db.feed("c", "t")
    iteration = iter(feed)
    insert(db, 1)
    next(iteration)
    subscription = feed.observe().subscribe()
    assert len(db.broker.listeners.tails) == 2
    subscription.dispose()
    known = weakref.ref(feed)
    del feed, iteration, subscription
    gc.collect()
    assert known() is None
    assert not db.broker.listeners.tails


# -- on an event loop -----------------------------------------------------------------------------


@pytest.fixture
async def adb(tmp_path: Path) -> AsyncIterator[AsyncDatabase]:
    async with AsyncDatabase(tmp_path / "async.db") as adb:
        await adb.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        await adb["t"].track()
        yield adb


async def add(adb: AsyncDatabase, *ids: int) -> None:
    for id in ids:
        await adb.execute("INSERT INTO t VALUES (?, 0)", [id])


async def test_an_async_feed_does_what_a_feed_does(adb: AsyncDatabase) -> None:
    feed = adb.feed("c", "t")
    await add(adb, 1, 2, 3)
    assert await adb.tracked() == ["t"]
    due = await feed.due()
    assert keys(due) == [1, 2, 3], "the consumer begins at the call, not at its first use"
    await feed.ack(due[0])
    assert await feed.cursor() == due[0].seq
    seen: list[Any] = []
    async with asyncio.timeout(10):
        async for change in feed:
            seen.append(change.key)
            if change.key < 6:
                await add(adb, change.key + 2)
            else:
                break
    assert seen == [2, 3, 4, 5, 6]
    assert [status.consumer for status in await adb.feeds()] == ["c"]
    assert await adb.drop_consumer("c")
    with pytest.raises(ConsumerDropped):
        await feed.ack(due[1])
    assert await adb.trim_feed() > 0
    await adb["t"].untrack()
    with pytest.raises(NotTracked):
        await adb.feed("d", "t").due()


async def test_an_async_iteration_ends_with_the_database(adb: AsyncDatabase) -> None:
    feed = adb.feed("c", "t")
    seen: list[Any] = []
    told = asyncio.Event()

    async def read() -> None:
        async for change in feed:
            seen.append(change.key)
            told.set()

    task = asyncio.create_task(read())
    await add(adb, 1)
    async with asyncio.timeout(10):
        await told.wait()
        await adb.close()
        await task
    assert seen == [1]


async def test_a_cancelled_async_iteration_leaves_nothing_behind(adb: AsyncDatabase) -> None:
    feed = adb.feed("c", "t")

    async def read() -> None:
        async for _ in feed:
            raise AssertionError

    task = asyncio.create_task(read())
    tails = (await adb.transact(lambda db: db.broker)).listeners.tails
    async with asyncio.timeout(10):
        while not tails:
            await feed.cursor()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not tails


async def test_an_async_observer_is_told_every_change_on_the_loop(adb: AsyncDatabase) -> None:
    await add(adb, 1)
    seen, done = Changes(), asyncio.Event()
    feed = adb.feed("c", "t", start="beginning")

    def told(change: Change) -> None:
        seen.on_next(change)
        if change.key == 3:
            done.set()

    ended = asyncio.Event()
    feed.observe().subscribe(told, on_completed=ended.set)
    await add(adb, 2, 3)
    async with asyncio.timeout(10):
        await done.wait()
        assert keys(seen.values) == [1, 2, 3]
        assert set(seen.threads) == {threading.current_thread()}
        await feed.close()
        await ended.wait()


async def test_an_async_observer_that_leaves_is_told_no_more(adb: AsyncDatabase) -> None:
    seen, told, done = Changes(), asyncio.Event(), asyncio.Event()

    def tell(change: Change) -> None:
        seen.on_next(change)
        told.set()

    subscription = adb.feed("c", "t").observe().subscribe(tell)
    adb.feed("d", "t").observe().subscribe(lambda change: done.set() if change.key == 2 else None)
    await add(adb, 1)
    async with asyncio.timeout(10):
        await told.wait()
        subscription.dispose()
        await add(adb, 2)
        await done.wait()
    assert keys(seen.values) == [1]


async def test_an_async_feed_of_a_table_without_a_log_says_so_to_its_observer(
    adb: AsyncDatabase,
) -> None:
    failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
    adb.feed("c", "nowhere").observe().subscribe(on_error=failed.set_result)
    async with asyncio.timeout(10):
        assert isinstance(await failed, NotTracked)


async def test_a_feed_of_the_synchronous_database_can_be_read_by_a_task(path: Path) -> None:
    with Database(path) as db:
        db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        db["t"].track()
        feed = db.feed("c", "t")
        seen: list[Any] = []

        async def read() -> None:
            async for change in feed:
                seen.append(change.key)
                feed.ack(change)
                if change.key == 3:
                    return

        async with asyncio.timeout(10):
            task = asyncio.create_task(read())
            await asyncio.sleep(0)
            insert(db, 1, 2)
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("INSERT INTO t VALUES (3, 0)")
            await task
            other.close()
        assert seen == [1, 2, 3]


# -- other processes ------------------------------------------------------------------------------

WRITERS, WRITES = 6, 500


def start(role: str, path: Path, name: str | int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", PROGRAMS, role, str(path), str(name), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=100)
    assert process.returncode == 0


def kill_after(process: subprocess.Popen[str], changes: int) -> None:
    """Kill a consumer that has acknowledged at least so many changes."""
    assert process.stdout is not None
    for _ in range(changes):
        if not process.stdout.readline():
            break
    process.kill()
    process.communicate()


@pytest.mark.timeout(180)
def test_every_consumer_sees_each_change_of_six_writers_once_in_commit_order(
    path: Path, sqlite3_cli: str
) -> None:
    with Database(path, watch=False) as db:
        db.executescript("""
            CREATE TABLE orders(id INTEGER PRIMARY KEY, state);
            CREATE TABLE noted(n INTEGER PRIMARY KEY, consumer, seq, op, key);
        """)
        db["orders"].track()
        db.feed("auditor", "orders")  # so that the whole log is kept
    total = WRITERS * WRITES
    early = start("consume", path, "early", total)
    killed = start("consume", path, "killed", total)
    writers = [start("write", path, writer, WRITES) for writer in range(1, WRITERS - 1)]
    for writer in range(WRITERS - 1, WRITERS + 1):
        process = subprocess.Popen(
            [sqlite3_cli, "-cmd", ".timeout 60000", str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        writers.append(process)
        assert process.stdin is not None
        process.stdin.write(";\n".join(statements(writer, WRITES)) + ";\n")
        process.stdin.close()
        process.stdin = None
    dice = random.Random(7)
    for _ in range(4):
        kill_after(killed, dice.randint(1, 300))
        killed = start("consume", path, "killed", total)
    for process in writers:
        ended(process)
    late = start("consume", path, "late", total)
    for process in (early, killed, late):
        ended(process)
    with Database(path, watch=False) as db:
        log = [(c.seq, c.op, c.key) for c in db.feed("auditor").due(total + 1)]
        assert len(log) == total
        assert [seq for seq, _, _ in log] == sorted({seq for seq, _, _ in log})
        assert {key for _, _, key in log if key < 0} == set(), "what was undone is not told"
        for consumer in ("early", "killed", "late"):
            noted = db.execute(
                "SELECT seq, op, key FROM noted WHERE consumer = ? ORDER BY n", [consumer]
            ).fetchall()
            assert noted == log, f"{consumer} has seen each change once, in order"
