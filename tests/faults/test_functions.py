"""Whatever is passed to what needs no open database: signals, and what opens, runs or bridges."""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import reactivex

import reactive_sqlite
import smithers
from reactive_sqlite import (
    Database,
    catch_error,
    create_effect,
    create_memo,
    create_resource,
    create_root,
    create_signal,
    from_observable,
    on,
    on_cleanup,
    run_with_owner,
    sqlite3,
    to_observable,
    untrack,
)
from reactive_sqlite.aio import AsyncDatabase
from smithers import CommandRunner, create_async_smithers_db, create_smithers_db
from smithers.web import sse
from tests.faults.mischief import VALUES
from tests.faults.verdict import wrong

# Nobody makes these but the packages themselves: what is given to them is theirs.
MADE = frozenset(
    {
        *("Accessor", "AsyncFeed", "Change", "ChangeSet", "Diff", "Effect", "Feed", "FeedStatus"),
        *("ObservableQuery", "Owner", "Region", "Resource", "RowChange", "Setter"),
        *("ANY", "AgentRecorder", "Agents", "Approvals", "Executions", "Memories", "Phases"),
        *("Run", "SmithersDB", "StateKey", "Steps", "Tools", "Triggers", "Vcs"),
    }
)
# Those that are made by hand are looked at where they are used: `test_runs`.
HANDED = frozenset({"AgentOutcome", "AgentRunner", "AgentTask"})
NO_ARGUMENT = frozenset({"batch", "get_owner"})


def nothing(*args: object, **kwargs: object) -> None:
    """Take whatever comes."""


def handled(error: Exception) -> None:
    """Take an error, which is the caller's own if it is none of ours."""


@dataclass(frozen=True, slots=True)
class Call:
    """A public function, what fits its arguments, and how one goes on with what it gives."""

    function: Callable[..., Any]
    fitting: Mapping[str, Any]
    use: Callable[[Any], object] = nothing
    around: Callable[[Callable[[], Any]], Any] = field(default=lambda once: once())


def read(answer: Any) -> None:
    answer()


def set_and_read(pair: Any) -> None:
    get, set = pair
    set(2)
    get()


def dispose(answer: Any) -> None:
    answer.dispose()


def close(answer: Any) -> None:
    answer.close()


def owned(once: Callable[[], Any]) -> Any:
    """Call it where something owns what it makes."""

    def body(dispose: Callable[[], None]) -> None:
        try:
            once()
        finally:
            dispose()

    return create_root(body)


def subscribe(answer: Any) -> None:
    answer.subscribe(on_error=handled).dispose()


async def opened(answer: Any) -> None:
    async with answer:
        pass


async def fetched(value: object, *, refetching: bool) -> None:
    """Fetch nothing."""


async def settled(resource: Any) -> None:
    await resource.refetch()
    resource.dispose()


CALLS: Mapping[str, Call] = {
    "create_signal": Call(create_signal, {"value": 1}, set_and_read),
    "create_memo": Call(create_memo, {"fn": nothing}, read),
    "create_effect": Call(create_effect, {"fn": nothing}, dispose),
    "create_resource": Call(create_resource, {"source": nothing, "fetcher": fetched}, settled),
    "create_root": Call(create_root, {"fn": nothing}),
    "on": Call(on, {"deps": nothing, "fn": nothing}, read),
    "on_cleanup": Call(on_cleanup, {"fn": nothing}, around=owned),
    "run_with_owner": Call(run_with_owner, {"owner": None, "fn": nothing}),
    "catch_error": Call(catch_error, {"fn": nothing, "handler": handled}),
    "untrack": Call(untrack, {"fn": nothing}),
    "to_observable": Call(to_observable, {"get": nothing}, subscribe),
    "from_observable": Call(from_observable, {"observable": reactivex.empty()}, read),
    "Database": Call(Database, {"path": "own.db", "watch": False}, close),
    "AsyncDatabase": Call(AsyncDatabase, {"path": "own.db", "watch": False}, opened),
    "create_smithers_db": Call(create_smithers_db, {"path": "here", "watch": False}, close),
    "create_async_smithers_db": Call(
        create_async_smithers_db, {"path": "here", "watch": False}, opened
    ),
    "CommandRunner": Call(CommandRunner, {"argv": ["cat"]}),
    "sse": Call(sse, {"query": nothing}),
}
# Handed on to whoever asks, and to no one here.
FOR_ROOMS = frozenset({("Database", "home")})
# Whose own errors come out, and whose absence of errors is their own affair.
CALLS_IT = frozenset({"fn", "deps", "source", "fetcher", "get", "equals", "observable", "owner"})


# They make and open files, which takes its time: one of so many values, another each day.
OPENING = frozenset(name for name, call in CALLS.items() if call.use in (close, opened))
SHORT = 8


def arguments() -> Iterator[tuple[str, str]]:
    for name, call in CALLS.items():
        for parameter in inspect.signature(call.function).parameters:
            if (name, parameter) not in FOR_ROOMS:
                yield name, parameter


def values(name: str, argument: str) -> list[str]:
    """Choose the values to try."""
    if name not in OPENING:
        return [*VALUES]
    chosen = random.Random(f"{name} {argument} {time.strftime('%j')}")
    return chosen.sample([*VALUES], len(VALUES) // SHORT)


async def judged(name: str, argument: str, value: str) -> str | None:
    """Make a call, and tell what is wrong with the error that comes of it."""
    call = CALLS[name]
    given = {**call.fitting, argument: VALUES[value]()}
    answers: list[Any] = []
    try:
        call.around(lambda: answers.append(call.function(**given)))
    except Exception as error:
        return refused(name, argument, error)
    used: Any = None
    try:
        used = call.use(answers[0])
        if inspect.isawaitable(used):
            await used
    except Exception as error:
        # What opens when it is awaited refuses then; all others refuse at once, or take it.
        if argument in CALLS_IT and callable(given[argument]):
            return None
        late = None if inspect.iscoroutine(used) else f"late: {error!r:.200}"
        return late or refused(name, argument, error)
    return None


def refused(name: str, argument: str, error: Exception) -> str | None:
    # Where no file is, or can be made, SQLite says so; smithers has errors of its own for that.
    if name in ("Database", "AsyncDatabase") and isinstance(error, sqlite3.Error):
        return None
    return wrong(error, argument)


@pytest.mark.parametrize(("name", "argument"), [*arguments()])
async def test_whatever_is_passed_there_is_a_result_or_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, argument: str
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = values(name, argument)
    assert {one: found for one in wanted if (found := await judged(name, argument, one))} == {}


@pytest.mark.soak
@pytest.mark.timeout(200)
async def test_whatever_is_passed_to_open_there_is_a_result_or_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    findings: list[str] = []
    tried = 0
    for name, argument in arguments():
        for value in VALUES if name in OPENING else ():
            tried += 1
            found = await judged(name, argument, value)
            findings += [] if found is None else [f"{name}({argument}) of {value}: {found}"]
    print(f"\nopening: {tried} calls with a hostile argument")
    assert findings == []


def test_no_public_function_is_left_out() -> None:
    for package in (reactive_sqlite, smithers):
        for name in package.__all__:
            value: Any = getattr(package, name)
            error = inspect.isclass(value) and issubclass(value, Exception)
            record = getattr(value, "__module__", "") == "smithers.records"
            asynchronous = name.startswith("Async")
            known = name in CALLS or name in MADE | HANDED | NO_ARGUMENT
            assert known or error or record or asynchronous or name == "sqlite3", name
