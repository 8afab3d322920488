"""Make the file of the present schema, to be committed before the first migration that follows it.

python -m tests.smithers.schemas
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from reactive_sqlite import sqlite3
from smithers import SmithersDB, create_smithers_db
from smithers.schema import SCHEMA_VERSION
from tests.smithers.schemas import FOLDER

_REMEMBERED = """
    INSERT INTO memories (category, key, content, confidence)
    VALUES ('learning', 'tests', 'The tests need a database', 0.75)
"""


def main() -> int:
    """Make the file, unless there is one of this version."""
    target = FOLDER / f"{SCHEMA_VERSION}.sqlite"
    if target.exists():
        sys.stderr.write(f"{target.name} exists, and what was released never changes\n")
        return 1
    with tempfile.TemporaryDirectory() as place:
        make(Path(place), target)
    return 0


def make(place: Path, target: Path) -> None:
    """Fill a database with something of everything and put it into one file."""
    with create_smithers_db(place) as db:
        fill(db)
    connection = sqlite3.connect(place / "db.sqlite", isolation_level=None)
    # Not the name of the machine that it is made on.
    connection.execute("UPDATE executions SET owner = 'example:1'")
    # As another program does it: recorded without a cause.
    connection.execute("UPDATE state SET value = '4' WHERE key = 'attempts'")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("VACUUM INTO ?", (str(target),))
    connection.close()


def fill(db: SmithersDB) -> None:
    """Write something of everything by the calls of this package."""
    db.state.set("phase", "start", trigger="init")
    db.state.set("phase", "review", trigger="tests_passed")
    db.state.set_many({"attempts": 3, "reviewer": "ada"}, trigger="implemented")
    db.state.delete("reviewer", trigger="gone")
    db.database["notes"].insert({"id": 1, "text": "mine"}, pk="id")
    ended = db.execution.start("Feature", "scripts/feature.py", {"retries": 2})
    with db.phases.open("implement"):
        with db.steps.open("write"), db.agents.open("Write the code") as agent:
            tool = db.tools.start(agent, "Edit", {"path": "src/main.py"})
            db.tools.complete(tool, "done\n" * 100, "Edited src/main.py")
        db.state.set("phase", "done")
    db.vcs.log_commit(hash="a1b2c3", message="Add the feature", author="Ada", files_changed=3)
    db.vcs.log_snapshot(snapshot_id="s1", description="Before refactoring")
    db.vcs.log_review(
        review_id="r1", target="a1b2c3", approved=False, blocking=True, summary="No", issues=["a"]
    )
    db.execution.complete(ended, {"summary": "done"})
    db.execution.start("Cut off")
    db.query(_REMEMBERED, write=True)


if __name__ == "__main__":
    sys.exit(main())
