"""A database on a disk of 2 MB that becomes full; run alone in a mount namespace of its own.

Run as `full.py FOLDER`, which it mounts; prints what came of it as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from reactive_sqlite import sqlite3
from smithers import SmithersError, create_smithers_db

MANY = 50
SIZE = "2m"


def main(folder: Path) -> dict[str, Any]:
    """Fill the disk in the middle of the work, and free it again."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(folder)], check=True)
    place, found = folder / "workflow", dict[str, Any]()
    told: list[Any] = []
    with create_smithers_db(place) as db:
        db.state.set("n", 0)
        db.state.observe("n").subscribe(told.append)

        def write() -> None:
            n = db.state.get("n") + 1
            db.state.set_many({"n": n, **{f"k{i}": [n] * 200 for i in range(MANY)}})

        write()
        ballast = folder / "ballast"
        fill(ballast)
        written, found["set_many"] = 1, ""
        while not found["set_many"]:
            found["set_many"] = error_of(write)
            written += not found["set_many"]
        whole = {"n": written, **{f"k{i}": [written] * 200 for i in range(MANY)}}
        found["is whole"] = db.state.get_all() == dict(sorted(whole.items()))
        found["is observed"] = told[-1] == written
        found["is history"] = db.state.state_at(db.state.history()[-1].id) == db.state.get_all()
        fill(ballast)
        found["set"] = error_of(lambda: db.state.set("large", "x" * 100_000))
        found["has"] = db.state.has("large")
        found["dump"] = error_of(lambda: db.dump(folder / "dump.jsonl"))
        found["left by dump"] = [each.name for each in folder.iterdir() if "dump" in each.name]
        found["open"] = error_of(lambda: create_smithers_db(folder / "another").close())
        found["beside"] = error_of(lambda: create_smithers_db(place).close())
        command = ("smithers", "db", "set", "x", json.dumps("x" * 100_000), "--path", str(place))
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
        found["command"] = [done.returncode, done.stdout, done.stderr]
        ballast.unlink()
        write()
        found["works again"] = db.state.get("n") == told[-1] == written + 1
        found["check"] = [each.message for each in db.check() if each.level == "error"]
    with create_smithers_db(place) as db:
        found["next open"] = db.state.get("n") == written + 1
    with create_smithers_db(folder / "another") as db:
        found["another"] = db.state.get_all()
    return found


def fill(ballast: Path) -> None:
    """Write until nothing more can be written."""
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)


def error_of(call: Callable[[], object]) -> str:
    """Return what a call raised, with a mark where that is no type of its own."""
    try:
        call()
    except (sqlite3.Error, SmithersError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
