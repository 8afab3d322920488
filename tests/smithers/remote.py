"""A workflow database in another process, which does what it is told, line by line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

_PROGRAM = """
import sys
from datetime import datetime, timedelta
import smithers.clock
import smithers.ownership as leases
from smithers import create_smithers_db
from tests.recorder import Recorder

class Clock(datetime):
    ahead = timedelta(0)

    @classmethod
    def now(cls, zone=None):
        return datetime.now(zone) + cls.ahead

smithers.clock.datetime = Clock
db = create_smithers_db(sys.argv[1], busy_timeout=20.0)
seen = Recorder()
kept = {}

def inside(function):
    with db.transaction():
        return function()

for line in sys.stdin:
    try:
        answer = eval(line)
    except Exception as error:
        answer = type(error).__name__
    print(str(answer).replace(chr(10), " "), flush=True)
"""


class Remote:
    """The other process. It knows `db`, `leases` (the module), `Clock.ahead`, `seen`, `kept`."""

    def __init__(self, path: Path, environment: Mapping[str, str] = os.environ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _PROGRAM, str(path)],
            env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, expression: str) -> str:
        """Return what an expression gives there as text, or the name of the error it raises."""
        self.tell(expression)
        return self.answer()

    def tell(self, expression: str) -> None:
        """Have an expression evaluated there, without waiting."""
        assert self.process.stdin is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """Wait for what the oldest expression that was not answered gives."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the other process has ended"
        return line.rstrip("\n")

    def kill(self, *, reaped: bool = True) -> None:
        """End it by SIGKILL; unless it is reaped, its number stays, as that of a zombie."""
        self.process.kill()
        if reaped:
            self.process.wait(timeout=30)
        else:
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)

    def stop(self) -> None:
        """Stop it until `go_on`; returns when it has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        """Let it continue."""
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def remote(path: Path, environment: Mapping[str, str] = os.environ) -> Generator[Remote]:
    """Open the database in another process, which is gone at the end of the block."""
    other = Remote(path, environment)
    try:
        yield other
    finally:
        other.process.kill()
        other.process.communicate(timeout=30)


def until(condition: Callable[[], object], timeout: float = 20.0) -> None:
    """Wait for what nothing announces: what stands in a file, or whether a process lives."""
    pause = threading.Event()
    for _ in range(int(timeout / 0.02)):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError(f"not within {timeout} s")
