"""What the methods written by hand of an asynchronous face share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from reactive_sqlite.worker import Worker
from smithers.context import Frame

F = TypeVar("F", bound=Callable[..., Any])
Leave = Callable[[str, BaseException | None], None]


def twin(method: Callable[..., Any]) -> Callable[[F], F]:
    """Give a method written by hand the docstring of its synchronous twin."""

    def documented(fn: F) -> F:
        fn.__doc__ = method.__doc__
        return fn

    return documented


async def begun(worker: Worker, begin: Callable[[], Frame], leave: Leave) -> Frame:
    """Begin a row on the worker and return its frame.

    When the await is cancelled and the row was written all the same, it is ended at once: nobody
    will ever learn its id.
    """
    frames: list[Frame] = []

    def keep() -> None:
        frames.append(begin())

    def end(error: BaseException) -> None:
        for frame in frames:
            leave(frame.id, error)

    try:
        await worker.run(keep)
    except asyncio.CancelledError as error:
        # Behind the job that begins it, which may still be under way.
        await _ended(worker, partial(end, error), error)
        raise
    return frames[0]


@asynccontextmanager
async def left_with(worker: Worker, leave: Leave, id: str) -> AsyncGenerator[None]:
    """End a row with the block, as `smithers.rows.left_with` does, also when cancelled again."""
    try:
        yield
    except BaseException as error:
        await _ended(worker, partial(leave, id, error), error)
        raise
    await _surely(worker, partial(leave, id, None))


async def _ended(worker: Worker, end: Callable[[], object], error: BaseException) -> None:
    try:
        await _surely(worker, end)
    except Exception as further:
        error.add_note(f"the row could not be ended: {type(further).__name__}: {further}")


async def _surely(worker: Worker, call: Callable[[], object]) -> None:
    """Have a call made on the worker even when nobody awaits it any more."""
    await asyncio.shield(asyncio.ensure_future(worker.run(call)))
