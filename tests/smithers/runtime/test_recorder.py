"""The recorder of an agent: batches, order, counting, and what happens where writing fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import sqlite3
from smithers import AsyncSmithersDB, ToolCall, create_async_smithers_db
from smithers.runtime.host import Host
from smithers.runtime.recorder import PAUSE, AgentRecorder, EndedElsewhere
from smithers.runtime.usage import Usage

M = {"input": 10, "output": 1, "cache_read": 2, "cache_write": 3}


class Desk:
    """A recorder of one agent, and what the loop was told meanwhile."""

    def __init__(self, db: AsyncSmithersDB, id: str, recorder: AgentRecorder) -> None:
        self.db = db
        self.id = id
        self.recorder = recorder
        self.reported: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.reported.append(context))

    async def end(self) -> None:
        await self.recorder.end(lambda db: db.agents.complete(self.id, "done"))


@pytest.fixture
async def told() -> list[ToolCall]:
    return []


@pytest.fixture
async def desk(db: AsyncSmithersDB, told: list[ToolCall]) -> AsyncIterator[Desk]:
    host: Host = db._host()  # pyright: ignore[reportPrivateUsage]
    frame = await host.call(lambda sync: sync.agents.begin("go"))
    recorder = AgentRecorder(host, frame, told.append)
    yield Desk(db, frame.id, recorder)
    await recorder.close()
    asyncio.get_running_loop().set_exception_handler(None)


async def commits(db: AsyncSmithersDB) -> Callable[[], int]:
    """Count the commits that touch what agents write, from now on."""
    seen: list[Any] = []
    db.database.changes("agents", "tool_calls").subscribe(seen.append)
    return lambda: len(seen)


# -- tokens ----------------------------------------------------------------------------------------


def test_a_message_counts_once_however_often_it_is_told() -> None:
    usage = Usage()
    for _ in range(3):
        usage.add("m-1", M)
    usage.add("m-2", M)
    assert usage.total == {name: 2 * count for name, count in M.items()}


def test_a_message_that_has_grown_counts_as_it_is() -> None:
    usage = Usage()
    usage.add("m-1", M)
    usage.add("m-1", {**M, "output": 40})
    usage.add("m-1", {"input": 1})
    assert usage.total == {**M, "output": 40}


def test_the_sum_of_a_turn_is_never_less_than_its_messages() -> None:
    usage = Usage()
    usage.add("m-1", M)
    usage.settle({**M, "output": 900, "input": 5})
    assert usage.total == {**M, "output": 900}
    usage.add("m-1", {**M, "output": 2_000})
    assert usage.total == {**M, "output": 900}, "it is settled"
    usage.add("m-2", M)
    usage.settle({})
    assert usage.total == {name: 2 * count for name, count in M.items()} | {"output": 901}


# -- batches ---------------------------------------------------------------------------------------


async def test_what_is_told_at_once_is_one_commit(desk: Desk) -> None:
    count = await commits(desk.db)
    recorder = desk.recorder
    for number in range(50):
        recorder.tool_started(str(number), "look", {"n": number})
        recorder.tool_ended(str(number), f"saw {number}")
        recorder.text("x")
        recorder.tokens(f"m-{number}", M)
    await recorder.flush()
    assert count() == 1
    calls = await desk.db.tools.list(desk.id)
    assert [(call.input, call.output) for call in calls] == [
        ({"n": number}, f"saw {number}") for number in range(50)
    ], "in order"
    agent = await desk.db.agents.get(desk.id)
    assert agent is not None and (agent.output, agent.tokens_input) == ("x" * 50, 500)


async def test_a_chatty_agent_has_few_commits(desk: Desk) -> None:
    count = await commits(desk.db)
    began = time.monotonic()
    while time.monotonic() - began < 1.5:
        desk.recorder.text("word ")
        await asyncio.sleep(0.005)
    assert 1 <= count() <= 1.5 / PAUSE + 2
    agent = await desk.db.agents.get(desk.id)
    assert agent is not None and agent.output, "it is seen while it runs"


@pytest.mark.soak
async def test_recording_a_chatty_agent_takes_a_small_part_of_a_core(desk: Desk) -> None:
    async def work(number: int, recorder: AgentRecorder | None) -> float:
        began, cpu = time.monotonic(), time.process_time()
        while time.monotonic() - began < 2.0:
            number += 1
            if recorder is not None:
                recorder.text("some forty characters of what it has to say")
                recorder.tokens(f"m-{number}", M)
                if number % 5 == 0:
                    recorder.tool_started(str(number), "Bash", {"command": "ls"})
                    recorder.tool_ended(str(number), "a file\n" * 20)
            await asyncio.sleep(0.02)
        return (time.process_time() - cpu) / (time.monotonic() - began)

    await work(0, desk.recorder)  # statements are prepared, modules loaded
    shares = [await work(1_000 * n, desk.recorder) - await work(0, None) for n in range(1, 4)]
    print(f"recording 50 messages a second: {min(shares):.1%} of a core")
    assert min(shares) < 0.25, "far above the twentieth that is aimed at, on any machine"


async def test_the_pause_grows_with_what_writing_takes(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = await commits(desk.db)
    desk.recorder._took = 0.05  # pyright: ignore[reportPrivateUsage]
    desk.recorder.text("x")
    await asyncio.sleep(3 * PAUSE)
    assert count() == 0, "a fifteenth of a second of work is followed by seconds of rest"
    await desk.recorder.flush()
    assert count() == 1


async def test_a_session_is_written_at_once(desk: Desk) -> None:
    agents = desk.db.agents.observe()
    desk.recorder._took = 1.0  # pyright: ignore[reportPrivateUsage]
    desk.recorder.session("s-1")
    async with asyncio.timeout(2):
        await agents.first(lambda rows: rows[0].session_id == "s-1")


async def test_times_are_those_of_what_happened(desk: Desk) -> None:
    desk.recorder.tool_started("1", "slow")
    await asyncio.sleep(0.06)
    desk.recorder.tool_ended("1", "ok")
    await desk.end()
    (call,) = await desk.db.tools.list(desk.id)
    assert call.duration_ms is not None and 50 <= call.duration_ms < 2_000, (
        "though both were written at once"
    )


# -- ends ------------------------------------------------------------------------------------------


async def test_the_end_writes_what_is_left_and_ends_what_is_open(
    desk: Desk, told: list[ToolCall]
) -> None:
    recorder = desk.recorder
    recorder.tool_started("1", "look")
    recorder.tool_ended("1", "seen")
    recorder.tool_started("2", "forgotten")
    recorder.agent_started("sub", "search", model="small")
    recorder.tool_started("3", "inner", agent="sub")
    recorder.text("sub says", agent="sub")
    await desk.end()
    main, sub = await desk.db.agents.list()
    assert (main.status, sub.status, sub.output) == ("completed", "cancelled", "sub says")
    statuses = [call.status for call in await desk.db.tools.list(main.id)]
    assert statuses == ["completed", "cancelled"]
    assert [call.status for call in await desk.db.tools.list(sub.id)] == ["cancelled"]
    assert [call.output for call in told] == ["seen"], "before the end"


async def test_agents_of_agents_of_agents_have_their_parents(desk: Desk) -> None:
    recorder = desk.recorder
    recorder.agent_started("a", "first", model="m")
    recorder.agent_started("b", "second", model="m", parent="a")
    recorder.tokens("m-1", M, agent="b")
    recorder.agent_ended("b", "b is done")
    recorder.agent_ended("a", error="a has failed")
    recorder.agent_ended("a", "twice")
    await desk.end()
    main, a, b = await desk.db.agents.list()
    assert (a.parent_agent_id, b.parent_agent_id) == (main.id, a.id)
    assert (a.status, a.error) == ("failed", "a has failed")
    assert (b.status, b.output, b.tokens_input) == ("completed", "b is done", 10)


async def test_what_is_no_text_is_told_as_it_would_be_printed(desk: Desk) -> None:
    odd: Any = [5, None, b"bytes", "\ud800"]
    for each in odd:
        desk.recorder.text(each)
    desk.recorder.tool_started("call", odd[0])
    await desk.recorder.flush()
    assert desk.recorder.errors == []
    (agent,) = await desk.db.agents.list()
    assert agent.output == "5Noneb'bytes'\\ud800"
    assert [call.name for call in await desk.db.tools.list(desk.id)] == ["5"]


async def test_what_is_told_twice_or_of_strangers_does_no_harm(desk: Desk) -> None:
    desk.recorder.tool_ended("unknown", "x")
    desk.recorder.tool_started("1", "look")
    desk.recorder.tool_started("1", "look")
    desk.recorder.tool_ended("1", None)
    desk.recorder.tool_ended("1", "again")
    desk.recorder.agent_ended("unknown")
    desk.recorder.text("of a stranger", agent="stranger")
    await desk.end()
    (call,) = await desk.db.tools.list(desk.id)
    assert (call.status, call.output) == ("completed", "")
    assert desk.reported == [] and desk.recorder.errors == []


# -- where writing fails ---------------------------------------------------------------------------


async def test_what_is_refused_is_reported_and_the_rest_is_written(desk: Desk) -> None:
    recorder = desk.recorder
    recorder.tool_started("1", "odd", object())
    recorder.tool_ended("1", "fine")
    recorder.tool_started("2", "look")
    recorder.tool_ended("2", object())
    recorder.tool_started("3", "look")
    recorder.tool_ended("3", "seen")
    await desk.end()
    odd, lost, seen = await desk.db.tools.list(desk.id)
    assert odd.status == "completed" and odd.input.startswith("<object object")
    assert lost.status == "failed" and "its output could not be recorded" in (lost.error or "")
    assert (seen.status, seen.output) == ("completed", "seen")
    assert [type(error).__name__ for error in recorder.errors] == ["TypeError"] * 2
    assert [context["exception"] for context in desk.reported] == recorder.errors


@pytest.fixture
async def impatient(path: Path) -> AsyncIterator[AsyncSmithersDB]:
    """A database that does not wait for others."""
    async with create_async_smithers_db(path, busy_timeout=0.01) as opened:
        yield opened


async def test_a_locked_database_stops_nothing_and_loses_nothing(
    impatient: AsyncSmithersDB, path: Path
) -> None:
    host: Host = impatient._host()  # pyright: ignore[reportPrivateUsage]
    frame = await host.call(lambda sync: sync.agents.begin("go"))
    recorder = AgentRecorder(host, frame)
    other = sqlite3.connect(path / "db.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for number in range(10):
        recorder.tool_started(str(number), "look", number)
        recorder.tool_ended(str(number), number)
        recorder.text(str(number))
        recorder.cost(number / 10)
        await asyncio.sleep(0.05)
    assert await impatient.tools.list(frame.id) == []
    assert not recorder.stopped.done() and recorder.errors == []
    other.execute("ROLLBACK")
    other.close()
    await recorder.end(lambda db: db.agents.complete(frame.id, "done"))
    await recorder.close()
    calls = await impatient.tools.list(frame.id)
    assert [(call.input, call.output) for call in calls] == [(n, n) for n in range(10)]
    agent = await impatient.agents.get(frame.id)
    assert agent is not None and agent.cost_usd == pytest.approx(0.9)


async def test_a_database_that_stays_locked_is_reported_and_noted(
    impatient: AsyncSmithersDB, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smithers.runtime.recorder.PAUSE", 0.01)
    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    host: Host = impatient._host()  # pyright: ignore[reportPrivateUsage]
    frame = await host.call(lambda sync: sync.agents.begin("go"))
    recorder = AgentRecorder(host, frame)
    other = sqlite3.connect(path / "db.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    recorder.text("lost")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        await recorder.end(lambda db: db.agents.complete(frame.id, "done"))
    assert not recorder.stopped.done(), "the agent was not stopped for it"
    assert any("locked" in str(context["exception"]) for context in reported)
    assert any("given up" in str(error) for error in recorder.errors)
    other.close()
    await recorder.close()


async def test_a_row_that_has_ended_stops_the_agent(desk: Desk) -> None:
    await desk.db.agents.cancel(desk.id)
    desk.recorder.text("more")
    await desk.recorder.flush()
    with pytest.raises(EndedElsewhere, match="cancelled"):
        desk.recorder.stopped.result()
