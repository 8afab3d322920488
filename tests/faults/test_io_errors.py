"""A disk that fails at any system call of a `set`: a typed error or success, and never a lie."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import require_tool
from tests.faults import faulty
from tests.smithers.commandline import environment

SOURCE = Path(__file__).with_name("shim.c")
JOURNALS = ("wal", "truncate", "delete")


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes system calls fail, built for this machine."""
    if sys.platform != "linux":
        pytest.skip("libraries are preloaded, and descriptors have their names, on Linux alone")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    command = [require_tool("cc"), "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)]
    subprocess.run([*command, "-ldl"], check=True, timeout=50)
    return library


def outcomes(shim: Path, folder: Path, journal: str, *mode: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", faulty.__name__, str(folder), journal, *mode],
        env={**environment(), "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def reached(found: list[dict[str, Any]]) -> Counter[str]:
    """Count by kind the faults that the call met."""
    return Counter(outcome["fault"]["kind"] for outcome in found if outcome["reached"])


@pytest.mark.parametrize("journal", ["wal", "truncate"])
def test_each_system_call_of_a_set_may_fail_and_nothing_is_told_that_is_not_so(
    shim: Path, tmp_path: Path, journal: str
) -> None:
    found = outcomes(shim, tmp_path, journal)
    wrong = [outcome for outcome in found if outcome["wrong"]]
    assert not wrong, wrong[0]
    met = reached(found)
    assert min(met[kind] for kind in ("write", "sync", "lock")) > 0, "the faults took place"
    assert met["truncate"] > 0 or journal == "wal", "a log is not truncated by a set"
    full = [o for o in found if o["fault"]["error"] == errno.ENOSPC and o["reached"]]
    assert all("full" in outcome["raised"] for outcome in full), "the error says what it is"


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_each_system_call_of_a_large_set_may_fail_once_or_for_good(
    shim: Path, tmp_path: Path
) -> None:
    for journal in JOURNALS:
        folder = tmp_path / journal
        folder.mkdir()
        found = outcomes(shim, folder, journal, "long")
        wrong = [outcome for outcome in found if outcome["wrong"]]
        assert not wrong, wrong[0]
        met = reached(found)
        raised = sum(bool(outcome["raised"]) for outcome in found)
        print(
            f"{journal}: {met.total()} faults ({dict(met)}) in a set: {raised} typed errors, "
            f"{met.total() - raised} successes, 0 lies"
        )
