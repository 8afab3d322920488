"""The permanent authorizer of a connection: records what SQLite asks as it compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactive_sqlite.statement import Action

_SQLITE_OK, _SQLITE_DENY = 0, 1


class Authorizer:
    """Called by SQLite with each action of a statement that it compiles anew.

    For one that it, or Python's own cache, keeps prepared it stays silent. It knows nothing of its
    connection, which refers to it in C, where pysqlite3 lets no collector look.
    """

    __slots__ = ("actions", "denied", "user")

    def __init__(self) -> None:
        self.actions: list[Action] = []  # of the innermost statement; whoever runs one begins anew
        self.denied: frozenset[int] = frozenset()  # codes of the actions that are forbidden now
        self.user: Callable[..., int] | None = None  # the user's own authorizer, asked as well

    def __call__(self, *action: Any) -> int:
        self.actions.append(action)
        if action[0] in self.denied:
            return _SQLITE_DENY
        return _SQLITE_OK if self.user is None else self.user(*action)
