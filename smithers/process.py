"""Which process this is, whether another one still lives, and what time it is since the boot."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Linux and macOS count the time asleep as well; where neither clock is there, sleep ends no lease.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


@dataclass(frozen=True, slots=True)
class Process:
    """A process, told apart from every other one, also from a later one with its number.

    Attributes:
        host: the name of the machine, to be shown.
        boot: one start of one machine, on whose clock `since_boot` counts; "" where it has no name.
        namespace: where `pid` is counted; containers on one machine count apart.
        pid: its number.
        start: when it was started, in the words of the system.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    start: str

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"

    def shares_clock(self, other: Process) -> bool:
        """Tell whether the times since boot of both can be compared."""
        return self.boot != "" and self.boot == other.boot

    def restarted_since(self, other: Process) -> bool:
        """Tell whether the other one ended with an earlier start of this same machine."""
        machine, _, _ = self.boot.partition("/")
        theirs, _, _ = other.boot.partition("/")
        return bool(machine) and self.host == other.host and machine == theirs != self.boot

    def knows_dead(self, other: Process) -> bool:
        """Tell whether the other one is seen from here to have ended."""
        if not self.shares_clock(other) or self.namespace != other.namespace:
            return False
        return _start_of(other.pid) != other.start


def this_process() -> Process:
    """Return the process that asks; after a fork that is another one."""
    pid = os.getpid()
    return _identity(pid)


def since_boot() -> float:
    """Return the seconds since the machine was started; no setting of a clock moves it."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


@cache
def _identity(pid: int) -> Process:
    return Process(socket.gethostname(), _boot(), _link("/proc/self/ns/pid"), pid, _start_of(pid))


def _boot() -> str:
    started = _text("/proc/sys/kernel/random/boot_id")
    if not started and sys.platform == "darwin":
        started = _said("sysctl", "-n", "kern.bootsessionuuid")
    if not started:
        return ""
    # A time namespace counts from a start of its own.
    machine = _text("/etc/machine-id") or socket.gethostname()
    return f"{machine}/{started}{_link('/proc/self/ns/time')}"


def _start_of(pid: int) -> str:
    """Tell when a process was started; "" when there is none, or only what is left of one."""
    if not Path("/proc/self/stat").exists():
        return _said("ps", "-o", "lstart=", "-p", str(pid))
    # The name of the program, in parentheses, may hold anything.
    _, _, rest = _text(f"/proc/{pid}/stat").rpartition(")")
    fields = rest.split()
    return "" if not fields or fields[0] in "ZX" else fields[19]


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""  # no such process, or no such system


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
