"""`smithers db executions | execution | current | cancel`, beside the processes that run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from reactive_sqlite import sqlite3
from smithers import SmithersDB
from tests.smithers.commandline import Run, cells, environment, in_process, on_terminal

# Starts what is to be looked at, says its id, and holds it until its input ends.
WORKFLOW = """
import sys
from smithers import create_smithers_db

with create_smithers_db(sys.argv[1]) as db:
    id = db.execution.start("Feature", "scripts/feature.py", {"retries": 2})
    db.phases.complete(db.phases.start("plan"))
    with db.phases.open("implement", 1), db.steps.open("write tests"):
        with db.agents.open("Write the tests.", "opus") as agent:
            done = db.tools.start(agent, "Read", {"file": "a.py"})
            db.tools.complete(done, "text")
            db.tools.start(agent, "Bash", {"command": "pytest"})
            print(id, flush=True)
            sys.stdin.read()
"""
# Before that: lets it write nothing on its own while it holds the execution.
WITHOUT_A_HEARTBEAT = """
from smithers import ownership

ownership.HEARTBEAT = ownership.LEASE = 600.0
"""

Workflow = subprocess.Popen[str]


@pytest.fixture
def workflow(db: SmithersDB, path: Path) -> Iterator[Callable[[], tuple[Workflow, str]]]:
    """Start a process that runs an execution, and return it with the execution's id."""
    started: list[Workflow] = []

    def start(before: str = "") -> tuple[Workflow, str]:
        process = subprocess.Popen(
            [sys.executable, "-c", before + WORKFLOW, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def fields(text: str) -> dict[str, str]:
    """The fields that were printed into a pipe, above the tree."""
    pairs = [line.split("\t", 1) for line in text.partition("\n\n")[0].splitlines()]
    return {name: value for name, value in pairs}


def test_executions_are_listed_newest_first_with_what_they_spent(cli: Run, db: SmithersDB) -> None:
    for name in ("one", "two"):
        id = db.execution.start(name)
        agent = db.agents.start("prompt")
        db.agents.complete(agent, "done", tokens={"input": 1000, "output": 200, "cost_usd": 0.25})
        if name == "one":
            db.execution.complete(id)
        else:
            db.execution.fail(id, "no")
    db.execution.start("three")
    table = cells(cli("executions"))
    assert table[0] == [
        *("id", "name", "status", "started (UTC)", "took", "cost", "agents", "tokens", "tools"),
        "owner",
    ]
    assert [row[1:3] for row in table[1:]] == [
        ["three", "running"],
        ["two", "failed"],
        ["one", "completed"],
    ]
    assert table[3][5:9] == ["0.25", "1", "1200", "0"]
    assert table[1][9].endswith(f":{os.getpid()}")
    listed = cli("executions", "--json").json
    assert [row["id"] for row in listed] == [row[0] for row in table[1:]], "ids whole in a pipe"
    assert (listed[0]["is_live"], listed[2]["total_cost_usd"]) == (True, 0.25)
    assert len(cli("executions", "--json", "--limit", "2").json) == 2
    assert [row["name"] for row in cli("executions", "--status", "failed", "--json").json] == [
        "two"
    ]
    assert cli("executions", "--status", "nonsense").code == 2


def test_why_no_execution_is_shown_is_said_as_it_is(cli: Run, db: SmithersDB) -> None:
    assert cli("executions", columns=80).out == "There are no executions.\n"
    assert cli("current", columns=80).out == "Nothing is running.\n"
    assert (cli("executions", "--json").json, cli("current", "--json").json) == ([], None)
    assert (cli("executions").out, cli("current").out) == ("", ""), "a pipe gets no line"
    db.execution.complete(db.execution.start("one"))
    assert cli("executions", "--limit", "0", columns=80).out == "No execution matches.\n"
    assert cli("executions", "--status", "failed", columns=80).out == "No execution matches.\n"
    assert cli("current", columns=80).out == "Nothing is running.\n"


def test_current_shows_from_another_process_what_runs_as_a_tree(
    cli: Run, db: SmithersDB, path: Path, workflow: Callable[[], tuple[Workflow, str]]
) -> None:
    process, id = workflow()
    out = on_terminal(["db", "current", "--path", str(path)], 100)
    tree = [line for line in out.splitlines() if "─ " in line]
    assert [re.sub(r"  .*", "", line.strip(" ├─└│")) for line in tree] == [
        "phase implement #1",
        "step write tests",
        f"agent opus {db.agents.list()[0].id[-8:]}",
        "tool Bash",
    ], "what has ended is no part of it"
    assert "2 tool calls" in tree[2] and '{"command":"pytest"}' in tree[3]
    assert [line.index("─ ") for line in tree] == [1, 4, 7, 10], "each below the one before"
    shown = fields(in_process("db", "current", "--path", str(path)).out)
    assert shown["owner"].endswith(f":{process.pid} (alive)")
    assert (shown["name"], shown["id"], shown["status"]) == ("Feature", id, "running")
    assert shown["spent"] == "2 iterations, 1 agent, 2 tool calls, 0 tokens, $0.0000"
    told = cli("current", "--json").json
    assert (told["id"], told["is_live"]) == (id, True)
    assert [part["kind"] for part in told["parts"]] == ["phase", "step", "agent", "tool"]
    assert told["parts"][3]["parents"] == [told["parts"][2]["id"]]


def test_an_owner_that_was_killed_is_shown_as_dead(
    cli: Run, workflow: Callable[[], tuple[Workflow, str]]
) -> None:
    process, id = workflow()
    assert cells(cli("executions"))[1][2] == "running"
    process.kill()
    process.wait()
    assert fields(cli("current").out)["owner"].endswith("(dead; the execution can be resumed)")
    assert cells(cli("executions"))[1][2] == "running (dead)"
    assert cli("current", "--json").json["is_live"] is False
    assert cli("cancel", id).out == f"cancelled  Feature  {id}\n"
    assert cells(cli("executions"))[1][2] == "cancelled"


def test_cancel_asks_a_live_owner_and_ends_what_nobody_runs(
    cli: Run, db: SmithersDB, path: Path, workflow: Callable[[], tuple[Workflow, str]]
) -> None:
    process, id = workflow()
    asked = in_process(
        "db", "cancel", id[-8:], "--reason", "no longer\nwanted", "--path", str(path)
    )
    assert asked.code == 0 and re.fullmatch(
        rf"asked \S+:{process.pid} to cancel  {id}\n", asked.out
    )
    found = db.execution.get(id)
    assert found is not None
    assert (found.status, found.cancel_reason) == ("running", "no longer\nwanted")
    assert cells(cli("executions"))[1][2] == "cancelling"
    assert fields(cli("execution", id).out)["cancel"].endswith(r': "no longer\nwanted"')
    process.communicate()
    assert cli("execution", id, "--json").json["status"] == "cancelled", "its owner has stopped"
    again = cli("cancel", id)
    assert (again.code, again.out) == (1, "")
    assert again.err == f"Error: cannot cancel execution {id!r}: it is cancelled\n"
    other = db.execution.start("Other")
    told = in_process("db", "cancel", other, "--json", "--path", str(path))
    assert told.json["cancel_requested_at"] is not None


def test_execution_shows_the_record_and_all_below_it(cli: Run, db: SmithersDB) -> None:
    id = db.execution.start("Feature", "scripts/feature.py", {"retries": 2})
    with db.phases.open("review", 3):
        agent = db.agents.start("Review\nit.")
        db.tools.complete(db.tools.start(agent, "Read", {}), "text")
        tokens = {"input": 1000, "output": 234, "cost_usd": 1.5}
        db.agents.complete(agent, "fine", tokens=tokens)
    failed = db.agents.start("Fail.")
    db.agents.fail(failed, "out of\nmoney")
    db.execution.fail(id, ValueError("no\ntests"))
    shown = fields(cli("execution", id).out)
    assert list(shown) == [
        *("name", "id", "status", "owner", "file", "started", "ended", "took", "spent"),
        *("config", "error"),
    ]
    assert shown["config"] == '{"retries": 2}'
    assert shown["error"] == r'"ValueError: no\ntests"'
    assert shown["spent"] == "1 iteration, 2 agents, 1 tool call, 1,234 tokens, $1.50"
    rows = cells(cli("execution", id))[len(shown) + 1 :]
    assert [row[0] for row in rows] == ["kind", "phase", "agent", "agent"]
    assert rows[2][1:5] == [agent, rows[1][1], "sonnet", "completed"]
    assert rows[2][7:] == ["1234", "1.5"]
    tree = cli("execution", id, columns=100).out.splitlines()[-3:]
    assert tree[0].startswith("├─ phase review #3  completed")
    assert tree[1].startswith(f"│  └─ agent sonnet {agent[-8:]}  completed")
    assert tree[1].rstrip().endswith("1 tool call  1,234 tokens  $1.50  Review it.")
    assert tree[2].rstrip().endswith("out of money"), "an error says more than a prompt"
    told = cli("execution", id, "--json").json
    assert told["error"] == "ValueError: no\ntests"
    assert [part["text"] for part in told["parts"]] == [None, "Review\nit.", "Fail."]


def test_what_a_limit_leaves_out_is_said(cli: Run, db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    for number in range(5):
        db.agents.complete(db.agents.start(f"prompt {number}"), "")
    few = cli("execution", id, "--limit", "2", columns=80)
    assert [line[-8:] for line in few.out.splitlines() if "─ " in line] == ["prompt 3", "prompt 4"]
    assert few.err == "Of each kind the newest 2 are shown; --limit shows more.\n"
    assert cli("execution", id, columns=80).err == ""
    assert len(cli("execution", id, "--json", "--limit", "2").json["parts"]) == 2


def test_that_more_is_running_is_said(cli: Run, db: SmithersDB) -> None:
    db.execution.start("one")
    assert cli("current").err == ""
    db.execution.start("two")
    assert "1 more execution is running" in cli("current").err
    assert fields(cli("current").out)["name"] == "two", "the newest"
    db.execution.start("three")
    assert "2 more executions are running" in cli("current").err


def test_an_id_may_be_its_beginning_or_its_end(cli: Run, db: SmithersDB) -> None:
    id = db.execution.start("one")
    for text in (id, id[:30], id[-8:], id[-4:], id[:4]):
        assert cli("execution", text, "--json").json["id"] == id
    for text in (id[:3], "", "zzzz", id + "0", "%", "____"):
        refused = cli("execution", text)
        assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
        assert "there is no execution" in refused.err
    other = db.execution.start("two")
    several = cli("cancel", id[:4])
    assert several.code == 1
    assert several.err == f"Error: several ids begin or end with {id[:4]!r}: {other}, {id}\n"
    assert all(row.status == "running" for row in db.execution.list())


HOSTILE = "\x1b[2J\x1b]0;title\x07\r\n\t\u2028\u202e日本語 🎉"


def test_hostile_text_in_every_column_reaches_no_terminal(
    cli: Run, db: SmithersDB, foreign: sqlite3.Connection
) -> None:
    id = db.execution.start(HOSTILE, HOSTILE, {HOSTILE: HOSTILE})
    db.phases.start(HOSTILE)
    db.steps.start(HOSTILE)
    agent = db.agents.start(HOSTILE, HOSTILE)
    db.tools.start(agent, HOSTILE, {"x": HOSTILE})
    db.agents.fail(db.agents.start(HOSTILE, HOSTILE), HOSTILE)
    foreign.execute("UPDATE executions SET id = ?, owner = ?, error = ?", [HOSTILE] * 3)
    foreign.execute(
        "UPDATE executions SET cancel_requested_at = '2026-01-01', cancel_reason = ?", [id]
    )
    for args in (("executions",), ("current",), ("execution", HOSTILE), ("cancel", HOSTILE)):
        for columns in (0, 30, 80, 200):
            done = cli(*args, columns=columns)
            assert done.code == 0 or args[0] == "cancel"
            for line in (done.out + done.err).split("\n"):
                assert all(mark.isprintable() or mark == "\t" for mark in line), (args, line)


@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_nothing_is_wider_than_the_terminal(cli: Run, db: SmithersDB, width: int) -> None:
    id = ""
    for number in range(3):
        id = db.execution.start("語" * 30 + " " + "name " * 30 + f"🎉 {number}")
        phase = db.phases.start("phase " * 40)
        for _ in range(5):
            db.agents.start("日本語の長いプロンプト" * 40, "model" * 10)
        db.phases.complete(phase)
    for args in (("current",), ("execution", id)):
        lines = cli(*args, columns=width).out.splitlines()
        tree = [line for line in lines if "─ " in line]
        assert len(tree) >= 5 and all(cell_len(line) <= width for line in tree), "one line each"
    if width >= 80:
        lines = cli("executions", columns=width).out.splitlines()
        assert all(cell_len(line) <= width for line in lines)


def test_a_hundred_executions_take_a_line_or_two_each(cli: Run, db: SmithersDB) -> None:
    for number in range(100):
        db.execution.complete(db.execution.start(f"Feature {number}"))
    lines = cli("executions", "--limit", "100", columns=80).out.splitlines()
    assert len(lines) == 102
    assert len({cell_len(line) for line in lines}) == 1, "all as long as each other"


def test_listing_changes_no_byte_of_database_and_log(
    cli: Run, db: SmithersDB, path: Path, workflow: Callable[[str], tuple[Workflow, str]]
) -> None:
    _, id = workflow(WITHOUT_A_HEARTBEAT)
    agent = db.agents.list()[0].id
    files = [path / "db.sqlite", path / "db.sqlite-wal"]
    before = [file.read_bytes() for file in files]
    for args in (
        *(("executions",), ("execution", id), ("current",), ("phases", id), ("steps", id)),
        *(("agents",), ("tools", agent), ("commits",), ("reviews",), ("check",)),
    ):
        done = cli(*args, "--json")
        assert done.code == 0, done.err
        json.loads(done.out)
    for file, bytes_before in zip(files, before, strict=True):
        same = file.read_bytes() == bytes_before
        assert same, f"{file.name} has changed"
