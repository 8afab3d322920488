"""The scripted Claude Code speaks as the real one does: its library, unmodified, understands it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIJSONDecodeError,
    HookMatcher,
    Message,
    PermissionResultAllow,
    PermissionResultDeny,
    ProcessError,
    ResultError,
    ResultMessage,
    StreamEvent,
    ToolPermissionContext,
    ToolResultBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

from tests.scripted import Scripted

pytestmark = pytest.mark.usefixtures("collected")


async def run(prompt: str = "go", **options: Any) -> list[Any]:
    """Ask once; return the messages, and the error that ended them."""
    found: list[Any] = []
    made = ClaudeAgentOptions(cli_path=os.environ["SMITHERS_CLAUDE_CLI"], **options)
    messages = cast("AsyncGenerator[Message]", query(prompt=prompt, options=made))
    try:
        async with asyncio.timeout(30), aclosing(messages):
            async for message in messages:
                found.append(message)
    except Exception as error:
        found.append(error)
    return found


def kinds(messages: list[Any]) -> list[str]:
    return [type(message).__name__ for message in messages]


async def test_it_answers(claude: Scripted) -> None:
    messages = await run("hello")
    assert kinds(messages) == ["SystemMessage", "AssistantMessage", "ResultMessage"]
    result = messages[-1]
    assert (result.result, result.usage["input_tokens"]) == ("You said: hello", 100)
    assert result.total_cost_usd == pytest.approx(0.001)


async def test_parts_of_one_message_have_one_id_and_one_usage(claude: Scripted) -> None:
    bash = {"tool": "Bash", "input": {"command": "echo hi"}, "output": "hi"}
    read = {"tool": "Read", "output": "no such file", "error": True}
    claude.says([{"group": [{"text": "Running."}, bash]}, read, {"text": "done"}])
    messages = await run()
    said = [one for one in messages if isinstance(one, AssistantMessage)]
    assert len(said) == 4
    assert (said[0].message_id, said[0].usage) == (said[1].message_id, said[1].usage)
    blocks = [b for one in messages if isinstance(one, UserMessage) for b in one.content]
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    assert [(r.content, r.is_error) for r in results] == [("hi", False), ("no such file", True)]
    assert messages[-1].usage["input_tokens"] == 300, "three messages, in four frames"


async def test_hooks_and_permissions_are_asked_of_the_host(claude: Scripted) -> None:
    seen: list[tuple[str, Any]] = []

    async def hook(event: Any, id: str | None, context: Any) -> Any:
        seen.append((event["hook_event_name"], event.get("tool_input")))
        return {}

    async def permit(name: str, asked: dict[str, Any], _: ToolPermissionContext) -> Any:
        if asked["command"] == "rm":
            return PermissionResultDeny(message="never")
        return PermissionResultAllow(updated_input={"command": "echo safe"})

    events: Any = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "UserPromptSubmit")
    hooks = {event: [HookMatcher(hooks=[hook])] for event in events}
    step = {"tool": "Bash", "input": {"command": "echo"}, "output": "", "ask": True}
    claude.says([step, {**step, "input": {"command": "rm"}}, {**step, "ask": False, "error": True}])
    messages = await run(hooks=hooks, can_use_tool=permit)
    assert seen == [
        ("UserPromptSubmit", None),
        ("PreToolUse", {"command": "echo"}),
        ("PostToolUse", {"command": "echo safe"}),
        ("PreToolUse", {"command": "rm"}),
        ("PreToolUse", {"command": "echo"}),
        ("PostToolUseFailure", {"command": "echo"}),
        ("Stop", None),
    ]
    assert [denial["tool_input"] for denial in messages[-1].permission_denials] == [
        {"command": "rm"}
    ]


async def test_a_hook_denies_a_tool(claude: Scripted) -> None:
    async def deny(event: Any, id: str | None, context: Any) -> Any:
        decision = {"permissionDecision": "deny", "permissionDecisionReason": "no rm"}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}

    claude.says([{"tool": "Bash", "output": "gone"}, {"tool": "Read", "output": "kept"}])
    messages = await run(hooks={"PreToolUse": [HookMatcher("Bash", [deny])]})
    assert [denial["tool_name"] for denial in messages[-1].permission_denials] == ["Bash"]


async def test_a_tool_of_the_host_is_called(claude: Scripted) -> None:
    @tool("add", "adds", {"a": int, "b": int})
    async def add(numbers: Any) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(numbers["a"] + numbers["b"])}]}

    claude.says([{"mcp": "calc", "tool": "add", "args": {"a": 1, "b": 2}}])
    messages = await run(mcp_servers={"calc": create_sdk_mcp_server("calc", tools=[add])})
    (block,) = [b for one in messages if isinstance(one, UserMessage) for b in one.content]
    assert isinstance(block, ToolResultBlock) and block.content == [{"type": "text", "text": "3"}]


@pytest.mark.parametrize("background", [False, True])
async def test_an_agent_below_may_outlive_the_result(claude: Scripted, background: bool) -> None:
    steps = [{"tool": "Grep", "output": "x"}, {"text": "sub"}]
    below = {"agent": "general-purpose", "prompt": "p", "background": background, "steps": steps}
    claude.says([below, {"text": "top"}])
    messages = await run()
    names = kinds(messages)
    assert {"TaskStartedMessage", "TaskProgressMessage", "TaskUpdatedMessage"} <= set(names)
    assert len([one for one in messages if getattr(one, "parent_tool_use_id", None)]) == 3
    ended = names.index("TaskNotificationMessage")
    assert (names.index("ResultMessage") < ended) is background


async def test_totals_go_on_in_a_session_that_is_resumed_or_forked(claude: Scripted) -> None:
    claude.says([{"text": "one"}], [{"text": "two"}], [{"text": "three"}])
    first = (await run())[-1]
    again = (await run(resume=first.session_id))[-1]
    forked = (await run(resume=first.session_id, fork_session=True))[-1]
    assert [first.result, again.result, forked.result] == ["one", "two", "three"]
    assert again.session_id == first.session_id != forked.session_id
    costs = [one.total_cost_usd for one in (first, again, forked)]
    assert costs == pytest.approx([0.001, 0.002, 0.003])
    *_, error = await run(resume="00000000-0000-4000-8000-000000000000")
    assert isinstance(error, ResultError) and "No conversation found" in str(error)


async def test_it_fails_and_crashes_as_told(claude: Scripted) -> None:
    claude.says([{"fail": "error_max_turns", "errors": ["too many"], "terminal_reason": "max"}])
    *_, result, error = await run()
    assert isinstance(result, ResultMessage) and isinstance(error, ResultError)
    assert (error.terminal_reason, error.errors) == ("max", ["too many"])
    claude.says([{"api_error": 529, "message": "Overloaded"}])
    *_, result, error = await run()
    assert (error.api_error_status, result.subtype, result.is_error) == (529, "success", True)
    for step, code in (({"exit": 3}, 3), ({"kill": True}, -9)):
        claude.says([{"text": "a"}, step])
        error = (await run())[-1]
        assert isinstance(error, ProcessError) and error.exit_code == code
    claude.says([{"raw": '{"type":"assis'}, {"exit": 0}])
    assert kinds(await run()) == ["SystemMessage"], "cut off, and no word of it"
    claude.says([{"raw": '{"type":"assis\n'}, {"text": "b"}])
    assert isinstance((await run())[-1], CLIJSONDecodeError)
    claude.says([{"raw": "noise\n"}, {"frame": {"type": "brand_new"}}, {"text": "b"}])
    assert (await run())[-1].result == "b"
    claude.says([{"big": 2_000_000}])
    assert isinstance((await run())[-1], CLIJSONDecodeError)
    assert len((await run(max_buffer_size=64 << 20))[-1].result) == 2_000_000


async def test_pieces_come_before_the_whole(claude: Scripted) -> None:
    claude.says([{"text": "hello world, in pieces"}])
    events = [
        one for one in await run(include_partial_messages=True) if isinstance(one, StreamEvent)
    ]
    deltas = [one.event["delta"] for one in events if one.event["type"] == "content_block_delta"]
    assert "".join(delta["text"] for delta in deltas) == "hello world, in pieces"


async def test_a_turn_is_interrupted_and_the_next_one_taken(claude: Scripted) -> None:
    claude.says([{"text": "slow"}, {"sleep": 20}], [{"text": "two"}])
    options = ClaudeAgentOptions(cli_path=claude.cli)
    first: Any = None
    second: Any = None
    async with asyncio.timeout(20), ClaudeSDKClient(options) as client:
        await client.query("a")
        async for message in client.receive_response():
            if isinstance(message, AssistantMessage):
                await client.interrupt()
            first = message
        await client.query("b")
        second = [message async for message in client.receive_response()][-1]
    assert (first.terminal_reason, second.result) == ("aborted_streaming", "two")


async def test_structured_output_comes_where_there_is_a_schema(claude: Scripted) -> None:
    claude.says([{"text": "ok"}], structured_output={"ok": True})
    schema = {"type": "json_schema", "schema": {"type": "object"}}
    assert (await run(output_format=schema))[-1].structured_output == {"ok": True}
    assert (await run())[-1].structured_output is None


async def test_what_it_was_told_is_in_its_log(claude: Scripted) -> None:
    await run("x", model="opus", system_prompt="be brief", max_turns=3)
    (argv,) = claude.runs
    assert argv[:3] == ["--output-format", "stream-json", "--verbose"]
    assert argv[argv.index("--model") + 1] == "opus"
    told = [line[">>"] for line in claude.log if ">>" in line]
    assert told[0]["request"]["subtype"] == "initialize" and told[-1] == "EOF"
    assert claude.prompts == ["x"]


def test_it_answers_on_the_command_line(claude: Scripted) -> None:
    done = subprocess.run([claude.cli, "-p", "hello"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and '"result":"You said: hello"' in done.stdout
    version = subprocess.run([claude.cli, "-v"], capture_output=True, text=True)
    assert "(Claude Code)" in version.stdout
