"""Effects: functions that run again when what they read has changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from threading import get_ident
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ..arguments import check_callable, check_flag, check_has, check_label, shown
from .graph import link, others_wrote, publish_held
from .memo import CO_COROUTINE, is_async
from .observer import Effect
from .owner import handled, one_error, release_owned, untrack
from .scheduler import call_watchers, report, settle_now
from .state import MISSING, STATE, Held, Node

if TYPE_CHECKING:
    from reactivex.abc import SchedulerBase

T = TypeVar("T")

_acquire, _release = STATE.lock.acquire, STATE.lock.release


@overload
def create_effect(
    fn: Callable[[], object],
    *,
    scheduler: SchedulerBase | None = None,
    name: str | None = None,
) -> Effect: ...
@overload
def create_effect(
    fn: Callable[[T], Awaitable[T]], initial: T, *, name: str | None = None
) -> Effect: ...
@overload
def create_effect(
    fn: Callable[[T], T],
    initial: T,
    *,
    scheduler: SchedulerBase | None = None,
    name: str | None = None,
) -> Effect: ...
def create_effect(
    fn: Callable[..., Any],
    initial: Any = MISSING,
    *,
    scheduler: SchedulerBase | None = None,
    name: str | None = None,
) -> Effect:
    """Run `fn` now, and again after each change of what it last read; once per batch.

    `fn` is called without arguments, or with what it returned last when `initial` is given. What it
    writes settles before the `set` that woke it returns. An error of the first run is raised here;
    later ones come out of the `set` or `batch` that caused the run. Runs happen on the thread that
    made the change or is delivering already; with `scheduler` (reactivex) the first run happens
    here and now, the later ones there, and their errors go to `threading.excepthook`.

        effect = create_effect(lambda: print(count()))
        effect.dispose()

    An `async def` runs as a task of the running event loop (RuntimeError without one). Its reads
    count across every `await` of its own, not in tasks it starts. A change from elsewhere cancels
    the run and starts the next when it has ended; what the run writes itself makes it run again
    afterwards. Errors go to the loop's exception handler.
    """
    effect: Effect
    asynchronous = False
    if type(fn) is not FunctionType or fn.__code__.co_flags & CO_COROUTINE:
        check_callable(fn, "create_effect: fn")
        asynchronous = is_async(fn)
    if name is not None:
        check_label(name, "create_effect: name")
    if scheduler is not None:
        check_has(scheduler, "schedule", "create_effect: scheduler")
    if asynchronous:
        from .async_effect import AsyncEffect  # asyncio takes its time

        if scheduler is not None:
            raise TypeError(
                "create_effect: scheduler is for no async effect, which runs on its loop"
            )
        effect = AsyncEffect(fn, initial, name)
    else:
        if scheduler is None:
            effect = started = SyncEffect(fn, initial, name)
        else:
            effect = started = ScheduledEffect(fn, initial, name, scheduler)
        started.start()
    if effect.parent is not None and effect.parent.has_ended():
        effect.dispose()  # its owner was disposed before it was there to be disposed with it
    return effect


def on(
    deps: Callable[[], Any] | Sequence[Callable[[], Any]],
    fn: Callable[[Any, Any], T],
    *,
    defer: bool = False,
) -> Callable[..., T | None]:
    """Make a function for `create_effect` or `create_memo` that follows `deps` and nothing else.

    `fn` is called untracked as `fn(value, previous)`: the value of the accessor `deps`, or the list
    of values when `deps` is a sequence; `previous` is None the first time. With `defer` the first
    run only looks, and `fn` is called from the first change on.

        create_effect(on(count, lambda now, before: print(before, "->", now), defer=True))
    """
    if not callable(deps):
        if not isinstance(deps, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                "on: deps is an accessor or a sequence of them, not "
                f"{type(deps).__name__}: {shown(deps)}"
            )
        for number, dep in enumerate(deps):
            check_callable(dep, f"on: deps[{number}]")
    check_callable(fn, "on: fn")
    check_flag(defer, "on: defer")
    previous: Any = None
    waiting = defer

    def follow(*_: Any) -> T | None:
        nonlocal previous, waiting
        value: Any = deps() if callable(deps) else [dep() for dep in deps]
        before, previous = previous, value
        if waiting:
            waiting = False
            return None
        return untrack(lambda: fn(value, before))

    return follow


class SyncEffect(Effect):
    """An effect that runs on the thread that delivers."""

    __slots__ = ()

    def start(self) -> None:
        """Run for the first time.

        Whatever is raised here, be it an error of what its writes have woken, ends the effect:
        nobody gets a handle by which to do it.
        """
        state = STATE
        me = get_ident()
        errors: list[Exception] | None = None
        try:
            _acquire()
            try:
                if me in state.held:
                    failed = SyncEffect.run(self, me, None)
                else:
                    changes: Held = {}
                    state.held[me] = changes
                    try:
                        failed = SyncEffect.run(self, me, changes)
                    finally:
                        del state.held[me]
                        if state.queue or state.inbox:
                            errors = []
                            settle_now(errors)
            finally:
                _release()
            if state.flips:
                call_watchers()
            if failed is not None or errors:
                errors = errors or []
                raise one_error(errors if failed is None else [failed, *errors], "effects failed")
        except BaseException:
            self.dispose()
            raise

    def run(self, me: int, changes: Held | None) -> Exception | None:
        state = STATE
        fn, start = self.fn, state.clock
        if fn is None:  # disposed together with its owner, by another thread
            return None
        raw: list[Node] = []
        errors: list[Exception] | None = None
        home = me == state.home or not (state.nesting or me in state.others)
        outer: Any = None
        owner: Any = None
        nesting = state.nesting
        if home:
            state.home = me
            outer, owner = state.recorder, state.owner
            state.nesting = nesting + 1
            state.recorder = None
        else:
            outer = state.others.get(me)
            state.others[me] = None, None
        self.running = me
        self.stale = False
        failed: Exception | None = None
        _release()
        try:
            if self.owned or self.cleanups:
                errors = release_owned(self)
            if home:
                state.owner = self
                state.recorder = raw.append
            else:
                state.others[me] = raw.append, self
            if self.previous:
                self.value = fn(self.value)
            else:
                fn()
        except Exception as error:
            (errors := errors or []).append(error)
            if isinstance(error, RecursionError):
                raw += self.sources  # it got less far than its reader's stack let it last time
        finally:
            if home:
                state.recorder = outer
                state.owner = owner
                state.nesting = nesting
            elif outer is None:
                state.others.pop(me, None)
            else:
                state.others[me] = outer
            try:
                if errors:
                    failed = handled(self.parent, one_error(errors, "an effect failed"))
            finally:
                _acquire()
            self.running = 0
            self.seen = start
            if self.fn is None:
                failed = self._end(failed)
            elif raw != self.raw:
                link(self, raw, me)
            if state.clock != start or changes:
                own = bool(changes) and (not state.deliverer or state.deliverer == me)
                if others_wrote(start, me):
                    own = False
                    self._doubt(start)
                if changes:
                    publish_held(changes, me)
                    changes.clear()
                if not self.stale and self.fn is not None:
                    self._look_again(start, own=own)
        return failed

    def _doubt(self, start: int) -> None:
        """Run again, whatever the sources say, if one has changed since the run began.

        It may have been read in the middle of another thread's batch, which then gave it back the
        value it had at the start: for whoever has seen `start`, nothing has changed.
        """
        for source in self.sources:
            if source.stamp > start:
                self.seen = -1
                return

    def _look_again(self, start: int, *, own: bool) -> None:
        """Queue itself if a source may have changed between being read and being subscribed."""
        state = STATE
        for source in self.sources:
            if source.stamp > start or (source.is_memo and source.stale):
                self.stale = True
                self.sink = None
                (state.queue if own else state.inbox).append(self)
                return

    def _end(self, failed: Exception | None) -> Exception | None:
        """Clean up after a run in which the effect was disposed; the lock is held once."""
        if not (self.owned or self.cleanups):
            return failed
        _release()
        try:
            errors = release_owned(self)
        finally:
            _acquire()
        if failed is not None:
            errors.insert(0, failed)
        return one_error(errors, "an effect failed") if errors else None


class ScheduledEffect(SyncEffect):
    """An effect whose runs after the first a reactivex scheduler performs."""

    __slots__ = ("asked", "scheduler")

    def __init__(
        self, fn: Callable[..., Any], initial: Any, name: str | None, scheduler: SchedulerBase
    ) -> None:
        super().__init__(fn, initial, name)
        self.scheduler = scheduler
        self.asked = False

    def run(self, me: int, changes: Held | None) -> Exception | None:
        # It stays stale until the scheduler gets to it, so that further changes ask no second time.
        if not self.asked:
            self.asked = True
            _release()
            try:
                self.scheduler.schedule(self._act)
            except Exception as error:
                self.asked = self.stale = False  # or no change would ever ask it again
                return error
            finally:
                _acquire()
                if changes:  # it acted at once
                    publish_held(changes, me)
                    changes.clear()
        return None

    def _act(self, scheduler: SchedulerBase, _: Any = None) -> None:
        state = STATE
        me = get_ident()
        failed: Exception | None = None
        with state.lock:
            # On a pool of threads a run may be under way: it will see that another is asked for.
            if self.fn is None or self.running or not self.asked:
                return
            self.asked = False
            sink = self.sink or report
            if me in state.held:
                failed = SyncEffect.run(self, me, None)
            else:
                changes: Held = {}
                state.held[me] = changes
                try:
                    failed = SyncEffect.run(self, me, changes)
                finally:
                    del state.held[me]
                    if state.queue or state.inbox:
                        settle_now([], report)
        if state.flips:
            call_watchers()
        if self.asked:
            scheduler.schedule(self._act)
        if failed is not None:
            sink(failed)
