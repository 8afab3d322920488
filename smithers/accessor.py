"""The reading half of a signal pair: a query that is followed for as long as it is held."""

from __future__ import annotations

import weakref
from typing import TypeVar

from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.signals.owner import get_owner, on_cleanup
from reactive_sqlite.signals.state import SCALARS, STATE
from reactive_sqlite.view import NO_VALUES

T = TypeVar("T")


class Accessor(ObservableQuery[T]):
    """A query that is always current: reading it asks the database nothing.

    It is followed until it is collected, its owner is disposed or the database closes.
    """

    __slots__ = ("_kept", "_known")

    def __init__(self, query: ObservableQuery[T]) -> None:
        super().__init__(query._broker, query._source, query._projection)
        # A subscription keeps its query alive, so it is not this one that is subscribed to.
        self._kept = query
        self._known: object = NO_VALUES  # what was found to be a value; none is that yet
        subscription = query.subscribe()
        weakref.finalize(self, subscription.dispose)
        if get_owner() is not None:
            on_cleanup(subscription.dispose)

    def __call__(self) -> T:
        """Return the current value, and subscribe the running memo or effect to it."""
        if STATE.recorder is None and not STATE.others:
            # As the query itself does: its value is at hand, without a call in between.
            current: T = self._kept._value
            if current is self._known:
                return current
            if current.__class__ not in NO_VALUES:
                if current.__class__ in SCALARS:  # nothing else is kept longer than it is needed
                    self._known = current
                return current
        return self._kept()

    def peek(self) -> T:
        """Return the current value without subscribing anything."""
        return self._kept.peek()
