"""Effects that are coroutines: what they read counts across every await, one run at a time.

A run is one task of its own, since `asyncio.timeout` and task groups ask for the current task. The
coroutine is stepped by hand, so that reads are recorded only while its own code runs and never in a
task that it starts; a context variable would be inherited by those.

            change from elsewhere                          own write
    idle ──────────────────────► run ──► ended    run ─────────────► run ──► ended ──► run
                                  │ change                (marked, not cancelled)
                                  └──► cancelled ──► ended ──► run
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from threading import get_ident
from types import coroutine
from typing import Any

from .graph import attach, deferred, others_wrote, publish_held, release, settle
from .observer import Effect
from .owner import Tracked, disown, handled, one_error, raise_all, release_owned
from .scheduler import call_watchers, settle_now
from .state import STATE, Held, Node


class AsyncEffect(Effect):
    """An effect that runs as a task of the event loop it was created on."""

    __slots__ = (
        "again",
        "cancelled",
        "context",
        "kept",
        "loop",
        "own",
        "publishing",
        "reads",
        "task",
        "waking",
    )
    dirty = True  # whether a change concerns it is decided by `run`, read by read

    def __init__(
        self, fn: Callable[..., Coroutine[Any, Any, Any]], initial: Any, name: str | None
    ) -> None:
        try:
            self.loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                "create_effect: an async effect needs a running event loop on this thread"
            ) from None
        super().__init__(fn, initial, name)
        self.context = copy_context()
        self.reads: dict[Node, int] = {}  # what this run has read, and at which clock
        self.kept: dict[Node, None] = {}  # subscriptions of the last run, not read again so far
        self.own = False  # marked by its own write, which nobody has delivered so far
        self.publishing: set[int] = set()  # threads that deliver what a run has caused
        self.waking = False
        self._begin()

    def run(self, me: int, changes: Held | None) -> Exception | None:
        """Take note of a change: restart, or run again later; the lock is held once."""
        state = STATE
        own = self.own or (me in self.publishing and not state.foreign)
        self.own = self.stale = False
        if self._unchanged():
            return None
        if own and self.running:
            self.again = True
            # What it will see then: only a change that comes on top of it is from elsewhere.
            self.reads = dict.fromkeys(self.reads, state.clock)
        elif not self.waking:
            self.waking = True
            try:
                self.loop.call_soon_threadsafe(self._wake)
            except RuntimeError:  # the loop is closed: nobody will ever run it again
                self.running = 0
                state.lock.release()
                try:
                    self.dispose()
                finally:
                    state.lock.acquire()
        return None

    def dispose(self) -> None:
        """Stop: a run under way is cancelled, and cleaned up after when it has ended.

        A run that disposes its own effect is left to finish.
        """
        state = STATE
        if deferred(self):
            return
        with state.lock:
            if self.fn is None:
                return
            self.fn = None
            release(self, (*self.reads, *self.kept))
            self.reads, self.kept = {}, {}
            running = self.running
        disown(self)
        try:
            if not running:
                raise_all(release_owned(self), "cleanups failed")
            elif running == get_ident():
                self._stop()
            elif not self.loop.is_closed():
                self.loop.call_soon_threadsafe(self._stop)
        finally:
            if state.flips:
                call_watchers()

    def _begin(self) -> None:
        """Start a run; on the loop's thread."""
        with STATE.lock:
            if self.fn is None:
                return
            self.running = get_ident()
            self.kept.update(dict.fromkeys(self.reads))
            self.reads = {}
            self.stale = self.own = self.cancelled = False
            self.again = False  # run once more when this run has ended
        # Not by the loop's task factory: an eager one would run the first step in here.
        task = asyncio.Task(self._main(), context=self.context.copy())
        task.add_done_callback(self._ended)
        self.task: asyncio.Task[None] | None = task

    async def _main(self) -> None:
        errors = release_owned(self)
        fn = self.fn
        if fn is not None:
            try:
                value = await self._drive(fn(self.value) if self.previous else fn())
                if self.previous:
                    self.value = value
            except Exception as error:
                errors.append(error)
        if errors:
            raise one_error(errors, "an async effect failed")

    @coroutine
    def _drive(self, steps: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        advance: Callable[[Any], Any] = steps.send
        value: Any = None
        while True:
            try:
                awaited = self._step(advance, value)
            except StopIteration as end:
                return end.value
            try:
                value = yield awaited
                advance = steps.send
            except BaseException as error:  # cancellation included: it belongs to the coroutine
                value = error
                advance = steps.throw

    def _step(self, advance: Callable[[Any], Any], value: Any) -> Any:
        """Run the coroutine's code up to its next await."""
        state = STATE
        me = get_ident()
        start = state.clock
        if me in state.held:  # stepped inside a batch, whose end tells the observers
            try:
                with Tracked(self._record, self):
                    return advance(value)
            finally:
                if state.clock != start:
                    with state.lock:
                        self._doubt(start, me)
        changes: Held = {}
        state.held[me] = changes
        try:
            with Tracked(self._record, self):
                return advance(value)
        finally:
            self._publish(changes, start, me)

    def _record(self, node: Node) -> None:
        """Subscribe at the read itself: a change during the next await must not get lost."""
        if node in self.reads:
            return
        state = STATE
        with state.lock:
            if self.fn is None:
                return
            if node in self.kept:
                del self.kept[node]
            else:
                attach(node, self)
            # Marked between being settled and being subscribed; then nothing would mark us.
            while node.is_memo and node.stale and node.fn is not None:
                settle(node)
            self.reads[node] = state.clock
        if state.flips:
            call_watchers()
            self.reads[node] = state.clock  # what a watcher has published is about to be read

    def _publish(self, changes: Held, start: int, me: int) -> None:
        state = STATE
        errors: list[Exception] = []
        with state.lock:
            del state.held[me]
            if state.clock != start:
                self._doubt(start, me)
            theirs = self.stale and not self.own
            if changes:
                publish_held(changes, me)
                self.own = self.stale and not theirs
            if state.queue or state.inbox:
                if not theirs:
                    self.publishing.add(me)
                try:
                    settle_now(errors)
                finally:
                    self.publishing.discard(me)
        for error in errors:
            self._complain(error, "an effect failed after an async effect's write")

    def _doubt(self, start: int, me: int) -> None:
        """Run again, whatever the sources say, if one has changed since this step read it.

        The value may be one of those in the middle of another thread's batch, which then gave it
        back the one it had when the read was noted.
        """
        if not others_wrote(start, me) or self.fn is None:
            return
        doubtful = [
            node for node, seen in self.reads.items() if seen >= start and node.stamp > seen
        ]
        if doubtful:
            self.reads.update(dict.fromkeys(doubtful, -1))
            self.run(me, None)

    def _unchanged(self) -> bool:
        """Whether all it has read is as it was when it read it; the lock is held once."""
        for node, seen in list(self.reads.items()):
            if node.is_memo and node.stale and node.fn is not None:
                settle(node)
            same = node.same
            if node.stamp > seen and not (same is not None and same[0] <= seen <= same[1]):
                return False
        return True

    def _wake(self) -> None:
        """Restart after a change from elsewhere; on the loop's thread."""
        with STATE.lock:
            self.waking = False
            running = self.running
            if running:
                self.again = True
        if not running:
            self._begin()
        elif not self.cancelled and self.fn is not None:
            self.cancelled = True
            if self.task is not None:
                self.task.cancel()

    def _stop(self) -> None:
        if self.task is not None and self.task is not asyncio.current_task(self.loop):
            self.task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Follow up a run that has ended in whatever way; on the loop's thread."""
        state = STATE
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            left = handled(self.parent, error)
            if left is not None:
                self._complain(left, f"async effect {self.title()} failed")
        with state.lock:
            again = self.again and self.fn is not None
            self.running = 0
            self.task = None
            if not again:
                release(self, self.kept)
                self.kept = {}
        if self.fn is None:
            errors = release_owned(self)
            if errors:
                self._complain(one_error(errors, "cleanups failed"), "an effect's cleanup failed")
        elif again:
            self._begin()
        if state.flips:
            call_watchers()

    def _complain(self, error: Exception, message: str) -> None:
        self.loop.call_exception_handler({"message": message, "exception": error})
