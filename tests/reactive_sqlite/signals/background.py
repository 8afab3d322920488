"""A call on a thread of its own, whose result or error the test waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """A call under way; made by `run_in_thread`."""

    def __init__(self, fn: Callable[[], T]) -> None:
        self._fn = fn
        self._value: list[T] = []
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def result(self, timeout: float = 10.0) -> T:
        """Wait for the call to end; return its result or raise its error."""
        self.thread.join(timeout)
        assert not self.thread.is_alive(), f"the call was still blocked after {timeout} s"
        if self._error is not None:
            raise self._error
        return self._value[0]

    def _run(self) -> None:
        try:
            self._value.append(self._fn())
        except BaseException as error:
            self._error = error


def run_in_thread(fn: Callable[[], T]) -> Background[T]:
    """Call `fn` on a new thread."""
    return Background(fn)
