"""Tool calls of agents, with input and output of any size."""

from __future__ import annotations

import builtins
from typing import Any

from reactive_sqlite.arguments import shown
from reactive_sqlite.observation import ObservableQuery
from smithers.clock import to_text
from smithers.codec import check_text, decode, encode
from smithers.errors import NotFound
from smithers.failure import error_text
from smithers.ids import new_id
from smithers.parents import parents
from smithers.records import ToolCall
from smithers.rows import Rows, check_id, json_or_none, moment, moment_or_none
from smithers.workspace import Workspace

# Bytes of UTF-8; listings leave out what is larger.
LISTED_OUTPUT = 65_536

_COLUMNS = """id, agent_id, execution_id, name, input, {output}, output_is_json, output_size,
    summary, status, error, started_at, completed_at, duration_ms"""
_WHOLE = _COLUMNS.format(output="output")
# SQLite does not read the pages of a column that is not asked for.
_LISTED = _COLUMNS.format(output=f"CASE WHEN output_size <= {LISTED_OUTPUT} THEN output END")
_OUTPUT = "SELECT output, output_is_json FROM tool_calls WHERE id = ?"


class Tools:
    """The tool calls of agents.

    Unknown ids raise NotFound, ended rows InvalidStatus, a run that has lost the execution
    OwnershipLost, and nothing is written then.

    >>> id = db.tools.start(agent_id, "Edit", {"file": "src/main.py"})
    >>> db.tools.complete(id, "File edited", "Edited src/main.py: added 15 lines")
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._rows = Rows(workspace, "tool call", "tool_calls", _WHOLE, _tool_call)
        self._listed = Rows(workspace, "tool call", "tool_calls", _LISTED, _tool_call)

    def start(self, agent_id: str, name: str, input: Any) -> str:
        """Start a tool call of a running agent and return its id; `input` is any JSON.

        >>> id = db.tools.start(agent_id, "Bash", {"command": "pytest"})
        """
        check_id(agent_id, "agent")
        check_text(name, "the name of a tool")
        text = None if input is None else encode(input, name=f"the input of tool {shown(name)}")
        self._workspace.check_writable(f"start tool {shown(name)}")
        above = parents(self._workspace, agent_id=agent_id)
        id = new_id()
        values = {
            "id": id,
            "agent_id": agent_id,
            "execution_id": above.execution_id,
            "name": name,
            "started_at": to_text(self._workspace.now()),
            "input": text,
        }
        self._rows.insert(values, above.execution_id)
        return id

    def complete(self, id: str, output: Any, summary: str | None = None) -> None:
        """End a tool call as completed; `output` is text, kept as it is, or any other JSON.

        It may be of any size. `summary` is one line to be shown in its place. Raises TypeError for
        bytes: decode them first.

        >>> db.tools.complete(id, "12 passed", "ran the tests")
        """
        if summary is not None:
            check_text(summary, "the summary of a tool call", empty=True)
        text, is_json = _stored(output)
        self._rows.end(
            id, "completed", "complete", output_is_json=is_json, summary=summary, output=text
        )

    def fail(self, id: str, error: BaseException | str) -> None:
        """End a tool call as failed, with an exception or a text.

        >>> db.tools.fail(id, "no such file")
        """
        self._rows.end(id, "failed", "fail", error=error_text(error))

    def cancel(self, id: str) -> None:
        """End a tool call as cancelled.

        >>> db.tools.cancel(id)
        """
        self._rows.end(id, "cancelled", "cancel")

    def get(self, id: str) -> ToolCall | None:
        """Return a tool call with its whole output, None when there is none of that id.

        >>> db.tools.get(id).output
        '12 passed'
        """
        return self._rows.get(id)

    def get_output(self, id: str) -> Any:
        """Return the whole output of a tool call, None while it has none.

        Raises NotFound for an unknown id.

        >>> db.tools.get_output(id)
        '12 passed'
        """
        check_id(id, "tool call")
        row = self._workspace.database.conn.execute(_OUTPUT, (id,)).fetchone()
        if row is None:
            raise NotFound("tool call", id)
        return _read(row[0], row[1], id)

    def is_running(self, id: str) -> bool:
        """Tell whether a tool call has not ended; False for an unknown id.

        >>> db.tools.is_running(id)
        False
        """
        return self._rows.is_running(id)

    def list(self, agent_id: str, *, limit: int | None = None) -> builtins.list[ToolCall]:
        """List the tool calls of an agent in the order of their starts; with a limit the newest.

        `output` is None above 65,536 bytes of UTF-8, whatever its size: see `get_output`.

        >>> [(call.name, call.summary) for call in db.tools.list(agent_id)]
        [('Edit', 'Edited src/main.py: added 15 lines')]
        """
        return self._listed.list(_of(agent_id), limit=limit)

    def observe(self, agent_id: str) -> ObservableQuery[builtins.list[ToolCall]]:
        """Observe what `list` gives.

        >>> db.tools.observe(agent_id).subscribe(print)
        """
        return self._listed.observe(_of(agent_id))


def _of(agent_id: str) -> dict[str, str]:
    check_id(agent_id, "agent")
    return {"agent_id": agent_id}


def _stored(output: Any) -> tuple[str, bool]:
    """Write an output for its column; tell whether it is JSON there."""
    if isinstance(output, str):
        try:
            output.encode()
        except UnicodeEncodeError:
            pass  # a lone surrogate, which only the escapes of JSON can write
        else:
            return str.__str__(output), False
    if isinstance(output, bytes | bytearray | memoryview):
        raise TypeError("the output of a tool call is text or JSON: decode the bytes first")
    return encode(output, name="the output of a tool call"), True


def _read(output: str | None, is_json: int, id: str) -> Any:
    if output is None or not is_json:
        return output
    return decode(output, name=f"the output of tool call {shown(id)}")


def _tool_call(
    id: str,
    agent_id: str,
    execution_id: str | None,
    name: str,
    input: str | None,
    output: str | None,
    output_is_json: int,
    output_size: int | None,
    summary: str | None,
    status: str,
    error: str | None,
    started_at: str,
    completed_at: str | None,
    duration_ms: int | None,
) -> ToolCall:
    return ToolCall(
        id=id,
        agent_id=agent_id,
        execution_id=execution_id,
        name=name,
        input=json_or_none(input, f"the input of tool call {shown(id)}"),
        output=_read(output, output_is_json, id),
        output_size=output_size,
        summary=summary,
        status=status,
        error=error,
        started_at=moment(started_at),
        completed_at=moment_or_none(completed_at),
        duration_ms=duration_ms,
    )
