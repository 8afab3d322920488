"""The programs of the README, each run on its own and again in the directory it has left."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS: list[str] = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(1, len(PROGRAMS) + 1))
def test_a_program_of_the_readme_can_be_run_again(program: str, tmp_path: Path) -> None:
    printed = [_run(program, tmp_path) for _ in range(3)]
    assert printed[1] == printed[2]


def test_the_workflow_of_the_readme_survives_restarts(tmp_path: Path) -> None:
    (program,) = [text for text in PROGRAMS if "db.run(" in text]
    assert _run(program, tmp_path) == "going on from start\n"
    assert _run(program, tmp_path) == "going on from done\n"
    replay = ["-m", "smithers", "db", "replay", "t1", "--path", ".smithers/review"]
    assert _python(replay, tmp_path).returncode == 0
    assert _run(program, tmp_path) == "going on from review\n"


def test_a_stopped_workflow_begins_with_the_phase_it_was_stopped_in(tmp_path: Path) -> None:
    (program,) = [text for text in PROGRAMS if "db.run(" in text]
    work = next(line for line in program.splitlines() if "the work of this phase" in line)
    stop = f"{work.partition('pass')[0]}if phase() == 'review': raise SystemExit(7)"
    stopped = program.replace(work, f"{work}\n{stop}")
    assert _run(stopped, tmp_path, code=7) == "going on from start\n"
    assert _run(program, tmp_path) == "going on from review\n"


def _run(program: str, folder: Path, *, code: int = 0) -> str:
    ended = _python(["-W", "error", "-c", program], folder)
    assert (ended.returncode, ended.stderr) == (code, "")
    return ended.stdout


def _python(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        # The packages are those of this checkout, wherever the program runs.
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
    )
