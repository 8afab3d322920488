"""What a benchmark finds: figures, each with what it was measured against and what it should be."""

from __future__ import annotations

from dataclasses import dataclass

RATIO = "x"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value.

    `unit` is "x" for a ratio to `peer`, which was measured in the same run, else a unit of time,
    memory or count. `at_most` is the target, None for a figure that is only shown.
    """

    name: str
    value: float
    peer: str = ""
    unit: str = RATIO
    at_most: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        return None if self.at_most is None else self.value <= self.at_most

    @property
    def verdict(self) -> str:
        """The same in words, empty where there is no target."""
        return {None: "", True: "met", False: "not met"}[self.met]


@dataclass(frozen=True, slots=True)
class Outcome:
    """All figures of one subject; `details` go to the file only, unless they are asked for."""

    subject: str
    title: str
    figures: tuple[Figure, ...]
    details: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()


def shown(value: float, unit: str) -> str:
    """Write a value with the digits that carry meaning."""
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    if value < 0.1 and value:
        digits = 3
    return f"{value:,.{digits}f} {unit}".strip()
