"""`smithers db export | import | prune`: a database moved, and made smaller."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from smithers import SmithersDB
from tests.smithers.commandline import Run, cells, in_process


@pytest.fixture
def filled(db: SmithersDB) -> SmithersDB:
    """A database with three ended executions and one that runs."""
    for number in range(3):
        id = db.execution.start(f"Feature {number}")
        db.phases.complete(db.phases.start("plan"))
        db.agents.complete(db.agents.start("prompt"), "done")
        db.state.set("phase", number)
        db.execution.complete(id)
    db.execution.start("Running")
    return db


def test_what_was_exported_is_imported_elsewhere_and_exported_the_same(
    cli: Run, smithers: Run, filled: SmithersDB, tmp_path: Path
) -> None:
    done = cli("export", "one.jsonl")
    assert done.code == 0
    assert cells(done) == [
        *(["table", "rows"], ["executions", "4"], ["phases", "3"], ["agents", "3"]),
        *(["state", "1"], ["transitions", "3"]),
    ]
    assert done.err == "14 rows written to one.jsonl\n"
    assert stat.S_IMODE((tmp_path / "one.jsonl").stat().st_mode) == 0o600
    taken = smithers("db", "import", "one.jsonl", "--create", "--path", "other", "--json")
    assert taken.json == cli("export", "two.jsonl", "--json").json
    again = smithers("db", "import", "one.jsonl", "--path", "other", columns=80)
    assert again.out == "0 rows added from one.jsonl\n"
    assert smithers("db", "export", "three.jsonl", "--path", "other").code == 0
    texts = [(tmp_path / f"{name}.jsonl").read_bytes() for name in ("one", "two", "three")]
    assert texts[0] == texts[1] == texts[2]
    assert smithers("db", "state", "--json", "--path", "other").json == {"phase": 2}


def test_a_file_is_replaced_only_when_told_so(cli: Run, filled: SmithersDB, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    refused = cli("export", "mine")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "Error: 'mine' exists: pass --force to replace it\n"
    assert (tmp_path / "mine").read_text() == "mine"
    assert cli("export", "mine", "--force").code == 0
    assert (tmp_path / "mine").read_text() != "mine"
    assert cli("export", str(filled.path), "--force").code == 1, "not the database itself"
    assert cli("state", "--json").json == {"phase": 2}


def test_an_import_that_fails_changes_nothing(
    cli: Run, smithers: Run, filled: SmithersDB, tmp_path: Path
) -> None:
    cli("export", "good.jsonl")
    lines = (tmp_path / "good.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_text("".join(lines[:-3]))
    (tmp_path / "none.jsonl").write_text("none\n")
    smithers("db", "set", "n", "1", "--create", "--path", "other")
    before = smithers("db", "stats", "--json", "--path", "other").json
    for name, reason in (
        ("cut.jsonl", "'cut.jsonl', line"),
        ("none.jsonl", "'none.jsonl', line 1"),
        ("good.jsonl", "cannot load 'good.jsonl'"),
        ("absent.jsonl", "'absent.jsonl': No such file or directory"),
    ):
        refused = smithers("db", "import", name, "--path", "other")
        assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
        assert reason in refused.err
    assert smithers("db", "stats", "--json", "--path", "other").json == before
    smithers("db", "import", "absent.jsonl", "--path", "new", "--create")
    assert not (tmp_path / "new").exists()
    assert smithers("db", "import", "good.jsonl", "--path", "new").code == 1, "not --create"
    assert not (tmp_path / "new").exists()


def test_a_dry_run_of_pruning_tells_what_the_run_then_does(
    cli: Run, filled: SmithersDB, path: Path
) -> None:
    before = cli("stats", "--json").json
    told = in_process("db", "prune", "--keep", "1", "--dry-run", "--json", "--path", str(path))
    assert told.json["rows"]["executions"] == 2 and told.json["bytes_returned"] is None
    assert cli("stats", "--json").json == before
    dry = cli("prune", "--keep", "1", "--dry-run")
    assert cells(dry) == [["table", "rows"], ["executions", "2"], ["phases", "2"], ["agents", "2"]]
    assert dry.err == "6 rows would be removed\n"
    done = in_process("db", "prune", "--keep", "1", "--json", "--path", str(path))
    assert done.json["rows"] == told.json["rows"]
    names = [row["name"] for row in cli("executions", "--json").json]
    assert names == ["Running", "Feature 2"]
    nothing = cli("prune", "--keep", "1", columns=80)
    assert nothing.out == "0 rows removed, 0 B returned\n"
    assert cli("check").code == 0


@pytest.mark.parametrize(
    ("when", "gone"),
    [
        *(("30d", 0), ("1w", 0), ("999999h", 0), ("0s", 3), ("2020-01-01", 0)),
        # The names must not tell the time: workers that share the tests out would disagree.
        pytest.param((datetime.now(UTC) + timedelta(hours=1)).isoformat(), 3, id="in an hour"),
        pytest.param(f"{datetime.now() + timedelta(days=2):%Y-%m-%d}", 3, id="in two days"),
    ],
)
def test_old_is_an_age_or_a_time(cli: Run, filled: SmithersDB, when: str, gone: int) -> None:
    told = cli("prune", "--before", when, "--dry-run", "--json")
    assert told.json["rows"].get("executions", 0) == gone


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--dry-run",),
        ("--before", "tomorrow"),
        ("--before", "30"),
        ("--before", "-1d"),
        ("--before", "9999999d"),
        ("--before", ""),
        ("--keep", "-1"),
        ("--keep", "some"),
    ],
)
def test_what_says_nothing_of_what_is_old_is_wrong_usage(
    cli: Run, filled: SmithersDB, args: tuple[str, ...]
) -> None:
    refused = cli("prune", *args)
    assert (refused.code, refused.out) == (2, "")
    assert filled.stats()["executions"] == 4
