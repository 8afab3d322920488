"""The face through which a graph is built, whichever library it is built with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

Read = Callable[[], Any]
Write = Callable[[Any], object]


class Library(ABC):
    """One library of signals.

    What it hands out are the library's own fastest callables, so that the face adds no frame.
    """

    # Computations run only where something changed; False: sums of runs are not compared.
    exact = True

    @abstractmethod
    def signal(self, value: Any) -> tuple[Read, Write]: ...

    @abstractmethod
    def memo(self, fn: Callable[[], Any]) -> Read: ...

    @abstractmethod
    def effect(self, fn: Callable[[], object]) -> None:
        """Run `fn` now and after each change, until `clear`."""

    @abstractmethod
    def batch(self, fn: Callable[[], object]) -> None:
        """Run `fn`; all effects have run when this returns."""

    @abstractmethod
    def clear(self) -> None:
        """Dispose every effect made since the last call."""

    def flush(self) -> None:
        """Run the effects that a write outside a batch left waiting; most libraries leave none."""
        return
