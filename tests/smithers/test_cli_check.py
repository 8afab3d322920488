"""`smithers db check`: what is wrong, in words and by its exit code."""

from __future__ import annotations

from pathlib import Path

from reactive_sqlite import sqlite3
from smithers import SmithersDB, create_smithers_db
from smithers.storage.checks import can_damage_log
from tests.smithers.commandline import Run, cells, in_process, on_terminal

DAMAGING = can_damage_log(sqlite3.sqlite_version_info)


def test_a_sound_database_ends_with_0(cli: Run, db: SmithersDB, path: Path) -> None:
    db.state.set("a", 1)
    done = cli("check", columns=80)
    assert done.code == 0
    if DAMAGING:
        assert done.out.splitlines()[-1].endswith("db.sqlite: 0 errors, 1 warning")
        assert [found["check"] for found in cli("check", "--json").json] == ["sqlite"]
    else:
        assert done.out == f"{path / 'db.sqlite'} is sound.\n"
        assert cli("check", "--json").json == []


def test_warnings_alone_end_with_0_and_an_error_with_1(
    cli: Run, db: SmithersDB, path: Path
) -> None:
    with create_smithers_db(path) as other:
        other.execution.start("Left\x1b[2J")
    warned = cli("check")
    assert warned.code == 0
    assert cells(warned)[0] == ["level", "check", "message"]
    assert cells(warned)[1][:2] == ["warning", "owners"]
    assert "\x1b" not in warned.out and "can be resumed" in warned.out
    assert warned.err.startswith(f"{path / 'db.sqlite'}: 0 errors, ")
    db.query("UPDATE executions SET total_agents = 9", write=True)
    for quick in ((), ("--quick",)):
        failed = in_process("db", "check", *quick, "--json", "--path", str(path))
        assert (failed.code, failed.err) == (1, "")
        assert [(found["level"], found["check"]) for found in failed.json][:2] == [
            ("error", "totals"),
            ("warning", "owners"),
        ]
    assert cells(cli("check"))[1][0] == "error"


def test_messages_are_folded_not_cut(db: SmithersDB, path: Path) -> None:
    with create_smithers_db(path) as other:
        id = other.execution.start("Left " * 20)
    out = on_terminal(["db", "check", "--path", str(path)], 80)
    *table, place = out.splitlines()
    assert max(map(len, table)) <= 80
    assert place.endswith("warnings") or not DAMAGING
    squeezed = "".join(out.split())
    assert id in squeezed and "canberesumed" in squeezed and "…" not in out


def test_what_cannot_be_opened_is_one_line(smithers: Run, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("notes" * 1000)
    for place in ("notes", "absent"):
        done = smithers("db", "check", "--path", place)
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
