"""When effects run: at the end of the change that woke them, on one thread at a time.

One thread delivers. What its own effects cause goes to `queue` and counts as further rounds of the
same settling, which must come to an end. What other threads cause meanwhile goes to `inbox`: their
`set` returns at once, and the deliverer runs it for them, but not for longer than is fair.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from operator import attrgetter
from threading import get_ident
from time import monotonic
from types import TracebackType
from typing import Any

from ..errors import CycleError
from .graph import publish_held, settle
from .owner import one_error, untrack
from .state import STATE, ErrorSink, Held, Node

ROUNDS = 100
# Seconds for which a deliverer runs what other threads cause; a thread with an event loop less.
PATIENCE = 0.05
LOOP_PATIENCE = 0.005
# Seconds after which a thread is made for it, when none of those others can take over.
HELP_AFTER = 0.5
# Seconds that a writer stands back at most.
LONGEST_PAUSE = 1.0

by_order = attrgetter("order")
_acquire, _release = STATE.lock.acquire, STATE.lock.release


class Batch:
    """The block that `batch()` opens. It is the same for all: what is open is known by thread."""

    __slots__ = ()

    def __enter__(self) -> None:
        me = get_ident()
        if me in STATE.held:  # in a batch already, or in a run, which is one
            STATE.nested[me] = STATE.nested.get(me, 0) + 1
        else:
            STATE.held[me] = {}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        state = STATE
        me = get_ident()
        if state.nested and me in state.nested:
            state.nested[me] -= 1
            if not state.nested[me]:
                del state.nested[me]
            return
        changes = state.held[me]
        if not (changes or state.queue or state.inbox):
            del state.held[me]
            return
        errors: list[Exception] = []
        reverted = _reverted(changes, errors) if state.custom else ()
        _acquire()
        try:
            del state.held[me]
            if changes:
                publish_held(changes, me, reverted)
            if state.queue or state.inbox:
                if state.deliverer or state.walking:
                    settle_now(errors)
                else:
                    deliver(errors)
        finally:
            _release()
        if errors:
            _raise_from_batch(errors, error)
        if state.starving:
            stand_back()


_BATCH = Batch()


def batch() -> Batch:
    """Hold effects back until the block ends, then run each that is due once.

    Values written inside are read at once, by memos too. Blocks nest; effects run at the end of the
    outermost one, also when it raises. No `await` belongs inside: a batch is its thread's.

        with batch():
            set_first("Ada")
            set_last("Lovelace")
    """
    return _BATCH


def raise_settled() -> None:
    """Run what is due now; the lock is held once. Errors are raised."""
    errors: list[Exception] = []
    if STATE.deliverer or STATE.walking:
        settle_now(errors)
    else:
        deliver(errors)
    if errors:
        raise one_error(errors, "effects failed")


def settle_now(errors: list[Exception], sink: ErrorSink | None = None) -> None:
    """Run what is due now, unless another thread is at it; the lock is held once."""
    state = STATE
    if state.walking:
        return  # a finalizer wrote in the middle of a walk, whose end sees to it
    if not state.deliverer:
        deliver(errors, sink)
    elif state.relief and state.deliverer != get_ident() and not loop_runs():
        # The deliverer has worked for others, such as this thread, for long enough. Only for a
        # moment: the effect it is in may be waiting for this very thread.
        state.takers += 1
        state.condition.wait_for(lambda: not state.deliverer, PATIENCE)
        state.takers -= 1
        if not state.deliverer and (state.queue or state.inbox):
            deliver(errors, sink)


def deliver(
    errors: list[Exception], sink: ErrorSink | None = None, *, relieved: bool = True
) -> None:
    """Run what is due until nothing is; the lock is held once, and nobody else delivers.

    An error goes to the sink its effect was woken with, else to `sink`. Where there is neither,
    those of what this thread caused go to `errors`, the others to `threading.excepthook`. What
    others cause is handed on after a while, if the thread may be `relieved`.
    """
    state = STATE
    me = state.deliverer = get_ident()
    state.foreign = state.relief = False
    changes: Held = {}
    state.held[me] = changes
    due: Sequence[Node] = ()
    missed: list[Node] | None = None
    position = rounds = 0
    deadline = 0.0
    try:
        while True:
            if state.queue:
                taken, state.queue = state.queue, []
                rounds += 1
            elif state.inbox:
                if not state.foreign:
                    state.foreign = True
                    deadline = monotonic() + (LOOP_PATIENCE if loop_runs() else PATIENCE)
                elif relieved and monotonic() > deadline and _hand_over(deadline):
                    return
                taken, state.inbox = state.inbox, []
                rounds = 0
            elif changes:  # of watchers and cleanups between the runs
                publish_held(changes, me)
                changes.clear()
                continue
            else:
                return
            due, position = taken, 0
            if len(taken) > 1:
                taken.sort(key=by_order)
            if rounds > ROUNDS:
                position = len(due)
                own_sink = next((effect.sink for effect in due if effect.sink), sink)
                _file(_give_up(taken), own_sink, errors)
                continue
            for effect in due:
                position += 1
                if effect.stale and effect.fn is not None:
                    own_sink = effect.sink or sink
                    failed: Exception | None = None
                    try:
                        # The commonest case, that a signal read first has changed, needs no walk.
                        sources = effect.sources
                        if (
                            sources
                            and not (first := sources[0]).is_memo
                            and first.stamp > effect.seen
                            and first.same is None
                        ) or settle(effect):
                            failed = effect.run(me, changes)
                    except Exception as raised:  # a cycle, or the stack's end, before it could run
                        failed = raised
                        if effect.stale:
                            missed = [*(missed or ()), effect]
                    if failed is not None:
                        _file(failed, own_sink, errors)
                    if state.flips:
                        _call_watchers_unlocked()
    finally:
        if missed or position < len(due):  # interrupted: keep what is left for the next change
            state.queue[:0] = [*(missed or ()), *due[position:]]
        if changes:
            publish_held(changes, me)
        del state.held[me]
        state.deliverer = 0
        if state.takers:
            state.condition.notify_all()


def stand_back() -> None:
    """Wait a moment, after a write, for a memo on another thread that writes keep spoiling.

    Only for a moment, longer the more often it has failed: the memo may be waiting for this very
    thread. And never inside a batch or run, nor on an event loop's thread.
    """
    state = STATE
    me = get_ident()
    if me in state.held or loop_runs():
        return
    with state.lock:
        pause = min(PATIENCE * 2 ** (state.starving - 1), LONGEST_PAUSE)
        state.condition.wait_for(lambda: not state.starving, pause)


def call_watchers() -> None:
    """Tell the leaves that gained a first or lost their last observer; no lock is held."""
    flips = STATE.flips
    if flips:
        mine = flips.get(get_ident())
        while mine:
            node, _ = mine.popitem()
            if node.on_watch is not None:
                untrack(node.on_watch)
        flips.pop(get_ident(), None)
    while STATE.graves:
        STATE.graves.pop().dispose()


def report(error: BaseException) -> None:
    """Hand an error that nobody can be given to `threading.excepthook`."""
    threading.excepthook(
        threading.ExceptHookArgs(
            (type(error), error, error.__traceback__, threading.current_thread())
        )
    )


def loop_runs() -> bool:
    """Tell whether an asyncio loop is running on this thread; asyncio is not loaded for it."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def _reverted(changes: Held, errors: list[Exception]) -> list[Node]:
    """The signals with an equality of their own that a batch has left as it found them."""
    return [
        node
        for node, (old, _, _) in list(changes.items())
        if node.equals and _is_reverted(node, old, errors)
    ]


def _raise_from_batch(errors: list[Exception], error: BaseException | None) -> None:
    """Raise what effects raised at the end of a batch, together with what its body raised."""
    if error is None:
        raise one_error(errors, "effects failed")
    if isinstance(error, Exception):
        raise ExceptionGroup("a batch and the effects it caused failed", [error, *errors])
    for one in errors:
        report(one)


def _is_reverted(node: Node, old: Any, errors: list[Exception]) -> bool:
    """Ask a signal's own equality whether a batch has left it as it found it."""
    stamp, value = node.stamp, node.value
    try:
        return untrack(lambda: node.equals(old, value)) and node.stamp == stamp
    except Exception as error:
        errors.append(error)
        return False


def _give_up(due: list[Node]) -> CycleError:
    for effect in due:
        effect.stale = False
        effect.seen = STATE.clock
    names = tuple(effect.title() for effect in sorted(due, key=by_order))
    return CycleError(
        f"effects keep waking each other, {ROUNDS} rounds without an end: {', '.join(names)}", names
    )


def _file(error: Exception, sink: ErrorSink | None, errors: list[Exception]) -> None:
    """Bring an effect's error to whom it concerns; the lock is held once."""
    if sink is None and not STATE.foreign:
        errors.append(error)
        return
    _release()
    try:
        (sink or report)(error)
    finally:
        _acquire()


def _call_watchers_unlocked() -> None:
    _release()
    try:
        call_watchers()
    finally:
        _acquire()


def _hand_over(deadline: float) -> bool:
    """Leave the rest to a thread that waits for it, in need to one made for it."""
    state = STATE
    if state.takers:
        return True
    state.relief = True
    if monotonic() < deadline + HELP_AFTER and not loop_runs():
        return False
    helper = threading.Thread(target=_help, name="reactive_sqlite delivery", daemon=True)
    try:
        helper.start()
    except RuntimeError:  # the interpreter is shutting down, or out of threads
        return False
    return True


def _help() -> None:
    with STATE.lock:
        if not STATE.deliverer and (STATE.queue or STATE.inbox):
            deliver([], report, relieved=False)
