"""Who owns what is created now and who records what is read now; cleanups, error handlers."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from types import FunctionType
from typing import TypeVar

from ..arguments import check_callable, shown
from .graph import deferred
from .state import STATE, Node, Owner, Recorder

T = TypeVar("T")


class Scope(Owner):
    """An owner that computes nothing: a root, or the body of `catch_error`."""

    __slots__ = ("ended", "handler")

    def __init__(
        self, parent: Owner | None, handler: Callable[[Exception], object] | None = None
    ) -> None:
        self.parent = parent
        self.owned = self.cleanups = None
        self.handler = handler
        self.ended = False

    def dispose(self) -> None:
        """Dispose what was created inside and run the cleanups registered inside."""
        if deferred(self):
            return
        self.ended = True
        disown(self)
        raise_all(release_owned(self), "cleanups failed")

    def has_ended(self) -> bool:
        return self.ended


class Tracked:
    """Run a block with another recorder and owner on this thread."""

    __slots__ = ("before", "home", "owner", "recorder")

    def __init__(self, recorder: Recorder | None, owner: Owner | None) -> None:
        self.recorder = recorder
        self.owner = owner

    def __enter__(self) -> None:
        state = STATE
        me = get_ident()
        with state.lock:
            if me == state.home or not (state.nesting or me in state.others):
                state.home = me
                state.nesting += 1
                self.home = True
                self.before = state.recorder, state.owner
                state.recorder, state.owner = self.recorder, self.owner
            else:
                self.home = False
                self.before = state.others.get(me, (None, None))
                state.others[me] = self.recorder, self.owner

    def __exit__(self, *exc: object) -> None:
        state = STATE
        with state.lock:
            if self.home:
                state.recorder, state.owner = self.before
                state.nesting -= 1
            elif self.before == (None, None):
                state.others.pop(get_ident(), None)
            else:
                state.others[get_ident()] = self.before


def get_owner() -> Owner | None:
    """Return the owner of what would be created now, or None.

    Keep it to create things later that should end together with what is running now:

        owner = get_owner()
        ...
        run_with_owner(owner, lambda: create_effect(show))
    """
    state = STATE
    me = get_ident()
    return state.owner if me == state.home else state.others.get(me, (None, None))[1]


def run_with_owner(owner: Owner | None, fn: Callable[[], T]) -> T | None:
    """Call `fn`, untracked, so that what it creates belongs to `owner`.

    Returns what `fn` returns. An error goes to the `catch_error` around `owner` (then None is
    returned), else it is raised.
    """
    if not (owner is None or isinstance(owner, Owner)):  # pyright: ignore[reportUnnecessaryIsInstance]
        kind = type(owner).__name__
        raise TypeError(f"run_with_owner: owner is an Owner or None, not {kind}: {shown(owner)}")
    check_callable(fn, "run_with_owner: fn")
    with Tracked(None, owner):
        try:
            return fn()
        except Exception as error:
            _raise_unhandled(owner, error)
            return None


def create_root(fn: Callable[[Callable[[], None]], T]) -> T:
    """Call `fn(dispose)`, untracked, with a new owner of its own, and return its result.

    What `fn` creates lives until `dispose()` is called, also beyond the effect or root in which
    `create_root` itself was called. An error of `fn` disposes it, and is raised.

        dispose = create_root(lambda dispose: (create_effect(show), dispose)[1])
    """
    check_callable(fn, "create_root: fn")
    scope = Scope(get_owner())
    try:
        with Tracked(None, scope):
            return fn(scope.dispose)
    except BaseException:
        scope.dispose()
        raise


def on_cleanup(fn: Callable[[], object]) -> None:
    """Call `fn` before the running effect or memo runs again, and when it or its owner is disposed.

    Cleanups run last first, untracked, after those of children. Without an owner there is nobody
    to call it: RuntimeError.
    """
    check_callable(fn, "on_cleanup: fn")
    owner = get_owner()
    if owner is None:
        raise RuntimeError("on_cleanup: no effect, memo or root is running here to clean up after")
    if owner.cleanups is None:
        owner.cleanups = [fn]
    else:
        owner.cleanups.append(fn)


def catch_error(fn: Callable[[], T], handler: Callable[[Exception], object]) -> T | None:
    """Call `fn` and hand its errors, and later those of effects created in it, to `handler`.

    Returns what `fn` returns, or None after an error. An error raised by the handler goes to the
    next `catch_error` outside, else to whoever would have got the first one. What `fn` has created
    lives on after an error that was handled, and is disposed when one is raised here.

        catch_error(lambda: create_effect(risky), lambda error: set_message(str(error)))
    """
    check_callable(fn, "catch_error: fn")
    check_callable(handler, "catch_error: handler")
    state = STATE
    me = get_ident()
    scope = Scope(None, handler)
    adopt(scope)
    recorder = state.recorder if me == state.home else state.others.get(me, (None, None))[0]
    try:
        with Tracked(recorder, scope):
            try:
                return fn()
            except Exception as error:
                _raise_unhandled(scope, error)
                return None
    except BaseException:
        scope.dispose()
        raise


def untrack(fn: Callable[[], T]) -> T:
    """Call `fn`, whose reads do not subscribe the running effect or memo, and return its result."""
    if type(fn) is not FunctionType:
        check_callable(fn, "untrack: fn")
    state = STATE
    if get_ident() == state.home:
        # Only this thread touches the slot while it is at home, so the lock is not needed.
        outer = state.recorder
        if outer is None:
            return fn()
        state.recorder = None
        try:
            return fn()
        finally:
            state.recorder = outer
    if get_ident() not in state.others:
        return fn()
    with Tracked(None, get_owner()):
        return fn()


def recording() -> bool:
    """Tell whether reads on this thread are being recorded."""
    state = STATE
    if get_ident() == state.home:
        return state.recorder is not None
    return state.others.get(get_ident(), (None, None))[0] is not None


def record(node: Node) -> bool:
    """Record a read on whichever thread this is; False if it records nothing."""
    state = STATE
    if state.recorder is not None and get_ident() == state.home:
        state.recorder(node)
        return True
    return bool(state.others) and record_elsewhere(node)


def record_elsewhere(node: Node) -> bool:
    """Record a read on a thread that does not have the fast slot; False if it records nothing."""
    recorder = STATE.others.get(get_ident(), (None, None))[0]
    if recorder is None:
        return False
    recorder(node)
    return True


def adopt(child: Owner) -> None:
    """Make what is created now belong to the current owner."""
    parent = child.parent = get_owner()
    child.owned = child.cleanups = None
    if parent is not None:
        # Two threads may create under one owner, and a third may dispose it.
        with STATE.lock:
            if parent.owned is None:
                parent.owned = {child: None}
            else:
                parent.owned[child] = None


def disown(child: Owner) -> None:
    """Take a disposed child off its owner's list, so that the list does not grow for ever."""
    parent = child.parent
    if parent is not None:
        with STATE.lock:
            if parent.owned is not None:
                parent.owned.pop(child, None)


def release_owned(owner: Owner) -> list[Exception]:
    """Dispose the children, then run the cleanups, each last first; return what they raised."""
    with STATE.lock:
        owned, cleanups = owner.owned, owner.cleanups
        owner.owned = owner.cleanups = None
    errors: list[Exception] = []
    for child in reversed(owned or ()):
        try:
            child.dispose()
        except Exception as error:
            errors.append(error)
    if cleanups:
        with Tracked(None, None):
            for cleanup in reversed(cleanups):
                try:
                    cleanup()
                except Exception as error:
                    errors.append(error)
    return errors


def handled(owner: Owner | None, error: Exception) -> Exception | None:
    """Offer an error to the `catch_error` handlers around `owner`; None once one has taken it."""
    while owner is not None:
        if isinstance(owner, Scope) and owner.handler is not None:
            try:
                with Tracked(None, owner.parent):
                    owner.handler(error)
            except Exception as raised:
                error = raised
            else:
                return None
        owner = owner.parent
    return error


def one_error(errors: list[Exception], message: str) -> Exception:
    """Give one error as it is, and several as a group."""
    return errors[0] if len(errors) == 1 else ExceptionGroup(message, errors)


def raise_all(errors: list[Exception], message: str) -> None:
    """Raise the one error, or a group of several; nothing when there is none."""
    if errors:
        raise one_error(errors, message)


def _raise_unhandled(owner: Owner | None, error: Exception) -> None:
    left = handled(owner, error)
    if left is not None:
        raise left
