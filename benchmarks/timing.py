"""Times small pieces of work side by side, so that one noisy moment hits all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Timed:
    """The best time of one piece of work, in microseconds a call, and its ratio to the first's."""

    name: str
    microseconds: float
    ratio: float


def compare(works: Mapping[str, Callable[[], object]], *, calls: int) -> list[Timed]:
    """Time each piece of work in turn, several times over; the first measures the others."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(ROUNDS):
        for name, work in works.items():
            began = time.perf_counter()
            for _ in range(calls):
                work()
            best[name] = min(best[name], (time.perf_counter() - began) / calls)
    measure = next(iter(best.values()))
    return [Timed(name, seconds * 1e6, seconds / measure) for name, seconds in best.items()]


def show(title: str, results: list[Timed]) -> None:
    """Print the results as a table of at most 80 columns."""
    print(f"\n{title}")
    for result in results:
        print(f"  {result.name:<56}{result.microseconds:>9.2f} µs{result.ratio:>8.2f} x")
