"""Layers of four memos, each the neighbour's difference or sum, with an effect on every one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.graphs.case import Case, Workload
from benchmarks.graphs.library import Library, Read

UP, DOWN = (4, 3, 2, 1), (1, 2, 3, 4)

Four = tuple[int, int, int, int]


def layers(depth: int, library: Library, size: int) -> Workload:
    """Write all four sources in one batch, there and back, and read the last layer."""
    pairs = [library.signal(value) for value in DOWN]
    writes = [write for _, write in pairs]
    runs = [0]
    end = [read for read, _ in pairs]
    for _ in range(depth):
        end = _layer(library, end)
        for read in end:
            _watch(library, read, runs)

    def write_all(values: Sequence[int]) -> None:
        for write, value in zip(writes, values, strict=True):
            write(value)

    def run() -> object:
        runs[0] = 0
        before = tuple([read() for read in end])
        after: tuple[int, ...] = ()
        total = 0
        for _ in range(size):
            library.batch(partial(write_all, UP))
            after = tuple([read() for read in end])
            total += sum(after)
            library.batch(partial(write_all, DOWN))
            total += sum([read() for read in end])
        return before, after, total, runs[0] if library.exact else None

    def expected() -> object:
        down, up, changed = DOWN, UP, 0
        for _ in range(depth):
            down, up = _next(down), _next(up)
            changed += sum(a != b for a, b in zip(down, up, strict=True))
        total = size * (sum(down) + sum(up))
        return down, up, total, 2 * size * changed if library.exact else None

    return Workload(run, expected)


CASES = (
    Case("cellx/10", 40, partial(layers, 10)),
    Case("cellx/20", 20, partial(layers, 20)),
    Case("cellx/50", 8, partial(layers, 50)),
)


def _layer(library: Library, above: list[Read]) -> list[Read]:
    a, b, c, d = above
    return [
        library.memo(lambda: b()),
        library.memo(lambda: a() - c()),
        library.memo(lambda: b() + d()),
        library.memo(lambda: c()),
    ]


def _watch(library: Library, read: Read, runs: list[int]) -> None:
    def effect() -> None:
        read()
        runs[0] += 1

    library.effect(effect)


def _next(values: Four) -> Four:
    a, b, c, d = values
    return b, a - c, b + d, c
