"""Letting an event loop turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until the condition holds; TimeoutError after ten seconds."""
    async with asyncio.timeout(10):
        while True:
            if condition():
                return
            await asyncio.sleep(0.001)


async def turns(count: int = 20) -> None:
    """Let the loop turn a few times: time enough for what must not happen."""
    for _ in range(count):
        await asyncio.sleep(0)
