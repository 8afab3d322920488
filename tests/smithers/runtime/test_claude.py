"""Claude Code in scripts: the real library, driving a scripted program."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
    create_sdk_mcp_server,
    tool,
)
from pydantic import BaseModel

from smithers import (
    Agent,
    AgentFailed,
    AgentResult,
    AsyncSmithersDB,
    ClaudeMissing,
    ExecutionCancelled,
    ToolCall,
    create_async_smithers_db,
)
from smithers.runtime import agents, groups
from smithers.runtime import claude as claude_module
from tests.processes import runs
from tests.scripted import Scripted, Step

DONE = {"text": "done"}


class Verdict(BaseModel):
    """What a reviewer answers."""

    passed: bool
    notes: list[str]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait as little as will do."""
    monkeypatch.setattr(agents, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(groups, "TERM_GRACE", 0.3)
    monkeypatch.setattr(claude_module, "GRACE", 0.3)


@pytest.fixture(autouse=True)
async def unheard(collected: None) -> AsyncIterator[None]:
    """Let no task fail without anybody hearing of it."""
    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    yield
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []


async def ask(db: AsyncSmithersDB, prompt: str = "go", **arguments: Any) -> AgentResult:
    """Ask in a run of its own."""
    async with db.run("w") as run:
        return await run.claude(prompt, **arguments)
    raise AssertionError("a run lets every error pass")


async def failure(db: AsyncSmithersDB, **arguments: Any) -> tuple[str, Agent]:
    """Ask for a failure; return its reason, and the row that it left."""
    with pytest.raises(AgentFailed) as caught:
        await ask(db, **arguments)
    row = await db.agents.get(caught.value.id)
    assert row is not None and row.status == "failed" and row.completed_at is not None
    assert (row.error or "").startswith(caught.value.reason)
    return caught.value.reason, row


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another program does, of which no event tells."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def has_spoken(rows: list[Agent]) -> bool:
    return bool(rows and rows[0].output)


# -- what is recorded ------------------------------------------------------------------------------


async def test_an_answer_is_recorded_with_tokens_cost_session_and_turns(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    result = await ask(db, "hello", model="opus", system_prompt="Be brief.")
    assert result.output == "You said: hello"
    assert result.tokens == {"input": 100, "output": 20, "cache_read": 7, "cache_write": 5}
    assert result.cost_usd == pytest.approx(0.001) and result.turns == 1
    (row,) = await db.agents.list()
    assert (row.id, row.status, row.output) == (result.id, "completed", result.output)
    assert (row.prompt, row.model, row.system_prompt) == ("hello", "opus", "Be brief.")
    assert row.session_id == result.session_id and row.session_id
    assert row.duration_ms == result.duration_ms
    execution = await db.execution.get(row.execution_id or "")
    assert execution is not None and execution.status == "completed"
    assert (execution.total_agents, execution.total_tokens_used) == (1, 120)
    (argv,) = claude.runs
    assert argv[argv.index("--model") + 1] == "opus"
    assert argv[argv.index("--system-prompt") + 1] == "Be brief."


async def test_tools_are_recorded_with_input_output_and_duration(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    bash = {"tool": "Bash", "input": {"command": "ls"}, "output": "a\nb", "duration_ms": 60}
    read = {"tool": "Read", "input": {"file_path": "x"}, "output": "no such file", "error": True}
    claude.says([{"group": [{"text": "I look."}, bash]}, read, DONE])
    told: list[ToolCall] = []
    result = await ask(db, on_tool=told.append)
    calls = await db.tools.list(result.id)
    assert [(call.name, call.status, call.input) for call in calls] == [
        ("Bash", "completed", {"command": "ls"}),
        ("Read", "failed", {"file_path": "x"}),
    ]
    assert (calls[0].output, calls[1].error) == ("a\nb", "no such file")
    durations = [call.duration_ms for call in calls]
    assert durations[0] is not None and 50 <= durations[0] < 5_000
    assert told == calls
    assert result.tokens["input"] == 300, "three messages, though four frames"
    assert result.turns == 3


async def test_parallel_tools_have_rows_of_their_own(db: AsyncSmithersDB, claude: Scripted) -> None:
    calls = [{"tool": "Read", "input": {"n": n}, "output": str(n)} for n in range(4)]
    claude.says([{"group": calls}, DONE])
    result = await ask(db)
    found = await db.tools.list(result.id)
    assert [(call.input, call.output) for call in found] == [({"n": n}, str(n)) for n in range(4)]
    assert result.tokens["input"] == 200


async def test_what_happens_is_seen_while_it_runs(db: AsyncSmithersDB, claude: Scripted) -> None:
    claude.says([{"text": "I begin."}, {"tool": "Bash", "output": "x", "duration_ms": 60_000}])
    async with db.run("w") as run:
        asking = asyncio.create_task(run.claude("go"))
        async with asyncio.timeout(20):
            agents = db.agents.observe()
            running = await agents.first(lambda rows: has_spoken(rows) and rows[0].turns == 2)
            (call,) = await db.tools.observe(running[0].id).first(bool)
        agent = running[0]
        assert (agent.status, agent.output, agent.turns) == ("running", "I begin.", 2)
        assert agent.session_id and agent.tokens_input == 200
        assert (call.status, call.name) == ("running", "Bash")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        (call,) = await db.tools.list(agent.id)
        assert call.status == "cancelled", "nobody has said how it ended"


@pytest.mark.parametrize("background", [False, True])
async def test_agents_of_the_agent_have_rows_below_it(
    db: AsyncSmithersDB, claude: Scripted, background: bool
) -> None:
    steps = [{"tool": "Grep", "input": {"pattern": "x"}, "output": "hit"}, {"text": "found"}]
    below = {"agent": "general-purpose", "prompt": "search", "steps": steps, "output": "one hit"}
    claude.says([{**below, "background": background}, {"text": "top"}])
    result = await ask(db)
    main, sub = await db.agents.list()
    assert (main.id, main.output, main.tokens_input) == (result.id, "top", 200)
    assert (sub.parent_agent_id, sub.prompt, sub.status) == (main.id, "search", "completed")
    assert (sub.output, sub.tokens_input, sub.turns) == ("one hit", 200, 2)
    assert [call.name for call in await db.tools.list(main.id)] == ["Agent"]
    assert [call.output for call in await db.tools.list(sub.id)] == ["hit"]
    assert result.tokens["input"] == 200, "what those below use is in their rows"
    (begun,) = [line[">>"] for line in claude.log if _is_beginning(line)]
    assert begun["request"]["forwardSubagentText"] is True, "else their text would not be told"
    execution = await db.execution.get(result_of := main.execution_id or "")
    assert execution is not None and execution.total_tokens_used == 480, result_of


@pytest.mark.parametrize(("status", "expected"), [("failed", "failed"), ("killed", "cancelled")])
@pytest.mark.parametrize("notify", [True, False])
async def test_agents_of_the_agent_may_fail_or_be_killed(
    db: AsyncSmithersDB, claude: Scripted, status: str, expected: str, notify: bool
) -> None:
    below = {"agent": "general-purpose", "prompt": "p", "background": True, "status": status}
    claude.says([{**below, "notify": notify, "steps": [{"text": "sub"}]}, DONE])
    assert (await ask(db)).output == "done"
    _, sub = await db.agents.list()
    assert sub.status == expected


async def test_hooks_permissions_and_tools_of_the_host_go_through_options(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    seen: list[str | None] = []

    @tool("add", "adds", {"a": int})
    async def add(numbers: Any) -> dict[str, Any]:
        agent = await db.agents.current()
        seen.append(None if agent is None else agent.id)
        return {"content": [{"type": "text", "text": str(numbers["a"] + 1)}]}

    async def hook(event: Any, id: str | None, context: Any) -> Any:
        seen.append(event["hook_event_name"])
        return {}

    async def permit(name: str, asked: dict[str, Any], _: ToolPermissionContext) -> Any:
        return PermissionResultDeny(message="never") if name == "Bash" else PermissionResultAllow()

    options = ClaudeAgentOptions(
        can_use_tool=permit,
        hooks={"PreToolUse": [HookMatcher("Bash", [hook])]},
        mcp_servers={"calc": create_sdk_mcp_server("calc", tools=[add])},
    )
    claude.says([{"tool": "Bash", "ask": True}, {"mcp": "calc", "tool": "add", "args": {"a": 1}}])
    result = await ask(db, options=options)
    denied, added = await db.tools.list(result.id)
    assert (denied.status, denied.error) == ("failed", "never")
    assert (added.name, added.output) == ("mcp__calc__add", "2")
    assert seen == ["PreToolUse", result.id], "what the agent calls runs below the agent"


async def test_the_agent_has_state_and_memories_as_tools(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    await db.state.set("phase", "start")
    claude.says(
        [
            {"mcp": "smithers", "tool": "state_get", "args": {"key": "phase"}},
            {"mcp": "smithers", "tool": "state_set", "args": {"key": "phase", "value": [1]}},
            {"mcp": "smithers", "tool": "state_history", "args": {"key": "phase"}},
            {
                **{"mcp": "smithers", "tool": "memory_add"},
                "args": {"category": "fact", "key": "api", "content": "at /v2"},
            },
            {"mcp": "smithers", "tool": "memory_search", "args": {"query": "v2"}},
            {"mcp": "smithers", "tool": "state_set", "args": {"key": ""}},
            DONE,
        ]
    )
    async with db.run("w") as run:
        result = await run.claude("go")
    calls = await db.tools.list(result.id)
    assert [call.name for call in calls[:2]] == [
        "mcp__smithers__state_get",
        "mcp__smithers__state_set",
    ]
    outputs = [json.loads(str(call.output)) for call in calls[:5]]
    assert outputs[0]["value"] == "start"
    assert [row["value"] for row in outputs[2]["history"]] == ["start", [1]]
    assert outputs[4]["memories"][0]["content"] == "at /v2"
    assert calls[5].status == "failed" and "Traceback" not in str(calls[5].error)
    last = (await db.state.history("phase"))[-1]
    assert (last.value, last.trigger) == ([1], "mcp")
    assert (last.execution_id, last.agent_id) == (run.id, result.id)


async def test_a_server_of_the_callers_under_that_name_takes_its_place(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    @tool("state_get", "mine", {"a": int})
    async def mine(_: Any) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "mine"}]}

    options = ClaudeAgentOptions(
        mcp_servers={"smithers": create_sdk_mcp_server("smithers", tools=[mine])}
    )
    claude.says([{"mcp": "smithers", "tool": "state_get", "args": {"a": 1}}, DONE])
    result = await ask(db, options=options)
    (call,) = await db.tools.list(result.id)
    assert call.output == "mine"


async def test_structured_output_is_of_the_type_and_recorded_as_json(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    claude.says([DONE], structured_output={"passed": True, "notes": ["ok"]})
    result = await ask(db, output_type=Verdict)
    assert result.structured == Verdict(passed=True, notes=["ok"])
    (row,) = await db.agents.list()
    assert row.structured == {"passed": True, "notes": ["ok"]}
    (argv,) = claude.runs
    schema = json.loads(argv[argv.index("--json-schema") + 1])
    assert schema == Verdict.model_json_schema()


@pytest.mark.parametrize(
    ("given", "why"),
    [({"passed": "yes", "notes": []}, "passed"), (None, "answer"), ({"passed": True}, "notes")],
)
async def test_an_answer_of_another_type_fails_the_agent(
    db: AsyncSmithersDB, claude: Scripted, given: Any, why: str
) -> None:
    claude.says([DONE], structured_output=given)
    reason, row = await failure(db, output_type=Verdict)
    assert "is no Verdict" in reason and why in reason
    assert (row.output, row.structured) == ("done", None)


async def test_pieces_of_text_are_recorded_as_they_come(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    claude.says([{"text": "hello world"}, {"text": "in pieces"}, {"sleep": 60}])
    options = ClaudeAgentOptions(include_partial_messages=True)
    async with db.run("w") as run:
        asking = asyncio.create_task(run.claude("go", options=options))
        whole = "hello world\n\nin pieces"
        async with asyncio.timeout(20):
            await db.agents.observe().first(
                lambda rows: has_spoken(rows) and rows[0].output == whole
            )
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_text_that_sqlite_or_utf_8_cannot_hold_is_escaped(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    claude.says(
        [{"tool": "B\0d", "input": {"a": "\0\ud800"}, "output": "x\0\ud800"}, {"text": "\0\ud800"}]
    )
    result = await ask(db)
    assert result.output == "\\x00\\ud800"
    (call,) = await db.tools.list(result.id)
    assert (call.name, call.status) == ("B\\x00d", "completed")


# -- sessions and costs ----------------------------------------------------------------------------


async def test_a_session_goes_on_and_is_forked_and_each_cost_is_counted_once(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    claude.says([{"text": "one"}], [{"text": "two"}, {"text": "two more"}], [{"text": "three"}])
    async with db.run("w") as run:
        first = await run.claude("a")
        again = await run.claude("b", options=ClaudeAgentOptions(resume=first.session_id))
        options = ClaudeAgentOptions(resume=again.session_id, fork_session=True)
        forked = await run.claude("c", options=options)
        on = await run.claude("d", options=ClaudeAgentOptions(resume=forked.session_id))
    assert [r.output for r in (first, again, forked, on)] == ["one", "two more", "three", "three"]
    assert again.session_id == first.session_id != forked.session_id == on.session_id
    costs = [r.cost_usd for r in (first, again, forked, on)]
    assert costs == pytest.approx([0.001, 0.002, 0.001, 0.001])
    assert [r.tokens["input"] for r in (first, again, forked, on)] == [100, 200, 100, 100]


async def test_a_cost_ceiling_stops_the_agent(db: AsyncSmithersDB, claude: Scripted) -> None:
    below = {"agent": "general-purpose", "background": True, "steps": [{"sleep": 60}]}
    claude.says([{"usage": {"output_tokens": 40_000}}, below, DONE])
    began = time.monotonic()
    reason, row = await failure(db, max_cost_usd=1.5)
    assert "has passed max_cost_usd=1.5" in reason
    assert time.monotonic() - began < 10
    assert row.cost_usd == pytest.approx(2.001) and row.output == "done"
    (argv,) = claude.runs
    assert argv[argv.index("--max-budget-usd") + 1] == "1.5"


async def test_limits_of_the_program_fail_the_agent(db: AsyncSmithersDB, claude: Scripted) -> None:
    fail = {"fail": "error_max_turns", "errors": ["Reached maximum number of turns (1)"]}
    claude.says([{"text": "so far"}, {**fail, "terminal_reason": "max_turns"}])
    reason, row = await failure(db, max_turns=1)
    assert reason == "error_max_turns: Reached maximum number of turns (1)"
    assert (row.output, row.turns) == ("so far", 1)
    assert row.cost_usd == pytest.approx(0.001)
    (argv,) = claude.runs
    assert argv[argv.index("--max-turns") + 1] == "1"


async def test_usage_that_grows_is_counted_as_it_ends(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    claude.says([DONE, {"result": {"usage": {"input_tokens": 100, "output_tokens": 900}}}])
    assert (await ask(db)).tokens["output"] == 900, "a message is told before its last token"


# -- failures --------------------------------------------------------------------------------------


FAILURES: list[tuple[list[dict[str, Any]], str]] = [
    ([{"text": "a"}, {"exit": 3}], "Claude Code exited with code 3"),
    ([{"stderr": "out of memory"}, {"kill": True}], "Claude Code was ended by signal 9"),
    ([{"raw": '{"type":"assis'}, {"exit": 0}], "Claude Code ended without a result"),
    ([{"raw": '{"type":"assis\n'}, {"sleep": 60}], "CLIJSONDecodeError"),
    ([{"raw": '{"type":"assistant"}\n'}, {"sleep": 60}], "MessageParseError"),
    ([{"api_error": 400, "message": "bad"}], "API Error: 400 bad"),
    ([{"fail": "error_during_execution", "errors": []}], "error_during_execution"),
]


@pytest.mark.parametrize(("steps", "why"), FAILURES)
async def test_whatever_goes_wrong_fails_the_agent(
    db: AsyncSmithersDB, claude: Scripted, steps: list[Any], why: str
) -> None:
    claude.says(steps)
    reason, row = await failure(db)
    assert why in reason
    assert (await db.execution.list())[0].status == "failed"
    if "stderr" in steps[0]:
        assert "out of memory" in (row.error or "")


async def test_noise_unknown_frames_and_long_lines_do_no_harm(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    noise: list[Step] = [{"raw": "[SandboxDebug] noise\n"}, {"frame": {"type": "brand_new"}}]
    claude.says([*noise, {"text": "a"}, {"big": 2_000_000}])
    result = await ask(db)
    assert len(result.output) == 2_000_000


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("exit 0", "Claude Code ended without a result"),
        ("echo 'no such flag' >&2; sleep 0.2; exit 2", "Claude Code exited with code 2"),
        ("exec </dev/null; exit 2", "Claude Code e"),
        ("echo garbage; exit 0", "Claude Code ended without a result"),
        ("echo '{garbage'; sleep 60", "CLIJSONDecodeError"),
    ],
)
async def test_a_program_that_is_no_claude_fails_the_agent(
    db: AsyncSmithersDB,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    why: str,
) -> None:
    other = tmp_path / "other"
    other.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    other.chmod(0o755)
    monkeypatch.setenv("SMITHERS_CLAUDE_CLI", str(other))
    reason, row = await failure(db)
    assert why in reason
    if "flag" in program:
        assert "no such flag" in (row.error or "")


async def test_one_that_never_answers_is_ended_when_its_time_is_up(
    db: AsyncSmithersDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = tmp_path / "silent"
    silent.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n", encoding="utf-8")
    silent.chmod(0o755)
    monkeypatch.setenv("SMITHERS_CLAUDE_CLI", str(silent))
    began = time.monotonic()
    reason, _ = await failure(db, timeout=2.0, retries=3)
    assert reason == "no result within 2 s"
    assert time.monotonic() - began < 30
    assert not runs(int((tmp_path / "pid").read_text("utf-8")))


async def test_time_is_up_in_the_midst_of_work_too(db: AsyncSmithersDB, claude: Scripted) -> None:
    claude.says([{"text": "so far"}, {"sleep": 60}])
    reason, row = await failure(db, timeout=5.0)
    assert reason == "no result within 5 s" and row.output == "so far"


async def test_one_that_lingers_after_its_result_is_ended(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    claude.says([DONE, {"linger": 60, "ignore_term": True}])
    began = time.monotonic()
    assert (await ask(db)).output == "done"
    assert time.monotonic() - began < 20


async def test_failures_of_the_api_are_retried_in_rows_of_their_own(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    overloaded = {"api_error": 529, "message": "Overloaded"}
    claude.says([overloaded], [overloaded], [{"text": "at last"}])
    result = await ask(db, "go", retries=2)
    rows = await db.agents.list()
    assert [row.status for row in rows] == ["failed", "failed", "completed"]
    assert [row.tokens_input for row in rows] == [0, 0, 100], "made-up messages cost nothing"
    assert (result.id, result.output) == (rows[2].id, "at last")
    assert len({row.session_id for row in rows}) == 1, "each goes on with the session"
    resumed = [[word for word in argv if word.startswith("--resume=")] for argv in claude.runs]
    assert resumed == [[], *[[f"--resume={result.session_id}"]] * 2]
    assert claude.prompts[0] == "go"
    assert claude.prompts[1].startswith("The work on the task below was interrupted (API Error")
    assert claude.prompts[1].endswith("\n\ngo")
    assert {row.prompt for row in rows} == {"go"}


async def test_what_cannot_pass_is_not_retried(db: AsyncSmithersDB, claude: Scripted) -> None:
    claude.says([{"api_error": 401, "message": "who are you"}])
    await failure(db, retries=3)
    claude.says([{"fail": "error_max_turns"}])
    await failure(db, retries=3)
    assert len(claude.runs) == 2


async def test_a_crash_is_retried_and_the_last_failure_raised(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    claude.says([{"kill": True}])
    reason, _ = await failure(db, retries=1)
    assert reason == "Claude Code was ended by signal 9"
    assert [row.status for row in await db.agents.list()] == ["failed"] * 2
    assert len(claude.runs) == 3, "the session was lost with the crash, so it was begun anew"


# -- ending it -------------------------------------------------------------------------------------


async def test_cancelling_ends_the_process_group_of_one_that_does_not_listen(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    claude.says([{"spawn": 60, "ignore_term": True}, {"sleep": 60}])

    async def script() -> None:
        async with db.run("w") as run:
            await run.claude("go")

    task = asyncio.create_task(script())
    async with asyncio.timeout(20):
        rows = await db.agents.observe().first(has_spoken)
    child = int((rows[0].output or "").split()[-1])
    (told,) = [line["<<"] for line in claude.log if _is_answer(line)]
    program = told["response"]["response"]["pid"]
    assert runs(child) and runs(program) and os.getpgid(child) == os.getpgid(program) == program
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not runs(program) and not runs(child), "nothing of it goes on"
    (row,) = await db.agents.list()
    assert row.status == "cancelled"
    assert (await db.execution.list())[0].status == "interrupted"


async def test_cancelling_the_execution_elsewhere_ends_it(
    db: AsyncSmithersDB, claude: Scripted, path: Path
) -> None:
    claude.says([{"text": "so far"}, {"sleep": 60}])

    async def script() -> None:
        async with db.run("w") as run:
            await run.claude("go")

    task = asyncio.create_task(script())
    async with asyncio.timeout(20):
        (row, *_) = await db.agents.observe().first(has_spoken)
    async with create_async_smithers_db(path) as elsewhere:
        await elsewhere.execution.cancel(row.execution_id or "", "enough")
    with pytest.raises(ExecutionCancelled):
        await task
    assert (await db.execution.list())[0].status == "cancelled"
    assert [agent.status for agent in await db.agents.list()] == ["cancelled"]


async def test_one_whose_row_is_ended_by_somebody_else_stops(
    db: AsyncSmithersDB, claude: Scripted, path: Path
) -> None:
    more: list[Step] = [{"text": "more"}, {"sleep": 0.1}]
    claude.says(more * 300)

    async def cancel() -> None:
        (row, *_) = await db.agents.observe().first(has_spoken)
        await db.agents.cancel(row.id)

    cancelling = asyncio.create_task(cancel())
    with pytest.raises(AgentFailed, match="ended by somebody else: cancelled"):
        await ask(db)
    await cancelling


async def test_one_of_several_that_fails_leaves_the_others_alone(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    claude.says([{"text": "$PROMPT"}])
    async with db.run("w") as run:
        results = await run.parallel(*(run.claude(f"p{n}") for n in range(3)))
    assert [result.output for result in results] == ["p0", "p1", "p2"]


# -- found again -----------------------------------------------------------------------------------


async def test_a_resumed_run_has_the_recorded_result_and_runs_nothing(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    claude.says([DONE], structured_output={"passed": True, "notes": []})
    finished: list[AgentResult] = []

    async def script(*, interrupted: bool) -> AgentResult:
        async with db.run("w") as run:
            result = await run.claude("go", output_type=Verdict, on_finished=finished.append)
            if interrupted:
                raise KeyboardInterrupt
            return result
        raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        await script(interrupted=True)
    result = await script(interrupted=False)
    assert finished == [result], "its own end was recorded, so it was not told again"
    assert len(claude.runs) == 1 and len(await db.agents.list()) == 1


async def test_on_finished_is_told_again_until_it_has_ended_well(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    told: list[str] = []

    async def finish(result: AgentResult) -> None:
        told.append(result.id)
        if len(told) < 3:
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            await ask(db, on_finished=finish)
    await ask(db, on_finished=finish)
    assert len(told) == 3 and len(set(told)) == 1
    assert len(claude.runs) == 1


async def test_one_that_was_cut_off_goes_on_with_its_session(
    db: AsyncSmithersDB, claude: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claude_module, "GRACE", 60)
    claude.says([{"text": "first"}, {"linger": 60}], [{"text": "second"}])
    asking = asyncio.create_task(ask(db))
    # The session has a turn already, and nobody has said yet that this is all.
    await until(lambda: any(_is_result(line) for line in claude.log))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    result = await ask(db)
    assert result.output == "second"
    first, second = await db.agents.list()
    assert (first.status, second.status) == ("cancelled", "completed")
    assert first.session_id == second.session_id
    assert f"--resume={first.session_id}" in claude.runs[1]
    assert first.cost_usd + second.cost_usd == pytest.approx(0.002), "counted once in all"


async def test_a_session_that_is_lost_is_begun_anew(db: AsyncSmithersDB, claude: Scripted) -> None:
    claude.says([{"text": "so far"}, {"sleep": 60}])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3), db.run("w") as run:
            await run.claude("go")
    claude.says([{"text": "$PROMPT"}])
    result = await ask(db)
    assert result.output == "go", "the whole prompt, in a new session"
    first, second = await db.agents.list()
    assert first.session_id and first.session_id != second.session_id
    assert len(claude.runs) == 3


async def test_which_call_it_was_is_told_by_key_or_by_what_was_asked(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    claude.says([{"text": "$PROMPT"}])

    async def script(*, stop: bool) -> list[str]:
        async with db.run("w") as run:
            results = [
                await run.claude("a"),
                await run.claude("a"),
                await run.claude("a", model="opus"),
                await run.claude("b", key="mine") if stop else await run.claude("c", key="mine"),
            ]
            if stop:
                raise KeyboardInterrupt
            return [result.id for result in results]
        raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        await script(stop=True)
    assert await script(stop=False) == [row.id for row in await db.agents.list()]
    assert len(claude.runs) == 4


CRASHING = """
import asyncio, os, signal, sys
from smithers import create_async_smithers_db
async def main():
    async with create_async_smithers_db(sys.argv[1]) as db, db.run("w") as run:
        def die(call):
            if os.environ.get("DIE"):
                os.kill(os.getpid(), signal.SIGKILL)
        result = await run.claude("go", on_tool=die)
        print(run.resumed, result.output)
asyncio.run(main())
"""


def test_a_killed_script_resumes_and_leaves_no_process(
    claude: Scripted, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude.says([{"tool": "Bash", "output": "x"}, {"sleep": 3}, {"text": "all of it"}])
    argv = [sys.executable, "-W", "error", "-c", CRASHING, str(path)]
    monkeypatch.setenv("DIE", "1")
    assert subprocess.run(argv, timeout=50).returncode == -signal.SIGKILL
    if sys.platform == "linux":
        (answer,) = filter(_is_answer, claude.log)
        asyncio.run(until(lambda: not runs(answer["<<"]["response"]["response"]["pid"])))
        assert not any(map(_is_result, claude.log)), "it has not gone on without its script"
    monkeypatch.delenv("DIE")
    done = subprocess.run(argv, timeout=50, capture_output=True, text=True)
    assert done.stdout == "True all of it\n", done.stderr


# -- what is said wrong, or missing ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"prompt": ""}, "the prompt of an agent is not empty"),
        ({"prompt": 3}, "the prompt of an agent is a str"),
        ({"model": ""}, "the model of an agent is not empty"),
        ({"timeout": 0}, "timeout is a number of seconds above 0"),
        ({"retries": -1}, "retries is a whole number"),
        ({"max_turns": 0}, "max_turns is a whole number from 1 on"),
        ({"max_cost_usd": -1}, "max_cost_usd is a number of dollars"),
        ({"max_cost_usd": float("nan")}, "max_cost_usd is a number of dollars"),
        ({"key": ""}, "the key of an agent is not empty"),
        ({"options": {"model": "opus"}}, "options is a ClaudeAgentOptions, not dict"),
        ({"output_type": object()}, "is no type of JSON values"),
    ],
)
async def test_what_is_said_wrong_is_refused_before_anything_is_written(
    db: AsyncSmithersDB, claude: Scripted, arguments: dict[str, Any], why: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=why):
        await ask(db, **arguments)
    assert await db.agents.list() == [] and claude.runs == []


async def test_what_is_said_comes_before_options_which_come_before_defaults(
    db: AsyncSmithersDB, claude: Scripted, tmp_path: Path
) -> None:
    options = ClaudeAgentOptions(model="opus", system_prompt="theirs", max_turns=7, cwd="/")
    async with db.run("w") as run:
        await run.claude("a", options=options)
        said: Any = {"model": "sonnet", "system_prompt": "mine", "max_turns": 2, "cwd": tmp_path}
        await run.claude("b", options=options, **said)
    rows = await db.agents.list()
    assert [(row.model, row.system_prompt) for row in rows] == [
        ("opus", "theirs"),
        ("sonnet", "mine"),
    ]
    turns = [argv[argv.index("--max-turns") + 1] for argv in claude.runs]
    assert turns == ["7", "2"]
    frames = [line["<<"] for line in claude.log if "<<" in line]
    folders = [frame["cwd"] for frame in frames if frame.get("subtype") == "init"]
    assert folders == ["/", str(tmp_path)]
    assert (options.model, options.max_turns, options.resume) == ("opus", 7, None), "as it was"


async def test_a_system_prompt_comes_before_a_preset_of_the_options(
    db: AsyncSmithersDB, claude: Scripted
) -> None:
    preset: Any = {"type": "preset", "preset": "claude_code", "append": "Be brief."}
    options = ClaudeAgentOptions(system_prompt=preset)
    async with db.run("w") as run:
        await run.claude("a", options=options)
        await run.claude("a", options=options, system_prompt="mine")
    rows = await db.agents.list()
    assert [row.system_prompt for row in rows] == ["Be brief.", "mine"]
    first, second = claude.runs
    assert first[first.index("--append-system-prompt") + 1] == "Be brief."
    assert second[second.index("--system-prompt") + 1] == "mine"


async def test_without_the_program_one_error_says_what_to_install(
    db: AsyncSmithersDB, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SMITHERS_CLAUDE_CLI", raising=False)
    with pytest.raises(ClaudeMissing, match=r'not found: pip install "smithers-py\[claude\]"'):
        await ask(db)
    monkeypatch.setenv("SMITHERS_CLAUDE_CLI", "/no/such/claude")
    with pytest.raises(ClaudeMissing, match=r"is not at '/no/such/claude': pip install"):
        await ask(db)
    assert await db.agents.list() == [], "nothing was begun"


async def test_without_the_library_one_error_says_what_to_install(
    db: AsyncSmithersDB, monkeypatch: pytest.MonkeyPatch, claude: Scripted
) -> None:
    def nothing(name: str) -> None:
        return None

    monkeypatch.setattr(claude_module, "find_spec", nothing)
    with pytest.raises(ClaudeMissing, match=r'pip install "smithers-py\[claude\]"'):
        await ask(db)
    assert await db.agents.list() == []


def _is_answer(line: dict[str, Any]) -> bool:
    frame: dict[str, Any] = line.get("<<") or {}
    return frame.get("type") == "control_response"


def _is_beginning(line: dict[str, Any]) -> bool:
    told = line.get(">>")
    return isinstance(told, dict) and "initialize" in str(cast("dict[str, Any]", told))


def _is_result(line: dict[str, Any]) -> bool:
    frame: dict[str, Any] = line.get("<<") or {}
    return frame.get("type") == "result"
