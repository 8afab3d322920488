"""Times pieces of work by turns, so that a noisy moment of the machine hits all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from statistics import median

ROUNDS = 25

Work = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done: `scale` shrinks what is counted, `turn` is the length of one turn.

    Attributes:
        rounds: turns that each piece of work gets.
        turn: seconds; long enough to hold several checkpoints of SQLite's log.
        clock: wall time, or processor time, which is steadier where other programs run and leaves
            out the waiting for the disk.
        stick: a file with the face of Solid's signals, to be measured beside ours.
    """

    rounds: int = ROUNDS
    scale: float = 1.0
    turn: float = 0.04
    clock: Clock = time.perf_counter
    stick: Path | None = None

    def count(self, full: int, *, least: int = 1) -> int:
        """Return how many of `full` things to make or do."""
        return max(least, int(full * self.scale))


@dataclass(frozen=True, slots=True)
class Series:
    """Seconds a call of each piece of work, one value for each round."""

    seconds: Mapping[str, tuple[float, ...]]

    def ratio(self, name: str, peer: str) -> float:
        """Return the median of the ratios of neighbouring turns."""
        pairs = zip(self.seconds[name], self.seconds[peer], strict=True)
        return median(own / other for own, other in pairs)

    def extra(self, name: str, peer: str) -> float:
        """Return the median of the differences of neighbouring turns, in seconds."""
        pairs = zip(self.seconds[name], self.seconds[peer], strict=True)
        return median(own - other for own, other in pairs)

    def typical(self, name: str) -> float:
        """Return the median, in seconds."""
        return median(self.seconds[name])


def interleave(works: Mapping[str, Work], effort: Effort) -> Series:
    """Give each piece of work its turn, A B A B …, as often as it fits into one turn's time."""
    calls = {name: _calls(work, effort) for name, work in works.items()}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(effort.rounds):
        for name, work in works.items():
            seconds[name].append(timed(work, calls[name], effort.clock))
    return Series({name: tuple(values) for name, values in seconds.items()})


def timed(work: Work, calls: int, clock: Clock = time.perf_counter) -> float:
    """Return the seconds that one call takes, the loop around it included."""
    began = clock()
    for _ in repeat(None, calls):
        work()
    return (clock() - began) / calls


def geometric_mean(values: Iterable[float]) -> float:
    """Return the mean of ratios; of none, not a number."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value that `share` (0 to 1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def _calls(work: Work, effort: Effort) -> int:
    # The doubling is the warm-up as well. One interruption by another program would make all turns
    # short, and short turns measure the waking up: so the best of three counts.
    calls = 1
    while True:
        each = min(timed(work, calls, effort.clock) for _ in range(3))
        if each * calls >= effort.turn / 4:
            return max(1, round(effort.turn / each))
        calls *= 2
