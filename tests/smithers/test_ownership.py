"""Leases: who owns an execution, among threads, handles, processes and machines."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import DatabaseClosed, sqlite3
from smithers import (
    ExecutionBusy,
    InvalidStatus,
    OwnershipLost,
    SmithersDB,
    SmithersError,
    create_async_smithers_db,
    create_smithers_db,
    ownership,
)
from smithers.ownership import Fence, Ownership
from smithers.process import since_boot
from tests.forgotten import forgets
from tests.recorder import Recorder
from tests.smithers.remote import Remote, remote, until

LEASES = "SELECT * FROM _smithers_leases"
TAKE_OVER = "UPDATE _smithers_leases SET token = 'of another run' WHERE execution_id = ?"


@pytest.fixture
def other(db: SmithersDB, path: Path) -> Iterator[Remote]:
    """The same database in another process."""
    with remote(path) as opened:
        yield opened


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heart that beats fifty times a second."""
    monkeypatch.setattr(ownership, "HEARTBEAT", 0.02)
    monkeypatch.setattr(ownership, "RETRY", 0.02)


@pytest.fixture
def elapse(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let seconds pass on the clock of the leases."""
    passed = [0.0]
    real = since_boot
    monkeypatch.setattr(ownership, "since_boot", lambda: real() + passed[0])

    def elapse(seconds: float) -> None:
        passed[0] += seconds

    return elapse


def whole(db: SmithersDB, *, leases: bool = True) -> dict[str, Any]:
    """Everything that stands in the file."""
    tables = db.query("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    names = [row["name"] for row in tables if leases or row["name"] != "_smithers_leases"]
    return {name: db.query(f'SELECT * FROM "{name}"') for name in names}


def beat(db: SmithersDB, id: str) -> int:
    (row,) = db.query("SELECT beat FROM _smithers_leases WHERE execution_id = ?", [id])
    count: int = row["beat"]
    return count


def hearts() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "smithers-heartbeat"}


def run(program: str, *args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, args)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )


# -- races and takeovers ---------------------------------------------------------------------------


def test_of_two_processes_that_race_for_an_execution_exactly_one_wins(
    db: SmithersDB, other: Remote, path: Path
) -> None:
    with remote(path) as third:
        racers = [other, third]
        for n in range(50):
            id = db.execution.start(f"round {n}")
            db.execution.let_go()
            takes = [f"db.execution.resume({id!r}).status"] * 2
            if n % 2:
                takes = [
                    "(lambda found: found and db.execution.resume(found.id).status)"
                    "(db.execution.find_incomplete())"
                ] * 2
            for racer, take in zip(racers, takes, strict=True):
                racer.tell(take)
            answers = [racer.answer() for racer in racers]
            assert answers.count("running") == 1, f"round {n}: {answers}"
            winner = racers[answers.index("running")]
            (lost,) = [answer for answer in answers if answer != "running"]
            # Whoever looked only after the other had taken it found nothing to resume.
            assert lost == "ExecutionBusy" or (n % 2 and lost == "None"), f"round {n}: {answers}"
            found = db.execution.get(id)
            assert found is not None and found.is_live
            assert found.owner is not None and found.owner.endswith(f":{winner.process.pid}")
            assert winner(f"db.execution.complete({id!r})") == "None"


LATE = (
    "db.state.set('phase', 'late')",
    "db.state.set_many({'phase': 'late', 'other': 1})",
    "db.state.update('phase', lambda value: 'late')",
    "db.state.delete('phase')",
    "db.state.replay_to('t1')",
    "db.state.reset()",
    "db.state.restore({})",
    "db.state.signal('phase')[1]('late')",
    "db.phases.start('late')",
    "db.phases.start('late', execution_id=kept['execution'])",
    "db.phases.complete(kept['phase'])",
    "db.phases.fail(kept['phase'], 'late')",
    "db.steps.start('late')",
    "db.steps.skip(kept['step'])",
    "db.agents.start('late')",
    "db.agents.complete(kept['agent'], 'late')",
    "db.tools.start(kept['agent'], 'Bash', {})",
    "db.tools.complete(kept['tool'], 'late')",
    "db.vcs.log_commit(hash='abc', message='late')",
    "db.vcs.log_snapshot(snapshot_id='late')",
    "db.vcs.log_review(review_id='late', target='x', approved=True, summary='late')",
    "db.query(\"INSERT INTO own VALUES ('late')\", write=True)",
    "db.query(\"UPDATE state SET value = '1'\", write=True)",
    "db.query('CREATE TABLE late (x)', write=True)",
    "db.query('PRAGMA user_version = 7', write=True)",
    "db.execution.complete(kept['execution'])",
    "db.execution.fail(kept['execution'], 'late')",
)


def test_an_owner_that_was_stopped_past_its_lease_writes_nothing_any_more(
    db: SmithersDB, other: Remote
) -> None:
    db.query("CREATE TABLE own (x)", write=True)
    other("setattr(leases, 'HEARTBEAT', 0.05)")
    id = other("kept.setdefault('execution', db.execution.start('stopped'))")
    other("kept.setdefault('phase', db.phases.start('p'))")
    other("kept.setdefault('step', db.steps.start('s'))")
    other("kept.setdefault('agent', db.agents.start('a'))")
    other("kept.setdefault('tool', db.tools.start(kept['agent'], 'Read', {}))")
    other("db.state.set_many({'phase': 'first'})")
    other("db.state.set_many({'phase': 'before'})")
    with pytest.raises(ExecutionBusy):
        db.execution.resume(id)
    other("setattr(leases, 'LEASE', 0.3)")
    beats = beat(db, id)
    until(lambda: beat(db, id) > beats + 1)  # the one under way may still be a long one
    other.stop()
    until(lambda: db.execution.find_incomplete() is not None)
    assert db.execution.resume(id).is_live
    before = whole(db)
    other.go_on()
    for late in LATE:
        assert other(late) == "OwnershipLost", late
        assert other(f"inside(lambda: {late})") == "OwnershipLost", late
    assert other("inside(lambda: None)") == "OwnershipLost", "its heartbeats bring nothing back"
    assert whole(db) == before
    assert other("db.close()") == "None"
    assert whole(db) == before, "its end gives back nothing that it has lost"
    with db.phases.open("goes on"):
        db.state.set("phase", "mine")
    db.execution.complete(id)


def test_a_transaction_that_holds_the_lock_is_not_taken_from_its_owner(
    db: SmithersDB, other: Remote
) -> None:
    for name, seconds in (("LEASE", 0.3), ("HEARTBEAT", 0.05), ("RETRY", 0.05)):
        other(f"setattr(leases, {name!r}, {seconds})")
    id = other("db.execution.start('long')")
    other("kept.setdefault('open', db.transaction())")
    other("kept['open'].__enter__()")
    other("db.state.set('a', 1)")
    other.stop()
    until(lambda: not (found := db.execution.get(id)) or not found.is_live)
    with create_smithers_db(db.path or "", busy_timeout=0.05) as third:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            third.execution.resume(id)
        other.go_on()
        other("setattr(leases, 'LEASE', 30.0)")
        assert other("kept['open'].__exit__(None, None, None)") in ("None", "False")
        assert db.state.get("a") == 1
        with pytest.raises(ExecutionBusy):
            third.execution.resume(id)


def test_whoever_lost_an_execution_can_end_its_transaction_and_own_another(
    db: SmithersDB, foreign: sqlite3.Connection
) -> None:
    id = db.execution.start("lost")
    foreign.execute(TAKE_OVER, (id,))
    with pytest.raises(OwnershipLost):
        db.state.set("a", 1)
    db.database.conn.execute("BEGIN")
    db.query("ROLLBACK", write=True)
    with pytest.raises(OwnershipLost):
        db.query("VACUUM", write=True)
    db.execution.start("another")
    db.state.set("a", 2)
    db.query("VACUUM", write=True)
    assert [t.value for t in db.state.history()] == [2]


def test_a_query_that_writes_below_an_owned_execution_gives_its_rows(db: SmithersDB) -> None:
    db.execution.start("owned")
    db.query("CREATE TABLE own (x)", write=True)
    assert db.query("INSERT INTO own VALUES ($1) RETURNING x", [5], write=True) == [{"x": 5}]
    assert db.query("PRAGMA user_version = 3", write=True) == []
    db.query("VACUUM", write=True)
    with pytest.raises(sqlite3.OperationalError):
        db.query("INSERT INTO nowhere VALUES (1)", write=True)
    assert not db.database.conn.in_transaction


async def test_late_writes_are_refused_on_an_event_loop_as_well(path: Path) -> None:
    async with create_async_smithers_db(path) as db:
        id = await db.execution.start("lost")
        phase = await db.phases.start("p")
        connection = sqlite3.connect(path / "db.sqlite", isolation_level=None)
        connection.execute(TAKE_OVER, (id,))
        connection.close()
        before = await db.stats()
        for late in (
            lambda: db.state.set("a", 1),
            lambda: db.phases.complete(phase),
            lambda: db.phases.start("late"),
            lambda: db.query("DELETE FROM phases", write=True),
            lambda: db.transact(lambda sync: None),
            lambda: db.execution.complete(id),
        ):
            with pytest.raises(OwnershipLost):
                await late()
        assert await db.stats() == before
        assert (await asyncio.create_task(db.execution.get(id))) is not None


# -- heartbeats ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("fast")
def test_heartbeats_are_no_change_and_cause_no_fetch(db: SmithersDB) -> None:
    id = db.execution.start("beating")
    seen: Recorder[Any] = Recorder()
    db.execution.observe().subscribe(seen)
    db.execution.observe(id).subscribe(seen)
    db.phases.observe().subscribe(seen)
    db.state.observe_all().subscribe(seen)
    db.observe("SELECT status FROM executions").subscribe(seen)
    seen.take()
    fetches = db.database.broker.fetches
    beats = beat(db, id)
    until(lambda: beat(db, id) > beats + 5)
    assert db.database.broker.fetches == fetches
    assert seen.values == []
    db.execution.complete(id)
    assert len(seen.values) == 3, "of what has changed all are told"


@pytest.mark.usefixtures("fast")
def test_the_heart_stops_with_the_handle(path: Path) -> None:
    before = hearts()
    with create_smithers_db(path) as db:
        db.execution.start("beating")
        (heart,) = hearts() - before
        assert heart.daemon
        db.execution.start("another")
        assert hearts() - before == {heart}, "one for all"
    heart.join(timeout=5)
    assert not heart.is_alive()


@forgets
def test_the_heart_stops_at_once_when_the_handle_is_collected(path: Path) -> None:
    before = hearts()
    db = create_smithers_db(path)
    db.execution.start("forgotten")
    (heart,) = hearts() - before
    del db
    gc.collect()
    heart.join(timeout=5)
    assert not heart.is_alive(), "long before its next beat"


def test_a_heart_keeps_no_interpreter_alive(path: Path) -> None:
    program = """
import sys
from smithers import create_smithers_db
db = create_smithers_db(sys.argv[1])
db.execution.start("forgotten")
"""
    done = run(program, path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with create_smithers_db(path) as db:
        found = db.execution.find_incomplete()
        assert found is not None and not found.is_live


@pytest.mark.usefixtures("fast")
def test_a_heart_goes_on_after_what_it_could_not_write(path: Path) -> None:
    with (
        create_smithers_db(path, busy_timeout=0.3) as db,
        create_smithers_db(path, watch=False) as beside,
    ):
        id = db.execution.start("beating")
        refused = threading.Event()
        renew = db.execution._ownership.beat  # pyright: ignore[reportPrivateUsage]

        def beat_and_tell() -> None:
            try:
                renew()
            except sqlite3.OperationalError:
                refused.set()
                raise

        db.execution._ownership.beat = beat_and_tell  # type: ignore[method-assign]  # pyright: ignore
        connection = sqlite3.connect(path / "db.sqlite", isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        assert refused.wait(10), "another program holds the lock"
        connection.execute("ROLLBACK")
        connection.close()
        beats = beat(beside, id)
        until(lambda: beat(beside, id) > beats)
        refused.clear()
        with db.database.transaction():
            assert refused.wait(10), "a thread of ours is inside a transaction"
        beats = beat(beside, id)
        until(lambda: beat(beside, id) > beats)


def test_a_transaction_longer_than_the_lease_renews_it_in_its_own_commit(
    db: SmithersDB, elsewhere: SmithersDB, elapse: Callable[[float], None]
) -> None:
    id = db.execution.start("long")
    with db.transaction():
        db.state.set("a", 1)
    assert beat(db, id) == 0, "what is short writes no lease"
    with db.transaction():
        elapse(ownership.LEASE + 1)
        db.state.set("a", 2)
        found = elsewhere.execution.find_incomplete()
        assert found is not None, "it has expired, and only the lock keeps others out"
    assert beat(db, id) == 1
    assert elsewhere.execution.find_incomplete() is None
    with pytest.raises(ExecutionBusy):
        elsewhere.execution.resume(id)


def test_a_renewal_brings_back_nothing_that_was_taken_over(
    db: SmithersDB, foreign: sqlite3.Connection, elapse: Callable[[float], None]
) -> None:
    id = db.execution.start("lost")
    foreign.execute(TAKE_OVER, (id,))
    before = foreign.execute(LEASES).fetchall()
    elapse(ownership.LEASE + 1)
    with db.database.transaction():
        pass
    db.execution._ownership.beat()  # pyright: ignore[reportPrivateUsage]
    assert foreign.execute(LEASES).fetchall() == before


# -- dead owners -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reaped", [True, False], ids=["gone", "zombie"])
def test_a_killed_owner_is_dead_at_once(db: SmithersDB, other: Remote, reaped: bool) -> None:
    id = other("db.execution.start('killed')")
    found = db.execution.current()
    assert found is not None and (found.id, found.is_live) == (id, True)
    assert db.execution.find_incomplete() is None
    other.kill(reaped=reaped)
    found = db.execution.current()
    assert found is not None and (found.id, found.is_live) == (id, False)
    listed = db.execution.list("running")
    assert [one.is_live for one in listed] == [False]
    seen: Recorder[Any] = Recorder()
    db.execution.observe(id).subscribe(seen)
    assert not seen.last.is_live
    incomplete = db.execution.find_incomplete()
    assert incomplete is not None and incomplete.id == id
    assert db.execution.resume(id).is_live


def test_a_later_process_with_the_number_of_the_owner_is_another_one(
    db: SmithersDB, other: Remote, foreign: sqlite3.Connection
) -> None:
    id = other("db.execution.start('reused')")
    foreign.execute("UPDATE _smithers_leases SET process_start = '1'")
    assert db.execution.resume(id).is_live


@pytest.mark.parametrize("hours", [1, -24], ids=["forward", "back"])
def test_no_setting_of_a_clock_takes_a_lease_from_a_live_owner(
    db: SmithersDB, other: Remote, hours: int
) -> None:
    id = db.execution.start("mine")
    other(f"setattr(Clock, 'ahead', timedelta(hours={hours}))")
    assert other("db.execution.find_incomplete()") == "None"
    assert other("db.execution.current().is_live") == "True"
    assert other(f"db.execution.resume({id!r})") == "ExecutionBusy"
    theirs = other("db.execution.start('theirs')")
    with pytest.raises(ExecutionBusy):
        db.execution.resume(theirs)
    found = db.execution.find_incomplete()
    assert found is not None and found.id == id, "the newer one is held by another live run"
    other(f"db.execution.complete({theirs!r})")
    ended = db.execution.get(theirs)
    assert ended is not None and ended.duration_ms is not None and ended.duration_ms < 60_000


def test_an_owner_from_before_the_restart_of_the_machine_is_dead(
    db: SmithersDB, elsewhere: SmithersDB, foreign: sqlite3.Connection
) -> None:
    id = db.execution.start("before")
    foreign.execute(
        "UPDATE _smithers_leases SET expires = 1e12, boot = replace(boot, ?, 'earlier')",
        (Path("/proc/sys/kernel/random/boot_id").read_text().strip(),),
    )
    found = elsewhere.execution.get(id)
    assert found is not None and not found.is_live
    assert elsewhere.execution.resume(id).is_live


def test_an_owner_on_another_machine_lives_until_its_beat_stands_still(
    db: SmithersDB,
    elsewhere: SmithersDB,
    foreign: sqlite3.Connection,
    elapse: Callable[[float], None],
) -> None:
    id = db.execution.start("far")
    # Its clock says nothing here, even where it seems to.
    foreign.execute("UPDATE _smithers_leases SET host = 'far', boot = 'far/s/c', expires = 0")

    def live() -> bool:
        found = elsewhere.execution.get(id)
        assert found is not None
        return found.is_live

    assert live()
    elapse(ownership.LEASE - 1)
    assert live()
    foreign.execute("UPDATE _smithers_leases SET beat = beat + 1")
    elapse(2)
    assert live(), "it has beaten since it was seen first"
    with pytest.raises(ExecutionBusy, match=r"far:\d+ \(on another machine: ask again after 30 s"):
        elsewhere.execution.resume(id)
    elapse(ownership.LEASE + 1)
    assert not live()
    assert elsewhere.execution.resume(id).is_live


# -- cancelling ------------------------------------------------------------------------------------


def test_a_live_owner_is_asked_to_cancel_and_has_done_so_when_it_closes(
    db: SmithersDB, other: Remote
) -> None:
    id = other("db.execution.start('long')")
    other(f"db.execution.observe({id!r}).subscribe(seen)")
    other("db.agents.start('working')")
    db.execution.cancel(id, "no longer wanted")
    asked = db.execution.get(id)
    assert asked is not None and asked.status == "running"
    assert asked.cancel_requested_at is not None
    assert other("seen.wait_for(lambda e: e.cancel_requested_at).cancel_reason") == (
        "no longer wanted"
    )
    assert other(f"db.execution.get({id!r}).cancel_reason") == "no longer wanted"
    db.execution.cancel(id, "asked again")
    assert db.execution.find_incomplete() is None
    other("db.close()")
    ended = db.execution.get(id)
    assert ended is not None and (ended.status, ended.is_live) == ("cancelled", False)
    assert ended.cancel_reason == "no longer wanted", "the first to ask has said why"
    assert [agent.status for agent in db.agents.list(id)] == ["cancelled"]
    with pytest.raises(InvalidStatus, match="cancelled"):
        db.execution.resume(id)


def test_an_owner_may_complete_what_it_was_asked_to_cancel(db: SmithersDB, other: Remote) -> None:
    id = other("db.execution.start('nearly done')")
    db.execution.cancel(id)
    assert other(f"db.execution.complete({id!r}, 'done')") == "None"
    other("db.close()")
    ended = db.execution.get(id)
    assert ended is not None and (ended.status, ended.result) == ("completed", "done")


def test_what_a_dead_owner_left_is_cancelled_at_once(db: SmithersDB, other: Remote) -> None:
    id = other("db.execution.start('killed')")
    other.kill()
    db.execution.cancel(id)
    ended = db.execution.get(id)
    assert ended is not None and ended.status == "cancelled"
    assert ended.cancel_requested_at is not None


def test_what_was_to_be_cancelled_when_its_owner_died_is_not_resumed(
    db: SmithersDB, other: Remote
) -> None:
    id = other("db.execution.start('killed')")
    db.execution.cancel(id)
    other.kill()
    assert db.execution.find_incomplete() is None
    with pytest.raises(InvalidStatus, match="to be cancelled"):
        db.execution.resume(id)
    ended = db.execution.get(id)
    assert ended is not None and ended.status == "cancelled"


# -- threads, transactions, forks ------------------------------------------------------------------


@pytest.mark.parametrize("nested", [False, True], ids=["transaction", "savepoint"])
def test_ownership_is_what_it_was_before_a_rollback(
    db: SmithersDB, foreign: sqlite3.Connection, nested: bool
) -> None:
    id = db.execution.start("kept")
    with create_smithers_db(db.path or "") as one:
        left = one.execution.start("left")
    shared = db.execution._ownership  # pyright: ignore[reportPrivateUsage]

    def undone(action: Callable[[], object]) -> None:
        leases, owned = foreign.execute(LEASES).fetchall(), shared.owned()

        def attempt() -> None:
            with pytest.raises(KeyError), db.transaction():
                action()
                raise KeyError

        if nested:
            with db.transaction():
                attempt()
        else:
            attempt()
        assert foreign.execute(LEASES).fetchall() == leases
        assert shared.owned() == owned
        current = db.execution.current()
        assert current is not None and current.id == id
        assert db.state.set("a", 1).execution_id == id, "it writes on as what it was"

    def complete_and_start() -> None:
        db.execution.complete(id)
        db.execution.start("never")

    undone(lambda: db.execution.start("never"))
    undone(lambda: db.execution.resume(left))
    undone(lambda: db.execution.complete(id))
    undone(lambda: db.execution.resume(id))
    undone(complete_and_start)
    db.execution.resume(left)
    db.execution.complete(left)
    assert shared.owned() == [id]


def test_a_lost_execution_whose_resuming_is_rolled_back_is_still_lost(
    db: SmithersDB, elsewhere: SmithersDB, elapse: Callable[[float], None]
) -> None:
    id = db.execution.start("contested")
    elapse(ownership.LEASE + 1)
    elsewhere.execution.resume(id)
    elapse(ownership.LEASE + 1)
    with pytest.raises(KeyError), db.database.transaction():
        db.execution.resume(id)
        raise KeyError
    with pytest.raises(OwnershipLost):
        db.state.set("a", 1)
    assert elsewhere.state.set("a", 2).execution_id == id
    elapse(ownership.LEASE + 1)
    db.execution.resume(id)
    assert db.state.set("a", 3).execution_id == id


def test_resuming_what_is_ours_renews_it(
    db: SmithersDB, elapse: Callable[[float], None], elsewhere: SmithersDB
) -> None:
    id = db.execution.start("mine")
    elapse(ownership.LEASE + 1)
    assert db.execution.resume(id).is_live
    with pytest.raises(ExecutionBusy):
        elsewhere.execution.resume(id)
    db.execution.complete(id)
    assert db.state.set("a", 1).execution_id is None


@pytest.mark.parametrize("committed", [True, False], ids=["ended", "start undone"])
def test_a_write_that_waited_while_another_thread_ended_the_execution_stands_below_none(
    db: SmithersDB, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    fenced = threading.Event()
    real = Ownership.fence

    def fence(self: Ownership, execution_id: str | None) -> Fence:
        values = real(self, execution_id)
        if threading.current_thread() is not threading.main_thread():
            fenced.set()
        return values

    monkeypatch.setattr(Ownership, "fence", fence)
    written: list[str | None] = []
    writer = threading.Thread(target=lambda: written.append(db.state.set("a", 1).execution_id))
    if committed:
        id = db.execution.start("ends")
        with db.transaction():
            writer.start()
            assert fenced.wait(10)
            db.execution.complete(id)
    else:
        with pytest.raises(KeyError), db.transaction():
            db.execution.start("never")
            writer.start()
            assert fenced.wait(10)
            raise KeyError
    writer.join()
    assert written == [None], "nobody has taken anything over"
    assert db.state.get("a") == 1


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork where threads run
from smithers import create_smithers_db
db = create_smithers_db(sys.argv[1])
id = db.execution.start("the parent's")
pid = os.fork()
if not pid:
    db.execution._ownership.beat()
    db.close()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
with create_smithers_db(sys.argv[1]) as other:
    print(other.query("SELECT beat FROM _smithers_leases"), other.execution.get(id).is_live)
print(db.state.set("a", 1).execution_id == id)
db.execution.complete(id)
"""


def test_a_fork_neither_renews_nor_gives_back_what_its_parent_owns(path: Path) -> None:
    done = run(FORK, path)
    assert done.stdout == "[{'beat': 0}] True\nTrue\n", done.stderr


def test_two_handles_of_one_process_are_two_runs(db: SmithersDB, elsewhere: SmithersDB) -> None:
    id = db.execution.start("mine")
    assert elsewhere.execution.find_incomplete() is None
    with pytest.raises(ExecutionBusy) as busy:
        elsewhere.execution.complete(id)
    assert busy.value.id == id
    assert busy.value.owner.endswith(f":{os.getpid()}")
    assert elsewhere.state.set("a", 1).execution_id is None
    db.close()
    assert elsewhere.execution.resume(id).status == "running"


def test_what_would_take_rows_away_is_refused_while_any_run_lives(
    db: SmithersDB, other: Remote
) -> None:
    shared = db.execution._ownership  # pyright: ignore[reportPrivateUsage]
    shared.refuse_live()
    id = other("db.execution.start('live')")
    assert shared.live_executions() == [id]
    with pytest.raises(ExecutionBusy):
        shared.refuse_live()
    other.kill()
    assert shared.live_executions() == []
    shared.refuse_live()


def test_what_is_written_while_the_handle_closes_is_told_that_it_is_closed(path: Path) -> None:
    for _ in range(8):
        db = create_smithers_db(path, watch=False)
        execution_id = db.execution.start("closing")
        began = threading.Event()
        told: list[BaseException] = []

        def write(
            db: SmithersDB = db,
            began: threading.Event = began,
            told: list[BaseException] = told,
        ) -> None:
            try:
                while True:
                    db.agents.complete(db.agents.start("wait"), "done")
                    began.set()
            except SmithersError as error:
                told.append(error)
            except DatabaseClosed:
                pass

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert began.wait(10)
        db.close()
        for thread in threads:
            thread.join(10)
        assert told == [], "nobody else has ended or taken anything"
        with create_smithers_db(path, watch=False) as again:
            again.execution.complete(execution_id)
