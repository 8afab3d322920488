"""Every example runs, in a process of its own, and prints what it is there to show."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from smithers import create_smithers_db
from tests.scripted import Scripted, Step
from tests.warm import warm_run

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Runs a notebook and prints what it shows in the end.
NOTEBOOK = """
import sys, nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=40, kernel_name="python3").execute()
for cell in notebook.cells:
    for output in cell.get("outputs", []):
        print(output.get("text", "").strip() or "shown: " + output["data"]["text/plain"])
"""


def run(name: str, *args: str) -> list[str]:
    done = warm_run([str(ROOT / "examples" / name), *args], ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_signals_load_what_is_saved_and_stop_when_it_is_done(tmp_path: Path) -> None:
    first = run("solid_signals.py", str(tmp_path))
    assert first == ["phase: start", "agent: Complete the task.", "phase: done", "saved: done"]
    assert run("solid_signals.py", str(tmp_path)) == ["phase: done", "saved: done"]


def test_the_todo_list_is_shown_once_for_each_commit_that_changes_it() -> None:
    assert run("live_todo.py") == [
        "open: nothing",
        "  0 open, 0 done",
        "  3 open, 0 done",
        "open: write, test, ship",
        "  2 open, 1 done",
        "open: test, ship",
        "  0 open, 3 done",
        "open: nothing",
    ]


def test_two_processes_talk_through_the_database() -> None:
    assert run("two_processes.py") == [
        "child: phase = child is ready",
        "parent: phase = go",
        "child: answer = 42",
        "child: phase = child is done",
        "answer: 42",
    ]


def test_a_checkpoint_is_restored_and_the_failure_stays_in_history(tmp_path: Path) -> None:
    assert run("checkpoint_rollback.py", str(tmp_path)) == [
        "state: {'attempts': 0, 'status': 'ready'}",
        "state: {'attempts': 1, 'status': 'ready'}",
        "state: {'attempts': 1, 'half_done': True, 'status': 'ready'}",
        "failed: the disk is on fire",
        "state: {'attempts': 0, 'status': 'ready'}",
        " t1 status = 'ready' (init)",
        " t2 attempts = 0 (init)",
        " t3 attempts = 1 (risky)",
        " t4 half_done = True (risky)",
        " t5 half_done = deleted (error_rollback)",
        " t6 attempts = 0 (error_rollback)",
        "then: {'attempts': 1, 'half_done': True, 'status': 'ready'}",
    ]


def test_a_live_view_shows_every_part_as_it_changes(tmp_path: Path) -> None:
    lines = run("asyncio_ui.py", str(tmp_path))
    parts = ("phase: done", "attempts: 3", "history: [{'changes': 6, 'causes': 3}]")
    assert sorted(lines[-1].split("  ")) == sorted(parts)
    shown = [word for line in lines for word in line.split("  ") if word.startswith("phase: ")]
    # What was overtaken before it was drawn may be left out.
    assert [*dict.fromkeys(shown)][-3:] == ["phase: build", "phase: test", "phase: done"]


def test_the_ralph_loop_asks_claude_until_the_phase_says_that_it_is_done(
    tmp_path: Path, claude: Scripted
) -> None:
    claude.says([{"text": "The task is complete."}])
    assert run("ralph_claude.py", str(tmp_path / "w")) == [
        "phase: start",
        "phase: done",
        "settled after 2 iterations",
        "sonnet: The task is complete. (20 tokens)",
    ]
    assert claude.prompts == ["Complete the task."]


def test_the_review_loop_goes_on_until_the_tests_pass(tmp_path: Path, claude: Scripted) -> None:
    tests = {"tool": "Bash", "input": {"command": "pytest"}, "output": "1 failed"}
    passed = {**tests, "output": "12 passed"}
    claude.answers(
        ("Implement", [[{"tool": "Edit", "output": "ok"}, {"text": "Written."}]]),
        ("tests", [[tests, {"text": "FAIL: one of 12"}], [passed, {"text": "PASS"}]]),
    )
    assert run("review_loop.py", str(tmp_path / "w")) == [
        "start (initial_state)",
        "implement (work_begins)",
        "review (implemented)",
        "retry (tests_failed)",
        "implement (work_begins)",
        "review (implemented)",
        "complete (tests_passed)",
        "done (reviewed)",
    ]


def test_reviewers_work_at_once_and_answer_with_one_type(tmp_path: Path, claude: Scripted) -> None:
    def answer(*issues: str) -> list[list[Step]]:
        verdict = {"approved": not issues, "issues": issues}
        return [[{"text": "Reviewed."}, {"result": {"structured_output": verdict}}]]

    claude.answers(
        ("security", answer()),
        ("performance", answer("a loop over all rows", "no index")),
        ("style", [[{"fail": "error_max_turns", "errors": ["too many turns"]}]]),
    )
    assert run("parallel_reviewers.py", str(tmp_path / "w")) == [
        "security: approved",
        "performance: a loop over all rows; no index",
        "style: not reviewed: error_max_turns: too many turns",
        "3 agents, 240 tokens",
    ]


def test_a_workflow_that_kills_itself_is_gone_on_with(tmp_path: Path, claude: Scripted) -> None:
    claude.answers(
        ("notes", [[{"text": "Faster."}]]),
        ("Publish", [[{"tool": "Bash", "output": "ok"}, {"sleep": 0.5}, {"text": "It is out."}]]),
    )
    lines = run("resume_after_crash.py", str(tmp_path / "w"))
    assert lines == [
        "started",
        "a version is chosen",
        "notes: Faster.",
        "killed after Bash",
        "exit code: -9",
        "resumed",
        "notes: Faster.",
        "published: It is out.",
        "  Write the notes of release 1.4. completed",
        "  Publish it. cancelled",
        "  Publish it. completed",
    ]
    assert claude.prompts.count("Write the notes of release 1.4.") == 1


def test_a_row_of_another_program_starts_an_agent(tmp_path: Path, claude: Scripted) -> None:
    claude.answers(("login", [[{"text": "Fixed."}]]), ("tests", [[{"text": "Written."}]]))
    answered = ["Fix the login. Fixed.", "Write the tests. Written."]
    assert run("agent_on_change.py", str(tmp_path)) == answered
    assert claude.prompts == ["Fix the login.", "Write the tests."]
    assert run("agent_on_change.py", str(tmp_path)) == answered, "two more of the same"
    with create_smithers_db(tmp_path, read_only=True) as db:
        assert [one.name for one in db.execution.list("completed")] == [
            *("Ticket 4", "Ticket 3", "Ticket 2", "Ticket 1"),
        ]
        (trigger,) = db.triggers.list()
        assert (trigger.state, trigger.dead, trigger.owner) == ("idle", 0, None)


def test_a_page_of_ones_own_follows_what_another_process_commits(tmp_path: Path) -> None:
    example = str(ROOT / "examples" / "fastapi_live.py")
    process = subprocess.Popen(
        [sys.executable, example, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        assert "EventSource" in httpx.get(address).text
        with httpx.stream("GET", address + "state", timeout=20) as answer:
            values = (
                json.loads(line.removeprefix("data: "))
                for line in answer.iter_lines()
                if line.startswith("data: ")
            )
            assert next(values) == []
            with create_smithers_db(tmp_path) as db:
                db.state.set("phase", "review")
            assert [(row["key"], row["value"]) for row in next(values)] == [("phase", '"review"')]
            # The stream is open still, and does not hold up the end.
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.communicate()


async def test_a_table_in_the_terminal_follows_what_another_handle_commits(tmp_path: Path) -> None:
    live = runpy.run_path(str(ROOT / "examples" / "textual_live.py"))["Live"](str(tmp_path))
    with create_smithers_db(tmp_path) as db:
        db.state.set("phase", "start")
        async with live.run_test() as pilot:
            table = live.query_one("DataTable")
            await _until(pilot, lambda: table.row_count == 1)
            db.state.set_many({"phase": "review", "reviewer": "ada"})
            await _until(pilot, lambda: table.row_count == 2)
            assert table.get_row_at(0) == ["phase", "'review'"]
            await pilot.press("q")


def test_a_notebook_draws_a_cell_again_when_the_database_has_changed() -> None:
    # In a process of its own, for the libraries of notebooks warn of much.
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, str(ROOT / "examples" / "jupyter_live.ipynb")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=55,
    )
    assert done.returncode == 0, done.stderr
    # What a task draws in an output of an earlier cell, browsers show and this runner leaves out.
    assert done.stdout.splitlines() == ["shown: {}", "drawn last: {'attempts': 2}"]


async def _until(pilot: Any, condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await pilot.pause(0.01)
    raise AssertionError("the table does not follow")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_short_and_tested(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) < 60
    text = Path(__file__).read_text(encoding="utf-8")
    assert f'run("{example.name}"' in text or f'"examples" / "{example.name}"' in text
