"""The graph algorithm: who may be out of date, and who must run; it knows no values.

A write does two cheap things: it ticks the clock, and it sets the stale bit of what is downstream,
each node once, queueing the effects it meets. Nothing is computed.

        a ──► b ──► d ──► effect        write a:  stale = {b, c, d}, queue = [effect]
        └───► c ──►─┘

Reading (or delivering an effect) walks the other way: sources are checked in the order they were
read, and the first one whose stamp is newer than what the node has seen makes it run. A memo whose
new value equals the old one keeps its stamp, and so nothing behind it runs.

A memo subscribes to its sources only while it leads to an effect (`live`). Without one it is
checked by stamps whenever it is read, and its sources hold no reference to it.

All walks are loops: a chain of memos may be longer than Python's stack. Every function here wants
the lock held exactly once; `settle` gives it up while memos run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from threading import get_ident

from ..errors import CycleError
from .state import SCALARS, STATE, ErrorSink, Held, Node, Owner

# Runs of one memo that other threads' writes may spoil before those writers are held up a little.
TRIES = 3


class Ring(BaseException):
    """Memo runs on several threads wait for each other: this thread gives up its run of `memo`.

    Not an Exception, so that the user's code between here and there does not take it for its own.
    """


def mark(
    node: Node, me: int, sink: ErrorSink | None = None, *, caused_elsewhere: bool = False
) -> None:
    """Tell everything downstream of `node` that it may be out of date."""
    state = STATE
    here = not caused_elsewhere and (not state.deliverer or state.deliverer == me)
    due = state.queue if here else state.inbox
    outer, state.walking = state.walking, me
    below = node.subs
    stack: list[dict[Node, None]] = []
    try:
        while True:
            for observer in below:
                if not observer.stale:
                    observer.stale = True
                    if observer.is_memo:
                        stack.append(observer.subs)
                    else:
                        observer.sink = sink
                        due.append(observer)
            if not stack:
                return
            below = stack.pop()
    finally:
        state.walking = outer


def outdate(memo: Node, start: int, me: int) -> None:
    """A memo may be out of date though nobody has marked it: so may be what is downstream.

    A mark stops at what is stale already, since all below it has been told. Without this, the end
    of a batch would not reach the effects behind a memo that was read in the midst of it.
    """
    if memo.stale:
        return
    memo.stale = True
    if memo.subs:
        state = STATE
        mark(memo, me, caused_elsewhere=others_wrote(start, me))
        if not state.pending:  # else the end of what is pending delivers
            state.wrote = True


def publish_held(changes: Held, me: int, reverted: Collection[Node] = ()) -> None:
    """Tell the observers of what a batch or a run wrote, now that it has ended."""
    state = STATE
    state.pending -= len(changes)
    # A node validated at this clock, before these marks, must not look validated after them.
    state.clock += 1
    if not state.pending:
        state.calm = state.clock
    for node, (old, changed, before) in changes.items():
        if node.subs:
            value: object = node.value
            if value is old or (
                # As `same_value`; a call would cost as much as all else here.
                (kind := type(value)) is type(old)
                and kind in SCALARS
                and (value == old or (value != value and same_value(value, old)))
            ):
                if node.equals is None:
                    node.same = changed, before
            elif reverted and node in reverted:
                node.same = changed, before
            mark(node, me)


def settle(node: Node) -> bool:
    """Bring a memo up to date as of now, at least; for an effect: whether it must run.

    One function for the two walks, down to unsettled sources and along them, because it is the
    hottest loop of the library and a call per node would cost a quarter of its speed.
    """
    state = STATE
    me = get_ident()
    now = state.clock  # what other threads write meanwhile leaves nodes stale, never wrongly fresh
    stack, positions = [node], [0]
    tries = 0
    try:
        while stack:
            n = stack[-1]
            if n.running and n.is_memo:
                wait(n, me)
                if n.seen >= now and not n.running and not n.dirty:
                    n.checking = 0
                    stack.pop()
                    positions.pop()
                continue
            must_run = n.dirty
            if not must_run:
                sources, i, seen = n.sources, positions[-1], n.seen
                count = len(sources)
                volatile = state.volatiles and not n.live
                pending = state.pending
                while i < count:
                    s = sources[i]
                    if (
                        s.is_memo
                        and (s.stale or pending or not s.live)
                        and (s.seen < now or s.dirty)
                        and s.checking != me
                        and s.fn is not None
                    ):
                        positions[-1] = i
                        n.checking = me
                        # A memo whose first source is a changed signal needs no look of its own.
                        if (
                            (sources := s.sources)
                            and not s.running
                            and not (first := sources[0]).is_memo
                            and first.stamp > s.seen
                            and first.same is None
                        ):
                            s.recompute(me)
                            if not s.dirty:
                                break
                        stack.append(s)
                        positions.append(0)
                        break
                    if (
                        s.stamp > seen
                        and not (s.same is not None and s.same[0] <= seen <= s.same[1])
                    ) or (volatile and s.volatile):
                        must_run = True
                        break
                    i += 1
                else:
                    if seen < now:
                        n.seen = now
                        if n.is_memo and not pending:
                            n.earlier = None  # that batch is over, and the memo right after it
                    if now == state.clock:
                        n.stale = False
                    elif n.stale and not n.is_memo:
                        state.inbox.append(n)  # another thread wrote meanwhile: look again
                    n.checking = 0
                    stack.pop()
                    positions.pop()
                    continue
                if not must_run:
                    continue  # down into the source that was pushed
            if not n.is_memo:
                return True
            if n.fn is not None:
                n.recompute(me)
                if n.dirty and n.fn is not None:  # its run was thrown away
                    tries += 1
                    if tries >= TRIES:
                        state.starving = tries
                    continue
            n.checking = 0
            stack.pop()
            positions.pop()
    finally:
        for n in stack:
            n.checking = 0
        if tries >= TRIES:
            state.starving = 0
            state.condition.notify_all()
    return False


def others_wrote(start: int, me: int) -> bool:
    """Whether another thread may have written since the clock showed `start`."""
    return STATE.writer != me or STATE.turned > start


def wait(memo: Node, me: int) -> None:
    """Wait until another thread's run of `memo` has ended."""
    state = STATE
    thread, last = memo.running, memo
    while thread != me and thread in state.waiting:
        last = state.waiting[thread]
        thread = last.running
    if thread == me:
        if last is memo:
            error = CycleError(f"memo {memo.title()!r} reads itself", (memo.title(),))
            state.cycles[me] = error, memo
            raise error
        # No proof of a cycle: the runs may belong to different states of the graph. This thread
        # lets go of the run that the others wait for; a real cycle then shows on one thread.
        state.rings[me] = last, memo
        raise Ring
    state.waiting[me] = memo
    try:
        state.condition.wait()
    finally:
        del state.waiting[me]


def attach(source: Node, observer: Node) -> None:
    """Subscribe, and make the memos on the way live."""
    stack = [(source, observer)]
    while stack:
        s, o = stack.pop()
        s.subs[o] = None
        if s.is_memo:
            if not s.live:
                s.live = True
                s.stale = s.dirty or s.seen != STATE.clock
                for below in s.sources:
                    stack.append((below, s))
        elif s.on_watch is not None and len(s.subs) == 1:
            STATE.flips.setdefault(get_ident(), {})[s] = None


def detach(source: Node, observer: Node) -> None:
    """Unsubscribe, and let the memos that lead nowhere any more go."""
    stack = [(source, observer)]
    while stack:
        s, o = stack.pop()
        if s.subs.pop(o, s) is s or s.subs:
            continue
        if s.is_memo:
            if s.live:
                s.live = False
                # Nobody will mark it from here on: remember by the clock that it was right.
                if not s.stale and not STATE.pending and not STATE.volatiles:
                    s.seen = STATE.clock
                for below in s.sources:
                    stack.append((below, s))
        elif s.on_watch is not None:
            STATE.flips.setdefault(get_ident(), {})[s] = None


def link(node: Node, raw: list[Node], me: int) -> None:
    """Make `raw`, what a run has read, the node's sources; only a live one subscribes."""
    old = node.sources
    node.raw = raw
    new = raw if len(raw) < 2 else list(dict.fromkeys(raw))
    if len(new) == len(raw):
        new = raw
    node.sources = new
    if not node.live:
        return
    state = STATE
    outer, state.walking = state.walking, me
    try:
        if not old:
            for source in new:
                if source.is_memo or source.on_watch is not None:
                    attach(source, node)
                else:  # a plain signal, and the commonest case
                    source.subs[node] = None
        else:
            before, after = set(old), set(new)
            for source in new:
                if source not in before:
                    attach(source, node)
            for source in old:
                if source not in after:
                    detach(source, node)
    finally:
        state.walking = outer


def unlink(node: Node) -> None:
    """Forget the node's sources."""
    if node.live:
        release(node, node.sources)
    node.sources = node.raw = ()


def release(node: Node, sources: Iterable[Node]) -> None:
    """Unsubscribe a node from some sources."""
    outer, STATE.walking = STATE.walking, get_ident()
    try:
        for source in sources:
            detach(source, node)
    finally:
        STATE.walking = outer


def deferred(owner: Owner) -> bool:
    """Whether a disposal has to wait, because a finalizer asks for it in the middle of a walk."""
    if STATE.walking != get_ident():
        return False
    STATE.graves.append(owner)
    STATE.flips.setdefault(get_ident(), {})  # has the end of this operation look after it
    return True


def same_value(a: object, b: object) -> bool:
    """Compare as by default: built-in scalars by type and value, all else by identity."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b) or kind not in SCALARS:
        return False
    if a == b:
        return True
    if a == a or b == b:
        return False
    # Not a number; a complex one may still differ in its other part.
    if isinstance(a, complex) and isinstance(b, complex):
        return same_value(a.real, b.real) and same_value(a.imag, b.imag)
    return True


def name_cycle(memo: Node, error: BaseException, me: int) -> None:
    """Add a memo that a cycle's error passes through to the names it gives."""
    found, origin = STATE.cycles[me]
    if found is not error:
        return
    if memo is not origin:
        found.nodes = (found.nodes[0], memo.title(), *found.nodes[1:])
        return
    del STATE.cycles[me]
    path = " → ".join((*found.nodes, found.nodes[0]))
    found.args = (f"memo {memo.title()!r} reads itself: {path}",)
