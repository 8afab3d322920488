"""What the graph keeps: fields of nodes and owners, and what is under way on which thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Condition, RLock
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from ..errors import CycleError

SCALARS = frozenset((int, float, str, bytes, bool, complex, type(None)))

MISSING: Any = object()  # for arguments that may be None

Recorder: TypeAlias = "Callable[[Node], object]"
ErrorSink: TypeAlias = "Callable[[BaseException], None]"
Held: TypeAlias = "dict[Node, tuple[Any, int, int]]"


class Node:
    """The fields of a node; each kind keeps those it needs in slots and leaves the rest constant.

    A signal has observers, an effect has sources, a memo has both. Time is `State.clock`, a count
    of changes: `stamp` is when a value last changed, `seen` when a node was last known to be right.
    A node must run exactly when a source's stamp is newer than what it has seen.
    """

    if not TYPE_CHECKING:  # subclasses have slots for what they keep; mypy wants them all here
        __slots__ = ()
    is_memo: ClassVar[bool] = False

    name: str | None
    # What can be read.
    value: Any
    equals: Any
    subs: dict[Node, None]
    stamp: int
    same: tuple[int, int] | None  # seen within it = value as now, though the stamp is newer
    by: int  # the thread that wrote last, 0 when it does not matter
    volatile: bool
    on_watch: Callable[[], None] | None
    # What reads.
    fn: Any
    sources: Sequence[Node]
    raw: Sequence[Node]  # the reads of the last run as recorded, repetitions included
    stale: bool  # a source may have changed
    dirty: bool  # must run, whatever the sources say
    live: bool  # leads to an effect, so it is subscribed to its sources
    seen: int
    running: int  # the thread that runs it, else 0
    checking: int  # the thread that validates its sources, else 0
    # Memos only: the value before the batch under way, and from when until when it was the value.
    earlier: tuple[Any, int, int] | None
    # Effects only.
    order: int
    sink: ErrorSink | None

    def recompute(self, me: int) -> None:
        """Run a memo; the lock is held once and released around the user's code."""
        raise NotImplementedError

    def run(self, me: int, changes: Held | None) -> Exception | None:
        """Run an effect; the lock is held once and released around the user's code.

        What it writes is collected in `changes` and told to observers at its end; None when that is
        for the run or batch around it to do.
        """
        raise NotImplementedError

    def title(self) -> str:
        """Name the node for a message."""
        return self.name or getattr(self.fn, "__qualname__", None) or type(self).__name__.lower()


class Owner:
    """What computations and cleanups belong to, and that takes them along when it ends."""

    __slots__ = ("cleanups", "owned", "parent")

    parent: Owner | None
    owned: dict[Owner, None] | None
    cleanups: list[Callable[[], object]] | None

    def dispose(self) -> None:
        """End it and everything below it."""
        raise NotImplementedError

    def has_ended(self) -> bool:
        """Tell whether nothing will dispose any more what is created under it now."""
        raise NotImplementedError


class State:
    """All state that threads share.

    Guarded by `lock`: everything, with these exceptions. `recorder` and `owner` belong to the
    thread `home`, an entry of `others` and `held` to the thread it is filed under. `value`,
    `stamp`, `seen` and `clock` are read without the lock, in an order that the writers keep.
    """

    __slots__ = (
        "calm",
        "clock",
        "condition",
        "custom",
        "cycles",
        "deliverer",
        "flips",
        "foreign",
        "graves",
        "held",
        "home",
        "inbox",
        "lock",
        "nested",
        "nesting",
        "others",
        "owner",
        "pending",
        "queue",
        "recorder",
        "relief",
        "rings",
        "starving",
        "takers",
        "turned",
        "volatiles",
        "waiting",
        "walking",
        "writer",
        "wrote",
    )

    def __init__(self) -> None:
        self.lock = RLock()
        self.condition = Condition(self.lock)
        self.clock = 0
        self.writer = 0  # the thread that wrote last
        self.turned = 0  # the clock before it began to: what others wrote is not newer
        # Recording. One thread has the fast slot, those that record meanwhile are in `others`.
        self.recorder: Recorder | None = None
        self.owner: Owner | None = None
        self.home = 0
        self.nesting = 0
        self.others: dict[int, tuple[Recorder | None, Owner | None]] = {}
        # Changes that are stored but not yet told to observers, by thread, and their number.
        self.held: dict[int, Held] = {}
        self.nested: dict[int, int] = {}  # batches inside a batch or run, by thread
        self.custom = False  # some signal has an equality of its own, to be asked at a batch's end
        self.pending = 0
        self.calm = 0  # the clock when there was none last
        # Delivery: what the deliverer itself caused, and what other threads put in.
        self.queue: list[Node] = []
        self.inbox: list[Node] = []
        self.deliverer = 0
        self.foreign = False  # what the deliverer runs now was caused by other threads
        self.relief = False  # the deliverer has served other threads for long enough
        self.takers = 0  # threads that wait to take over from it
        self.wrote = False  # a memo wrote a signal: its reader delivers
        # Memos that threads wait for, and runs to be given up because such waits closed a ring.
        self.waiting: dict[int, Node] = {}
        self.starving = 0  # how often a memo's run was thrown away, once that is too often
        self.rings: dict[int, tuple[Node, Node]] = {}  # the run to give up, the memo to wait for
        self.cycles: dict[int, tuple[CycleError, Node]] = {}  # on their way up, gathering names
        # Leaves that gained a first or lost their last observer, by the thread that will say so.
        self.flips: dict[int, dict[Node, None]] = {}
        self.volatiles = 0
        # The thread that is changing or following subscriptions. Python may run a finalizer in the
        # middle of that, and what it disposes has to wait.
        self.walking = 0
        self.graves: list[Owner] = []


STATE = State()
