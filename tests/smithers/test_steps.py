"""Steps: fields and defaults, where they stand, how they end, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from smithers import (
    InvalidStatus,
    NoCurrentExecution,
    NotFound,
    ReadOnly,
    SmithersDB,
    Step,
    create_async_smithers_db,
    create_smithers_db,
)
from tests.recorder import Recorder
from tests.smithers.hostile import HOSTILE, UNWRITABLE, contents


def step(db: SmithersDB, id: str) -> Step:
    found = db.steps.get(id)
    assert found is not None
    return found


def test_a_started_step_has_every_field(db: SmithersDB) -> None:
    execution_id, phase_id = db.execution.start("Feature"), db.phases.start("implement")
    id = db.steps.start("write the tests")
    started = step(db, id)
    assert started == Step(
        id=id,
        execution_id=execution_id,
        phase_id=phase_id,
        name="write the tests",
        status="running",
        result=None,
        error=None,
        snapshot_before=None,
        snapshot_after=None,
        commit_created=None,
        started_at=started.started_at,
        completed_at=None,
        duration_ms=None,
    )
    assert started.started_at.tzinfo is UTC


def test_a_completed_step_has_result_snapshots_and_commit(db: SmithersDB) -> None:
    db.execution.start("Feature")
    id = db.steps.start("write the tests")
    db.steps.complete(id, {"passed": 12}, "before", "after", "abc123")
    ended = step(db, id)
    assert (ended.status, ended.result, ended.error) == ("completed", {"passed": 12}, None)
    assert (ended.snapshot_before, ended.snapshot_after) == ("before", "after")
    assert ended.commit_created == "abc123"
    plain = db.steps.start("plain")
    db.steps.complete(plain)
    ended = step(db, plain)
    assert (ended.result, ended.snapshot_before, ended.commit_created) == (None, None, None)


@pytest.mark.parametrize("again", ["complete", "skip", "fail"])
@pytest.mark.parametrize(
    ("first", "status"), [("complete", "completed"), ("skip", "skipped"), ("fail", "failed")]
)
def test_a_step_ends_once_with_its_duration(
    db: SmithersDB, first: str, status: str, again: str
) -> None:
    endings: dict[str, Callable[[str], None]] = {
        "complete": db.steps.complete,
        "skip": db.steps.skip,
        "fail": lambda id: db.steps.fail(id, ValueError("2 tests fail")),
    }
    db.execution.start("Feature")
    id = db.steps.start("run the tests")
    earlier = (datetime.now(UTC) - timedelta(seconds=90)).isoformat()
    db.query("UPDATE steps SET started_at = $1", [earlier], write=True)
    endings[first](id)
    ended = step(db, id)
    assert ended.status == status
    assert ended.error == ("ValueError: 2 tests fail" if status == "failed" else None)
    assert 90_000 <= (ended.duration_ms or 0) < 120_000
    before = contents(db)
    with pytest.raises(InvalidStatus, match=f"cannot {again} step .* it is {status}"):
        endings[again](id)
    with pytest.raises(NotFound, match="no step 'nobody'"):
        endings[again]("nobody")
    assert contents(db) == before


def test_a_step_needs_an_execution_but_no_phase(db: SmithersDB) -> None:
    before = contents(db)
    with pytest.raises(NoCurrentExecution, match="a step stands below an execution"):
        db.steps.start("alone")
    with pytest.raises(NotFound, match="no phase 'nobody'"):
        db.steps.start("alone", phase_id="nobody")
    assert contents(db) == before
    execution_id = db.execution.start("Feature")
    direct = step(db, db.steps.start("direct"))
    assert (direct.execution_id, direct.phase_id) == (execution_id, None)


def test_a_named_phase_brings_its_execution(db: SmithersDB) -> None:
    first = db.execution.start("first")
    phase_id = db.phases.start("of the first")
    db.execution.start("second")
    db.phases.start("of the second")
    named = step(db, db.steps.start("named", phase_id=phase_id))
    assert (named.execution_id, named.phase_id) == (first, phase_id)
    db.phases.complete(phase_id)
    with pytest.raises(InvalidStatus, match="cannot start anything below phase"):
        db.steps.start("late", phase_id=phase_id)


def test_steps_are_listed_by_phase_by_execution_or_all(db: SmithersDB) -> None:
    first = db.execution.start("first")
    direct = db.steps.start("direct")
    db.steps.complete(direct)
    phase_id = db.phases.start("implement")
    inside = [db.steps.start(f"step {n}") for n in range(3)]
    db.execution.start("second")
    other = db.steps.start("other")
    assert [one.id for one in db.steps.list(phase_id)] == inside
    assert [one.id for one in db.steps.list(execution_id=first)] == [direct, *inside]
    assert [one.id for one in db.steps.list()] == [direct, *inside, other]
    assert [one.id for one in db.steps.list(phase_id, execution_id=first, limit=1)] == inside[-1:]
    assert db.steps.list("nobody") == []


def test_a_block_completes_its_step_or_fails_it(db: SmithersDB) -> None:
    db.execution.start("Feature")
    with db.steps.open("outer") as outer:
        with db.steps.open("inner") as inner:
            current = db.steps.current()
            assert current is not None and current.id == inner
            db.steps.complete(inner, {"passed": 12})
        current = db.steps.current()
        assert current is not None and current.id == outer
    assert step(db, inner).result == {"passed": 12}, "the block has ended it itself"
    assert step(db, outer).status == "completed"
    with pytest.raises(ZeroDivisionError), db.steps.open("failing"):
        _ = 1 / 0
    failed = db.steps.list()[-1]
    assert failed.status == "failed" and failed.error is not None
    assert failed.error.startswith("ZeroDivisionError: division by zero\nTraceback")
    assert db.steps.current() is None


def test_starts_and_ends_that_are_rolled_back_never_were(db: SmithersDB) -> None:
    db.execution.start("Feature")
    kept = db.steps.start("kept")
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.steps.complete(kept, "done")
        db.steps.start("never")
        _ = 1 / 0
    assert [(one.id, one.status) for one in db.steps.list()] == [(kept, "running")]
    current = db.steps.current()
    assert current is not None and current.id == kept


def test_observers_follow_the_steps_of_a_phase(
    db: SmithersDB, recorder: Recorder[list[Step]]
) -> None:
    execution_id, phase_id = db.execution.start("Feature"), db.phases.start("implement")
    db.steps.observe(phase_id).subscribe(recorder)
    id = db.steps.start("run the tests")
    db.steps.complete(id, 12)
    db.phases.complete(phase_id)
    db.steps.complete(db.steps.start("outside"))
    assert [[(s.status, s.result) for s in seen] for seen in recorder.values] == [
        [],
        [("running", None)],
        [("completed", 12)],
    ]
    assert len(db.steps.observe(execution_id=execution_id).peek()) == 2
    assert len(db.steps.observe().peek()) == 2


BAD: list[tuple[Callable[[Any], object], type[Exception]]] = [
    (lambda db: db.steps.start(""), ValueError),
    (lambda db: db.steps.start(7), TypeError),
    (lambda db: db.steps.start("a", phase_id=""), ValueError),
    (lambda db: db.steps.start("a", phase_id=7), TypeError),
    (lambda db: db.steps.complete(None), TypeError),
    (lambda db: db.steps.complete("x", {1: 2}), TypeError),
    (lambda db: db.steps.complete("x", float("inf")), ValueError),
    (lambda db: db.steps.complete("x", None, 7), TypeError),
    (lambda db: db.steps.complete("x", None, None, ""), ValueError),
    (lambda db: db.steps.complete("x", commit_created=b"abc"), TypeError),
    (lambda db: db.steps.fail("x", None), TypeError),
    (lambda db: db.steps.skip(7), TypeError),
    (lambda db: db.steps.get(""), ValueError),
    (lambda db: db.steps.is_running(7), TypeError),
    (lambda db: db.steps.list(7), TypeError),
    (lambda db: db.steps.list(execution_id=""), ValueError),
    (lambda db: db.steps.list(limit=-1), ValueError),
    (lambda db: db.steps.observe(7), TypeError),
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
    id = db.steps.start(text)
    db.steps.complete(id, {text: text}, text, text, text)
    ended = step(db, id)
    assert (ended.name, ended.result) == (text, {text: text})
    assert {ended.snapshot_before, ended.snapshot_after, ended.commit_created} == {text}
    failed = db.steps.start("failing")
    db.steps.fail(failed, text)
    assert step(db, failed).error == text
    assert db.steps.get(text) is None
    assert db.steps.list(text, execution_id=text) == []
    assert db.stats()["steps"] == 2


@pytest.mark.parametrize("text", UNWRITABLE)
def test_text_that_utf8_cannot_write_is_refused(db: SmithersDB, text: str) -> None:
    db.execution.start("Feature")
    id = db.steps.start("a")
    before = contents(db)
    for call in (
        lambda: db.steps.start(text),
        lambda: db.steps.start("a", phase_id=text),
        lambda: db.steps.complete(id, None, text),
        lambda: db.steps.complete(id, commit_created=text),
        lambda: db.steps.skip(text),
    ):
        with pytest.raises(ValueError, match=r"has no (NUL|lone)"):
            call()
    assert contents(db) == before
    db.steps.complete(id, text)
    assert step(db, id).result == text, "JSON has a way to write it"


def test_a_reader_only_reads(db: SmithersDB, path: Path) -> None:
    db.execution.start("Feature")
    phase_id = db.phases.start("implement")
    id = db.steps.start("run the tests")
    with create_smithers_db(path, read_only=True) as reader:
        assert reader.steps.list(phase_id) == db.steps.list(phase_id)
        for write in (
            lambda: reader.steps.start("a", phase_id=phase_id),
            lambda: reader.steps.complete(id),
            lambda: reader.steps.skip(id),
            lambda: reader.steps.fail(id, "x"),
        ):
            with pytest.raises(ReadOnly):
                write()


async def test_every_call_is_awaited_on_an_event_loop(path: Path) -> None:
    async with create_async_smithers_db(path) as db:
        with pytest.raises(NoCurrentExecution):
            await db.steps.start("a")
        await db.execution.start("Feature")
        phase_id = await db.phases.start("implement")
        seen: Recorder[list[Step]] = Recorder()
        db.steps.observe(phase_id).subscribe(seen)
        async with db.steps.open("run the tests", phase_id=phase_id) as id:
            current = await db.steps.current()
            assert current is not None and (current.id, current.phase_id) == (id, phase_id)
            await db.steps.complete(id, 12, commit_created="abc")
        with pytest.raises(ZeroDivisionError):
            async with db.steps.open("failing"):
                _ = 1 / 0
        skipped = await db.steps.start("skipped")
        assert await db.steps.is_running(skipped)
        await db.steps.skip(skipped)
        with pytest.raises(InvalidStatus):
            await db.steps.fail(skipped, "x")
        await db.steps.leave(skipped)
        listed = await db.steps.list(phase_id)
        assert [s.status for s in listed] == ["completed", "failed", "skipped"]
        assert await db.steps.get(id) == listed[0]
        assert (listed[0].result, listed[0].commit_created) == (12, "abc")
        seen.wait_for(lambda steps: steps == listed)
