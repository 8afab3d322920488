"""Change-driven triggers: what is handed to whom, in which order, and what becomes of failures."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import DatabaseClosed, sqlite3
from smithers import (
    ANY,
    InTransaction,
    NotFound,
    ReadOnly,
    SmithersDB,
    Transition,
    create_smithers_db,
)
from smithers.workspace import WorkflowDatabase
from tests.smithers.hostile import HOSTILE, UNWRITABLE, contents

START = datetime(2026, 1, 1, tzinfo=UTC)


class Calendar:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


@pytest.fixture
def db(made: Path, calendar: Calendar) -> Iterator[SmithersDB]:
    """A database whose clock is the calendar."""
    with opened(made, calendar) as found:
        yield found


def opened(path: Path, calendar: Calendar) -> SmithersDB:
    database = WorkflowDatabase(path / "db.sqlite")
    database.numbering = True
    return SmithersDB(database, path=path / "db.sqlite", clock=calendar)


def listen(db: SmithersDB, key: str = "phase", name: str = "one", **options: Any) -> list[Any]:
    """Register a trigger on a key; return the list of the values that it is called with."""
    seen: list[Any] = []

    @db.triggers.on(key, name=name, **options)
    def handle(transition: Transition) -> None:
        seen.append(transition.value)

    return seen


def ask(db: SmithersDB, sql: str, *params: Any, name: str = "rows") -> list[Any]:
    """Register a trigger on a query; return the list of the answers that it is called with."""
    seen: list[Any] = []
    db.triggers.on_query(sql, params, name=name)(seen.append)
    return seen


class Failing:
    """A handler that fails until it is told not to."""

    def __init__(self) -> None:
        self.broken = True
        self.calls: list[Any] = []

    def __call__(self, change: Any) -> None:
        self.calls.append(change.value if isinstance(change, Transition) else change)
        if self.broken:
            raise ConnectionError(f"no way to {self.calls[-1]}")


# -- what is delivered -----------------------------------------------------------------------------


def test_each_change_is_handled_once_in_order(db: SmithersDB) -> None:
    seen = listen(db)
    for value in range(250):
        db.state.set("phase", value)
        db.state.set("other", value)
    assert db.triggers.deliver() == 250
    assert seen == [*range(250)], "more than a page of them, and none of another key"
    assert db.triggers.deliver() == 0


def test_a_handler_gets_the_transition_and_stays_what_it_was(db: SmithersDB) -> None:
    seen: list[Transition] = []

    @db.triggers.on("phase", name="one")
    def handle(transition: Transition) -> None:
        seen.append(transition)

    with db.transaction():
        written = [db.state.set("phase", "review", trigger="passed"), db.state.delete("phase")]
    assert db.triggers.deliver() == 2
    assert seen == written
    handle(seen[0])
    assert len(seen) == 3, "the decorator returns the function itself"


def test_what_other_programs_write_is_delivered_and_what_is_rolled_back_is_not(
    db: SmithersDB, foreign: sqlite3.Connection
) -> None:
    seen = listen(db)
    foreign.execute("INSERT INTO state (key, value) VALUES ('phase', '\"theirs\"')")
    with pytest.raises(RuntimeError), db.transaction():
        db.state.set("phase", "never")
        raise RuntimeError
    assert (db.triggers.deliver(), seen) == (1, ["theirs"])


def test_a_value_that_is_set_again_is_a_change(db: SmithersDB) -> None:
    seen = listen(db)
    db.state.set("phase", "same")
    db.state.set("phase", "same")
    assert (db.triggers.deliver(), seen) == (2, ["same", "same"])


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (ANY, [1, 1.0, True, None, None, {"b": 1, "a": 2}]),
        (1, [1]),
        (1.0, [1.0]),
        (True, [True]),
        (None, [None]),
        ({"a": 2, "b": 1}, [{"b": 1, "a": 2}]),
        ("absent", []),
    ],
    ids=repr,
)
def test_to_is_a_value_with_its_type_and_a_deletion_has_none(
    db: SmithersDB, to: Any, expected: list[Any]
) -> None:
    seen = listen(db, to=to)
    for value in (1, 1.0, True, None):
        db.state.set("phase", value)
    db.state.delete("phase")
    db.state.set("phase", {"b": 1, "a": 2})
    assert db.triggers.deliver() == len(expected)
    assert [(type(value), value) for value in seen] == [(type(one), one) for one in expected]


def test_a_value_nested_deeper_than_any_of_ours_is_passed_over(
    db: SmithersDB, foreign: sqlite3.Connection
) -> None:
    seen = listen(db, to=[])
    deep = "[" * 700 + "]" * 700
    foreign.execute("INSERT INTO state (key, value) VALUES ('phase', ?)", (deep,))
    db.state.set("phase", [])
    assert (db.triggers.deliver(), seen) == (1, [[]])


def test_when_decides_outside_of_transactions(db: SmithersDB) -> None:
    asked: list[Any] = []

    def odd(transition: Transition) -> bool:
        assert not db.database.conn.in_transaction
        asked.append(transition.value)
        return bool(transition.value % 2)

    seen = listen(db, when=odd)
    for value in range(5):
        db.state.set("phase", value)
    assert (db.triggers.deliver(), seen, asked) == (2, [1, 3], [0, 1, 2, 3, 4])
    assert db.triggers.deliver() == 0
    assert asked == [0, 1, 2, 3, 4], "what was passed over is not asked for again"
    assert db.triggers.list()[0].cursor == 5


def test_passed_over_changes_leave_no_lag(db: SmithersDB) -> None:
    listen(db, to="never")
    for value in range(230):
        db.state.set("phase", value)
    assert db.triggers.list()[0].lag == 230
    assert db.triggers.deliver() == 0
    (trigger,) = db.triggers.list()
    assert (trigger.lag, trigger.cursor, trigger.state) == (0, 230, "idle")


# -- where it begins, and that it goes on there ----------------------------------------------------


def test_a_new_trigger_begins_with_what_follows_or_with_the_oldest(db: SmithersDB) -> None:
    db.state.set("phase", "before")
    now, all = listen(db), listen(db, name="all", start="beginning")
    db.state.set("phase", "after")
    assert db.triggers.deliver() == 3
    assert (now, all) == (["after"], ["before", "after"])


@pytest.mark.parametrize("start", ["now", "beginning"])
def test_a_known_trigger_goes_on_where_it_was(path: Path, db: SmithersDB, start: Any) -> None:
    listen(db)
    db.state.set("phase", 1)
    assert db.triggers.deliver() == 1
    db.close()
    with create_smithers_db(path) as later:
        later.state.set("phase", 2)
    with create_smithers_db(path) as later:
        seen = listen(later, start=start)
        later.state.set("phase", 3)
        assert (later.triggers.deliver(), seen) == (2, [2, 3])


def test_under_another_key_it_goes_on_from_where_it_was(path: Path, db: SmithersDB) -> None:
    listen(db)
    db.state.set("other", "long ago")
    db.state.set("phase", 1)
    assert db.triggers.deliver() == 1
    db.state.set("other", "new")
    db.close()
    with create_smithers_db(path) as later:
        seen = listen(later, "other")
        assert (later.triggers.deliver(), seen) == (1, ["new"])
        assert later.triggers.list()[0].key == "other"


def test_triggers_of_one_key_are_independent(db: SmithersDB) -> None:
    first = listen(db)
    db.state.set("phase", 1)
    assert db.triggers.deliver() == 1
    second = listen(db, name="two")
    db.state.set("phase", 2)
    assert (db.triggers.deliver(), first, second) == (2, [1, 2], [2])


def test_a_registration_that_is_rolled_back_is_made_again(db: SmithersDB) -> None:
    seen: list[Any] = []
    with pytest.raises(RuntimeError), db.transaction():

        @db.triggers.on("phase", name="one", start="beginning")
        def handle(transition: Transition) -> None:
            seen.append(transition.value)

        raise RuntimeError
    assert db.triggers.list() == []
    db.state.set("phase", 1)
    assert (db.triggers.deliver(), seen) == (1, [1])


# -- what handlers write ---------------------------------------------------------------------------


def test_what_a_handler_writes_is_left_to_the_next_call(db: SmithersDB) -> None:
    seen: list[Any] = []

    @db.triggers.on("n", name="counts")
    def count(transition: Transition) -> None:
        assert not db.database.conn.in_transaction
        seen.append(transition.value)
        if transition.value < 3:
            db.state.set("n", transition.value + 1)

    listened = listen(db, "n", "listens")
    db.state.set("n", 0)
    assert (db.triggers.deliver(), seen) == (2, [0]), "no call goes round for ever"
    while db.triggers.deliver():
        pass
    assert seen == listened == [0, 1, 2, 3]


def test_what_a_handler_starts_ends_with_its_context(db: SmithersDB) -> None:
    @db.triggers.on("phase", name="one")
    def start(transition: Transition) -> None:
        db.execution.start(f"for {transition.value}")

    db.state.set("phase", 1)
    db.state.set("phase", 2)
    assert db.triggers.deliver() == 2
    assert db.state.set("phase", 3).execution_id is None, "nothing of it runs here"


def test_deliver_inside_a_handler_leaves_its_trigger_alone(db: SmithersDB) -> None:
    inner: list[int] = []

    @db.triggers.on("phase", name="one")
    def handle(_: Transition) -> None:
        inner.append(db.triggers.deliver())

    other = listen(db, name="two")
    db.state.set("phase", 1)
    assert db.triggers.deliver() == 1
    assert (inner, other) == ([1], [1]), "the other one was delivered to inside"


# -- failures --------------------------------------------------------------------------------------


def test_a_failing_handler_is_called_again_after_ever_longer_pauses_and_then_set_aside(
    db: SmithersDB, calendar: Calendar
) -> None:
    handler = Failing()
    db.triggers.on("phase", name="bad")(handler)
    good = listen(db)
    for value in ("a", "b"):
        db.state.set("phase", value)
    assert (db.triggers.deliver(), good) == (2, ["a", "b"]), "other triggers do not wait"
    for attempt, pause in enumerate((1, 2, 4, 8, 16), start=1):
        trigger = db.triggers.list()[0]
        assert (trigger.name, trigger.state, trigger.attempts) == ("bad", "retrying", attempt)
        assert trigger.next_at == calendar.now + timedelta(seconds=pause)
        assert trigger.error is not None
        assert trigger.error.startswith("ConnectionError: no way to a\nTraceback")
        calendar.wait(pause - 0.001)
        assert db.triggers.deliver() == 0
        assert len(handler.calls) == attempt, "too early"
        calendar.wait(0.001)
        assert db.triggers.deliver() == 0
    assert handler.calls == ["a"] * 6 + ["b"], "later changes have waited, and then go on"
    (letter,) = db.triggers.dead()
    assert letter.transition == db.state.history("phase")[0]
    assert (letter.trigger, letter.attempts, letter.requeued) == ("bad", 6, False)
    assert letter.error.startswith("ConnectionError: no way to a\n") and letter.at == calendar.now
    handler.broken = False
    calendar.wait(1)
    assert db.triggers.deliver() == 1
    trigger = db.triggers.list()[0]
    assert (trigger.state, trigger.attempts, trigger.error, trigger.dead) == ("idle", 0, None, 1)


def test_the_longest_pause_is_five_minutes(db: SmithersDB, calendar: Calendar) -> None:
    handler = Failing()
    db.triggers.on("phase", name="bad", retries=100)(handler)
    db.state.set("phase", 1)
    for _ in range(12):
        db.triggers.deliver()
        calendar.wait(300)
    assert len(handler.calls) == 12
    assert db.triggers.list()[0].next_at == calendar.now


@pytest.mark.parametrize("back", [2, 240, 3600, 86_400])
@pytest.mark.parametrize("dead", [False, True], ids=["change", "dead letter"])
def test_a_clock_that_was_set_back_puts_no_retry_off(
    db: SmithersDB, calendar: Calendar, dead: bool, back: float
) -> None:
    handler = Failing()
    db.triggers.on("phase", name="bad", retries=1)(handler)
    db.state.set("phase", 1)
    if dead:
        for _ in range(2):
            db.triggers.deliver()
            calendar.wait(1)
        assert db.triggers.retry("bad") == 1
    db.triggers.deliver()
    calendar.wait(-back)
    handler.broken = False
    assert db.triggers.deliver() == 1, "the first pause is of a second"


def test_without_retries_it_is_set_aside_at_once(db: SmithersDB) -> None:
    handler = Failing()
    db.triggers.on("phase", name="bad", retries=0)(handler)
    for value in range(3):
        db.state.set("phase", value)
    assert db.triggers.deliver() == 0
    assert [letter.transition.value for letter in db.triggers.dead() if letter.transition] == [
        *range(3)
    ]


def test_attempts_hold_across_restarts(path: Path, db: SmithersDB, calendar: Calendar) -> None:
    handler = Failing()
    db.triggers.on("phase", name="bad", retries=2)(handler)
    db.state.set("phase", 1)
    db.triggers.deliver()
    for _ in range(2):
        db.close()
        calendar.wait(60)
        db = opened(path, calendar)
        db.triggers.on("phase", name="bad", retries=2)(handler)
        db.triggers.deliver()
    assert len(handler.calls) == 3
    assert len(db.triggers.dead("bad")) == 1
    db.close()


def test_a_condition_that_raises_fails_like_a_handler(db: SmithersDB) -> None:
    def flagged(transition: Transition) -> bool:
        return bool(transition.value["x"])

    seen = listen(db, when=flagged, retries=0)
    db.state.set("phase", 1)
    db.state.set("phase", {"x": True})
    assert (db.triggers.deliver(), seen) == (1, [{"x": True}])
    assert db.triggers.dead()[0].error.startswith("TypeError: 'int' object is not subscriptable")


def test_an_error_whose_text_breaks_is_kept_all_the_same(db: SmithersDB) -> None:
    @db.triggers.on("phase", name="bad", retries=0)
    def handle(_: Transition) -> None:
        raise ValueError("nul \0 and \ud800 and " + "long" * 50_000)

    db.state.set("phase", 1)
    assert db.triggers.deliver() == 0
    assert db.triggers.dead()[0].error.startswith(r"ValueError: nul \x00 and \ud800 and long")


def test_ctrl_c_in_a_handler_is_no_failure_and_the_change_comes_again(db: SmithersDB) -> None:
    calls: list[Any] = []

    @db.triggers.on("phase", name="one")
    def handle(transition: Transition) -> None:
        calls.append(transition.value)
        if len(calls) == 1:
            raise KeyboardInterrupt

    db.state.set("phase", 1)
    with pytest.raises(KeyboardInterrupt):
        db.triggers.deliver()
    (trigger,) = db.triggers.list()
    assert (trigger.attempts, trigger.owner, trigger.lag) == (0, None, 1)
    assert (db.triggers.deliver(), calls) == (1, [1, 1])


# -- what was set aside ----------------------------------------------------------------------------


def test_what_was_set_aside_is_handled_again_when_somebody_asks(
    db: SmithersDB, calendar: Calendar
) -> None:
    handler = Failing()
    db.triggers.on("phase", name="bad", retries=0)(handler)
    for value in ("a", "b"):
        db.state.set("phase", value)
    db.triggers.deliver()
    db.state.set("phase", "c")
    assert db.triggers.retry("bad") == 2
    assert db.triggers.retry("bad") == 0, "they are queued already"
    assert [letter.requeued for letter in db.triggers.dead()] == [True, True]
    trigger = db.triggers.list()[0]
    assert (trigger.dead, trigger.requeued, trigger.state) == (0, 2, "behind")
    handler.broken, handler.calls = False, []
    assert db.triggers.deliver() == 3
    assert handler.calls == ["a", "b", "c"], "in order, and before what is newer"
    assert db.triggers.dead() == [] and db.triggers.list()[0].state == "idle"


def test_what_fails_again_has_all_its_retries_and_lets_the_others_wait(
    db: SmithersDB, calendar: Calendar
) -> None:
    handler = Failing()
    db.triggers.on("phase", name="bad", retries=1)(handler)
    db.state.set("phase", "a")
    for _ in range(2):
        db.triggers.deliver()
        calendar.wait(60)
    db.state.set("phase", "b")
    db.triggers.retry("bad")
    handler.calls = []
    db.triggers.deliver()
    db.triggers.deliver()
    assert handler.calls == ["a"], "it waits for its next attempt, and so does what follows"
    assert db.triggers.list()[0].state == "retrying"
    calendar.wait(60)
    db.triggers.deliver()
    assert handler.calls == ["a", "a", "b"], "set aside again"
    (letter,) = db.triggers.dead()
    assert (letter.attempts, letter.requeued, letter.at) == (2, False, calendar.now)


def test_a_retry_lets_what_waits_be_tried_at_once(db: SmithersDB) -> None:
    handler = Failing()
    db.triggers.on("phase", name="bad")(handler)
    db.state.set("phase", "a")
    db.triggers.deliver()
    handler.broken = False
    assert db.triggers.deliver() == 0
    assert db.triggers.retry("bad") == 0
    assert db.triggers.deliver() == 1


def test_dead_letters_outlive_the_history_they_come_from(
    db: SmithersDB, calendar: Calendar
) -> None:
    handler = Failing()
    db.triggers.on("phase", name="bad", retries=0)(handler)
    written = db.state.set("phase", {"deep": [1, 2.5, "é"]}, trigger="cause")
    db.triggers.deliver()
    calendar.wait(60)
    db.prune(before=timedelta(0))
    assert db.state.history() == []
    assert db.triggers.dead("bad")[0].transition == written
    handler.broken = False
    db.triggers.retry("bad")
    assert (db.triggers.deliver(), handler.calls[-1]) == (1, {"deep": [1, 2.5, "é"]})


def test_an_unknown_trigger_has_nothing_to_retry_and_is_not_dropped(db: SmithersDB) -> None:
    with pytest.raises(NotFound):
        db.triggers.retry("unknown")
    assert db.triggers.drop("unknown") is False
    assert db.triggers.dead("unknown") == []


def test_a_dropped_trigger_begins_anew(db: SmithersDB) -> None:
    handler = Failing()
    db.triggers.on("phase", name="bad", retries=0)(handler)
    db.state.set("phase", "a")
    db.triggers.deliver()
    db.state.set("phase", "b")
    assert db.triggers.drop("bad") is True
    assert (db.triggers.list(), db.triggers.dead()) == ([], [])
    assert db.triggers.deliver() == 0
    assert handler.calls == ["a"], "what came before it is known again is not handled"
    handler.broken = False
    db.state.set("phase", "c")
    assert (db.triggers.deliver(), handler.calls) == (1, ["a", "c"])


# -- answers of queries ----------------------------------------------------------------------------


COUNT = "SELECT count(*) AS n FROM state"
OPEN = "SELECT key, value FROM state WHERE key LIKE $1 ORDER BY key"


def test_a_query_calls_for_rows_that_differ_from_those_last_handled(
    path: Path, db: SmithersDB
) -> None:
    seen = ask(db, OPEN, "ticket%")
    assert db.triggers.deliver() == 0, "no rows yet"
    db.state.set("ticket1", 1)
    assert (db.triggers.deliver(), db.triggers.deliver()) == (1, 0)
    db.state.set("other", 1)
    db.state.set("ticket1", 1)
    assert db.triggers.deliver() == 0, "the same rows"
    db.state.set("ticket2", 1)
    db.state.set("ticket2", 2)
    assert db.triggers.deliver() == 1
    assert [[row["value"] for row in rows] for rows in seen] == [["1"], ["1", "2"]]
    db.close()
    with create_smithers_db(path) as later:
        seen = ask(later, OPEN, "ticket%")
        assert (later.triggers.deliver(), seen) == (0, []), "also after a restart"
        later.state.reset()
        assert (later.triggers.deliver(), seen) == (1, [[]])


def test_rows_that_are_there_when_a_query_is_new_are_handled(db: SmithersDB) -> None:
    db.state.set("ticket1", 1)
    seen, counted = ask(db, OPEN, "ticket%"), ask(db, COUNT, name="count")
    assert db.triggers.deliver() == 2
    assert (seen, counted) == ([[{"key": "ticket1", "value": "1"}]], [[{"n": 1}]])


@pytest.mark.parametrize("values", [(1, 1.0), (1, "1"), (None, 0), (b"a", "a"), (0.0, -0.0)])
def test_rows_differ_by_the_types_of_their_values(db: SmithersDB, values: tuple[Any, Any]) -> None:
    db.database.execute("CREATE TABLE things (value)")
    db.database.execute("INSERT INTO things VALUES (?)", [values[0]])
    seen = ask(db, "SELECT value FROM things")
    assert db.triggers.deliver() == 1
    db.database.execute("UPDATE things SET value = ?", [values[1]])
    assert db.triggers.deliver() == 1
    assert [type(rows[0]["value"]) for rows in seen] == [*map(type, values)]


def test_a_failing_handler_of_a_query_is_called_with_the_rows_as_they_are_then(
    db: SmithersDB, calendar: Calendar
) -> None:
    handler = Failing()
    db.triggers.on_query(COUNT, name="rows", retries=1)(handler)
    db.triggers.deliver()
    db.state.set("a", 1)
    assert db.triggers.deliver() == 0 and len(handler.calls) == 1, "it waits"
    calendar.wait(1)
    db.triggers.deliver()
    assert handler.calls == [[{"n": 0}], [{"n": 1}]]
    (letter,) = db.triggers.dead()
    assert (letter.transition, letter.attempts) == (None, 2)
    assert db.triggers.deliver() == 0 and len(handler.calls) == 2, "it was set aside"
    handler.broken = False
    db.state.set("b", 1)
    assert db.triggers.retry("rows") == 1
    assert db.triggers.deliver() == 1
    assert (handler.calls[-1], db.triggers.dead()) == ([{"n": 2}], [])


def test_a_retry_calls_for_an_answer_that_has_not_changed(
    db: SmithersDB, calendar: Calendar
) -> None:
    handler = Failing()
    db.triggers.on_query(COUNT, name="rows", retries=0)(handler)
    db.triggers.deliver()
    db.triggers.retry("rows")
    db.triggers.deliver()
    assert len(handler.calls) == 2 and len(db.triggers.dead()) == 1, "dead again, once"
    handler.broken = False
    db.triggers.retry("rows")
    assert (db.triggers.deliver(), db.triggers.deliver(), db.triggers.dead()) == (1, 0, [])


def test_a_query_that_cannot_run_any_more_is_tried_until_it_can(
    db: SmithersDB, calendar: Calendar
) -> None:
    db.database.execute("CREATE TABLE things (value)")
    seen = ask(db, "SELECT value FROM things")
    db.database.execute("DROP TABLE things")
    for _ in range(10):
        assert db.triggers.deliver() == 0
        calendar.wait(300)
    (trigger,) = db.triggers.list()
    assert trigger.error is not None and "no such table: things" in trigger.error
    assert db.triggers.dead() == [], "there is no answer that could be set aside"
    db.database.execute("CREATE TABLE things (value)")
    db.database.execute("INSERT INTO things VALUES (1)")
    assert (db.triggers.deliver(), seen) == (1, [[{"value": 1}]])


# -- what is refused -------------------------------------------------------------------------------


def handler(_: Any) -> None:
    raise AssertionError("never called")


async def async_handler(_: Any) -> None:
    raise AssertionError("never called")


class AsyncCallable:
    async def __call__(self, _: Any) -> None:
        raise AssertionError("never called")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"key": ""}, ValueError),
        ({"key": 1}, TypeError),
        ({"key": "nul \0"}, ValueError),
        ({"name": ""}, ValueError),
        ({"name": None}, TypeError),
        *(({"name": text}, ValueError) for text in UNWRITABLE),
        ({"start": "soon"}, ValueError),
        ({"start": None}, ValueError),
        ({"retries": -1}, ValueError),
        ({"retries": True}, ValueError),
        ({"retries": 1.5}, ValueError),
        ({"to": object()}, TypeError),
        ({"to": float("nan")}, ValueError),
        ({"when": "phase"}, TypeError),
        ({"when": async_handler}, TypeError),
        ({"handler": None}, TypeError),
        ({"handler": async_handler}, TypeError),
        ({"handler": partial(async_handler)}, TypeError),
        ({"handler": AsyncCallable()}, TypeError),
    ],
)
def test_a_trigger_that_makes_no_sense_is_refused_before_anything_is_written(
    db: SmithersDB, arguments: dict[str, Any], error: type[Exception]
) -> None:
    before = contents(db)
    given: dict[str, Any] = {"key": "phase", "name": "one", **arguments}
    decorated = given.pop("handler", handler)
    with pytest.raises(error):
        db.triggers.on(**given)(decorated)
    assert contents(db) == before
    listen(db)  # the name is free


@pytest.mark.parametrize(
    ("sql", "params", "error"),
    [
        ("", (), ValueError),
        (None, (), TypeError),
        ("DELETE FROM state", (), ValueError),
        ("SELECT 1; SELECT 2", (), (sqlite3.Warning, sqlite3.ProgrammingError)),
        ("SELECT nonsense FROM nowhere", (), sqlite3.OperationalError),
        ("SELECT $1", (), sqlite3.ProgrammingError),
        ("SELECT 1", (1,), sqlite3.ProgrammingError),
        ("SELECT 1", 7, TypeError),
    ],
)
def test_a_query_that_is_none_is_refused_before_anything_is_written(
    db: SmithersDB, sql: Any, params: Any, error: Any
) -> None:
    before = contents(db)
    with pytest.raises(error):
        db.triggers.on_query(sql, params, name="rows")(handler)
    assert contents(db) == before
    ask(db, COUNT)  # the name is free


def test_two_handlers_of_one_name_are_refused(db: SmithersDB) -> None:
    seen = listen(db)
    for register in (
        partial(db.triggers.on, "phase"),
        partial(db.triggers.on, "other"),
        partial(db.triggers.on_query, COUNT),
    ):
        with pytest.raises(ValueError, match="'one' has a handler already"):
            register(name="one")
    db.state.set("phase", 1)
    assert (db.triggers.deliver(), seen) == (1, [1])


@pytest.mark.parametrize("first", ["key", "query"])
def test_a_name_is_that_of_a_key_or_of_a_query_for_good(
    path: Path, db: SmithersDB, first: str
) -> None:
    def on_key(db: SmithersDB) -> None:
        listen(db, name="x")

    def on_query(db: SmithersDB) -> None:
        ask(db, COUNT, name="x")

    one, other = (on_key, on_query) if first == "key" else (on_query, on_key)
    one(db)
    db.close()
    with create_smithers_db(path) as later:
        before = contents(later)
        with pytest.raises(ValueError, match=f"'x' is known as one on a {first}"):
            other(later)
        assert contents(later) == before
        later.triggers.drop("x")
        other(later)


def test_a_name_that_another_program_has_given_to_a_query_meanwhile_is_no_key_any_more(
    db: SmithersDB, elsewhere: SmithersDB
) -> None:
    seen = listen(db)
    db.state.set("phase", 1)
    elsewhere.triggers.drop("one")
    ask(elsewhere, COUNT, name="one")
    with pytest.raises(ValueError, match="'one' is known as one on a query"):
        db.triggers.deliver()
    assert (seen, elsewhere.triggers.deliver()) == ([], 1)


def test_an_awaitable_that_a_plain_function_returns_is_a_failure(db: SmithersDB) -> None:
    def plain(change: Transition) -> Any:
        return async_handler(change)

    db.triggers.on("phase", name="one", retries=0)(plain)
    db.state.set("phase", 1)
    assert db.triggers.deliver() == 0
    assert "something to be awaited" in db.triggers.dead()[0].error


def test_nothing_is_delivered_inside_a_transaction(db: SmithersDB) -> None:
    seen = listen(db)
    with db.transaction():
        db.state.set("phase", 1)
        with pytest.raises(InTransaction):
            db.triggers.deliver()
        with pytest.raises(InTransaction):
            db.triggers.run_forever()
    assert seen == []


def test_reading_only_there_is_looking_and_nothing_else(path: Path, db: SmithersDB) -> None:
    listen(db)
    db.state.set("phase", 1)
    with create_smithers_db(path, read_only=True) as reader:
        assert [trigger.lag for trigger in reader.triggers.list()] == [1]
        assert reader.triggers.dead() == []
        for call in (
            lambda: reader.triggers.on("phase", name="two"),
            lambda: reader.triggers.on_query(COUNT, name="two"),
            reader.triggers.deliver,
            reader.triggers.run_forever,
            lambda: reader.triggers.retry("one"),
            lambda: reader.triggers.drop("one"),
        ):
            with pytest.raises(ReadOnly):
                call()


def test_after_the_close_every_call_says_so(db: SmithersDB) -> None:
    listen(db)
    register = db.triggers.on("phase", name="two")
    db.close()
    for call in (
        lambda: db.triggers.on("phase", name="three"),
        lambda: register(handler),
        db.triggers.deliver,
        db.triggers.run_forever,
        db.triggers.list,
        db.triggers.dead,
        lambda: db.triggers.retry("one"),
        lambda: db.triggers.drop("one"),
    ):
        with pytest.raises(DatabaseClosed):
            call()


@pytest.mark.parametrize("limit", [-1, 1.5, "1", True])
def test_a_limit_is_a_number_of_rows(db: SmithersDB, limit: Any) -> None:
    for call in (db.triggers.list, db.triggers.dead):
        with pytest.raises(ValueError, match="limit"):
            call(limit=limit)


def test_hostile_names_are_kept_as_they_are(db: SmithersDB) -> None:
    for text in HOSTILE:
        db.triggers.on("phase", name=text, retries=0)(Failing())
    db.state.set("phase", 1)
    assert db.triggers.deliver() == 0
    assert [trigger.name for trigger in db.triggers.list()] == sorted(HOSTILE)
    for text in HOSTILE:
        assert [letter.trigger for letter in db.triggers.dead(text)] == [text]
        assert db.triggers.retry(text) == 1
        assert db.triggers.drop(text) is True
    assert db.triggers.list() == []
    assert [found for found in db.check() if found.level == "error"] == []


# -- with what else the database does --------------------------------------------------------------


def test_history_that_is_still_to_be_handled_is_not_pruned(
    db: SmithersDB, calendar: Calendar
) -> None:
    seen = listen(db)
    db.state.set("other", 0)
    with db.transaction():
        db.state.set("other", 1)
        db.state.set("phase", 1)
    db.state.set("other", 2)
    calendar.wait(60)
    foreseen = db.prune(before=timedelta(0), dry_run=True)
    assert db.prune(before=timedelta(0)).rows == foreseen.rows
    assert [t.id for t in db.state.history()] == ["t2", "t3", "t4"], "the commit stays whole"
    assert (db.triggers.deliver(), seen) == (1, [1])
    db.prune(before=timedelta(0))
    assert db.state.history() == [], "a trigger that has nothing to do keeps nothing"


def test_a_reset_forgets_triggers_and_their_handlers_begin_anew(path: Path, db: SmithersDB) -> None:
    seen = listen(db)
    db.state.set("phase", 1)
    create_smithers_db(path, reset=True).close()
    assert db.triggers.list() == []
    assert db.triggers.deliver() == 0
    db.state.set("phase", 2)
    assert (db.triggers.deliver(), seen) == (1, [2])


def test_a_dump_takes_triggers_along_and_not_who_handles_them(
    tmp_path: Path, db: SmithersDB
) -> None:
    handler = Failing()
    db.triggers.on("phase", name="bad", retries=0)(handler)
    ask(db, COUNT)
    for value in ("a", "b"):
        db.state.set("phase", value)
    db.triggers.deliver()
    db.state.set("phase", "c")
    db.dump(tmp_path / "dump.jsonl")
    with create_smithers_db(tmp_path / "copy") as copy:
        copy.load(tmp_path / "dump.jsonl")
        assert copy.triggers.list() == db.triggers.list()
        assert copy.triggers.dead() == db.triggers.dead()
        seen, rows = listen(copy, name="bad"), ask(copy, COUNT)
        assert copy.triggers.retry("bad") == 2
        assert (copy.triggers.deliver(), seen, rows) == (3, ["a", "b", "c"], [])
