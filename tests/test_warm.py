"""A program that is run warm is told and tells what one in a fresh interpreter does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm import ROOT, warm_run

TELLING = """
import os, sys, warnings
print(__name__, sys.argv[1:], os.getcwd(), os.environ.get("TOLD"), sys.stdin.read() == "")
print(sorted(name for name in sys.modules if name.startswith(("smithers", "reactive_sqlite"))))
print(sys.stdout.isatty(), sys.modules["__main__"].__name__)
"""
ENDS = {
    "raise SystemExit(7)": 7,
    "raise SystemExit('why')": 1,
    "1 / 0": 1,
    "import warnings; warnings.warn('no')": 1,
    "raise KeyboardInterrupt": -signal.SIGINT,
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": -signal.SIGKILL,
    "import atexit; atexit.register(print, 'last'); print('first')": 0,
    "import threading; threading.Timer(0.1, print, ['of a thread']).start()": 0,
}


def fresh(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        env={**os.environ, "TOLD": "this", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
    )


def test_arguments_variables_place_and_modules_are_those_of_a_fresh_interpreter(
    tmp_path: Path,
) -> None:
    (tmp_path / "telling.py").write_text(TELLING, encoding="utf-8")
    ways = (["-m", "telling", "a"], ["-c", TELLING, "a"], [str(tmp_path / "telling.py"), "a"])
    for way in ways:
        warm = warm_run(way, tmp_path, {**os.environ, "TOLD": "this"})
        assert (warm.returncode, warm.stderr) == (0, "")
        assert warm.stdout == fresh(way, tmp_path).stdout


@pytest.mark.parametrize(("program", "code"), ENDS.items())
def test_it_ends_as_in_a_fresh_interpreter(program: str, code: int, tmp_path: Path) -> None:
    warm, cold = warm_run(["-c", program], tmp_path), fresh(["-c", program], tmp_path)
    assert warm.returncode == cold.returncode == code
    assert warm.stdout == cold.stdout
    assert warm.stderr.splitlines()[-1:] == cold.stderr.splitlines()[-1:]


def test_one_that_takes_too_long_is_given_up_and_the_next_one_runs(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        warm_run(["-c", "import signal; signal.pause()"], tmp_path, timeout=0.2)
    assert warm_run(["-c", "print(1)"], tmp_path).stdout == "1\n"
