"""The command line: what it prints, what it changes, how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from smithers import SmithersDB, create_smithers_db
from smithers.cli import main


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SMITHERS_DB_PATH", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def smithers(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*args: str) -> Result:
        code = main(args)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def cli(smithers: Run, db: SmithersDB, path: Path) -> Run:
    """`smithers db … --path` on an open database, as beside a running workflow."""
    return lambda *args: smithers("db", *args, "--path", str(path))


def test_state_shows_keys_values_and_times(cli: Run, db: SmithersDB) -> None:
    assert cli("state").out == "The state is empty.\n"
    db.state.set_many({"phase": "review", "attempts": 3, "data": {"a": [1, None]}})
    lines = cli("state").out.splitlines()
    assert lines[0].split() == ["key", "value", "updated"]
    assert lines[2].split()[:2] == ["attempts", "3"]
    assert '{"a": [1, null]}' in lines[3]
    assert '"review"' in lines[4]
    assert cli("state", "--json").json == {
        "phase": "review",
        "attempts": 3,
        "data": {"a": [1, None]},
    }
    assert cli("state", "--json", "--limit", "1").json == {"attempts": 3}


def test_set_and_delete_write_and_tell_the_transition(cli: Run, db: SmithersDB) -> None:
    assert cli("set", "phase", '"start"').out == 't1  phase: "start"\n'
    done = cli("set", "phase", '{"a": [1]}', "--trigger", "by hand")
    assert done == Result(0, 't2  phase: "start" → {"a": [1]}\n', "")
    assert db.state.get("phase") == {"a": [1]}
    assert db.state.history()[-1].trigger == "by hand"
    told = cli("set", "n", "1", "--json").json
    assert (told["id"], told["key"], told["value"], told["previous_value"]) == ("t3", "n", 1, None)
    assert cli("delete", "n").out == "t4  n: 1 → deleted\n"
    assert not db.state.has("n")


def test_history_lists_what_happened_oldest_first(cli: Run, db: SmithersDB) -> None:
    assert cli("history").out == "There is no history.\n"
    db.state.set("phase", "start", "init")
    db.state.set("n", 1)
    db.state.set("phase", "review", "tests_passed")
    lines = cli("history").out.splitlines()
    assert lines[0].split() == ["id", "time", "change", "trigger"]
    assert lines[2].split()[0] == "t1"
    assert 'phase: "start" → "review"' in lines[4]
    assert lines[4].endswith("tests_passed")
    assert [t["id"] for t in cli("history", "phase", "--json").json] == ["t1", "t3"]
    assert [t["id"] for t in cli("history", "--json", "--limit", "1").json] == ["t3"]
    assert [t["id"] for t in cli("history", "--json", "--since", "t1", "--before", "3").json] == [
        "t2"
    ]
    fields = cli("history", "n", "--json").json[0]
    assert fields == {
        **{"id": "t2", "seq": 2, "key": "n", "previous_value": None, "value": 1, "trigger": None},
        **{"timestamp": db.state.history("n")[0].timestamp.isoformat(), "deleted": False},
        **{"execution_id": None, "agent_id": None, "commit": 2},
    }


def test_replay_goes_back_and_says_what_it_changed(cli: Run, db: SmithersDB) -> None:
    db.state.set("phase", "start")
    db.state.set("phase", "review")
    db.state.set("n", 1)
    assert cli("replay", "t1").out.splitlines() == [
        "t4  n: 1 → deleted",
        't5  phase: "review" → "start"',
    ]
    assert db.state.get_all() == {"phase": "start"}
    assert cli("replay", "t1").out == "The state is already what it was at t1.\n"
    assert [t["key"] for t in cli("replay", "3", "--json").json] == ["n", "phase"]


def test_query_shows_rows_and_writes_only_when_told(cli: Run, db: SmithersDB) -> None:
    db.state.set_many({"a": 1, "b": None})
    shown = cli(
        "query", "SELECT key, value, NULL AS none, x'00ff' AS b FROM state WHERE key = $1", "a"
    )
    assert shown.out.splitlines()[0].split() == ["key", "value", "none", "b"]
    assert shown.out.splitlines()[2].split() == ["a", "1", "-", '"00ff"']
    rows = cli("query", "SELECT key, value, x'00ff' AS b FROM state", "--json")
    assert rows.json == [
        {"key": "a", "value": "1", "b": "00ff"},
        {"key": "b", "value": "null", "b": "00ff"},
    ]
    assert len(cli("query", "SELECT key FROM state", "--json", "--limit", "1").json) == 1
    assert cli("query", "SELECT 1 WHERE 0").out == "No rows.\n"
    refused = cli("query", "DELETE FROM state")
    assert refused.code == 1 and "write=True" in refused.err
    assert cli("query", "DELETE FROM state RETURNING key", "--write", "--json").json == [
        {"key": "a"},
        {"key": "b"},
    ]
    assert db.state.get_all() == {}


def test_stats_count_rows(cli: Run, db: SmithersDB, path: Path) -> None:
    db.state.set("a", 1)
    assert cli("stats", "--json").json == {"state": 1, "transitions": 1}
    lines = cli("stats").out.splitlines()
    assert lines[0] == str(path / "db.sqlite")
    assert lines[3].split() == ["state", "1"]


def test_nothing_is_wider_than_the_terminal_and_nothing_is_lost(cli: Run, db: SmithersDB) -> None:
    value = "word " * 60
    db.state.set("key", value, "trigger")
    for command in ("state", "history"):
        lines = cli(command).out.splitlines()
        assert max(map(len, lines)) <= 80
        assert "".join(lines).count("word") == 60, "a long value is broken into lines, not cut"


def test_what_a_terminal_would_obey_is_shown_escaped(cli: Run, db: SmithersDB) -> None:
    db.state.set("\x1b[31m\n", "\x1b[2J\u2028", trigger="\x07")
    for command in ("state", "history"):
        out = cli(command).out
        assert not any(mark in out for mark in "\x1b\x07\u2028")
        assert "\\u001b[2J\\u2028" in out.replace("\n", "")


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("set", "phase", "start"), r"""'start' is not JSON (Expecting value"""),
        (("set", "phase", "start"), r"""text needs quotes of its own: '"start"'"""),
        (("set", "phase", "NaN"), "state 'phase': nan has no form in JSON"),
        (("set", "", "1"), "a key is not empty"),
        (("delete", "absent"), "there is no key 'absent'"),
        (("replay", "t99"), "there is no transition 't99'"),
        (("replay", "banana"), "there is no transition 'banana'"),
        (("history", "--before", "x"), "there is no transition 'x'"),
        (("query", "SELEC 1"), 'near "SELEC": syntax error'),
        (("query", "SELECT $1"), "binding"),
        (("query", "SELECT 1; SELECT 2"), "one statement"),
    ],
)
def test_an_error_is_one_line_on_stderr_and_exit_code_1(
    cli: Run, args: tuple[str, ...], reason: str
) -> None:
    result = cli(*args)
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert result.err.startswith("Error: ")
    assert reason in result.err


@pytest.mark.parametrize(
    "args",
    [
        ("db", "nonsense"),
        ("db", "state", "--nonsense"),
        ("db", "set", "key"),
        ("db", "history", "--limit", "-1"),
        ("db", "history", "--limit", "x"),
        ("nonsense",),
    ],
)
def test_wrong_usage_is_exit_code_2(smithers: Run, args: tuple[str, ...]) -> None:
    result = smithers(*args)
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err


READING = ("state", "history", "stats", "watch")


@pytest.mark.parametrize("command", [*READING, "set", "delete", "replay"])
def test_a_missing_database_is_an_error_and_is_not_made(
    smithers: Run, tmp_path: Path, command: str
) -> None:
    args = {"set": ("a", "1"), "delete": ("a",), "replay": ("t1",)}.get(command, ())
    result = smithers("db", command, *args, "--path", "absent")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "'absent'" in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_kind_is_one_line(smithers: Run, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("notes")
    result = smithers("db", "state", "--path", "notes")
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert "'notes': file is not a database" in result.err


def test_the_database_is_the_option_else_the_variable_else_the_only_one(
    smithers: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = smithers("db", "state")
    assert nothing.code == 1 and "no database below .smithers/" in nothing.err
    for name in ("one", "two", "three"):
        with create_smithers_db(tmp_path / ".smithers" / name) as db:
            db.state.set("name", name)
        if name == "one":
            assert smithers("db", "state", "--json").json == {"name": "one"}
    many = smithers("db", "state")
    assert many.code == 1
    assert many.err == (
        "Error: several databases below .smithers/, pass --path: "
        ".smithers/one, .smithers/three, .smithers/two\n"
    )
    monkeypatch.setenv("SMITHERS_DB_PATH", ".smithers/two")
    assert smithers("db", "state", "--json").json == {"name": "two"}
    option = ("--path", str(tmp_path / ".smithers" / "three" / "db.sqlite"))
    assert smithers("db", "state", "--json", *option).json == {"name": "three"}


def test_help_names_every_command(smithers: Run) -> None:
    out = smithers("db", "--help").out
    for command in ("state", "set", "delete", "history", "replay", "watch", "query", "stats"):
        assert f"  {command} " in out
    assert "demo" in smithers("--help").out


def test_a_reader_that_leaves_early_is_no_error(db: SmithersDB, path: Path) -> None:
    db.state.set_many({f"key{n}": "x" * 1000 for n in range(500)})
    process = subprocess.Popen(
        [sys.executable, "-m", "smithers", "db", "history", "--json", "--limit", "500"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            "SMITHERS_DB_PATH": str(path),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert (process.wait(timeout=30), process.stderr.read()) == (0, b"")
    process.stderr.close()
