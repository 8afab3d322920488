"""Whatever is passed for any argument of any public call: a result, or an error that says so."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, closing
from pathlib import Path
from typing import Any, cast

import pytest
from reactivex import Observable

from reactive_sqlite import ObservableQuery, sqlite3
from reactive_sqlite.asyncquery import AsyncObservableQuery
from smithers import AsyncSmithersDB, SmithersDB, create_async_smithers_db, create_smithers_db
from tests.faults.mischief import VALUES
from tests.faults.surface import Argument, arguments, fitted, prepare, room_of, tidy
from tests.faults.verdict import wrong
from tests.smithers.hostile import contents

SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2"
# All of sqlite-utils works on it, errors included: only what is left behind is looked at.
OF_SQLITE_UTILS = frozenset({"database.execute", "database.query"})
# One of so many pairs of an argument and a value, another each day.
SHORT = 60
TIDIED = 50


class Witness:
    """Another program, which looks at what a call has left in the file."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._schema = self._connection.execute(SCHEMA).fetchall()
        self.close = self._connection.close

    def version(self) -> int:
        version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return version

    def is_injected(self) -> bool:
        return self._connection.execute(SCHEMA).fetchall() != self._schema


class Tally:
    """What was tried, and what came of it."""

    def __init__(self) -> None:
        self.tried = self.results = self.errors = 0
        self.findings: list[str] = []
        self._begun = time.monotonic()

    def found(self, argument: Argument, value: str, what: str) -> None:
        self.findings.append(f"{argument} of {value}: {what}")

    def __str__(self) -> str:
        seconds = time.monotonic() - self._begun
        return f"{self.results} results, {self.errors} errors in {seconds:.0f} s"


def tried(found: list[Argument], share: int) -> Iterator[tuple[Argument, str]]:
    """Pair arguments with names of values: all, or a share that differs from day to day."""
    pairs = [(argument, value) for argument in found for value in VALUES]
    if share == 1:
        yield from pairs
        return
    chosen = random.Random(time.strftime("%j"))
    chosen.shuffle(pairs)
    yield from pairs[: len(pairs) // share]


def given(argument: Argument, value: Any, besides: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """Return how the value is passed, with the others."""
    if argument.kind in (argument.kind.POSITIONAL_ONLY, argument.kind.VAR_POSITIONAL):
        # What stands before it, by place as well.
        return [*besides.values(), value], {}
    return [], {**besides, argument.name: value}


def ignored(_: object) -> None:
    """Take what nobody looks at."""


# -- synchronous -----------------------------------------------------------------------------------


def used(db: SmithersDB, argument: Argument, answer: Any) -> None:
    """Go on with what a call gives, as its caller would."""
    if isinstance(answer, ObservableQuery):
        answer.peek()
    elif inspect.iscoroutine(answer):
        asyncio.run(answer)
    elif hasattr(answer, "dispose"):
        answer.dispose()
    elif isinstance(answer, Observable):
        cast("Any", answer).subscribe(on_error=ignored).dispose()
    elif inspect.isgenerator(answer):
        list(answer)
    elif argument.method in ("on", "on_query"):
        answer(ignored)
        db.triggers.deliver()
    elif argument.method in ("open",) and isinstance(answer, AbstractContextManager):
        with answer:
            pass


def call(db: SmithersDB, argument: Argument, value: Any, besides: Mapping[str, Any]) -> None:
    args, kwargs = given(argument, value, besides)
    answer = getattr(room_of(db, argument.room), argument.method)(*args, **kwargs)
    used(db, argument, answer)


def judge(
    tally: Tally,
    witness: Witness,
    argument: Argument,
    value: str,
    once: Callable[[], None],
    *others: Argument,
) -> None:
    """Have it called; what is wrong with an error has to be so for each of the arguments."""
    before = witness.version()
    try:
        once()
        tally.results += 1
    except Exception as error:
        tally.errors += 1
        what = None if argument.call in OF_SQLITE_UTILS else wrong(error, argument.name)
        if any(wrong(error, other.name) is None for other in others):
            what = None
        if what is not None:
            tally.found(argument, value, f"{type(error).__name__} {what}")
        if witness.version() != before:
            # A lease that is renewed meanwhile is a write as well, but not twice in a row.
            before = witness.version()
            with pytest.raises(type(error)):
                once()
            if witness.version() != before:
                tally.found(argument, value, f"{type(error).__name__}, and something was written")
    if witness.is_injected():
        tally.found(argument, value, "the schema has changed")


def swept(path: Path, share: int) -> Tally:
    tally = Tally()
    with create_smithers_db(path, watch=False) as db:
        prepare(db)
        db.database.broker.report = ignored  # what an observer raises is its own
        assert db.path is not None
        with closing(Witness(db.path)) as witness:
            for argument, name in tried(arguments(db), share):
                besides = fitted(db, argument)
                tally.tried += 1

                def once(argument: Argument = argument, name: str = name) -> None:
                    call(db, argument, VALUES[name](), besides)  # noqa: B023

                judge(tally, witness, argument, name, once)
                assert not db.database.conn.in_transaction, f"{argument} of {name}"
                if tally.tried % TIDIED == 0:
                    tidy(db)
        assert [finding for finding in db.check() if finding.level == "error"] == []
    return tally


def swept_together(path: Path, draws: int, seed: str) -> Tally:
    """Pass hostile values for two or three arguments of one call at once."""
    tally = Tally()
    chance = random.Random(seed)
    with create_smithers_db(path, watch=False) as db:
        prepare(db)
        db.database.broker.report = ignored
        of_calls: dict[str, list[Argument]] = {}
        for argument in arguments(db):
            if argument.kind not in (argument.kind.POSITIONAL_ONLY, argument.kind.VAR_POSITIONAL):
                of_calls.setdefault(argument.call, []).append(argument)
        several = [found for found in of_calls.values() if len(found) > 1]
        assert db.path is not None
        with closing(Witness(db.path)) as witness:
            for _ in range(draws):
                found = chance.choice(several)
                wanted = chance.sample(found, min(len(found), chance.choice((2, 3))))
                first, *others = wanted
                named = {each.name: chance.choice([*VALUES]) for each in wanted}
                besides = fitted(db, first)
                tally.tried += 1

                def once(
                    first: Argument = first,
                    named: Mapping[str, str] = named,
                    besides: Mapping[str, Any] = besides,
                ) -> None:
                    made = {name: VALUES[value]() for name, value in named.items()}
                    value = made.pop(first.name)
                    call(db, first, value, {**besides, **made})

                judge(tally, witness, first, str(named), once, *others)
                assert not db.database.conn.in_transaction, f"{first} of {named}"
                if tally.tried % TIDIED == 0:
                    tidy(db)
        assert [finding for finding in db.check() if finding.level == "error"] == []
    return tally


def test_whatever_is_passed_for_several_arguments_at_once_nothing_is_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tally = swept_together(tmp_path / "workflow", 150, time.strftime("%j"))
    assert tally.findings == []
    assert tally.errors > tally.results


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_whatever_is_passed_for_several_arguments_in_thousands_of_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tally = swept_together(tmp_path / "workflow", 10_000, "soak")
    print(f"\nseveral at once: {tally.tried} draws: {tally}")
    assert tally.findings == []


def test_whatever_is_passed_there_is_a_result_or_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert swept(tmp_path / "workflow", SHORT).findings == []


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_whatever_is_passed_to_each_argument_there_is_a_result_or_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tally = swept(tmp_path / "workflow", 1)
    print(f"\nsynchronous: {len(VALUES)} values for every argument: {tally}")
    assert tally.findings == []


# -- asynchronous ----------------------------------------------------------------------------------


async def call_async(
    db: AsyncSmithersDB, argument: Argument, value: Any, besides: Mapping[str, Any]
) -> None:
    args, kwargs = given(argument, value, besides)
    answer: Any = getattr(room_of(db, argument.room), argument.method)(*args, **kwargs)
    if argument.method in ("on", "on_query"):
        answer(ignored)
        await db.triggers.deliver()
    elif argument.method == "open" and isinstance(answer, AbstractAsyncContextManager):
        async with answer:
            pass
    elif inspect.iscoroutine(answer) or isinstance(answer, AsyncObservableQuery):
        await answer
    elif isinstance(answer, Observable):
        cast("Any", answer).subscribe(on_error=ignored).dispose()


async def swept_async(path: Path, share: int) -> Tally:
    tally = Tally()
    async with create_async_smithers_db(path, watch=False) as db:
        await db.transact(prepare)
        found = await db.transact(arguments)
        assert db.path is not None
        with closing(Witness(db.path)) as witness:
            for argument, name in tried(found, share):
                room = room_of(db, argument.room)
                if not hasattr(room, argument.method):
                    continue  # a transaction that would be held across an await, for example
                besides = await db.transact(fitted, argument)
                tally.tried += 1
                if tally.tried % TIDIED == 0:
                    await db.transact(tidy)
                    besides = await db.transact(fitted, argument)
                for again in (False, True):
                    before = witness.version()
                    try:
                        await call_async(db, argument, VALUES[name](), besides)
                        tally.results += 1
                        break
                    except Exception as error:
                        tally.errors += 1
                        what = wrong(error, argument.name)
                        if what is not None and argument.call not in OF_SQLITE_UTILS:
                            tally.found(argument, name, f"{type(error).__name__} {what}")
                        if witness.version() == before:
                            break
                        if again:
                            tally.found(argument, name, "an error, and something was written")
                if witness.is_injected():
                    tally.found(argument, name, "the schema has changed")
    return tally


async def test_awaited_calls_answer_to_whatever_is_passed_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (await swept_async(tmp_path / "workflow", SHORT)).findings == []


@pytest.mark.soak
@pytest.mark.timeout(400)
async def test_awaited_calls_answer_to_whatever_is_passed_to_each_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tally = await swept_async(tmp_path / "workflow", 2)
    print(f"\nasynchronous: half of {len(VALUES)} values for every argument: {tally}")
    assert tally.findings == []


# -- what holds those to account -------------------------------------------------------------------


def test_an_error_leaves_the_whole_content_as_it_was(tmp_path: Path) -> None:
    with create_smithers_db(tmp_path) as db:
        refused_and_unchanged(db)


def refused_and_unchanged(db: SmithersDB) -> None:
    prepare(db)
    before = contents(db)
    refused: list[Callable[[], object]] = [
        lambda: db.state.set_many({"a": 1, "b": object()}),
        lambda: db.state.restore({"phase": "other", "nul \0": 1}),
        lambda: db.state.update("phase", lambda value: {1: value}),
        lambda: db.memories.add("fact", "k", "c", confidence=float("nan")),
        lambda: db.vcs.log_commit(hash="h", message="m", files_changed=2**63),
    ]
    for once in refused:
        with pytest.raises((TypeError, ValueError)):
            once()
        assert contents(db) == before
