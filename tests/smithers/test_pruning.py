"""Removing what is old: exactly what a dry run says, and nothing that is still needed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactive_sqlite import sqlite3
from smithers import (
    ExecutionBusy,
    ReadOnly,
    SmithersDB,
    TransitionNotFound,
    create_async_smithers_db,
    create_smithers_db,
)
from smithers.storage import pruning
from smithers.workspace import WorkflowDatabase
from tests.recorder import Recorder

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


class Calendar:
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime = START) -> None:
        self.now = start

    def __call__(self) -> datetime:
        return self.now

    def wait(self, days: float = 1) -> None:
        self.now += days * DAY


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


def run(db: SmithersDB, name: str, calendar: Calendar, *, end: bool = True) -> str:
    """A day's execution with something of everything below it."""
    id = db.execution.start(name)
    with db.phases.open("implement"):
        with db.steps.open("write"), db.agents.open("Write") as agent:
            db.tools.complete(db.tools.start(agent, "Edit", {}), "done")
        db.state.set("phase", name)
    db.vcs.log_commit(hash=name, message=name)
    calendar.wait()
    if end:
        db.execution.complete(id)
    return id


def size(path: Path) -> int:
    return sum((path / f"db.sqlite{ending}").stat().st_size for ending in ("", "-wal"))


def states(db: SmithersDB) -> dict[str, dict[str, Any]]:
    """The whole state at each transition that history has."""
    return {t.id: db.state.state_at(t.id) for t in db.state.history(limit=None)}


def pruned(db: SmithersDB, **arguments: Any) -> dict[str, int]:
    """Prune, and see that it does what the dry run says, all of it, and that no more is lost."""
    before, kept, current = db.stats(), states(db), db.state.get_all()
    foreseen = db.prune(**arguments, dry_run=True)
    assert foreseen.bytes_returned is None
    assert (db.stats(), states(db)) == (before, kept), "a dry run changes nothing"
    done = db.prune(**arguments)
    assert done.rows == foreseen.rows
    assert done.bytes_returned is not None
    after = db.stats()
    lost = {table: before[table] - after[table] for table in before}
    assert lost == {table: done.rows.get(table, 0) for table in before}
    assert db.state.get_all() == current
    found = states(db)
    assert found == {id: kept[id] for id in found}, "what kept transitions are replayed to"
    assert [one.message for one in db.check() if one.level == "error"] == []
    return done.rows


# -- by age ----------------------------------------------------------------------------------------


def test_old_executions_go_with_all_below_them(db: SmithersDB, calendar: Calendar) -> None:
    old = [run(db, name, calendar) for name in ("one", "two")]
    limit = calendar.now
    young = run(db, "three", calendar)
    rows = pruned(db, before=limit)
    assert rows["executions"] == 1, "the second ended at that time, not before it"
    assert rows["phases"] == rows["steps"] == rows["agents"] == rows["tool_calls"] == 1
    assert [one.id for one in db.execution.list()] == [young, old[1]]
    assert [one.execution_id for one in db.phases.list()] == [old[1], young]


def test_an_age_is_counted_from_now(db: SmithersDB, calendar: Calendar) -> None:
    for name in ("one", "two", "three"):
        run(db, name, calendar)
    assert pruned(db, before=1.5 * DAY)["executions"] == 1
    assert pruned(db, before=timedelta(0))["executions"] == 1, "the third ended just now"
    calendar.wait()
    assert pruned(db, before=timedelta(0))["executions"] == 1


def test_a_time_in_another_zone_is_the_same_time(db: SmithersDB, calendar: Calendar) -> None:
    run(db, "one", calendar)
    moment = calendar.now.astimezone(timezone(timedelta(hours=-9)))
    assert pruned(db, before=moment)["executions"] == 0
    assert pruned(db, before=moment + timedelta(microseconds=1))["executions"] == 1


def test_what_has_not_ended_stays_whatever_its_age(
    db: SmithersDB, calendar: Calendar, path: Path
) -> None:
    run(db, "ended", calendar)
    interrupted = run(db, "interrupted", calendar, end=False)
    cut_off = run(db, "cut off", calendar, end=False)
    db.query(
        "UPDATE executions SET status = 'interrupted' WHERE id = $1", [interrupted], write=True
    )
    db.close()
    with opened(path, calendar) as later:
        live = run(later, "live", calendar, end=False)
        calendar.wait(1000)
        assert pruned(later, before=DAY)["executions"] == 1
        assert {one.id for one in later.execution.list()} == {interrupted, cut_off, live}
        assert len(later.tools.list(later.agents.list(live)[0].id)) == 1


def test_an_ended_execution_below_which_something_runs_stays(
    db: SmithersDB, calendar: Calendar
) -> None:
    id = run(db, "one", calendar)
    agent = db.agents.start("Late")
    db.query("UPDATE agents SET execution_id = $1 WHERE id = $2", [id, agent], write=True)
    calendar.wait()
    assert pruned(db, before=timedelta(0))["executions"] == 0
    db.agents.complete(agent, "done")
    calendar.wait()
    assert pruned(db, before=timedelta(0))["agents"] == 2


def test_agents_of_no_execution_go_by_their_own_age(db: SmithersDB, calendar: Calendar) -> None:
    ended = db.agents.start("Done")
    db.tools.complete(db.tools.start(ended, "Read", {}), "text")
    db.agents.complete(ended, "done")
    running = db.agents.start("Running")
    waiting = db.agents.start("Ended, but for a tool")
    db.tools.start(waiting, "Read", {})
    db.query(
        "UPDATE agents SET status = 'failed', completed_at = started_at WHERE id = $1",
        [waiting],
        write=True,
    )
    calendar.wait()
    rows = pruned(db, before=timedelta(0))
    assert (rows["agents"], rows["tool_calls"]) == (1, 1)
    assert [one.id for one in db.agents.list()] == [running, waiting]
    assert pruned(db, keep_executions=0)["agents"] == 0, "they are no executions to be counted"


def test_commits_snapshots_and_reviews_stay_without_their_execution(
    db: SmithersDB, calendar: Calendar
) -> None:
    run(db, "one", calendar)
    calendar.wait()
    pruned(db, before=timedelta(0))
    assert [(one.hash, one.execution_id) for one in db.vcs.commits()] == [("one", None)]


def test_memories_that_expired_before_it_go_and_no_others(
    db: SmithersDB, calendar: Calendar
) -> None:
    for key, moment in (
        ("expired", "2026-01-02T00:00:00.000000Z"),
        ("just expired", "2026-01-04T00:00:00.000000Z"),
        ("to expire", "2026-01-10T00:00:00.000000Z"),
        ("to expire, written by others", "2026-01-05 00:00:01"),
        ("to expire, far in the west", "2026-01-04T20:00:00-09:00"),
    ):
        db.query(
            "INSERT INTO memories (category, key, content, expires_at)"
            " VALUES ('fact', $1, 'x', $2)",
            [key, moment],
            write=True,
        )
    db.query("INSERT INTO memories (category, key, content) VALUES ('fact', 'a', 'b')", write=True)
    calendar.wait(4)
    assert pruned(db, before=2 * DAY)["memories"] == 1
    assert pruned(db, before=START + 100 * DAY)["memories"] == 1, "not what is yet to expire"
    left = db.query("SELECT key FROM memories ORDER BY key")
    assert [row["key"] for row in left] == [
        "a",
        "to expire",
        "to expire, far in the west",
        "to expire, written by others",
    ]


# -- by count --------------------------------------------------------------------------------------


def test_the_newest_ended_executions_are_kept(db: SmithersDB, calendar: Calendar) -> None:
    ids = [run(db, str(n), calendar) for n in range(5)]
    running = run(db, "running", calendar, end=False)
    assert pruned(db, keep_executions=2)["executions"] == 3
    assert [one.id for one in db.execution.list()] == [running, ids[4], ids[3]]
    assert len(db.state.history()) == 6, "the history of the state goes by age alone"
    assert pruned(db, keep_executions=2)["executions"] == 0
    assert pruned(db, keep_executions=0)["executions"] == 2


def test_with_age_and_count_both_have_to_say_so(db: SmithersDB, calendar: Calendar) -> None:
    for n in range(4):
        run(db, str(n), calendar)
    assert pruned(db, before=10 * DAY, keep_executions=0)["executions"] == 0
    assert pruned(db, before=timedelta(hours=1), keep_executions=2)["executions"] == 2
    assert pruned(db, before=timedelta(hours=1), keep_executions=2)["executions"] == 0


# -- the history of the state ----------------------------------------------------------------------


def test_history_is_cut_between_two_commits(db: SmithersDB, calendar: Calendar) -> None:
    db.state.set("a", 1)
    calendar.wait()
    with db.transaction():
        db.state.set("a", 2)
        calendar.wait()
        db.state.set("b", 2)
    db.state.delete("a")
    assert pruned(db, before=START + 1.5 * DAY)["transitions"] == 1, (
        "the first half of a commit whose second half is younger stays"
    )
    assert [t.id for t in db.state.history()] == ["t2", "t3", "t4"]
    assert db.state.state_at("t2") == {"a": 2, "b": 2}
    with pytest.raises(TransitionNotFound):
        db.state.state_at("t1")


def test_a_clock_that_went_back_loses_nothing_young(db: SmithersDB, calendar: Calendar) -> None:
    calendar.wait(10)
    db.state.set("a", 1)
    calendar.now = START
    db.state.set("a", 2)
    assert pruned(db, before=START + DAY)["transitions"] == 0, "an older one stands before it"


def test_kept_transitions_are_replayed_over_what_was_pruned(
    db: SmithersDB, calendar: Calendar
) -> None:
    db.state.set_many({"stays": 1, "changes": 1, "goes": 1, "gone before": 1})
    db.state.delete("gone before")
    calendar.wait()
    db.state.set("changes", 2)
    db.state.delete("goes")
    now = db.state.get_all()
    assert pruned(db, before=START + DAY)["transitions"] == 5
    first = db.state.history()[0]
    assert (first.key, first.previous_value) == ("changes", 1)
    assert db.state.state_at(first.id) == {"stays": 1, "changes": 2, "goes": 1}
    db.state.replay_to(first.id)
    assert db.state.get("goes") == 1
    db.state.restore(now)
    calendar.wait()
    assert pruned(db, before=timedelta(0))["transitions"] == 4
    assert db.state.history() == []
    assert db.state.set("stays", 3).id == "t10", "no number is given twice"
    assert db.state.state_at("t10") == {"stays": 3, "changes": 2}


def test_foreign_writes_find_the_previous_value_that_was_pruned(
    db: SmithersDB, calendar: Calendar, path: Path
) -> None:
    db.state.set_many({"a": 1, "b": 2, "c": 3, "d": 4})
    calendar.wait()
    pruned(db, before=timedelta(0))
    with closing(sqlite3.connect(path / "db.sqlite", isolation_level=None)) as foreign:
        foreign.execute("REPLACE INTO state (key, value) VALUES ('a', '10')")
        foreign.execute("UPDATE state SET value = '20' WHERE key = 'b'")
        foreign.execute("DELETE FROM state WHERE key = 'c'")
        foreign.execute("UPDATE state SET key = 'e' WHERE key = 'd'")
        foreign.execute("INSERT INTO state (key, value) VALUES ('c', '30')")
    assert [(t.key, t.previous_value, t.value) for t in db.state.history()] == [
        ("a", 1, 10),
        ("b", 2, 20),
        ("c", 3, None),
        ("d", 4, None),
        ("e", None, 4),
        ("c", None, 30),
    ]
    assert db.state.state_at("t5") == {"a": 1, "b": 2, "c": 3, "d": 4} | {"a": 10}


KEYS = st.sampled_from("abc")
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 3)),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("foreign"), KEYS, st.integers(0, 3)),
        st.tuples(st.just("together"), st.lists(KEYS, min_size=1, max_size=3)),
        st.tuples(st.just("replay"), st.integers(0, 30)),
        st.tuples(st.just("wait")),
        st.tuples(st.just("prune"), st.integers(0, 3)),
        st.tuples(st.just("run"), st.booleans()),
    ),
    max_size=30,
)


HISTORIES = given(changes=CHANGES, batch=st.integers(1, 4), year=st.sampled_from([2000, 2999]))


@settings(max_examples=25)
@HISTORIES
def test_whatever_happened_pruning_does_what_the_dry_run_says_and_loses_no_state(
    changes: list[tuple[Any, ...]], batch: int, year: int
) -> None:
    prune_whatever_happened(changes, batch, year)


@pytest.mark.soak
@pytest.mark.timeout(300)
@settings(max_examples=400)
@HISTORIES
def test_whatever_happened_at_length_pruning_loses_no_state(
    changes: list[tuple[Any, ...]], batch: int, year: int
) -> None:
    prune_whatever_happened(changes, batch, year)


def prune_whatever_happened(changes: list[tuple[Any, ...]], batch: int, year: int) -> None:
    calendar = Calendar(datetime(year, 1, 1, tzinfo=UTC))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pruning, "_BATCH", batch)
        patched.setattr(pruning, "_PAUSE", 0.0)
        with create_smithers_db(":memory:") as made, _with_clock(made, calendar) as db:
            for change in changes:
                _make(db, calendar, change)
            calendar.wait(0.5)
            pruned(db, before=2 * DAY)


def _with_clock(db: SmithersDB, calendar: Calendar) -> SmithersDB:
    return SmithersDB(db.database, clock=calendar)


def _make(db: SmithersDB, calendar: Calendar, change: tuple[Any, ...]) -> None:
    match change:
        case ("set", key, value):
            db.state.set(key, value)
        case ("delete", key):
            db.state.delete(key)
        case ("foreign", key, value):
            # With the time of SQLite's own clock, far from that of the calendar.
            db.query(
                "REPLACE INTO state (key, value) VALUES ($1, $2)", [key, str(value)], write=True
            )
        case ("together", keys):
            with db.transaction():
                for key in keys:
                    db.state.set(key, "together")
                    calendar.wait(0.3)
        case ("replay", int(number)):
            history = db.state.history(limit=None)
            if history:
                db.state.replay_to(history[number % len(history)].id)
        case ("wait",):
            calendar.wait()
        case ("prune", days):
            pruned(db, before=days * DAY)
        case ("run", end):
            id = db.execution.start("run")
            with db.phases.open("phase"), db.agents.open("prompt"):
                db.state.set("a", "run")
            if end:
                db.execution.complete(id)
        case _:
            raise AssertionError(change)


# -- how it is done --------------------------------------------------------------------------------


PRUNER = """
import os, signal, sys
from datetime import timedelta
from smithers import create_smithers_db
from smithers.storage import pruning
pruning._BATCH = 3
left = int(sys.argv[2])
class Pauses:
    @staticmethod
    def sleep(seconds):
        global left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
pruning.time = Pauses
create_smithers_db(sys.argv[1]).prune(before=timedelta(0))
"""


@pytest.mark.parametrize("pauses", [1, 2, 4, 7])
def test_a_prune_that_is_killed_leaves_a_database_that_is_right(
    db: SmithersDB, calendar: Calendar, path: Path, pauses: int
) -> None:
    for n in range(6):
        run(db, str(n), calendar)
        db.state.set(f"key {n}", n)
    kept, current = states(db), db.state.get_all()
    command = [sys.executable, "-c", PRUNER, str(path), str(pauses)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == -signal.SIGKILL, done.stderr
    found = states(db)
    assert found == {id: kept[id] for id in found}
    assert db.state.get_all() == current
    assert [one.message for one in db.check() if one.level == "error"] == []
    left = {one.id for one in db.execution.list(limit=None)}
    assert len(left) < 6
    assert {one.execution_id for one in db.phases.list()} == left, "whole executions went"
    calendar.now = datetime.now(UTC)
    pruned(db, before=timedelta(0))
    assert (db.execution.list(), db.state.history()) == ([], [])


def test_the_space_is_given_back_and_observers_live_on(
    db: SmithersDB, calendar: Calendar, path: Path
) -> None:
    for _ in range(20):
        id = db.execution.start("large")
        with db.agents.open("Read") as agent:
            db.tools.complete(db.tools.start(agent, "Read", {}), "x" * 200_000)
        calendar.wait()
        db.execution.complete(id)
    db.state.set("n", 0)
    here, there = Recorder[Any](), Recorder[Any]()
    with create_smithers_db(path) as other:
        db.state.observe("n").subscribe(here)
        watched = other.state.observe("n")
        watched.subscribe(there)
        large = size(path)
        done = db.prune(keep_executions=1)
        assert done.bytes_returned is not None and done.bytes_returned > 3_000_000
        assert large - size(path) == done.bytes_returned
        assert here.values == there.values == [0], "nothing of what they see has changed"
        db.state.set("n", 1)
        there.wait_for((1).__eq__, timeout=20)
        other.state.set("n", 2)
        here.wait_for((2).__eq__, timeout=20)
        assert db.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
    assert (here.last, there.last) == (2, 2)


def test_where_another_program_reads_the_space_is_kept_for_later(
    db: SmithersDB, calendar: Calendar, path: Path
) -> None:
    id = db.execution.start("large")
    with db.agents.open("Read") as agent:
        db.tools.complete(db.tools.start(agent, "Read", {}), "x" * 2_000_000)
    calendar.wait()
    db.execution.complete(id)
    with closing(sqlite3.connect(path / "db.sqlite", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM state").fetchone()
        assert db.prune(keep_executions=0).rows["tool_calls"] == 1
        reader.execute("COMMIT")
    db.query("PRAGMA wal_checkpoint(TRUNCATE)", write=True)
    assert (path / "db.sqlite").stat().st_size < 1_000_000


def test_others_write_while_it_goes_on(
    db: SmithersDB, calendar: Calendar, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(6):
        run(db, str(n), calendar)
    monkeypatch.setattr(pruning, "_BATCH", 1)
    begun, written = threading.Event(), Recorder[str]()
    told = db.execution.observe()
    told.subscribe(lambda executions: begun.set() if len(executions) < 6 else None)

    def write() -> None:
        assert begun.wait(20)
        with create_smithers_db(path) as other:
            written(other.state.set("meanwhile", 1).id)

    thread = threading.Thread(target=write)
    thread.start()
    done = db.prune(before=timedelta(0), keep_executions=0)
    thread.join(20)
    assert done.rows["executions"] == 5
    assert len(written.values) == 1
    assert db.state.get("meanwhile") == 1


def test_followers_of_transitions_miss_none_and_hear_none_twice(
    db: SmithersDB, calendar: Calendar, elsewhere: SmithersDB
) -> None:
    here, there = Recorder[str](), Recorder[str]()
    db.state.transitions().subscribe(lambda t: here(t.id))
    elsewhere.state.transitions().subscribe(lambda t: there(t.id))
    everything = Recorder[Any]()
    watched = elsewhere.state.observe_all()
    watched.subscribe(everything)
    for n in range(3):
        db.state.set("n", n)
        calendar.wait()
        assert db.prune(before=timedelta(0)).rows["transitions"] == 1
        watched.wait({"n": n}.__eq__, timeout=20)
    elsewhere.state.set("n", 3)
    here.wait_for("t4".__eq__, timeout=20)
    assert here.values == ["t1", "t2", "t3", "t4"]
    there.wait_for("t4".__eq__, timeout=20)
    assert len(set(there.values)) == len(there.values), (
        "from another process those that were pruned before they were read are gone"
    )


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, ValueError),
        ({"dry_run": True}, ValueError),
        ({"before": datetime(2026, 1, 1)}, ValueError),
        ({"before": timedelta(days=-1)}, ValueError),
        ({"before": timedelta.max}, ValueError),
        ({"before": datetime.min.replace(tzinfo=timezone(timedelta(hours=9)))}, ValueError),
        ({"before": "30d"}, TypeError),
        ({"before": 30}, TypeError),
        ({"before": True}, TypeError),
        ({"keep_executions": -1}, ValueError),
        ({"keep_executions": 2**63}, ValueError),
        ({"keep_executions": True}, TypeError),
        ({"keep_executions": "3"}, TypeError),
        ({"keep_executions": 1.0}, TypeError),
        ({"before": timedelta(0), "keep_executions": -1}, ValueError),
    ],
)
def test_arguments_that_make_no_sense_remove_nothing(
    db: SmithersDB, calendar: Calendar, arguments: dict[str, Any], error: type[Exception]
) -> None:
    run(db, "one", calendar)
    calendar.wait(1000)
    before = db.stats()
    with pytest.raises(error):
        db.prune(**arguments)
    assert db.stats() == before


def test_reading_only_there_is_a_dry_run_and_nothing_else(
    db: SmithersDB, calendar: Calendar, path: Path
) -> None:
    run(db, "one", calendar)
    with create_smithers_db(path, read_only=True) as reader:
        assert reader.prune(before=timedelta(0), dry_run=True).rows["executions"] == 1
        with pytest.raises(ReadOnly, match="prune"):
            reader.prune(before=timedelta(0))
    assert len(db.execution.list()) == 1


async def test_prune_is_awaited(path: Path) -> None:
    async with create_async_smithers_db(path) as db:
        id = await db.execution.start("one")
        await db.state.set("a", 1)
        await db.execution.complete(id)
        foreseen = await db.prune(before=timedelta(0), dry_run=True)
        done = await db.prune(before=timedelta(0))
        assert done.rows == foreseen.rows
        assert (done.rows["executions"], done.rows["transitions"]) == (1, 1)
        assert await db.state.get_all() == {"a": 1}
        with pytest.raises(ValueError, match="say what to prune"):
            await db.prune()


# -- starting afresh -------------------------------------------------------------------------------


def test_reset_removes_all_rows_of_ours_and_no_others(
    db: SmithersDB, calendar: Calendar, path: Path
) -> None:
    run(db, "one", calendar)
    run(db, "cut off", calendar, end=False)
    calendar.wait()
    db.prune(before=DAY)
    db.state.set("phase", "again")
    db.database["notes"].insert({"id": 1, "text": "mine"}, pk="id")
    last = db.state.history()[-1]
    db.close()
    with create_smithers_db(path, reset=True) as fresh:
        assert {table for table, rows in fresh.stats().items() if rows} == {"notes"}
        assert fresh.state.get_all() == {}
        assert fresh.execution.find_incomplete() is None
        written = fresh.state.set("phase", "new")
        assert (written.seq, written.previous_value) == (last.seq + 1, None)
        assert fresh.state.state_at(written.id) == {"phase": "new"}
        fresh.query("DELETE FROM state", write=True)
        assert fresh.state.history()[-1].deleted, "the triggers record again"
        assert [one.message for one in fresh.check() if one.level == "error"] == []


def test_reset_is_refused_while_a_live_owner_runs(db: SmithersDB, path: Path) -> None:
    id = db.execution.start("At work")
    db.state.set("phase", "start")
    before = db.stats()
    with pytest.raises(ExecutionBusy) as caught:
        create_smithers_db(path, reset=True)
    assert caught.value.id == id
    assert db.stats() == before
    db.execution.complete(id)
    create_smithers_db(path, reset=True).close()
    assert db.state.get_all() == {}


def test_reset_is_one_commit_for_observers(db: SmithersDB, path: Path) -> None:
    db.state.set_many({"a": 1, "b": 2})
    told = Recorder[Any]()
    watched = db.state.observe_all()
    watched.subscribe(told)
    create_smithers_db(path, reset=True).close()
    watched.wait(lambda state: state == {}, timeout=20)
    assert told.values == [{"a": 1, "b": 2}, {}]


def test_reset_of_what_is_not_there_makes_it(tmp_path: Path) -> None:
    with create_smithers_db(tmp_path / "new", reset=True) as db:
        assert db.state.set("a", 1).id == "t1"


def test_reset_and_reading_only_exclude_each_other(db: SmithersDB, path: Path) -> None:
    db.state.set("a", 1)
    with pytest.raises(ReadOnly, match="reset"):
        create_smithers_db(path, reset=True, read_only=True)
    assert db.state.get_all() == {"a": 1}


async def test_the_asynchronous_database_is_reset_too(path: Path) -> None:
    async with create_async_smithers_db(path) as db:
        await db.state.set("a", 1)
    async with create_async_smithers_db(path, reset=True) as db:
        assert await db.state.get_all() == {}
