"""One `set` after the other with the n-th system call of a kind failing; run under the shim.

Run as `faulty.py FOLDER JOURNAL [long]`; prints one line of JSON for each fault: which, how the
call came out, and what is wrong with that. The shim is the preloaded library.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reactive_sqlite import ReactiveError, sqlite3
from smithers import SmithersDB, SmithersError, create_smithers_db

# As the shim numbers them.
KINDS = {"write": 1, "sync": 2, "truncate": 3, "lock": 4, "short": 5}
ERRORS = {
    "write": (errno.EIO, errno.ENOSPC),
    "sync": (errno.EIO,),
    "truncate": (errno.EIO,),
    "lock": (errno.EIO, errno.EAGAIN),
    "short": (0,),
}
TYPED = (sqlite3.Error, SmithersError, ReactiveError)


@dataclass(frozen=True)
class Fault:
    """The calls of a kind that fail: the n-th, and with `lasting` all after it."""

    kind: str
    n: int
    error: int
    lasting: bool


@dataclass(frozen=True)
class Outcome:
    """What came of a call with a fault; `wrong` is empty where all was well."""

    fault: Fault
    reached: bool
    raised: str
    wrong: list[str]


class Shim:
    """The preloaded library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ["LD_PRELOAD"])

    def arm(self, fault: Fault) -> None:
        self._library.fault_arm(KINDS[fault.kind], fault.n, fault.error, int(fault.lasting))

    def disarm(self) -> int:
        return int(self._library.fault_disarm())


def every_fault(folder: Path, journal: str, *, long: bool) -> Iterator[Outcome]:
    """Let each call of each kind fail, until there is no n-th one any more."""
    shim, number = Shim(), 0
    model = folder / "model"
    make(model, journal)
    for kind, error, lasting in _variants(journal, long=long):
        for n in range(1, 1000):
            number += 1
            place = folder / str(number)
            place.mkdir()
            shutil.copy(model / "db.sqlite", place)
            fault = Fault(kind, n, error, lasting)
            # More pages than one, each written by a call of its own.
            outcome = one(place, journal, shim, fault, "new " * (3000 if long else 100))
            yield outcome
            if not outcome.reached:
                break


def _variants(journal: str, *, long: bool) -> Iterator[tuple[str, int, bool]]:
    for kind, errors in ERRORS.items():
        for error in errors:
            for lasting in (False, True) if kind != "short" else (False,):
                if kind == "lock" and lasting and journal == "wal":
                    # SQLite tries for ten seconds before it gives a lock in shared memory up.
                    wanted = long and error == errno.EIO
                elif kind == "lock":
                    wanted = long or lasting == (error == errno.EAGAIN)
                else:
                    wanted = long or (
                        lasting == (error == errno.ENOSPC)
                        and (journal == "wal" or error == errno.EIO)
                    )
                if wanted:
                    yield kind, error, lasting


def one(place: Path, journal: str, shim: Shim, fault: Fault, value: str) -> Outcome:
    """Set a value with the fault and look at what that has come to."""
    wrong: list[str] = []
    told: list[Any] = []
    raised = ""
    with create_smithers_db(place, watch=False, synchronous="FULL", busy_timeout=0.05) as db:
        db.database.conn.execute(f"PRAGMA journal_mode = {journal}")
        db.state.set("before", 1)
        db.state.observe("phase").subscribe(told.append)
        shim.arm(fault)
        try:
            db.state.set("phase", value, trigger="now")
        except TYPED as error:
            raised = f"{type(error).__name__}: {error}"
        except BaseException as error:
            wrong.append(f"untyped: {error!r}")
        reached = shim.disarm() >= fault.n
        expected = "old" if raised else value
        if raised and journal != "wal":
            # Behind the point at which a rollback journal is void, SQLite raises for what it has
            # committed. Then everybody has to see it.
            expected = db.state.get("phase")
            if expected not in ("old", value):
                wrong.append(f"neither nor: {expected[:5]!r}")
        wrong += [f"here: {what}" for what in differences(db, expected)]
        try:
            db.state.set("after", 1)  # the handle works again when the disk does
        except TYPED as error:
            wrong.append(f"the next set: {error}")
        if told != (["old"] if expected == "old" else ["old", value]):
            wrong.append(f"the observer was told {[text[:5] for text in told]}")
    with closing(sqlite3.connect(place / "db.sqlite")) as plain:
        if plain.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            wrong.append("the file is damaged")
    with create_smithers_db(place, watch=False) as db:
        wrong += [f"the next open: {what}" for what in differences(db, expected)]
        wrong += [found.message for found in db.check(quick=True) if found.level == "error"]
    return Outcome(fault, reached, raised, wrong)


def make(place: Path, journal: str) -> None:
    """Make a database with a write-ahead log or without one; of those, handles choose their own."""
    with create_smithers_db(place, watch=False) as db:
        db.state.set("phase", "old", trigger="then")
    if journal != "wal":
        with closing(sqlite3.connect(place / "db.sqlite")) as plain:
            plain.execute("PRAGMA journal_mode = delete")


def differences(db: SmithersDB, expected: str) -> Iterator[str]:
    """Name what is not as it is after the call has returned, or after it has raised."""
    found, newest = db.state.get("phase"), db.state.history("phase")[-1]
    if found != expected:
        yield f"the value is {found[:5]!r}, not {expected[:5]!r}"
    if newest.value != found:
        yield "history says another value"


if __name__ == "__main__":
    for outcome in every_fault(Path(sys.argv[1]), sys.argv[2], long=sys.argv[3:] == ["long"]):
        print(json.dumps(asdict(outcome)), flush=True)
