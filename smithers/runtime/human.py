"""Gates of a script: it waits there until a person has answered, in whatever process."""

from __future__ import annotations

import asyncio

from reactive_sqlite.arguments import seconds, shown
from smithers.codec import check_text
from smithers.db import SmithersDB
from smithers.errors import InvalidStatus, NotFound
from smithers.records import Approval
from smithers.runtime.place import Element
from smithers.runtime.script import Script
from smithers.storage.standings import Standing


async def human(
    script: Script,
    key: str,
    prompt: str,
    *,
    timeout: float | None,  # noqa: ASYNC109  (the contract's; it goes to asyncio.timeout)
) -> Approval:
    """Ask, or ask nothing again that was asked here before, and wait for the answer."""
    check_text(key, "the key of a gate")
    check_text(prompt, "the prompt of a gate", empty=True)
    patience = None if timeout is None else seconds(timeout, "timeout")
    place = script.places.next("gate", key)
    standing = script.standing(place)
    if standing is None or await _is_over(script, standing):
        last: Element = place.path[-1]

        def ask(db: SmithersDB) -> Standing:
            id = db.approvals.request(script.id, key, prompt, occurrence=int(last[2]))
            asked = Standing("gate", id)
            db.standings.put(script.id, str(place), asked)
            return asked

        standing = await script.host.transact(ask)
        script.note(place, standing)
    id = standing.row_id
    assert id is not None
    gate = script.host.observe(lambda db: db.approvals.observe_one(id))
    try:
        async with asyncio.timeout(patience):
            found = await gate.first(lambda asked: asked is None or asked.status != "pending")
    except BaseException as error:
        script.places.give_back(place)  # asked again, it is the same question
        if isinstance(error, TimeoutError):
            raise TimeoutError(f"nobody has answered {shown(key)} within {timeout} s") from error
        raise
    if found is None:
        raise NotFound("gate", id)
    if found.status == "void":
        raise InvalidStatus("gate", id, "void, since its execution has ended", "wait at")
    return found


async def _is_over(script: Script, standing: Standing) -> bool:
    """Whether nobody can answer any more: the execution had failed, and was taken up again."""
    id = standing.row_id
    asked = None if id is None else await script.host.call(lambda db: db.approvals.get(id))
    return asked is None or asked.status == "void"
