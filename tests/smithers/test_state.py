"""Values: set, read, change, remove, and what is refused before anything is written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import sqlite3
from reactive_sqlite.errors import DatabaseClosed
from smithers import ReadOnly, SmithersDB, StateEntry, create_smithers_db
from smithers.errors import StateTypeError


def test_a_fresh_database_is_empty(db: SmithersDB) -> None:
    assert db.state.get_all() == {}
    assert db.state.keys() == []
    assert db.state.entries() == []
    assert db.state.history() == []


def test_a_value_is_read_back_with_its_type(db: SmithersDB) -> None:
    values: list[Any] = [None, True, 0, 1.0, 10**30, "", "ü", [1, [2]], {"b": 1, "a": {}}]
    for value in values:
        db.state.set("key", value)
        assert repr(db.state.get("key")) == repr(value)


def test_an_absent_key_gives_the_default_and_a_stored_none_gives_none(db: SmithersDB) -> None:
    assert db.state.get("key") is None
    assert db.state.get("key", 3) == 3
    db.state.set("key", None)
    assert db.state.get("key", 3) is None
    assert db.state.has("key") and not db.state.has("other")


def test_set_returns_its_transition(db: SmithersDB) -> None:
    before = datetime.now(UTC)
    first = db.state.set("phase", "start")
    second = db.state.set("phase", ("a", 1), trigger="tests_passed")
    assert (first.id, first.seq, second.id, second.seq) == ("t1", 1, "t2", 2)
    assert (first.previous_value, first.value, first.trigger) == (None, "start", None)
    assert (second.previous_value, second.value) == ("start", ["a", 1]), "a tuple comes back a list"
    assert (second.key, second.trigger, second.deleted) == ("phase", "tests_passed", False)
    assert (second.execution_id, second.agent_id) == (None, None)
    assert before <= first.timestamp <= second.timestamp <= datetime.now(UTC)
    assert db.state.history() == [first, second], "history says the same as the call"


def test_an_equal_value_is_recorded_too(db: SmithersDB) -> None:
    db.state.set("phase", "start")
    db.state.set("phase", "start")
    assert [t.value for t in db.state.history()] == ["start", "start"]


def test_an_entry_has_the_time_of_its_last_change(db: SmithersDB) -> None:
    db.state.set("b", 1)
    changed = db.state.set("b", 2)
    other = db.state.set("a", 1)
    assert db.state.entry("b") == StateEntry("b", 2, changed.timestamp)
    assert db.state.entry("absent") is None
    assert db.state.entries() == [
        StateEntry("a", 1, other.timestamp),
        StateEntry("b", 2, changed.timestamp),
    ]


def test_set_many_is_one_commit(db: SmithersDB) -> None:
    db.state.set("a", 0)
    written = db.state.set_many({"b": 2, "a": 1}, "both")
    assert db.state.get_all() == {"a": 1, "b": 2}
    assert [(t.key, t.previous_value, t.value, t.trigger) for t in written] == [
        ("b", None, 2, "both"),
        ("a", 0, 1, "both"),
    ]
    assert {t.commit for t in written} == {2}
    assert db.state.set_many({}) == []


def test_set_many_writes_nothing_when_one_value_is_refused(db: SmithersDB) -> None:
    for values, error in (({"a": 1, "b": {1: 2}}, TypeError), ({"a": 1, "": 2}, ValueError)):
        with pytest.raises(error):
            db.state.set_many(values)
    assert db.state.history() == []


def test_update_changes_what_it_finds(db: SmithersDB) -> None:
    assert db.state.update("attempts", lambda n: n + 1, default=0).value == 1
    changed = db.state.update("attempts", lambda n: n + 1, default=0, trigger="retry")
    assert (changed.previous_value, changed.value, changed.trigger) == (1, 2, "retry")
    assert db.state.get("attempts") == 2


def test_update_that_raises_writes_nothing(db: SmithersDB) -> None:
    db.state.set("n", 1)

    def broken(_: Any) -> Any:
        db.state.set("other", 1)
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        db.state.update("n", broken)
    with pytest.raises(TypeError, match="state 'n'"):
        db.state.update("n", lambda _: object())
    assert db.state.get_all() == {"n": 1}
    assert len(db.state.history()) == 1


def test_update_loses_nothing_between_threads_and_calls_its_function_once(
    db: SmithersDB, elsewhere: SmithersDB
) -> None:
    calls: list[int] = []

    def more(n: int) -> int:
        calls.append(n)
        return n + 1

    def count(handle: SmithersDB) -> None:
        for _ in range(25):
            handle.state.update("n", more, default=0)

    threads = [threading.Thread(target=count, args=(h,)) for h in (db, db, elsewhere, elsewhere)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.state.get("n") == 100
    assert len(calls) == 100


def test_delete_is_recorded_and_an_absent_key_is_not(db: SmithersDB) -> None:
    db.state.set("phase", "start")
    deleted = db.state.delete("phase", trigger="cleanup")
    assert deleted is not None
    assert (deleted.previous_value, deleted.value, deleted.deleted) == ("start", None, True)
    assert deleted.trigger == "cleanup"
    assert not db.state.has("phase")
    assert db.state.delete("phase") is None
    assert db.state.history() == [db.state.history()[0], deleted]


def test_reset_records_every_key_in_one_commit(db: SmithersDB) -> None:
    db.state.set_many({"b": 1, "a": 2})
    gone = db.state.reset()
    assert [(t.key, t.deleted, t.trigger) for t in gone] == [
        ("a", True, "reset"),
        ("b", True, "reset"),
    ]
    assert len({t.commit for t in gone}) == 1
    assert db.state.get_all() == {}
    assert db.state.reset(trigger="again") == []


def test_restore_makes_the_state_that_of_the_snapshot(db: SmithersDB) -> None:
    db.state.set_many({"kept": [1], "changed": 1, "removed": None})
    snapshot = db.state.snapshot()
    db.state.set("changed", 2)
    db.state.delete("removed")
    db.state.set("added", 3)
    written = db.state.restore(snapshot)
    assert db.state.get_all() == snapshot == {"kept": [1], "changed": 1, "removed": None}
    assert sorted((t.key, t.value, t.deleted) for t in written) == [
        ("added", None, True),
        ("changed", 1, False),
        ("removed", None, False),
    ], "only what differs is recorded"
    assert len({(t.commit, t.trigger, t.timestamp) for t in written}) == 1
    assert db.state.restore(snapshot, "error_rollback") == []


def test_restore_takes_only_real_differences_of_value_and_type(
    db: SmithersDB, foreign: sqlite3.Connection
) -> None:
    foreign.execute("""INSERT INTO state (key, value) VALUES ('a', ' {"x" : 1, "y":2} ')""")
    db.state.set("b", 1)
    assert db.state.restore({"a": {"y": 2, "x": 1}, "b": 1}) == []
    (changed,) = db.state.restore({"a": {"y": 2, "x": 1}, "b": True})
    assert (changed.key, changed.value) == ("b", True)


def test_a_refused_snapshot_changes_nothing(db: SmithersDB) -> None:
    db.state.set("a", 1)
    with pytest.raises(TypeError, match="state 'b'"):
        db.state.restore({"b": object()})
    assert db.state.get_all() == {"a": 1}


CALLS_WITH_A_KEY: dict[str, Callable[[SmithersDB, Any], Any]] = {
    "get": lambda db, key: db.state.get(key),
    "has": lambda db, key: db.state.has(key),
    "entry": lambda db, key: db.state.entry(key),
    "set": lambda db, key: db.state.set(key, 1),
    "set_many": lambda db, key: db.state.set_many({key: 1}),
    "update": lambda db, key: db.state.update(key, lambda n: n),
    "delete": lambda db, key: db.state.delete(key),
    "restore": lambda db, key: db.state.restore({key: 1}),
    "history": lambda db, key: db.state.history(key or ""),
    "observe": lambda db, key: db.state.observe(key),
    "transitions": lambda db, key: db.state.transitions(key or ""),
    "signal": lambda db, key: db.state.signal(key),
}


@pytest.mark.parametrize("call", CALLS_WITH_A_KEY)
def test_every_call_refuses_a_key_outside_the_rule(db: SmithersDB, call: str) -> None:
    for key in ("", "a" * 1025, "a\0", "\ud800"):
        with pytest.raises(ValueError, match="a key"):
            CALLS_WITH_A_KEY[call](db, key)
    with pytest.raises(TypeError, match="a key"):
        CALLS_WITH_A_KEY[call](db, 1)
    assert db.state.history() == []


WRITES: dict[str, Callable[[SmithersDB], Any]] = {
    "set": lambda db: db.state.set("a", 2),
    "set_many": lambda db: db.state.set_many({"a": 2}),
    "update": lambda db: db.state.update("a", lambda _: pytest.fail("called")),
    "delete": lambda db: db.state.delete("a"),
    "delete of an absent key": lambda db: db.state.delete("absent"),
    "reset": lambda db: db.state.reset(),
    "restore": lambda db: db.state.restore({}),
    "replay_to": lambda db: db.state.replay_to("t1"),
    "signal": lambda db: db.state.signal("a")[1](2),
    "query": lambda db: db.query("DELETE FROM state", write=True),
}


@pytest.mark.parametrize("write", WRITES)
def test_every_write_on_a_read_only_database_is_an_error_of_its_own(
    db: SmithersDB, write: str
) -> None:
    db.state.set("a", 1)
    assert db.path is not None
    with (
        create_smithers_db(db.path, read_only=True) as reading,
        pytest.raises(ReadOnly, match="read_only=True"),
    ):
        WRITES[write](reading)
    assert db.state.get_all() == {"a": 1}
    assert len(db.state.history()) == 1


@pytest.mark.parametrize(
    ("write", "told"),
    {
        "set": "change state 'a'",
        "update": "change state 'a'",
        "delete": "delete state 'a'",
    }.items(),
)
def test_a_write_that_read_only_refuses_says_what_it_was(
    db: SmithersDB, write: str, told: str
) -> None:
    assert db.path is not None
    with (
        create_smithers_db(db.path, read_only=True) as reading,
        pytest.raises(ReadOnly, match=rf"^cannot {told}"),
    ):
        WRITES[write](reading)


TRIGGERED: dict[str, Callable[[SmithersDB, Any], Any]] = {
    "set": lambda db, trigger: db.state.set("a", 2, trigger),
    "set_many": lambda db, trigger: db.state.set_many({}, trigger),
    "update": lambda db, trigger: db.state.update("a", lambda _: pytest.fail("called"), 0, trigger),
    "delete": lambda db, trigger: db.state.delete("absent", trigger),
    "reset": lambda db, trigger: db.state.reset(trigger),
    "restore": lambda db, trigger: db.state.restore({"a": 1}, trigger),
}


@pytest.mark.parametrize("write", TRIGGERED)
@pytest.mark.parametrize(("trigger", "error"), [(7, TypeError), ("\ud800", ValueError)])
def test_a_trigger_that_is_no_text_is_refused_also_where_nothing_would_change(
    db: SmithersDB, write: str, trigger: Any, error: type[Exception]
) -> None:
    db.state.set("a", 1)
    if write == "reset":
        db.state.delete("a")
    before = db.state.history()
    with pytest.raises(error, match="trigger"):
        TRIGGERED[write](db, trigger)
    assert db.state.history() == before


def test_restoring_is_its_own_trigger_unless_another_is_named(db: SmithersDB) -> None:
    assert [t.trigger for t in db.state.restore({"a": 1})] == ["restore"]
    assert [t.trigger for t in db.state.restore({"a": 2}, "undo")] == ["undo"]


def test_a_value_that_is_refused_is_named(db: SmithersDB) -> None:
    with pytest.raises(TypeError, match="state 'phase'"):
        db.state.set("phase", object())


def test_the_whole_state_is_observed_in_the_order_of_its_keys(db: SmithersDB) -> None:
    observed = db.state.observe_all()
    for key in ("b", "c", "a"):
        db.state.set(key, 1)
    assert list(observed.peek()) == ["a", "b", "c"]


def _with_a_key(call: Callable[[SmithersDB, Any], Any], db: SmithersDB) -> Any:
    return call(db, "a")


CALLS: dict[str, Callable[[SmithersDB], Any]] = {
    **{name: write for name, write in WRITES.items() if name not in ("update", "signal")},
    **{name: partial(_with_a_key, call) for name, call in CALLS_WITH_A_KEY.items()},
    "get_all": lambda db: db.state.get_all(),
    "keys": lambda db: db.state.keys(),
    "entries": lambda db: db.state.entries(),
    "snapshot": lambda db: db.state.snapshot(),
    "state_at": lambda db: db.state.state_at("t1"),
    "observe_all": lambda db: db.state.observe_all(),
    "stats": lambda db: db.stats(),
    "db.query": lambda db: db.query("SELECT 1"),
    "db.observe": lambda db: db.observe("SELECT 1"),
    "transaction": lambda db: db.transaction().__enter__(),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_after_close_says_so(db: SmithersDB, call: str) -> None:
    db.state.set("a", 1)
    db.close()
    db.close()
    with pytest.raises(DatabaseClosed):
        CALLS[call](db)


def test_a_transaction_undoes_everything_in_it(db: SmithersDB) -> None:
    db.state.set("a", 1)
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.state.set("a", 2)
        db.state.delete("a")
        db.database["notes"].insert({"text": "mine"})
        _ = 1 / 0
    assert db.state.get_all() == {"a": 1}
    assert db.state.set("a", 3).id == "t2", "the numbers of what never was are given again"
    assert "notes" not in db.database.table_names()


def test_a_value_that_only_a_foreign_program_can_store_is_a_typed_error(
    db: SmithersDB, foreign: sqlite3.Connection
) -> None:
    foreign.execute("INSERT INTO state (key, value) VALUES ('n', ?)", ("9" * 5000,))
    for read in (lambda: db.state.get("n"), db.state.get_all, db.state.entries):
        with pytest.raises(StateTypeError, match="state 'n'"):
            read()
    assert db.state.history()[0].value == "9" * 5000, "history shows its text"
    assert db.state.set("n", 1).previous_value == "9" * 5000, "and it can be overwritten"
    assert db.state.get_all() == {"n": 1}


def test_a_value_that_is_no_utf8_is_written_over_and_its_text_told(
    db: SmithersDB, foreign: sqlite3.Connection
) -> None:
    foreign.execute("INSERT INTO state (key, value) VALUES ('n', CAST(x'22ff22' AS TEXT))")

    transition = db.state.set("n", 2)

    assert transition.previous_value == "\N{REPLACEMENT CHARACTER}"
    assert db.state.get("n") == 2


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_a_file_of_another_encoding_gives_the_same_values(tmp_path: Path, encoding: str) -> None:
    with closing(sqlite3.connect(tmp_path / "db.sqlite")) as made:
        made.execute(f"PRAGMA encoding = '{encoding}'")
        made.execute("CREATE TABLE t (c)")

    with create_smithers_db(tmp_path) as db:
        db.state.set("key", "äöü")
        assert db.state.set("key", 2).previous_value == "äöü"
        assert [transition.value for transition in db.state.history("key")] == ["äöü", 2]


def test_writes_of_an_observer_leave_the_outer_one_its_previous_value(db: SmithersDB) -> None:
    inner: list[Any] = []

    def write_again(value: int) -> None:
        if 0 < value < 4:
            inner.append(db.state.set("key", value + 1).previous_value)

    db.state.observe("key", 0).subscribe(write_again)

    assert db.state.set("key", 1).previous_value is None
    assert inner == [1, 2, 3]


@pytest.mark.parametrize("values", [None, ["a"], "a", 1])
def test_what_is_no_mapping_is_a_type_error(db: SmithersDB, values: Any) -> None:
    db.state.set("a", 1)
    for call in (db.state.set_many, db.state.restore):
        with pytest.raises(TypeError, match="a mapping of keys to values"):
            call(values)
    assert db.state.get_all() == {"a": 1}
