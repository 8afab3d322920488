"""What an agent may do with the state and the memories: the tools, as data.

No library of a protocol is needed here; `mcp` serves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reactive_sqlite.arguments import is_unicode, shown
from smithers.db import SmithersDB
from smithers.jsontext import json_text
from smithers.records import Memory, Transition
from smithers.runtime.excerpts import FEW, LEAST_SHARE, cut, put, share_out, short
from smithers.runtime.tool import Arguments, Schema, Tool
from smithers.schema.memories import CATEGORIES, SCOPES

TRIGGER = "mcp"
# Of what a tool returns, in characters, unless its caller says otherwise.
DEFAULT_ROOM = 20_000
MOST_ROOM = 1_000_000
MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call of a tool has come to: JSON, or in one line what was wrong with it."""

    text: str
    is_error: bool = False


def offered(*, allow_write: bool) -> list[Tool]:
    """List the tools, without those that write unless they are allowed."""
    return [tool for tool in _TOOLS if allow_write or not tool.writes]


def answer(db: SmithersDB, name: str, arguments: object, *, allow_write: bool) -> Answer:
    """Call a tool by its name; whatever goes wrong is an answer, too."""
    try:
        tool = _named(name, allow_write=allow_write)
        value = tool.run(db, tool.checked(arguments))
        text = json_text(value)
        if not is_unicode(text):
            text = json_text(value, ascii_only=True)
    except Exception as error:
        return Answer(_told(error), is_error=True)
    return Answer(text)


def _named(name: str, *, allow_write: bool) -> Tool:
    tools = {tool.name: tool for tool in _TOOLS}
    if name not in tools:
        names = ", ".join(tool.name for tool in offered(allow_write=allow_write))
        raise ValueError(f"there is no tool {shown(name)}: there are {names}")
    if tools[name].writes and not allow_write:
        raise ValueError(f"{name} is not offered: here the database is for reading only")
    return tools[name]


def _told(error: Exception) -> str:
    """Write an error in one line that a model can read; it may quote what somebody has stored."""
    line = cut(" ".join(str(error).split()) or type(error).__name__, 2 * FEW)
    return line if is_unicode(line) else line.encode("ascii", "backslashreplace").decode()


def _state_get(db: SmithersDB, arguments: Arguments) -> Any:
    room = arguments.get("max_characters", DEFAULT_ROOM)
    if "key" in arguments:
        key = arguments["key"]
        entry = db.state.entry(key)
        if entry is None:
            return {"key": key, "present": False}
        row = {"key": key, "present": True, "updated_at": entry.updated_at}
        return put(row, "value", entry.value, room)
    keys = db.state.keys()
    listed = keys[: arguments.get("limit", 100)]
    found = [entry for key in listed if (entry := db.state.entry(key)) is not None]
    shares = share_out([entry.value for entry in found], room)
    rows = [
        put({"key": entry.key}, "value", entry.value, share)
        for entry, share in zip(found, shares, strict=True)
    ]
    return {"state": rows, "left_out": len(keys) - len(listed)}


def _state_set(db: SmithersDB, arguments: Arguments) -> Any:
    transition = db.state.set(arguments["key"], arguments["value"], TRIGGER)
    row = {"id": transition.id, "key": transition.key}
    return put(row, "previous_value", transition.previous_value, FEW)


def _state_history(db: SmithersDB, arguments: Arguments) -> Any:
    limit = arguments.get("limit", 20)
    found = db.state.history(
        arguments.get("key"),
        limit + 1,
        before=arguments.get("before"),
        since=arguments.get("since"),
    )
    newest = found[-limit:]
    values = [each for t in newest for each in (t.previous_value, t.value)]
    shares = iter(share_out(values, arguments.get("max_characters", DEFAULT_ROOM)))
    rows = [_transition(t, next(shares), next(shares)) for t in newest]
    return {"history": rows, "older_are_left_out": len(found) > limit}


def _transition(transition: Transition, previous: int, now: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": transition.id,
        "key": transition.key,
        "trigger": short(transition.trigger),
        "timestamp": transition.timestamp,
        "execution_id": short(transition.execution_id),
        "agent_id": short(transition.agent_id),
    }
    put(row, "previous_value", transition.previous_value, previous)
    if transition.deleted:
        return {**row, "deleted": True}
    return put(row, "value", transition.value, now)


def _memory_search(db: SmithersDB, arguments: Arguments) -> Any:
    limit = arguments.get("limit", 10)
    query, category, scope = (arguments.get(name) for name in ("query", "category", "scope"))
    if query is None:
        found = db.memories.list(category, scope, limit + 1)
    else:
        found = db.memories.search(query, category, scope, limit + 1)
    best = found[:limit]
    shares = share_out(
        [memory.content for memory in best], arguments.get("max_characters", DEFAULT_ROOM)
    )
    rows = [_memory(memory, share) for memory, share in zip(best, shares, strict=True)]
    return {"memories": rows, "more_are_left_out": len(found) > limit}


def _memory(memory: Memory, room: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "category": memory.category,
        "scope": memory.scope,
        "key": memory.key,
        "source": short(memory.source),
        "confidence": memory.confidence,
        "updated_at": memory.updated_at,
    }
    return put(row, "content", memory.content, room)


def _memory_add(db: SmithersDB, arguments: Arguments) -> Any:
    memory = db.memories.add(
        arguments["category"],
        arguments["key"],
        arguments["content"],
        scope=arguments.get("scope", "project"),
        source=arguments.get("source", TRIGGER),
        confidence=arguments.get("confidence", 1.0),
    )
    return {
        "id": memory.id,
        "category": memory.category,
        "scope": memory.scope,
        "key": memory.key,
    }


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _rows(default: int, description: str) -> Schema:
    return {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_ROWS,
        "default": default,
        "description": description,
    }


def _one_of(choices: Sequence[str], description: str) -> Schema:
    return {"type": "string", "enum": list(choices), "description": description}


_ROOM: Schema = {
    "type": "integer",
    "minimum": LEAST_SHARE,
    "maximum": MOST_ROOM,
    "default": DEFAULT_ROOM,
    "description": "About how many characters of values to return. What is longer comes as the "
    "beginning of its JSON text, with the number of its characters.",
}
_ANY: Schema = {
    "type": ["object", "array", "string", "number", "boolean", "null"],
    "description": "Any JSON value, given as itself and not as text that holds JSON.",
}

_TOOLS = (
    Tool(
        "state_get",
        "Read the state of the workflow. With `key` its value; without, every key with its value, "
        "sorted by key.",
        _state_get,
        {
            "key": _text("The key to read. Leave it out to read the whole state."),
            "limit": _rows(100, "How many keys at most, when no key is given."),
            "max_characters": _ROOM,
        },
    ),
    Tool(
        "state_set",
        "Set a key of the workflow's state. The workflow, other agents and people see the change "
        "at once, and it is recorded in the history.",
        _state_set,
        {
            "key": _text("The key to set, 1 to 1,024 characters."),
            "value": _ANY,
        },
        required=("key", "value"),
        writes=True,
    ),
    Tool(
        "state_history",
        "Read what happened to the state of the workflow, oldest first: who changed what, when, "
        "and why (`trigger`). The newest changes are returned.",
        _state_history,
        {
            "key": _text("Only the changes of this key."),
            "limit": _rows(20, "How many changes at most."),
            "before": _text("Only changes before the one of this id, such as t12."),
            "since": _text("Only changes after the one of this id, such as t12."),
            "max_characters": _ROOM,
        },
    ),
    Tool(
        "memory_search",
        "Search what is remembered beyond this run: facts, lessons, preferences, context and "
        "skills. Finds memories in which all words occur, or their beginnings, the best first.",
        _memory_search,
        {
            "query": _text("The words to look for. Leave it out for those changed last."),
            "category": _one_of(CATEGORIES, "Only memories of this category."),
            "scope": _one_of(SCOPES, "Only memories of this scope."),
            "limit": _rows(10, "How many memories at most."),
            "max_characters": _ROOM,
        },
    ),
    Tool(
        "memory_add",
        "Remember something for later runs. It takes the place of what is remembered under the "
        "same category, scope and key.",
        _memory_add,
        {
            "category": _one_of(
                CATEGORIES,
                "fact: found out; learning: a lesson; preference: what the user wants; context: "
                "what else is to be known; skill: how something is done.",
            ),
            "key": _text("A short name, such as api-endpoint."),
            "content": _text("What to remember."),
            "scope": _one_of(
                SCOPES,
                "Who sees it: this session only, every session of the project (the default), or "
                "every workflow of the user.",
            ),
            "source": _text("Where it comes from, such as a file."),
            "confidence": {
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "default": 1,
                "description": "How sure it is.",
            },
        },
        required=("category", "key", "content"),
        writes=True,
    ),
)
