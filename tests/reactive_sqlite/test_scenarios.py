"""Scenarios from public reports of other observable databases: never stale, never needless."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import Database, sqlite3

SCENARIOS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "observed_queries.json").read_text()
)


@pytest.fixture(params=SCENARIOS, ids=[scenario["id"] for scenario in SCENARIOS])
def scenario(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


@pytest.fixture
def db(tmp_path: Path, scenario: dict[str, Any]) -> Iterator[Database]:
    with Database(tmp_path / "scenario.db") as db:
        db.conn.executescript(scenario["setup"])
        yield db


def typed(rows: list[dict[str, Any]]) -> list[list[list[Any]]]:
    return [[[type(value).__name__, value] for value in row.values()] for row in rows]


def states_between(scenario: dict[str, Any]) -> list[list[list[list[Any]]]]:
    """What the query gives after each step, by a plain connection that observes nothing."""
    plain = sqlite3.connect(":memory:", isolation_level=None)
    plain.execute("PRAGMA foreign_keys = ON")
    plain.execute("PRAGMA recursive_triggers = ON")
    plain.executescript(scenario["setup"])
    found: list[list[list[list[Any]]]] = []
    for number, step in enumerate(scenario["steps"]):
        if type(step) is list:
            _, statements, end = transaction_of(step)
            plain.execute("BEGIN")
            for statement in statements:
                plain.execute(statement)
            plain.execute(end)
        else:
            take(plain, scenario, step, number)
        if not plain.in_transaction:
            cursor = plain.execute(scenario["query"], scenario["params"])
            found.append([[[type(v).__name__, v] for v in row] for row in cursor])
    plain.close()
    return found


def transaction_of(step: Any) -> tuple[str, list[str], str]:
    """A step such as ["tx", [statements], "commit"]."""
    kind, statements, end = step
    return kind, statements, end


def take(connection: Any, scenario: dict[str, Any], step: Any, number: int) -> None:
    if isinstance(step, str):
        given = scenario.get("step_params")
        connection.execute(step, given[number] if given and given[number] else ())
    elif "script" in step:
        connection.executescript(step["script"])
    else:
        try:
            connection.execute(step["sql"], step.get("params", ()))
        except sqlite3.Error:
            if not step.get("error_ok"):
                raise


def replay(db: Database, scenario: dict[str, Any]) -> None:
    for number, step in enumerate(scenario["steps"]):
        if type(step) is list:
            _, statements, end = transaction_of(step)
            try:
                with db.transaction():
                    for statement in statements:
                        db.execute(statement)
                    if end == "rollback":
                        raise InterruptedError
            except InterruptedError:
                pass
        else:
            take(db.conn, scenario, step, number)


def test_the_last_emission_is_the_database_and_nothing_is_needless(
    db: Database, scenario: dict[str, Any]
) -> None:
    emitted: list[list[list[list[Any]]]] = []
    query = db.observe(scenario["query"], scenario["params"])
    query.subscribe(lambda rows: emitted.append(typed(rows)))
    assert emitted == [scenario["before"]]
    fetched = db.broker.fetches

    replay(db, scenario)

    assert emitted[-1] == scenario["after"], "the last emission is what the database holds"
    states = states_between(scenario)
    changed = any(state != scenario["before"] for state in states)
    if "script" not in str(scenario["steps"]):
        assert (len(emitted) > 1) == changed, (
            "something is emitted if and only if the result changed"
        )
    allowed = [scenario["before"], *states]
    assert all(value in allowed for value in emitted), "nothing is emitted that never was committed"
    assert all(a != b for a, b in itertools.pairwise(emitted)), "no value is repeated"
    after_first = len(emitted) - 1
    assert after_first >= scenario.get("min_emits", 0)
    assert after_first <= scenario.get("max_emits", after_first)
    if scenario.get("want_quiet"):
        assert db.broker.fetches == fetched, "this commit could not touch the query"
