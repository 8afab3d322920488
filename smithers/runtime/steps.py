"""Steps and phases of a script: what has been recorded is not done again."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from reactive_sqlite.arguments import shown
from smithers.codec import check_text, encoded
from smithers.context import Frame
from smithers.db import SmithersDB
from smithers.errors import StepFailed
from smithers.failure import error_line
from smithers.runtime.script import Script
from smithers.storage.standings import Standing


async def step(
    script: Script, name: str, fn: Callable[[], Any | Awaitable[Any]], *, key: str | None
) -> Any:
    """Call `fn` once for all runs of the script; return the JSON of what it returned.

    Raises StepFailed from what `fn` raises, TypeError or ValueError for what has no form in JSON.
    """
    check_text(name, "the name of a step")
    if key is not None:
        check_text(key, "the key of a step")
    place = script.places.next("step", name if key is None else key)
    earlier = script.standing(place)
    if earlier is not None and (id := earlier.row_id) is not None:
        row = await script.host.call(lambda db: db.steps.get(id))
        if row is not None and row.status == "completed":
            return row.result

    def begin(db: SmithersDB) -> Frame:
        frame = db.steps.begin(name, execution_id=script.id)
        db.standings.put(script.id, str(place), Standing("step", frame.id))
        return frame

    await script.settle()
    frame = await script.begin(begin)
    script.note(place, Standing("step", frame.id))
    frame.enter()
    try:
        with script.places.at(place):
            value = fn()
            if inspect.isawaitable(value):
                value = await value
    except Exception as error:
        await _end(script, frame, error)
        raise StepFailed(name, error_line(error)) from error
    except BaseException as error:
        script.leave(frame, error)
        raise
    try:
        _, plain = encoded(value, name=f"the result of step {shown(name)}")
    except (TypeError, ValueError) as error:
        await _end(script, frame, error)
        raise
    await script.end(lambda db: db.steps.complete(frame.id, plain))
    return plain


@asynccontextmanager
async def phase(script: Script, name: str) -> AsyncGenerator[str]:
    """Run a block as a phase; a resumed run enters the one that it finds in its place."""
    check_text(name, "the name of a phase")
    await script.settle()
    place = script.places.next("phase", name)
    earlier = script.standing(place)
    frame: Frame | None = None
    if earlier is not None and (id := earlier.row_id) is not None:
        frame = await script.host.call(lambda db: db.phases.rejoin(id))
    if frame is None:

        def begin(db: SmithersDB) -> Frame:
            begun = db.phases.begin(name, place.iteration, execution_id=script.id)
            db.standings.put(script.id, str(place), Standing("phase", begun.id))
            return begun

        frame = await script.begin(begin)
        script.note(place, Standing("phase", frame.id))
    entered = frame
    entered.enter()
    try:
        with script.places.at(place):
            yield entered.id
    except Exception as error:
        await _end(script, entered, error)
        raise
    except BaseException as error:
        script.leave(entered, error)
        raise
    await script.end(lambda db: db.phases.leave(entered.id))


async def _end(script: Script, frame: Frame, error: Exception) -> None:
    def end(db: SmithersDB) -> None:
        rows = db.steps if frame.kind == "step" else db.phases
        rows.leave(frame.id, error)

    try:
        await script.end(end)
    except Exception as further:
        error.add_note(f"the {frame.kind} could not be ended: {type(further).__name__}: {further}")
