"""What the documentation of the original promises of its state, in our spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import create_effect, create_signal
from smithers import SmithersDB, create_smithers_db
from tests.recorder import Recorder


def test_a_database_is_a_directory_with_a_file_for_manual_queries(path: Path) -> None:
    db = create_smithers_db(path=path)
    try:
        assert path.is_dir()
        assert (path / "db.sqlite").is_file(), "sqlite3 <path>/db.sqlite"
    finally:
        db.close()


def test_get_gives_the_value_or_none(db: SmithersDB) -> None:
    assert db.state.get("phase") is None
    db.state.set("phase", "review")
    assert db.state.get("phase") == "review"


def test_set_takes_the_trigger_by_position(db: SmithersDB) -> None:
    db.state.set("phase", "review", "tests_passed")
    assert db.state.history("phase", 10)[-1].trigger == "tests_passed"


def test_set_many_is_atomic_and_takes_any_json(db: SmithersDB) -> None:
    db.state.set_many(
        {"phase": "complete", "completed_at": 1700000000, "result": {"success": True}}
    )
    db.state.set_many({"phase": "review", "reviewer": "claude"}, "implementation_done")
    assert db.state.get_all() == {
        "phase": "review",
        "completed_at": 1700000000,
        "result": {"success": True},
        "reviewer": "claude",
    }


def test_history_of_a_key_is_oldest_first_with_triggers(db: SmithersDB) -> None:
    db.state.set("phase", "start", "init")
    db.state.set("phase", "review", "tests_passed")
    db.state.set("other", 1)
    assert [(t.id, t.key, t.value, t.trigger) for t in db.state.history("phase", 10)] == [
        ("t1", "phase", "start", "init"),
        ("t2", "phase", "review", "tests_passed"),
    ]
    assert [t.key for t in db.state.history(None, 50)] == ["phase", "phase", "other"]


def test_replay_restores_what_was_at_a_transition(db: SmithersDB) -> None:
    db.state.set("phase", "start")
    db.state.set_many({"phase": "review", "attempts": 3})
    history = db.state.history("phase")
    db.state.replay_to(history[0].id)
    assert db.state.get_all() == {"phase": "start"}


def test_reset_clears_all_state(db: SmithersDB) -> None:
    db.state.set_many({"phase": "review", "attempts": 3})
    db.state.reset()
    assert db.state.get_all() == {}


def test_a_snapshot_is_restored_after_work_that_failed(db: SmithersDB) -> None:
    db.state.set_many({"phase": "review", "data": {}, "attempts": 3})
    checkpoint = db.state.snapshot()
    with pytest.raises(RuntimeError):
        try:
            db.state.set("attempts", 4)
            db.state.set("status", "half done")
            raise RuntimeError("risky")
        except RuntimeError:
            db.state.restore(checkpoint, "error_rollback")
            raise
    assert db.state.snapshot() == checkpoint
    assert {t.trigger for t in db.state.history()[-2:]} == {"error_rollback"}


def run_workflow(path: Path, agent: Any, seen: Recorder[str]) -> None:
    """The pattern "initialize from database", as the original has it."""
    with create_smithers_db(path) as db:
        saved_phase = db.state.get("phase")
        phase, set_phase = create_signal(saved_phase if saved_phase is not None else "start")

        def update_phase(new_phase: str) -> None:
            set_phase(new_phase)
            db.state.set("phase", new_phase)

        effect = create_effect(lambda: seen(phase()))
        for _ in range(10):
            if phase() == "start":
                agent()
                update_phase("done")
        effect.dispose()


def test_a_loop_loads_its_phase_and_stops_when_the_agent_has_finished(
    path: Path, recorder: Recorder[str]
) -> None:
    calls: list[int] = []
    run_workflow(path, lambda: calls.append(1), recorder)
    run_workflow(path, lambda: calls.append(2), recorder)
    assert calls == [1], "the second run finds that nothing is left to do"
    assert recorder.values == ["start", "done", "done"]


def test_the_same_loop_over_a_pair_is_the_signal_and_the_row_in_one(path: Path) -> None:
    calls: list[int] = []
    for run in (1, 2):
        with create_smithers_db(path) as db:
            phase, set_phase = db.state.signal("phase", "start")
            while phase() == "start":
                calls.append(run)
                set_phase("done", trigger="agent_finished")
            assert db.state.get("phase") == "done"
    assert calls == [1]
    with create_smithers_db(path) as db:
        assert [t.trigger for t in db.state.history()] == ["agent_finished"]


def test_a_direct_query_takes_numbered_parameters(db: SmithersDB) -> None:
    db.state.set("model", "sonnet")
    results = db.query("SELECT COUNT(*) AS count FROM state WHERE value = $1", ['"sonnet"'])
    assert results[0]["count"] == 1
