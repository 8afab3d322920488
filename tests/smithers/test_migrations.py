"""Files of every released schema, brought up to date: all or nothing, and nothing is lost."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import sqlite3
from smithers import CannotOpen, create_smithers_db
from smithers.schema import SCHEMA_VERSION, STEPS
from tests.smithers.schemas import fixtures
from tests.smithers.schemas.__main__ import make

# The SQL of all migrations up to a released version of the schema.
RELEASED = {
    1: "885f1757375fd0ff2c0a6d03eafedc16ed258dd2208c87939fdf793477f3deb8",
    8: "587653a3e8c1e18cf5cfbbcbacc9e5f07016418c4022fc0e54569c780be6734f",
}
# Those of the version in the making: they may still change.
UNRELEASED: tuple[str, ...] = ("0009_identity",)

STATEMENTS = [
    (step, place)
    for step, (_, statements) in enumerate(STEPS)
    for place in range(len(statements))
    if step >= min(RELEASED)
]
MIGRATOR = """
import sys
from smithers import create_smithers_db
print("ready", flush=True)
sys.stdin.readline()
with create_smithers_db(sys.argv[1]) as db:
    db.state.update("opened", lambda n: n + 1, default=0)
"""
DYING = """
import os, signal, sys
import smithers.schema as schema
step, place = int(sys.argv[2]), int(sys.argv[3])
class Deadly(tuple):
    def __iter__(self):
        for number, statement in enumerate(tuple.__iter__(self)):
            yield statement
            if number == place:
                os.kill(os.getpid(), signal.SIGKILL)
steps = list(schema.STEPS)
steps[step] = (steps[step][0], Deadly(steps[step][1]))
schema.STEPS = tuple(steps)
from smithers import create_smithers_db
create_smithers_db(sys.argv[1])
"""


@pytest.fixture(params=[version for version in RELEASED if version < SCHEMA_VERSION])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory with a file of a released schema."""
    shutil.copy(fixtures()[request.param], tmp_path / "db.sqlite")
    return tmp_path


def content(file: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables, and the schema.

    Not up to which schema tracked tables were found sound: each opening may write that.
    """
    with closing(sqlite3.connect(file)) as plain:
        tables = plain.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
        ).fetchall()
        wanted = {"_reactive_tracked": "id, shape, current"}
        found = {
            name: sorted(
                plain.execute(f'SELECT {wanted.get(name, "*")} FROM "{name}"').fetchall(), key=repr
            )
            for (name,) in tables
        }
        found["PRAGMA user_version"] = plain.execute("PRAGMA user_version").fetchall()
        return found


def values(file: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(file)) as plain:
        rows = plain.execute("SELECT key, value FROM state ORDER BY key").fetchall()
    return {key: json.loads(value) for key, value in rows}


def columns(file: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(file)) as plain:
        rows = plain.execute(
            "SELECT t.name, c.name FROM pragma_table_list AS t, pragma_table_xinfo(t.name) AS c"
            " WHERE t.schema = 'main' AND t.type = 'table' ORDER BY t.name, c.cid"
        ).fetchall()
    found: dict[str, list[str]] = {}
    for table, column in rows:
        found.setdefault(table, []).append(column)
    return found


# -- the rules of releasing ------------------------------------------------------------------------


def digest(version: int) -> str:
    statements = [text for _, statements in STEPS[:version] for text in statements]
    return hashlib.sha256("\0".join(statements).encode()).hexdigest()


@pytest.mark.parametrize("version", RELEASED)
def test_released_migrations_never_change(version: int) -> None:
    assert digest(version) == RELEASED[version], (
        f"files of schema {version} are out there: add a migration instead"
    )


def test_a_migration_is_added_only_when_what_was_released_before_has_a_fixture() -> None:
    newest = max(RELEASED)
    assert tuple(name for name, _ in STEPS[newest:]) == UNRELEASED, (
        "a migration was added. Where the version in the making has it, name it in UNRELEASED. "
        "Where a release has those in UNRELEASED, first go back to it, run "
        "`python -m tests.smithers.schemas`, commit the file that makes, and add its digest "
        f"to RELEASED ({digest(len(STEPS))} is that of version {len(STEPS)} as it is now)"
    )
    assert set(fixtures()) == set(RELEASED), "a file for each released version, and for no other"


def test_the_fixture_of_the_present_schema_can_be_made(tmp_path: Path) -> None:
    file = tmp_path / "made.sqlite"
    place = tmp_path / "place"
    place.mkdir()
    make(place, file)
    held = content(file)
    assert held["PRAGMA user_version"] == [(SCHEMA_VERSION,)]
    empty = {name for name, rows in held.items() if not rows}
    inner = ("_smithers_", "_reactive_")
    assert {name for name in empty if not name.startswith(inner)} == set(), (
        "something of everything"
    )
    with create_smithers_db(file) as db:
        assert db.state.get_all() == {"attempts": 4, "phase": "done"}
        assert [found.level for found in db.check() if found.level == "error"] == []


# -- what a migration keeps ------------------------------------------------------------------------


def test_an_old_file_keeps_everything_and_then_works(old: Path) -> None:
    file = old / "db.sqlite"
    before, shape = content(file), columns(file)
    with create_smithers_db(old) as db:
        for table, names in shape.items():
            if table in ("_sqlite_migrations", "sqlite_schema", "_reactive_tracked"):
                continue  # what a migration is there to change
            listed = ", ".join(f'"{name}"' for name in names)
            rows = [tuple(row.values()) for row in db.query(f'SELECT {listed} FROM "{table}"')]
            assert set(before[table]) <= set(rows), f"rows of {table} were lost or changed"
            assert table == "sqlite_sequence" or len(rows) == len(before[table])
        history = db.state.history()
        assert [t.id for t in history] == [f"t{seq}" for seq in range(1, len(history) + 1)]
        assert db.state.state_at(history[-1].id) == db.state.get_all()
        assert [found.message for found in db.check() if found.level == "error"] == []
        assert db.query("PRAGMA user_version") == [{"user_version": SCHEMA_VERSION}]
        # Its triggers are those of the present schema: old rows and new ones go together.
        key = db.state.keys()[0]
        previous = db.state.get(key)
        written = db.state.set(key, "new", trigger="after")
        assert (written.seq, written.previous_value) == (len(history) + 1, previous)
        db.query("DELETE FROM state WHERE key = $1", [key], write=True)
        assert db.state.history(key)[-1].deleted
        db.state.replay_to(history[-1].id)
        assert db.state.get(key) == previous
        id = db.execution.start("After")
        with db.phases.open("review"), db.agents.open("Review") as agent:
            db.tools.start(agent, "Read", {})
        db.execution.complete(id)
        done = db.execution.get(id)
        assert done is not None and done.total_agents == done.total_tool_calls == 1
    with create_smithers_db(old, read_only=True) as db:
        assert db.state.get(key) == previous


def test_an_old_file_is_as_a_new_one_afterwards(old: Path, tmp_path: Path) -> None:
    create_smithers_db(old).close()
    create_smithers_db(tmp_path / "new").close()
    schemas: list[list[tuple[Any, ...]]] = []
    for file in (old / "db.sqlite", tmp_path / "new" / "db.sqlite"):
        with closing(sqlite3.connect(file)) as plain:
            schemas.append(
                plain.execute(
                    "SELECT type, name, sql FROM sqlite_master WHERE tbl_name <> 'notes'"
                    " ORDER BY type, name"
                ).fetchall()
            )
    assert schemas[0] == schemas[1]


def test_reading_only_an_old_file_says_what_to_do_and_leaves_it_alone(old: Path) -> None:
    before = (old / "db.sqlite").read_bytes()
    with pytest.raises(CannotOpen, match=r"its schema has version \d+.*open it once for writing"):
        create_smithers_db(old, read_only=True)
    assert (old / "db.sqlite").read_bytes() == before


# -- all of it or nothing --------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "place"), STATEMENTS)
def test_a_migration_that_fails_at_any_statement_leaves_the_old_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, place: int
) -> None:
    file = tmp_path / "db.sqlite"
    shutil.copy(fixtures()[max(version for version in RELEASED if version <= step)], file)
    before, kept = content(file), values(file)
    name, statements = STEPS[step]
    broken = (*statements[:place], "SELECT no_such_function()", *statements[place:])
    with monkeypatch.context() as patched:
        patched.setattr(
            "smithers.schema.STEPS", (*STEPS[:step], (name, broken), *STEPS[step + 1 :])
        )
        with pytest.raises(CannotOpen, match="no_such_function"):
            create_smithers_db(tmp_path)
    assert content(file) == before
    with create_smithers_db(tmp_path) as db:
        assert db.state.get_all() == kept, "and then it works"


@pytest.mark.parametrize(("step", "place"), [STATEMENTS[0], STATEMENTS[40], STATEMENTS[-1]])
@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_migration_that_is_killed_leaves_the_old_schema(
    tmp_path: Path, step: int, place: int, mode: str
) -> None:
    file = tmp_path / "db.sqlite"
    shutil.copy(fixtures()[max(version for version in RELEASED if version <= step)], file)
    with closing(sqlite3.connect(file)) as plain:
        plain.execute(f"PRAGMA journal_mode = {mode}")
    before, kept = content(file), values(file)
    command = [sys.executable, "-c", DYING, str(tmp_path), str(step), str(place)]
    done = subprocess.run(command, timeout=50, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert content(file) == before
    with create_smithers_db(tmp_path) as db:
        assert db.state.get_all() == kept, "and then it works"


def test_eight_processes_migrate_one_old_file_at_once(old: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", MIGRATOR, str(old)]
    pipe: dict[str, Any] = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    openers = [subprocess.Popen(command, text=True, **pipe) for _ in range(8)]
    for opener in openers:
        assert opener.stdout and opener.stdout.readline() == "ready\n"
    for opener in openers:
        assert opener.stdin
        opener.stdin.write("\n")
        opener.stdin.flush()
    for opener in openers:
        _, stderr = opener.communicate(timeout=50)
        assert (opener.returncode, stderr) == (0, "")
    with create_smithers_db(old) as db:
        assert db.state.get("opened") == 8
        applied = db.query(
            "SELECT name, count(*) AS n FROM _sqlite_migrations"
            " WHERE migration_set = 'smithers' GROUP BY name"
        )
        assert applied == [{"name": name, "n": 1} for name, _ in STEPS], "one of them did it"
