"""What a page may follow: each topic is a list of items, read anew when a commit touches it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from reactivex.abc import DisposableBase
from reactivex.disposable import Disposable

from reactive_sqlite.arguments import shown
from reactive_sqlite.changes import ChangeSet
from reactive_sqlite.errors import DatabaseClosed
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.worker import Worker
from smithers.db import SmithersDB
from smithers.errors import StateTypeError
from smithers.jsontext import json_text
from smithers.records import Approval, DeadLetter, Execution, Trigger
from smithers.storage.overview import Overview, Part
from smithers.storage.questions import ask
from smithers.web.items import Item, item, raw, record_fields, record_item

MOST_EXECUTIONS = 100
MOST_PARTS = 5_000
MOST_ROWS = 200
MOST_MEMORIES = 100
MOST_ANSWERED = 100
# A value above this many characters is shown by its beginning, and whole when it is asked for.
LONG_VALUE = 20_000
_OF_TRANSITIONS = 'id, seq, key, "trigger", timestamp, execution_id, agent_id, deleted, "commit"'


@dataclass(frozen=True, slots=True)
class Seen:
    """The items of a topic, and the number of the newest entry of the change log then."""

    seq: int
    items: list[Item]


Tell = Callable[[Seen], None]
Fail = Callable[[Exception], None]


class Topic(Protocol):
    """Something that a page follows.

    Attributes:
        goes_on: whether it tells more after an error; else that is its last call.
    """

    goes_on: bool

    def follow(self, tell: Tell, fail: Fail) -> DisposableBase:
        """Tell the items now and whenever they have changed."""
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

    goes_on = False

    def __init__(self, query: ObservableQuery[tuple[int, list[Item]]]) -> None:
        self._query = query

    def follow(self, tell: Tell, fail: Fail) -> DisposableBase:
        return self._query.subscribe(lambda found: tell(Seen(*found)), fail)

    def look(self) -> None:
        """Nothing changes without a commit."""


class Executions:
    """Executions, each with what runs below it.

    Whether the owner of one lives is looked at again and again: a process that dies commits
    nothing.
    """

    goes_on = False

    def __init__(
        self,
        db: SmithersDB,
        query: ObservableQuery[list[Execution]],
        *,
        without: Sequence[str] = (),
    ) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._seq = 0
        self._executions: list[Execution] = []
        self._running: list[Part] = []
        self._without = without
        self._tell: Tell | None = None
        self._query = db.database.observe_many(
            numbered(db, query, list),
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
            record_item(one, without=self._without, running=below.get(one.id, []))
            for one in self._executions
        ]
        if self._tell is not None:
            self._tell(Seen(self._seq, items))


class Question:
    """The answer to somebody's SQL, asked again when a commit touches what it was read from.

    It is asked elsewhere than the other topics, since it may be slow.
    """

    goes_on = True

    def __init__(self, db: SmithersDB, path: Path, sql: str) -> None:
        self._db = db
        self._path = path
        self._sql = sql
        self._worker = Worker("smithers-ui-sql")
        self._tables: frozenset[str] | None = None  # unknown
        self._lock = threading.Lock()
        self._asked = False
        self._tracked = frozenset(db.database.tracked())

    def follow(self, tell: Tell, fail: Fail) -> DisposableBase:
        def again(changes: ChangeSet) -> None:
            if self._is_touched(changes):
                self._ask(tell, fail)

        commits = self._db.database.changes().subscribe(again, fail)
        self._ask(tell, fail)

        def dispose() -> None:
            commits.dispose()
            self._worker.close()

        return Disposable(dispose)

    def look(self) -> None:
        """Nothing changes without a commit."""

    def _is_touched(self, changes: ChangeSet) -> bool:
        known = self._tables
        if known is None or changes.tables is not None:
            return known is None or changes.touches(known)
        if changes.rows is None or not known <= self._tracked:
            return True
        return any(row.table in known for row in changes.rows)

    def _ask(self, tell: Tell, fail: Fail) -> None:
        with self._lock:
            if self._asked:
                return  # what is asked then will see this commit
            self._asked = True
        with contextlib.suppress(DatabaseClosed):
            self._worker.submit(lambda: self._answer(tell, fail))

    def _answer(self, tell: Tell, fail: Fail) -> None:
        with self._lock:
            self._asked = False
        try:
            answer = ask(self._path, self._sql)
            told = item(
                "answer",
                id="answer",
                columns=answer.columns,
                rows=answer.rows,
                truncated=answer.truncated,
            )
        except Exception as error:
            # Whatever it is, it is the answer to what somebody has typed.
            self._tables = None
            fail(error)
            return
        self._tables = answer.tables
        tell(Seen(0, [told]))


def numbered(
    db: SmithersDB, query: ObservableQuery[Any], decode: Callable[[Any], list[Any]]
) -> ObservableQuery[tuple[int, list[Any]]]:
    """Observe a query together with the number of the change log of the same moment."""
    log = db.database.broker.log
    return query.decoded(lambda value: (log.newest(), decode(value)))


def _overview(db: SmithersDB, _: str) -> Topic:
    query = db.executions.observe(limit=MOST_EXECUTIONS)
    return Executions(db, query, without=("result",))


def _execution(db: SmithersDB, id: str) -> Topic:
    found = db.executions.observe(id).decoded(lambda one: [] if one is None else [one])
    return Executions(db, found)


def _parts(db: SmithersDB, id: str) -> Topic:
    parts = Overview(db.database).observe_all(id, limit=MOST_PARTS)
    return Listing(numbered(db, parts, Written().items))


def _agent(db: SmithersDB, id: str) -> Topic:
    return Listing(numbered(db, db.agents.observe_one(id), _one))


def _state(db: SmithersDB, _: str) -> Topic:
    rows = db.database.table("state").observe(order_by="key", select="key, value, updated_at")
    return Listing(numbered(db, rows, _state_items))


def _transitions(db: SmithersDB, _: str) -> Topic:
    rows = db.database.table("transitions").observe(
        order_by="seq DESC", limit=MOST_ROWS, select=_OF_TRANSITIONS
    )
    return Listing(numbered(db, rows, lambda found: [item(row["id"], **row) for row in found]))


def _memories(db: SmithersDB, query: str) -> Topic:
    found = (
        db.memories.observe_search(query, limit=MOST_MEMORIES)
        if query.strip()
        else db.memories.observe(limit=MOST_MEMORIES)
    )
    # They may come of several files, none of whose numbers says anything of the others.
    return Listing(found.decoded(lambda memories: (0, _records(memories))))


def _commits(db: SmithersDB, _: str) -> Topic:
    return Listing(numbered(db, db.vcs.observe_commits(), _newest))


def _snapshots(db: SmithersDB, _: str) -> Topic:
    return Listing(numbered(db, db.vcs.observe_snapshots(), _newest))


def _reviews(db: SmithersDB, _: str) -> Topic:
    return Listing(numbered(db, db.vcs.observe_reviews(), _newest))


def _triggers(db: SmithersDB, _: str) -> Topic:
    return Listing(numbered(db, db.triggers.registry.rows.observe(), _named))


def _dead(db: SmithersDB, _: str) -> Topic:
    letters = db.triggers.registry.rows.observe_dead(MOST_ROWS)
    return Listing(numbered(db, letters, _letters))


def _approvals(db: SmithersDB, _: str) -> Topic:
    return Listing(numbered(db, db.approvals.observe(), _gates))


def _sql(db: SmithersDB, sql: str) -> Topic:
    assert db.path is not None
    return Question(db, db.path, sql)


class Written:
    """Items of records, of which most are as they were when they were written last."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, Item]] = {}

    def items(self, records: Sequence[Any]) -> list[Item]:
        """Write the items of those that are new or have changed."""
        before = self._known
        self._known = {}
        for record in records:
            known = before.get(record.id)
            if known is None or known[0] != record:
                known = record, record_item(record)
            self._known[record.id] = known
        return [item for _, item in self._known.values()]


def _one(record: Any) -> list[Item]:
    return [] if record is None else [record_item(record)]


def _records(records: Sequence[Any]) -> list[Item]:
    return [record_item(record) for record in records]


def _newest(records: Sequence[Any]) -> list[Item]:
    return _records(records[:MOST_ROWS])


def _named(triggers: Sequence[Trigger]) -> list[Item]:
    return [item(one.name, id=one.name, **record_fields(one)) for one in triggers]


def _letters(letters: Sequence[DeadLetter]) -> list[Item]:
    return [
        item(
            str(one.id),
            **record_fields(one, without=("transition",)),
            transition=None if one.transition is None else record_fields(one.transition),
        )
        for one in letters
    ]


def _gates(gates: Sequence[Approval]) -> list[Item]:
    waiting = [gate for gate in gates if gate.status == "pending"]
    answered = [gate for gate in gates if gate.status != "pending"]
    return _records([*waiting, *reversed(answered[-MOST_ANSWERED:])])


def _state_items(rows: Sequence[dict[str, Any]]) -> list[Item]:
    return [state_item(row["key"], row["value"], row["updated_at"]) for row in rows]


def state_item(key: str, text: str, updated_at: str) -> Item:
    """Make the item of a key, its value as the JSON text that it is stored as.

    Where that is long, `value` is null, `beginning` its first characters and `size` how many it
    has. Raises StateTypeError for what another program has put there that is no text.
    """
    for stored in (key, text, updated_at):
        if type(stored) is not str:
            raise StateTypeError(
                f"state {shown(key)}: there is no text stored, but {shown(stored)}"
            )
    name, at = json_text(key), json_text(updated_at)
    if len(text) > LONG_VALUE:
        beginning = json_text(text[:LONG_VALUE])
        value = f'null,"beginning":{beginning},"size":{len(text)}'
    else:
        value = raw(text)
    return key, f'{{"key":{name},"value":{value},"updated_at":{at}}}'


TOPICS: dict[str, Callable[[SmithersDB, str], Topic]] = {
    "overview": _overview,
    "execution": _execution,
    "parts": _parts,
    "agent": _agent,
    "state": _state,
    "transitions": _transitions,
    "memories": _memories,
    "commits": _commits,
    "snapshots": _snapshots,
    "reviews": _reviews,
    "triggers": _triggers,
    "dead": _dead,
    "approvals": _approvals,
    "sql": _sql,
}
