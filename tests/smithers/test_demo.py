"""The demonstration: it shows what it says, and fails when something does not happen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from smithers import create_smithers_db
from smithers.demo import stage

ROOT = Path(__file__).parents[2]


def demo(directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "smithers", "demo"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=55,
    )


def test_three_processes_share_a_database_live_and_go_back_in_time(
    tmp_path: Path, sqlite3_cli: str
) -> None:
    for _ in range(2):  # a second time on what the first has left
        done = demo(tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        seen = [line for line in done.stdout.splitlines() if line.startswith("subscriber")]
        shown = [line.partition("│ ")[2].partition(" after")[0].split(" · ")[:2] for line in seen]
        assert [phase for phase, *_ in shown] == [
            "phase is not set yet",
            'phase "start"',
            'phase "review"',
            'phase "approval"',
            'phase "approved"',
            'phase "done"',
            'phase "review"',
        ]
        assert all(line.endswith(" ms after its commit") for line in seen[1:])
        assert shown[4][1] == "no trigger: another program"
        assert shown[6][1].startswith("replay:t")
        assert "$ sqlite3 .smithers/demo/db.sqlite" in done.stdout
        assert "smithers db history --path .smithers/demo" in done.stdout
    with create_smithers_db(tmp_path / ".smithers" / "demo", read_only=True) as db:
        assert db.state.get("phase") == "review"
        assert db.state.get("compile_report")["files"] > 20, "the agent has read real sources"


def test_it_works_without_the_sqlite3_program(tmp_path: Path) -> None:
    done = demo(tmp_path, PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "Python's module stands in for it" in done.stdout


def test_another_database_is_left_alone(tmp_path: Path) -> None:
    with create_smithers_db(tmp_path / ".smithers" / "demo") as db:
        db.state.set("mine", 1)
    done = demo(tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: .smithers/demo is another database; choose a --path of its own\n"
    )
    with create_smithers_db(tmp_path / ".smithers" / "demo") as db:
        assert db.state.get_all() == {"mine": 1}


def test_what_does_not_happen_is_a_failure_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = tmp_path / "approve.sql"
    silent.write_text("UPDATE state SET value = value WHERE key = 'nothing';")
    monkeypatch.setattr(stage, "APPROVAL", silent)
    monkeypatch.setattr(stage, "STEP_SECONDS", 2.0)
    lines: list[str] = []
    with pytest.raises(stage.DemoFailed, match='the subscriber did not say \'phase "approved"'):
        stage.perform(tmp_path / "demo", lambda who, text: lines.append(text))
    assert "Done." not in "".join(lines)
