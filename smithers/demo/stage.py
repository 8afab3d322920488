"""The stage of the demonstration: starts the processes, tells what happens, and checks it.

Everything it claims has been seen: a step that does not happen in time is a `DemoFailed`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reactive_sqlite.dialect import sqlite3
from smithers.db import SmithersDB, create_smithers_db, locate
from smithers.demo.cast import Cast, DemoFailed, Say

BEGUN = "demo_begins"
APPROVAL = Path(__file__).with_name("approve.sql")


def perform(path: Path, say: Say) -> None:
    """Run the demonstration on a database of its own at `path`.

    `say(who, text, seconds)` is called with every line to show, always on this thread. Raises
    DemoFailed.
    """
    with Cast(path, say) as cast:
        cast.say("", f"Three programs will work on one database: {path}")
        _clear(path)
        cast.say("", "1. A second process subscribes to the phase, state.observe('phase'):")
        cast.start("subscriber")
        cast.expect(("subscriber", "phase is not set yet"))
        cast.say("", "2. A workflow: a loop over state.signal('phase') and a real agent process.")
        cast.start("workflow")
        told = [("subscriber", f"phase {json.dumps(phase)}") for phase in ("start", "review")]
        cast.expect(*told, ("subscriber", 'phase "approval"'), ("workflow", 'phase is "approval"'))
        cast.say("", "3. A third program, which knows nothing of Python, writes to the file:")
        _approve(path, cast)
        told = [("subscriber", f"phase {json.dumps(phase)}") for phase in ("approved", "done")]
        cast.expect(*told, ("workflow", 'phase is "done"'))
        cast.finish("workflow")
        with create_smithers_db(path) as db:
            cast.say("", "4. History has it all, with what caused each change:")
            review = _tell_history(db, cast)
            cast.say("", f"5. Time travel, db.state.replay_to({review!r}): the subscriber follows.")
            db.state.replay_to(review)
            cast.expect(("subscriber", f'phase "review" (replay:{review})'))
            _check(db, review)
        cast.finish("subscriber")
        cast.say("", "Done. The database is still there; have a look:")
        place = shlex.quote(str(path))
        for command in ("db history", "db state", "db watch"):
            cast.say("", f"    {_program('smithers')} {command} --path {place}")
        python = _program(Path(sys.executable).name)
        cast.say("", f"    {python} -m smithers.demo.subscriber {place}   (in another terminal)")


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


def _approve(path: Path, cast: Cast) -> None:
    program = shutil.which("sqlite3")
    file, sql = str(locate(path)), APPROVAL.read_text(encoding="utf-8").strip()
    if program is None:
        cast.say("sqlite3", "(that program is not installed: Python's module stands in for it)")
        cast.say("sqlite3", sql)
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute(sql)
        return
    # In double quotes, which nothing in it needs: `shlex.quote` would fill it with '"'"'.
    cast.say("sqlite3", f'$ sqlite3 {shlex.quote(file)} "{sql}"')
    # A busy writer makes it wait, like everybody else.
    command = [program, "-cmd", ".timeout 5000", file, sql]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise DemoFailed(f"sqlite3 said: {done.stdout.strip()}")


def _tell_history(db: SmithersDB, cast: Cast) -> str:
    """Show this run's history of the phase and return the id at which it became "review"."""
    review = ""
    for transition in _this_run(db):
        cause = transition.trigger or "no trigger: another program"
        values = f"{json.dumps(transition.previous_value)} → {json.dumps(transition.value)}"
        cast.say("history", f"{transition.id:>4}  {values}  ({cause})")
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


def _program(name: str) -> str:
    """Write a program of this installation so that the reader's shell finds it."""
    ours = Path(sys.executable).with_name(name)
    found = shutil.which(name)
    if not ours.exists() or (found is not None and Path(found).samefile(ours)):
        return name
    return shlex.quote(os.path.relpath(ours))
