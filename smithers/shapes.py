"""What values of a type look like in JSON: read from it with a check, and brought towards it.

Understood without any help: None, bool, int, float, str, Any, list, dict, `Literal` of these,
unions of them, and TypedDicts. pydantic, where it is installed (extra `typed`), does all other
types. Where it is not, or refuses a type, these are understood as well: `list[X]`, `dict[str, X]`,
dataclasses and enumerations, of all of the above.

Either way nothing is bent to fit: `"1"` is no int, `1` and `true` differ. Only an int is taken for
a float, and what JSON has no form for is made from the form it has (a dataclass from a dict).
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol, cast

from reactive_sqlite.arguments import shown
from smithers.codec import decode

Check = Callable[[Any], Any]

_EXACT = (types.NoneType, bool, int, str, list, dict)


class Misfit(Exception):
    """A value is not of the type; the message says why where that is known."""


class Shape(Protocol):
    """How the values of one type are read from JSON text and brought towards it."""

    def read(self, text: str, name: str) -> Any:
        """Return the value that the text stands for; Misfit when it is none of the type."""
        ...

    def towards_json(self, value: Any) -> Any:
        """Return the value in a form that the codec takes; TypeError when there is none."""
        ...


def shape_of(kind: Any) -> Shape:
    """Tell how values of a type look in JSON; TypeError for a type that is not understood."""
    if isinstance(kind, str):
        raise TypeError(f"a type is not its name: {shown(kind)}")  # and is evaluated by nobody
    # A TypedDict by ours where it will do: pydantic drops the keys that the type does not name, on
    # the Pythons whose TypedDict it takes at all, and `update` would lose them.
    check = _check(kind, deep=typing.is_typeddict(kind))
    if check is not None:
        return _Plain(check)
    described = _Described.of(kind)
    if described is not None:
        return described
    check = _check(kind, deep=True)
    if check is not None:
        return _Plain(check)
    raise TypeError(
        f"{type_name(kind)} is no type of JSON values, and pydantic, which knows more types, "
        "either is not installed (the extra `typed` brings it) or does not know it"
    )


def type_name(kind: Any) -> str:
    """Name a type as one writes it."""
    if kind is None or kind is types.NoneType:
        return "None"
    if isinstance(kind, type) and not typing.get_args(kind):
        return kind.__name__
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " | ".join(map(type_name, typing.get_args(kind)))
    return shown(kind, 300).replace("typing.", "")


class _Plain:
    """A type that is understood here."""

    def __init__(self, check: Check) -> None:
        self._check = check

    def read(self, text: str, name: str) -> Any:
        return self._check(decode(text, name=name))

    def towards_json(self, value: Any) -> Any:
        return value


class _Described:
    """A type that pydantic understands."""

    def __init__(self, adapter: Any, failure: type[Exception], refusal: type[Exception]) -> None:
        self._adapter = adapter
        self._failure = failure
        self._refusal = refusal

    @classmethod
    def of(cls, kind: Any) -> _Described | None:
        """Return None where there is no pydantic, or it does not know the type."""
        try:
            from pydantic import TypeAdapter, ValidationError
            from pydantic_core import PydanticSerializationError
        except ImportError:
            return None
        try:
            adapter: Any = TypeAdapter(kind)
            # Whether a name in quotes means nothing shows itself only when a value is read.
            complete: bool = getattr(adapter, "pydantic_complete", True)
        except Exception:
            return None  # it asks of what is no type whatever it would of one, its text too
        return None if not complete else cls(adapter, ValidationError, PydanticSerializationError)

    def read(self, text: str, name: str) -> Any:
        try:
            return self._adapter.validate_json(text, strict=True)
        except self._failure as error:
            first: Any = cast(Any, error).errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise Misfit(f"{place}: {first['msg']}" if place else first["msg"]) from error

    def towards_json(self, value: Any) -> Any:
        try:
            return self._adapter.dump_python(value, mode="json", by_alias=True, warnings=False)
        except self._refusal as error:
            raise TypeError(str(error)) from error


def _check(kind: Any, *, deep: bool) -> Check | None:
    """Make the check of a type, None when it is not understood."""
    if kind is Any or kind is object:
        return _anything
    if kind is float:
        return _float
    # By identity: what is no type may equal anything.
    if kind is None or any(kind is plain for plain in _EXACT):
        return _exactly(types.NoneType if kind is None else kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        plain = all(type(value) in (bool, int, str, types.NoneType) for value in arguments)
        return _one_of(arguments) if plain else None
    if origin in (typing.Union, types.UnionType):
        checks = [_check(argument, deep=deep) for argument in arguments]
        known = [check for check in checks if check is not None]
        return _either(known) if len(known) == len(checks) else None
    return _deep_check(kind, origin, arguments) if deep else None


def _deep_check(kind: Any, origin: Any, arguments: tuple[Any, ...]) -> Check | None:
    if origin is list or (origin is dict and arguments[0] is str):
        inner = _check(arguments[-1], deep=True)
        if inner is None:
            return None
        return _list(inner) if origin is list else _dict(inner)
    if typing.is_typeddict(kind):
        fields = _fields(kind)
        return None if fields is None else _typed_dict(fields, kind.__required_keys__)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        fields = _fields(kind)
        return None if fields is None else _dataclass(kind, fields)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind)
    return None


def _fields(kind: Any) -> dict[str, Check] | None:
    hints = typing.get_type_hints(kind)
    if dataclasses.is_dataclass(kind):
        hints = {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}
    checks = {name: _check(hint, deep=True) for name, hint in hints.items()}
    known = {name: check for name, check in checks.items() if check is not None}
    return known if len(known) == len(checks) else None


def _anything(value: Any) -> Any:
    return value


def _float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise Misfit
    try:
        return float(value)
    except OverflowError as error:
        raise Misfit(str(error)) from error


def _exactly(kind: type) -> Check:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise Misfit
        return value

    return check


def _one_of(values: tuple[Any, ...]) -> Check:
    def check(value: Any) -> Any:
        if not any(type(value) is type(allowed) and value == allowed for allowed in values):
            raise Misfit
        return value

    return check


def _either(checks: list[Check]) -> Check:
    def check(value: Any) -> Any:
        fitting: list[Any] = []
        reasons: list[str] = []
        for one in checks:
            try:
                made = one(value)
            except Misfit as misfit:
                reasons += [str(misfit)] if str(misfit) else []
                continue
            # An int is rather the int of `float | int` than made a float.
            if type(made) is type(value):
                return made
            fitting.append(made)
        if not fitting:
            raise Misfit(reasons[0] if len(reasons) == 1 else "")
        return fitting[0]

    return check


def _list(inner: Check) -> Check:
    def check(value: Any) -> Any:
        items: list[Any] = value
        if type(items) is not list:
            raise Misfit
        return [_inside(str(place), inner, item) for place, item in enumerate(items)]

    return check


def _dict(inner: Check) -> Check:
    def check(value: Any) -> Any:
        return {key: _inside(key, inner, item) for key, item in _items(value).items()}

    return check


def _typed_dict(fields: dict[str, Check], required: frozenset[str]) -> Check:
    def check(value: Any) -> Any:
        items = _items(value)
        for name in sorted(required - items.keys()):
            raise Misfit(f"{name}: missing")
        # Other keys stay: an `update` must not lose what another version has put there.
        return {
            key: _inside(key, fields[key], item) if key in fields else item
            for key, item in items.items()
        }

    return check


def _dataclass(kind: Any, fields: dict[str, Check]) -> Check:
    optional = {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is not dataclasses.MISSING
        or field.default_factory is not dataclasses.MISSING
    }

    def check(value: Any) -> Any:
        items = _items(value)
        for name in sorted(fields.keys() - optional - items.keys()):
            raise Misfit(f"{name}: missing")
        return kind(
            **{name: _inside(name, fields[name], items[name]) for name in fields if name in items}
        )

    return check


def _member(kind: type[Enum]) -> Check:
    def check(value: Any) -> Any:
        for member in kind:
            if type(member.value) is type(value) and member.value == value:
                return member
        raise Misfit

    return check


def _items(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise Misfit
    return cast("dict[str, Any]", value)


def _inside(place: str, check: Check, value: Any) -> Any:
    try:
        return check(value)
    except Misfit as misfit:
        reason = str(misfit)
        inner = f".{reason}" if reason else f": {type(value).__name__} does not fit"
        raise Misfit(f"{place}{inner}") from None
