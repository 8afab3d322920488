"""Where in a script something stands, so that a resumed run finds what it has done there.

A place is the path to it: phases, loops with their iteration, branches, and then the thing itself
by name or key, each with its occurrence among those of its name in one place. Line numbers do not
count: a script may be edited between two runs.

    [["phase","review",0],["loop","",0,2],["step","run tests",1]]
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

Element = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the script of a run.

    Attributes:
        path: its elements, the outermost first.
    """

    path: tuple[Element, ...] = ()

    def __truediv__(self, element: Element) -> Place:
        return Place((*self.path, element))

    def __str__(self) -> str:
        return json.dumps(self.path, ensure_ascii=False, separators=(",", ":"))

    @property
    def iteration(self) -> int:
        """The iteration of the innermost loop around, 0 outside of loops."""
        for element in reversed(self.path):
            if element[0] == "loop":
                return int(element[3])
        return 0


class Places:
    """Where the tasks of one run stand, and how often each name has occurred in each place."""

    def __init__(self) -> None:
        self._here: ContextVar[Place] = ContextVar("place")
        self._seen: Counter[tuple[Place, str, str]] = Counter()
        self._given_back: dict[tuple[Place, str, str], list[Place]] = {}

    @property
    def here(self) -> Place:
        """The place of the task that asks."""
        return self._here.get(Place())

    def next(self, kind: str, name: str) -> Place:
        """Return the place of the next thing of this name here."""
        given_back = self._given_back.get((self.here, kind, name))
        return given_back.pop(0) if given_back else self._next(kind, name)

    def give_back(self, place: Place) -> None:
        """Have the next thing of that name there stand in this place, where nothing came of it."""
        *around, (kind, name, _) = place.path
        key = (Place(tuple(around)), str(kind), str(name))
        self._given_back.setdefault(key, []).append(place)

    def next_loop(self) -> tuple[Place, int]:
        """Return where the next loop stands, without its iteration, and its occurrence."""
        occurrence = self._occurrence("loop", "")
        return self.here / ("loop", "", occurrence), occurrence

    @contextmanager
    def at(self, place: Place) -> Generator[None]:
        """Let what this task does in the block stand in a place."""
        token = self._here.set(place)
        try:
            yield
        finally:
            self._here.reset(token)

    def _next(self, kind: str, name: str) -> Place:
        return self.here / (kind, name, self._occurrence(kind, name))

    def _occurrence(self, kind: str, name: str) -> int:
        key = (self.here, kind, name)
        self._seen[key] += 1
        return self._seen[key] - 1
