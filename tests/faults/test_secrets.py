"""Who can read what is stored: modes of files, what is logged; what we depend on, and why."""

from __future__ import annotations

import ast
import logging
import os
import re
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import sqlite3
from smithers import create_async_smithers_db, create_smithers_db
from tests.smithers.commandline import environment, in_process

ROOT = Path(__file__).parents[2]
SECRET = "hunter2-correct-horse"
# What is told of: where the file is, by what it is watched, and the error of the operating system.
LOGGED = {"self._path", "backend or self.backend", "backend", "error", "reasons"}

# All that this package makes: the database and its log, memories of project and user, a dump.
EVERYTHING = """
import os, sys
os.umask(int(sys.argv[2], 8))
from smithers import create_smithers_db
from smithers.cli import main
place = os.path.join(sys.argv[1], ".smithers", "data")
db = create_smithers_db(place)
db.state.set("a", 1)
db.execution.start("Work")
db.memories.add_fact("project", "seen here", scope="project")
db.memories.add_fact("user", "seen everywhere", scope="global")
db.dump(os.path.join(sys.argv[1], "dump.jsonl"))
assert main(["db", "export", os.path.join(sys.argv[1], "export.jsonl"), "--path", place]) == 0
made = os.path.join(sys.argv[1], "made", "by", "command")
assert main(["db", "set", "a", "1", "--create", "--path", made]) == 0
os.kill(os.getpid(), 9)  # so that logs and their indexes stay
"""


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_all_that_is_made_is_for_this_user_alone_memories_and_dumps_too(
    tmp_path: Path, umask: str
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING, str(place), umask],
        env={**environment(), "SMITHERS_HOME": str(place / "home" / "of" / "user")},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == -9, done.stderr
    modes = {
        str(path.relative_to(place)): (path.is_dir(), stat.S_IMODE(path.stat().st_mode))
        for path in place.rglob("*")
    }
    wrong = {
        name: oct(mode)
        for name, (is_directory, mode) in modes.items()
        if mode != (0o700 if is_directory else 0o600)
    }
    assert wrong == {}
    databases = [name for name in modes if name.endswith("db.sqlite")]
    assert len(databases) >= 2, "that of the workflow, and that of the command line"
    assert any(name.startswith(".smithers/memories") for name in modes), sorted(modes)
    assert any(name.startswith("home/of/user") for name in modes), sorted(modes)
    assert {"dump.jsonl", "export.jsonl"} <= modes.keys()
    assert any(name.endswith("-wal") for name in modes), "logs hold values as well"


# -- what is logged --------------------------------------------------------------------------------


async def test_no_value_is_logged_not_even_where_all_is_and_things_go_wrong(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(1)
    with create_smithers_db(tmp_path) as db:
        db.state.set("password", SECRET)
        db.state.set_many({"a": [SECRET], "b": {SECRET: 1}}, trigger=SECRET)
        db.state.observe("password").subscribe(lambda value: None)
        id = db.execution.start("Work", config={"token": SECRET})
        with db.phases.open("plan"), db.agents.open(SECRET) as agent:
            db.tools.fail(db.tools.start(agent, "Read", SECRET), SECRET)
        db.memories.add_fact("key", SECRET)
        db.memories.search(SECRET)
        with suppress(sqlite3.Error):
            db.query("SELECT * FROM nothing WHERE a = $1", [SECRET])
        with suppress(TypeError):
            db.state.set("a", {1: SECRET})
        with pytest.raises(sqlite3.IntegrityError):
            db.query("UPDATE state SET value = $1", [f"[{SECRET}"], write=True)
        db.execution.fail(id, SECRET)
        db.dump(tmp_path / "dump")
        db.check()
    async with create_async_smithers_db(tmp_path) as again:
        await again.state.set("password", SECRET)
        await again.state.get("password")
    told = "".join(f"{record.getMessage()} {record.exc_text}\n" for record in caplog.records)
    assert SECRET not in told
    written = capfd.readouterr()
    assert SECRET not in written.out + written.err


def test_a_command_that_fails_does_not_repeat_the_value(tmp_path: Path) -> None:
    create_smithers_db(tmp_path).close()
    os.truncate(tmp_path / "db.sqlite", 8192)
    done = in_process("db", "set", "password", f'"{SECRET}"', "--path", str(tmp_path))
    assert done.code == 1
    assert SECRET not in done.out + done.err


def test_what_is_logged_is_a_path_a_way_of_watching_and_an_error() -> None:
    found = [
        f"{path.relative_to(ROOT)}, line {call.lineno}: {ast.unparse(call)}"
        for path, call in calls()
        if isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value) in ("logger", "logging", "self._logger", "log")
        and call.func.attr in vars(logging.Logger)
        and not (
            isinstance(call.args[0], ast.Constant)
            and {ast.unparse(each) for each in call.args[1:]} <= LOGGED
        )
    ]
    assert found == []


# -- what is depended on ---------------------------------------------------------------------------


def test_every_dependency_has_its_reason_and_every_reason_its_dependency() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        read = tomllib.load(file)
    wanted = {
        name(requirement)
        for group in (
            read["build-system"]["requires"],
            read["project"]["dependencies"],
            *read["project"]["optional-dependencies"].values(),
        )
        for requirement in group
    }
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _, _, section = text.partition("## Every dependency and its reason")
    reasons: dict[str, str] = {}
    for cell, reason in re.findall(r"^\| (`[^|]+) \| ([^|]+) \|$", section, re.MULTILINE):
        first = ""
        for found in re.findall(r"`([^`]+)`", re.sub(r"\([^)]*\)", "", cell)):
            first = first if found.startswith("-") else found
            reasons[first + found if found.startswith("-") else found] = reason
    assert reasons.keys() == wanted
    assert all(len(reason.split()) >= 3 for reason in reasons.values()), reasons


def name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return found[0].lower()


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for package in ("reactive_sqlite", "smithers"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def calls() -> Iterator[tuple[Path, Any]]:
    for path, tree in trees():
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, ast.Call))
