"""Turning callbacks into waiting: for threads, and for tasks of an event loop."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any, Generic, Protocol, TypeVar, cast

from reactive_sqlite.arguments import check_callable, seconds
from reactive_sqlite.errors import DatabaseClosed
from reactive_sqlite.subscription import NOTHING
from reactive_sqlite.worker import post, running_loop

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Subscribable(Protocol[T_co]):
    """What can be waited for."""

    def subscribe(
        self,
        on_next: Callable[[T_co], None],
        on_error: Callable[[Exception], None],
        on_completed: Callable[[], None],
    ) -> Any: ...


class Slot(Generic[T]):
    """The newest value that has arrived and was not taken, and the end."""

    __slots__ = ("_error", "_value", "ended")

    def __init__(self) -> None:
        self._value: Any = NOTHING
        self._error: Exception | None = None
        self.ended = False

    @property
    def filled(self) -> bool:
        """Whether a value waits."""
        return self._value is not NOTHING

    def put(self, value: T) -> None:
        self._value = value

    def end(self, error: Exception | None = None) -> None:
        self.ended = True
        self._error = error

    def take(self) -> T:
        """Return the value."""
        value, self._value = self._value, NOTHING
        return cast(T, value)

    def raise_error(self) -> None:
        """Raise what ended the stream, if anything did."""
        if self._error is not None:
            raise self._error


def wait_for(
    source: Subscribable[T],
    predicate: Callable[[T], bool] | None,
    timeout: float | None,
    name: str,
) -> T:
    """Block this thread until a value satisfies the predicate, which is called on this thread."""
    timeout = _patience(predicate, timeout)
    arrived = threading.Condition()
    slot: Slot[T] = Slot()

    def put(value: T) -> None:
        with arrived:
            slot.put(value)
            arrived.notify()

    def end(error: Exception | None = None) -> None:
        with arrived:
            slot.end(error)
            arrived.notify()

    subscription = source.subscribe(put, end, end)
    try:
        while True:
            with arrived:
                if not arrived.wait_for(lambda: slot.filled or slot.ended, timeout):
                    raise TimeoutError(f"no fitting value within {timeout} s of {name}")
                if not slot.filled:
                    slot.raise_error()
                    raise DatabaseClosed("the database was closed")
                value = slot.take()
            if predicate is None or predicate(value):
                return value
    finally:
        subscription.dispose()


async def first(
    source: Subscribable[T],
    predicate: Callable[[T], bool] | None,
    timeout: float | None,  # noqa: ASYNC109  (it is handed to asyncio.timeout)
) -> T:
    """Return the first value that satisfies the predicate, which is called on the loop."""
    import asyncio

    async with asyncio.timeout(_patience(predicate, timeout)):
        stream = newest(source)
        try:
            async for value in stream:
                if predicate is None or predicate(value):
                    return value
        finally:
            await stream.aclose()
    raise DatabaseClosed("the database was closed")


async def newest(source: Subscribable[T]) -> AsyncGenerator[T, None]:
    """Yield the current value, then the newest whenever there is a newer one."""
    import asyncio

    loop = running_loop()
    arrived = asyncio.Event()
    slot: Slot[T] = Slot()

    def told(change: Callable[..., None], *args: Any) -> None:
        change(*args)
        arrived.set()

    def tell(change: Callable[..., None], *args: Any) -> None:
        # Always by way of the loop: values of several threads then arrive in one order.
        post(loop, told, change, *args)

    subscription = source.subscribe(
        lambda value: tell(slot.put, value),
        lambda error: tell(slot.end, error),
        lambda: tell(slot.end),
    )
    try:
        while True:
            await arrived.wait()
            arrived.clear()
            if slot.filled:
                yield slot.take()
            if slot.ended and not slot.filled:
                slot.raise_error()
                return
    finally:
        subscription.dispose()


def _patience(predicate: object, timeout: float | None) -> float | None:
    if predicate is not None:
        check_callable(predicate, "predicate")
    return None if timeout is None else seconds(timeout, "timeout")
