"""History: what it lists, how commits belong together, time travel, and following it live."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from reactivex import Observer
from reactivex import operators as ops
from reactivex.scheduler import EventLoopScheduler

from reactive_sqlite import sqlite3
from smithers import SmithersDB, StateTypeError, Transition, TransitionNotFound
from smithers.clock import utc_now
from tests.recorder import Recorder


def commits(db: SmithersDB) -> list[list[str]]:
    """The ids of history, those of one commit together."""
    found: dict[int, list[str]] = {}
    for transition in db.state.history(limit=None):
        found.setdefault(transition.commit, []).append(transition.id)
    return list(found.values())


def test_history_is_the_newest_oldest_first(db: SmithersDB) -> None:
    for n in range(150):
        db.state.set("ab"[n % 2], n)
    assert [t.seq for t in db.state.history()] == list(range(51, 151))
    assert [t.value for t in db.state.history("a", limit=3)] == [144, 146, 148]
    assert [t.seq for t in db.state.history("a", 2, before="t100")] == [97, 99]
    assert [t.seq for t in db.state.history(since="t148")] == [149, 150]
    assert [t.seq for t in db.state.history("b", limit=None, since=10, before=17)] == [12, 14, 16]
    assert len(db.state.history(limit=None)) == 150
    assert db.state.history(limit=0) == []
    assert db.state.history("absent") == []
    assert db.state.history(since=9999) == []


@pytest.mark.parametrize("limit", [-1, True, 1.5, "1", 2**63])
def test_a_limit_is_a_number_of_transitions(db: SmithersDB, limit: Any) -> None:
    with pytest.raises(ValueError, match="limit"):
        db.state.history(limit=limit)


def test_every_write_outside_a_transaction_is_a_commit(db: SmithersDB) -> None:
    db.state.set("a", 1)
    db.state.set_many({"a": 2, "b": 1})
    db.state.update("a", lambda n: n + 1)
    db.state.delete("b")
    db.state.reset()
    db.state.restore({"x": 1, "y": 2})
    assert commits(db) == [["t1"], ["t2", "t3"], ["t4"], ["t5"], ["t6"], ["t7", "t8"]]
    assert [t.commit for t in db.state.history()] == [1, 2, 2, 4, 5, 6, 7, 7]


def test_what_a_transaction_writes_by_any_road_is_one_commit(db: SmithersDB) -> None:
    db.state.set("a", 0)
    with db.transaction():
        db.database.conn.execute("UPDATE state SET value = '1'")
        first = db.state.set("b", 1)
        with db.transaction():
            db.state.set_many({"c": 1, "d": 1})
        with pytest.raises(ZeroDivisionError), db.transaction():
            db.state.set("e", 1)
            _ = 1 / 0
        db.database.conn.execute("UPDATE state SET value = '5' WHERE key = 'c'")
        last = db.state.update("d", lambda n: n + 1)
    db.state.set("z", 1)
    assert commits(db) == [["t1"], ["t2", "t3", "t4", "t5", "t6", "t7"], ["t8"]]
    assert first.commit == last.commit == 2, "what the calls returned is what history says"


@pytest.mark.parametrize("name", ["transaction", "atomic"])
def test_a_transaction_of_the_database_below_is_one_commit_as_well(
    db: SmithersDB, name: str
) -> None:
    with getattr(db.database, name)():
        db.state.set("a", 1)
        db.state.set("b", 1)
    assert commits(db) == [["t1", "t2"]]


def test_foreign_statements_are_commits_of_their_own_without_a_cause(
    db: SmithersDB, shell: Callable[[str], str]
) -> None:
    db.state.set("phase", "start", trigger="mine")
    shell("""
        INSERT INTO state (key, value) VALUES ('a', '1');
        UPDATE state SET value = '"review"' WHERE key = 'phase';
        DELETE FROM state;
    """)
    assert [(t.key, t.previous_value, t.value, t.deleted) for t in db.state.history(since=1)] == [
        ("a", None, 1, False),
        ("phase", "start", "review", False),
        ("a", 1, None, True),
        ("phase", "review", None, True),
    ]
    assert {t.trigger for t in db.state.history(since=1)} == {None}
    assert commits(db) == [["t1"], ["t2"], ["t3"], ["t4", "t5"]]


def test_state_at_is_the_state_after_the_whole_commit(db: SmithersDB) -> None:
    db.state.set("a", 1)
    db.state.set_many({"a": 2, "b": 2})
    db.state.delete("a")
    expected: dict[str | int, dict[str, int]] = {
        "t1": {"a": 1},
        "t2": {"a": 2, "b": 2},
        "t3": {"a": 2, "b": 2},
        4: {"b": 2},
    }
    for id, state in expected.items():
        assert db.state.state_at(id) == state, id
    assert len(db.state.history()) == 4, "looking changes nothing"


def test_replay_makes_the_whole_state_what_it_was_and_is_recorded(db: SmithersDB) -> None:
    db.state.set_many({"kept": 1, "changed": 1})
    db.state.set("changed", 2)
    db.state.set("added", 3)
    db.state.delete("kept")
    written = db.state.replay_to("t1")
    assert db.state.get_all() == {"kept": 1, "changed": 1}
    assert sorted((t.key, t.value, t.deleted) for t in written) == [
        ("added", None, True),
        ("changed", 1, False),
        ("kept", 1, False),
    ]
    assert {(t.trigger, t.commit) for t in written} == {("replay:t1", 6)}
    db.state.replay_to(written[0].seq - 1)
    assert db.state.get_all() == {"changed": 2, "added": 3}, "a replay is undone by another"
    assert db.state.replay_to("t4") and db.state.replay_to("t4") == []


@pytest.mark.parametrize("id", ["t9", 9, "t0", "banana", ""])
def test_an_unknown_id_is_named_and_changes_nothing(db: SmithersDB, id: str | int) -> None:
    db.state.set("a", 1)
    for call in (db.state.replay_to, db.state.state_at):
        with pytest.raises(TransitionNotFound, match=repr(id)):
            call(id)
    assert db.state.get_all() == {"a": 1}
    assert len(db.state.history()) == 1


def test_transitions_come_from_every_writer_in_order_none_missing_none_twice(
    db: SmithersDB,
    elsewhere: SmithersDB,
    shell: Callable[[str], str],
    recorder: Recorder[Transition],
) -> None:
    db.state.set("a", 0)
    db.state.transitions().subscribe(recorder)

    def write(handle: SmithersDB, key: str) -> None:
        for n in range(50):
            handle.state.set_many({key: n, f"{key}2": n})

    threads = [
        threading.Thread(target=write, args=(db, "a")),
        threading.Thread(target=write, args=(db, "b")),
        threading.Thread(target=write, args=(elsewhere, "c")),
    ]
    for thread in threads:
        thread.start()
    for n in range(5):
        shell(f"REPLACE INTO state (key, value) VALUES ('shell', '{n}')")
    for thread in threads:
        thread.join()
    seen = recorder.wait_for_count(305)
    assert [t.seq for t in seen] == list(range(2, 307))
    assert seen == db.state.history(limit=None, since=1)


def test_transitions_of_a_key_leave_the_others_out(
    db: SmithersDB, recorder: Recorder[Transition]
) -> None:
    db.state.transitions("a").subscribe(recorder)
    db.state.set_many({"a": 1, "b": 1})
    db.state.set("b", 2)
    db.state.delete("a")
    assert [(t.key, t.value) for t in recorder.values] == [("a", 1), ("a", None)]


def test_a_follower_of_a_key_reads_nothing_for_the_others(
    db: SmithersDB, recorder: Recorder[Transition]
) -> None:
    db.state.transitions("a").subscribe(recorder)
    before = db.database.broker.fetches
    db.state.set("b", 1)
    db.state.set("c", 1)
    assert db.database.broker.fetches == before
    db.state.set("a", 1)
    assert [t.key for t in recorder.values] == ["a"]
    assert db.database.broker.fetches == before + 1


def test_transitions_of_a_transaction_come_after_it_also_when_subscribed_inside(
    db: SmithersDB, recorder: Recorder[Transition]
) -> None:
    db.state.set("a", 0)
    with db.transaction():
        db.state.set("a", 1)
        db.state.transitions().subscribe(recorder)
        db.state.set("a", 2)
        assert recorder.values == []
    assert [t.value for t in recorder.values] == [1, 2]


def test_transitions_that_were_rolled_back_never_come(
    db: SmithersDB, recorder: Recorder[Transition]
) -> None:
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.state.set_many({"a": 1, "b": 2, "c": 3})
        db.state.transitions().subscribe(recorder)
        _ = 1 / 0
    db.state.set("a", 4)
    db.database.conn.execute("BEGIN")
    db.state.set("a", 5)
    db.database.conn.execute("ROLLBACK")
    db.state.set("a", 6)
    assert [t.value for t in recorder.values] == [4, 6]


def test_a_subscriber_in_a_textual_transaction_misses_nothing_after_its_rollback(
    db: SmithersDB, recorder: Recorder[Transition]
) -> None:
    db.database.conn.execute("BEGIN")
    db.state.set_many({"a": 1, "b": 2})
    db.state.transitions().subscribe(recorder)
    db.database.conn.execute("ROLLBACK")
    db.state.set("a", 3)
    assert [(t.id, t.value) for t in recorder.values] == [("t1", 3)]


def test_a_subscriber_that_raises_is_told_the_next_transition_all_the_same(
    db: SmithersDB, recorder: Recorder[Transition]
) -> None:
    def on_next(transition: Transition) -> None:
        recorder(transition)
        if transition.value % 2:
            raise KeyError(transition.id)

    db.state.transitions().subscribe(on_next, recorder.on_error)
    db.state.set("a", 1)
    with db.transaction():
        for n in (2, 3, 4, 5):
            db.state.set("a", n)
    assert [t.value for t in recorder.values] == [1, 2, 3, 4, 5]
    alone, both = recorder.errors
    assert isinstance(alone, KeyError)
    assert isinstance(both, ExceptionGroup)
    assert both.args[0] == "several calls failed"


def test_disposed_transitions_stop_and_closing_completes_the_rest(
    db: SmithersDB, recorder: Recorder[Transition]
) -> None:
    stopped: Recorder[Transition] = Recorder()
    subscription = db.state.transitions().subscribe(stopped)
    db.state.transitions().subscribe(recorder, on_completed=recorder.on_completed)
    db.state.set("a", 1)
    subscription.dispose()
    db.state.set("a", 2)
    db.close()
    assert ([t.value for t in stopped.values], stopped.completed) == ([1], 0)
    assert ([t.value for t in recorder.values], recorder.completed) == ([1, 2], 1)


def test_transitions_are_told_to_an_observer_as_to_functions(
    db: SmithersDB, recorder: Recorder[Transition]
) -> None:
    observer = Observer(recorder.on_next, recorder.on_error, recorder.on_completed)
    db.state.transitions().subscribe(observer)
    db.state.transitions().subscribe()  # nobody is told, and nothing is wrong
    db.state.set("a", 1)
    db.close()
    assert ([t.value for t in recorder.values], recorder.completed) == ([1], 1)
    assert recorder.errors == []


def test_a_scheduler_tells_transitions_on_its_own_thread(
    db: SmithersDB, recorder: Recorder[Transition]
) -> None:
    scheduler = EventLoopScheduler()
    subscription = db.state.transitions().subscribe(recorder, scheduler=scheduler)
    db.state.set("a", 1)
    db.state.set("a", 2)
    assert [t.value for t in recorder.wait_for_count(2)] == [1, 2]
    subscription.dispose()
    scheduler.dispose()
    assert threading.current_thread() not in recorder.threads


def test_transitions_take_the_operators_of_reactivex(
    db: SmithersDB, recorder: Recorder[Transition]
) -> None:
    def large(transition: Transition) -> bool:
        return bool(transition.value > 1)

    db.state.transitions("n").pipe(ops.filter(large), ops.take(2)).subscribe(recorder)
    for n in range(5):
        db.state.set("n", n)
    assert ([t.value for t in recorder.values], recorder.completed) == ([2, 3], 1)


def test_a_follower_far_behind_reads_on_in_pages(
    db: SmithersDB, foreign: sqlite3.Connection, recorder: Recorder[Transition]
) -> None:
    db.state.transitions().subscribe(recorder)
    foreign.execute("""
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1700)
        INSERT INTO state (key, value) SELECT 'k' || i, i FROM n
    """)
    assert [t.seq for t in recorder.wait_for_count(1700)] == list(range(1, 1701))


def test_a_transition_written_in_a_callback_is_told_after_it(
    db: SmithersDB, recorder: Recorder[Transition]
) -> None:
    def on_next(transition: Transition) -> None:
        recorder(transition)
        if transition.key == "a" and transition.value < 3:
            db.state.set("a", transition.value + 1)

    db.state.transitions().subscribe(on_next)
    db.state.set("a", 1)
    assert [t.value for t in recorder.values] == [1, 2, 3]


def test_a_write_that_waits_for_another_threads_transaction_is_a_commit_of_its_own(
    db: SmithersDB,
) -> None:
    waits = threading.Event()

    def clock() -> datetime:
        if threading.current_thread() is not threading.main_thread():
            waits.set()
        return utc_now()

    shared = SmithersDB(db.database, clock=clock)
    other = threading.Thread(target=shared.state.set, args=("other", 1))
    with db.transaction():
        db.state.set("mine", 1)
        other.start()
        assert waits.wait(5)
        # Long enough for the thread to come from its clock to the lock.
        for number in range(50):
            db.state.set("mine", number)
    other.join(5)
    assert [t.commit for t in db.state.history(since="t50")] == [1, 52]


@pytest.mark.parametrize("stored", [b"1", b"\xff", b"[1]" * 100_000, b""])
def test_history_shows_a_value_that_is_no_text_and_only_reading_it_is_an_error(
    db: SmithersDB, stored: bytes
) -> None:
    db.state.set("phase", "start")
    db.database.conn.execute("PRAGMA ignore_check_constraints = ON")  # as another program may
    db.query("UPDATE state SET value = ? WHERE key = 'phase'", [stored], write=True)
    with pytest.raises(StateTypeError, match="'phase': the stored value cannot be read"):
        db.state.get("phase")
    with pytest.raises(StateTypeError, match="'phase'"):
        db.state.get_all()
    db.state.set("phase", "on")
    values = [(made.previous_value, made.value) for made in db.state.history("phase")]
    assert values[0] == (None, "start") and values[-1][1] == "on"
    assert [value for _, value in values[1:-1]] == [stored]
    restored = db.state.replay_to("t1")
    assert [made.value for made in restored] == ["start"]
