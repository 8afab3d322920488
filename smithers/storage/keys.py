"""One key of the state with a type: what is read has been checked, what is written will be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast, overload

from reactive_sqlite.arguments import check_callable, shown
from reactive_sqlite.observation import ObservableQuery
from smithers.accessor import Accessor
from smithers.codec import MAX_KEY_LENGTH, check_key, check_trigger, encoded
from smithers.errors import StateTypeError
from smithers.journal import Journal
from smithers.records import Transition
from smithers.shapes import Misfit, shape_of, type_name

T = TypeVar("T")
# Longer ones are cut in messages.
_SHOWN = 80


class _Missing:
    def __repr__(self) -> str:
        return "…"


# In the place of a default that was not given.
MISSING: Any = _Missing()


class StateKey(Generic[T]):
    """One key of the state, whose values are of one type.

    Made by `db.state.key`. A stored value that does not fit raises StateTypeError where it is
    read; an observed one is reported and raised like any failing query, until it fits again.

    Attributes:
        name: the key.
        type: the type of its values.
    """

    def __init__(self, journal: Journal, name: str, type: Any, default: Any = MISSING) -> None:
        check_key(name)
        self.name = name
        self.type = type
        self._journal = journal
        self._subject = f"state {shown(name, 2 * MAX_KEY_LENGTH)}"
        try:
            self._wanted = type if default is not MISSING else _or_none(type)
            self._shape = shape_of(self._wanted)
        except TypeError as error:
            raise TypeError(f"{self._subject}: {error}") from None
        # As text, so that a reader who changes the default that it was given changes only its own.
        self._default, _ = self._written(None if default is MISSING else default)

    def get(self) -> T:
        """Return the value, the default when the key is absent.

        >>> attempts.get()
        0
        """
        return self._read(self._journal.text(self.name))

    def set(self, value: T, trigger: str | None = None) -> Transition:
        """Store a value; one that does not fit raises StateTypeError, and nothing is written.

        >>> attempts.set(1, "retry").value
        1
        """
        check_trigger(trigger)
        text, plain = self._written(value)
        return self._journal.record(self.name, text, plain, trigger)

    def update(self, fn: Callable[[T], T], trigger: str | None = None) -> Transition:
        """Store `fn(present value)`, atomically across threads and processes.

        >>> attempts.update(lambda n: n + 1).value
        2
        """
        check_callable(fn, "fn")
        check_trigger(trigger)
        self._journal.check_writable("change state", self.name)
        with self._journal.database.transaction():
            return self.set(fn(self.get()), trigger)

    def observe(self) -> ObservableQuery[T]:
        """Observe the value, the default while the key is absent.

        >>> attempts.observe().subscribe(print)
        2
        """
        return self._journal.observe(self.name).decoded(self._read)

    def signal(self) -> tuple[ObservableQuery[T], SetKey[T]]:
        """Return an accessor and a setter, kept in sync with the row both ways.

        >>> attempts, set_attempts = db.state.key("attempts", int, default=0).signal()
        >>> set_attempts(lambda n: n + 1).value
        3
        """
        return Accessor(self.observe()), SetKey(self)

    def __repr__(self) -> str:
        return f"StateKey({self.name!r}, {type_name(self.type)})"

    def _read(self, text: str | None) -> T:
        found = self._default if text is None else text
        try:
            value: T = self._shape.read(found, self._subject)
        except Misfit as misfit:
            raise self._mismatch(found, misfit) from misfit.__cause__
        return value

    def _written(self, value: Any) -> tuple[str, Any]:
        try:
            plain = self._shape.towards_json(value)
        except TypeError as error:
            raise StateTypeError(f"{self._subject}: {error}") from error
        text, plain = encoded(plain, name=self._subject)
        try:
            self._shape.read(text, self._subject)  # whatever is written can be read again
        except Misfit as misfit:
            raise self._mismatch(text, misfit) from misfit.__cause__
        return text, plain

    def _mismatch(self, text: str, misfit: Misfit) -> StateTypeError:
        cut = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        reason = f" ({misfit})" if str(misfit) else ""
        wanted = type_name(self._wanted)
        return StateTypeError(f"{self._subject}: found {cut}, wanted {wanted}{reason}")


def value_of(key: StateKey[T], text: str | None) -> T:
    """Return what the JSON text of a key's row means, its default where there is none."""
    return key._read(text)  # pyright: ignore[reportPrivateUsage]


class SetKey(Generic[T]):
    """The setter of `StateKey.signal`: write a value, or what a function makes of the present one.

    A class and no Protocol: one that takes values and functions of values has no variance.
    """

    def __init__(self, key: StateKey[T]) -> None:
        self._key = key

    def __call__(self, value: T | Callable[[T], T], trigger: str | None = None) -> Transition:
        if callable(value):
            return self._key.update(cast(Any, value), trigger)
        return self._key.set(value, trigger)


class StateKeys:
    """Typed keys of the state."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @overload
    def key(self, name: str, type: type[T], default: T) -> StateKey[T]: ...
    @overload
    def key(self, name: str, type: type[T]) -> StateKey[T | None]: ...
    @overload
    def key(self, name: str, type: Any, default: Any = ...) -> StateKey[Any]: ...
    def key(self, name: str, type: Any, default: Any = MISSING) -> StateKey[Any]:
        """Return one key with the type of its values, which reads and writes are checked against.

        `smithers.shapes` says which types there are; pydantic adds all of its own (the extra
        `typed`). Without a `default` the key may be None, and is when it is absent. A default that
        does not fit raises StateTypeError, a type that is not understood TypeError.

        What a type checker takes for no class (`Literal[...]`) wants an annotation:
        `phase: StateKey[Literal["start", "done"]] = db.state.key(...)`.

        >>> attempts = db.state.key("attempts", int, default=0)
        >>> attempts.update(lambda n: n + 1)
        Transition(id='t1', ...)
        """
        return StateKey(self._journal, name, type, default)


def _or_none(kind: Any) -> Any:
    return kind | None if kind is not None and kind is not Any else kind
