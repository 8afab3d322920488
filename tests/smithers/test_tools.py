"""Tool calls: fields and defaults, outputs of any kind and size, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from smithers import (
    InvalidStatus,
    NotFound,
    ReadOnly,
    SmithersDB,
    ToolCall,
    create_async_smithers_db,
    create_smithers_db,
)
from tests.recorder import Recorder
from tests.smithers.hostile import HOSTILE, UNWRITABLE, contents


def call_of(db: SmithersDB, id: str) -> ToolCall:
    found = db.tools.get(id)
    assert found is not None
    return found


def test_a_started_call_has_every_field(db: SmithersDB) -> None:
    execution_id, agent_id = db.execution.start("Feature"), db.agents.start("Implement")
    id = db.tools.start(agent_id, "Edit", {"file": "src/main.py", "lines": (1, 2)})
    started = call_of(db, id)
    assert started == ToolCall(
        id=id,
        agent_id=agent_id,
        execution_id=execution_id,
        name="Edit",
        input={"file": "src/main.py", "lines": [1, 2]},
        output=None,
        output_size=None,
        summary=None,
        status="running",
        error=None,
        started_at=started.started_at,
        completed_at=None,
        duration_ms=None,
    )
    assert db.tools.get_output(id) is None
    assert db.tools.list(agent_id) == [started]


def test_the_execution_is_that_of_the_agent_whatever_runs_here(db: SmithersDB) -> None:
    alone = db.agents.start("alone")
    first = db.execution.start("first")
    agent_id = db.agents.start("of the first")
    db.execution.start("second")
    assert call_of(db, db.tools.start(agent_id, "Bash", None)).execution_id == first
    assert call_of(db, db.tools.start(alone, "Bash", None)).execution_id is None


def test_a_completed_call_has_output_and_summary(db: SmithersDB) -> None:
    id = db.tools.start(db.agents.start("a"), "Edit", {})
    db.tools.complete(id, "File edited", "Edited src/main.py: added 15 lines")
    ended = call_of(db, id)
    assert (ended.status, ended.output, ended.output_size) == ("completed", "File edited", 11)
    assert ended.summary == "Edited src/main.py: added 15 lines"
    assert ended.error is None
    plain = db.tools.start(ended.agent_id, "Edit", {})
    db.tools.complete(plain, "")
    assert (call_of(db, plain).output, call_of(db, plain).summary) == ("", None)
    assert call_of(db, plain).output_size == 0


@pytest.mark.parametrize("again", ["complete", "fail", "cancel"])
@pytest.mark.parametrize(
    ("first", "status"), [("complete", "completed"), ("fail", "failed"), ("cancel", "cancelled")]
)
def test_a_call_ends_once_with_its_duration(
    db: SmithersDB, first: str, status: str, again: str
) -> None:
    endings: dict[str, Callable[[str], None]] = {
        "complete": lambda id: db.tools.complete(id, "done"),
        "fail": lambda id: db.tools.fail(id, ValueError("no such file")),
        "cancel": db.tools.cancel,
    }
    id = db.tools.start(db.agents.start("a"), "Bash", None)
    earlier = (datetime.now(UTC) - timedelta(seconds=90)).isoformat()
    db.query("UPDATE tool_calls SET started_at = $1", [earlier], write=True)
    assert db.tools.is_running(id)
    endings[first](id)
    ended = call_of(db, id)
    assert ended.status == status and not db.tools.is_running(id)
    assert ended.error == ("ValueError: no such file" if status == "failed" else None)
    assert 90_000 <= (ended.duration_ms or 0) < 120_000
    before = contents(db)
    with pytest.raises(InvalidStatus, match=f"cannot {again} tool call .* it is {status}"):
        endings[again](id)
    with pytest.raises(NotFound, match="no tool call 'nobody'"):
        endings[again]("nobody")
    assert contents(db) == before


class Answer(StrEnum):
    YES = "yes"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("text", "text"),
        ('{"a": 1}', '{"a": 1}'),
        ("null", "null"),
        ("nul \0 inside", "nul \0 inside"),
        ("lone \ud800 surrogate", "lone \ud800 surrogate"),
        (Answer.YES, "yes"),
        (None, None),
        (True, True),
        (12, 12),
        (2**80, 2**80),
        (1.5, 1.5),
        ([], []),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        ((1, 2), [1, 2]),
        (date(2026, 1, 31), "2026-01-31"),
    ],
)
def test_text_comes_back_as_text_and_json_as_json(db: SmithersDB, given: Any, read: Any) -> None:
    agent_id = db.agents.start("a")
    id = db.tools.start(agent_id, "Bash", given)
    db.tools.complete(id, given)
    (listed,) = db.tools.list(agent_id)
    for found in (db.tools.get_output(id), call_of(db, id).output, listed.output, listed.input):
        assert (found, type(found)) == (read, type(read))


@pytest.mark.parametrize("given", [b"bytes", bytearray(b"bytes"), memoryview(b"bytes")])
def test_bytes_are_refused_with_advice(db: SmithersDB, given: Any) -> None:
    id = db.tools.start(db.agents.start("a"), "Bash", None)
    with pytest.raises(TypeError, match="decode the bytes first"):
        db.tools.complete(id, given)
    assert db.tools.is_running(id)


@pytest.mark.parametrize(
    ("output", "listed"),
    [("x" * 65_536, True), ("x" * 65_537, False), ("é" * 32_768, True), ("é" * 32_769, False)],
)
def test_listings_leave_out_what_is_larger_than_64_kb(
    db: SmithersDB, output: str, listed: bool
) -> None:
    agent_id = db.agents.start("a")
    id = db.tools.start(agent_id, "Bash", None)
    db.tools.complete(id, output, "short")
    for found in (db.tools.list(agent_id)[0], db.tools.observe(agent_id).peek()[0]):
        assert found.output == (output if listed else None)
        assert (found.output_size, found.summary) == (len(output.encode()), "short")
    assert db.tools.get_output(id) == output
    assert call_of(db, id).output == output, "one call is given whole"


def test_an_output_of_64_mb_goes_in_and_out_whole_and_listings_do_not_read_it(
    db: SmithersDB,
) -> None:
    agent_id = db.agents.start("a")
    db.execution.start("Feature")
    text = "0123456789abcdé\n" * (64 * 2**20 // 17)
    id = db.tools.start(agent_id, "Bash", None)
    db.tools.complete(id, text)
    as_json = db.tools.start(agent_id, "Bash", None)
    db.tools.complete(as_json, {"stdout": text})
    assert db.tools.get_output(id) == text
    assert db.tools.get_output(as_json) == {"stdout": text}
    took: list[float] = []
    calls: list[ToolCall] = []
    for _ in range(5):
        begun = time.perf_counter()
        calls = db.tools.list(agent_id)
        took.append(time.perf_counter() - begun)
        assert [call.output for call in calls] == [None, None]
    assert calls[0].output_size == len(text.encode())
    assert min(took) < 0.02, "reading 128 MB takes longer"


def test_calls_are_listed_in_the_order_of_their_starts(db: SmithersDB) -> None:
    first, second = db.agents.start("first"), db.agents.start("second")
    ids = [db.tools.start(first, f"tool {n}", n) for n in range(4)]
    other = db.tools.start(second, "other", None)
    for id in reversed(ids):
        db.tools.complete(id, None)
    assert [one.id for one in db.tools.list(first)] == ids
    assert [one.id for one in db.tools.list(first, limit=2)] == ids[-2:]
    assert [one.id for one in db.tools.list(second)] == [other]
    assert db.tools.list("nobody") == []


def test_a_call_needs_an_agent_that_runs(db: SmithersDB) -> None:
    ended = db.agents.start("ended")
    db.agents.complete(ended, "done")
    before = contents(db)
    with pytest.raises(InvalidStatus, match="cannot start anything below agent"):
        db.tools.start(ended, "Bash", None)
    with pytest.raises(NotFound, match="no agent 'nobody'"):
        db.tools.start("nobody", "Bash", None)
    with pytest.raises(NotFound, match="no tool call 'nobody'"):
        db.tools.get_output("nobody")
    assert db.tools.get("nobody") is None
    assert contents(db) == before


def test_a_call_may_end_after_its_agent(db: SmithersDB) -> None:
    agent_id = db.agents.start("a")
    id = db.tools.start(agent_id, "Bash", None)
    db.agents.complete(agent_id, "done")
    db.tools.complete(id, "late")
    assert db.tools.get_output(id) == "late"


def test_starts_and_ends_that_are_rolled_back_never_were(db: SmithersDB) -> None:
    agent_id = db.agents.start("a")
    kept = db.tools.start(agent_id, "Bash", None)
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.tools.complete(kept, "never")
        db.tools.start(agent_id, "Bash", None)
        _ = 1 / 0
    assert [(one.id, one.status) for one in db.tools.list(agent_id)] == [(kept, "running")]


def test_observers_follow_the_calls_of_an_agent(
    db: SmithersDB, recorder: Recorder[list[ToolCall]], shell: Callable[[str], str]
) -> None:
    first, second = db.agents.start("first"), db.agents.start("second")
    db.tools.observe(first).subscribe(recorder)
    id = db.tools.start(first, "Bash", None)
    db.tools.complete(db.tools.start(second, "Bash", None), "of another")
    db.tools.complete(id, {"code": 0})
    assert [[(c.status, c.output) for c in seen] for seen in recorder.values] == [
        [],
        [("running", None)],
        [("completed", {"code": 0})],
    ]
    shell(f"UPDATE tool_calls SET output = 'shell', output_is_json = 0 WHERE id = '{id}'")
    recorder.wait_for(lambda calls: bool(calls) and calls[0].output == "shell")


BAD: list[tuple[Callable[[Any, str, str], object], type[Exception]]] = [
    (lambda db, agent, id: db.tools.start(agent, "", None), ValueError),
    (lambda db, agent, id: db.tools.start(agent, 7, None), TypeError),
    (lambda db, agent, id: db.tools.start(None, "Bash", None), TypeError),
    (lambda db, agent, id: db.tools.start("", "Bash", None), ValueError),
    (lambda db, agent, id: db.tools.start(agent, "Bash", {1: 2}), TypeError),
    (lambda db, agent, id: db.tools.start(agent, "Bash", b"x"), TypeError),
    (lambda db, agent, id: db.tools.start(agent, "Bash", float("inf")), ValueError),
    (lambda db, agent, id: db.tools.complete(id, {1}), TypeError),
    (lambda db, agent, id: db.tools.complete(id, float("nan")), ValueError),
    (lambda db, agent, id: db.tools.complete(id, "o", 7), TypeError),
    (lambda db, agent, id: db.tools.complete(7, "o"), TypeError),
    (lambda db, agent, id: db.tools.fail(id, None), TypeError),
    (lambda db, agent, id: db.tools.cancel(""), ValueError),
    (lambda db, agent, id: db.tools.get(7), TypeError),
    (lambda db, agent, id: db.tools.get_output(7), TypeError),
    (lambda db, agent, id: db.tools.is_running(7), TypeError),
    (lambda db, agent, id: db.tools.list(7), TypeError),
    (lambda db, agent, id: db.tools.list(""), ValueError),
    (lambda db, agent, id: db.tools.list(agent, limit=-1), ValueError),
    (lambda db, agent, id: db.tools.observe(None), TypeError),
]


@pytest.mark.parametrize(("call", "error"), BAD)
def test_bad_input_is_a_typed_error_and_leaves_nothing_written(
    db: SmithersDB, call: Callable[[Any, str, str], object], error: type[Exception]
) -> None:
    agent_id = db.agents.start("a")
    id = db.tools.start(agent_id, "Bash", None)
    before = contents(db)
    with pytest.raises(error):
        call(db, agent_id, id)
    assert contents(db) == before


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_comes_back_as_it_was_given(db: SmithersDB, text: str) -> None:
    agent_id = db.agents.start("a")
    id = db.tools.start(agent_id, text, {text: text})
    db.tools.complete(id, text, text)
    ended = call_of(db, id)
    assert {ended.name, ended.output, ended.summary} == {text}
    assert ended.input == {text: text}
    failed = db.tools.start(agent_id, "Bash", text)
    db.tools.fail(failed, text)
    assert (call_of(db, failed).error, call_of(db, failed).input) == (text, text)
    assert (db.tools.get(text), db.tools.list(text)) == (None, [])
    with pytest.raises(NotFound):
        db.tools.start(text, "Bash", None)
    assert db.stats()["tool_calls"] == 2


@pytest.mark.parametrize("text", UNWRITABLE)
def test_text_that_utf8_cannot_write_is_refused_but_for_outputs(db: SmithersDB, text: str) -> None:
    agent_id = db.agents.start("a")
    id = db.tools.start(agent_id, "Bash", None)
    before = contents(db)
    for call in (
        lambda: db.tools.start(agent_id, text, None),
        lambda: db.tools.start(text, "Bash", None),
        lambda: db.tools.complete(id, "o", text),
        lambda: db.tools.get_output(text),
    ):
        with pytest.raises(ValueError, match=r"has no (NUL|lone)"):
            call()
    assert contents(db) == before


def test_a_reader_only_reads(db: SmithersDB, path: Path) -> None:
    agent_id = db.agents.start("a")
    id = db.tools.start(agent_id, "Bash", None)
    with create_smithers_db(path, read_only=True) as reader:
        assert reader.tools.list(agent_id) == db.tools.list(agent_id)
        assert reader.tools.get_output(id) is None
        for write in (
            lambda: reader.tools.start(agent_id, "Bash", None),
            lambda: reader.tools.complete(id, "x"),
            lambda: reader.tools.fail(id, "x"),
            lambda: reader.tools.cancel(id),
        ):
            with pytest.raises(ReadOnly):
                write()


async def test_every_call_is_awaited_on_an_event_loop(path: Path) -> None:
    async with create_async_smithers_db(path) as db:
        agent_id = await db.agents.start("a")
        seen: Recorder[list[ToolCall]] = Recorder()
        db.tools.observe(agent_id).subscribe(seen)
        done = await db.tools.start(agent_id, "Bash", {"command": "pytest"})
        assert await db.tools.is_running(done)
        await db.tools.complete(done, "x" * 70_000, "12 passed")
        failed = await db.tools.start(agent_id, "Bash", None)
        await db.tools.fail(failed, "no such file")
        cancelled = await db.tools.start(agent_id, "Bash", None)
        await db.tools.cancel(cancelled)
        with pytest.raises(InvalidStatus):
            await db.tools.complete(cancelled, "late")
        with pytest.raises(NotFound):
            await db.tools.get_output("nobody")
        listed = await db.tools.list(agent_id)
        assert [c.status for c in listed] == ["completed", "failed", "cancelled"]
        assert (listed[0].output, listed[0].output_size) == (None, 70_000)
        assert len(await db.tools.get_output(done)) == 70_000
        found = await db.tools.get(failed)
        assert found is not None and found.error == "no such file"
        seen.wait_for(lambda calls: calls == listed)
