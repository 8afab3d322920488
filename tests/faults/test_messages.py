"""Whatever comes through a pipe, from a client or an agent: answered or passed over, and no end."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from smithers import AgentFailed, CommandRunner, create_async_smithers_db, create_smithers_db
from tests.scripted import Scripted
from tests.smithers.commandline import environment
from tests.smithers.hostile import HOSTILE, contents

HELLO = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
METHODS = (
    *("tools/call", "tools/list", "ping", "initialize", "resources/read", "prompts/get"),
    *("notifications/cancelled", "notifications/initialized", "no/such", "", "\0", *HOSTILE[:5]),
)
TOOLS = ("state_get", "state_history", "memory_search", "state_set", "memory_add", "nothing", "")
NAMES = ("key", "limit", "since", "query", "max_characters", "value", "content", "category", "x")
STRANGE: tuple[Any, ...] = (
    *HOSTILE[:11],
    *(None, True, -1, 0, 2**63, 10**400, 1e308, "", [], {}, [[[]]], {"a": {"b": []}}, "x" * 10_000),
    *("nul \0 inside", "lone \ud800 surrogate", "t1", "phase"),
)
SHORT, LONG = 100, 10_000


def message(chance: random.Random) -> bytes:
    """Make a line that a client might send which means ill, or is broken."""
    asked: dict[str, Any] = {
        "jsonrpc": chance.choice(["2.0", "2.0", "2.0", "1.0", 2, None]),
        "id": chance.choice([chance.randrange(10**9), *STRANGE]),
        "method": chance.choice(METHODS),
        "params": {
            "name": chance.choice(TOOLS),
            "arguments": {
                chance.choice(NAMES): chance.choice(STRANGE) for _ in range(chance.randrange(4))
            },
        },
    }
    if chance.random() < 0.1:
        asked["params"]["arguments"] = chance.choice(STRANGE)
    if chance.random() < 0.2:
        asked["params"] = chance.choice(STRANGE)
    if chance.random() < 0.1:
        del asked[chance.choice(list(asked))]
    line = json.dumps(asked).encode()
    how = chance.random()
    if how < 0.1:
        return line[: chance.randrange(len(line))]
    if how < 0.2:
        at = chance.randrange(len(line))
        return line[:at] + chance.randbytes(4).replace(b"\n", b"\0") + line[at:]
    if how < 0.25:
        return chance.randbytes(chance.choice([1, 100, 10_000])).replace(b"\n", b"")
    if how < 0.27:
        return b"[" + b",".join([line] * 3) + b"]"
    return line


@contextmanager
def served(path: Path) -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "smithers", "mcp", "--path", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


def talked(path: Path, rounds: int) -> tuple[int, int]:
    """Send so many lines, and then ask something; return how many answers came, and of what."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    lines = [message(chance) for _ in range(rounds)]
    lines += [b"x" * 5_000_000, b"[" * 1_000_000, b"\xff\xfe" * 1_000, b""]
    answers = errors = 0
    with served(path) as process:
        assert process.stdin is not None and process.stdout is not None
        writing = process.stdin

        def write() -> None:
            with suppress(BrokenPipeError):
                writing.write(json.dumps(HELLO).encode() + b"\n")
                writing.write(b"\n".join(lines) + b"\n")
                last = {"jsonrpc": "2.0", "id": "the last", "method": "ping"}
                writing.write(json.dumps(last).encode() + b"\n")
                writing.flush()

        writer = threading.Thread(target=write)
        writer.start()
        while True:
            line = process.stdout.readline()
            assert line, f"it has ended in the midst of seed {seed}"
            answer = json.loads(line)
            answers += 1
            errors += "error" in answer
            if answer.get("id") == "the last":
                break
        writer.join()
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0, (seed, err)
        assert b"Traceback" not in err, (seed, err[-2_000:])
    return answers, errors


def hostile_talk(path: Path, rounds: int) -> tuple[int, int]:
    with create_smithers_db(path, watch=False) as db:
        db.state.set("phase", "plan")
        before = contents(db)
        came = talked(path, rounds)
        assert contents(db) == before
        assert [finding for finding in db.check() if finding.level == "error"] == []
    return came


def test_whatever_a_client_sends_the_server_goes_on_and_writes_nothing(tmp_path: Path) -> None:
    answers, errors = hostile_talk(tmp_path / "workflow", SHORT)
    assert answers > errors > 0


@pytest.mark.soak
@pytest.mark.timeout(200)
def test_whatever_thousands_of_messages_say_the_server_goes_on(tmp_path: Path) -> None:
    answers, errors = hostile_talk(tmp_path / "workflow", LONG)
    print(f"\n{LONG} hostile messages: {answers} answers, {errors} of them errors")


# -- what agents say -------------------------------------------------------------------------------

GARBAGE = """
import random, sys
chance = random.Random(int(sys.argv[1]))
out = sys.stdout.buffer
for _ in range(200):
    out.write(chance.choice([
        chance.randbytes(100), b"\\0" * 100, b"\\n", b"\\xed\\xa0\\x80", b"x" * 10_000,
        b'{"type":"result"}\\n', "\\u202e\\u2028".encode(), b"\\x1b[2J",
    ]))
out.flush()
"""


async def test_whatever_a_command_prints_is_its_output_as_text(tmp_path: Path) -> None:
    async with create_async_smithers_db(tmp_path) as db, db.run("work") as run:
        for seed in range(3):
            runner = CommandRunner([sys.executable, "-c", GARBAGE, str(seed)])
            result = await run.agent(runner, "Why?")
            kept = await db.agents.get(result.id)
            assert kept is not None and kept.output == result.output
            assert len(result.output) > 10_000
        assert [found for found in await db.check() if found.level == "error"] == []


LINES: tuple[Any, ...] = (
    *("no json", "", "{", "[" * 10_000, "null", "5", "[]", "{}", '{"type": 5}', "\x00", "\ufffd"),
    *('{"type": "assistant"}', '{"type": "assistant", "message": {"content": 5}}'),
    *('{"type": "user", "message": []}', '{"type": "result"}', '{"type": "system"}'),
    *('{"type": "assistant", "message": {"model": 5, "content": [{"type": "tool_use"}]}}',),
    *('{"type": "result", "subtype": "success", "usage": {"input_tokens": -1}}',),
    *('{"type": "result", "total_cost_usd": "NaN", "num_turns": 1e400}',),
)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(0, len(LINES), 5))
async def test_whatever_claude_prints_is_a_result_or_a_failed_agent(
    tmp_path: Path, claude: Scripted, collected: None, number: int
) -> None:
    printed = tmp_path / "printed"
    printed.write_text("".join(f"{line}\n" for line in LINES[number : number + 5]), "utf-8")
    claude.cli.write_text(f"#!/bin/sh\nread first\ncat '{printed}'\n", encoding="utf-8")
    async with create_async_smithers_db(tmp_path / "workflow") as db, db.run("work") as run:
        with pytest.raises(AgentFailed) as caught:
            await run.claude("Why?", timeout=5)
        assert len(str(caught.value)) < 5_000
        (agent,) = await db.agents.list()
        assert (agent.status, agent.completed_at is not None) == ("failed", True)
        assert [found for found in await db.check() if found.level == "error"] == []
