"""One tool for agents: what it does, what it takes, and whether what it is given fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from reactive_sqlite.arguments import shown
from smithers.db import SmithersDB

Arguments = Mapping[str, Any]
Schema = Mapping[str, Any]

_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
}


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
    arguments: Mapping[str, Schema]
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

    def checked(self, given: object) -> dict[str, Any]:
        """Return the arguments if they fit the schema; not every client looks at it."""
        if given is None:
            given = {}
        if not isinstance(given, dict):
            raise TypeError(f"the arguments of {self.name} are an object, not {shown(given)}")
        arguments = cast("dict[str, Any]", given)
        for name in arguments:
            if name not in self.arguments:
                known = ", ".join(self.arguments)
                raise ValueError(f"{self.name} takes no argument {shown(name)}, but: {known}")
        for name in self.required:
            if name not in arguments:
                raise ValueError(f"{self.name} needs the argument {name!r}")
        return {
            name: _fitting(name, value, self.arguments[name])
            for name, value in arguments.items()
            if value is not None or name in self.required
        }


def _fitting(name: str, value: Any, schema: Schema) -> Any:
    if "enum" in schema and value not in schema["enum"]:
        raise ValueError(f"{name} is one of {', '.join(schema['enum'])}, not {shown(value)}")
    expected = _TYPES.get(schema["type"]) if isinstance(schema["type"], str) else None
    if expected is None:
        return value
    if expected is int and isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON knows no difference
    if not isinstance(value, expected) or isinstance(value, bool):
        raise TypeError(f"{name} is of type {schema['type']}, not {shown(value)}")
    low, high = schema.get("minimum"), schema.get("maximum")
    if (low is not None and value < low) or (high is not None and value > high):
        raise ValueError(f"{name} is from {low} to {high}, not {shown(value)}")
    return value
