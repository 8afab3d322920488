"""`smithers db watch`, in a process of its own: every change as it commits, until told to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from smithers import SmithersDB


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
