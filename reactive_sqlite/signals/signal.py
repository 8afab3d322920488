"""Signals: values that remember who read them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

from ..arguments import check_label, shown
from .graph import mark, same_value
from .owner import record_elsewhere, untrack
from .scheduler import call_watchers, raise_settled, stand_back
from .state import SCALARS, STATE, Node

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Equals: TypeAlias = "Callable[[T, T], bool] | Literal[False] | None"

_acquire, _release = STATE.lock.acquire, STATE.lock.release


class Accessor(Protocol[T_co]):
    """What reads a signal, a memo, a resource or a query."""

    def __call__(self) -> T_co:
        """Return the current value and subscribe the running memo or effect."""
        ...

    def peek(self) -> T_co:
        """Return the current value without subscribing anything."""
        ...


class Setter(Protocol[T]):
    """What writes a signal."""

    def __call__(self, value: T | Callable[[T], T], /) -> T:
        """Store a value, or what a function makes of the previous one; return what is stored."""
        ...


class Signal(Node, Generic[T]):
    """A value that can be read and set; it is its own accessor, which costs no second object."""

    __slots__ = ("__weakref__", "by", "equals", "name", "same", "stamp", "subs", "value")
    volatile = False
    on_watch = None
    fn = None

    value: T

    def __init__(self, value: T, equals: Equals[T], name: str | None) -> None:
        self.value = value
        self.equals = equals
        if equals:
            STATE.custom = True
        self.name = name
        self.subs = {}
        self.stamp = self.by = 0
        self.same = None

    def __call__(self) -> T:
        recorder = STATE.recorder
        if recorder is not None and get_ident() == STATE.home:
            recorder(self)
        elif STATE.others:
            record_elsewhere(self)
        return self.value

    def peek(self) -> T:
        return self.value

    def set(self, value: Any, /) -> T:
        """Store a value, or what a function makes of the previous one."""
        given: object = value
        kind = type(given)
        if self.equals is not None or (kind not in SCALARS and callable(value)):
            return self._set_by_code(value)
        _acquire()
        try:
            old = self.value
            if value is old or (
                kind is type(old)
                and kind in SCALARS
                and (value == old or (value != value and same_value(value, old)))
            ):
                return old
            self._store(value, old)
        finally:
            _release()
        if STATE.starving:
            stand_back()
        if STATE.flips:
            call_watchers()
        stored: T = value
        return stored

    def put(self, value: T) -> None:
        """Store a value as it is, also a function, compared by default equality."""
        with STATE.lock:
            if not same_value(value, self.value):
                self._store(value, self.value)

    def _set_by_code(self, given: Any) -> T:
        """Set where user code decides: without the lock, again if another write came between."""
        while True:
            stamp = self.stamp
            old = self.value
            value, same = untrack(partial(self._decide, given, old))
            with STATE.lock:
                if self.stamp != stamp:
                    continue
                if same:
                    return old
                self._store(value, old)
            if STATE.starving:
                stand_back()
            return value

    def _decide(self, given: Any, old: T) -> tuple[T, bool]:
        value = cast(T, given(old) if callable(given) else given)
        if self.equals is None:
            return value, same_value(old, value)
        return value, bool(self.equals and self.equals(old, value))

    def _store(self, value: Any, old: T) -> None:
        """Store a changed value; the lock is held once."""
        state = STATE
        before, now = self.stamp, state.clock
        me = get_ident()
        if state.writer != me:
            state.writer, state.turned = me, now
        self.value = value
        self.stamp = state.clock = now + 1
        self.same = None
        self.by = me
        if state.held and me in state.held:
            # Also without observers: who subscribes later in this run or batch must be told.
            held = state.held[me]
            if self not in held:
                held[self] = old, before, now
                state.pending += 1
        elif self.subs:
            mark(self, me)
            if state.queue or state.relief:
                raise_settled()

    def __repr__(self) -> str:
        return f"<signal {self.name or hex(id(self))}: {self.value!r}>"


def create_signal(
    value: T, *, equals: Equals[T] = None, name: str | None = None
) -> tuple[Accessor[T], Setter[T]]:
    """Create a value that effects and memos follow; return what reads it and what writes it.

    `get()` reads and subscribes, `get.peek()` only reads. `set(value)` stores a value and returns
    when everything that depends on it has settled; `set(fn)` stores `fn(previous)`, so a function
    is stored by `set(lambda _: fn)`. Both return what is stored.

    A value equal to the present one changes nothing. `equals=None` compares built-in scalars by
    type and value, all else by identity; `equals=False` takes every value for a change;
    `equals=fn(old, new)` decides itself. Any thread may read and set.

        count, set_count = create_signal(0)
        create_effect(lambda: print(count()))
        set_count(lambda n: n + 1)
    """
    if equals is not None or name is not None:
        check_options("create_signal", equals, name)
    signal = Signal(value, equals, name)
    return signal, signal.set


def check_options(call: str, equals: object, name: object) -> None:
    """Refuse with a TypeError what is no equality, and what is no name."""
    if not (equals is None or equals is False or callable(equals)):
        kind = type(equals).__name__
        raise TypeError(f"{call}: equals is None, False or a function, not {kind}: {shown(equals)}")
    check_label(name, f"{call}: name")
