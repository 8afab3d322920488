"""Which process this is, and whether another one still lives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from smithers import process
from smithers.process import Process, since_boot, this_process
from tests.conftest import require_tool

TELL = """
import sys
from smithers.process import since_boot, this_process
print(repr(this_process()))
print(since_boot(), flush=True)
sys.stdin.read()
"""
AFTER_FORK = """
import os, sys
from smithers.process import this_process
before = this_process()
reader, writer = os.pipe()
pid = os.fork()
if not pid:
    os.write(writer, repr(this_process()).encode())
    os._exit(0)
os.waitpid(pid, 0)
child = os.read(reader, 4096).decode()
print(before == this_process(), child != repr(before), f"pid={pid}" in child)
"""


class Child:
    """A process that has told what it is, and then waits."""

    def __init__(self) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", TELL],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.popen.stdout is not None
        told = self.popen.stdout.readline()
        self.since_boot = float(self.popen.stdout.readline())
        self.process: Process = eval(told)


@pytest.fixture
def child() -> Iterator[Child]:
    started = Child()
    yield started
    started.popen.kill()
    started.popen.communicate()


@pytest.fixture
def unseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that shows nobody the processes of others."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").touch()
    monkeypatch.setattr(process, "_PROC", tmp_path)


@pytest.fixture
def by_ps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without /proc."""
    require_tool("ps")
    monkeypatch.setattr(process, "_PROC", tmp_path)


def test_a_process_that_runs_is_not_dead(child: Child) -> None:
    assert not this_process().knows_dead(this_process())
    assert not this_process().knows_dead(child.process)
    assert child.process.pid == child.popen.pid


def test_a_killed_process_is_dead_before_and_after_it_is_reaped(child: Child) -> None:
    child.popen.kill()
    os.waitid(os.P_PID, child.popen.pid, os.WEXITED | os.WNOWAIT)
    assert this_process().knows_dead(child.process), "a zombie does nothing any more"
    child.popen.wait()
    assert this_process().knows_dead(child.process)


def test_a_number_used_again_by_a_later_process_is_no_sign_of_life(child: Child) -> None:
    assert this_process().knows_dead(replace(child.process, start="1"))


def test_without_its_start_a_process_lives_while_its_number_is_in_use(child: Child) -> None:
    unknown = replace(child.process, start="")
    assert not this_process().knows_dead(unknown)
    child.popen.kill()
    child.popen.wait()
    assert this_process().knows_dead(unknown)


def test_nothing_is_known_of_processes_that_are_counted_elsewhere(child: Child) -> None:
    child.popen.kill()
    child.popen.wait()
    for other in (
        replace(child.process, namespace="pid:[1]"),
        replace(child.process, boot="another/machine/"),
        replace(child.process, boot=""),
    ):
        assert not this_process().knows_dead(other)


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**40, 2**70])
def test_a_number_that_no_process_can_have_is_that_of_a_dead_one(pid: int) -> None:
    assert this_process().knows_dead(replace(this_process(), pid=pid))


@pytest.mark.usefixtures("unseen")
def test_a_process_that_is_hidden_from_us_is_dead_only_when_its_number_is_free(
    child: Child,
) -> None:
    assert not this_process().knows_dead(child.process)
    child.popen.kill()
    child.popen.wait()
    assert this_process().knows_dead(child.process)


@pytest.mark.usefixtures("by_ps")
def test_without_proc_ps_tells_the_start_in_the_same_words_in_every_time_zone(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: set[str | None] = set()
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        starts.add(process._start_of(child.popen.pid))  # pyright: ignore[reportPrivateUsage]
    (start,) = starts
    assert start
    there = replace(child.process, start=start)
    assert not this_process().knows_dead(there)
    assert this_process().knows_dead(replace(there, start="Thu Jan 1 00:00:00 1970"))
    child.popen.kill()
    os.waitid(os.P_PID, child.popen.pid, os.WEXITED | os.WNOWAIT)
    assert this_process().knows_dead(there), "a zombie"
    child.popen.wait()
    assert this_process().knows_dead(there)


HERE = Process("host", "machine/start/clock", "pid:[1]", 2, "3")


@pytest.mark.parametrize(
    ("other", "shares", "restarted"),
    [
        (HERE, True, False),
        (replace(HERE, pid=9, start="9", namespace="pid:[2]"), True, False),
        (replace(HERE, host="container", boot="image/start/clock"), True, False),
        (replace(HERE, boot="machine/start/another clock"), False, False),
        (replace(HERE, boot="machine/earlier/clock"), False, True),
        (replace(HERE, boot="another/earlier/clock"), False, False),
        (replace(HERE, host="clone", boot="machine/earlier/clock"), False, False),
        (replace(HERE, boot=""), False, False),
    ],
    ids=[
        *("itself", "another process", "a container", "a time namespace", "before the restart"),
        *("another machine", "a copied machine", "unnamed"),
    ],
)
def test_clocks_and_restarts_are_told_by_the_names_of_machine_and_start(
    other: Process, shares: bool, restarted: bool
) -> None:
    assert HERE.shares_clock(other) is other.shares_clock(HERE) is shares
    assert HERE.restarted_since(other) is restarted


def test_where_starts_have_no_name_no_clock_is_shared() -> None:
    unnamed = replace(HERE, boot="")
    assert not unnamed.shares_clock(unnamed)
    assert not unnamed.restarted_since(replace(HERE, boot=""))


def test_processes_of_one_machine_tell_the_same_time_since_its_boot() -> None:
    before = since_boot()
    there = Child()
    after = since_boot()
    there.popen.communicate("")
    assert before <= there.since_boot <= after
    assert there.process.boot == this_process().boot


def test_a_fork_is_another_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AFTER_FORK],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout == "True True True\n", done.stderr


def test_a_process_is_shown_by_host_and_number() -> None:
    assert str(HERE) == "host:2"
