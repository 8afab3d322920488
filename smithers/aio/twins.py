"""What the methods written by hand of an asynchronous face share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def twin(method: Callable[..., Any]) -> Callable[[F], F]:
    """Give a method written by hand the docstring of its synchronous twin."""

    def documented(fn: F) -> F:
        fn.__doc__ = method.__doc__
        return fn

    return documented


@asynccontextmanager
async def ended_with(
    id: str,
    *,
    is_running: Callable[[str], Awaitable[bool]],
    complete: Callable[[str], Awaitable[None]],
    fail: Callable[[str, BaseException], Awaitable[None]],
) -> AsyncGenerator[None]:
    """End a running row with the block, as `smithers.rows.ended_with` does."""
    try:
        yield
    except BaseException as error:
        try:
            if await is_running(id):
                await fail(id, error)
        except Exception as further:
            error.add_note(f"{id!r} could not be ended: {type(further).__name__}: {further}")
        raise
    if await is_running(id):
        await complete(id)
