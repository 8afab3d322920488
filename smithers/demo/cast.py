"""The actors of the demonstration: processes that all speak through one pipe.

With a pipe for each the order of two lines would be that of the threads that read them, and what
somebody says because of another's words could be heard before these. A short line that is written
at once is never mixed with another.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from smithers.errors import SmithersError

STEP_SECONDS = 25.0
# After its end a process has been heard when nothing has come for so long.
LAST_WORDS_SECONDS = 0.5

# Called with who speaks ("" for the stage itself), the text, and the seconds since the start.
Say = Callable[[str, str, float], None]


class DemoFailed(SmithersError):
    """Something that the demonstration shows did not happen."""


class Cast:
    """Starts the processes, passes on what they say, and waits for what they have to say.

    Only the thread that calls its methods calls `say`. Leaving it ends every process.
    """

    def __init__(self, path: Path, say: Say) -> None:
        self._path = path
        self._say = say
        self._began = time.monotonic()
        self._heard: queue.SimpleQueue[tuple[float, str, str]] = queue.SimpleQueue()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        reading, self._pipe = os.pipe()
        self._reader = threading.Thread(target=self._read, args=[reading], daemon=True)

    def __enter__(self) -> Cast:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        os.close(self._pipe)
        self._reader.join()

    def say(self, who: str, text: str) -> None:
        """Say something between the lines of the processes."""
        self._say(who, text, time.monotonic() - self._began)

    def start(self, name: str) -> None:
        """Start the program of that name; each of its lines begins with the name and a colon."""
        self._processes[name] = subprocess.Popen(
            [sys.executable, "-m", f"smithers.demo.{name}", str(self._path)],
            stdin=subprocess.PIPE,
            stdout=self._pipe,
            # A group of its own, so that it ends together with the agent it has started.
            process_group=0,
        )

    def expect(self, *beginnings: tuple[str, str]) -> None:
        """Wait until each line, given by its speaker and its beginning, was said, in any order.

        Raises DemoFailed when that takes too long or a speaker ends before.
        """
        missing: list[tuple[str, str]] = list(beginnings)
        deadline = time.monotonic() + STEP_SECONDS
        while missing:
            try:
                at, who, text = self._heard.get(timeout=LAST_WORDS_SECONDS)
            except queue.Empty:
                self._despair(*missing[0], late=time.monotonic() > deadline)
                continue
            self._say(who, text, at)
            missing = [
                (speaker, beginning)
                for speaker, beginning in missing
                if speaker != who or not text.startswith(beginning)
            ]

    def finish(self, name: str) -> None:
        """Tell a process that nothing more comes, and wait for its end."""
        process = self._processes[name]
        assert process.stdin is not None
        process.stdin.close()
        try:
            code = process.wait(STEP_SECONDS)
        except subprocess.TimeoutExpired:
            raise DemoFailed(f"the {name} did not end") from None
        if code:
            raise DemoFailed(f"the {name} ended with exit code {code}")

    def _despair(self, who: str, beginning: str, *, late: bool) -> None:
        if late:
            raise DemoFailed(f"the {who} did not say {beginning!r} in time")
        if self._processes[who].poll() is not None and self._heard.empty():
            raise DemoFailed(f"the {who} ended before it said {beginning!r}")

    def _read(self, reading: int) -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                who, _, text = line.rstrip("\n").partition(": ")
                self._heard.put((time.monotonic() - self._began, who, text))
