"""Executions: every field and default, how they end, what ends with them, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from reactive_sqlite import sqlite3
from smithers import (
    AsyncSmithersDB,
    Execution,
    ExecutionBusy,
    InvalidStatus,
    NotFound,
    OwnershipLost,
    ReadOnly,
    SmithersDB,
    create_async_smithers_db,
    create_smithers_db,
)
from tests.recorder import Recorder
from tests.smithers.hostile import HOSTILE, UNWRITABLE, contents


def execution(db: SmithersDB, id: str) -> Execution:
    found = db.execution.get(id)
    assert found is not None
    return found


def broken(message: str) -> Exception:
    """An exception that has been raised, and so has a traceback."""
    try:
        raise RuntimeError(message)
    except RuntimeError as error:
        return error


# -- starting --------------------------------------------------------------------------------------


def test_a_started_execution_has_every_field(db: SmithersDB) -> None:
    before = datetime.now(UTC)
    id = db.execution.start("Feature", PurePosixPath("scripts/feature.py"), {"retries": [1, None]})
    started = execution(db, id)
    assert started == Execution(
        id=id,
        name="Feature",
        file_path="scripts/feature.py",
        status="running",
        config={"retries": [1, None]},
        result=None,
        error=None,
        owner=started.owner,
        is_live=True,
        cancel_requested_at=None,
        cancel_reason=None,
        started_at=started.started_at,
        completed_at=None,
        created_at=started.started_at,
        duration_ms=None,
        total_iterations=0,
        total_agents=0,
        total_tool_calls=0,
        total_tokens_used=0,
        total_cost_usd=0.0,
    )
    assert started.owner is not None and started.owner.endswith(f":{os.getpid()}")
    assert before <= started.started_at <= datetime.now(UTC)
    assert started.started_at.tzinfo is UTC


def test_path_and_config_may_be_left_out_and_a_path_need_not_exist(db: SmithersDB) -> None:
    plain = execution(db, db.execution.start("Feature"))
    assert (plain.file_path, plain.config) == (None, None)
    missing = execution(db, db.execution.start("Feature", "no/such/file.py"))
    assert missing.file_path == "no/such/file.py"


def test_ids_sort_in_the_order_of_the_starts(db: SmithersDB) -> None:
    ids = [db.execution.start(f"run {n}") for n in range(50)]
    assert ids == sorted(set(ids))


def test_both_names_are_the_same_store(db: SmithersDB) -> None:
    assert db.execution is db.executions


# -- ending ----------------------------------------------------------------------------------------


def test_a_completed_execution_has_result_and_duration(db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    db.execution.complete(id, {"summary": "done", "files": ("a", "b")})
    ended = execution(db, id)
    assert (ended.status, ended.error) == ("completed", None)
    assert ended.result == {"summary": "done", "files": ["a", "b"]}
    assert ended.completed_at is not None and ended.completed_at >= ended.started_at
    assert ended.duration_ms is not None and ended.duration_ms >= 0
    assert not ended.is_live, "nobody owns what has ended"


def test_durations_are_in_milliseconds(db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    earlier = (datetime.now(UTC) - timedelta(seconds=90)).isoformat()
    db.query("UPDATE executions SET started_at = $1 WHERE id = $2", [earlier, id], write=True)
    db.execution.complete(id)
    assert 90_000 <= (execution(db, id).duration_ms or 0) < 120_000


def test_a_clock_set_back_gives_no_negative_duration(db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    db.query("UPDATE executions SET started_at = $1 WHERE id = $2", [later, id], write=True)
    db.execution.complete(id)
    assert execution(db, id).duration_ms == 0


def test_an_exception_is_kept_as_type_message_and_traceback(db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    db.execution.fail(id, broken("Tests failed"))
    failed = execution(db, id)
    assert failed.status == "failed" and failed.error is not None
    lines = failed.error.splitlines()
    assert lines[:2] == ["RuntimeError: Tests failed", "Traceback (most recent call last):"]
    assert "raise RuntimeError(message)" in failed.error


def test_an_exception_that_was_never_raised_is_kept_in_one_line(db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    db.execution.fail(id, ValueError("bad"))
    assert execution(db, id).error == "ValueError: bad"


def test_text_as_error_stays_as_it_is(db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    db.execution.fail(id, "Tests failed\non line 3")
    assert execution(db, id).error == "Tests failed\non line 3"


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (ValueError("lone \ud800"), "ValueError: lone \\ud800"),
        (ValueError("nul \0"), "ValueError: nul \\x00"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "UnicodeDecodeError: 'utf-8'"),
        (Unreadable(), "Unreadable: (its message cannot be read: RuntimeError)"),
        ("text \udfff", "text \\udfff"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (ExceptionGroup("many", [ValueError("a"), TypeError("b")]), "ExceptionGroup: many"),
    ],
)
def test_an_error_that_utf8_cannot_write_is_kept_all_the_same(
    db: SmithersDB, error: BaseException | str, kept: str
) -> None:
    id = db.execution.start("Feature")
    db.execution.fail(id, error)
    found = execution(db, id).error
    assert found is not None and found.startswith(kept)


def test_a_cancelled_execution_has_time_and_reason(db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    db.execution.cancel(id, "no longer wanted")
    cancelled = execution(db, id)
    assert (cancelled.status, cancelled.cancel_reason) == ("cancelled", "no longer wanted")
    assert cancelled.cancel_requested_at == cancelled.completed_at is not None
    assert cancelled.duration_ms is not None


ENDINGS: dict[str, Callable[[SmithersDB, str], None]] = {
    "complete": lambda db, id: db.execution.complete(id, 1),
    "fail": lambda db, id: db.execution.fail(id, "again"),
    "cancel": lambda db, id: db.execution.cancel(id, "again"),
    "resume": lambda db, id: (db.execution.resume(id), None)[1],
}


@pytest.mark.parametrize("again", ENDINGS)
@pytest.mark.parametrize("first", ["complete", "fail", "cancel"])
def test_what_has_ended_cannot_be_ended_or_resumed(db: SmithersDB, first: str, again: str) -> None:
    id = db.execution.start("Feature")
    ENDINGS[first](db, id)
    before = contents(db)
    with pytest.raises(InvalidStatus, match=f"cannot {again} execution") as caught:
        ENDINGS[again](db, id)
    assert caught.value.id == id
    assert caught.value.status == execution(db, id).status
    assert contents(db) == before


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_unknown_id_is_not_found(db: SmithersDB, ending: str) -> None:
    before = contents(db)
    with pytest.raises(NotFound, match="there is no execution 'nobody'"):
        ENDINGS[ending](db, "nobody")
    assert contents(db) == before
    assert db.execution.get("nobody") is None


@pytest.mark.parametrize(
    ("ending", "part"), [("complete", "failed"), ("fail", "failed"), ("cancel", "skipped")]
)
def test_what_is_open_below_an_execution_ends_with_it(
    db: SmithersDB, ending: str, part: str
) -> None:
    id = db.execution.start("Feature")
    done = db.phases.start("done")
    db.phases.complete(done)
    phase, step, agent = db.phases.start("open"), db.steps.start("open"), db.agents.start("open")
    tool = db.tools.start(agent, "Bash", None)
    other = db.execution.start("Other")
    untouched = db.phases.start("of the other", execution_id=other)
    ENDINGS[ending](db, id)
    rows = [db.phases.get(phase), db.steps.get(step), db.agents.get(agent), db.tools.get(tool)]
    ended = execution(db, id)
    assert [row and row.status for row in rows] == [part, part, "cancelled", "cancelled"]
    for row in rows:
        assert row is not None
        assert row.error == f"the execution has ended: {ended.status}"
        assert row.completed_at == ended.completed_at
        assert row.duration_ms is not None and row.duration_ms >= 0
    assert [p.status for p in db.phases.list(id)] == ["completed", part], "what had ended stays"
    assert db.phases.is_running(untouched)


def test_after_its_end_nothing_runs_below_an_execution(db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    phase = db.phases.start("open")
    db.agents.start("open")
    db.execution.complete(id)
    assert (db.execution.current(), db.phases.current(), db.agents.current()) == (None, None, None)
    alone = db.agents.get(db.agents.start("alone"))
    assert alone is not None
    assert (alone.execution_id, alone.phase_id, alone.parent_agent_id) == (None, None, None)
    for late in (lambda: db.steps.start("late", phase_id=phase), lambda: db.phases.complete(phase)):
        with pytest.raises(InvalidStatus):
            late()


# -- reading ---------------------------------------------------------------------------------------


def test_executions_are_listed_newest_first_twenty_of_them(db: SmithersDB) -> None:
    ids = [db.execution.start(f"run {n}") for n in range(25)]
    assert [one.id for one in db.execution.list()] == ids[:4:-1]
    assert [one.id for one in db.execution.list(limit=None)] == ids[::-1]
    assert [one.id for one in db.execution.list(limit=2)] == ids[:-3:-1]
    assert db.execution.list(limit=0) == []


def test_a_list_may_be_of_one_status(db: SmithersDB) -> None:
    done, open = db.execution.start("done"), db.execution.start("open")
    db.execution.complete(done)
    assert [one.id for one in db.execution.list("completed")] == [done]
    assert [one.id for one in db.execution.list("running")] == [open]
    assert db.execution.list("interrupted") == []


def test_the_current_execution_is_that_of_the_context_else_the_newest_running(
    db: SmithersDB, elsewhere: SmithersDB
) -> None:
    assert db.execution.current() is None
    first = db.execution.start("first")
    second = elsewhere.execution.start("second")
    current, seen = db.execution.current(), elsewhere.execution.current()
    assert (current and current.id, seen and seen.id) == (first, second)
    elsewhere.execution.complete(second)
    seen = elsewhere.execution.current()
    assert seen and seen.id == first, "any running one is better than none"
    assert seen.is_live, "its owner lives, here"


def test_a_current_execution_that_another_handle_ended_is_passed_over(
    db: SmithersDB, foreign: sqlite3.Connection
) -> None:
    id = db.execution.start("first")
    foreign.execute("UPDATE executions SET status = 'failed' WHERE id = ?", (id,))
    assert db.execution.current() is None


def test_observers_follow_one_execution_and_the_list(
    db: SmithersDB, recorder: Recorder[list[Execution]]
) -> None:
    db.execution.observe().subscribe(recorder)
    id = db.execution.start("Feature")
    one: Recorder[Execution | None] = Recorder()
    db.execution.observe(id).subscribe(one)
    unknown: Recorder[Execution | None] = Recorder()
    db.execution.observe("nobody").subscribe(unknown)
    db.agents.start("Implement")
    db.execution.complete(id)
    assert [[(e.status, e.total_agents) for e in list] for list in recorder.values] == [
        [],
        [("running", 0)],
        [("running", 1)],
        [("completed", 1)],
    ]
    assert [e and e.status for e in one.values] == ["running", "running", "completed"]
    assert unknown.values == [None]
    assert db.execution.observe().peek() == db.execution.list()


def test_an_observer_sees_an_end_and_all_that_ended_with_it_at_once(db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    db.phases.start("open")
    seen: list[str] = []
    phases = db.phases.observe(id)
    db.execution.observe(id).subscribe(
        lambda e: seen.append(f"{e and e.status}: {[p.status for p in phases.peek()]}")
    )
    db.execution.complete(id)
    assert seen == ["running: ['running']", "completed: ['failed']"]


# -- who owns it -----------------------------------------------------------------------------------


def test_what_a_live_run_owns_cannot_be_ended_or_resumed_elsewhere(
    db: SmithersDB, elsewhere: SmithersDB
) -> None:
    id = db.execution.start("Feature")
    before = contents(db)
    for ending in (ENDINGS["complete"], ENDINGS["fail"], ENDINGS["resume"]):
        with pytest.raises(ExecutionBusy, match="owned by another live run") as caught:
            ending(elsewhere, id)
        assert (caught.value.id, caught.value.owner) == (id, execution(db, id).owner)
    assert contents(db) == before
    assert elsewhere.execution.find_incomplete() is None


def test_cancelling_what_a_live_run_owns_asks_it_to_stop(
    db: SmithersDB, elsewhere: SmithersDB, recorder: Recorder[Execution | None]
) -> None:
    id = db.execution.start("Feature")
    db.execution.observe(id).subscribe(recorder)
    elsewhere.execution.cancel(id, "enough")
    elsewhere.execution.cancel(id, "the first one counts")
    asked = recorder.wait_for(lambda e: e is not None and e.cancel_requested_at is not None)
    assert asked is not None
    assert (asked.status, asked.cancel_reason) == ("running", "enough")
    db.close()
    ended = execution(elsewhere, id)
    assert (ended.status, ended.cancel_reason) == ("cancelled", "enough")


def test_what_a_closed_handle_left_running_is_found_and_resumed(
    db: SmithersDB, elsewhere: SmithersDB
) -> None:
    id = db.execution.start("Feature")
    other = db.execution.start("Other")
    db.close()
    left = execution(elsewhere, id)
    assert (left.status, left.is_live) == ("running", False)
    incomplete = elsewhere.execution.find_incomplete()
    assert incomplete is not None and incomplete.id == other, "the newest one"
    named = elsewhere.execution.find_incomplete("Feature")
    assert named is not None and named.id == id
    assert elsewhere.execution.find_incomplete("Nobody") is None
    assert elsewhere.execution.resume(id).is_live
    phase = elsewhere.phases.get(elsewhere.phases.start("go on"))
    assert phase is not None and phase.execution_id == id, "what is resumed runs here"
    elsewhere.execution.complete(id, "resumed")
    assert execution(elsewhere, id).result == "resumed"


def test_an_interrupted_execution_is_incomplete_and_runs_again_when_resumed(
    db: SmithersDB, elsewhere: SmithersDB
) -> None:
    id = db.execution.start("Feature")
    db.close()
    elsewhere.query("UPDATE executions SET status = 'interrupted', error = 'x'", write=True)
    incomplete = elsewhere.execution.find_incomplete()
    assert incomplete is not None and incomplete.status == "interrupted"
    resumed = elsewhere.execution.resume(id)
    assert (resumed.status, resumed.error) == ("running", None)


def test_a_failed_execution_is_not_incomplete(db: SmithersDB) -> None:
    for ending in ("complete", "fail", "cancel"):
        ENDINGS[ending](db, db.execution.start(ending))
    assert db.execution.find_incomplete() is None


def test_resuming_what_runs_here_is_harmless_and_it_ends_in_both_places(db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    db.execution.resume(id)
    db.execution.complete(id)
    alone = db.agents.get(db.agents.start("alone"))
    assert alone is not None and alone.execution_id is None


def test_late_writes_of_a_run_that_was_taken_over_are_refused(
    db: SmithersDB, elsewhere: SmithersDB
) -> None:
    id = db.execution.start("Feature")
    phase, step, agent = db.phases.start("p"), db.steps.start("s"), db.agents.start("a")
    tool = db.tools.start(agent, "Bash", None)
    db.query("UPDATE _smithers_leases SET expires = 0", write=True)
    elsewhere.execution.resume(id)
    before = contents(db)
    late: list[Callable[[], object]] = [
        lambda: db.phases.start("late"),
        lambda: db.steps.start("late"),
        lambda: db.agents.start("late"),
        lambda: db.tools.start(agent, "late", None),
        lambda: db.phases.complete(phase),
        lambda: db.steps.complete(step),
        lambda: db.agents.complete(agent, "late"),
        lambda: db.agents.progress(agent, output="late"),
        lambda: db.tools.complete(tool, "late"),
        lambda: db.execution.complete(id),
        lambda: db.execution.fail(id, "late"),
    ]
    for write in late:
        with pytest.raises(OwnershipLost, match="another took it over"):
            write()
    assert contents(db) == before


# -- transactions ----------------------------------------------------------------------------------


def test_a_start_that_is_rolled_back_leaves_nothing_current(db: SmithersDB) -> None:
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.execution.start("Feature")
        db.phases.start("never")
        db.agents.start("never")
        _ = 1 / 0
    assert (db.execution.current(), db.phases.current(), db.agents.current()) == (None, None, None)
    assert db.execution.list() == []
    alone = db.agents.get(db.agents.start("alone"))
    assert alone is not None and alone.execution_id is None
    again = db.execution.start("again")
    db.execution.complete(again)


def test_an_end_that_is_rolled_back_leaves_it_and_all_below_running(
    db: SmithersDB, elsewhere: SmithersDB
) -> None:
    id = db.execution.start("Feature")
    phase, agent = db.phases.start("open"), db.agents.start("open")
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.execution.complete(id)
        assert db.phases.current() is None
        _ = 1 / 0
    assert execution(db, id).status == "running"
    below = db.agents.get(db.agents.start("below"))
    assert below is not None
    assert (below.execution_id, below.phase_id, below.parent_agent_id) == (id, phase, agent)
    with pytest.raises(ExecutionBusy):
        elsewhere.execution.complete(id)
    db.execution.complete(id)


def test_a_savepoint_that_is_rolled_back_undoes_only_what_is_inside(db: SmithersDB) -> None:
    with db.transaction():
        outer = db.execution.start("outer")
        phase = db.phases.start("kept")
        with pytest.raises(ZeroDivisionError), db.transaction():
            db.phases.complete(phase)
            db.execution.start("inner")
            _ = 1 / 0
        current = db.phases.current()
        assert current is not None and current.id == phase
    assert [e.id for e in db.execution.list()] == [outer]
    assert db.phases.is_running(phase)


# -- totals ----------------------------------------------------------------------------------------


def test_totals_are_those_of_the_rows(db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    for iteration in (0, 0, 1, 2):
        db.phases.complete(db.phases.start("implement", iteration))
    for _ in range(10):
        agent = db.agents.start("Implement")
        db.tools.complete(db.tools.start(agent, "Edit", {}), "ok")
        used = {"input": 100, "output": 10, "cache_read": 7, "cache_write": 5, "cost_usd": 0.1}
        db.agents.complete(agent, "done", tokens=used)
    found = execution(db, id)
    assert found.total_iterations == 3, "one for each iteration in which a phase ran"
    assert (found.total_agents, found.total_tool_calls) == (10, 10)
    assert found.total_tokens_used == 1100, "input and output, the cache is not counted"
    assert found.total_cost_usd == 1.0, "exactly: ten times 0.1 in floats is less than 1"


def test_writes_of_the_sqlite3_shell_keep_the_totals_right(
    db: SmithersDB, shell: Callable[[str], str]
) -> None:
    id = db.execution.start("Feature")
    agent = db.agents.start("Implement")
    db.tools.start(agent, "Edit", None)
    shell(
        f"INSERT INTO agents (id, execution_id, model, prompt, tokens_input, cost_usd)"
        f" VALUES ('foreign', '{id}', 'opus', 'p', 40, 0.25);"
        f"INSERT INTO tool_calls (id, agent_id, execution_id, name)"
        f" VALUES ('t', 'foreign', '{id}', 'Bash');"
        f"INSERT INTO phases (id, execution_id, name, iteration) VALUES ('p', '{id}', 'p', 4);"
        f"UPDATE agents SET tokens_output = 2 WHERE id = '{agent}';"
    )
    found = execution(db, id)
    assert (found.total_iterations, found.total_agents, found.total_tool_calls) == (1, 2, 2)
    assert (found.total_tokens_used, found.total_cost_usd) == (42, 0.25)
    shell("PRAGMA foreign_keys = ON; DELETE FROM agents WHERE id = 'foreign'; DELETE FROM phases;")
    found = execution(db, id)
    assert (found.total_iterations, found.total_agents, found.total_tool_calls) == (0, 1, 1)
    assert (found.total_tokens_used, found.total_cost_usd) == (2, 0.0)


def test_an_end_written_by_the_shell_ends_what_is_open_below(
    db: SmithersDB, shell: Callable[[str], str]
) -> None:
    id = db.execution.start("Feature")
    phase, agent = db.phases.start("open"), db.agents.start("open")
    shell(f"UPDATE executions SET status = 'cancelled' WHERE id = '{id}'")
    ended, called = db.phases.get(phase), db.agents.get(agent)
    assert ended and called and (ended.status, called.status) == ("skipped", "cancelled")
    assert ended.completed_at is not None and ended.duration_ms is not None


# -- bad input -------------------------------------------------------------------------------------


BAD: list[tuple[Callable[[Any], object], type[Exception]]] = [
    (lambda db: db.execution.start(""), ValueError),
    (lambda db: db.execution.start(None), TypeError),
    (lambda db: db.execution.start("a", 7), TypeError),
    (lambda db: db.execution.start("a", b"bytes"), TypeError),
    (lambda db: db.execution.start("a", ""), ValueError),
    (lambda db: db.execution.start("a", None, {1: 2}), TypeError),
    (lambda db: db.execution.start("a", None, float("nan")), ValueError),
    (lambda db: db.execution.start("a", None, object()), TypeError),
    (lambda db: db.execution.complete("x", {1}), TypeError),
    (lambda db: db.execution.complete(None), TypeError),
    (lambda db: db.execution.complete(""), ValueError),
    (lambda db: db.execution.fail("x", None), TypeError),
    (lambda db: db.execution.fail("x", 7), TypeError),
    (lambda db: db.execution.cancel("x", 7), TypeError),
    (lambda db: db.execution.cancel(7), TypeError),
    (lambda db: db.execution.resume(7), TypeError),
    (lambda db: db.execution.get(7), TypeError),
    (lambda db: db.execution.observe(""), ValueError),
    (lambda db: db.execution.find_incomplete(""), ValueError),
    (lambda db: db.execution.list("done"), ValueError),
    (lambda db: db.execution.list(limit=-1), ValueError),
    (lambda db: db.execution.list(limit=2**63), ValueError),
    (lambda db: db.execution.list(limit=True), ValueError),
    (lambda db: db.execution.list(limit="1"), ValueError),
]


@pytest.mark.parametrize(("call", "error"), BAD)
def test_bad_input_is_a_typed_error_and_leaves_nothing_written(
    db: SmithersDB, call: Callable[[Any], object], error: type[Exception]
) -> None:
    before = contents(db)
    with pytest.raises(error):
        call(db)
    assert contents(db) == before


@pytest.mark.parametrize("text", UNWRITABLE)
def test_text_that_utf8_cannot_write_is_refused(db: SmithersDB, text: str) -> None:
    id = db.execution.start("Feature")
    before = contents(db)
    for call in (
        lambda: db.execution.start(text),
        lambda: db.execution.start("a", text),
        lambda: db.execution.cancel(id, text),
        lambda: db.execution.get(text),
        lambda: db.execution.complete(text),
        lambda: db.execution.find_incomplete(text),
    ):
        with pytest.raises(ValueError, match=r"has no (NUL|lone)"):
            call()
    assert contents(db) == before


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_comes_back_as_it_was_given(db: SmithersDB, text: str) -> None:
    id = db.execution.start(text, text, {text: text})
    db.execution.complete(id, text)
    found = execution(db, id)
    assert (found.name, found.file_path, found.config, found.result) == (
        *(text, text),
        *({text: text}, text),
    )
    for end in (db.execution.fail, db.execution.cancel):
        end(db.execution.start("other"), text)
    failed, cancelled = db.execution.list("failed")[0], db.execution.list("cancelled")[0]
    assert (failed.error, cancelled.cancel_reason) == (text, text)
    assert db.execution.get(text) is None
    assert db.execution.find_incomplete(text) is None
    assert db.stats()["executions"] == 3


def test_a_reader_only_reads(db: SmithersDB, path: Path) -> None:
    id = db.execution.start("Feature")
    with create_smithers_db(path, read_only=True) as reader:
        found = reader.execution.get(id)
        assert found is not None and found.is_live
        current = reader.execution.current()
        assert current is not None and current.id == id
        for write in (
            lambda: reader.execution.start("a"),
            lambda: reader.execution.complete(id),
            lambda: reader.execution.fail(id, "x"),
            lambda: reader.execution.cancel(id),
            lambda: reader.execution.resume(id),
        ):
            with pytest.raises(ReadOnly):
                write()


# -- asyncio ---------------------------------------------------------------------------------------


async def test_every_call_is_awaited_on_an_event_loop(path: Path) -> None:
    async with create_async_smithers_db(path) as db:
        assert db.execution is db.executions
        seen: Recorder[Execution | None] = Recorder()
        id = await db.execution.start("Feature", "f.py", {"a": 1})
        db.execution.observe(id).subscribe(seen)
        current = await db.execution.current()
        assert current is not None and (current.id, current.config) == (id, {"a": 1})
        assert [e.id for e in await db.execution.list()] == [id]
        assert (await db.execution.resume(id)).id == id
        await db.execution.complete(id, "done")
        with pytest.raises(InvalidStatus):
            await db.execution.fail(id, "again")
        with pytest.raises(NotFound):
            await db.execution.cancel("nobody")
        assert seen.wait_for(lambda e: e is not None and e.result == "done")
        assert await db.execution.find_incomplete() is None
        failed = await db.execution.start("Failing")
        await db.execution.fail(failed, broken("x"))
        found = await db.execution.get(failed)
        assert found is not None and found.error is not None and "RuntimeError: x" in found.error


async def test_what_an_async_handle_left_running_is_found_by_the_next(path: Path) -> None:
    async with create_async_smithers_db(path) as db:
        id = await db.execution.start("Feature")
    again: AsyncSmithersDB = create_async_smithers_db(path)
    async with again as db:
        incomplete = await db.execution.find_incomplete("Feature")
        assert incomplete is not None and incomplete.id == id
        assert (await db.execution.resume(id)).is_live
