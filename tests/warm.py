"""Programs run each in a process of its own that has loaded other people's libraries already.

To load them takes three quarters of what most programs of the tests take. What is ours is loaded
by each program itself, in the order that it has in a fresh interpreter. Run as a module, this is
the process that has loaded them, and forks one for each program.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parent.parent
LIBRARIES = (
    *("sqlite_utils", "reactivex", "reactivex.operators", "click", "rich.console", "rich.table"),
    *("asyncio", "importlib.metadata", "platformdirs", "uuid_utils", "sqlglot", "webbrowser"),
    *("pydantic", "claude_agent_sdk"),
)
OURS = ("reactive_sqlite", "smithers")
# Arguments, the working directory, variables, and the files of the two outputs.
Request = tuple[list[str], str, dict[str, str], str, str]


class Warm:
    """The process that forks; one program at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", __name__],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        atexit.register(self.end)

    def run(
        self, arguments: Sequence[str], folder: Path, variables: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end; its outputs are files. Raises TimeoutExpired."""
        sent, told = self._process.stdin, self._process.stdout
        assert sent is not None and told is not None
        with tempfile.TemporaryDirectory() as outputs:
            out, err = Path(outputs) / "out", Path(outputs) / "err"
            words, environment = list(arguments), dict(variables)
            request: Request = (words, str(folder), environment, str(out), str(err))
            sent.write(json.dumps(request) + "\n")
            sent.flush()
            ready, _, _ = select.select([told], [], [], timeout)
            if not ready:
                self.end()
                _warm.cache_clear()
                raise subprocess.TimeoutExpired(list(arguments), timeout, *map(_text, (out, err)))
            answer = told.readline()
            assert answer, "the process that forks has ended"
            return subprocess.CompletedProcess(list(arguments), int(answer), _text(out), _text(err))

    def end(self) -> None:
        """End it, and a program that still runs."""
        atexit.unregister(self.end)
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def warm_run(
    arguments: Sequence[str],
    folder: Path,
    variables: Mapping[str, str] | None = None,
    *,
    timeout: float = 50,
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments, `-m MODULE …`, `-c TEXT …` or `FILE …`, to its end.

    Warnings are errors. What it prints is captured; it has nothing to read.
    """
    return _warm().run(arguments, folder, os.environ if variables is None else variables, timeout)


@cache
def _warm() -> Warm:
    return Warm()


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


def _next_program(asked: TextIO, answers: TextIO) -> list[str]:
    """Fork for each program that is asked for; return its arguments, in the fork."""
    for line in asked:
        asked_for: Request = json.loads(line)
        arguments, folder, variables, out, err = asked_for
        child = os.fork()
        if child == 0:
            asked.close()
            answers.close()
            _become(folder, variables, out, err)
            return arguments
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()
    os._exit(0)


def _become(folder: str, variables: dict[str, str], out: str, err: str) -> None:
    """Take the place, the variables and the outputs that a program is to have."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)


def _run(arguments: list[str]) -> None:
    """Run what follows `python` on a command line, as the main program."""
    first, *rest = arguments
    if first == "-m":
        sys.argv = rest
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path[0] = ""
        names: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
        exec(compile(rest[0], "<string>", "exec"), names)
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(first).parent)
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    for library in LIBRARIES:
        importlib.import_module(library)
    assert not sys.modules.keys() & set(OURS), "what is ours is loaded by each program"
    gc.collect()
    gc.freeze()
    _run(_next_program(os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")))
