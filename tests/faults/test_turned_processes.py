"""Processes whose clocks differ, or are turned: who owns what, waits and is tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from smithers import ExecutionBusy, SmithersDB, create_smithers_db
from smithers.process import since_boot
from tests.faults.clock import DAY, HOUR, MINUTE, built, turn, under
from tests.smithers.commandline import Result, in_process
from tests.smithers.remote import Remote, remote, until

# How far ahead two processes are.
APART = ((-DAY, 0), (0, -DAY), (HOUR, -DAY), (0, HOUR))
# One moment after the other; the last hour is had twice.
TURNS = (*APART, (-DAY, -DAY), (HOUR, HOUR), (0, 0))
WAITING = "__import__('tests.faults.waiting', fromlist=['waiting'])"
# Of a machine whose clock says nothing here, though it is this one.
FAR = (
    "setattr(__import__('smithers.process').process, '_boot', lambda host: 'far/s/c')",
    "__import__('smithers.process').process._identity.cache_clear()",
)
Begin = Callable[[int], Remote]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("clock"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "workflow"


@pytest.fixture
def db(path: Path) -> Iterator[SmithersDB]:
    """The database in this process, whose clock is right."""
    with create_smithers_db(path) as opened:
        yield opened


@pytest.fixture
def begin(path: Path, db: SmithersDB, library: Path) -> Iterator[Begin]:
    """Begin processes whose clocks are so far ahead of that of the tests."""
    with ExitStack() as stack:
        yield lambda ahead: stack.enter_context(remote(path, under(library, ahead)))


def command(library: Path, ahead: int, path: Path, *args: str) -> Result:
    """Run `smithers db …` in a process whose clock is so far ahead."""
    return in_process("db", *args, "--path", str(path), variables=under(library, ahead))


def started(owner: Remote, name: str = "mine") -> str:
    assert owner("setattr(leases, 'HEARTBEAT', 0.05)") == "None"
    return owner(f"kept.setdefault({name!r}, db.execution.start({name!r}))")


def beat(db: SmithersDB, id: str) -> int:
    (row,) = db.query("SELECT beat FROM _smithers_leases WHERE execution_id = ?", [id])
    return int(row["beat"])


def beats(db: SmithersDB, id: str, count: int) -> bool:
    return beat(db, id) >= count


def resumed(process: Remote, id: str) -> bool:
    return process(f"db.execution.resume({id!r}).is_live") == "True"


def no_duration_is_negative(db: SmithersDB) -> None:
    for row in db.query(
        "SELECT m.name FROM sqlite_schema m, pragma_table_info(m.name) p "
        "WHERE m.type = 'table' AND p.name = 'duration_ms'"
    ):
        table = row["name"]
        odd = db.query(f"SELECT * FROM {table} WHERE duration_ms < 0")
        assert odd == [], f"{table}: {odd}"
    assert [found.message for found in db.check() if found.level == "error"] == []


# -- leases ----------------------------------------------------------------------------------------


def test_a_live_owner_in_another_process_loses_nothing_whatever_both_clocks_say(
    begin: Begin, db: SmithersDB
) -> None:
    owner, other = begin(0), begin(0)
    id = started(owner)
    for mine, its in TURNS:
        owner(turn(mine))
        other(turn(its))
        before = beat(db, id)
        until(partial(beats, db, id, before + 2))
        assert other("db.execution.find_incomplete()") == "None"
        assert other("db.execution.current().is_live") == "True"
        for method in ("resume", "complete", "interrupt"):
            assert other(f"db.execution.{method}({id!r})") == "ExecutionBusy"
        phase = owner("kept.__setitem__('phase', db.phases.start('phase')) or kept['phase']")
        assert owner("db.phases.complete(kept['phase'])") == "None"
        found = db.phases.get(phase)
        assert found is not None and found.execution_id == id
    assert owner(f"db.execution.complete({id!r})") == "None"
    no_duration_is_negative(db)


def test_a_live_execution_is_shown_as_such_and_asked_to_stop(
    begin: Begin, db: SmithersDB, path: Path, library: Path
) -> None:
    owner = begin(0)
    for mine, its in APART:
        id = started(owner, f"{mine} and {its}")
        owner(turn(mine))
        shown = command(library, its, path, "current")
        assert (shown.code, "(alive)" in shown.out, id in shown.out) == (0, True, True)
        asked = command(library, its, path, "cancel", id)
        assert (asked.code, asked.out[:6]) == (0, "asked ")
        with pytest.raises(ExecutionBusy):
            db.execution.resume(id)
        assert owner("db.phases.complete(db.phases.start('to the end'))") == "None", "its own"
        assert owner("db.close()") == "None"
        ended = db.execution.get(id)
        assert ended is not None and ended.status == "cancelled"
        assert owner(f"globals().update(db=create_smithers_db({str(path)!r}))") == "None"
    no_duration_is_negative(db)


def test_a_dead_owner_is_seen_as_dead_at_once(
    begin: Begin, db: SmithersDB, path: Path, library: Path
) -> None:
    other = begin(0)
    for mine, its in APART:
        owner = begin(mine)
        other(turn(its))
        taken, cancelled = started(owner, "taken"), started(owner, "cancelled")
        owner.kill()
        shown = command(library, its, path, "current")
        assert (shown.code, "(dead; " in shown.out) == (0, True)
        done = command(library, its, path, "cancel", cancelled)
        assert (done.code, done.out[:9]) == (0, "cancelled")
        assert other(f"db.execution.find_incomplete().id == {taken!r}") == "True"
        assert other(f"db.execution.resume({taken!r}).is_live") == "True"
        assert other(f"db.execution.complete({taken!r})") == "None"
    no_duration_is_negative(db)


@pytest.mark.parametrize("far", [False, True], ids=["here", "another machine"])
def test_an_owner_that_stands_still_is_dead_after_its_lease_and_then_writes_nothing(
    begin: Begin, db: SmithersDB, far: bool
) -> None:
    owner, other = begin(APART[0][0]), begin(APART[0][1])
    for process in (owner, other):
        process("setattr(leases, 'LEASE', 1.0)")
    for expression in FAR if far else ():
        owner(expression)
    for mine, its in APART:
        owner(turn(mine))
        other(turn(its))
        id = started(owner, f"{mine} and {its}")
        kept = started(owner, f"{mine} and {its}, kept")
        owner.stop()
        (row,) = db.query("SELECT expires FROM _smithers_leases WHERE execution_id = ?", [id])
        until(partial(resumed, other, id))
        assert since_boot() > row["expires"] - (far and 1.0), "not before its time"
        owner.go_on()
        assert owner(f"db.phases.start('late', execution_id={id!r})") == "OwnershipLost"
        assert owner(f"db.execution.complete({id!r})") == "OwnershipLost"
        assert owner(f"db.execution.complete({kept!r})") == "None", "nobody took it: still its own"
        assert other(f"db.execution.complete({id!r})") == "None"


# -- gates -----------------------------------------------------------------------------------------


def test_a_gate_is_answered_and_waited_for_whatever_both_clocks_say(
    begin: Begin, db: SmithersDB, path: Path, library: Path
) -> None:
    owner = begin(0)
    ask = f"{WAITING}.at_gate({str(path)!r}, 'deploy', 600.0)"
    for mine, its in APART:
        owner(turn(0))
        owner(f"kept.__setitem__('answer', {ask})")
        (gate,) = db.approvals.observe("pending").wait(bool, timeout=30)
        owner(turn(mine))
        assert owner("kept['answer'].done()") == "False", "no turn of the clock is a time-out"
        answered = command(library, its, path, "approve", "deploy")
        assert (answered.code, answered.out) == (0, "deploy approved\n")
        assert owner("kept['answer'].result(30)") == "approved"
        assert owner(f"db.execution.get({gate.execution_id!r}).status") == "completed"
    no_duration_is_negative(db)


@pytest.mark.parametrize("ahead", [-DAY, HOUR])
def test_the_time_out_of_a_gate_is_one_of_seconds_that_pass(
    begin: Begin, db: SmithersDB, path: Path, ahead: int
) -> None:
    owner = begin(0)
    owner(f"kept.__setitem__('answer', {WAITING}.at_gate({str(path)!r}, 'deploy', 1.0))")
    db.approvals.observe("pending").wait(bool, timeout=30)
    owner(turn(ahead))
    assert owner("kept['answer'].result(30)") == "nobody"
    no_duration_is_negative(db)


def test_gates_are_answered_in_the_order_in_which_they_were_asked(
    begin: Begin, db: SmithersDB
) -> None:
    owner, other = begin(0), begin(0)
    id = started(owner)
    asked: list[str] = []
    for number, (mine, its) in enumerate(TURNS):
        owner(turn(mine))
        other(turn(its))
        request = f"db.approvals.request({id!r}, 'deploy', 'Go on?', occurrence={number})"
        asked.append(owner(request))
    assert [gate.id for gate in db.approvals.list()] == asked
    assert [gate.id for gate in db.approvals.list(limit=2)] == asked[-2:]
    for _, its in TURNS:
        other(turn(its))
        assert other("db.approvals.deny('deploy').id") == asked.pop(0)
    assert other("db.approvals.approve('deploy')") == "NotFound"


# -- triggers --------------------------------------------------------------------------------------

FAILING = "db.triggers.on('work', name='worker')(lambda change: seen(change.value) or 1 / 0)"
WORKING = "db.triggers.on('work', name='worker')(lambda change: seen(change.value))"
BACK = ((4 * MINUTE, 0), (DAY, 0), (0, -4 * MINUTE), (0, -DAY), (HOUR, 0), (-DAY, DAY))


@pytest.mark.parametrize(
    "turns", BACK, ids=[f"{mine // MINUTE:+d} and {its // MINUTE:+d} min" for mine, its in BACK]
)
def test_what_has_failed_is_tried_again_in_time_though_the_clock_was_turned(
    begin: Begin, db: SmithersDB, turns: tuple[int, int]
) -> None:
    first, second = turns
    owner, other = begin(first), begin(second)
    owner(FAILING)
    other(WORKING)
    served = f"kept.__setitem__('served', {WAITING}.for_changes(db))"
    owner(served)
    db.state.set("work", 1)
    assert owner("seen.wait_for_count(1, 30)") == "[1]"
    owner(turn(second))
    assert owner("seen.wait_for_count(2, 20)") == "[1, 1]", "a second later, and not tomorrow"
    owner(turn(first))
    assert owner("seen.wait_for_count(3, 20)") == "[1, 1, 1]"
    (trigger,) = db.triggers.list()
    assert trigger.owner is not None and trigger.owner.endswith(f":{owner.process.pid}")
    assert other("db.triggers.deliver()") == "0", "a live process has it"
    owner.kill()
    assert db.triggers.list()[0].owner is None
    other(served)
    assert other("seen.wait_for_count(1, 20)") == "[1]"
    until(lambda: db.triggers.list()[0].state == "idle")
    (trigger,) = db.triggers.list()
    assert (trigger.attempts, trigger.dead, trigger.lag) == (0, 0, 0)
