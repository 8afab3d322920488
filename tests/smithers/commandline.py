"""The command line as tests run it: in this process, in one of its own, and on a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import click
import pytest

from smithers.cli import main
from tests.warm import warm_run


@dataclass(frozen=True)
class Result:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Run(Protocol):
    """Runs a command; with `columns` its output is a terminal of that width, else a pipe."""

    def __call__(self, *args: str, columns: int = 0) -> Result: ...


def runner(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run commands in this process."""

    def run(*args: str, columns: int = 0) -> Result:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", str(columns or 80))
            patch.setattr(sys.stdout, "isatty", lambda: columns > 0)
            code = main(args)
        captured = capsys.readouterr()
        return Result(code, click.unstyle(captured.out), captured.err)

    return run


def below(run: Run, path: Path) -> Run:
    """Run `smithers db … --path`."""

    def run_below(*args: str, columns: int = 0) -> Result:
        return run("db", *args, "--path", str(path), columns=columns)

    return run_below


def cells(result: Result) -> list[list[str]]:
    """Return the cells of what was printed into a pipe."""
    return [line.split("\t") for line in result.out.splitlines()]


def in_process(*args: str, variables: Mapping[str, str] | None = None) -> Result:
    """Run `smithers …` in a process of its own, its output no terminal.

    With `variables`, which may be for what comes before Python, it is a process from scratch.
    """
    if variables is None:
        done = warm_run(["-m", "smithers", *args], Path.cwd(), environment())
    else:
        done = subprocess.run(
            [sys.executable, "-m", "smithers", *args],
            capture_output=True,
            text=True,
            timeout=50,
            env=dict(variables),
        )
    return Result(done.returncode, done.stdout, done.stderr)


def on_terminal(args: Sequence[str], width: int) -> str:
    """Run `smithers …` on a terminal of that width and return what it showed, without styles."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "smithers", *args], stdout=its, stdin=its, env=environment()
    )
    os.close(its)
    with open(ours, "rb", buffering=0) as terminal:
        out = b""
        while chunk := _read(terminal.fileno()):
            out += chunk
    assert process.wait(timeout=30) == 0
    return click.unstyle(out.decode())


def environment() -> dict[str, str]:
    """Return what a process needs to find this package."""
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm"}
    for size in ("COLUMNS", "LINES"):
        found.pop(size, None)
    return found


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""  # Linux's word for the end of a terminal
