"""A clock of the day that is set by hand, for all that runs in a process: built, and set."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import require_tool
from tests.smithers.commandline import environment

SOURCE = Path(__file__).with_name("clock.c")
DAY = 86_400 * 10**9  # nanoseconds
HOUR = DAY // 24
MINUTE = HOUR // 60


class Clock:
    """The clock of this process, as all that runs in it sees it; of one that was started so."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ["LD_PRELOAD"])
        self._library.clock_set.argtypes = [ctypes.c_longlong]

    def ahead(self, nanoseconds: int) -> None:
        self._library.clock_set(nanoseconds)

    def stop(self, *, stand: bool = True) -> None:
        self._library.clock_stop(int(stand))


def built(folder: Path) -> Path:
    """Build the library that is to be preloaded."""
    if sys.platform != "linux":
        pytest.skip("libraries are preloaded on Linux alone")
    library = folder / "clock.so"
    command = [require_tool("cc"), "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)]
    subprocess.run([*command, "-ldl"], check=True, timeout=50)
    return library


def under(library: Path, ahead: int = 0) -> dict[str, str]:
    """Return the environment of a process whose clock begins so many nanoseconds ahead."""
    return {**environment(), "LD_PRELOAD": str(library), "CLOCK_AHEAD": str(ahead)}


def turn(nanoseconds: int) -> str:
    """Return the expression that turns the clock of the process that evaluates it."""
    library = "__import__('ctypes').CDLL(__import__('os').environ['LD_PRELOAD'])"
    return f"{library}.clock_set(__import__('ctypes').c_longlong({nanoseconds}))"
