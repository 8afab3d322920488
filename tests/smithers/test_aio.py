"""The workflow database on an event loop: the same calls awaited, observers served in time."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from reactivex.scheduler import EventLoopScheduler

from reactive_sqlite import (
    DatabaseClosed,
    NotReady,
    create_effect,
    create_memo,
    create_root,
    sqlite3,
)
from reactive_sqlite.asyncquery import AsyncObservableQuery
from smithers import (
    AsyncSmithersDB,
    AsyncStateKey,
    AsyncStateStore,
    CannotOpen,
    ReadOnly,
    SmithersDB,
    StateKey,
    StateTypeError,
    Transition,
    TransitionNotFound,
    create_async_smithers_db,
    create_smithers_db,
)
from smithers.aio import (
    AsyncAgents,
    AsyncApprovals,
    AsyncExecutions,
    AsyncMemories,
    AsyncPhases,
    AsyncSteps,
    AsyncTools,
    AsyncTriggers,
    AsyncVcs,
)
from smithers.db import Memories, State, Vcs
from smithers.storage.agents import Agents
from smithers.storage.approvals import Approvals
from smithers.storage.executions import Executions
from smithers.storage.phases import Phases
from smithers.storage.steps import Steps
from smithers.storage.tools import Tools
from smithers.triggers import Triggers
from tests.recorder import Recorder

ROOT = Path(__file__).parent.parent.parent
NOT_AWAITED = ("transitions", "key", "open", "on", "on_query")


@pytest.fixture
async def db(made: Path) -> AsyncIterator[AsyncSmithersDB]:
    async with create_async_smithers_db(made) as opened:
        yield opened


# -- one truth, two colours ------------------------------------------------------------------------


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("sync", "twin", "without", "besides"),
    [
        (State, AsyncStateStore, {"transitions_ahead"}, set[str]()),
        (StateKey, AsyncStateKey, set[str](), {"name", "type"}),
        # No transaction is held across an await.
        (
            SmithersDB,
            AsyncSmithersDB,
            {"transaction"},
            {
                *("transact", "database", "path", "state", "execution", "executions", "phases"),
                *("steps", "agents", "tools", "vcs", "memories", "approvals", "run", "triggers"),
            },
        ),
        (Executions, AsyncExecutions, set[str](), set[str]()),
        (Approvals, AsyncApprovals, set[str](), set[str]()),
        (Phases, AsyncPhases, set[str](), set[str]()),
        (Vcs, AsyncVcs, set[str](), set[str]()),
        (Memories, AsyncMemories, set[str](), {"session", "project"}),
        (Steps, AsyncSteps, set[str](), set[str]()),
        (Agents, AsyncAgents, set[str](), set[str]()),
        (Tools, AsyncTools, set[str](), set[str]()),
        (Triggers, AsyncTriggers, {"run_forever"}, {"deliver_forever"}),
    ],
)
def test_every_method_has_a_twin(
    sync: type, twin: type, without: set[str], besides: set[str]
) -> None:
    assert public(twin) == (public(sync) - without) | besides
    for name in public(sync) - without - besides:
        one, other = getattr(sync, name), getattr(twin, name)
        assert other.__doc__ == one.__doc__, name
        taken, given = inspect.signature(one), inspect.signature(other)
        assert [*taken.parameters.values()] == [*given.parameters.values()], name
        streams = name.startswith("observe") or name in NOT_AWAITED
        assert inspect.iscoroutinefunction(other) is not streams, name


def test_both_are_opened_with_the_same_arguments() -> None:
    one, other = inspect.signature(create_smithers_db), inspect.signature(create_async_smithers_db)
    assert one.parameters == other.parameters


async def test_every_call_does_what_its_synchronous_twin_does(db: AsyncSmithersDB) -> None:
    state = db.state
    first = await state.set("phase", "start", trigger="init")
    assert (first.id, first.trigger, await state.get("phase")) == ("t1", "init", "start")
    assert [t.key for t in await state.set_many({"a": 1, "b": 2})] == ["a", "b"]
    assert (await state.update("a", lambda n: n + 1)).value == 2
    assert await state.keys() == ["a", "b", "phase"]
    assert (await state.has("a"), await state.has("z")) == (True, False)
    before = await state.snapshot()
    assert before == await state.get_all() == {"a": 2, "b": 2, "phase": "start"}
    deleted = await state.delete("b")
    assert deleted is not None and deleted.deleted
    assert [entry.key for entry in await state.entries()] == ["a", "phase"]
    entry = await state.entry("a")
    assert entry is not None and entry.value == 2
    assert len(await state.reset()) == 2
    assert len(await state.restore(before)) == 3
    assert await state.state_at("t1") == {"phase": "start"}
    await state.replay_to("t1")
    assert await state.get_all() == {"phase": "start"}
    assert (await state.history(limit=1))[0].trigger == "replay:t1"
    assert await db.query("SELECT key FROM state WHERE key = $1", ["phase"]) == [{"key": "phase"}]
    assert (await db.stats())["state"] == 1
    assert db.path is not None and db.path.name == "db.sqlite"


async def test_errors_are_those_of_the_synchronous_twin(db: AsyncSmithersDB, path: Path) -> None:
    with pytest.raises(ValueError, match="a key"):
        db.state.observe("")
    with pytest.raises(ValueError, match="a key"):
        await db.state.get("")
    with pytest.raises(TypeError, match="state 'phase'"):
        await db.state.set("phase", object())
    with pytest.raises(TransitionNotFound):
        await db.state.replay_to("t9")
    with pytest.raises(ValueError, match="write=True"):
        await db.query("DELETE FROM state")
    async with create_async_smithers_db(path, read_only=True) as reader:
        with pytest.raises(ReadOnly):
            await reader.state.set("phase", 1)
    assert await db.state.history() == []


# -- observing -------------------------------------------------------------------------------------


async def test_observers_hear_on_the_loop_before_the_await_of_the_write_returns(
    db: AsyncSmithersDB,
) -> None:
    told, effects, steps = Recorder[Any](), Recorder[Any](), Recorder[Transition]()
    whole, rows = Recorder[dict[str, Any]](), Recorder[list[dict[str, Any]]]()
    phase = db.state.observe("phase", "none")
    await phase
    phase.subscribe(told)
    db.state.observe_all().subscribe(whole)
    db.state.transitions().subscribe(steps)
    db.observe("SELECT count(*) AS n FROM state").subscribe(rows)
    await db.stats()
    upper = create_memo(lambda: phase().upper())
    effect = create_effect(lambda: effects(upper()))
    for number, name in enumerate(("start", "review", "done"), start=1):
        await db.state.set("phase", name)
        assert (told.last, phase(), upper()) == (name, name, name.upper())
        assert (effects.last, whole.last) == (name.upper(), {"phase": name})
        assert [t.seq for t in steps.values] == list(range(1, number + 1))
    assert rows.values == [[{"n": 0}], [{"n": 1}]]
    effect.dispose()
    heard = {*told.threads, *effects.threads, *steps.threads, *whole.threads}
    assert heard == {threading.main_thread()}


async def test_transitions_miss_none_of_many_and_of_other_connections(
    db: AsyncSmithersDB, recorder: Recorder[Transition]
) -> None:
    assert db.path is not None
    arrived = asyncio.Event()

    def tell(transition: Transition) -> None:
        recorder(transition)
        if transition.value == "end":
            arrived.set()
        if transition.seq == 3:
            raise KeyError("a subscriber's own error")

    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    db.state.transitions("n").subscribe(tell)
    await db.state.set_many({f"key {number}": number for number in range(1_200)})
    await db.transact(lambda sync: [sync.state.set("n", number) for number in range(1_200)])
    assert [t.value for t in recorder.values] == list(range(1_200))
    connection = sqlite3.connect(db.path, isolation_level=None)
    connection.execute("UPDATE state SET value = '1' WHERE key = 'n'")
    connection.execute("""UPDATE state SET value = '"end"' WHERE key = 'n'""")
    connection.close()
    async with asyncio.timeout(10):
        await arrived.wait()
    assert [t.value for t in recorder.values[1_200:]] == [1, "end"]
    assert reported == []


async def test_transitions_take_a_scheduler_and_end_when_the_database_closes(path: Path) -> None:
    plain, scheduled = Recorder[Transition](), Recorder[Transition]()
    scheduler = EventLoopScheduler()
    async with create_async_smithers_db(path) as opened:
        opened.state.transitions().subscribe(plain, on_completed=plain.on_completed)
        elsewhere = opened.state.transitions().subscribe(scheduled, scheduler=scheduler)
        await opened.state.set("a", 1)
        await asyncio.to_thread(scheduled.wait_for_count, 1)
        elsewhere.dispose()
    scheduler.dispose()
    assert ([t.value for t in plain.values], plain.completed) == ([1], 1)
    assert [t.value for t in scheduled.values] == [1]
    assert threading.main_thread() not in scheduled.threads


async def test_an_error_of_a_subscriber_goes_to_the_loop_and_it_is_told_on(
    db: AsyncSmithersDB,
) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    seen: list[int] = []

    def fails(transition: Transition) -> None:
        seen.append(transition.seq)
        raise KeyError(transition.id)

    db.state.transitions().subscribe(fails)
    await db.state.set("a", 1)
    await db.state.set("a", 2)
    await asyncio.sleep(0)
    assert seen == [1, 2]
    assert [type(context["exception"]) for context in reported] == [KeyError, KeyError]


async def test_a_pair_is_awaited_and_follows_writes_from_anywhere(
    db: AsyncSmithersDB, path: Path
) -> None:
    phase, set_phase = await db.state.signal("phase", "start")
    assert (phase(), await db.state.has("phase")) == ("start", False), "the default is not written"
    assert (await set_phase("review", trigger="tests_passed")).trigger == "tests_passed"
    assert phase() == "review"
    assert (await set_phase(str.upper)).value == "REVIEW"
    assert phase() == "REVIEW"
    waiting = asyncio.create_task(phase.first(lambda value: value == "done", timeout=10))
    await asyncio.to_thread(write_elsewhere, path, "phase", "done")
    assert await waiting == "done"
    assert phase() == "done"


def write_elsewhere(path: Path, key: str, value: Any) -> None:
    with create_smithers_db(path) as other:
        other.state.set(key, value)


async def test_a_pair_is_followed_until_it_is_dropped_or_its_owner_disposed(
    db: AsyncSmithersDB,
) -> None:
    async def live() -> int:
        return await db.transact(lambda sync: len(sync.database.broker.live))

    pair = await db.state.signal("phase")
    assert await live() == 1
    del pair
    gc.collect()
    await db.state.set("phase", 1)
    assert await live() == 0

    ready: asyncio.Future[AsyncObservableQuery[Any]] = asyncio.get_running_loop().create_future()

    async def follows() -> None:
        get, _ = await db.state.signal("phase")
        ready.set_result(get)

    dispose = create_root(lambda dispose: (create_effect(follows), dispose)[1])
    phase = await ready
    assert (phase(), await live()) == (1, 1)
    dispose()
    with pytest.raises(NotReady):
        phase()
    # Letting go never waits for whoever has the connection just then: the next write sees to it.
    await db.state.set("phase", 2)
    assert await live() == 0
    assert await phase == 2


async def test_typed_keys_are_awaited(db: AsyncSmithersDB) -> None:
    attempts = db.state.key("attempts", int, default=0)
    assert (attempts.name, attempts.type, await attempts.get()) == ("attempts", int, 0)
    get, set_attempts = await attempts.signal()
    assert (await attempts.set(1), await set_attempts(2))[1].previous_value == 1
    await attempts.update(lambda n: n + 1)
    await set_attempts(lambda n: n + 1, trigger="more")
    assert (get(), await attempts.observe()) == (4, 4)
    with pytest.raises(StateTypeError, match="state 'attempts'"):
        await attempts.set("x")  # type: ignore[arg-type]  # pyright: ignore
    await db.state.set("attempts", "many")
    with pytest.raises(StateTypeError, match="state 'attempts'"):
        await attempts.get()
    assert repr(attempts) == "AsyncStateKey('attempts', int)"


async def test_a_loop_over_a_key_ends_with_the_database(path: Path) -> None:
    seen: list[Any] = []
    async with create_async_smithers_db(path) as db:
        task = asyncio.create_task(collect(db.state.observe("n", 0), seen))
        for number in range(1, 4):
            await db.state.set("n", number)
            await asyncio.sleep(0)
    await task
    assert seen == sorted(seen) and seen[-1] == 3, "overtaken values are skipped"


async def collect(query: AsyncObservableQuery[Any], seen: list[Any]) -> None:
    async for value in query:
        seen.append(value)


async def test_tables_of_the_users_own_share_the_file_and_the_worker(db: AsyncSmithersDB) -> None:
    await db.database.execute("CREATE TABLE todos (title TEXT)")
    rows = Recorder[list[dict[str, Any]]]()
    db.database["todos"].observe().subscribe(rows)
    await db.stats()
    await db.database.transact(lambda sync: sync["todos"].insert({"title": "tea"}))
    assert await db.query("SELECT title FROM todos") == [{"title": "tea"}]

    def both(sync: SmithersDB, title: str, *, phase: str) -> str:
        sync.database["todos"].insert({"title": title})
        sync.state.set("phase", phase)
        sync.state.set("title", title)
        return title

    assert await db.transact(both, "milk", phase="bought") == "milk"
    assert rows.values == [[], [{"title": "tea"}], [{"title": "tea"}, {"title": "milk"}]]
    assert len({t.commit for t in await db.state.history()}) == 1

    def fails(sync: SmithersDB) -> None:
        sync.state.set("phase", "never")
        raise KeyError("undo")

    with pytest.raises(KeyError, match="undo"):
        await db.transact(fails)
    assert await db.state.get("phase") == "bought"


# -- tasks -----------------------------------------------------------------------------------------


def one_more(number: int) -> int:
    return number + 1


async def test_updates_of_100_tasks_are_all_counted(db: AsyncSmithersDB) -> None:
    n, set_n = await db.state.signal("n", 0)

    async def count() -> None:
        for _ in range(5):
            await set_n(one_more)
            await db.state.update("m", lambda value: value + 1, default=0)

    await asyncio.gather(*(count() for _ in range(100)))
    assert (n(), await db.state.get("m")) == (500, 500)


async def test_100_tasks_wait_for_each_other(db: AsyncSmithersDB) -> None:
    turn = db.state.observe("turn", 0)

    async def relay(number: int) -> None:
        await turn.first(lambda current: current == number, timeout=30)
        await db.state.set("turn", number + 1)

    await asyncio.gather(*(relay(number) for number in range(100)))
    assert await turn == 100


def write_two(db: SmithersDB) -> None:
    db.state.set("a", "new")
    db.state.set("b", "new")


Call = Callable[[AsyncSmithersDB], Awaitable[Any]]
OLD = {"a": "old", "b": "old"}
NEW = {"a": "new", "b": "new"}
WRITES: dict[str, tuple[Call, dict[str, Any]]] = {
    "set": (lambda db: db.state.set("a", "new"), {**OLD, "a": "new"}),
    "set_many": (lambda db: db.state.set_many(NEW), NEW),
    "update": (lambda db: db.state.update("a", lambda _: "new"), {**OLD, "a": "new"}),
    "delete": (lambda db: db.state.delete("a"), {"b": "old"}),
    "reset": (lambda db: db.state.reset(), {}),
    "restore": (lambda db: db.state.restore(NEW), NEW),
    "replay_to": (lambda db: db.state.replay_to("t1"), {"first": 1}),
    "transact": (lambda db: db.transact(write_two), NEW),
    "query": (lambda db: db.query("DELETE FROM state", write=True), {}),
    "key.set": (lambda db: db.state.key("a", str).set("new"), {**OLD, "a": "new"}),
    "key.update": (
        lambda db: db.state.key("a", str).update(lambda _: "new"),
        {**OLD, "a": "new"},
    ),
    "database.execute": (lambda db: db.database.execute("DELETE FROM state"), {}),
}


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_cancelled_at_any_await_is_done_or_not_and_the_handle_goes_on(
    path: Path, name: str
) -> None:
    write, done = WRITES[name]
    seen = set[bool]()
    async with create_async_smithers_db(path, watch=False) as db:
        whole = db.state.observe_all()
        await db.state.set("first", 1)
        await whole
        for turns in range(8):
            await db.state.restore(OLD)
            task = asyncio.ensure_future(write(db))
            for _ in range(turns):
                await asyncio.sleep(0)
            # From the worker's side the same in the other order: it has begun, or even ended.
            if turns > 3:
                await db.state.get("a")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            found = await db.state.get_all()
            assert found in (OLD, done), "all or nothing"
            assert whole() == found, "observers see what there is"
            seen.add(found == done)
    assert seen == {False, True}, "both ends were met"


async def test_a_cancelled_wait_for_a_write_that_has_begun_does_not_undo_it(
    db: AsyncSmithersDB,
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(_: Any) -> str:
        begun.set()
        assert go_on.wait(10)
        return "done"

    first = asyncio.create_task(db.state.update("phase", slow))
    queued = asyncio.create_task(db.state.set("other", 1))
    await asyncio.to_thread(begun.wait, 10)
    first.cancel()
    queued.cancel()
    await asyncio.gather(first, queued, return_exceptions=True)
    go_on.set()
    assert await db.state.get_all() == {"phase": "done"}


# -- the loop goes on ------------------------------------------------------------------------------


class Turns:
    """Counts the turns that the loop makes, some milliseconds apart.

    No time is asked for: on a busy machine any turn may come late. A loop that waits for the
    worker makes one or two.
    """

    def __init__(self) -> None:
        self.made = 0
        self._task = asyncio.create_task(self._count())

    async def _count(self) -> None:
        while True:
            await asyncio.sleep(0.002)
            self.made += 1

    async def end(self) -> int:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        return self.made


LOCKER = """
import sqlite3, sys, threading
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
threading.Event().wait(1)
connection.execute("COMMIT")
"""


async def test_the_loop_goes_on_while_another_process_holds_the_write_lock_for_a_second(
    db: AsyncSmithersDB,
) -> None:
    phase, set_phase = await db.state.signal("phase", "start")
    seen = Recorder[Any]()
    early = phase.subscribe(seen)
    transitions = db.state.transitions().subscribe(Recorder[Transition]())
    await db.stats()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LOCKER, str(db.path), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    loop = asyncio.get_running_loop()
    began, turns = loop.time(), Turns()
    write = asyncio.create_task(set_phase("done"))
    await asyncio.sleep(0.1)
    # Nothing of this waits for the worker, which waits for the lock.
    assert phase() == "start"
    db.state.observe("other").subscribe(seen)
    create_effect(lambda: seen(create_memo(phase)())).dispose()
    early.dispose()
    transitions.dispose()
    late = db.state.transitions().subscribe(Recorder[Transition]())
    gc.collect()
    await write
    waited, made = loop.time() - began, await turns.end()
    late.dispose()
    await process.wait()
    assert phase() == "done"
    assert waited > 0.7, "the lock was held"
    assert made >= 10, f"the loop made {made} turns while the write waited"


LARGE: dict[str, Callable[[], Any]] = {
    "text": lambda: "x" * 8_000_000,
    "records": lambda: {
        "items": [{"id": n, "tags": ["a", "b"], "x": n / 3} for n in range(150_000)]
    },
}


@pytest.mark.parametrize("kind", LARGE)
async def test_the_loop_goes_on_while_8_megabytes_are_written(
    db: AsyncSmithersDB, kind: str
) -> None:
    seen, large = Recorder[Any](), LARGE[kind]()
    db.state.observe("large").subscribe(seen)
    await db.stats()
    gc.collect()
    # A full collection stops all threads, for as long as there are objects: that is not ours.
    gc.disable()
    turns = Turns()
    try:
        await db.state.set("large", large)
    finally:
        made = await turns.end()
        gc.enable()
    assert seen.last == large
    assert made >= 5, f"the loop made {made} turns meanwhile"


# -- opening and closing ---------------------------------------------------------------------------


async def test_before_it_is_opened_everything_raises_not_ready(path: Path) -> None:
    db = create_async_smithers_db(path)
    calls: list[Callable[[], Any]] = [
        lambda: db.state,
        lambda: db.database,
        lambda: db.path,
        lambda: db.observe("SELECT 1"),
    ]
    for call in calls:
        with pytest.raises(NotReady, match="async with"):
            call()
    with pytest.raises(NotReady):
        await db.stats()
    await db.close()
    assert not await asyncio.to_thread(path.exists)
    assert await db is db
    assert await db.state.keys() == []
    await db.close()


async def test_an_unopened_query_is_not_ready_until_it_is_awaited(db: AsyncSmithersDB) -> None:
    phase = db.state.observe("phase", "none")
    with pytest.raises(NotReady):
        phase()
    assert await phase == "none"
    await db.state.set("phase", "start")
    assert phase() == phase.peek() == "start"


async def test_after_close_every_call_raises_database_closed(path: Path) -> None:
    told = Recorder[Any]()
    async with create_async_smithers_db(path) as db:
        phase, set_phase = await db.state.signal("phase")
        key = db.state.key("n", int, default=0)
        phase.subscribe(told.on_next, told.on_error, told.on_completed)
        await db.stats()
    await asyncio.sleep(0)
    assert (told.completed, told.errors) == (1, [])
    calls: list[Callable[[], Any]] = [
        lambda: db.state.get("a"),
        lambda: db.state.set("a", 1),
        lambda: db.stats(),
        lambda: db.query("SELECT 1"),
        lambda: db.database.execute("SELECT 1"),
        lambda: db.transact(lambda sync: sync.stats()),
        lambda: set_phase(1),
        key.get,
        lambda: key.set(1),
        lambda: db.state.signal("a"),
    ]
    for call in calls:
        with pytest.raises(DatabaseClosed):
            await call()
    with pytest.raises(DatabaseClosed):
        phase()
    with pytest.raises(DatabaseClosed):
        await db.state.observe("a")
    await db.close()


async def test_an_error_of_opening_is_that_of_the_synchronous_one(tmp_path: Path) -> None:
    before = workers()
    with pytest.raises(CannotOpen, match="use"):
        await create_async_smithers_db(tmp_path / "named.db")
    with pytest.raises(CannotOpen):
        async with create_async_smithers_db(tmp_path / "absent", read_only=True):
            pass
    assert not any(busy(worker) for worker in workers() - before)


def workers() -> set[threading.Thread]:
    """The workers that run; of a database that another test has forgotten, too, where the `sqlite3`
    module in use lets none be collected."""
    return {thread for thread in threading.enumerate() if thread.name == "smithers-worker"}


def busy(thread: threading.Thread) -> bool:
    thread.join(2)
    return thread.is_alive()


@pytest.mark.parametrize("turns", range(4))
async def test_an_opening_that_is_cancelled_leaves_nothing_open(path: Path, turns: int) -> None:
    before = workers()
    task = asyncio.ensure_future(create_async_smithers_db(path).__aenter__())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    begun = workers() - before
    alive = await asyncio.to_thread(lambda: [busy(worker) for worker in begun])
    assert not any(alive), "the worker has ended, and closed what it had opened"
    async with create_async_smithers_db(path) as db:
        await db.state.set("phase", 1)


async def test_two_tasks_that_open_it_at_once_open_it_once(path: Path) -> None:
    before = workers()
    db = create_async_smithers_db(path)
    await asyncio.gather(db.__aenter__(), db.__aenter__())
    assert len(workers() - before) == 1
    await db.close()


async def test_in_memory(tmp_path: Path) -> None:
    async with create_async_smithers_db(":memory:") as db:
        await db.state.set("a", 1)
        assert (await db.state.get("a"), db.path) == (1, None)


# -- other test plugins, other loops ---------------------------------------------------------------

UNDER_ANYIO = """
import pytest
from smithers import create_async_smithers_db


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def db(tmp_path):
    async with create_async_smithers_db(tmp_path / "workflow") as db:
        yield db


@pytest.mark.anyio
async def test_it(db):
    phase, set_phase = await db.state.signal("phase", "start")
    told = []
    phase.subscribe(told.append)
    await db.stats()  # a value that is overtaken before its turn is not told
    await set_phase("done")
    assert (phase(), told) == ("done", ["start", "done"])
    async for value in phase:
        assert value == "done"
        break
"""


def test_it_works_under_the_pytest_plugin_of_anyio(tmp_path: Path) -> None:
    test = tmp_path / "test_under_anyio.py"
    test.write_text(UNDER_ANYIO, encoding="utf-8")
    options = ["-q", "-p", "no:asyncio", "-p", "no:cacheprovider", "-W", "error", "-c", "none.ini"]
    options += ["--basetemp", str(tmp_path / "inner")]  # others clear the common one away
    (tmp_path / "none.ini").write_text("[pytest]\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(test)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_without_asyncio_there_is_a_clear_error(path: Path) -> None:
    # Under trio, as here, a coroutine runs where asyncio has no loop.
    opening = create_async_smithers_db(path).__await__()
    with pytest.raises(RuntimeError, match="trio"):
        next(opening)
    assert not path.exists()
