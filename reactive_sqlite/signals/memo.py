"""Memos: values that are computed from others when somebody asks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import get_ident
from types import FunctionType
from typing import Any, TypeVar, overload

from ..arguments import check_callable
from ..errors import CycleError
from .computation import Memo
from .owner import record, record_elsewhere
from .signal import Accessor, Equals, check_options
from .state import MISSING, STATE

T = TypeVar("T")

CO_COROUTINE = 0x80


@overload
def create_memo(
    fn: Callable[[], T], *, equals: Equals[T] = None, name: str | None = None
) -> Accessor[T]: ...
@overload
def create_memo(
    fn: Callable[[T], T], initial: T, *, equals: Equals[T] = None, name: str | None = None
) -> Accessor[T]: ...
def create_memo(
    fn: Callable[..., T],
    initial: Any = MISSING,
    *,
    equals: Equals[T] = None,
    name: str | None = None,
) -> Accessor[T]:
    """Create a value computed from others: lazily, once per change, never from a mix of states.

    `fn` is called without arguments, or with the previous value when `initial` is given. An error
    in it is kept and raised to every reader until something it read changes; but a RecursionError
    not, since the next reader may have more stack. Nobody reading it, it holds no subscription and
    costs nothing. `equals` is that of `create_signal`.

        total = create_memo(lambda: price() * amount())

    Raises TypeError for an `async def`: that is what `create_resource` is for.
    """
    # The commonest callable is recognised here, since a call would cost a third of creation.
    if type(fn) is not FunctionType or fn.__code__.co_flags & CO_COROUTINE:
        check_callable(fn, "create_memo: fn")
        if is_async(fn):
            raise TypeError(
                f"create_memo: fn is async ({getattr(fn, '__qualname__', fn)!s}), and a memo has "
                "its value at once; use create_resource"
            )
    if equals is not None or name is not None:
        check_options("create_memo", equals, name)
    memo = Memo(fn, initial, equals, name)

    # A function, and not the memo with a `__call__`: reading a memo for the first time calls down
    # a chain of them, and CPython 3.12 gives calls of instances a small stack of its own that no
    # recursion limit extends. It is also faster to call.
    def get() -> T:
        state = STATE
        if (
            (memo.stale or not memo.live or state.pending)
            and (memo.seen != state.clock or memo.volatile)
            and memo.fn is not None
        ):
            try:
                memo.refresh()
            except CycleError:
                record(memo)  # or its reader would keep the error for ever
                raise
        recorder = state.recorder
        if recorder is not None and get_ident() == state.home:
            recorder(memo)
        elif state.others:
            record_elsewhere(memo)
        if memo.error is not None:
            memo.throw()
        return memo.value

    if name is not None:
        get.__qualname__ = name
    attributes: Any = get
    attributes.peek = memo.peek
    accessor: Accessor[T] = attributes
    return accessor


def is_async(fn: Any) -> bool:
    """Tell whether calling `fn`, a function, method, partial or callable object, gives a coroutine.

    As `inspect.iscoroutinefunction`, whose module would take half the time of importing this one.
    """
    while issubclass(type(fn), partial):
        fn = fn.func
    fn = getattr(fn, "__func__", fn)
    if not hasattr(fn, "__code__"):
        fn = getattr(getattr(fn, "__call__", None), "__func__", None)  # noqa: B004
    code = getattr(fn, "__code__", None)
    return code is not None and bool(code.co_flags & CO_COROUTINE)
