"""One library at one case: builds, warms up, and times one run whenever it is asked to."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from benchmarks.graphs.case import Case, Workload, checked
from benchmarks.graphs.library import Library

T = TypeVar("T")

# Some libraries, and the first reading of ours, go down a chain of memos by calling.
STACK = 512 * 1024 * 1024
RECURSION = 200_000


class Bench:
    """Holds the built case between runs, so that other libraries can have their turns."""

    def __init__(self, library: Library, case: Case, size: int) -> None:
        self._library = library
        self._case = case
        self._size = size
        self._workload: Workload | None = None
        if not case.afresh:
            self.run()

    def run(self) -> float:
        """Time one run, in seconds of the processor: nothing in it waits, and others' programs do
        not count. Raises ArithmeticError when the answer is wrong."""
        workload = self._workload or self._case.build(self._library, self._size)
        expected = workload.expected()
        gc.collect()
        began = time.process_time()
        answer = workload.run()
        seconds = time.process_time() - began
        checked(answer, expected, self._case.name)
        if self._case.afresh:
            self.close()
        else:
            self._workload = workload
        return seconds

    def close(self) -> None:
        """Dispose what was built."""
        self._workload = None
        self._library.clear()


def with_deep_stack(fn: Callable[[], T]) -> T:
    """Run `fn` on a thread whose stack holds a chain of thousands of calls."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(fn())
        except BaseException as error:  # raised again by the thread that waits
            errors.append(error)

    limit, stack = sys.getrecursionlimit(), threading.stack_size(STACK)
    sys.setrecursionlimit(RECURSION)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(stack)
        sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return results[0]
