"""Doing something in the middle of a walk through the graph, as a finalizer may at any point."""

from __future__ import annotations

from collections.abc import Callable

from reactive_sqlite.signals.state import Node


class Finalizing(Node):
    """An observer that does something when it is marked."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    @property
    def stale(self) -> bool:  # type: ignore[override]
        self.act()
        return True
