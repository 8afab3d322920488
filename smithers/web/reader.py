"""Reading on request, by a handle of its own that keeps nobody else waiting."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from reactive_sqlite.errors import DatabaseClosed, DatabaseReplaced
from reactive_sqlite.worker import Worker
from smithers.db import SmithersDB, create_smithers_db
from smithers.errors import NotFound
from smithers.storage.timeline import Moment, Timeline
from smithers.web.items import record_fields

R = TypeVar("R")
MOST_COMMITS = 500
MOST_TRANSITIONS = 500


class Reader:
    """Runs functions of a read-only handle, opened when it is first needed, one at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._worker = Worker("smithers-ui-reader")
        self._db: SmithersDB | None = None

    async def read(self, fn: Callable[..., R], *args: Any) -> R:
        """Return what `fn(db, *args)` returns."""
        return await self._worker.run(self._read, fn, *args)

    def forget(self) -> None:
        """Open the file anew for the next reading, since another one may stand there then."""
        self._worker.submit(self._shut)

    async def close(self) -> None:
        await self._worker.run(self._shut)
        self._worker.close()

    def _read(self, fn: Callable[..., R], *args: Any) -> R:
        if self._db is None:
            self._db = create_smithers_db(self._path, read_only=True, watch=False)
        try:
            return fn(self._db, *args)
        except (DatabaseReplaced, DatabaseClosed):
            self._shut()
            raise

    def _shut(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()


def value(db: SmithersDB, key: str) -> dict[str, Any]:
    """Read a whole value. Raises NotFound."""
    entry = db.state.entry(key)
    if entry is None:
        raise NotFound("key", key)
    return record_fields(entry)


def history(db: SmithersDB, key: str | None, before: int | None, limit: int) -> dict[str, Any]:
    """Read a page of transitions, the newest first."""
    limit = min(limit, MOST_TRANSITIONS)
    found = db.state.history(key, limit + 1, before=before)
    shown = found[-limit:] if limit else []
    return {
        "transitions": [record_fields(one) for one in reversed(shown)],
        "more": len(found) > limit,
    }


def commits(db: SmithersDB, before: int | None, limit: int) -> dict[str, Any]:
    """Read a page of the commits of the state, the newest first, and between what they stand."""
    timeline = Timeline(db.database)
    found = timeline.newest(min(limit, MOST_COMMITS), before=before)
    first, last = timeline.ends()
    return {"commits": [record_fields(one) for one in found], "first": first, "last": last}


def state_at(db: SmithersDB, seq: int) -> dict[str, Any]:
    """Read the state as it was, and what sets it apart from that of now."""
    with db.transaction():
        commit = _commit(db, seq)
        then, now = db.state.state_at(commit.seq), db.state.get_all()
    return {
        **record_fields(commit),
        "items": [{"key": key, "value": one} for key, one in then.items()],
        "added": [key for key in now if key not in then],
        "removed": [key for key in then if key not in now],
        "changed": [key for key in then if key in now and _text(then[key]) != _text(now[key])],
    }


def restore_preview(db: SmithersDB, seq: int) -> dict[str, Any]:
    """Read what restoring a state would change, and the newest transition, of which that holds."""
    with db.transaction():
        commit = _commit(db, seq)
        then, now = db.state.state_at(commit.seq), db.state.get_all()
        _, last = Timeline(db.database).ends()
    changes = [
        {"key": key, "kind": "set", "from": now.get(key), "to": one, "absent": key not in now}
        for key, one in then.items()
        if key not in now or _text(one) != _text(now[key])
    ]
    changes += [
        {"key": key, "kind": "delete", "from": one, "to": None, "absent": False}
        for key, one in now.items()
        if key not in then
    ]
    return {**record_fields(commit), "changes": changes, "now": last}


def tool(db: SmithersDB, id: str) -> dict[str, Any]:
    """Read a tool call with its whole output. Raises NotFound."""
    call = db.tools.get(id)
    if call is None:
        raise NotFound("tool call", id)
    return record_fields(call)


def _commit(db: SmithersDB, seq: int) -> Moment:
    found = Timeline(db.database).at(seq)
    if found is None:
        raise NotFound("transition", f"t{seq}")
    return found


def _text(value: Any) -> str:
    return json.dumps(value)
