"""Phases: fields and defaults, how they end, what is current, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import sqlite3
from smithers import (
    InvalidStatus,
    NoCurrentExecution,
    NotFound,
    Phase,
    ReadOnly,
    SmithersDB,
    create_async_smithers_db,
    create_smithers_db,
)
from tests.recorder import Recorder
from tests.smithers.hostile import HOSTILE, UNWRITABLE, contents


def phase(db: SmithersDB, id: str) -> Phase:
    found = db.phases.get(id)
    assert found is not None
    return found


def test_a_started_phase_has_every_field(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    id = db.phases.start("implement", 2)
    started = phase(db, id)
    assert started == Phase(
        id=id,
        execution_id=execution_id,
        name="implement",
        iteration=2,
        status="running",
        error=None,
        started_at=started.started_at,
        completed_at=None,
        duration_ms=None,
    )
    assert started.started_at.tzinfo is UTC
    assert phase(db, db.phases.start("review")).iteration == 0


@pytest.mark.parametrize("again", ["complete", "skip", "fail"])
@pytest.mark.parametrize(
    ("first", "status"), [("complete", "completed"), ("skip", "skipped"), ("fail", "failed")]
)
def test_a_phase_ends_once_with_its_duration(
    db: SmithersDB, first: str, status: str, again: str
) -> None:
    endings: dict[str, Callable[[str], None]] = {
        "complete": db.phases.complete,
        "skip": db.phases.skip,
        "fail": lambda id: db.phases.fail(id, "the tests fail"),
    }
    db.execution.start("Feature")
    id = db.phases.start("implement")
    earlier = (datetime.now(UTC) - timedelta(seconds=90)).isoformat()
    db.query("UPDATE phases SET started_at = $1", [earlier], write=True)
    endings[first](id)
    ended = phase(db, id)
    assert ended.status == status
    assert ended.error == ("the tests fail" if status == "failed" else None)
    assert ended.completed_at is not None
    assert 90_000 <= (ended.duration_ms or 0) < 120_000, "in milliseconds, in every ending"
    before = contents(db)
    with pytest.raises(InvalidStatus, match=f"cannot {again} phase .* it is {status}") as caught:
        endings[again](id)
    assert (caught.value.id, caught.value.status) == (id, status)
    with pytest.raises(NotFound, match="no phase 'nobody'"):
        endings[again]("nobody")
    assert contents(db) == before


def test_a_phase_needs_an_execution(db: SmithersDB) -> None:
    before = contents(db)
    with pytest.raises(NoCurrentExecution, match=r"call db\.execution\.start"):
        db.phases.start("implement")
    with pytest.raises(NotFound, match="no execution 'nobody'"):
        db.phases.start("implement", execution_id="nobody")
    assert contents(db) == before
    ended = db.execution.start("Feature")
    db.execution.complete(ended)
    with pytest.raises(NoCurrentExecution):
        db.phases.start("implement")
    with pytest.raises(InvalidStatus, match="cannot start anything below execution"):
        db.phases.start("implement", execution_id=ended)


def test_a_phase_below_an_execution_that_another_program_ended_is_refused(
    db: SmithersDB, elsewhere: SmithersDB, foreign: sqlite3.Connection
) -> None:
    id = db.execution.start("Feature")
    elsewhere.phases.start("open", execution_id=id)
    foreign.execute("UPDATE executions SET status = 'completed'")
    foreign.execute("UPDATE phases SET status = 'running'")
    with pytest.raises(InvalidStatus, match=r"anything below execution .* completed"):
        elsewhere.phases.start("late")
    foreign.execute("UPDATE phases SET status = 'failed'")
    with pytest.raises(NoCurrentExecution):
        elsewhere.phases.start("late")
    assert db.stats()["phases"] == 1


def test_a_named_execution_comes_before_that_of_the_context(db: SmithersDB) -> None:
    first, second = db.execution.start("first"), db.execution.start("second")
    assert phase(db, db.phases.start("here")).execution_id == second
    assert phase(db, db.phases.start("there", execution_id=first)).execution_id == first


def test_phases_are_listed_in_the_order_of_their_starts(db: SmithersDB) -> None:
    assert db.phases.list() == []
    first = db.execution.start("first")
    ids = [db.phases.start(f"phase {n}", n) for n in range(5)]
    second = db.execution.start("second")
    other = db.phases.start("other")
    for id in reversed(ids):
        db.phases.complete(id)
    assert [one.id for one in db.phases.list(first)] == ids
    assert [one.id for one in db.phases.list(second)] == [other]
    assert [one.id for one in db.phases.list()] == [*ids, other]
    assert [one.id for one in db.phases.list(first, limit=2)] == ids[-2:]
    assert db.phases.list("nobody") == []


def test_the_current_phase_is_the_innermost_that_runs(db: SmithersDB) -> None:
    assert db.phases.current() is None
    db.execution.start("Feature")
    assert db.phases.current() is None
    outer, inner = db.phases.start("outer"), db.phases.start("inner")
    for id in (inner, outer):
        current = db.phases.current()
        assert current is not None and current.id == id
        db.phases.complete(id)
    assert db.phases.current() is None


def test_another_handle_sees_the_newest_running_phase_of_the_newest_execution(
    db: SmithersDB, elsewhere: SmithersDB
) -> None:
    db.execution.start("older")
    db.phases.start("of the older")
    db.execution.start("newer")
    assert elsewhere.phases.current() is None
    ids = [db.phases.start("first"), db.phases.start("second")]
    current = elsewhere.phases.current()
    assert current is not None and current.id == ids[1]


def test_a_block_completes_its_phase(db: SmithersDB) -> None:
    db.execution.start("Feature")
    with db.phases.open("implement", 3) as id:
        current = db.phases.current()
        assert current is not None and (current.id, current.iteration) == (id, 3)
        assert db.phases.is_running(id)
    assert phase(db, id).status == "completed"
    assert db.phases.current() is None
    assert not db.phases.is_running(id)
    assert not db.phases.is_running("nobody")


def test_an_exception_fails_the_phase_it_leaves_and_goes_on(db: SmithersDB) -> None:
    db.execution.start("Feature")
    with pytest.raises(ZeroDivisionError), db.phases.open("outer"):
        with pytest.raises(ValueError), db.phases.open("inner"):
            raise ValueError("bad")
        assert db.phases.list()[0].status == "running", "what was caught inside concerns it not"
        _ = 1 / 0
    outer, inner = db.phases.list()
    assert inner.error is not None and inner.error.startswith("ValueError: bad\nTraceback")
    assert outer.error is not None and outer.error.startswith("ZeroDivisionError: ")
    assert (outer.status, inner.status) == ("failed", "failed")


def test_what_the_block_has_ended_itself_stays_so(db: SmithersDB) -> None:
    db.execution.start("Feature")
    with db.phases.open("implement") as id:
        db.phases.skip(id)
    assert phase(db, id).status == "skipped"
    with pytest.raises(ZeroDivisionError), db.phases.open("implement") as id:
        db.phases.complete(id)
        _ = 1 / 0
    assert phase(db, id).status == "completed"


def test_a_block_may_outlive_its_execution_and_its_row(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature")
    with db.phases.open("implement") as id:
        db.execution.complete(execution_id)
    assert phase(db, id).status == "failed"
    db.execution.start("Feature")
    with db.phases.open("implement") as id:
        db.query("DELETE FROM phases WHERE id = $1", [id], write=True)
    assert db.phases.get(id) is None


def test_a_phase_that_cannot_be_ended_is_a_note_on_what_went_wrong(
    db: SmithersDB, elsewhere: SmithersDB
) -> None:
    id = db.execution.start("Feature")
    with pytest.raises(ZeroDivisionError) as caught, db.phases.open("implement"):
        db.query("UPDATE _smithers_leases SET expires = 0", write=True)
        elsewhere.execution.resume(id)
        _ = 1 / 0
    (note,) = caught.value.__notes__
    assert note.startswith("the row could not be ended: OwnershipLost: ")


def test_starts_and_ends_that_are_rolled_back_never_were(db: SmithersDB) -> None:
    db.execution.start("Feature")
    kept = db.phases.start("kept")
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.phases.complete(kept)
        inner = db.phases.start("never")
        current = db.phases.current()
        assert current is not None and current.id == inner
        _ = 1 / 0
    assert [one.id for one in db.phases.list()] == [kept]
    current = db.phases.current()
    assert current is not None and current.id == kept
    step = db.steps.get(db.steps.start("below"))
    assert step is not None and step.phase_id == kept
    db.phases.complete(kept)


def test_observers_follow_the_phases_of_one_execution_or_of_all(
    db: SmithersDB, shell: Callable[[str], str]
) -> None:
    one: Recorder[list[Phase]] = Recorder()
    all: Recorder[list[Phase]] = Recorder()
    first = db.execution.start("first")
    second = db.execution.start("second")
    db.phases.observe(first).subscribe(one)
    db.phases.observe().subscribe(all)
    db.phases.start("other", execution_id=second)
    id = db.phases.start("mine", execution_id=first)
    db.phases.complete(id)
    shell(f"UPDATE phases SET status = 'failed', error = 'shell' WHERE id = '{id}'")
    one.wait_for(lambda phases: bool(phases) and phases[0].error == "shell")
    assert [[p.status for p in seen] for seen in one.values] == [
        [],
        ["running"],
        ["completed"],
        ["failed"],
    ]
    assert [len(seen) for seen in all.values[:4]] == [0, 1, 2, 2]
    assert db.phases.observe(first).peek() == db.phases.list(first)


BAD: list[tuple[Callable[[Any], object], type[Exception]]] = [
    (lambda db: db.phases.start(""), ValueError),
    (lambda db: db.phases.start(None), TypeError),
    (lambda db: db.phases.start("a", -1), ValueError),
    (lambda db: db.phases.start("a", 2**63), ValueError),
    (lambda db: db.phases.start("a", 1.0), ValueError),
    (lambda db: db.phases.start("a", True), ValueError),
    (lambda db: db.phases.start("a", "1"), ValueError),
    (lambda db: db.phases.start("a", execution_id=""), ValueError),
    (lambda db: db.phases.start("a", execution_id=7), TypeError),
    (lambda db: db.phases.complete(None), TypeError),
    (lambda db: db.phases.skip(""), ValueError),
    (lambda db: db.phases.fail("x", None), TypeError),
    (lambda db: db.phases.fail("x", 7), TypeError),
    (lambda db: db.phases.get(7), TypeError),
    (lambda db: db.phases.is_running(7), TypeError),
    (lambda db: db.phases.list(7), TypeError),
    (lambda db: db.phases.list(""), ValueError),
    (lambda db: db.phases.list(limit=-1), ValueError),
    (lambda db: db.phases.observe(7), TypeError),
]


@pytest.mark.parametrize(("call", "error"), BAD)
def test_bad_input_is_a_typed_error_and_leaves_nothing_written(
    db: SmithersDB, call: Callable[[Any], object], error: type[Exception]
) -> None:
    db.execution.start("Feature")
    before = contents(db)
    with pytest.raises(error):
        call(db)
    assert contents(db) == before


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_comes_back_as_it_was_given(db: SmithersDB, text: str) -> None:
    db.execution.start("Feature")
    id = db.phases.start(text)
    db.phases.fail(id, text)
    failed = phase(db, id)
    assert (failed.name, failed.error) == (text, text)
    assert db.phases.get(text) is None
    assert db.phases.list(text) == []
    with pytest.raises(NotFound):
        db.phases.start("a", execution_id=text)
    assert db.stats()["phases"] == 1


@pytest.mark.parametrize("text", UNWRITABLE)
def test_text_that_utf8_cannot_write_is_refused_and_in_an_error_escaped(
    db: SmithersDB, text: str
) -> None:
    db.execution.start("Feature")
    for call in (
        lambda: db.phases.start(text),
        lambda: db.phases.start("a", execution_id=text),
        lambda: db.phases.complete(text),
        lambda: db.phases.list(text),
    ):
        with pytest.raises(ValueError, match=r"has no (NUL|lone)"):
            call()
    with pytest.raises(RuntimeError), db.phases.open("a") as id:
        raise RuntimeError(text)
    error = phase(db, id).error
    assert error is not None and error.startswith("RuntimeError: ") and "\\" in error


def test_a_reader_only_reads(db: SmithersDB, path: Path) -> None:
    execution_id = db.execution.start("Feature")
    id = db.phases.start("implement")
    with create_smithers_db(path, read_only=True) as reader:
        assert reader.phases.list(execution_id) == db.phases.list(execution_id)
        current = reader.phases.current()
        assert current is not None and current.id == id
        for write in (
            lambda: reader.phases.start("a", execution_id=execution_id),
            lambda: reader.phases.complete(id),
            lambda: reader.phases.skip(id),
            lambda: reader.phases.fail(id, "x"),
        ):
            with pytest.raises(ReadOnly):
                write()


async def test_every_call_is_awaited_on_an_event_loop(path: Path) -> None:
    async with create_async_smithers_db(path) as db:
        with pytest.raises(NoCurrentExecution):
            await db.phases.start("a")
        execution_id = await db.execution.start("Feature")
        seen: Recorder[list[Phase]] = Recorder()
        db.phases.observe(execution_id).subscribe(seen)
        async with db.phases.open("implement", 1, execution_id=execution_id) as id:
            current = await db.phases.current()
            assert current is not None and (current.id, current.iteration) == (id, 1)
            assert await db.phases.is_running(id)
        with pytest.raises(ZeroDivisionError):
            async with db.phases.open("failing"):
                _ = 1 / 0
        skipped = await db.phases.start("skipped")
        await db.phases.skip(skipped)
        with pytest.raises(InvalidStatus):
            await db.phases.complete(skipped)
        await db.phases.leave(skipped)
        assert [p.status for p in await db.phases.list(execution_id)] == [
            "completed",
            "failed",
            "skipped",
        ]
        error = (await db.phases.list())[1].error
        assert error is not None and "1 / 0" in error
        seen.wait_for(lambda phases: [p.status for p in phases][2:] == ["skipped"])
