"""`smithers db watch`, in a process of its own: every change as it commits, until told to end."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from smithers import SmithersDB
from tests.smithers.commandline import environment


@pytest.fixture
def watching(db: SmithersDB, path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `smithers db watch` in a process, and wait until it is watching."""
    started: list[subprocess.Popen[str]] = []

    def start(*args: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "smithers", "db", "watch", "--path", str(path), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        started.append(process)
        assert process.stderr is not None
        assert process.stderr.readline().startswith("watching ")
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def test_watch_prints_every_transition_as_a_line_of_json(
    db: SmithersDB, watching: Callable[..., subprocess.Popen[str]], shell: Callable[[str], str]
) -> None:
    db.state.set("before", 1)
    process = watching("--json", "--limit", "4")
    db.state.set_many({"a": 1, "b": [2]}, "mine")
    shell("UPDATE state SET value = '3' WHERE key = 'a'")
    db.state.delete("b")
    out, err = process.communicate(timeout=30)
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(t["id"], t["key"], t["value"], t["trigger"]) for t in lines] == [
        ("t2", "a", 1, "mine"),
        ("t3", "b", [2], "mine"),
        ("t4", "a", 3, None),
        ("t5", "b", None, None),
    ]
    assert (process.returncode, err) == (0, "")


def test_watch_of_a_key_is_live_and_ends_with_an_interrupt(
    db: SmithersDB, watching: Callable[..., subprocess.Popen[str]]
) -> None:
    process = watching("phase")
    db.state.set("other", 1)
    db.state.set("phase", "review", "tests_passed")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert 't2  phase: "review"  (tests_passed)' in line, "told before the command ended"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")


def test_watch_ends_when_its_reader_has_gone_also_when_nothing_more_happens(
    db: SmithersDB, watching: Callable[..., subprocess.Popen[str]]
) -> None:
    process = watching()
    db.state.set("phase", "review")
    assert process.stdout is not None and process.stderr is not None
    assert 'phase: "review"' in process.stdout.readline()
    process.stdout.close()
    assert (process.wait(timeout=30), process.stderr.read()) == (0, "")


def test_watch_ends_quietly_when_it_writes_to_nobody(
    db: SmithersDB, watching: Callable[..., subprocess.Popen[str]]
) -> None:
    process = watching("--json")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    db.state.set("phase", "review")
    assert (process.wait(timeout=30), process.stderr.read()) == (0, "")


class Screen:
    """`smithers db watch` on a terminal."""

    def __init__(self, path: Path) -> None:
        self._ours, its = pty.openpty()
        self._its = its
        self.resize(80, 24)
        command = [sys.executable, "-m", "smithers", "db", "watch", "--path", str(path)]
        self.process = subprocess.Popen(command, stdin=its, stdout=its, env=environment())

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, *texts: str) -> list[str]:
        """Read on until a frame shows all the texts, and return its lines."""
        shown = b""
        while True:
            shown += os.read(self._ours, 65536)
            # Each frame begins with the cursor at home.
            for frame in shown.decode(errors="replace").split("\x1b[H")[1:-1]:
                plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame)
                if all(text in plain for text in texts):
                    return [line.rstrip() for line in plain.replace("\r", "").split("\n")]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._its)


@pytest.fixture
def screen(db: SmithersDB, path: Path) -> Iterator[Screen]:
    opened = Screen(path)
    yield opened
    opened.close()


def test_watch_on_a_terminal_is_an_overview_that_follows(db: SmithersDB, screen: Screen) -> None:
    screen.until("No execution yet")
    id = db.execution.start("Feature")
    with db.phases.open("implement"), db.agents.open("Write " + "all of it " * 20):
        db.state.set("phase", "review", "tests_passed")
        db.approvals.request(id, "deploy", "Deploy to production?")
        lines = screen.until("Feature", "phase implement", "Write all", "(tests_passed)", "Deploy")
    assert any("smithers db approve deploy" in line for line in lines)
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24
    db.execution.complete(id)
    assert not any("implement" in line for line in screen.until("Feature", "completed"))
    screen.process.send_signal(signal.SIGINT)
    assert screen.process.wait(timeout=30) == 0


def test_the_overview_fits_into_whatever_the_terminal_becomes(
    db: SmithersDB, screen: Screen
) -> None:
    for number in range(30):
        db.execution.complete(db.execution.start(f"Feature number {number}"))
        db.state.set("key " + "x" * 100, number)
    lines = screen.until("Feature number 29")
    assert (max(map(len, lines)) <= 80, len(lines) <= 24) == (True, True)
    screen.resize(40, 10)
    for _ in range(10):  # what was drawn before is read first
        lines = screen.until("Feature number 29")
        if max(map(len, lines)) <= 40 and len(lines) <= 10:
            return
    raise AssertionError("\n".join(lines))
