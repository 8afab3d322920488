"""Large grids of memos, part of which choose their sources by what they read.

Which memos choose, and which ends are read, is drawn from the generator of the JavaScript benchmark
(sfc32 seeded by a hash of a word), so that the graphs are the same as there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.graphs.case import Case, Workload
from benchmarks.graphs.library import Library, Read

WORD = 0xFFFFFFFF
SEED = "seed"


@dataclass(frozen=True, slots=True)
class Shape:
    """So many memos side by side and so many rows, the sources' row among them.

    `fixed` is the share of memos that read all their `sources`; `read` that of ends that are read.
    """

    width: int
    rows: int
    fixed: float
    sources: int
    read: float

    def drawn(self) -> tuple[list[list[bool]], list[int]]:
        """Which memos are fixed, row by row, and which ends are read."""
        draw = sfc32(SEED)
        rows = [[draw() < self.fixed for _ in range(self.width)] for _ in range(self.rows - 1)]
        draw = sfc32(SEED)
        ends = list(range(self.width))
        for _ in range(round(self.width * (1 - self.read))):
            ends.pop(int(draw() * len(ends)))
        return rows, ends

    def value(self, sources: list[int]) -> int:
        """The sum of the ends that are read."""
        rows, ends = self.drawn()
        present = sources
        for row in rows:
            present = [
                _combined([present[(at + k) % self.width] for k in range(self.sources)], fixed)
                for at, fixed in enumerate(row)
            ]
        return sum(present[end] for end in ends)


class Grid:
    """A grid built with a library; counts the runs of its memos."""

    def __init__(self, library: Library, shape: Shape) -> None:
        self.runs = 0
        self.seen = 0
        rows, ends = shape.drawn()
        pairs = [library.signal(number) for number in range(shape.width)]
        self.writes = [write for _, write in pairs]
        above: list[Read] = [read for read, _ in pairs]
        for row in rows:
            above = [
                library.memo(
                    self._memo([above[(at + k) % shape.width] for k in range(shape.sources)], fixed)
                )
                for at, fixed in enumerate(row)
            ]
        self.ends = [above[end] for end in ends]
        library.effect(self._effect)

    def _effect(self) -> None:
        total = 0
        for read in self.ends:
            total += read()
        self.seen = total

    def _memo(self, sources: list[Read], fixed: bool) -> Callable[[], int]:
        if fixed:

            def add_all() -> int:
                self.runs += 1
                total = 0
                for read in sources:
                    total += read()
                return total

            return add_all
        first, rest = sources[0], sources[1:]
        count = len(rest)

        def add_some() -> int:
            self.runs += 1
            total: int = first()
            skips, skipped = total & 1, total % count
            for at in range(count):
                if not (skips and at == skipped):
                    total += rest[at]()
            return total

        return add_some


def grid(shape: Shape, library: Library, size: int) -> Workload:
    """Write one source after the other, each time reading all ends."""
    built = Grid(library, shape)
    values = list(range(shape.width))
    # New values in each run, or later runs would write what is there already.
    base = 0

    def run() -> object:
        for turn in range(size):
            at = turn % shape.width
            library.batch(partial(built.writes[at], turn + at + base))
            for read in built.ends:
                read()
        return sum(read() for read in built.ends), built.seen

    def expected() -> object:
        nonlocal base
        base += 1_000_003
        for turn in range(size):
            values[turn % shape.width] = turn + turn % shape.width + base
        total = shape.value(values)
        return total, total

    return Workload(run, expected)


CASES = (
    Case("grid/2-10x5-lazy80", 2000, partial(grid, Shape(10, 5, 1, 2, 0.2))),
    Case("grid/6-10x10-dyn25-lazy80", 300, partial(grid, Shape(10, 10, 0.75, 6, 0.2))),
    Case("grid/4-1000x12-dyn5", 20, partial(grid, Shape(1000, 12, 0.95, 4, 1))),
    Case("grid/25-1000x5", 15, partial(grid, Shape(1000, 5, 1, 25, 1))),
    Case("grid/3-5x500", 10, partial(grid, Shape(5, 500, 1, 3, 1))),
    Case("grid/6-100x15-dyn50", 30, partial(grid, Shape(100, 15, 0.5, 6, 1))),
)


def sfc32(seed: str) -> Callable[[], float]:
    """Return a generator of numbers from 0 to 1, the same as in JavaScript for the same word."""
    state = list(_hashes(seed))

    def draw() -> float:
        a, b, c, d = state
        total = (a + b + d + 1) & WORD
        rotated = ((c << 21) | (c >> 11)) & WORD
        state[:] = b ^ (b >> 9), (c + (c << 3)) & WORD, (rotated + total) & WORD, (d + 1) & WORD
        return total / (WORD + 1)

    return draw


def _hashes(seed: str) -> list[int]:
    """Four words from a text, by the 32-bit murmur hash."""
    mixed = 2166136261
    for letter in seed:
        k = (ord(letter) * 3432918353) & WORD
        k = ((k << 15) | (k >> 17)) & WORD
        mixed ^= (k * 461845907) & WORD
        mixed = ((mixed << 13) | (mixed >> 19)) & WORD
        mixed = (mixed * 5 + 3864292196) & WORD
    mixed ^= len(seed)
    words: list[int] = []
    for _ in range(4):
        mixed = ((mixed ^ (mixed >> 16)) * 2246822507) & WORD
        mixed = ((mixed ^ (mixed >> 13)) * 3266489909) & WORD
        mixed ^= mixed >> 16
        words.append(mixed)
    return words


def _combined(values: list[int], fixed: bool) -> int:
    if fixed:
        return sum(values)
    first, rest = values[0], values[1:]
    skipped = first % len(rest) if first & 1 else -1
    return first + sum(value for at, value in enumerate(rest) if at != skipped)
