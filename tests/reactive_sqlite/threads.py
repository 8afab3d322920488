"""Running pieces of a test on threads of their own."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def together(*work: Callable[[], Any], timeout: float = 30.0) -> None:
    """Run each on its own thread and wait for all; raises what one of them raised."""
    with ThreadPoolExecutor(len(work)) as pool:
        for future in [pool.submit(piece) for piece in work]:
            future.result(timeout)


@contextmanager
def beside(work: Callable[[], T]) -> Generator[Future[T]]:
    """Run it on another thread while the block runs; waits for it, and raises what it raised."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        yield future
        future.result(30.0)


def elsewhere(work: Callable[[], T]) -> T:
    """Run it on another thread and return its result."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(30.0)
