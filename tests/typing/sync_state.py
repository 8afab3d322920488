"""The state and its typed keys as the type checkers see them; read by them, never run.

A line that has to be refused carries both checkers' `ignore`: one that is not needed is an error.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import Any, Literal, assert_type

from reactive_sqlite import ObservableQuery, create_memo
from smithers import SmithersDB, StateEntry, StateKey, Transition
from smithers.storage.keys import SetKey
from smithers.storage.state import SetState

Phase = Literal["start", "done"]


def shout(text: str) -> str:
    return text.upper()


def length(text: str) -> int:
    return len(text)


def takes_text(text: str) -> None: ...
def takes_number(number: int) -> None: ...


def values(db: SmithersDB) -> None:
    assert_type(db.state.set("phase", {"a": [1, None]}, trigger="t"), Transition)
    assert_type(db.state.get_all(), dict[str, Any])
    assert_type(db.state.entry("phase"), StateEntry | None)
    assert_type(db.state.history("phase", 3, since="t1"), list[Transition])
    assert_type(db.state.observe("phase"), ObservableQuery[Any])
    assert_type(db.state.signal("phase", "start"), tuple[ObservableQuery[Any], SetState])


def refused_values(db: SmithersDB) -> None:
    db.state.get(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    db.state.get()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    db.state.set("a", 1, triger="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    db.state.set("a", 1, 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    db.state.history("a", 1, "t1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    db.state.replay_to(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def keys(db: SmithersDB) -> None:
    phase = db.state.key("phase", str, default="start")
    assert_type(phase, StateKey[str])
    assert_type(phase.get(), str)
    assert_type(phase.set("done", trigger="t"), Transition)
    assert_type(phase.update(shout), Transition)
    assert_type(phase.update(lambda text: text.upper()), Transition)
    assert_type(phase.observe(), ObservableQuery[str])
    phase.observe().subscribe(takes_text)
    assert_type(create_memo(lambda: phase.observe()().upper())(), str)
    assert_type(db.state.key("reviewer", str), StateKey[str | None])
    assert_type(db.state.key("n", int).get(), int | None)
    narrow: StateKey[Phase] = db.state.key("phase", Phase, default="start")
    assert_type(narrow.get(), Phase)


def pairs(db: SmithersDB) -> None:
    count, set_count = db.state.key("count", int, default=0).signal()
    assert_type(count, ObservableQuery[int])
    assert_type(set_count, SetKey[int])
    assert_type(count(), int)
    assert_type(set_count(1, "t"), Transition)
    assert_type(set_count(lambda number: number + 1), Transition)
    assert_type(create_memo(lambda: count() * 2)(), int)


async def streams(db: SmithersDB) -> None:
    count = db.state.key("count", int, default=0).observe()
    async for number in count:
        assert_type(number, int)
    assert_type(await count.first(lambda number: number > 2), int)
    assert_type(count.wait(lambda number: number > 2, timeout=1), int)


def refused_keys(db: SmithersDB) -> None:
    phase = db.state.key("phase", str, default="start")
    narrow: StateKey[Phase] = db.state.key("phase", Phase, default="start")
    query = phase.observe()
    _, set_phase = phase.signal()
    phase.set(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    phase.set(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    phase.update(length)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    narrow.set("other")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    query.subscribe(takes_number)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    takes_number(query())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    set_phase(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    set_phase(length)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    takes_text(create_memo(lambda: len(query()))())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    takes_text(db.state.key("reviewer", str).get())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    db.state.key(1, str)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
