"""The tools as a running agent has them: served in this process, in the name of the agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from reactive_sqlite.worker import Worker
from smithers import SmithersDB, create_smithers_db
from smithers.runtime.host import Host
from smithers.runtime.mcp import SERVER, state_tools, tool_names


@pytest.fixture
def db(made: Path) -> Iterator[SmithersDB]:
    with create_smithers_db(made) as opened:
        yield opened


@pytest.fixture
def host(db: SmithersDB) -> Iterator[Host]:
    worker = Worker("tools")
    yield Host(db, worker)
    worker.close()


async def called(client: Client, name: str, **arguments: Any) -> Any:
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert content.type == "text"
    assert not result.is_error, content.text
    return json.loads(content.text)


async def test_what_an_agent_writes_carries_its_id_that_of_its_execution_and_mcp(
    db: SmithersDB, host: Host
) -> None:
    execution = db.execution.start("Feature")
    agent = db.agents.start("Set the phase.", "opus")
    config = state_tools(host)
    assert (config["type"], config["name"]) == ("sdk", SERVER)
    db.agents.start("Another one, which runs where the tools are called.", "opus")
    async with Client(config["instance"]) as client:
        await called(client, "state_set", key="phase", value="done")
        await called(client, "memory_add", category="fact", key="api", content="at /v2")
        assert (await called(client, "state_get", key="phase"))["value"] == "done"
    (transition,) = db.state.history()
    assert transition.trigger == "mcp"
    assert (transition.execution_id, transition.agent_id) == (execution, agent)
    memory = db.memories.get("fact", "api")
    assert memory is not None and memory.source == "mcp"


async def test_calls_of_two_agents_at_once_are_told_apart(db: SmithersDB, host: Host) -> None:
    db.execution.start("Feature")

    async def agent(name: str) -> str:
        id = db.agents.start(name, "opus")
        async with Client(state_tools(host)["instance"]) as client:
            for number in range(5):
                await called(client, "state_set", key=name, value=number)
        return id

    ids = await asyncio.gather(agent("one"), agent("two"))
    for name, id in zip(("one", "two"), ids, strict=True):
        assert {t.agent_id for t in db.state.history(name)} == {id}


async def test_only_what_is_allowed_is_listed_and_can_be_called(db: SmithersDB, host: Host) -> None:
    reading = ["state_get", "state_history", "memory_search"]
    assert tool_names(allow_write=False) == [f"mcp__smithers__{name}" for name in reading]
    async with Client(state_tools(host, allow_write=False)["instance"]) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == reading
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed)
        refused = await client.call_tool("state_set", {"key": "k", "value": 1})
        assert refused.is_error
    async with Client(state_tools(host)["instance"]) as client:
        listed = (await client.list_tools()).tools
        assert [f"mcp__smithers__{tool.name}" for tool in listed] == tool_names()
    assert db.state.keys() == []


async def test_what_goes_wrong_is_an_error_of_the_tool(db: SmithersDB, host: Host) -> None:
    async with Client(state_tools(host)["instance"]) as client:
        for name, arguments in (
            ("state_set", {"key": "", "value": 1}),
            ("state_get", {"limit": "many"}),
            ("nothing", {}),
        ):
            result = await client.call_tool(name, arguments)
            assert result.is_error and "Traceback" not in str(result.content)
        db.close()
        result = await client.call_tool("state_get", {})
        assert result.is_error
        assert "closed" in str(result.content)


async def test_an_agent_of_an_execution_that_was_taken_over_can_write_no_more(
    db: SmithersDB, host: Host, path: Path
) -> None:
    execution = db.execution.start("Feature")
    db.agents.start("Set the phase.", "opus")
    db.query("DELETE FROM _smithers_leases", write=True)
    with create_smithers_db(path) as elsewhere:
        elsewhere.execution.resume(execution)
        async with Client(state_tools(host)["instance"]) as client:
            result = await client.call_tool("state_set", {"key": "phase", "value": 1})
            assert result.is_error and "no longer owned by this run" in str(result.content)
            assert not (await client.call_tool("state_get", {})).is_error
        assert elsewhere.state.keys() == []
