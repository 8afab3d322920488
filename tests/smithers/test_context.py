"""What runs here: parents of new rows across tasks, threads, handles, ends and cancellations."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import sqlite3
from smithers import (
    Agent,
    AsyncSmithersDB,
    NoCurrentExecution,
    OwnershipLost,
    SmithersDB,
    create_async_smithers_db,
    create_smithers_db,
)
from smithers.context import Context, Frame

MANY = 16


@pytest.fixture
async def adb(path: Path) -> AsyncIterator[AsyncSmithersDB]:
    async with create_async_smithers_db(path) as opened:
        yield opened


def agent(db: SmithersDB, id: str) -> Agent:
    found = db.agents.get(id)
    assert found is not None
    return found


def parents(one: Agent) -> tuple[str | None, str | None, str | None, str | None]:
    return one.execution_id, one.phase_id, one.step_id, one.parent_agent_id


# -- one thread ------------------------------------------------------------------------------------


def test_nested_blocks_nest_their_rows(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    with (
        db.phases.open("implement") as phase_id,
        db.steps.open("write") as step_id,
        db.agents.open("outer") as outer,
    ):
        with db.agents.open("inner") as inner, db.agents.open("innermost") as innermost:
            pass
        second = db.agents.start("second")
        db.agents.cancel(second)
    after = db.agents.start("after")
    here = (execution_id, phase_id, step_id)
    assert parents(agent(db, outer)) == (*here, None)
    assert parents(agent(db, inner)) == (*here, outer)
    assert parents(agent(db, innermost)) == (*here, inner)
    assert parents(agent(db, second)) == (*here, outer), "what has ended is no parent any more"
    assert parents(agent(db, after)) == (execution_id, None, None, None)


def test_starts_and_ends_nest_like_blocks_in_whatever_order_they_end(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    phase_id, step_id = db.phases.start("p"), db.steps.start("s")
    db.phases.complete(phase_id)
    late = db.agents.start("below the step, which still runs")
    assert parents(agent(db, late)) == (execution_id, phase_id, step_id, None)
    db.steps.complete(step_id)
    db.agents.cancel(late)
    assert parents(agent(db, db.agents.start("a"))) == (execution_id, None, None, None)


def test_a_phase_inside_an_agent_is_around_what_follows(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    with db.agents.open("lead") as lead, db.phases.open("its phase") as phase_id:
        assert parents(agent(db, db.agents.start("a"))) == (execution_id, phase_id, None, lead)


def test_state_and_history_carry_what_runs_here(db: SmithersDB) -> None:
    assert db.state.set("a", 1).execution_id is None
    execution_id = db.execution.start("Feature")
    with db.agents.open("a") as id:
        transition = db.state.set("a", 2)
        assert (transition.execution_id, transition.agent_id) == (execution_id, id)
    assert db.state.set("a", 3).agent_id is None


def test_what_runs_around_another_execution_is_none_of_its(db: SmithersDB) -> None:
    first = db.execution.start("first")
    phase_id, outer = db.phases.start("p"), db.agents.start("outer")
    second = db.execution.start("second")
    assert parents(agent(db, db.agents.start("inner"))) == (second, None, None, None)
    assert db.phases.current() is None
    db.execution.complete(second)
    assert parents(agent(db, db.agents.start("back"))) == (first, phase_id, None, outer)


def test_an_agent_below_a_named_execution_is_around_what_follows(db: SmithersDB) -> None:
    first = db.execution.start("first")
    db.execution.start("second")
    db.phases.start("of the second")
    with db.agents.open("a", execution_id=first) as id:
        assert parents(agent(db, db.agents.start("b"))) == (first, None, None, id)


def test_a_named_phase_keeps_the_agent_only_where_that_stands_below_it(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    first = db.phases.start("first")
    lead = db.agents.start("lead")
    second = db.phases.start("second")
    named = db.agents.start("a", phase_id=second)
    assert parents(agent(db, named)) == (execution_id, second, None, lead)
    named = db.agents.start("a", phase_id=first)
    assert parents(agent(db, named)) == (execution_id, first, None, None)


def test_the_only_execution_of_a_handle_is_the_parent_where_nothing_runs(db: SmithersDB) -> None:
    ids: list[str] = []

    def elsewhere() -> None:
        ids.append(db.phases.start("in a thread"))

    execution_id = db.execution.start("only")
    run_thread(elsewhere)
    phase = db.phases.get(ids[0])
    assert phase is not None and phase.execution_id == execution_id
    db.execution.start("second")
    with pytest.raises(NoCurrentExecution):
        run_thread(elsewhere)


def run_thread(fn: object) -> None:
    assert callable(fn)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(fn).result(timeout=30)


def test_what_another_thread_has_ended_runs_nowhere(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    outer, inner = db.agents.start("outer"), db.agents.start("inner")
    run_thread(lambda: db.agents.complete(inner, "done"))
    assert parents(agent(db, db.agents.start("a"))) == (execution_id, None, None, outer)


def test_an_execution_ends_everywhere_also_when_its_starter_is_gone(db: SmithersDB) -> None:
    started: list[str] = []
    run_thread(lambda: started.append(db.execution.start("Feature")))
    gc.collect()
    db.agents.start("below it")
    db.execution.complete(started[0])
    assert parents(agent(db, db.agents.start("alone"))) == (None, None, None, None)


def test_a_context_that_was_copied_sees_what_ran_when_it_was(db: SmithersDB) -> None:
    db.execution.start("Feature")
    with db.agents.open("outer") as outer:
        copied = contextvars.copy_context()
    with db.agents.open("later") as later:
        inside = copied.run(db.agents.start, "in the copy")
        here = db.agents.start("here")
    assert agent(db, inside).parent_agent_id is None, "the outer one has ended meanwhile"
    assert agent(db, here).parent_agent_id == later != outer


def test_what_another_program_has_ended_or_deleted_is_passed_over(
    db: SmithersDB, shell: Callable[[str], str]
) -> None:
    execution_id = db.execution.start("Feature")
    kept = db.phases.start("kept")
    ended, deleted = db.agents.start("ended"), db.agents.start("deleted")
    shell(f"DELETE FROM agents WHERE id = '{deleted}'; UPDATE agents SET status = 'cancelled';")
    assert parents(agent(db, db.agents.start("a"))) == (execution_id, kept, None, None)
    with db.agents.open("inside") as inside:
        # This shell enforces no foreign keys: the agent is left behind without its phase.
        shell("DELETE FROM phases")
        assert parents(agent(db, db.agents.start("b"))) == (execution_id, None, None, inside)
    assert agent(db, ended).status == "cancelled"


def test_what_was_passed_over_is_back_after_a_rollback(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    outer = db.agents.start("outer")
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.query("DELETE FROM agents", write=True)
        alone = db.agents.start("alone")
        assert parents(agent(db, alone)) == (execution_id, None, None, None)
        _ = 1 / 0
    assert parents(agent(db, db.agents.start("a"))) == (execution_id, None, None, outer)


def test_what_was_ended_by_a_run_that_took_over_is_no_way_around_the_fence(
    db: SmithersDB, elsewhere: SmithersDB
) -> None:
    db.execution.start("another one, so that none is the only one")
    id = db.execution.start("Feature")
    with ThreadPoolExecutor(1) as pool:
        # In the thread only the phase runs, not its execution.
        phase_id = pool.submit(db.phases.start, "p", execution_id=id).result(30)
        db.query("UPDATE _smithers_leases SET expires = 0", write=True)
        elsewhere.execution.resume(id)
        elsewhere.phases.complete(phase_id)
        with pytest.raises(OwnershipLost):
            pool.submit(db.agents.start, "late").result(30)
    assert db.stats()["agents"] == 0


def test_two_handles_at_once_do_not_mix(db: SmithersDB, tmp_path: Path) -> None:
    with create_smithers_db(tmp_path / "other") as other:
        mine, theirs = db.execution.start("mine"), other.execution.start("theirs")
        with db.agents.open("mine") as first, other.agents.open("theirs") as second:
            inside = db.agents.start("inside mine"), other.agents.start("inside theirs")
        assert parents(agent(db, inside[0])) == (mine, None, None, first)
        assert parents(agent(other, inside[1])) == (theirs, None, None, second)
    with db.agents.open("still") as still:
        current = db.agents.current()
        assert current is not None and current.id == still


def test_two_handles_of_one_file_do_not_mix(db: SmithersDB, elsewhere: SmithersDB) -> None:
    db.execution.start("mine")
    with db.agents.open("mine"):
        assert parents(agent(db, elsewhere.agents.start("theirs"))) == (None, None, None, None)


def test_a_closed_handle_is_forgotten(tmp_path: Path) -> None:
    db = create_smithers_db(tmp_path / "first")
    db.execution.start("Feature")
    known = weakref.ref(db.agents)
    db.close()
    del db
    with create_smithers_db(tmp_path / "second") as second:
        second.execution.start("Feature")
        gc.collect()
        assert known() is None


def test_what_ended_in_earlier_transactions_is_let_go_of_in_a_transaction(db: SmithersDB) -> None:
    def frames() -> int:
        gc.collect()
        return sum(isinstance(known, Frame) for known in gc.get_objects())

    before = frames()
    for number in range(20):
        with contextlib.suppress(KeyError), db.transaction():
            db.execution.complete(db.execution.start("committed"))
            id = db.execution.start("undone, or ended")
            if number % 2:
                raise KeyError
            db.execution.complete(id)
    assert frames() - before <= 2, "those of the last transaction are not needed any more"


def test_what_has_ended_is_let_go_of() -> None:
    context = Context(lambda: None, lambda: 0)
    frames = [context.add(Frame(context, "agent", str(n), None)) for n in range(100)]
    known = [weakref.ref(frame) for frame in frames]

    def loop() -> None:
        for frame in frames:
            frame.enter()
            context.leave(frame.id)
        frames.clear()

    loop()
    gc.collect()
    assert sum(one() is not None for one in known) <= 2, "a long loop would pile them up"


def test_an_end_that_is_rolled_back_keeps_its_place_among_what_followed(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    first = db.agents.start("first")
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.agents.complete(first, "done")
        db.agents.start("never")
        _ = 1 / 0
    assert parents(agent(db, db.agents.start("a"))) == (execution_id, None, None, first)


def test_an_end_inside_a_transaction_counts_from_then_on(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    with db.transaction():
        first = db.agents.start("first")
        db.agents.complete(first, "done")
        second = db.agents.start("second")
    assert parents(agent(db, second)) == (execution_id, None, None, None)
    assert parents(agent(db, db.agents.start("third"))) == (execution_id, None, None, second)


# -- threads ---------------------------------------------------------------------------------------


def test_sixteen_threads_start_and_end_agents_at_once_below_their_own(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    together = threading.Barrier(MANY)

    def work(n: int) -> list[tuple[str, tuple[str | None, ...]]]:
        expected: list[tuple[str, tuple[str | None, ...]]] = []
        together.wait(30)
        with db.phases.open(f"phase {n}") as phase_id:
            for _ in range(4):
                outer = db.agents.start("outer")
                inner = db.agents.start("inner")
                db.tools.complete(db.tools.start(inner, "Bash", n), n)
                expected.append((outer, (execution_id, phase_id, None, None)))
                expected.append((inner, (execution_id, phase_id, None, outer)))
                db.agents.complete(inner, "done", tokens={"input": 1})
                db.agents.complete(outer, "done", tokens={"output": 1})
        return expected

    with ThreadPoolExecutor(MANY) as pool:
        expected = [pair for pairs in pool.map(work, range(MANY)) for pair in pairs]
    assert {one.id: parents(one) for one in db.agents.list(execution_id)} == dict(expected)
    found = db.execution.get(execution_id)
    assert found is not None
    assert (found.total_agents, found.total_tool_calls) == (MANY * 8, MANY * 4)
    assert found.total_tokens_used == MANY * 8
    assert {one.status for one in db.agents.list()} == {"completed"}


def test_sixteen_threads_with_an_execution_each_stay_apart(db: SmithersDB) -> None:
    together = threading.Barrier(MANY)

    def work(n: int) -> None:
        execution_id = db.execution.start(f"run {n}")
        together.wait(30)
        with db.phases.open("p") as phase_id, db.agents.open("a") as id:
            assert parents(agent(db, id)) == (execution_id, phase_id, None, None)
            current = db.execution.current()
            assert current is not None and current.id == execution_id
            together.wait(30)
        db.execution.complete(execution_id, n)

    with ThreadPoolExecutor(MANY) as pool:
        list(pool.map(work, range(MANY)))
    executions = db.execution.list()
    assert len(executions) == MANY
    assert {(one.status, one.total_agents) for one in executions} == {("completed", 1)}


# -- tasks -----------------------------------------------------------------------------------------


def test_an_execution_that_another_thread_may_still_roll_back_is_no_parent(
    db: SmithersDB, path: Path
) -> None:
    begun, asked = threading.Event(), threading.Event()

    def start_in_vain() -> None:
        with contextlib.suppress(KeyError), db.transaction():
            db.execution.start("in vain")
            assert db.state.set("inside", 1).execution_id is not None
            begun.set()
            asked.wait(10)
            raise KeyError

    writes: list[Callable[[], str | None]] = [
        lambda: agent(db, db.agents.start("wait")).execution_id,
        lambda: db.memories.add_fact("key", "content").execution_id,
        lambda: db.memories.add_fact("key", "content", scope="global").execution_id,
        lambda: db.state.set("outside", 1).execution_id,
        lambda: db.vcs.log_snapshot(snapshot_id="one").execution_id,
    ]
    for write in writes:
        begun.clear()
        asked.clear()
        with ThreadPoolExecutor() as pool:
            starting = pool.submit(start_in_vain)
            assert begun.wait(10)
            writing = pool.submit(write)
            pool.submit(asked.wait, 0.05).result()  # by now it waits for the transaction
            asked.set()
            starting.result(10)
            assert writing.result(10) is None
    only = db.execution.start("for good")
    with ThreadPoolExecutor() as pool:
        assert pool.submit(lambda: db.state.set("outside", 2).execution_id).result() == only


async def test_sixteen_tasks_start_and_end_agents_at_once_below_their_own(
    adb: AsyncSmithersDB,
) -> None:
    execution_id = await adb.execution.start("Feature")
    expected: dict[str, tuple[str | None, ...]] = {}

    async def work(n: int) -> None:
        async with adb.phases.open(f"phase {n}") as phase_id:
            for _ in range(3):
                outer = await adb.agents.start("outer")
                inner = await adb.agents.start("inner")
                expected[outer] = (execution_id, phase_id, None, None)
                expected[inner] = (execution_id, phase_id, None, outer)
                await adb.tools.complete(await adb.tools.start(inner, "Bash", n), n)
                await adb.agents.complete(inner, "done", tokens={"input": 1})
                await adb.agents.complete(outer, "done", tokens={"output": 1})

    async with asyncio.TaskGroup() as group:
        for n in range(MANY):
            group.create_task(work(n))
    agents = await adb.agents.list(execution_id)
    assert {one.id: parents(one) for one in agents} == expected
    found = await adb.execution.get(execution_id)
    assert found is not None
    assert (found.total_agents, found.total_tool_calls) == (MANY * 6, MANY * 3)
    assert found.total_tokens_used == MANY * 6


async def test_the_context_survives_the_hop_to_the_worker(adb: AsyncSmithersDB) -> None:
    execution_id = await adb.execution.start("Feature")
    async with adb.phases.open("p") as phase_id, adb.agents.open("a") as id:
        transition = await adb.state.set("a", 1)
        assert (transition.execution_id, transition.agent_id) == (execution_id, id)
        inside = await adb.transact(lambda db: db.agents.start("in one transaction"))
        found = await adb.agents.get(inside)
        assert found is not None and parents(found) == (execution_id, phase_id, None, id)
        current = await adb.agents.current()
        assert current is not None and current.id == id


async def test_a_task_inherits_and_its_own_starts_stay_with_it(adb: AsyncSmithersDB) -> None:
    await adb.execution.start("Feature")
    async with adb.agents.open("outer") as outer:

        async def child() -> str:
            return await adb.agents.start("of the child")

        of_child = await asyncio.create_task(child())
        here = await adb.agents.start("here")
    listed = {one.id: one.parent_agent_id for one in await adb.agents.list()}
    assert listed == {outer: None, of_child: outer, here: outer}


async def test_what_one_task_started_another_may_end(adb: AsyncSmithersDB) -> None:
    await adb.execution.start("Feature")
    started: asyncio.Queue[str] = asyncio.Queue()
    ended = asyncio.Event()

    async def starts() -> str | None:
        await started.put(await adb.agents.start("first"))
        await ended.wait()
        second = await adb.agents.get(await adb.agents.start("second"))
        assert second is not None
        return second.parent_agent_id

    async def ends() -> None:
        await adb.agents.complete(await started.get(), "done")
        ended.set()

    async with asyncio.TaskGroup() as group:
        parent = group.create_task(starts())
        group.create_task(ends())
    assert parent.result() is None, "the first has ended, in the other task"


async def test_a_thread_that_a_task_runs_inherits_its_context(adb: AsyncSmithersDB) -> None:
    await adb.execution.start("Feature")
    loop = asyncio.get_running_loop()
    async with adb.agents.open("outer") as outer:

        def in_a_thread() -> str:
            starting = asyncio.run_coroutine_threadsafe(adb.agents.start("inner"), loop)
            return starting.result(30)

        inner = await asyncio.to_thread(in_a_thread)
    found = await adb.agents.get(inner)
    assert found is not None and found.parent_agent_id == outer


async def test_a_timeout_cancels_the_agent_and_fails_its_phase(adb: AsyncSmithersDB) -> None:
    await adb.execution.start("Feature")
    with pytest.raises(TimeoutError):
        async with (
            asyncio.timeout(None) as limit,
            adb.phases.open("p"),
            adb.agents.open("slow"),
        ):
            limit.reschedule(asyncio.get_running_loop().time())
            await asyncio.Event().wait()
    (phase,), (slow,) = await adb.phases.list(), await adb.agents.list()
    assert (phase.status, slow.status) == ("failed", "cancelled")
    assert await adb.agents.current() is None


async def test_a_failing_task_of_a_group_cancels_the_agents_of_the_others(
    adb: AsyncSmithersDB,
) -> None:
    await adb.execution.start("Feature")
    waiting = asyncio.Event()

    async def waits() -> None:
        async with adb.agents.open("waits"):
            waiting.set()
            await asyncio.Event().wait()

    async def fails() -> None:
        async with adb.agents.open("fails"):
            await waiting.wait()
            raise ValueError("bad")

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(waits())
            group.create_task(fails())
    ended = {one.prompt: one.status for one in await adb.agents.list()}
    assert ended == {"waits": "cancelled", "fails": "failed"}


async def test_a_task_that_is_cancelled_again_and_again_ends_its_agent(
    adb: AsyncSmithersDB,
) -> None:
    inside = asyncio.Event()

    async def waits() -> None:
        async with adb.agents.open("waits"):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(waits())
    await inside.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()
    assert [one.status for one in await adb.agents.list()] == ["cancelled"]


@pytest.mark.parametrize("turns", range(8))
async def test_a_start_that_is_cancelled_leaves_nothing_running(
    adb: AsyncSmithersDB, turns: int
) -> None:
    await adb.execution.start("Feature")

    async def one(starting: asyncio.Task[object]) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting

    starts: list[Callable[[], Coroutine[Any, Any, object]]] = [
        lambda: adb.phases.start("p"),
        lambda: adb.steps.start("s"),
        lambda: adb.agents.start("a"),
        lambda: adb.execution.start("nested"),
    ]
    for start in starts:
        starting = asyncio.create_task(start())
        await one(starting)
        running = await adb.query(
            "SELECT id FROM phases WHERE status = 'running' UNION ALL "
            "SELECT id FROM steps WHERE status = 'running' UNION ALL "
            "SELECT id FROM agents WHERE status = 'running' UNION ALL "
            "SELECT id FROM executions WHERE status = 'running' AND name = 'nested'"
        )
        if starting.cancelled():
            assert running == [], "nobody knows its id"
        else:
            assert [row["id"] for row in running] == [starting.result()]
            await adb.transact(end_all)


def end_all(db: SmithersDB) -> None:
    for table in ("phases", "steps", "agents"):
        db.database.execute(f"UPDATE {table} SET status = 'failed' WHERE status = 'running'")
    for one in db.execution.list("running"):
        if one.name == "nested":
            db.execution.cancel(one.id)


async def test_two_async_handles_do_not_mix(adb: AsyncSmithersDB, tmp_path: Path) -> None:
    async with create_async_smithers_db(tmp_path / "other") as other:
        await adb.execution.start("mine")
        theirs = await other.execution.start("theirs")
        async with adb.agents.open("mine"), other.agents.open("theirs") as second:
            inside = await other.agents.get(await other.agents.start("inside theirs"))
        assert inside is not None and parents(inside) == (theirs, None, None, second)


async def test_nothing_runs_in_a_handle_after_the_execution_was_ended_elsewhere(
    adb: AsyncSmithersDB, path: Path
) -> None:
    await adb.execution.start("Feature")
    with pytest.raises(OwnershipLost):
        async with adb.agents.open("a"):
            plain = sqlite3.connect(path / "db.sqlite", isolation_level=None)
            plain.execute("UPDATE executions SET status = 'cancelled'")
            plain.close()
            assert await adb.agents.current() is None
            assert await adb.execution.current() is None
    assert [one.status for one in await adb.agents.list()] == ["cancelled"]
