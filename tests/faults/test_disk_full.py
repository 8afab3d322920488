"""A disk that becomes full: a typed error, nothing half written, and work again afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from tests.faults import full
from tests.smithers.commandline import environment

UNSHARE = ("unshare", "--mount", "--propagation", "private")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of a disk of 2 MB that a process mounted for itself alone."""
    if sys.platform != "linux" or not shutil.which("unshare"):
        pytest.skip("a disk of its own for one process takes Linux and its program `unshare`")
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    folder = tmp_path_factory.mktemp("disk")
    if subprocess.run([*UNSHARE, "true"], capture_output=True).returncode:
        pytest.skip("mount namespaces are not allowed here")
    mount = [*UNSHARE, "mount", "-t", "tmpfs", "none", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-W", "error", "-m", full.__name__, str(folder)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_full_disk_is_a_typed_error_and_half_a_set_many_is_never_there(
    found: dict[str, Any],
) -> None:
    assert found["set_many"] == "OperationalError: database or disk is full"
    assert found["is whole"], "the last set_many that returned is all there, and nothing of the one"
    assert found["is history"]
    assert found["is observed"], "and observers were told no more"
    assert found["set"] == "OperationalError: database or disk is full"
    assert not found["has"]


def test_on_a_full_disk_a_dump_leaves_nothing_and_a_command_says_so_in_a_line(
    found: dict[str, Any],
) -> None:
    assert found["dump"].startswith("OSError: [Errno 28]")
    assert found["left by dump"] == []
    assert found["command"] == [1, "", "Error: database or disk is full\n"]


def test_on_a_full_disk_what_is_there_can_be_opened_and_what_is_not_cannot_be_made(
    found: dict[str, Any],
) -> None:
    assert found["beside"] == "", "a second handle opens it"
    assert found["open"].startswith("CannotOpen: cannot open")
    assert found["open"].endswith("another/db.sqlite': database or disk is full")
    assert found["another"] == {}, "and when there is space, it is made after all"


def test_after_space_was_freed_writes_work_and_arrive(found: dict[str, Any]) -> None:
    assert found["works again"]
    assert found["check"] == []
    assert found["next open"]
