"""`smithers db phases | steps | agents | tools`: rows below an execution, listed."""

from __future__ import annotations

import pytest

from smithers import SmithersDB
from tests.smithers.commandline import Run, cells


@pytest.fixture
def execution(db: SmithersDB) -> str:
    return db.execution.start("Feature")


def test_phases_of_an_execution_are_listed_in_the_order_of_their_starts(
    cli: Run, db: SmithersDB, execution: str
) -> None:
    db.phases.complete(db.phases.start("plan"))
    db.phases.fail(db.phases.start("implement", 2), "no\ntime")
    running = db.phases.start("review")
    table = cells(cli("phases", execution))
    assert table[0] == ["id", "name", "iteration", "status", "started (UTC)", "took", "error"]
    assert [row[1:4] for row in table[1:]] == [
        ["plan", "0", "completed"],
        ["implement", "2", "failed"],
        ["review", "0", "running"],
    ]
    assert table[2][6] == r'"no\ntime"'
    listed = cli("phases", execution[-8:], "--json", "--limit", "2").json
    assert [row["name"] for row in listed] == ["implement", "review"], "the newest ones"
    assert listed[1]["id"] == running == table[3][0]


def test_steps_of_a_phase_or_of_an_execution_are_listed(
    cli: Run, db: SmithersDB, execution: str
) -> None:
    outside = db.steps.start("outside")
    db.steps.skip(outside)
    phase = db.phases.start("implement")
    done = db.steps.start("write tests")
    db.steps.complete(done, {"tests": 12}, commit_created="abc")
    table = cells(cli("steps", execution))
    assert table[0] == [
        "id",
        "name",
        "status",
        "started (UTC)",
        "took",
        "commit",
        "result",
        "error",
    ]
    assert [row[1:3] for row in table[1:]] == [["outside", "skipped"], ["write tests", "completed"]]
    assert table[2][5:7] == ["abc", '{"tests": 12}']
    assert [row["id"] for row in cli("steps", phase, "--json").json] == [done]
    assert cli("steps", phase[-8:], "--json").json[0]["result"] == {"tests": 12}
    assert cli("steps", "zzzz").err == "Error: there is no phase or execution 'zzzz'\n"


def test_agents_are_the_newest_ones_of_all_or_of_one_execution(
    cli: Run, db: SmithersDB, execution: str
) -> None:
    for number in range(25):
        id = db.agents.start(f"prompt {number}", "opus")
        tokens = {"input": 1000, "output": 234, "cost_usd": 0.5}
        db.agents.complete(id, "x" * 100_000, tokens=tokens)
    db.execution.complete(execution)
    other = db.agents.start("below none")
    db.agents.fail(other, "out of money")
    table = cells(cli("agents"))
    assert table[0] == [
        *("id", "model", "status", "took", "tokens", "cost", "prompt", "error", "started (UTC)"),
        "turns",
    ]
    assert [row[6] for row in table[1:]] == [*(f"prompt {n}" for n in range(6, 25)), "below none"]
    assert table[1][4:6] == ["1234", "0.5"] and table[20][7] == "out of money"
    listed = cli("agents", "--execution", execution, "--limit", "2", "--json").json
    assert [row["prompt"] for row in listed] == ["prompt 23", "prompt 24"]
    assert listed[0]["output"] == "x" * 100_000
    assert len(cli("agents", "--execution", execution[-8:], "--limit", "99", "--json").json) == 25
    assert "there is no execution" in cli("agents", "--execution", "zzzz").err


def test_a_prompt_of_many_lines_takes_two_on_a_terminal_and_is_whole_in_a_pipe(
    cli: Run, db: SmithersDB
) -> None:
    prompt = "Write the code.\n\n- one\n- two\n" * 50
    db.agents.start(prompt)
    lines = cli("agents", columns=80).out.splitlines()
    assert len(lines) == 4 and lines[3].rstrip().endswith("…")
    assert "Write the code." in lines[2]
    assert cells(cli("agents"))[1][6].count(r"- two\n") == 50
    assert cli("agents", "--json").json[0]["prompt"] == prompt


def test_tool_calls_of_an_agent_are_listed_without_large_outputs(cli: Run, db: SmithersDB) -> None:
    agent = db.agents.start("prompt")
    db.tools.complete(db.tools.start(agent, "Read", {"file": "語.py"}), "x" * 70_000, "Read it")
    db.tools.fail(db.tools.start(agent, "Bash", {"command": "false"}), "exit code 1")
    db.tools.start(agent, "Edit", None)
    table = cells(cli("tools", agent))
    assert table[0] == [
        *("id", "name", "status", "took", "output", "input", "summary", "error"),
        "started (UTC)",
    ]
    assert [[row[1], row[2], *row[4:8]] for row in table[1:]] == [
        ["Read", "completed", "70000", '{"file": "語.py"}', "Read it", "-"],
        ["Bash", "failed", "-", '{"command": "false"}', "-", "exit code 1"],
        ["Edit", "running", "-", "null", "-", "-"],
    ]
    assert "68.4 KB" in cli("tools", agent[-8:], columns=80).out
    listed = cli("tools", agent, "--json", "--limit", "2").json
    assert [row["name"] for row in listed] == ["Bash", "Edit"]
    assert cli("tools", agent, "--json").json[0]["output"] is None, "above 64 KB"


def test_why_nothing_is_shown_is_said_as_it_is(cli: Run, db: SmithersDB, execution: str) -> None:
    def told(*args: str) -> str:
        assert cli(*args, "--json").json == []
        assert cli(*args).out == "", "a pipe gets no line"
        return cli(*args, columns=80).out

    assert told("phases", execution) == "The execution has no phases.\n"
    assert told("steps", execution) == "The execution has no steps.\n"
    assert told("agents") == "There are no agents.\n"
    phase, agent = db.phases.start("plan"), db.agents.start("prompt")
    assert told("steps", phase) == "The phase has no steps.\n"
    assert told("tools", agent) == "The agent has called no tools.\n"
    assert told("phases", execution, "--limit", "0") == "Shown: 0 of 1 phases.\n"
    assert told("agents", "--limit", "0") == "No agent matches.\n"


@pytest.mark.parametrize("command", ["phases", "steps", "tools"])
def test_an_unknown_id_is_one_line_and_exit_code_1(cli: Run, command: str) -> None:
    for id in ("absent", "a", "", "%%%%"):
        refused = cli(command, id)
        assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
        assert "there is no" in refused.err
    assert cli(command).code == 2


HOSTILE = "\x1b[2J\x1b]0;title\x07\r\n\t\u2028\u202e日本語 🎉"


def test_hostile_text_in_every_column_reaches_no_terminal(
    cli: Run, db: SmithersDB, execution: str
) -> None:
    phase = db.phases.start(HOSTILE)
    step = db.steps.start(HOSTILE)
    agent = db.agents.start(HOSTILE, HOSTILE, HOSTILE)
    call = db.tools.start(agent, HOSTILE, HOSTILE)
    db.tools.complete(call, HOSTILE, HOSTILE)
    db.tools.fail(db.tools.start(agent, HOSTILE, HOSTILE), HOSTILE)
    db.agents.fail(agent, HOSTILE)
    db.steps.complete(step, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    db.phases.fail(phase, HOSTILE)
    for args in (("phases", execution), ("steps", execution), ("agents",), ("tools", agent)):
        for columns in (0, 30, 80, 250):
            done = cli(*args, columns=columns)
            assert done.code == 0
            for line in done.out.split("\n"):
                assert all(mark.isprintable() or mark == "\t" for mark in line), (args, line)
            assert "日本語" in done.out.replace("\n", "") or columns < 250, "not all is escaped"
