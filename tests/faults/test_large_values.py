"""Values of 64 MB and beyond what SQLite takes: whole, or an error; and memory that is bounded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.forgotten import limited
from tests.smithers.commandline import environment

# For each megabyte of a value so many are in use at most: the value itself, its JSON, the bytes
# that SQLite is given and has, what it gives back, and both sides of a comparison.
AT_MOST = 10


def done(kind: str, path: Path, *numbers: int, timeout: float = 50) -> Any:
    """Have it done in a process of its own, whose memory can be told."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.faults.large", kind, str(path), *map(str, numbers)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(),
    )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


def comes_back(path: Path, megabytes: int) -> int:
    came = done("whole", path, megabytes)
    assert came["same"]
    assert came["listed"] is None, "in a listing it is left out"
    assert came["megabytes"] < AT_MOST * megabytes + 32, (
        "and no more than what it is for a small one"
    )
    used: int = came["megabytes"]
    return used


def test_a_large_value_comes_back_whole_and_memory_is_bounded(tmp_path: Path) -> None:
    comes_back(tmp_path / "workflow", 8)


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_a_value_of_64_mb_comes_back_whole_and_memory_is_bounded(tmp_path: Path) -> None:
    print(f"\n64 MB in and out: {comes_back(tmp_path / 'workflow', 64)} MB of memory at most")


@limited
def test_a_value_beyond_the_limit_of_sqlite_is_refused_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    came = done("beyond", tmp_path / "workflow", 8, 4)
    assert came["raised"] == ["DataError: string or blob too big"] * 5
    assert came["unchanged"] and came["works"]
    assert came["megabytes"] < AT_MOST * 8 + 64


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_value_beyond_a_gigabyte_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    available = next(
        int(line.split()[1]) // 1024
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        if line.startswith("MemAvailable")
    )
    if available < 8_000:
        pytest.skip(f"it takes 6 GB of memory, and {available} MB are free")
    came = done("beyond", tmp_path / "workflow", 1_025, 0, timeout=280)
    print(f"\n1,025 MB: {came}")
    assert all(one.startswith("DataError: ") for one in came["raised"]), came["raised"]
    assert came["unchanged"] and came["works"]
    assert came["megabytes"] < 6 * 1_025
