"""Observing the state: by key, as a whole, and as a pair of accessor and setter."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import create_effect, create_memo, create_root, sqlite3
from smithers import SmithersDB, create_smithers_db
from smithers.storage.state import SetState
from tests.recorder import Recorder


def test_observing_a_key_gives_its_value_at_once_and_after_every_change(
    db: SmithersDB, recorder: Recorder[Any]
) -> None:
    db.state.observe("phase", "none").subscribe(recorder)
    db.state.set("phase", "start")
    db.state.set("phase", "start")
    db.state.set("other", 1)
    db.state.set("phase", None)
    db.state.delete("phase")
    assert recorder.values == ["none", "start", None, "none"], "an equal value is not told again"


def test_a_commit_is_told_once_however_often_it_wrote(
    db: SmithersDB, recorder: Recorder[Any]
) -> None:
    db.state.observe_all().subscribe(recorder)
    db.state.set_many({"b": 1, "a": 1})
    with db.transaction():
        db.state.set("a", 2)
        db.state.set("a", 3)
        db.state.delete("b")
    db.state.restore({"a": 1, "b": 1})
    db.state.replay_to("t1")
    db.state.reset()
    assert recorder.values == [{}, {"a": 1, "b": 1}, {"a": 3}, {"a": 1, "b": 1}, {}]


def test_nothing_is_fetched_for_other_keys(db: SmithersDB) -> None:
    phases = [db.state.observe(f"phase{n}") for n in range(200)]
    for phase in phases:
        phase.subscribe(lambda _: None)
    before = db.database.broker.fetches
    db.state.set("phase7", 1)
    db.state.set("other", 1)
    assert db.database.broker.fetches == before + 1


def test_observers_of_one_key_share_its_fetch_and_its_decoding(
    db: SmithersDB, recorder: Recorder[Any]
) -> None:
    for _ in range(3):
        db.state.observe("a").subscribe(recorder)
    before = db.database.broker.fetches
    db.state.set("a", 1)
    assert db.database.broker.fetches == before + 1
    assert recorder.values == [None, None, None, 1, 1, 1]


def test_a_write_by_the_command_line_is_observed(
    db: SmithersDB, shell: Callable[[str], str], recorder: Recorder[Any]
) -> None:
    db.state.observe("phase").subscribe(recorder)
    shell("""INSERT INTO state (key, value) VALUES ('phase', '"by hand"')""")
    recorder.wait_for(lambda phase: phase == "by hand")
    shell("DELETE FROM state")
    recorder.wait_for_count(3)
    assert recorder.values == [None, "by hand", None]


def test_a_value_that_cannot_be_read_is_an_error_and_the_observation_lives_on(
    db: SmithersDB, foreign: sqlite3.Connection
) -> None:
    phase = db.state.observe("n")
    foreign.execute("INSERT INTO state (key, value) VALUES ('n', ?)", ("9" * 5000,))
    with pytest.raises(TypeError, match="state 'n'"):
        phase()
    foreign.execute("UPDATE state SET value = '9'")
    assert phase() == 9


def test_a_pair_reads_and_writes_the_row(db: SmithersDB) -> None:
    phase, set_phase = db.state.signal("phase", "start")
    assert phase() == "start"
    assert not db.state.has("phase"), "the default is not written"
    done = set_phase("done", trigger="agent_finished")
    assert (done.value, done.trigger, db.state.get("phase")) == ("done", "agent_finished", "done")
    assert phase() == phase.peek() == "done"
    db.state.set("phase", "review")
    assert phase() == "review"
    db.state.delete("phase")
    assert phase() == "start"


def test_a_setter_given_a_function_updates_atomically(
    db: SmithersDB, elsewhere: SmithersDB
) -> None:
    pairs = [handle.state.signal("n", 0) for handle in (db, elsewhere)]

    def more(n: int) -> int:
        return n + 1

    def count(set_n: SetState) -> None:
        for _ in range(25):
            set_n(more, trigger="count")

    threads = [threading.Thread(target=count, args=(set_n,)) for _, set_n in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, _ in pairs:
        assert n.wait(lambda value: value == 50, timeout=10) == 50
    assert {t.trigger for t in db.state.history()} == {"count"}


def test_effects_and_memos_follow_a_pair(db: SmithersDB, recorder: Recorder[Any]) -> None:
    phase, set_phase = db.state.signal("phase", "start")
    shout = create_memo(lambda: phase().upper())
    effect = create_effect(lambda: recorder(shout()))
    set_phase("review")
    with db.transaction():
        set_phase("x")
        set_phase("review")
    db.state.set("phase", "done")
    effect.dispose()
    set_phase("start")
    assert recorder.values == ["START", "REVIEW", "DONE"]


def test_an_effect_over_two_pairs_sees_both_of_one_commit(
    db: SmithersDB, recorder: Recorder[Any]
) -> None:
    a, _ = db.state.signal("a", 0)
    b, _ = db.state.signal("b", 0)
    create_effect(lambda: recorder((a(), b())))
    db.state.set_many({"a": 1, "b": 1})
    db.state.set("b", 2)
    assert recorder.values == [(0, 0), (1, 1), (1, 2)]


def test_inside_a_transaction_a_pair_shows_what_is_committed(db: SmithersDB) -> None:
    phase, set_phase = db.state.signal("phase", "start")
    with db.transaction():
        set_phase("draft")
        assert phase() == "start"
        assert db.state.get("phase") == "draft", "get is part of the transaction"
    assert phase() == "draft"


def test_a_pair_keeps_its_value_current_until_it_is_collected(db: SmithersDB) -> None:
    broker = db.database.broker
    phase, set_phase = db.state.signal("phase", "start")
    before = broker.fetches
    set_phase("a")
    assert broker.fetches == before + 1, "it follows without anybody reading it"
    assert [phase() for _ in range(9)] == ["a"] * 9
    assert broker.fetches == before + 1, "reading runs nothing"
    del phase
    gc.collect()
    set_phase("b")
    set_phase("c")
    assert broker.fetches == before + 1, "nothing is fetched for a pair that is gone"


def test_a_pair_of_an_owner_is_released_with_it(db: SmithersDB) -> None:
    broker = db.database.broker
    pair: list[Any] = []

    def own(dispose: Callable[[], None]) -> Callable[[], None]:
        pair.extend(db.state.signal("phase", "start"))
        return dispose

    dispose = create_root(own)
    dispose()
    before = broker.fetches
    pair[1]("a")
    pair[1]("b")
    assert broker.fetches == before
    assert pair[0]() == "b", "the accessor still answers, by a fetch"


def test_a_loop_over_a_pair_ends_when_another_process_says_so(
    db: SmithersDB, shell: Callable[[str], str]
) -> None:
    phase, set_phase = db.state.signal("phase", "start")
    set_phase("waiting")
    writer = threading.Thread(
        target=shell, args=("""UPDATE state SET value = '"done"' WHERE key = 'phase'""",)
    )
    writer.start()
    assert phase.wait(lambda now: now == "done", timeout=20) == "done"
    writer.join()


def test_reading_a_pair_asks_the_database_nothing(db: SmithersDB) -> None:
    phase, set_phase = db.state.signal("phase", "start")
    before = db.database.broker.fetches
    statements: list[str] = []
    db.database.conn.set_trace_callback(statements.append)
    assert [phase() for _ in range(3)] == ["start"] * 3
    assert phase.peek() == "start"
    assert (db.database.broker.fetches, statements) == (before, [])
    set_phase("done")
    assert phase() == "done"


def test_a_foreign_write_re_runs_one_of_a_thousand_queries(
    path: Path, recorder: Recorder[Any]
) -> None:
    # Unwatched: the test says when to look.
    with (
        create_smithers_db(path, watch=False) as db,
        closing(sqlite3.connect(path / "db.sqlite", isolation_level=None)) as foreign,
    ):
        for number in range(1_000):
            db.state.observe(f"key {number}").subscribe(recorder)
        recorder.take()

        def fetched() -> int:
            before = db.database.broker.fetches
            assert db.database.broker.check()
            return db.database.broker.fetches - before

        foreign.execute("INSERT INTO state (key, value) VALUES ('key 7', '1')")
        assert (fetched(), recorder.take()) == (1, [1])
        foreign.execute("UPDATE state SET key = 'key 8'")
        assert (fetched(), {*recorder.take()}) == (2, {None, 1}), "the old key, and the new one"
        db.state.set("key 9", 1)
        foreign.execute("REPLACE INTO state (key, value) VALUES ('key 9', '2')")
        assert (fetched(), recorder.take()) == (1, [1, 2])
        foreign.execute("DELETE FROM state WHERE key = 'key 8'")
        assert (fetched(), recorder.take()) == (1, [None])
        foreign.execute("INSERT INTO state (key, value) VALUES ('unobserved', '1')")
        assert (fetched(), recorder.take()) == (0, [])
