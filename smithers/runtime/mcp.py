"""The tools of `toolbox` in the Model Context Protocol: for a running agent, and on stdio."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, cast

from smithers.errors import SmithersError
from smithers.runtime.host import Host
from smithers.runtime.lines import lines_of, readable
from smithers.runtime.tool import Tool
from smithers.runtime.toolbox import Answer, answer, offered

if TYPE_CHECKING:
    from anyio import AsyncFile
    from claude_agent_sdk import ClaudeAgentOptions, McpSdkServerConfig, SdkMcpTool
    from mcp.server import Server, ServerRequestContext
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        PaginatedRequestParams,
    )

SERVER = "smithers"
_MISSING = 'this needs the official package mcp, 2.0 or newer: pip install "smithers-py[mcp]"'


def offer(options: ClaudeAgentOptions, host: Host) -> None:
    """Add the tools to those of an agent, unless it has a server of that name.

    Their use is allowed, unless a callback of the caller decides that.
    """
    servers = options.mcp_servers
    if not isinstance(servers, dict) or SERVER in servers:
        return  # the path of a configuration goes to the program as it is
    options.mcp_servers = {**servers, SERVER: state_tools(host)}
    if options.can_use_tool is None:
        options.allowed_tools = [*options.allowed_tools, *tool_names()]


def state_tools(host: Host, *, allow_write: bool = True) -> McpSdkServerConfig:
    """Offer the tools to an agent of this process: a value of `options.mcp_servers`.

    What they write carries what runs where this is called (the execution, and the agent), since
    the SDK calls them from tasks of its own. Needs claude-agent-sdk.

    >>> options = ClaudeAgentOptions(mcp_servers={SERVER: state_tools(host)})
    """
    from claude_agent_sdk import create_sdk_mcp_server

    here = contextvars.copy_context()

    def handler(name: str) -> Callable[[Any], Awaitable[dict[str, Any]]]:
        async def handle(arguments: Any) -> dict[str, Any]:
            called = _call(host, name, arguments, allow_write=allow_write)
            told = await asyncio.get_running_loop().create_task(called, context=here.copy())
            return {"content": [{"type": "text", "text": told.text}], "is_error": told.is_error}

        return handle

    tools = [_of_sdk(tool, handler(tool.name)) for tool in offered(allow_write=allow_write)]
    return create_sdk_mcp_server(SERVER, _version(), tools)


def tool_names(*, allow_write: bool = True) -> list[str]:
    """List the names under which an agent knows the tools, to allow it their use."""
    return [f"mcp__{SERVER}__{tool.name}" for tool in offered(allow_write=allow_write)]


async def serve(host: Host, *, allow_write: bool) -> None:
    """Serve the tools on stdin and stdout, until stdin is closed or nobody reads stdout.

    Raises SmithersError where the package `mcp` is missing.
    """
    server = _server(host, allow_write=allow_write)
    from mcp.server.stdio import stdio_server

    # The library would read in a thread that holds the process up until the next line comes.
    lines = cast("AsyncFile[str]", readable(lines_of(sys.stdin.fileno())))
    try:
        async with stdio_server(stdin=lines) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    except* BrokenPipeError:
        pass  # the client has gone, and this is how it is noticed


def _server(host: Host, *, allow_write: bool) -> Server[Any]:
    try:
        import mcp_types as types
        from mcp.server import Server
    except ImportError as error:
        raise SmithersError(_MISSING) from error

    tools = [
        types.Tool(
            name=tool.name,
            description=tool.description,
            input_schema=tool.schema,
            annotations=types.ToolAnnotations(
                read_only_hint=not tool.writes,
                # A state that was replaced is in the history; a memory that was is not.
                destructive_hint=tool.name == "memory_add",
                idempotent_hint=True,
                open_world_hint=False,
            ),
        )
        for tool in offered(allow_write=allow_write)
    ]

    async def list_tools(
        _: ServerRequestContext[Any], __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        _: ServerRequestContext[Any], asked: CallToolRequestParams
    ) -> CallToolResult:
        told = await _call(host, asked.name, asked.arguments, allow_write=allow_write)
        content = types.TextContent(type="text", text=told.text)
        return types.CallToolResult(content=[content], is_error=told.is_error)

    return Server(
        SERVER,
        version=_version(),
        instructions="The state and the memories of a smithers workflow"
        + ("." if allow_write else ", for reading only."),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _version() -> str:
    try:
        return version("smithers-py")
    except PackageNotFoundError:
        return "unknown"  # run from its sources, not installed


async def _call(host: Host, name: str, arguments: object, *, allow_write: bool) -> Answer:
    return await host.call(lambda db: answer(db, name, arguments, allow_write=allow_write))


def _of_sdk(tool: Tool, handler: Callable[[Any], Awaitable[dict[str, Any]]]) -> SdkMcpTool[Any]:
    from claude_agent_sdk import SdkMcpTool, ToolAnnotations

    return SdkMcpTool(
        tool.name,
        tool.description,
        tool.schema,
        handler,
        ToolAnnotations(readOnlyHint=not tool.writes),
    )
