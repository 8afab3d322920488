"""One graph and what is done to it, as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.graphs.library import Library


@dataclass(frozen=True, slots=True)
class Workload:
    """A built graph: `run` is timed, `expected` foretells the answer of the next run."""

    run: Callable[[], object]
    expected: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Case:
    """A named graph of some size; `afresh` builds it again for each run.

    The part of the name before the slash is its group.
    """

    name: str
    size: int
    build: Callable[[Library, int], Workload]
    afresh: bool = False

    @property
    def group(self) -> str:
        return self.name.partition("/")[0]


def checked(answer: object, expected: object, name: str) -> None:
    """Raise ArithmeticError when a library's answer is wrong: then it gets no time."""
    if answer != expected:
        raise ArithmeticError(f"{name}: {str(answer)[:120]} instead of {str(expected)[:120]}")
