"""The asynchronous database as the type checkers see it; read by them, never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import Any, assert_type

from reactive_sqlite import create_memo
from reactive_sqlite.asyncquery import AsyncObservableQuery
from smithers import AsyncSmithersDB, AsyncStateKey, SmithersDB, StateEntry, Transition
from smithers.aio import AsyncSetKey, AsyncSetState


def takes_text(text: str) -> None: ...
def takes_number(number: int) -> None: ...


def rename(db: SmithersDB, old: str, *, new: str) -> bool:
    db.state.set(new, db.state.get(old))
    return db.state.delete(old) is not None


async def values(db: AsyncSmithersDB) -> None:
    assert_type(await db.state.set("phase", {"a": [1, None]}, trigger="t"), Transition)
    assert_type(await db.state.get_all(), dict[str, Any])
    assert_type(await db.state.entry("phase"), StateEntry | None)
    assert_type(await db.state.history("phase", 3, since="t1"), list[Transition])
    assert_type(db.state.observe("phase"), AsyncObservableQuery[Any])
    get, set_phase = await db.state.signal("phase", "start")
    assert_type(get, AsyncObservableQuery[Any])
    assert_type(set_phase, AsyncSetState)
    assert_type(await set_phase("done", trigger="t"), Transition)
    assert_type(await db.query("SELECT 1"), list[dict[str, Any]])
    assert_type(await db.stats(), dict[str, int])
    assert_type(await db.transact(rename, "a", new="b"), bool)
    async with db as entered:
        assert_type(entered, AsyncSmithersDB)
    assert_type(await db, AsyncSmithersDB)


async def refused_values(db: AsyncSmithersDB) -> None:
    await db.state.get(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await db.state.get()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await db.state.set("a", 1, triger="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await db.state.history("a", 1, "t1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await db.transact(rename, "a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await db.transact(rename, 1, new="b")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with db:  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues]
        pass


async def keys(db: AsyncSmithersDB) -> None:
    count = db.state.key("count", int, default=0)
    assert_type(count, AsyncStateKey[int])
    assert_type(await count.get(), int)
    assert_type(await count.set(1, trigger="t"), Transition)
    assert_type(await count.update(lambda number: number + 1), Transition)
    assert_type(db.state.key("reviewer", str), AsyncStateKey[str | None])
    query = count.observe()
    assert_type(query, AsyncObservableQuery[int])
    assert_type(await query, int)
    query.subscribe(takes_number)
    async for number in query:
        assert_type(number, int)
    get, set_count = await count.signal()
    assert_type(get(), int)
    assert_type(set_count, AsyncSetKey[int])
    assert_type(await set_count(lambda number: number + 1, "t"), Transition)
    assert_type(create_memo(lambda: get() * 2)(), int)


async def refused_keys(db: AsyncSmithersDB) -> None:
    count = db.state.key("count", int, default=0)
    get, set_count = await count.signal()
    await count.set("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await count.update(str)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await set_count("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    get.subscribe(takes_text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    takes_text(get())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    takes_text(await count.get())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
