"""What a page may follow: each topic is a list of items, read anew when a commit touches it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from reactivex.abc import DisposableBase

from reactive_sqlite.observation import ObservableQuery
from smithers.db import SmithersDB
from smithers.jsontext import json_text
from smithers.records import Execution
from smithers.storage.overview import Overview, Part
from smithers.web.items import Item, raw, record_fields, record_item

# A value above this many characters is shown by its beginning, and whole when it is asked for.
LONG_VALUE = 20_000


@dataclass(frozen=True, slots=True)
class Seen:
    """The items of a topic, and the number of the newest entry of the change log then."""

    seq: int
    items: list[Item]


Tell = Callable[[Seen], None]
Fail = Callable[[Exception], None]


class Topic(Protocol):
    """Something that a page follows."""

    def follow(self, tell: Tell, fail: Fail) -> DisposableBase:
        """Tell the items now and whenever they have changed; `fail` is the last call."""
        ...

    def look(self) -> None:
        """Look at what changes without a commit, and tell it."""
        ...


class UnknownTopic(ValueError):
    """A topic that there is not."""


def topic(db: SmithersDB, name: str) -> Topic:
    """Make the topic of a name: `state`, or `execution:ID` with what it is about.

    Raises UnknownTopic.
    """
    kind, _, about = name.partition(":")
    make = TOPICS.get(kind)
    if make is None or "\0" in about:
        raise UnknownTopic(f"there is no topic {name!r}")
    return make(db, about)


class Listing:
    """A topic that is one observed query."""

    def __init__(
        self, db: SmithersDB, query: ObservableQuery[Any], items: Callable[[Any], list[Item]]
    ) -> None:
        self._query = numbered(db, query, items)

    def follow(self, tell: Tell, fail: Fail) -> DisposableBase:
        return self._query.subscribe(lambda found: tell(Seen(*found)), fail)

    def look(self) -> None:
        """Nothing changes without a commit."""


class Executions:
    """All executions, each with what runs below it.

    Whether the owner of one lives is looked at again and again: a process that dies commits
    nothing.
    """

    def __init__(self, db: SmithersDB, limit: int) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._seq = 0
        self._executions: list[Execution] = []
        self._running: list[Part] = []
        self._tell: Tell | None = None
        self._query = db.database.observe_many(
            numbered(db, db.executions.observe(limit=limit), list),
            numbered(db, Overview(db.database).observe_running(), list),
        )

    def follow(self, tell: Tell, fail: Fail) -> DisposableBase:
        self._tell = tell
        return self._query.subscribe(self._take, fail)

    def look(self) -> None:
        with self._lock:
            running = [one.id for one in self._executions if one.status == "running"]
        found = {id: self._db.executions.get(id) for id in running}
        with self._lock:
            # Of what was read now only this is taken, so that nothing older covers a commit.
            self._executions = [
                replace(one, is_live=now.is_live) if (now := found.get(one.id)) else one
                for one in self._executions
            ]
            self._show()

    def _take(self, found: Any) -> None:
        (first, executions), (second, running) = found
        with self._lock:
            self._seq = min(first, second)
            self._executions, self._running = executions, running
            self._show()

    def _show(self) -> None:
        below: dict[str, list[dict[str, Any]]] = {}
        for part in self._running:
            below.setdefault(part.execution_id, []).append(record_fields(part))
        items = [
            record_item(one, without=("result",), running=below.get(one.id, []))
            for one in self._executions
        ]
        if self._tell is not None:
            self._tell(Seen(self._seq, items))


def numbered(
    db: SmithersDB, query: ObservableQuery[Any], decode: Callable[[Any], list[Any]]
) -> ObservableQuery[tuple[int, list[Any]]]:
    """Observe a query together with the number of the change log of the same moment."""
    log = db.database.broker.log
    return query.decoded(lambda value: (log.newest(), decode(value)))


def _overview(db: SmithersDB, _: str) -> Topic:
    return Executions(db, limit=100)


def _state(db: SmithersDB, _: str) -> Topic:
    rows = db.database.table("state").observe(order_by="key", select="key, value, updated_at")
    return Listing(db, rows, _state_items)


def _state_items(rows: Sequence[dict[str, Any]]) -> list[Item]:
    return [state_item(row["key"], row["value"], row["updated_at"]) for row in rows]


def state_item(key: str, text: str, updated_at: str) -> Item:
    """Make the item of a key, its value as the JSON text that it is stored as.

    Where that is long, `value` is null, `beginning` its first characters and `size` how many it
    has.
    """
    name, at = json_text(key), json_text(updated_at)
    if len(text) > LONG_VALUE:
        beginning = json_text(text[:LONG_VALUE])
        value = f'null,"beginning":{beginning},"size":{len(text)}'
    else:
        value = raw(text)
    return key, f'{{"key":{name},"value":{value},"updated_at":{at}}}'


TOPICS: dict[str, Callable[[SmithersDB, str], Topic]] = {
    "overview": _overview,
    "state": _state,
}
