"""The command line: what it prints, what it changes, how it fails."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reactive_sqlite import sqlite3
from smithers import SmithersDB, create_smithers_db
from smithers.cli import SECTIONS
from smithers.cli import db as db_commands
from smithers.schema import TABLES
from tests.smithers.commandline import Result, Run, cells

pytestmark = pytest.mark.usefixtures("working_directory")


def test_state_shows_keys_values_and_times(cli: Run, db: SmithersDB) -> None:
    db.state.set_many({"phase": "review", "attempts": 3, "data": {"a": [1, None]}})
    lines = cli("state", columns=80).out.splitlines()
    assert lines[0].split() == ["key", "value", "updated", "(UTC)"]
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
    db.state.set("phase", "start", "init")
    db.state.set("n", 1)
    db.state.set("phase", "review", "tests_passed")
    lines = cli("history", columns=80).out.splitlines()
    assert lines[0].split() == ["id", "time", "(UTC)", "change", "trigger"]
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
    assert cells(shown) == [["key", "value", "none", "b"], ["a", "1", "-", "x'00ff'"]]
    rows = cli("query", "SELECT key, value, x'00ff' AS b FROM state", "--json")
    assert rows.json == [
        {"key": "a", "value": "1", "b": "00ff"},
        {"key": "b", "value": "null", "b": "00ff"},
    ]
    assert len(cli("query", "SELECT key FROM state", "--json", "--limit", "1").json) == 1
    refused = cli("query", "DELETE FROM state")
    assert refused.code == 1
    assert "pass --write to allow it" in refused.err and "write=True" not in refused.err
    assert cli("query", "DELETE FROM state RETURNING key", "--write", "--json").json == [
        {"key": "a"},
        {"key": "b"},
    ]
    assert db.state.get_all() == {}


def test_stats_count_rows(cli: Run, db: SmithersDB, path: Path) -> None:
    db.state.set("a", 1)
    db.database["mine"].insert_all([{"n": 1}, {"n": 2}])
    counts = {**dict.fromkeys(TABLES, 0), "state": 1, "transitions": 1, "mine": 2}
    assert cli("stats", "--json").json == counts
    lines = cli("stats", columns=80).out.splitlines()
    assert lines[0] == str(path / "db.sqlite")
    assert ["state", "1"] in [line.split() for line in lines[3:]]
    piped = cli("stats")
    rows = [[table, str(count)] for table, count in counts.items()]
    assert cells(piped) == [["table", "rows"], *rows]
    assert piped.err == f"{path / 'db.sqlite'}\n", "it is no row"


NO_TABLES = f"Shown: 0 of {len(TABLES)} tables."


@pytest.mark.parametrize(
    ("args", "empty", "filled"),
    [
        (("state",), "The state is empty.", None),
        (("state", "--limit", "0"), "The state is empty.", "Shown: 0 of 2 keys."),
        (("history",), "There is no history.", None),
        (("history", "--limit", "0"), "There is no history.", "No transition matches."),
        (("history", "--since", "t9"), "There is no history.", "No transition matches."),
        (("history", "absent"), "There is no history.", "No transition matches."),
        (("query", "SELECT 1 WHERE 0"), "No rows.", "No rows."),
        (("query", "SELECT key FROM state", "--limit", "0"), "No rows.", "Shown: 0 of 2 rows."),
        (("stats", "--limit", "0"), NO_TABLES, NO_TABLES),
    ],
)
def test_why_nothing_is_shown_is_said_as_it_is_and_not_to_a_pipe(
    cli: Run, db: SmithersDB, args: tuple[str, ...], empty: str, filled: str | None
) -> None:
    assert cli(*args, columns=80).out.splitlines()[-1:] == [empty]
    assert (cli(*args).out, cli(*args).err.splitlines()[-1:]) == ("", [empty])
    db.state.set_many({"a": 1, "b": 2})
    assert filled is None or cli(*args, columns=80).out.splitlines()[-1:] == [filled]
    assert filled is None or cli(*args, "--json").json in ([], {})


def test_json_has_a_form_for_what_json_has_no_word_for(
    cli: Run, db: SmithersDB, foreign: sqlite3.Connection
) -> None:
    sql = (
        "SELECT 9e999 AS x, -9e999 AS y, 'Infinity \"NaN' AS text, 9e999 - 9e999 AS no, x'0f' AS b"
    )
    done = cli("query", "--json", sql)
    assert done.out == (
        '[{"x": 9e999, "y": -9e999, "text": "Infinity \\"NaN", "no": null, "b": "0f"}]\n'
    )
    foreign.execute("INSERT INTO state (key, value) VALUES ('big', '[9e999]')")
    assert cli("state", "--json").out == '{"big": [9e999]}\n'
    assert foreign.execute("SELECT json_valid(?)", [done.out]).fetchone() == (1,)


def test_a_negative_number_is_a_value_and_a_typing_slip_is_none(cli: Run, db: SmithersDB) -> None:
    for text, value in (("-3", -3), ("-.5e1", None), ("-0.25", -0.25), ("-1e3", -1000.0)):
        done = cli("set", "n", text, "--trigger", "down")
        assert done.code == (value is None), "JSON has no .5, but it is no option either"
        assert value is None or db.state.get("n") == value
    assert db.state.history()[-1].trigger == "down"
    assert cli("query", "SELECT $1 AS n", "-7", "--json").json == [{"n": "-7"}]
    for args in (("set", "n", "1", "--triger", "x"), ("set", "n", "-1", "--triger", "x")):
        assert cli(*args).code == 2
    assert cli("query", "SELECT 1", "--limit", "-1").code == 2
    assert db.state.get("n") == -1000.0


def test_times_are_those_of_the_reader_and_say_so(
    cli: Run, db: SmithersDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter(["2026-01-31T23:30:00.000000Z", "2026-07-01T12:00:00.123999Z"])
    for _ in range(2):
        db.query(
            'INSERT INTO transitions (key, value, timestamp, "commit", apply)'
            " VALUES ('k', '1', $1, 1, 1)",
            [next(moments)],
            write=True,
        )
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        summer = cells(cli("history", "--since", "t1"))
        both = cells(cli("history"))
    finally:
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()
    assert summer[0][1] == "time (UTC+02:00)"
    assert summer[1][1] == "2026-07-01 14:00:00.123"
    assert [row[1] for row in both] == [
        "time",
        "2026-02-01 00:30:00.000 UTC+01:00",
        "2026-07-01 14:00:00.123 UTC+02:00",
    ]
    assert cli("history", "--json").json[0]["timestamp"] == "2026-01-31T23:30:00+00:00"


def test_nothing_is_wider_than_the_terminal_and_nothing_is_lost(cli: Run, db: SmithersDB) -> None:
    value = "word " * 60
    db.state.set("key", value, "trigger")
    for command in ("state", "history"):
        lines = cli(command, columns=80).out.splitlines()
        assert max(map(len, lines)) <= 80
        assert "".join(lines).count("word") == 60, "a long value is broken into lines, not cut"


def test_what_a_terminal_would_obey_is_shown_escaped(cli: Run, db: SmithersDB) -> None:
    db.state.set("\x1b[31m\n", "\x1b[2J\u2028", trigger="\x07")
    for command in ("state", "history"):
        for columns in (0, 40, 200):
            out = cli(command, columns=columns).out
            assert not any(mark in out for mark in "\x1b\x07\u2028")
            assert "\\u001b[2J\\u2028" in out
    named = cli("query", 'SELECT 1 AS "\x1b[2J"', columns=80)
    assert "\x1b" not in named.out and "\\u001b[2J" in named.out
    assert "\x1b" not in cli("query", "\x1b[2J").err


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("set", "phase", "start"), r"""'start' is not JSON (Expecting value"""),
        (("set", "phase", "start"), r"""text needs quotes of its own: '"start"'"""),
        (("set", "phase", "it's"), """text needs quotes of its own: '"it'"'"'s"'"""),
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


READING = (
    *("state", "history", "stats", "watch", "executions", "current", "agents", "memories"),
    *("commits", "reviews", "check"),
)


@pytest.mark.parametrize("command", [*READING, "set", "delete", "replay"])
def test_a_missing_database_is_an_error_and_is_not_made(
    smithers: Run, tmp_path: Path, command: str
) -> None:
    args = {"set": ("a", "1"), "delete": ("a",), "replay": ("t1",)}.get(command, ())
    result = smithers("db", command, *args, "--path", "absent")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "'absent'" in result.err
    assert "create_smithers_db" in result.err and "smithers db set --create" in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_database_is_made_only_when_set_is_told_so(smithers: Run, tmp_path: Path) -> None:
    for refused in (("", "1"), ("key", "NaN"), ("key", "text")):
        assert smithers("db", "set", *refused, "--create", "--path", "new").code == 1
    assert list(tmp_path.iterdir()) == [], "nothing is made for what cannot be kept"
    assert smithers("db", "set", "n", "1", "--create", "--path", "new").out == "t1  n: 1\n"
    assert smithers("db", "set", "n", "2", "--create", "--path", "new").out == "t2  n: 1 → 2\n"
    assert smithers("db", "state", "--json", "--path", "new/db.sqlite").json == {"n": 2}
    assert smithers("db", "set", "n", "3", "--create").code == 0
    assert (tmp_path / ".smithers" / "data" / "db.sqlite").exists(), "the library's default"
    assert smithers("db", "set", "n", "4", "--create").out == "t2  n: 3 → 4\n"
    assert smithers("db", "set", "n", "1", "--create", "--path", ":memory:").code == 1
    assert smithers("db", "state", "--path", ":memory:").code == 1


def test_a_directory_of_databases_names_them(smithers: Run, tmp_path: Path) -> None:
    for name in ("one", "two", "deep/er"):
        create_smithers_db(tmp_path / ".smithers" / name).close()
    result = smithers("db", "state", "--path", ".smithers")
    assert (result.code, result.err) == (
        1,
        "Error: cannot open '.smithers': there is no database; "
        "only below it: .smithers/deep/er, .smithers/one, .smithers/two\n",
    )


def test_a_file_that_may_only_be_read_is_named_in_words_of_the_command_line(
    cli: Run, db: SmithersDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    def access(path: Path, mode: int) -> bool:
        return mode != os.W_OK

    # The superuser, as whom tests may run, may write to any file.
    monkeypatch.setattr(os, "access", access)
    refused = cli("set", "a", "1")
    assert refused.code == 1
    assert "you may read it, but not write to it" in refused.err
    assert "read_only" not in refused.err


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


def test_help_names_every_command_and_cuts_no_summary(smithers: Run) -> None:
    out = smithers("db", "--help").out
    headed = [command for commands in SECTIONS.values() for command in commands]
    assert {command.name for command in headed} == set(db_commands.commands)
    assert all(f"  {command.name} " in out for command in headed)
    assert [line for line in out.splitlines() if line in {f"{title}:" for title in SECTIONS}]
    assert "demo" in smithers("--help").out
    cut = [line for line in out.splitlines() if line.endswith("...") and "Usage" not in line]
    assert not cut, "a summary that does not fit is cut by click"
    assert max(map(len, out.splitlines())) <= 80


LISTINGS = (
    *("executions", "execution", "current", "phases", "steps", "agents", "tools", "state"),
    *("history", "stats", "query", "commits", "reviews"),
)


def test_every_listing_takes_path_json_and_limit_and_every_command_path_and_json() -> None:
    for name, command in db_commands.commands.items():
        options = {option for parameter in command.params for option in parameter.opts}
        assert options >= {"--path", "--json"}, name
        assert name not in LISTINGS or "--limit" in options, name
    assert set(LISTINGS) <= set(db_commands.commands)


@pytest.mark.parametrize(
    "args",
    [
        ("db", "history", "--json", "--limit", "500"),
        ("db", "history", "--limit", "500"),
        ("db", "query", "SELECT * FROM state"),
    ],
)
def test_a_reader_that_leaves_early_is_no_error(
    db: SmithersDB, path: Path, args: tuple[str, ...]
) -> None:
    db.state.set_many({f"key{n}": "x" * 1000 for n in range(500)})
    process = subprocess.Popen(
        [sys.executable, "-m", "smithers", *args],
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


@pytest.mark.parametrize("args", [("--help",), ("db", "state"), ("db", "nonsense")])
def test_output_that_is_closed_from_the_start_is_no_error(
    db: SmithersDB, path: Path, args: tuple[str, ...]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    db.state.set("a", 1)
    done = subprocess.run(
        [sys.executable, "-m", "smithers", *args],
        stdout=writing,
        stderr=writing if "nonsense" in args else subprocess.PIPE,
        env={
            **os.environ,
            "SMITHERS_DB_PATH": str(path),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        timeout=30,
    )
    os.close(writing)
    assert (done.returncode, done.stderr or b"") == (0, b"")


@pytest.mark.parametrize("closed", ["1", "2", "0 1 2"])
@pytest.mark.parametrize("args", [("--help",), ("db", "state"), ("db", "nonsense")])
def test_descriptors_that_were_never_open_are_no_error(
    db: SmithersDB, path: Path, args: tuple[str, ...], closed: str
) -> None:
    closing = " ".join(f"{number}>&-" for number in closed.split())
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closing}', "sh", sys.executable, "-m", "smithers", *args],
        capture_output=True,
        env={
            **os.environ,
            "SMITHERS_DB_PATH": str(path),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        timeout=30,
    )
    assert done.returncode == (2 if "nonsense" in args else 0)
    assert b"Traceback" not in done.stdout + done.stderr
