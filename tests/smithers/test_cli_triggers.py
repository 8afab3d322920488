"""`smithers db triggers`: how far each has come, what was set aside, and trying that again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smithers import SmithersDB, Transition, create_smithers_db
from tests.smithers.commandline import Run, below, cells, in_process

HEAD = ["name", "on", "state", "cursor", "lag", "dead", "attempts", "next try", "owner", "error"]


class Worker:
    """Handlers in another handle: one that fails while it is told to."""

    def __init__(self, path: Path) -> None:
        self.db = create_smithers_db(path)
        self.broken = True
        self.calls: list[Any] = []
        self.db.triggers.on("job", name="aside", retries=0)(self.handle)
        self.db.triggers.on("job", name="late")(self.handle)
        self.db.triggers.on_query("SELECT key FROM state", name="rows")(self.look)

    def look(self, rows: list[Any]) -> None:
        assert rows

    def handle(self, transition: Transition) -> None:
        self.calls.append(transition.value)
        if self.broken:
            raise ConnectionError("no route\nto host")


@pytest.fixture
def worker(path: Path, db: SmithersDB) -> Iterator[Worker]:
    found = Worker(path)
    for value in ("a", "b"):
        db.state.set("job", value)
    assert found.db.triggers.deliver() == 1, "the rows"
    yield found
    found.db.close()


def test_triggers_are_listed_with_what_they_have_set_aside(cli: Run, worker: Worker) -> None:
    table = cells(cli("triggers"))
    assert table[0] == HEAD
    aside, late, rows = table[1:4]
    assert aside == ["aside", "job", "idle", "t2", "0", "2", "0", "-", "-", "-"]
    assert late[:7] == ["late", "job", "retrying", "t0", "2", "0", "1"]
    assert late[7].startswith("20") and late[9].startswith('"ConnectionError: no route\\nto host')
    assert rows == ["rows", "SELECT key FROM state", "idle", *"--00---"]
    assert table[4] == [""]
    assert table[5] == ["trigger", "change", "error", "attempts", "set aside (UTC)", "retry"]
    assert [row[:2] for row in table[6:]] == [
        ["aside", 't1 job: "a"'],
        ["aside", 't2 job: "a" → "b"'],
    ]
    assert all(row[3] == "1" and row[5] == "no" for row in table[6:])


def test_the_same_as_json(cli: Run, worker: Worker) -> None:
    aside, late, rows = cli("triggers", "--json").json
    assert (aside["name"], aside["cursor"], aside["lag"], aside["dead"]) == ("aside", 2, 0, 2)
    first = aside["letters"][0]
    assert first["transition"]["value"] == "a"
    assert first["error"].startswith("ConnectionError: no route\nto host\nTraceback")
    assert (late["state"], late["attempts"], late["letters"]) == ("retrying", 1, [])
    assert (rows["key"], rows["lag"], rows["cursor"]) == (None, None, None)
    assert [one["name"] for one in cli("triggers", "--json", "--limit", "1").json] == ["aside"]


def test_a_terminal_shows_the_first_line_of_an_error(cli: Run, worker: Worker) -> None:
    done = cli("triggers", columns=160)
    assert done.code == 0 and "ConnectionError: no route" in done.out
    assert "Traceback" not in done.out and "to host" not in done.out


def test_a_retry_wakes_whoever_handles_it(cli: Run, worker: Worker, path: Path) -> None:
    worker.broken, worker.calls = False, []
    assert cli("triggers", "retry", "aside").out == "To be handled again: 2 changes of aside.\n"
    (aside, *_) = cli("triggers", "--json").json
    assert (aside["state"], aside["dead"], aside["requeued"]) == ("behind", 0, 2)
    done = in_process("db", "triggers", "retry", "late", "--path", str(path), "--json")
    assert (done.code, done.json) == (0, {"trigger": "late", "requeued": 0})
    assert worker.db.triggers.deliver() == 4, "what was late is tried at once"
    assert worker.calls == ["a", "b", "a", "b"]
    assert cells(cli("triggers"))[4:] == []


def test_a_trigger_that_nobody_handles_any_more_is_dropped(
    cli: Run, worker: Worker, db: SmithersDB
) -> None:
    assert cli("triggers", "drop", "aside").out == "Dropped: aside.\n"
    assert cli("triggers", "drop", "late", "--json").json == {"trigger": "late", "dropped": True}
    assert [trigger.name for trigger in db.triggers.list()] == ["rows"]


def test_the_path_may_stand_on_either_side(smithers: Run, worker: Worker, path: Path) -> None:
    place = ("--path", str(path))
    for args in (
        ("triggers", *place, "retry", "aside"),
        ("triggers", "retry", *place, "aside"),
    ):
        assert smithers("db", *args).code == 0
    assert smithers("db", "triggers", "retry", "aside").code == 1, "no database here"


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("retry", "unknown"), 1, "there is no trigger 'unknown'"),
        (("drop", "unknown"), 1, "there is no trigger 'unknown'"),
        (("retry", ""), 1, "the name of a trigger is not empty"),
        (("retry",), 2, "Missing argument 'NAME'"),
        (("bury", "aside"), 2, "No such command 'bury'"),
        (("--limit", "-1"), 2, "--limit"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    smithers: Run, worker: Worker, path: Path, args: tuple[str, ...], code: int, message: str
) -> None:
    done = smithers("db", "triggers", "--path", str(path), *args)
    assert done.code == code and message in done.err and "Traceback" not in done.err


def test_why_nothing_is_shown_is_said_as_it_is(cli: Run, db: SmithersDB) -> None:
    assert cli("triggers", columns=80).out == "There are no triggers.\n"
    assert (cli("triggers").out, cli("triggers", "--json").json) == ("", [])
    db.triggers.on("job", name="one")(print)
    assert cli("triggers", "--limit", "0", columns=80).out == "No trigger matches.\n"


def test_looking_changes_nothing(smithers: Run, worker: Worker, path: Path) -> None:
    worker.db.close()
    before = (path / "db.sqlite").read_bytes()
    assert below(smithers, path)("triggers").code == 0
    assert (path / "db.sqlite").read_bytes() == before


def test_hostile_text_in_every_column_reaches_no_terminal(cli: Run, db: SmithersDB) -> None:
    hostile = "\x1b[2J\x1b]0;title\x07\r\n\t\u2028\u202e日本語 🎉"

    def fail(_: Transition) -> None:
        raise RuntimeError(hostile)

    db.triggers.on(hostile, name=hostile, retries=0)(fail)
    db.triggers.on(hostile, name=hostile + "2")(fail)
    db.state.set(hostile, hostile)
    db.triggers.deliver()
    for columns in (0, 30, 80, 250):
        done = cli("triggers", columns=columns)
        assert done.code == 0 and "title" in done.out
        for line in done.out.split("\n"):
            assert all(mark.isprintable() or mark == "\t" for mark in line), line
    done = cli("triggers", "retry", hostile)
    assert all(mark.isprintable() for mark in done.out.rstrip("\n"))
