"""What an agent may do with the state and the memories: tools, with their schemas, as data.

No library of a protocol is needed here; `mcp` serves them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from smithers.db import SmithersDB
from smithers.jsontext import json_text
from smithers.records import Memory, Transition
from smithers.schema.memories import CATEGORIES, SCOPES

TRIGGER = "mcp"
Arguments = Mapping[str, Any]
Schema = Mapping[str, Any]

# Of what a tool returns, in characters, unless its caller says otherwise.
DEFAULT_ROOM = 20_000
MOST_ROOM = 1_000_000
MOST_ROWS = 200
# However many rows there are, so much is told of each value; and so much of any other text.
LEAST_SHARE = 80
_FEW = 300


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool.

    Attributes:
        name: its name.
        description: what it does, for a model.
        arguments: the JSON schema of each argument.
        required: the arguments that must be given.
        run: does it, and returns what becomes JSON.
        writes: whether it changes anything.
    """

    name: str
    description: str
    run: Callable[[SmithersDB, Arguments], Any]
    arguments: Mapping[str, Schema] = field(default_factory=lambda: MappingProxyType({}))
    required: tuple[str, ...] = ()
    writes: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.arguments.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }


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
        value = tool.run(db, _checked(tool, arguments))
        text = json_text(value)
        if not _is_unicode(text):
            text = json_text(value, ascii_only=True)
    except Exception as error:
        return Answer(_told(error), is_error=True)
    return Answer(text)


def _named(name: str, *, allow_write: bool) -> Tool:
    tools = {tool.name: tool for tool in _TOOLS}
    if name not in tools:
        names = ", ".join(tool.name for tool in offered(allow_write=allow_write))
        raise ValueError(f"there is no tool {_shown(name)}: there are {names}")
    if tools[name].writes and not allow_write:
        raise ValueError(f"{name} is not offered: here the database is for reading only")
    return tools[name]


def _told(error: Exception) -> str:
    """Write an error in one line that a model can read; it may quote what somebody has stored."""
    line = _cut(" ".join(str(error).split()) or type(error).__name__, 2 * _FEW)
    return line if _is_unicode(line) else line.encode("ascii", "backslashreplace").decode()


# -- arguments -----------------------------------------------------------------------------------

_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
}


def _checked(tool: Tool, given: object) -> dict[str, Any]:
    """Return the arguments if they fit the schema; not every client looks at it."""
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise TypeError(f"the arguments of {tool.name} are an object, not {_shown(given)}")
    arguments = cast("dict[str, Any]", given)
    for name in arguments:
        if name not in tool.arguments:
            known = ", ".join(tool.arguments)
            raise ValueError(f"{tool.name} takes no argument {_shown(name)}, but: {known}")
    for name in tool.required:
        if name not in arguments:
            raise ValueError(f"{tool.name} needs the argument {name!r}")
    return {
        name: _fitting(name, value, tool.arguments[name])
        for name, value in arguments.items()
        if value is not None or name in tool.required
    }


def _fitting(name: str, value: Any, schema: Schema) -> Any:
    if "enum" in schema and value not in schema["enum"]:
        raise ValueError(f"{name} is one of {', '.join(schema['enum'])}, not {_shown(value)}")
    expected = _TYPES.get(schema["type"]) if isinstance(schema["type"], str) else None
    if expected is None:
        return value
    if expected is int and isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON knows no difference
    if not isinstance(value, expected) or isinstance(value, bool):
        raise TypeError(f"{name} is of type {schema['type']}, not {_shown(value)}")
    low, high = schema.get("minimum"), schema.get("maximum")
    if (low is not None and value < low) or (high is not None and value > high):
        raise ValueError(f"{name} is from {low} to {high}, not {_shown(value)}")
    return value


# -- what comes back -----------------------------------------------------------------------------


def _put(row: dict[str, Any], name: str, value: Any, room: int) -> dict[str, Any]:
    """Put a value into a row, or the beginning of its JSON where it is longer than its share."""
    text = json_text(value)
    if len(text) <= room:
        row[name] = value
    else:
        row[f"{name}_beginning"] = text[:room]
        row[f"{name}_characters"] = len(text)
    return row


def _shares(values: Sequence[Any], room: int) -> list[int]:
    """Share out room so that what is short is told whole, and what is long as far as it goes."""
    sizes = [len(json_text(value)) for value in values]
    shares = [0] * len(sizes)
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    for taken, index in enumerate(order):
        share = max(room // (len(order) - taken), LEAST_SHARE)
        shares[index] = min(sizes[index], share)
        room = max(room - shares[index], 0)
    return shares


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def _short(text: str | None) -> str | None:
    return None if text is None else _cut(text, _FEW)


def _shown(value: object) -> str:
    return _cut(repr(value), LEAST_SHARE)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# -- the tools -----------------------------------------------------------------------------------


def _state_get(db: SmithersDB, arguments: Arguments) -> Any:
    room = arguments.get("max_characters", DEFAULT_ROOM)
    if "key" in arguments:
        key = arguments["key"]
        entry = db.state.entry(key)
        if entry is None:
            return {"key": key, "present": False}
        row = {"key": key, "present": True, "updated_at": entry.updated_at}
        return _put(row, "value", entry.value, room)
    keys = db.state.keys()
    listed = keys[: arguments.get("limit", 100)]
    found = [entry for key in listed if (entry := db.state.entry(key)) is not None]
    shares = _shares([entry.value for entry in found], room)
    rows = [
        _put({"key": entry.key}, "value", entry.value, share)
        for entry, share in zip(found, shares, strict=True)
    ]
    return {"state": rows, "left_out": len(keys) - len(listed)}


def _state_set(db: SmithersDB, arguments: Arguments) -> Any:
    transition = db.state.set(arguments["key"], arguments["value"], TRIGGER)
    row = {"id": transition.id, "key": transition.key}
    return _put(row, "previous_value", transition.previous_value, _FEW)


def _state_history(db: SmithersDB, arguments: Arguments) -> Any:
    limit = arguments.get("limit", 20)
    found = db.state.history(
        arguments.get("key"),
        limit + 1,
        before=arguments.get("before"),
        since=arguments.get("since"),
    )
    shown = found[-limit:]
    values = [each for t in shown for each in (t.previous_value, t.value)]
    shares = iter(_shares(values, arguments.get("max_characters", DEFAULT_ROOM)))
    rows = [_transition(t, next(shares), next(shares)) for t in shown]
    return {"history": rows, "older_are_left_out": len(found) > limit}


def _transition(transition: Transition, previous: int, now: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": transition.id,
        "key": transition.key,
        "trigger": _short(transition.trigger),
        "timestamp": transition.timestamp,
        "execution_id": _short(transition.execution_id),
        "agent_id": _short(transition.agent_id),
    }
    _put(row, "previous_value", transition.previous_value, previous)
    if transition.deleted:
        return {**row, "deleted": True}
    return _put(row, "value", transition.value, now)


def _memory_search(db: SmithersDB, arguments: Arguments) -> Any:
    limit = arguments.get("limit", 10)
    query, category, scope = (arguments.get(name) for name in ("query", "category", "scope"))
    if query is None:
        found = db.memories.list(category, scope, limit + 1)
    else:
        found = db.memories.search(query, category, scope, limit + 1)
    shown = found[:limit]
    shares = _shares(
        [memory.content for memory in shown], arguments.get("max_characters", DEFAULT_ROOM)
    )
    rows = [_memory(memory, share) for memory, share in zip(shown, shares, strict=True)]
    return {"memories": rows, "more_are_left_out": len(found) > limit}


def _memory(memory: Memory, room: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "category": memory.category,
        "scope": memory.scope,
        "key": memory.key,
        "source": _short(memory.source),
        "confidence": memory.confidence,
        "updated_at": memory.updated_at,
    }
    return _put(row, "content", memory.content, room)


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
