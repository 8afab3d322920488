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

_PROC = Path("/proc")
# Linux and macOS count the time asleep as well; where neither clock is there, sleep ends no lease.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


@dataclass(frozen=True, slots=True)
class Process:
    """A process, told apart from every other one, also from a later one with its number.

    Attributes:
        host: the name of the machine, to be shown.
        boot: `MACHINE/START/CLOCK`: the machine, this start of it, and which of its clocks
            `since_boot` reads; "" where starts have no name.
        namespace: where `pid` is counted; containers on one machine count apart.
        pid: its number.
        start: when it was started, in the words of the system; "" where that is not known.
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
        # Containers have one start in common, though each may be a machine of its own by name.
        return self.boot != "" and self.boot.split("/")[1:] == other.boot.split("/")[1:]

    def restarted_since(self, other: Process) -> bool:
        """Tell whether the other one ended with an earlier start of this same machine."""
        if not (self.boot and other.boot) or self.host != other.host:
            return False
        (machine, start), (theirs, earlier) = self.boot.split("/")[:2], other.boot.split("/")[:2]
        return machine == theirs and start != earlier

    def knows_dead(self, other: Process) -> bool:
        """Tell whether the other one is seen from here to have ended."""
        if self == other or not self.shares_clock(other) or self.namespace != other.namespace:
            return False
        found = _start_of(other.pid)
        if found is None:
            return not _exists(other.pid)
        return found == "" or (other.start != "" and found != other.start)


def this_process() -> Process:
    """Return the process that asks; after a fork that is another one."""
    return _identity(os.getpid())


def since_boot() -> float:
    """Return the seconds since the machine was started; no setting of a clock moves it."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


@cache
def _identity(pid: int) -> Process:
    host = socket.gethostname()
    return Process(host, _boot(host), _namespace(pid), pid, _start_of(pid) or "")


def _boot(host: str) -> str:
    started = _text("/proc/sys/kernel/random/boot_id")
    if not started and sys.platform == "darwin":
        started = _said("sysctl", "-n", "kern.bootsessionuuid")
    if not started:
        return ""
    # A time namespace counts from a start of its own.
    return f"{_text('/etc/machine-id') or host}/{started}/{_link('/proc/self/ns/time')}"


def _namespace(pid: int) -> str:
    named = _link("/proc/self/ns/pid")
    # Where /proc is that of another namespace, it shows strangers under our numbers.
    return named if _link("/proc/self") in ("", str(pid)) else f"{named}, unseen by {pid}"


def _start_of(pid: int) -> str | None:
    """Tell when a process was started; "" when only its number is left, None where none is seen."""
    if _PROC.joinpath("self", "stat").exists():
        # The name of the program, in parentheses, may hold anything.
        _, _, rest = _text(f"{_PROC}/{pid}/stat").rpartition(")")
        fields = rest.split()
        state, start = (fields[0], fields[19]) if len(fields) > 19 else ("", "")
    else:
        state, _, start = _said("ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)).partition(" ")
    return None if not state else "" if state[0] in "ZX" else " ".join(start.split())


def _exists(pid: int) -> bool:
    """Tell whether there is such a process, also where its user hides it from others."""
    if os.name != "posix":
        return True  # signal 0 is another thing there
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return pid > 0


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
    # Times are told in the language and the zone of whoever asks.
    words = {**os.environ, "LC_ALL": "C", "TZ": "UTC0"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, env=words)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
