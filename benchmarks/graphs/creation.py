"""How long it takes to make signals, memos and effects, with few sources and with many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.graphs.case import Case, Workload
from benchmarks.graphs.library import Library, Read

SIGNALS = 20_000
COMPUTATIONS = 10_000


class Tally:
    """What the computations add to, so that each of them has to have run."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0

    def adding(self, number: int) -> Callable[[], None]:
        """A computation that reads nothing."""

        def add() -> None:
            self.total += number

        return add

    def reading(self, read: Read) -> Callable[[], None]:
        """A computation with one source."""

        def add() -> None:
            self.total += read()

        return add

    def reading_all(self, reads: list[Read]) -> Callable[[], None]:
        """A computation with several sources."""

        def add() -> None:
            for read in reads:
                self.total += read()

        return add


def signals(library: Library, size: int) -> Workload:
    """Signals alone."""
    made: list[Read] = []

    def run() -> object:
        signal = library.signal
        pairs = [signal(number) for number in range(size)]
        made.extend(read for read, _ in pairs)
        return len(pairs), made[-1]()

    return Workload(run, lambda: (size, size - 1))


def effects(sources: int, observers: int, library: Library, size: int) -> Workload:
    """Effects with so many sources each, or sources with so many effects each."""
    tally, functions = _functions(sources, observers, library, size)

    def run() -> object:
        effect = library.effect
        for function in functions:
            effect(function)
        return tally.total

    return Workload(run, lambda: _sum(sources, observers, size))


def memos(library: Library, size: int) -> Workload:
    """Memos with one source each, read once, since they are lazy in most libraries."""
    tally, functions = _functions(1, 1, library, size)

    def run() -> object:
        memo = library.memo
        for function in functions:
            memo(function)()
        return tally.total

    return Workload(run, lambda: _sum(1, 1, size))


CASES = (
    Case("create/signals", SIGNALS, signals, afresh=True),
    *(
        Case(f"create/effect{name}", COMPUTATIONS, partial(effects, *shape), afresh=True)
        for name, shape in {
            "0to1": (0, 1),
            "1to1": (1, 1),
            "2to1": (2, 1),
            "4to1": (4, 1),
            "1000to1": (1000, 1),
            "1to2": (1, 2),
            "1to4": (1, 4),
            "1to8": (1, 8),
            "1to1000": (1, 1000),
        }.items()
    ),
    Case("create/memo1to1", COMPUTATIONS, memos, afresh=True),
)


def _functions(
    sources: int, observers: int, library: Library, size: int
) -> tuple[Tally, list[Callable[[], None]]]:
    tally = Tally()
    if sources == 0:
        return tally, [tally.adding(number) for number in range(size)]
    pairs = [library.signal(number) for number in range(_sources(sources, observers, size))]
    reads = [read for read, _ in pairs]
    for read in reads:
        for _ in range(3):
            read()
    if sources > 1:
        starts = range(0, len(reads), sources)
        return tally, [tally.reading_all(reads[start : start + sources]) for start in starts]
    return tally, [tally.reading(read) for read in reads for _ in range(observers)]


def _sources(sources: int, observers: int, size: int) -> int:
    if sources > 1:
        return max(1, size // sources) * sources
    return max(1, size // observers)


def _sum(sources: int, observers: int, size: int) -> int:
    if sources == 0:
        return sum(range(size))
    return sum(range(_sources(sources, observers, size))) * observers
