"""The public calls of an open database, found by looking, and what fits each of their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

from smithers import SmithersDB
from tests.test_documented import INNER

# What is reached without an underscore, and is for other rooms of the package all the same.
ROOMS_WITHIN = frozenset({"broker", "recordings", "registry", "sessions", "standings"})
WITHIN: Mapping[str, set[str]] = {
    **INNER,
    "Feed": INNER["Feed"] | {"read"},
    "ObservableQuery": INNER["ObservableQuery"] | {"end", "fail"},
    "State": {"transitions_ahead"},
    "WorkflowDatabase": {"before_commit", "on_rollback", "roll_back", "reads_only"},
}
# Those that take keywords of any name name them in their errors only.
NAMED: Mapping[str, tuple[str, ...]] = {
    "vcs.log_commit": (
        *("hash", "message", "author", "timestamp", "files_changed", "insertions", "deletions"),
        *("vcs_type", "change_id"),
    ),
    "vcs.log_snapshot": ("snapshot_id", "description", "timestamp"),
    "vcs.log_review": ("review_id", "target", "approved", "summary", "issues", "blocking"),
    "memories.add_context": ("confidence", "expires_at"),
    "memories.add_fact": ("confidence", "expires_at"),
    "memories.add_learning": ("confidence", "expires_at"),
    "memories.add_preference": ("confidence", "expires_at"),
    "memories.add_skill": ("confidence", "expires_at"),
}
NEEDED: Mapping[str, Mapping[str, Any]] = {
    "vcs.log_commit": {"hash": "abc", "message": "fix"},
    "vcs.log_snapshot": {"snapshot_id": "s"},
    "vcs.log_review": {"review_id": "r", "target": "t", "approved": False, "summary": "s"},
    # The parents are named, so that it does not matter what runs where it is called.
    "phases.open": {"execution_id": None},
    "phases.start": {"execution_id": None},
    "steps.open": {"phase_id": None},
    "steps.start": {"phase_id": None},
    "agents.progress": {"turns": 1},
    # Else it would wait for ever for what is never true.
    "query.first": {"timeout": 0.01},
    "query.wait": {"timeout": 0.01},
    "prune": {"keep_executions": 1_000_000},
}


def same(value: object) -> object:
    """Give back what was there."""
    return value


FITTING: Mapping[str, Any] = {
    "agent_id": None,
    "category": "fact",
    "change": None,
    "consumer": "mailer",
    "content": "at /v2",
    "default": 0,
    "error": "no route to host",
    "execution_id": None,
    "facts": {},
    "fn": same,
    "id": None,
    "input": {},
    "key": "phase",
    "name": "name",
    "output": "done",
    "path": "dump.jsonl",
    "phase_id": None,
    "prompt": "Why?",
    "query": "why",
    "review_id": None,
    "snapshot": {"phase": "plan"},
    "sql": "SELECT 1",
    "table_name": "own",
    "type": int,
    "value": 1,
    "values": {"phase": 1},
    "view_name": "seen",
}
BOUND = "SELECT $1"
# No handle has two triggers of one name.
_numbers = count()


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of one public call."""

    room: str  # "" for the database itself, `state`, `database`, …
    method: str
    name: str
    kind: Any

    @property
    def call(self) -> str:
        return f"{self.room}.{self.method}" if self.room else self.method

    def __str__(self) -> str:
        return f"{self.call}({self.name})"


def prepare(db: SmithersDB) -> None:
    """Make what the calls need beside their arguments."""
    db.database["own"].insert({"id": 1, "text": "one"}, pk="id")
    db.database["own"].track()
    db.database.create_view("seen", "SELECT 1")
    db.state.set("phase", "plan")


def room_of(db: Any, name: str) -> Any:
    """Return what has the methods of a room, of either colour."""
    if name == "key":
        return db.state.key("typed", int, default=0)
    if name in ("table", "view"):
        return db.database["own" if name == "table" else "seen"]
    if name == "query":
        return db.database.observe("SELECT id FROM own")
    if name == "feed":
        return db.database.feed("reader", "own")
    return getattr(db, name) if name else db


def arguments(db: SmithersDB) -> list[Argument]:
    """List every argument of every public call."""
    return [argument for room in rooms(db) for argument in _of_room(db, room)]


def rooms(db: SmithersDB) -> list[str]:
    """Name everything that has public methods."""
    found = [
        name
        for name in sorted(vars(db))
        if not name.startswith("_")
        and name not in ROOMS_WITHIN
        and type(getattr(db, name)).__module__.startswith("smithers.")
    ]
    return ["", *found, "feed", "key", "query", "table", "view"]


def fitted(db: SmithersDB, argument: Argument) -> dict[str, Any]:
    """Make what the other arguments of the call need: rows to be named, texts, numbers.

    An argument of a new name fails here: say in FITTING what fits it.
    """
    room = room_of(db, argument.room)
    signature = inspect.signature(getattr(room, argument.method))
    besides: set[str] = set()
    if argument.name != "facts":
        besides.update(NEEDED.get(argument.call, {}))
    wanted: list[str] = [
        *sorted(besides),
        *(
            each.name
            for each in signature.parameters.values()
            if each.default is each.empty
            and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        ),
    ]
    return {
        name: _fitting(db, argument, name) for name in sorted(set(wanted)) if name != argument.name
    }


def tidy(db: SmithersDB) -> None:
    """End what was begun to be named, whose leases would be renewed for ever."""
    for execution in db.execution.list("running", limit=None):
        db.execution.cancel(execution.id)


def _of_room(db: SmithersDB, name: str) -> Iterator[Argument]:
    room = room_of(db, name)
    within: set[str] = set()
    own_kind = cast("type[object]", type(room))
    for kind in own_kind.__mro__:
        within |= WITHIN.get(kind.__name__, set())
    for method in sorted(dir(own_kind)):
        function = getattr(own_kind, method, None)
        own = inspect.isfunction(function) and function.__module__.startswith(
            ("smithers.", "reactive_sqlite.")
        )
        if method.startswith("_") or method in within or not own:
            continue
        for each in list(inspect.signature(getattr(room, method)).parameters.values()):
            if each.kind is not each.VAR_KEYWORD:
                yield Argument(name, method, each.name, each.kind)
        for keyword in NAMED.get(f"{name}.{method}", ()):
            yield Argument(name, method, keyword, inspect.Parameter.KEYWORD_ONLY)


def _fitting(db: SmithersDB, argument: Argument, name: str) -> Any:
    make = _ROWS.get(f"{argument.call}:{name}") or _ROWS.get(f"{argument.room}:{name}")
    make = make or _ROWS.get(name)
    if make is not None:
        return make(db)
    if name == "sql" and argument.name in ("params", "parameters"):
        return BOUND
    given = NEEDED.get(argument.call, {}).get(name)
    return FITTING[name] if given is None else given


def _execution(db: SmithersDB) -> str:
    return db.execution.start("work")


def _phase(db: SmithersDB) -> str:
    return db.phases.start("plan", execution_id=_execution(db))


def _gate(db: SmithersDB) -> str:
    for gate in db.approvals.list("pending"):
        db.approvals.deny(gate.key, execution_id=gate.execution_id)
    db.approvals.request(_execution(db), "gate", "Deploy?")
    return "gate"


def _review(db: SmithersDB) -> str:
    db.vcs.log_review(review_id="r", target="t", approved=False, summary="s", blocking=True)
    return "r"


def _tool(db: SmithersDB) -> str:
    return db.tools.start(db.agents.start("a"), "Read", None)


_ROWS: Mapping[str, Callable[[SmithersDB], Any]] = {
    "agent_id": lambda db: db.agents.start("a"),
    "agents:id": lambda db: db.agents.start("a"),
    "approvals.approve:key": _gate,
    "approvals.deny:key": _gate,
    "approvals:id": lambda db: db.approvals.request(_execution(db), "gate", "Deploy?"),
    "execution:id": _execution,
    "execution_id": _execution,
    "memories:id": lambda db: db.memories.add_fact("k", "c").id,
    "phase_id": _phase,
    "phases:id": _phase,
    "review_id": _review,
    "table.observe_column:column": lambda db: "text",
    "table.observe_column:where": lambda db: {"id": 1},
    "table.observe_row:pk": lambda db: 1,
    "state:id": lambda db: db.state.set("k", 1).id,
    "steps:id": lambda db: db.steps.start("s", phase_id=_phase(db)),
    "executions:id": _execution,
    "tools:id": _tool,
    "triggers.on:name": lambda db: f"trigger {next(_numbers)}",
    "triggers.on_query:name": lambda db: f"trigger {next(_numbers)}",
    "vcs.log_review:review_id": lambda db: "r",
}
