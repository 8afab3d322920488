"""What pages may change, where that is allowed: each a function of the database and of JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from smithers.db import SmithersDB, create_smithers_db
from smithers.errors import NotFound, SmithersError
from smithers.storage.timeline import Timeline
from smithers.web.items import record_fields

Body = dict[str, Any]


class Outdated(SmithersError):
    """What the page has shown is no longer so."""


def act(path: Path, name: str, body: Body) -> Any:
    """Do it, by a handle that is there for as long as it takes.

    Raises KeyError for another name, ValueError or TypeError for a body that makes no sense, and
    what the database raises.
    """
    action = ACTIONS[name]
    with create_smithers_db(path, watch=False) as db:
        return action(db, body)


def _restore(db: SmithersDB, body: Body) -> Any:
    seq, now = _number(body, "seq"), _number(body, "now")
    with db.transaction():
        _, last = Timeline(db.database).ends()
        if last != now:
            raise Outdated("the state has changed meanwhile: look at what would be restored again")
        return [record_fields(one) for one in db.state.replay_to(seq)]


def _approve(db: SmithersDB, body: Body) -> Any:
    return _decide(db, body, db.approvals.approve)


def _deny(db: SmithersDB, body: Body) -> Any:
    return _decide(db, body, db.approvals.deny)


def _decide(db: SmithersDB, body: Body, decide: Callable[..., Any]) -> Any:
    id = _text(body, "id")
    comment = _text(body, "comment") if body.get("comment") else None
    with db.transaction():
        gate = db.approvals.get(id)
        if gate is None:
            raise NotFound("gate", id)
        if gate.status != "pending":
            raise Outdated(f"it has been answered already: {gate.status}")
        decided = decide(gate.key, comment, execution_id=gate.execution_id)
        if decided.id != id:
            raise Outdated("an earlier question of the same key waits for its answer first")
    return record_fields(decided)


def _retry(db: SmithersDB, body: Body) -> Any:
    return db.triggers.retry(_text(body, "trigger"))


def _cancel(db: SmithersDB, body: Body) -> Any:
    id = _text(body, "execution")
    db.execution.cancel(id, _text(body, "reason") if body.get("reason") else None)
    found = db.execution.get(id)
    return None if found is None else record_fields(found)


def _text(body: Body, name: str) -> str:
    found = body.get(name)
    if not isinstance(found, str):
        raise ValueError(f"{name!r} has to be a text")
    return found


def _number(body: Body, name: str) -> int:
    found = body.get(name)
    if type(found) is not int:
        raise ValueError(f"{name!r} has to be a whole number")
    return found


ACTIONS: dict[str, Callable[[SmithersDB, Body], Any]] = {
    "restore": _restore,
    "approve": _approve,
    "deny": _deny,
    "retry": _retry,
    "cancel": _cancel,
}
