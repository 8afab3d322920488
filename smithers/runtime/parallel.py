"""Branches of a script that run at once, each in a place of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any

from smithers.runtime.script import Script


async def parallel(script: Script, branches: tuple[Awaitable[Any], ...]) -> list[Any]:
    """Run awaitables at once; return their results, or raise all their errors together."""
    _check(branches)
    place = script.places.next("parallel", "")
    tasks: list[asyncio.Task[Any]] = []
    for number, branch in enumerate(branches):
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


def _check(branches: tuple[Awaitable[Any], ...]) -> None:
    """Refuse what cannot be a branch, before any of them begins."""
    try:
        for branch in branches:
            if asyncio.isfuture(branch):
                raise TypeError(
                    "parallel takes awaitables that have not begun, not tasks or futures: "
                    "what runs already stands in another place"
                )
            if not inspect.isawaitable(branch):
                raise TypeError(f"parallel takes awaitables, not {type(branch).__name__}")
    except TypeError:
        for branch in branches:
            if inspect.iscoroutine(branch):
                branch.close()  # nobody will await it, and Python would complain
        raise


async def _run(branch: Awaitable[Any]) -> Any:
    return await branch
