"""A workflow that is killed before, in and after each of its steps comes to the same end."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from smithers import create_smithers_db
from tests.smithers.runtime import sweep
from tests.warm import warm_run

ROOT = Path(__file__).parents[3]
STEPS = [f"{phase} {n}" for n in range(sweep.ITERATIONS) for phase in sweep.PHASES]
POINTS = 3 * len(STEPS)
NEVER = 10_000


def started(path: Path, log: Path, fatal: int) -> subprocess.CompletedProcess[str]:
    return warm_run(["-m", sweep.__name__, str(path), str(log), str(fatal)], ROOT)


def ended(path: Path, log: Path) -> Counter[str]:
    """Let it run to its end, check that it is the right one, and return what the log says."""
    done = started(path, log, NEVER)
    assert done.returncode == 0, done.stderr
    outcome, results = map(json.loads, done.stdout.splitlines())
    assert outcome["iterations"] == sweep.ITERATIONS, "iterations and maximum hold across restarts"
    assert {result["name"] for result in results} == set(STEPS)
    assert len(results) == len(STEPS)
    with create_smithers_db(path, watch=False) as db:
        (execution,) = db.execution.list()
        assert execution.status == "completed"
        assert execution.total_iterations == sweep.ITERATIONS
        for table in ("phases", "steps", "agents", "tool_calls"):
            assert db.query(f"SELECT 1 FROM {table} WHERE status = 'running'") == []
    return Counter(log.read_text().splitlines())


def point_of_a_resumed_run(number: int) -> int:
    """Tell how many points a run passes before the one to kill it at, one further each time."""
    step, kind = divmod(number, 3)
    behind = step % len(sweep.PHASES)
    if number and behind == kind == 0:
        behind = len(sweep.PHASES)  # the last run died before the end of its iteration
    return 2 * behind + kind  # what is done has a point before and one after it


@pytest.mark.timeout(240)
def test_one_that_is_killed_at_every_point_after_the_other(tmp_path: Path) -> None:
    path, log = tmp_path / "workflow", tmp_path / "log"
    for number in range(POINTS):
        killed = started(path, log, point_of_a_resumed_run(number))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    seen = ended(path, log)
    for step in STEPS:
        assert seen[f"end {step}"] == 1, f"{step!r} was done once"
        assert seen[f"begin {step}"] == 2, f"{step!r} was cut off once and ran again"


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_one_that_is_killed_once_at_each_point(tmp_path: Path) -> None:
    for point in range(POINTS):
        path, log = tmp_path / f"workflow {point}", tmp_path / f"log {point}"
        assert started(path, log, point).returncode == -signal.SIGKILL
        seen = ended(path, log)
        cut_off = STEPS[point // 3] if point % 3 == 1 else None
        for step in STEPS:
            assert seen[f"end {step}"] == 1
            assert seen[f"begin {step}"] == (2 if step == cut_off else 1)
    print(f"{POINTS} workflows killed and resumed: every step done once, none left running")
