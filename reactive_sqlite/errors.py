"""Every error of this package that is not SQLite's own.

ReactiveError
├── DatabaseClosed      a call arrived after close()
├── DatabaseReplaced    the file under an open database is another one now, or gone
├── NotReady            an accessor was read before its first value
├── NotTracked          a feed of a table that is not tracked
├── Untrackable         a table that cannot be tracked
├── ConsumerDropped     a feed whose consumer was dropped
└── CycleError          memos or effects that cannot settle
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactive_sqlite.arguments import shown


class ReactiveError(Exception):
    """Base of all errors raised by `reactive_sqlite` itself."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        # Python would call the class with `args`, which is the text alone.
        return _made_again, (type(self), *self.args), self.__dict__


class DatabaseClosed(ReactiveError):
    """A call arrived after the database had been closed, or in a process forked from its own."""


class DatabaseReplaced(ReactiveError):
    """The file of an open database was replaced or removed by somebody else."""


class NotReady(ReactiveError):
    """An accessor has no value yet: its first one is still to come."""


class NotTracked(ReactiveError):
    """A feed was asked for of a table whose changes are not logged; `track()` begins it.

    Attributes:
        table: the table's name.
    """

    def __init__(self, table: str) -> None:
        super().__init__(
            f"table {shown(table)} is not tracked: call db[{shown(table)}].track() first"
        )
        self.table = table


class Untrackable(ReactiveError):
    """A table whose changes cannot be logged.

    Attributes:
        table: the table's name.
        reason: why not.
    """

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(f"{shown(table)} cannot be tracked: {reason}")
        self.table = table
        self.reason = reason


class ConsumerDropped(ReactiveError):
    """A feed has no cursor any more: its consumer was dropped.

    Attributes:
        consumer: the consumer's name.
    """

    def __init__(self, consumer: str) -> None:
        super().__init__(f"the consumer {shown(consumer)} was dropped")
        self.consumer = consumer


class CycleError(ReactiveError):
    """A memo read itself, or effects kept waking each other; the message names the nodes.

    Attributes:
        nodes: the names of the nodes involved, in the order they were found.
    """

    def __init__(self, message: str, nodes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.nodes = nodes


def _made_again(kind: type[ReactiveError], *args: Any) -> ReactiveError:
    return kind.__new__(kind, *args)
