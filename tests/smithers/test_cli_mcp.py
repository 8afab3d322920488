"""`smithers mcp` in a process of its own: by the official client, and by one that means ill."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from smithers import SmithersDB
from tests.recorder import Recorder
from tests.smithers.commandline import Run, environment, in_process
from tests.smithers.hostile import contents

READING = ["state_get", "state_history", "memory_search"]
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
Begin = Callable[..., subprocess.Popen[str]]


@asynccontextmanager
async def session(path: Path, *args: str) -> AsyncGenerator[ClientSession]:
    """Serve a database in a process of its own to the official client."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "smithers", "mcp", "--path", str(path), *args],
        env=environment(),
    )
    async with stdio_client(server) as streams, ClientSession(*streams) as opened:
        await opened.initialize()
        yield opened


async def told(opened: ClientSession, name: str, **arguments: Any) -> tuple[str, bool]:
    """Call a tool; return its text, and whether it is an error."""
    result = await opened.call_tool(name, arguments)
    (content,) = result.content
    assert content.type == "text"
    return content.text, bool(result.is_error)


async def called(opened: ClientSession, name: str, **arguments: Any) -> Any:
    text, is_error = await told(opened, name, **arguments)
    assert not is_error, text
    return json.loads(text)


@pytest.fixture
def begin(path: Path) -> Iterator[Begin]:
    """Begin a server whose pipes are ours."""
    begun: list[subprocess.Popen[str]] = []

    def start(*args: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "smithers", "mcp", "--path", str(path), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        begun.append(process)
        return process

    yield start
    for process in begun:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):  # what was not read any more
                pipe.close()


def exchanged(process: subprocess.Popen[str], *messages: dict[str, Any] | str) -> Any:
    """Write lines, and return the next answer to the id of the last one."""
    assert process.stdin is not None and process.stdout is not None
    for message in messages:
        line = message if isinstance(message, str) else json.dumps(message)
        process.stdin.write(line + "\n")
    process.stdin.flush()
    last = messages[-1]
    assert isinstance(last, dict)
    while True:
        line = process.stdout.readline()
        assert line, "it has ended"
        answer = json.loads(line)
        if answer.get("id") == last["id"]:
            return answer


def call(number: int, name: str, arguments: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    }


# -- by the official client ----------------------------------------------------------------------


async def test_reading_is_all_there_is_unless_writing_is_allowed(
    db: SmithersDB, path: Path
) -> None:
    db.state.set("phase", "review", "implemented")
    db.memories.add_fact("api", "The API is at /v2")
    before = contents(db)
    async with session(path) as opened:
        tools = (await opened.list_tools()).tools
        assert [tool.name for tool in tools] == READING
        for tool in tools:
            assert tool.annotations is not None and tool.annotations.read_only_hint
            assert tool.description and tool.input_schema["type"] == "object"
        assert (await called(opened, "state_get", key="phase"))["value"] == "review"
        (row,) = (await called(opened, "state_history"))["history"]
        assert (row["id"], row["trigger"]) == ("t1", "implemented")
        (memory,) = (await called(opened, "memory_search", query="api"))["memories"]
        assert memory["content"] == "The API is at /v2"
        for name in ("state_set", "memory_add"):
            assert await told(opened, name, key="k", value=1) == (
                f"{name} is not offered: here the database is for reading only",
                True,
            )
    assert contents(db) == before


async def test_with_allow_write_a_workflow_sees_at_once_what_is_set(
    db: SmithersDB, path: Path
) -> None:
    seen = Recorder[Any]()
    db.state.observe("phase").subscribe(seen)
    async with session(path, "--allow-write") as opened:
        tools = {tool.name: tool.annotations for tool in (await opened.list_tools()).tools}
        assert sorted(tools) == sorted([*READING, "state_set", "memory_add"])
        annotations = tools["state_set"]
        assert annotations is not None and annotations.read_only_hint is False
        await called(opened, "state_set", key="phase", value={"name": "done"})
        await asyncio.to_thread(seen.wait_for, lambda value: value == {"name": "done"})
        await called(opened, "memory_add", category="fact", key="api", content="at /v2")
        db.state.set("phase", 5)
        assert (await called(opened, "state_get", key="phase"))["value"] == 5
    (first, _) = db.state.history("phase")
    assert (first.value, first.trigger, first.agent_id) == ({"name": "done"}, "mcp", None)
    assert db.memories.search("v2")[0].key == "api"
    assert seen.last == 5


async def test_what_goes_wrong_is_an_error_of_the_tool_and_the_server_goes_on(
    db: SmithersDB, path: Path
) -> None:
    async with session(path, "--allow-write") as opened:
        for name, arguments, said in (
            ("nothing", {}, "there is no tool 'nothing'"),
            ("state_get", {"key": ""}, "a key is not empty"),
            ("state_get", {"unknown": 1}, "state_get takes no argument 'unknown'"),
            ("state_set", {"key": "k"}, "state_set needs the argument 'value'"),
            ("state_history", {"since": "x\ny"}, "there is no transition 'x\\ny'"),
        ):
            text, is_error = await told(opened, name, **arguments)
            assert is_error and text.startswith(said)
        assert await called(opened, "state_get") == {"state": [], "left_out": 0}


async def test_large_values_go_both_ways(db: SmithersDB, path: Path) -> None:
    value = ["漢\u2028\x00🙂" * 1000] * 50
    async with session(path, "--allow-write") as opened:
        await called(opened, "state_set", key="large", value=value)
        assert db.state.get("large") == value
        got = await called(opened, "state_get", key="large")
        assert len(got["value_beginning"]) == 20_000
        whole = await called(opened, "state_get", key="large", max_characters=1_000_000)
        assert whole["value"] == value


async def test_a_database_that_is_locked_is_an_error_of_the_tool(
    db: SmithersDB, path: Path
) -> None:
    async with session(path, "--allow-write") as opened:
        with db.transaction():
            db.state.set("k", 1)
            text, is_error = await told(opened, "state_set", key="k", value=2)
            assert is_error and "locked" in text
            assert (await called(opened, "state_get", key="k"))["present"] is False
        await called(opened, "state_set", key="k", value=3)
    assert db.state.get("k") == 3


# -- by others -----------------------------------------------------------------------------------


def test_hostile_lines_neither_end_it_nor_reach_the_database(db: SmithersDB, begin: Begin) -> None:
    before = contents(db)
    process = begin("--allow-write")
    answer = exchanged(
        process,
        "no json at all",
        "",
        "[]",
        "5",
        '{"jsonrpc": "2.0"}',
        '{"jsonrpc": "2.0", "id": 7, "method": "no/such/method"}',
        '{"jsonrpc": "2.0", "id": {"a": 1}, "method": "tools/call"}',
        "[" * 100_000,
        "\x1b[31m \ufffd",
        HELLO,
    )
    assert answer["result"]["serverInfo"]["name"] == "smithers"
    for number, arguments in enumerate((5, "text", [1]), 10):
        assert "error" in exchanged(process, call(number, "state_get", arguments))
    for depth in (150, 199, 250, 400, 900):
        value = json.loads("[" * depth + "]" * depth)
        answer = exchanged(process, call(depth, "state_set", {"key": 5, "value": value}))
        assert answer["result"]["isError"], "it is answered, be it too deep or not"
    deep = "[" * 5_000 + "]" * 5_000
    line = json.dumps(call(20, "state_set", {"key": "deep", "value": "DEEP"}))
    answer = exchanged(process, line.replace('"DEEP"', deep), call(21, "state_get", {}))
    assert answer["result"]["isError"] is False
    long = exchanged(process, call(22, "x" * 2_000_000, {}))
    assert long["result"]["isError"] and len(long["result"]["content"][0]["text"]) < 1_000
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(timeout=30) == 0
    assert contents(db) == before


def test_closing_stdin_ends_the_process(db: SmithersDB, begin: Begin) -> None:
    process = begin()
    exchanged(process, HELLO)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")


def test_a_reader_that_has_gone_ends_the_process(db: SmithersDB, begin: Begin) -> None:
    process = begin()
    exchanged(process, HELLO)
    assert process.stdout is not None and process.stdin is not None and process.stderr is not None
    process.stdout.close()
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}) + "\n")
    process.stdin.flush()
    assert process.wait(timeout=30) == 0
    assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_at_once_and_quietly(
    db: SmithersDB, begin: Begin, number: signal.Signals
) -> None:
    process = begin("--allow-write")
    exchanged(process, HELLO)
    exchanged(process, call(2, "state_set", {"key": "k", "value": 1}))
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (-number, "", "")
    assert db.state.get("k") == 1
    assert [finding for finding in db.check() if finding.level == "error"] == []


# -- how it begins -------------------------------------------------------------------------------


def test_a_database_that_is_not_there_is_told_in_a_line(smithers: Run, tmp_path: Path) -> None:
    for args in ([], ["--allow-write"]):
        failed = smithers("mcp", "--path", str(tmp_path / "absent"), *args)
        assert (failed.code, failed.out, failed.err.count("\n")) == (1, "", 1)
        assert "there is no database" in failed.err
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_one_line_says_what_to_install(
    smithers: Run, db: SmithersDB, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    before = signal.getsignal(signal.SIGINT)
    failed = smithers("mcp", "--path", str(path))
    assert (failed.code, failed.out) == (1, "")
    assert failed.err == (
        'Error: this needs the official package mcp, 2.0 or newer: pip install "smithers-py[mcp]"\n'
    )
    assert signal.getsignal(signal.SIGINT) is before


def test_its_help_is_there_without_the_package(db: SmithersDB) -> None:
    shown = in_process("mcp", "--help")
    assert shown.code == 0 and "state_set and memory_add" in " ".join(shown.out.split())


def test_on_a_terminal_it_says_what_it_waits_for(db: SmithersDB, path: Path) -> None:
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "smithers", "mcp", "--path", str(path)],
        stdin=its,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    os.close(its)
    assert process.stderr is not None
    with process:
        line = process.stderr.readline()
        assert line == f"serving {db.path} to an MCP client on stdin; Ctrl-C ends\n"
        os.close(ours)  # the terminal is closed
        assert process.wait(timeout=30) == 0
        assert process.stderr.read() == ""
