"""The stage of the demonstration: starts the processes, tells what happens, and checks it.

Everything it claims has been seen: a step that does not happen in time is a `DemoFailed`.
"""

from __future__ import annotations

import contextlib
import json
import queue
import shlex
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from smithers.db import SmithersDB, create_smithers_db, locate
from smithers.errors import SmithersError

STEP_SECONDS = 25.0
BEGUN = "demo_begins"
APPROVAL = Path(__file__).with_name("approve.sql")

Say = Callable[[str, str], None]


class DemoFailed(SmithersError):
    """Something that the demonstration shows did not happen."""


def perform(path: Path, say: Say) -> None:
    """Run the demonstration on a database of its own at `path`.

    `say(who, text)` is called with every line to show. Raises DemoFailed.
    """
    say("", f"Three programs will work on one database: {path}")
    _clear(path)
    with contextlib.ExitStack() as stack:
        subscriber = stack.enter_context(_Actor("subscriber", path, say))
        say("", "1. A second process subscribes to the phase, state.observe('phase'):")
        subscriber.expect("phase is not set yet")
        say("", "2. A workflow runs: a loop over state.signal('phase') and a real agent process.")
        workflow = stack.enter_context(_Actor("workflow", path, say))
        for phase in ("start", "review", "approval"):
            subscriber.expect(f"phase {json.dumps(phase)}")
        say("", "3. A third program, which knows nothing of Python, writes to the file:")
        _approve(path, say)
        subscriber.expect('phase "approved" · no trigger')
        subscriber.expect('phase "done"')
        workflow.expect('phase is "done"')
        workflow.finish()
        with create_smithers_db(path) as db:
            say("", "4. History has it all, with what caused each change:")
            review = _tell_history(db, say)
            say("", f"5. Time travel: db.state.replay_to({review!r}), and the subscriber follows:")
            db.state.replay_to(review)
            subscriber.expect(f'phase "review" · replay:{review}')
            _check(db, review)
        subscriber.finish()
    say("", "Done. The database is still there; have a look:")
    for command in ("db history", "db state", "db watch"):
        say("", f"    smithers {command} --path {path}")
    say("", f"    python -m smithers.demo.subscriber {path}     (in another terminal)")


class _Actor:
    """One of the processes: its output is shown line by line, and can be waited for."""

    def __init__(self, name: str, path: Path, say: Say) -> None:
        self._name = name
        self._say = say
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"smithers.demo.{name}", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> _Actor:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def expect(self, beginning: str) -> None:
        """Wait until it prints a line that begins so."""
        while True:
            try:
                line = self._lines.get(timeout=STEP_SECONDS)
            except queue.Empty:
                raise DemoFailed(f"the {self._name} did not say {beginning!r} in time") from None
            if line is None:
                raise DemoFailed(f"the {self._name} ended before it said {beginning!r}")
            if line.startswith(beginning):
                return

    def finish(self) -> None:
        """Tell it that nothing more comes, and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(STEP_SECONDS)
        except subprocess.TimeoutExpired:
            raise DemoFailed(f"the {self._name} did not end") from None
        if code:
            raise DemoFailed(f"the {self._name} ended with exit code {code}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._say(self._name, line.rstrip("\n"))
            self._lines.put(line)
        self._lines.put(None)


def _clear(path: Path) -> None:
    """Begin with an empty state; a database that is not the demonstration's is left alone."""
    file = locate(path)
    fresh = file is None or not file.exists()
    with create_smithers_db(path) as db:
        first = db.state.history(limit=None)[:1]
        if not fresh and (not first or first[0].trigger != BEGUN):
            raise DemoFailed(f"{path} is another database; choose a --path of its own")
        db.state.set("demo", "smithers", trigger=BEGUN)
        db.state.restore({"demo": "smithers"}, trigger=BEGUN)


def _approve(path: Path, say: Say) -> None:
    program = shutil.which("sqlite3")
    file, sql = str(locate(path)), APPROVAL.read_text(encoding="utf-8").strip()
    if program is None:
        say("sqlite3", "(the sqlite3 program is not installed: Python's module stands in for it)")
        say("sqlite3", sql)
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute(sql)
        return
    say("sqlite3", f"$ sqlite3 {shlex.quote(file)} {shlex.quote(sql)}")
    # A busy writer makes it wait, like everybody else.
    command = [program, "-cmd", ".timeout 5000", file, sql]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise DemoFailed(f"sqlite3 said: {done.stdout.strip()}")


def _tell_history(db: SmithersDB, say: Say) -> str:
    """Show this run's history of the phase and return the id at which it became "review"."""
    review = ""
    for transition in _this_run(db):
        cause = transition.trigger or "no trigger: another program"
        values = f"{json.dumps(transition.previous_value)} → {json.dumps(transition.value)}"
        say("history", f"{transition.id:>4}  {values}  ({cause})")
        if transition.value == "review":
            review = transition.id
    if not review:
        raise DemoFailed("history does not know that the phase was once 'review'")
    return review


def _this_run(db: SmithersDB) -> Iterator[Any]:
    begun = db.state.history("demo", limit=1)[0].id
    yield from db.state.history("phase", limit=None, since=begun)


def _check(db: SmithersDB, review: str) -> None:
    causes: list[str | None] = [t.trigger for t in _this_run(db) if not t.deleted]
    expected: list[str | None] = [
        "workflow_begins",
        "compile_finished",
        "review_finished",
        None,
        "digest_finished",
        f"replay:{review}",
    ]
    if causes != expected:
        raise DemoFailed(f"history has the causes {causes}, not {expected}")
    if db.state.get_all() != db.state.state_at(review):
        raise DemoFailed("the state is not what it was")
