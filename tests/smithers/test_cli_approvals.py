"""`smithers db approve | deny`: answers from another process to what a workflow waits at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from smithers import SmithersDB
from tests.smithers.commandline import Run, environment, in_process

# Waits at a gate in a process of its own, and says what was answered.
WAITING = """
import asyncio, sys
from smithers import create_async_smithers_db

async def main():
    async with create_async_smithers_db(sys.argv[1]) as db, db.run("Release") as run:
        gate = run.human("deploy", "Deploy to production?")
        print("waiting", flush=True)
        answer = await gate
        print(answer.status, answer.comment)

asyncio.run(main())
"""


def ask(db: SmithersDB, key: str = "deploy") -> str:
    """Ask in the name of an execution of its own; return its id."""
    id = db.execution.start("Release")
    db.approvals.request(id, key, "Deploy to production?")
    return id


@pytest.mark.parametrize(("command", "status"), [("approve", "approved"), ("deny", "denied")])
def test_a_waiting_workflow_hears_the_answer(
    path: Path, db: SmithersDB, command: str, status: str
) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", WAITING, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert waiting.stdout is not None and waiting.stdout.readline() == "waiting\n"
    db.approvals.observe("pending").wait(lambda gates: len(gates) == 1, timeout=30)
    done = in_process("db", command, "deploy", "--comment", "after the tests", "--path", str(path))
    assert (done.code, done.out) == (0, f"deploy {status}: after the tests\n")
    out, _ = waiting.communicate(timeout=30)
    assert (waiting.returncode, out) == (0, f"{status} after the tests\n")


def test_the_answer_as_json(cli: Run, db: SmithersDB) -> None:
    id = ask(db)
    answer = cli("deny", "deploy", "--json").json
    assert (answer["execution_id"], answer["key"], answer["status"]) == (id, "deploy", "denied")
    assert answer["comment"] is None and answer["decided_at"] is not None


def test_where_several_wait_one_is_named(cli: Run, db: SmithersDB) -> None:
    first, second = ask(db), ask(db)
    done = cli("approve", "deploy")
    assert done.code == 1 and first in done.err and second in done.err
    assert cli("approve", "deploy", "--execution", second[-8:]).out == "deploy approved\n"
    assert [gate.execution_id for gate in db.approvals.list("pending")] == [first]
    assert cli("deny", "deploy").out == "deploy denied\n"


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("approve", "unknown"), 1, "there is no waiting gate 'unknown'"),
        (("deny", "unknown"), 1, "there is no waiting gate 'unknown'"),
        (("approve", ""), 1, "the key of a gate is not empty"),
        (("approve", "deploy", "--execution", "nonsense"), 1, "there is no execution 'nonsense'"),
        (("approve",), 2, "Missing argument 'KEY'"),
        (("deny", "deploy", "again"), 2, "unexpected extra argument"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_and_decides_nothing(
    cli: Run, db: SmithersDB, args: tuple[str, ...], code: int, message: str
) -> None:
    ask(db)
    done = cli(*args)
    assert done.code == code and message in done.err and "Traceback" not in done.err
    assert [gate.status for gate in db.approvals.list()] == ["pending"]


def test_a_gate_is_answered_once(cli: Run, db: SmithersDB) -> None:
    ask(db)
    assert cli("approve", "deploy").code == 0
    assert cli("deny", "deploy").code == 1
    assert [gate.status for gate in db.approvals.list()] == ["approved"]


def test_hostile_text_reaches_no_terminal(cli: Run, db: SmithersDB) -> None:
    hostile = "\x1b[2J\x1b]0;title\x07\r\n\t\u202e"
    ask(db, hostile)
    done = cli("approve", hostile, "--comment", hostile, columns=80)
    assert done.code == 0 and all(mark.isprintable() for mark in done.out.rstrip("\n"))
    assert db.approvals.list()[0].comment == hostile
