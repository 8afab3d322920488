"""How long a write takes until the effects have run, with few sources or observers or many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.graphs.case import Case, Workload
from benchmarks.graphs.library import Library, Read


class Sum:
    """The sum of what all effects have read."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0

    def effect(self, reads: list[Read]) -> Callable[[], None]:
        if len(reads) == 1:
            (only,) = reads

            def add() -> None:
                self.total += only()

            return add

        def add_all() -> None:
            total = 0
            for read in reads:
                total += read()
            self.total += total

        return add_all


def updates(
    sources: int, observers: int, library: Library, size: int, *, batched: bool = True
) -> Workload:
    """Write the first of `sources` signals, which `observers` effects read."""
    pairs = [library.signal(number) for number in range(sources)]
    reads = [read for read, _ in pairs]
    write = pairs[0][1]
    seen = Sum()
    for _ in range(observers):
        library.effect(seen.effect(reads))
    others = sum(range(sources))
    expected = observers * sum(turn + others for turn in range(size))

    def in_batches() -> object:
        batch = library.batch
        batch(partial(write, -1))
        seen.total = 0
        for turn in range(size):
            batch(partial(write, turn))
        return seen.total

    def one_by_one() -> object:
        flush = library.flush
        write(-1)
        flush()
        seen.total = 0
        for turn in range(size):
            write(turn)
            flush()
        return seen.total

    return Workload(in_batches if batched else one_by_one, lambda: expected)


CASES = (
    Case("update/1to1", 20_000, partial(updates, 1, 1)),
    Case("update/1to1-nobatch", 20_000, partial(updates, 1, 1, batched=False)),
    Case("update/2to1", 10_000, partial(updates, 2, 1)),
    Case("update/4to1", 5_000, partial(updates, 4, 1)),
    Case("update/1000to1", 40, partial(updates, 1000, 1)),
    Case("update/1to2", 5_000, partial(updates, 1, 2)),
    Case("update/1to4", 5_000, partial(updates, 1, 4)),
    Case("update/1to1000", 40, partial(updates, 1, 1000)),
)
