"""Branches of a script that run at once, each in a place of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from smithers.runtime.script import Script


async def parallel(script: Script, branches: tuple[Awaitable[Any], ...]) -> list[Any]:
    """Run awaitables at once; return their results, or raise all their errors together."""
    place = script.places.next("parallel", "")
    tasks: list[asyncio.Task[Any]] = []
    for number, branch in enumerate(branches):
        if asyncio.isfuture(branch):
            raise TypeError(
                "parallel takes coroutines that have not begun, not tasks or futures: "
                "what runs already stands in another place"
            )
        with script.places.at(place / ("branch", number)):
            tasks.append(asyncio.create_task(_run(branch)))
    try:
        results = await asyncio.gather(*tasks, return_exceptions=True)
    except asyncio.CancelledError:
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    errors = [one for one in results if isinstance(one, Exception)]
    fatal = [one for one in results if isinstance(one, BaseException)]
    if len(fatal) > len(errors):
        raise BaseExceptionGroup("branches failed", fatal)
    if errors:
        raise ExceptionGroup("branches failed", errors)
    return results


async def _run(branch: Awaitable[Any]) -> Any:
    return await branch
