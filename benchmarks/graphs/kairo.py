"""Small graphs of typical shapes: chains, fans, diamonds, and one whose shape changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.graphs.case import Case, Workload
from benchmarks.graphs.library import Library, Read, Write

WIDE = 50
DEEP = 50
DIAMOND = 5
TRIANGLE = 10
REPEATS = 30
SWITCHES = 20
HEADS = 100
TURNED = 10


class Counter:
    """What the effects of a case have seen, and how often they ran."""

    __slots__ = ("runs", "total")

    def __init__(self) -> None:
        self.runs = self.total = 0

    def watch(self, library: Library, read: Read) -> None:
        """Make an effect that adds what it reads."""

        def effect() -> None:
            self.total += read()
            self.runs += 1

        library.effect(effect)

    def clear(self) -> None:
        self.runs = self.total = 0


def avoidable(library: Library, size: int) -> Workload:
    """A change that a constant memo near the source keeps from all that is costly behind it."""
    read, write = library.signal(0)
    passed = library.memo(lambda: read())
    constant = library.memo(lambda: (passed(), 0)[1])
    heavy = Counter()

    def costly() -> int:
        _busy()
        heavy.runs += 1
        return int(constant()) + 1

    third = library.memo(costly)
    fourth = library.memo(lambda: third() + 2)
    fifth = library.memo(lambda: fourth() + 3)
    seen = Counter()

    def effect() -> None:
        fifth()
        _busy()
        seen.runs += 1

    library.effect(effect)

    def run() -> object:
        heavy.clear()
        seen.clear()
        total = _turn(library, write, fifth, size)
        return (total, heavy.runs, seen.runs) if library.exact else total

    return Workload(run, lambda: (6 * size, 0, 0) if library.exact else 6 * size)


def broad(library: Library, size: int) -> Workload:
    """One source, fifty chains of two memos and an effect."""
    read, write = library.signal(0)
    counter = Counter()

    def chain(number: int) -> Read:
        first = library.memo(lambda: read() + number)
        second = library.memo(lambda: first() + 1)
        counter.watch(library, second)
        return second

    last = [chain(number) for number in range(WIDE)][-1]
    expected = (
        sum(turn + WIDE for turn in range(size)),
        sum(turn + number + 1 for turn in range(size) for number in range(WIDE)),
        WIDE * size,
    )

    def run() -> object:
        library.batch(partial(write, -1))
        counter.clear()
        total = _turn(library, write, last, size, prepared=True)
        return total, counter.total, counter.runs

    return Workload(run, lambda: expected)


def deep(library: Library, size: int) -> Workload:
    """A chain of fifty memos and an effect at its end."""
    read, write = library.signal(0)
    end = read
    for _ in range(DEEP):
        end = library.memo(_plus_one(end))
    return _counted(library, write, end, size, lambda turn: turn + DEEP)


def diamond(library: Library, size: int) -> Workload:
    """Five memos of one source, and their sum."""
    read, write = library.signal(0)
    middle = [library.memo(lambda: read() + 1) for _ in range(DIAMOND)]
    end = library.memo(lambda: sum([memo() for memo in middle]))
    return _counted(library, write, end, size, lambda turn: (turn + 1) * DIAMOND)


def triangle(library: Library, size: int) -> Workload:
    """A chain, and the sum of all its links."""
    read, write = library.signal(0)
    links, link = [read], read
    for _ in range(TRIANGLE - 1):
        link = library.memo(_plus_one(link))
        links.append(link)
    end = library.memo(lambda: sum([read() for read in links]))
    steps = sum(range(TRIANGLE))
    return _counted(library, write, end, size, lambda turn: steps + TRIANGLE * turn)


def repeated(library: Library, size: int) -> Workload:
    """A memo that reads its source thirty times."""
    read, write = library.signal(0)

    def often() -> int:
        total = 0
        for _ in range(REPEATS):
            total += read()
        return total

    return _counted(library, write, library.memo(often), size, lambda turn: turn * REPEATS)


def unstable(library: Library, size: int) -> Workload:
    """A memo that reads one of two others, by turns."""
    read, write = library.signal(0)
    double = library.memo(lambda: read() * 2)
    inverse = library.memo(lambda: -read())

    def either() -> int:
        total = 0
        for _ in range(SWITCHES):
            total += double() if read() % 2 else inverse()
        return total

    def answer(turn: int) -> int:
        return SWITCHES * (2 * turn if turn % 2 else -turn)

    return _counted(library, write, library.memo(either), size, answer)


def mux(library: Library, size: int) -> Workload:
    """A hundred signals gathered in one memo and parted again into a hundred chains."""
    heads = [library.signal(0) for _ in range(HEADS)]
    reads = [read for read, _ in heads]
    gathered = library.memo(lambda: dict(enumerate([read() for read in reads])))
    counter = Counter()

    def part(number: int) -> Read:
        own = library.memo(lambda: gathered()[number])
        end = library.memo(lambda: own() + 1)
        counter.watch(library, end)
        return end

    parts = [part(number) for number in range(HEADS)]
    # Twice all turned heads in each round: first counting up, then by twos.
    values = [
        [factor * number + 2 * at + factor - 1 for number in range(TURNED)]
        for at in range(size)
        for factor in (1, 2)
    ]

    def run() -> object:
        for number in range(TURNED):
            library.batch(partial(heads[number][1], -1))
        counter.clear()
        total = 0
        for sweep in values:
            for number, value in enumerate(sweep):
                library.batch(partial(heads[number][1], value))
                total += parts[number]()
        return (total, counter.total) if library.exact else total

    def expected() -> object:
        total = sum(value + 1 for sweep in values for value in sweep)
        seen, present = 0, [-1] * TURNED
        for sweep in values:
            seen += sum(v + 1 for v, old in zip(sweep, present, strict=True) if v != old)
            present = sweep
        return (total, seen) if library.exact else total

    return Workload(run, expected)


CASES = (
    Case("kairo/avoidable", 3000, avoidable),
    Case("kairo/broad", 40, broad),
    Case("kairo/deep", 100, deep),
    Case("kairo/diamond", 500, diamond),
    Case("kairo/mux", 12, mux),
    Case("kairo/repeated", 500, repeated),
    Case("kairo/triangle", 250, triangle),
    Case("kairo/unstable", 500, unstable),
)


def _counted(
    library: Library, write: Write, end: Read, size: int, answer: Callable[[int], int]
) -> Workload:
    """Turn the source `size` times, read the end each time, and count the runs of one effect."""
    counter = Counter()

    def effect() -> None:
        end()
        counter.runs += 1

    library.effect(effect)
    expected = sum(answer(turn) for turn in range(size)), size

    def run() -> object:
        library.batch(partial(write, -1))
        counter.clear()
        return _turn(library, write, end, size, prepared=True), counter.runs

    return Workload(run, lambda: expected)


def _turn(library: Library, write: Write, end: Read, size: int, *, prepared: bool = False) -> Any:
    batch = library.batch
    if not prepared:
        batch(partial(write, -1))
    total = 0
    for turn in range(size):
        batch(partial(write, turn))
        total += end()
    return total


def _plus_one(read: Read) -> Callable[[], Any]:
    return lambda: read() + 1


def _busy() -> int:
    count = 0
    for _ in range(100):
        count += 1
    return count
