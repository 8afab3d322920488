"""What a memo keeps, and how it runs."""

from __future__ import annotations

from collections.abc import Callable
from sys import maxsize
from threading import get_ident
from typing import Any, Generic, TypeVar

from .graph import (
    Ring,
    deferred,
    link,
    name_cycle,
    outdate,
    publish_held,
    same_value,
    settle,
    unlink,
    wait,
)
from .owner import adopt, disown, one_error, raise_all, release_owned
from .scheduler import call_watchers, raise_settled
from .signal import Equals
from .state import MISSING, SCALARS, STATE, Held, Node, Owner

T = TypeVar("T")

UNSET: Any = None

_acquire, _release = STATE.lock.acquire, STATE.lock.release


class Memo(Owner, Node, Generic[T]):
    """A computed value; `create_memo` makes the accessor, which is a function."""

    __slots__ = (
        "__weakref__",
        "checking",
        "dirty",
        "earlier",
        "equals",
        "error",
        "fn",
        "live",
        "name",
        "previous",
        "raw",
        "running",
        "same",
        "seen",
        "sources",
        "stale",
        "stamp",
        "subs",
        "value",
        "volatile",
    )
    is_memo = True
    by = 0
    on_watch = None

    value: T

    def __init__(
        self, fn: Callable[..., T], initial: Any, equals: Equals[T], name: str | None
    ) -> None:
        if STATE.owner is not None or STATE.others:
            adopt(self)
        else:
            self.parent = self.owned = self.cleanups = None
        self.fn = fn
        self.previous = initial is not MISSING
        self.value = initial if self.previous else UNSET
        self.error: tuple[Exception, Any] | None = None
        self.earlier = None
        self.same = None
        self.equals = equals
        self.name = name
        self.subs = {}
        self.sources = self.raw = ()
        self.stale = self.dirty = True
        self.live = self.volatile = False
        self.running = self.checking = self.stamp = 0
        self.seen = -1

    def peek(self) -> T:
        if (
            (self.stale or not self.live or STATE.pending)
            and (self.seen != STATE.clock or self.volatile)
            and self.fn is not None
        ):
            self.refresh()
        if self.error is not None:
            self.throw()
        return self.value

    def has_ended(self) -> bool:
        return self.fn is None and not self.running

    def dispose(self) -> None:
        if deferred(self):
            return
        with STATE.lock:
            if self.fn is None:
                return
            self.fn = None
            unlink(self)
            self.live = self.stale = self.dirty = self.volatile = False
            running = self.running
        disown(self)
        if not running:
            errors = release_owned(self)
            call_watchers()
            raise_all(errors, "cleanups failed")

    def recompute(self, me: int) -> None:
        """Run once; the memo is still dirty afterwards when the run had to be thrown away."""
        state = STATE
        fn, start = self.fn, state.clock
        raw: list[Node] = []
        value: Any = None
        failure: Exception | None = None
        errors: list[Exception] | None = None
        home = me == state.home or not (state.nesting or me in state.others)
        outer: Any = None
        owner: Any = None
        before: Any = None
        nesting = state.nesting
        if home:
            state.home = me
            outer, owner = state.recorder, state.owner
            state.nesting = nesting + 1
        else:
            # The place is taken before the lock is given up, else cleanups and children get lost.
            before = state.others.get(me)
            state.others[me] = None, None
        same: bool | None = None
        changes: Held | None = None
        if me not in state.held:
            changes = state.held[me] = {}
        self.running = me
        _release()
        try:
            if self.owned or self.cleanups:
                errors = release_owned(self)
            if home:
                state.owner = self
                state.recorder = raw.append
            else:
                state.others[me] = raw.append, self
            value = fn(self.value) if self.previous else fn()
            if self.equals and self.seen >= 0 and self.error is None:
                if home:
                    state.recorder = None
                else:
                    state.others[me] = None, self
                same = self.equals(self.value, value)
            if errors:
                failure = one_error(errors, "cleanups failed")
        except Exception as error:
            failure = error
            if isinstance(error, RecursionError):
                raw += (*self.sources, STACK)
        except Ring:
            if state.rings[me][0] is not self:
                raise
        finally:
            _acquire()
            self.running = 0
            if home:
                state.recorder = outer
                state.owner = owner
                state.nesting = nesting
            elif before is None:
                del state.others[me]
            else:
                state.others[me] = before
            if changes is not None:
                del state.held[me]
                if changes:
                    publish_held(changes, me)
                    state.wrote = True
            if state.rings and me in state.rings:
                self.dirty = True
                outdate(self, start, me)
            if state.waiting:
                state.condition.notify_all()
        if state.rings and me in state.rings:
            self._give_way(me)
            return
        if self.fn is None:
            self._end(value, failure)
            return
        if raw != self.raw:
            link(self, raw, me)
        stamp = start
        if state.clock == start:
            self.stale = False
        else:
            if not self.stale:
                outdate(self, start, me)
            stamp = self._stamp_of_run(start, me)
            if stamp < 0:
                self.dirty = True
                return
        self.dirty = False
        if state.volatiles or self.volatile:
            self.volatile = not self.live and any(source.volatile for source in self.sources)
        if failure is not None or self.error is not None:
            self._turn(value, failure, start, me)
        elif self.seen < 0:
            if state.pending:
                self._remember(MISSING, value, start)
            self.value = value
        else:
            old = self.value
            if self.equals is None:
                # As `same_value`; a call would cost as much as all else here.
                new: object = value
                same = value is old or (
                    (kind := type(new)) is type(old)
                    and kind in SCALARS
                    and (value == old or (value != value and same_value(value, old)))
                )
            if same:
                self.seen = start
                if not state.pending:
                    self.earlier = None
                return
            if state.pending or self.same is not None or self.earlier is not None:
                self._remember(old, value, start)
            self.value = value
        self.stamp = stamp
        self.seen = start  # last: readers without the lock trust it

    def _stamp_of_run(self, start: int, me: int) -> int:
        """The stamp for what a run has given during which something was written.

        -1 when another thread's write fell into it: then the run is thrown away, its error too, and
        is done again. What readers get belongs to one state of the graph.
        """
        stamp = start
        for source in self.sources:
            if source.stamp > start and source is not STACK:
                if source.by != me:
                    return -1
                stamp = STATE.clock
        return stamp

    def _turn(self, value: Any, failure: Exception | None, start: int, me: int) -> None:
        """Take over a first value, an error, or a value after an error."""
        if failure is not None:
            if me in STATE.cycles:
                name_cycle(self, failure, me)
            self._remember(self.value if self.error is None else MISSING, MISSING, start)
            self.error = failure, failure.__traceback__
            if isinstance(failure, RecursionError):
                self.volatile = not self.live
        else:
            self._remember(MISSING, value, start)
            self.value = value
            self.error = None

    def _remember(self, old: Any, value: Any, start: int) -> None:
        """Notice when a batch, in which the memo was read, gives it back the value it had before.

        Who has seen that value, and none of those between, need not run. MISSING stands for an
        error, which equals nothing.
        """
        state = STATE
        self.same = None
        if self.earlier is not None and not self.earlier[2] < state.calm <= self.seen:
            before, changed, until = self.earlier
            if value is not MISSING and same_value(before, value):
                self.same = changed, until
        else:  # nothing remembered, or from a batch that it has been checked after
            self.earlier = old, self.stamp, start - 1
        if not state.pending:
            self.earlier = None

    def refresh(self) -> None:
        """Settle what this memo depends on, and itself."""
        state = STATE
        _acquire()
        try:
            # Where it is plain that it must run, there is no need to look at its sources first.
            if not self.running and (
                self.dirty
                or (
                    (sources := self.sources)
                    and not (first := sources[0]).is_memo
                    and first.stamp > self.seen
                    and first.same is None
                )
            ):
                self.recompute(get_ident())
                if self.dirty:
                    settle(self)
            else:
                settle(self)
            if state.wrote and get_ident() not in state.held:
                state.wrote = False
                if state.queue or state.inbox:
                    raise_settled()
        finally:
            _release()
            if state.flips:
                call_watchers()

    def _give_way(self, me: int) -> None:
        """Give up a run that is part of a ring of waiting threads, or lies inside such a run."""
        state = STATE
        target, wanted = state.rings[me]
        if target is not self:
            raise Ring  # the user's code swallowed it
        del state.rings[me]
        if wanted.running and wanted.running != me:
            wait(wanted, me)

    def _end(self, value: Any, failure: Exception | None) -> None:
        """Finish a run in which the memo was disposed."""
        self.value = value
        self.error = None if failure is None else (failure, failure.__traceback__)
        if self.owned or self.cleanups:
            _release()
            try:
                raise_all(release_owned(self), "cleanups failed")
            finally:
                _acquire()

    def throw(self) -> None:
        """Raise the error that the last run ended with."""
        error = self.error
        if error is not None:
            raise error[0].with_traceback(error[1])

    def __repr__(self) -> str:
        return f"<memo {self.title()}>"


class Nobody(dict[Node, None]):
    """The observers of what changes without notice: none is kept, or it would live for ever."""

    def __setitem__(self, node: Node, _: None) -> None:
        return


class Stack(Node):
    """What a memo has read whose run the stack was too short for: always newer than any memo.

    The error tells about the reader, not about what the memo read: the next one tries again.
    """

    stamp = maxsize
    same = None
    by = 0
    volatile = False
    on_watch = None
    subs = Nobody()


STACK = Stack()
