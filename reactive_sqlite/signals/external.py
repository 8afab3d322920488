"""Leaves whose values come from outside the graph, many at a time and from any thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, Generic, Protocol, TypeVar, cast

from .graph import mark
from .owner import get_owner, record, recording
from .scheduler import call_watchers, settle_now, stand_back
from .state import STATE, ErrorSink, Node

T = TypeVar("T")


class External(Node, Generic[T]):
    """A leaf whose value comes from outside the graph, such as a database query.

    `value` is the published value, readable without a lock. `watched` tells whether an effect is
    behind it; `on_watch` is called whenever that may have changed, outside every lock, by the
    thread that changed it and before its call returns. It is level-triggered: look at `watched`.

        rows = External([], on_watch=start_or_stop)
        publish([(rows, fetch())], on_error)
        flush(on_error)
    """

    __slots__ = ("__weakref__", "_volatile", "name", "on_watch", "stamp", "subs", "value")
    same = None
    by = 0  # its writes may fall into the very run that reads it

    value: T

    def __init__(
        self, value: T, *, name: str | None = None, on_watch: Callable[[], None] | None = None
    ) -> None:
        self.value = value
        self.name = name
        self.on_watch = on_watch
        self.subs = {}
        self.stamp = 0
        self._volatile = False

    @property
    def watched(self) -> bool:
        """Whether an effect, or a memo that leads to one, is subscribed."""
        return bool(self.subs)

    @property
    def volatile(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the value may be out of date without notice.

        While it is, a memo that leads to no effect trusts no cache it built from it, and computes
        at every read.
        """
        return self._volatile

    @volatile.setter
    def volatile(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, volatile: bool
    ) -> None:
        with STATE.lock:
            if volatile is not self._volatile:
                self._volatile = volatile
                STATE.volatiles += 1 if volatile else -1
                STATE.clock += 1  # memos that thought themselves fresh look again

    def track(self) -> bool:
        """Record this leaf as read by the running memo or effect; False when nothing records."""
        return record(self)

    def __del__(self) -> None:
        if self._volatile:
            with STATE.lock:
                STATE.volatiles -= 1

    def __repr__(self) -> str:
        return f"<external {self.name or hex(id(self))}>"


class Run(Protocol):
    """An effect whose run is under way, and which a write of its own must not cancel."""

    stale: bool
    own: bool
    publishing: set[int]


def current_run() -> Run | None:
    """Return the async effect whose own code runs on this thread, or None."""
    owner = get_owner()
    while owner is not None and not hasattr(owner, "publishing"):
        owner = owner.parent
    return cast("Run | None", owner)


def publish(
    changes: Sequence[tuple[External[Any], Any]], on_error: ErrorSink, by: Run | None = None
) -> None:
    """Store new values and tell their observers, as one change of the graph.

    Runs no user code, never raises, waits for none, whatever the calling thread holds or runs.
    Every pair counts as a change. Effects woken by it report their errors to `on_error`, whichever
    thread runs them; `flush` runs them here, if nobody else is about to. `by` is the async effect
    whose own doing this is, on another thread: it will run again, but is not cancelled.
    """
    state = STATE
    me = get_ident()
    with state.lock:
        marked = by is None or by.stale
        if state.writer != me:
            state.writer, state.turned = me, state.clock
        state.clock = stamp = state.clock + 1
        for leaf, value in changes:
            leaf.value = value
            leaf.stamp = stamp
        for leaf, _ in changes:
            if leaf.subs:
                mark(leaf, me, on_error)
        if by is not None and by.stale and not marked:
            by.own = True


def flush(on_error: ErrorSink, by: Run | None = None) -> None:
    """Run the effects that are due, and report their errors to `on_error`.

    Does nothing while another thread delivers (it will run them) or inside a batch, effect or memo
    of this thread (they run at its end).
    """
    state = STATE
    me = get_ident()
    if me in state.held:
        return
    with state.lock:
        if state.queue or state.inbox:
            if by is not None and by.stale and not by.own:
                by = None  # what waits for it is from elsewhere
            if by is not None:
                by.publishing.add(me)  # what other effects write in turn is its doing as well
            try:
                settle_now([], on_error)
            finally:
                if by is not None:
                    by.publishing.discard(me)
    if state.starving:
        stand_back()
    if state.flips:
        call_watchers()


def tracking() -> bool:
    """Tell whether something records what is read on this thread."""
    return recording()
