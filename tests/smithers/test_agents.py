"""Agents: fields and defaults, progress, tokens and cost, how they end, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from smithers import (
    Agent,
    InvalidStatus,
    NotFound,
    ReadOnly,
    SmithersDB,
    create_async_smithers_db,
    create_smithers_db,
)
from tests.recorder import Recorder
from tests.smithers.hostile import HOSTILE, UNWRITABLE, contents


def agent(db: SmithersDB, id: str) -> Agent:
    found = db.agents.get(id)
    assert found is not None
    return found


def test_a_started_agent_has_every_field(db: SmithersDB) -> None:
    execution_id, phase_id = db.execution.start("Feature"), db.phases.start("implement")
    step_id, parent = db.steps.start("write"), db.agents.start("Lead")
    id = db.agents.start("Implement the feature", "opus", "You are a senior engineer")
    started = agent(db, id)
    assert started == Agent(
        id=id,
        execution_id=execution_id,
        phase_id=phase_id,
        step_id=step_id,
        parent_agent_id=parent,
        model="opus",
        system_prompt="You are a senior engineer",
        prompt="Implement the feature",
        status="running",
        output=None,
        structured=None,
        error=None,
        session_id=None,
        turns=0,
        tokens_input=0,
        tokens_output=0,
        tokens_cache_read=0,
        tokens_cache_write=0,
        cost_usd=0.0,
        started_at=started.started_at,
        completed_at=None,
        duration_ms=None,
    )
    assert started.started_at.tzinfo is UTC


def test_an_agent_may_stand_alone_with_every_default(db: SmithersDB) -> None:
    alone = agent(db, db.agents.start("Look around"))
    assert (alone.model, alone.system_prompt) == ("sonnet", None)
    assert (alone.execution_id, alone.phase_id, alone.step_id) == (None, None, None)
    assert alone.parent_agent_id is None


def test_a_completed_agent_has_output_structure_tokens_and_cost(db: SmithersDB) -> None:
    id = db.agents.start("Implement")
    used = {"input": 1000, "output": 500, "cache_read": 30, "cache_write": 4, "cost_usd": 0.25}
    db.agents.complete(id, "Feature implemented", {"success": True}, used)
    ended = agent(db, id)
    assert (ended.status, ended.output) == ("completed", "Feature implemented")
    assert (ended.structured, ended.error) == ({"success": True}, None)
    assert (ended.tokens_input, ended.tokens_output) == (1000, 500)
    assert (ended.tokens_cache_read, ended.tokens_cache_write) == (30, 4)
    assert ended.cost_usd == 0.25
    plain = db.agents.start("Implement")
    db.agents.complete(plain, "", tokens={})
    assert (agent(db, plain).output, agent(db, plain).structured) == ("", None)


@pytest.mark.parametrize("again", ["complete", "fail", "cancel", "progress"])
@pytest.mark.parametrize(
    ("first", "status"), [("complete", "completed"), ("fail", "failed"), ("cancel", "cancelled")]
)
def test_an_agent_ends_once_with_its_duration(
    db: SmithersDB, first: str, status: str, again: str
) -> None:
    calls: dict[str, Callable[[str], None]] = {
        "complete": lambda id: db.agents.complete(id, "done"),
        "fail": lambda id: db.agents.fail(id, ValueError("overloaded")),
        "cancel": db.agents.cancel,
        "progress": lambda id: db.agents.progress(id, output="late"),
    }
    id = db.agents.start("Implement")
    earlier = (datetime.now(UTC) - timedelta(seconds=90)).isoformat()
    db.query("UPDATE agents SET started_at = $1", [earlier], write=True)
    calls[first](id)
    ended = agent(db, id)
    assert ended.status == status
    assert ended.error == ("ValueError: overloaded" if status == "failed" else None)
    assert 90_000 <= (ended.duration_ms or 0) < 120_000
    before = contents(db)
    with pytest.raises(InvalidStatus, match=f"cannot .* agent .* it is {status}") as caught:
        calls[again](id)
    assert (caught.value.id, caught.value.status) == (id, status)
    with pytest.raises(NotFound, match="no agent 'nobody'"):
        calls[again]("nobody")
    assert contents(db) == before


def test_progress_notes_what_is_known_so_far_and_the_end_keeps_it(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    id = db.agents.start("Implement")
    db.agents.progress(id, output="I will", session_id="s1", turns=1, tokens={"input": 10})
    db.agents.progress(id, output="I will read", tokens={"input": 30, "cost_usd": 0.5})
    running = agent(db, id)
    assert (running.status, running.output, running.session_id) == ("running", "I will read", "s1")
    assert (running.turns, running.tokens_input, running.cost_usd) == (1, 30, 0.5)
    found = db.execution.get(execution_id)
    assert found is not None and (found.total_tokens_used, found.total_cost_usd) == (30, 0.5)
    db.agents.complete(id, "Done", tokens={"output": 7})
    ended = agent(db, id)
    assert (ended.output, ended.session_id, ended.turns) == ("Done", "s1", 1)
    assert (ended.tokens_input, ended.tokens_output, ended.cost_usd) == (30, 7, 0.5)


@pytest.mark.parametrize("ending", ["fail", "cancel"])
def test_an_agent_that_did_not_finish_keeps_what_it_wrote_and_used(
    db: SmithersDB, ending: str
) -> None:
    id = db.agents.start("Implement")
    db.agents.progress(id, output="so far", tokens={"output": 3})
    db.agents.fail(id, "x") if ending == "fail" else db.agents.cancel(id)
    assert (agent(db, id).output, agent(db, id).tokens_output) == ("so far", 3)


def test_a_block_completes_its_agent_with_the_text_so_far(db: SmithersDB) -> None:
    with db.agents.open("Review", "opus", "Be strict") as silent:
        current = db.agents.current()
        assert current is not None and (current.id, current.model) == (silent, "opus")
        assert current.system_prompt == "Be strict"
    with db.agents.open("Review") as writing:
        db.agents.progress(writing, output="so far")
    with db.agents.open("Review") as done:
        db.agents.complete(done, "Looks good")
    assert [(a.status, a.output) for a in db.agents.list()] == [
        ("completed", ""),
        ("completed", "so far"),
        ("completed", "Looks good"),
    ]
    assert db.agents.current() is None


@pytest.mark.parametrize(
    ("raised", "status", "error"),
    [
        (ValueError("bad"), "failed", "ValueError: bad"),
        (TimeoutError(), "failed", "TimeoutError"),
        (asyncio.CancelledError(), "cancelled", None),
        (KeyboardInterrupt(), "cancelled", None),
        (SystemExit(1), "cancelled", None),
    ],
)
def test_what_leaves_a_block_fails_or_cancels_its_agent(
    db: SmithersDB, raised: BaseException, status: str, error: str | None
) -> None:
    with pytest.raises(type(raised)) as caught, db.agents.open("Review"):
        raise raised
    assert caught.value is raised
    (ended,) = db.agents.list()
    assert ended.status == status
    assert (ended.error or "").partition("\n")[0] == (error or "")


def test_named_parents_bring_what_stands_above_them(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    phase_id, step_id = db.phases.start("p"), db.steps.start("s")
    other = db.execution.start("Other")
    for named in (
        {"step_id": step_id},
        {"step_id": step_id, "phase_id": phase_id},
        {"step_id": step_id, "phase_id": phase_id, "execution_id": execution_id},
    ):
        found = agent(db, db.agents.start("a", **named))
        assert (found.execution_id, found.phase_id, found.step_id) == (
            *(execution_id, phase_id),
            step_id,
        )
        db.agents.cancel(found.id)
    found = agent(db, db.agents.start("a", phase_id=phase_id))
    assert (found.execution_id, found.phase_id, found.step_id) == (execution_id, phase_id, None)
    found = agent(db, db.agents.start("a", execution_id=execution_id))
    assert (found.execution_id, found.phase_id) == (execution_id, phase_id)
    before = contents(db)
    for wrong in (
        {"execution_id": other, "phase_id": phase_id},
        {"execution_id": other, "step_id": step_id},
        {"phase_id": db_phase(db, other), "step_id": step_id},
    ):
        with pytest.raises(ValueError, match="stands below"):
            db.agents.start("a", **wrong)
    assert len(contents(db)) == len(before) + 1, "the phase of the other one, and no agent"


def db_phase(db: SmithersDB, execution_id: str) -> str:
    return db.phases.start("of the other", execution_id=execution_id)


@pytest.mark.parametrize("kind", ["execution", "phase", "step"])
def test_a_parent_that_is_unknown_or_has_ended_is_refused(db: SmithersDB, kind: str) -> None:
    execution_id = db.execution.start("Feature")
    ids = {"phase": db.phases.start("p"), "step": db.steps.start("s"), "execution": execution_id}
    db.steps.complete(ids["step"])
    db.phases.complete(ids["phase"])
    db.execution.complete(execution_id)
    before = contents(db)
    with pytest.raises(InvalidStatus, match=f"cannot start anything below {kind}"):
        db.agents.start("late", **{f"{kind}_id": ids[kind]})
    with pytest.raises(NotFound, match=f"no {kind} 'nobody'"):
        db.agents.start("late", **{f"{kind}_id": "nobody"})
    assert contents(db) == before


def test_agents_are_listed_in_the_order_of_their_starts(db: SmithersDB) -> None:
    alone = db.agents.start("alone")
    db.agents.cancel(alone)
    first = db.execution.start("first")
    ids = [db.agents.start(f"agent {n}") for n in range(5)]
    db.execution.start("second")
    other = db.agents.start("other")
    assert [one.id for one in db.agents.list(first)] == ids
    assert [one.id for one in db.agents.list()] == [alone, *ids, other]
    assert [one.id for one in db.agents.list(first, limit=2)] == ids[-2:]
    assert db.agents.list("nobody") == []


def test_starts_and_ends_that_are_rolled_back_never_were(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    kept = db.agents.start("kept")
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.agents.complete(kept, "done", tokens={"input": 5})
        db.agents.start("never")
        _ = 1 / 0
    assert [(one.id, one.status) for one in db.agents.list()] == [(kept, "running")]
    below = agent(db, db.agents.start("below"))
    assert below.parent_agent_id == kept
    found = db.execution.get(execution_id)
    assert found is not None and (found.total_agents, found.total_tokens_used) == (2, 0)


def test_observers_follow_the_agents_of_an_execution(
    db: SmithersDB, recorder: Recorder[list[Agent]], shell: Callable[[str], str]
) -> None:
    alone = db.agents.start("alone")
    execution_id = db.execution.start("Feature")
    db.agents.observe(execution_id).subscribe(recorder)
    id = db.agents.start("Implement", execution_id=execution_id)
    db.agents.progress(id, output="so far")
    db.agents.progress(alone, output="of another")
    db.agents.complete(id, "done")
    assert [[(a.status, a.output) for a in seen] for seen in recorder.values] == [
        [],
        [("running", None)],
        [("running", "so far")],
        [("completed", "done")],
    ]
    shell(f"UPDATE agents SET turns = 9 WHERE id = '{id}'")
    recorder.wait_for(lambda agents: bool(agents) and agents[0].turns == 9)
    assert len(db.agents.observe().peek()) == 2


BAD: list[tuple[Callable[[Any, str], object], type[Exception]]] = [
    (lambda db, id: db.agents.start(None), TypeError),
    (lambda db, id: db.agents.start(b"prompt"), TypeError),
    (lambda db, id: db.agents.start("p", ""), ValueError),
    (lambda db, id: db.agents.start("p", None), TypeError),
    (lambda db, id: db.agents.start("p", "opus", 7), TypeError),
    (lambda db, id: db.agents.start("p", execution_id=7), TypeError),
    (lambda db, id: db.agents.start("p", phase_id=""), ValueError),
    (lambda db, id: db.agents.complete(id, None), TypeError),
    (lambda db, id: db.agents.complete(id, b"bytes"), TypeError),
    (lambda db, id: db.agents.complete(id, "o", {1: 2}), TypeError),
    (lambda db, id: db.agents.complete(id, "o", float("nan")), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, {"inputs": 1}), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, {"total": 1, "input": 1}), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, {7: 1}), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, 7), TypeError),
    (lambda db, id: db.agents.complete(id, "o", None, {"input": -1}), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, {"input": 1.0}), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, {"input": True}), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, {"input": "1"}), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, {"input": None}), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, {"output": 10**15 + 1}), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, {"cost_usd": -0.01}), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, {"cost_usd": float("nan")}), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, {"cost_usd": float("inf")}), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, {"cost_usd": True}), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, {"cost_usd": "1"}), ValueError),
    (lambda db, id: db.agents.complete(id, "o", None, {"cost_usd": 10**400}), ValueError),
    (lambda db, id: db.agents.progress(id), ValueError),
    (lambda db, id: db.agents.progress(id, tokens={}), ValueError),
    (lambda db, id: db.agents.progress(id, output=7), TypeError),
    (lambda db, id: db.agents.progress(id, session_id=""), ValueError),
    (lambda db, id: db.agents.progress(id, turns=-1), ValueError),
    (lambda db, id: db.agents.progress(id, turns=True), ValueError),
    (lambda db, id: db.agents.progress(id, output="o", tokens={"x": 1}), ValueError),
    (lambda db, id: db.agents.fail(id, None), TypeError),
    (lambda db, id: db.agents.cancel(7), TypeError),
    (lambda db, id: db.agents.get(""), ValueError),
    (lambda db, id: db.agents.is_running(7), TypeError),
    (lambda db, id: db.agents.list(7), TypeError),
    (lambda db, id: db.agents.list(limit=-1), ValueError),
    (lambda db, id: db.agents.observe(""), ValueError),
]


@pytest.mark.parametrize(("call", "error"), BAD)
def test_bad_input_is_a_typed_error_and_leaves_nothing_written(
    db: SmithersDB, call: Callable[[Any, str], object], error: type[Exception]
) -> None:
    db.execution.start("Feature")
    id = db.agents.start("Implement")
    before = contents(db)
    with pytest.raises(error):
        call(db, id)
    assert contents(db) == before


def test_the_largest_counts_leave_totals_whole_numbers(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    for _ in range(5):
        most = {"input": 10**15, "output": 10**15, "cost_usd": 10**6}
        db.agents.complete(db.agents.start("a"), "", tokens=most)
    found = db.execution.get(execution_id)
    assert found is not None
    assert (found.total_tokens_used, found.total_cost_usd) == (10**16, 5e6)
    assert type(found.total_tokens_used) is int


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_comes_back_as_it_was_given(db: SmithersDB, text: str) -> None:
    id = db.agents.start(text, text, text)
    db.agents.progress(id, output=text, session_id=text)
    db.agents.complete(id, text, {text: text})
    ended = agent(db, id)
    assert {ended.prompt, ended.model, ended.system_prompt} == {text}
    assert {ended.output, ended.session_id} == {text}
    assert ended.structured == {text: text}
    failed = db.agents.start("failing")
    db.agents.fail(failed, text)
    assert agent(db, failed).error == text
    assert (db.agents.get(text), db.agents.list(text)) == (None, [])
    with pytest.raises(NotFound):
        db.agents.start("a", step_id=text)
    assert db.stats()["agents"] == 2


@pytest.mark.parametrize("text", UNWRITABLE)
def test_text_that_utf8_cannot_write_is_refused(db: SmithersDB, text: str) -> None:
    id = db.agents.start("a")
    before = contents(db)
    for call in (
        lambda: db.agents.start(text),
        lambda: db.agents.start("a", text),
        lambda: db.agents.start("a", "opus", text),
        lambda: db.agents.start("a", phase_id=text),
        lambda: db.agents.progress(id, output=text),
        lambda: db.agents.progress(id, session_id=text),
        lambda: db.agents.complete(id, text),
        lambda: db.agents.cancel(text),
    ):
        with pytest.raises(ValueError, match=r"has no (NUL|lone)"):
            call()
    assert contents(db) == before


def test_a_reader_only_reads(db: SmithersDB, path: Path) -> None:
    execution_id = db.execution.start("Feature")
    id = db.agents.start("Implement")
    with create_smithers_db(path, read_only=True) as reader:
        assert reader.agents.list(execution_id) == db.agents.list(execution_id)
        current = reader.agents.current()
        assert current is not None and current.id == id
        for write in (
            lambda: reader.agents.start("a"),
            lambda: reader.agents.progress(id, turns=1),
            lambda: reader.agents.complete(id, "x"),
            lambda: reader.agents.fail(id, "x"),
            lambda: reader.agents.cancel(id),
        ):
            with pytest.raises(ReadOnly):
                write()


async def test_every_call_is_awaited_on_an_event_loop(path: Path) -> None:
    async with create_async_smithers_db(path) as db:
        execution_id = await db.execution.start("Feature")
        seen: Recorder[list[Agent]] = Recorder()
        db.agents.observe(execution_id).subscribe(seen)
        async with db.agents.open("Implement", "opus", "Be brief") as id:
            current = await db.agents.current()
            assert current is not None and (current.id, current.model) == (id, "opus")
            await db.agents.progress(id, output="so far", turns=2, tokens={"input": 3})
        with pytest.raises(ZeroDivisionError):
            async with db.agents.open("failing"):
                _ = 1 / 0
        cancelled = await db.agents.start("cancelled")
        assert await db.agents.is_running(cancelled)
        await db.agents.cancel(cancelled)
        with pytest.raises(InvalidStatus):
            await db.agents.complete(cancelled, "late")
        await db.agents.leave(cancelled)
        done = await db.agents.start("done")
        await db.agents.complete(done, "text", [1], {"output": 4})
        listed = await db.agents.list(execution_id)
        assert [a.status for a in listed] == ["completed", "failed", "cancelled", "completed"]
        assert (listed[0].output, listed[0].turns, listed[0].tokens_input) == ("so far", 2, 3)
        assert await db.agents.get(done) == listed[3]
        seen.wait_for(lambda agents: agents == listed)
