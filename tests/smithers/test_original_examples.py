"""What the documentation of the original promises, example by example, in our spelling."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import create_effect, create_signal
from smithers import SmithersDB, create_async_smithers_db, create_smithers_db
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


# -- executions, agents and tool calls -------------------------------------------------------------


def test_an_execution_is_started_and_completed_with_a_result(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature Implementation", "scripts/feature.py")
    db.execution.complete(execution_id, {"summary": "Feature implemented successfully"})
    done = db.execution.get(execution_id)
    assert done is not None
    assert (done.name, done.file_path) == ("Feature Implementation", "scripts/feature.py")
    assert (done.status, done.result) == (
        "completed",
        {"summary": "Feature implemented successfully"},
    )


def test_an_execution_fails_with_an_exception(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature Implementation", "scripts/feature.py")
    db.execution.fail(execution_id, RuntimeError("Tests failed"))
    failed = db.execution.get(execution_id)
    assert failed is not None
    assert (failed.status, failed.error) == ("failed", "RuntimeError: Tests failed")


def test_an_interrupted_workflow_is_found_and_goes_on_from_its_state(path: Path) -> None:
    with create_smithers_db(path) as db:
        assert db.execution.find_incomplete() is None
        execution_id = db.execution.start("Feature Implementation")
        db.state.set("phase", "review")
    with create_smithers_db(path) as db:
        incomplete = db.execution.find_incomplete()
        assert incomplete is not None and incomplete.id == execution_id
        db.execution.resume(incomplete.id)
        assert db.state.get_all() == {"phase": "review"}
        db.execution.complete(incomplete.id)
        assert db.execution.find_incomplete() is None


def test_an_agent_is_started_completed_and_listed(db: SmithersDB) -> None:
    execution_id = db.execution.start("Feature Implementation")
    agent_id = db.agents.start("Implement the feature", "sonnet", "You are a senior engineer")
    db.agents.complete(
        agent_id, "Feature implemented", {"success": True}, {"input": 1000, "output": 500}
    )
    (agent,) = db.agents.list(execution_id)
    assert (agent.id, agent.prompt, agent.model) == (agent_id, "Implement the feature", "sonnet")
    assert (agent.system_prompt, agent.output) == (
        "You are a senior engineer",
        "Feature implemented",
    )
    assert (agent.structured, agent.tokens_input) == ({"success": True}, 1000)
    assert (agent.tokens_output, agent.status) == (500, "completed")


def test_a_tool_call_is_started_completed_and_listed(db: SmithersDB) -> None:
    agent_id = db.agents.start("Implement the feature")
    tool_id = db.tools.start(agent_id, "Edit", {"file": "src/main.py", "changes": "..."})
    db.tools.complete(tool_id, "File edited successfully", "Edited src/main.py: added 15 lines")
    (call,) = db.tools.list(agent_id)
    assert (call.id, call.name, call.status) == (tool_id, "Edit", "completed")
    assert call.input == {"file": "src/main.py", "changes": "..."}
    assert call.output == "File edited successfully"
    assert call.summary == "Edited src/main.py: added 15 lines"


def test_a_direct_query_counts_agents_of_a_model(db: SmithersDB) -> None:
    for model in ("sonnet", "opus", "sonnet"):
        db.agents.start("Implement the feature", model)
    results = db.query("SELECT COUNT(*) AS count FROM agents WHERE model = $1", ["sonnet"])
    assert f"{results[0]['count']} sonnet agents" == "2 sonnet agents"


async def test_the_same_awaited(path: Path) -> None:
    db = await create_async_smithers_db(path=path)
    try:
        execution_id = await db.execution.start("Feature Implementation", "scripts/feature.py")
        agent_id = await db.agents.start("Implement the feature", "sonnet")
        tool_id = await db.tools.start(agent_id, "Edit", {"file": "src/main.py"})
        await db.tools.complete(tool_id, "File edited successfully")
        await db.agents.complete(agent_id, "Feature implemented", {"success": True})
        await db.state.set("phase", "review", "tests_passed")
        await db.execution.complete(execution_id, {"summary": "done"})
    finally:
        await db.close()
    with create_smithers_db(path) as again:
        (execution,) = again.execution.list()
        assert (execution.status, execution.total_agents) == ("completed", 1)
        assert execution.total_tool_calls == 1
        (transition,) = again.state.history()
        assert (transition.execution_id, transition.agent_id) == (execution_id, None)


# -- version control -------------------------------------------------------------------------------


def test_a_commit_is_logged(db: SmithersDB) -> None:
    db.vcs.log_commit(
        {
            "hash": "abc123",
            "message": "feat: Add user auth",
            "author": "claude",
            "timestamp": datetime.now(),
            "files_changed": 3,
            "insertions": 150,
            "deletions": 20,
            "vcs_type": "git",
        }
    )
    (commit,) = db.vcs.commits()
    assert (commit.message, commit.author, commit.insertions) == (
        "feat: Add user auth",
        "claude",
        150,
    )
    age = datetime.now(UTC) - commit.timestamp
    assert timedelta() <= age < timedelta(minutes=1), "a time without a zone is local time"


def test_a_snapshot_of_jj_is_logged(db: SmithersDB) -> None:
    db.vcs.log_snapshot(
        snapshot_id="xyz789", description="Before refactoring", timestamp=datetime.now()
    )
    (snapshot,) = db.vcs.snapshots()
    assert (snapshot.snapshot_id, snapshot.description) == ("xyz789", "Before refactoring")


def test_a_review_is_logged(db: SmithersDB) -> None:
    db.vcs.log_review(
        {
            "review_id": "r1",
            "target": "abc123",
            "approved": False,
            "summary": "Security issues found",
            "issues": [{"severity": "high", "file": "auth.ts", "description": "..."}],
        }
    )
    (review,) = db.vcs.reviews()
    assert not review.approved
    assert review.issues == [{"severity": "high", "file": "auth.ts", "description": "..."}]


# -- memories --------------------------------------------------------------------------------------


def test_knowledge_is_added_searched_and_got_across_workflows(path: Path) -> None:
    with create_smithers_db(path) as db:
        db.memories.add_fact(
            "api-endpoint", "The API endpoint is at /api/v2/users", "discovered in auth.ts"
        )
        db.memories.add_learning(
            "test-pattern", "Use vitest for unit tests in this project", "package.json"
        )
        db.memories.add_preference("commit-style", "Use conventional commits with scope")
    with create_smithers_db(path) as db:
        relevant = db.memories.search("API endpoint")
        assert [memory.key for memory in relevant] == ["api-endpoint"]
        memory = db.memories.get("fact", "api-endpoint")
        assert memory is not None
        assert memory.content == "The API endpoint is at /api/v2/users"
        assert (memory.source, memory.scope) == ("discovered in auth.ts", "project")
        style = db.memories.get("preference", "commit-style")
        assert style is not None and style.content == "Use conventional commits with scope"


def test_scopes_say_where_a_memory_is_visible(tmp_path: Path) -> None:
    with (
        create_smithers_db(tmp_path / "one") as here,
        create_smithers_db(tmp_path / "one") as next_session,
        create_smithers_db(tmp_path / "two") as other_project,
    ):
        for scope in ("global", "project", "session"):
            here.memories.add("context", scope, "remembered", scope=scope)
        for db, visible in (
            (here, {"global", "project", "session"}),
            (next_session, {"global", "project"}),
            (other_project, {"global"}),
        ):
            assert {memory.key for memory in db.memories.search("remembered")} == visible
