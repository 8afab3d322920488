"""The Ralph loop: a body that runs again while a signal that it read has changed since."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from reactive_sqlite.arguments import check_callable, seconds, shown
from reactive_sqlite.signals.watched import WatchedRun
from smithers.records import RalphResult
from smithers.runtime.place import Place
from smithers.runtime.script import Script
from smithers.storage.standings import Standing

Body = Callable[[], Any | Awaitable[Any]]


async def ralph(
    script: Script,
    body: Body,
    *,
    max_iterations: int,
    until: Callable[[], Any] | None,
    wait: bool | float,
) -> RalphResult:
    """Run a body as often as it takes; see `Run.ralph`."""
    if type(max_iterations) is not int or max_iterations < 1:
        raise ValueError(f"max_iterations is a whole number from 1 on, not {shown(max_iterations)}")
    check_callable(body, "body")
    if until is not None:
        check_callable(until, "until")
    longest = _seconds(wait)
    loop, occurrence = script.places.next_loop()
    standing = script.standing(loop) or Standing("loop")
    if standing.outcome is not None:
        return RalphResult(standing.done, standing.outcome)
    done, reason = standing.done, None
    while reason is None:
        if done >= max_iterations:
            reason = "max_iterations"
        elif script.stopping is not None:
            reason = "stopped"
        else:
            at = Place((*loop.path[:-1], ("loop", "", occurrence, done)))
            with script.places.at(at):
                run = WatchedRun(_whole(body))
            try:
                await run.result()
                done += 1
                await script.put(loop, Standing("loop", done=done))
                reason = await _verdict(script, run, until, longest, last=done >= max_iterations)
            finally:
                run.dispose()
    script.stopped()
    await script.put(loop, Standing("loop", done=done, outcome=reason))
    return RalphResult(done, reason)


async def _verdict(
    script: Script,
    run: WatchedRun[None],
    until: Callable[[], Any] | None,
    seconds: float | None,
    *,
    last: bool,
) -> str | None:
    """Tell why the loop ends after an iteration, None when it goes on."""
    if script.stopping is not None:
        return "stopped"
    if until is not None:
        met = until()
        if inspect.isawaitable(met):
            met = await met
        if met:
            return "until"
    # What another process has committed by now is to be seen before it is judged.
    await script.host.call(lambda db: db.database.broker.check())
    if run.changed() or last:
        return None
    if seconds == 0:
        return "settled"
    return await _changed_or_stopped(script, run, seconds)


async def _changed_or_stopped(
    script: Script, run: WatchedRun[None], seconds: float | None
) -> str | None:
    waits = [
        asyncio.ensure_future(run.wait_changed()),
        asyncio.ensure_future(script.wait_stopping()),
    ]
    try:
        finished, _ = await asyncio.wait(
            waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        for one in waits:
            one.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    if not finished:
        return "settled"
    return "stopped" if script.stopping is not None else None


def _whole(body: Body) -> Callable[[], Any]:
    async def whole() -> None:
        done = body()
        if inspect.isawaitable(done):
            await done

    return whole


def _seconds(wait: object) -> float | None:
    """Read `wait`: 0 not at all, None for ever."""
    if wait is False:
        return 0.0
    if wait is True:
        return None
    if isinstance(wait, int | float) and wait >= 0:
        return seconds(wait, "wait")
    raise ValueError(f"wait is True, False or a number of seconds from 0 up, not {shown(wait)}")
