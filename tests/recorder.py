"""A subscriber that remembers what it was told, for tests of emissions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Recorder(Generic[T]):
    """Record everything an observable says, in order.

    Subscribe its methods: `query.subscribe(seen.on_next, seen.on_error, seen.on_completed)`, or the
    recorder itself where one callable is asked for: `create_effect(lambda: seen(count()))`.
    """

    def __init__(self) -> None:
        self.values: list[T] = []
        self.errors: list[Exception] = []
        self.threads: list[threading.Thread] = []
        self.completed = 0
        self._told = threading.Condition()

    def __call__(self, value: T) -> None:
        self.on_next(value)

    def on_next(self, value: T) -> None:
        with self._told:
            self.values.append(value)
            self.threads.append(threading.current_thread())
            self._told.notify_all()

    def on_error(self, error: Exception) -> None:
        with self._told:
            self.errors.append(error)
            self._told.notify_all()

    def on_completed(self) -> None:
        with self._told:
            self.completed += 1
            self._told.notify_all()

    @property
    def last(self) -> T:
        """The newest value; AssertionError when there is none."""
        assert self.values, "nothing was emitted"
        return self.values[-1]

    def take(self) -> list[T]:
        """Return the values seen so far and forget them."""
        with self._told:
            values, self.values = self.values, []
            self.threads = []
        return values

    def wait_for(self, predicate: Callable[[T], bool], timeout: float = 10.0) -> T:
        """Block until a value satisfies `predicate`, and return that value."""

        def found() -> list[T]:
            return [value for value in self.values if predicate(value)]

        return self._wait(found, timeout)[0]

    def wait_for_count(self, count: int, timeout: float = 10.0) -> list[T]:
        """Block until `count` values have been emitted, and return all of them."""
        self._wait(lambda: len(self.values) >= count, timeout)
        return list(self.values)

    def wait_for_error(self, timeout: float = 10.0) -> Exception:
        """Block until an error has been told, and return the first."""
        self._wait(lambda: bool(self.errors), timeout)
        return self.errors[0]

    def wait_for_completion(self, timeout: float = 10.0) -> None:
        """Block until completion has been told."""
        self._wait(lambda: self.completed > 0, timeout)

    def _wait(self, condition: Callable[[], U], timeout: float) -> U:
        with self._told:
            result = self._told.wait_for(condition, timeout)
            assert result, (
                f"not within {timeout} s; values {self.values!r}, errors {self.errors!r}, "
                f"completed {self.completed}"
            )
            return result
