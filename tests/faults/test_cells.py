"""Cells that hold what the schema forbids: a result, or an error that says so; no traceback."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import pytest

from reactive_sqlite import ReactiveError, sqlite3
from smithers import SmithersDB, SmithersError, create_smithers_db
from tests.faults.cells import FILE, READING, Cell, Original
from tests.faults.test_arguments import Witness
from tests.faults.test_commands import Judge

# One of so many cells, another each day.
SHORT = 160
# Not `check`: its exit code 1 says that it has found something, in many lines.
COMMANDS: tuple[tuple[str, ...], ...] = (
    *(("executions",), ("phases",), ("steps",), ("current",), ("state",), ("history",)),
    *(("history", "phase"), ("agents",), ("memories",), ("memories", "v2"), ("commits",)),
    *(("reviews",), ("triggers",), ("stats",), ("export", "dump.jsonl")),
    *(("query", "SELECT * FROM state"), ("prune", "--keep-executions", "0", "--dry-run")),
    *(
        ("approvals",),
        ("cancel", "x"),
        ("replay", "t1"),
        ("set", "phase", "1"),
        ("delete", "phase"),
    ),
)


def chosen(original: Original, share: int) -> list[Cell]:
    cells = [*original.cells()]
    if share != 1:
        random.Random(time.strftime("%j")).shuffle(cells)
    return cells[: len(cells) // share]


def read(db: SmithersDB, cell: Cell, came: Counter[str], findings: list[str]) -> None:
    for name, reading in READING.items():
        try:
            reading(db)
            came["results"] += 1
        except (SmithersError, ReactiveError, sqlite3.Error):
            came["errors"] += 1
        except Exception as error:
            findings.append(f"{cell}: {name}: {error!r:.200}")


def swept(place: Path, share: int) -> tuple[Counter[str], list[str]]:
    original = Original(place)
    came: Counter[str] = Counter()
    findings: list[str] = []
    for cell in chosen(original, share):
        path = original.with_cell(cell)
        if path is None:
            continue
        came["cells"] += 1
        for read_only in (False, True):
            try:
                with create_smithers_db(path, watch=False, read_only=read_only) as db:
                    read(db, cell, came, findings)
            except SmithersError:
                came["errors"] += 1
            except Exception as error:
                findings.append(f"{cell}: opening or closing: {error!r:.200}")
    return came, findings


def test_whatever_a_cell_holds_reading_gives_a_result_or_an_error_that_says_so(
    tmp_path: Path,
) -> None:
    came, findings = swept(tmp_path, SHORT)
    assert not findings, "\n".join(findings)
    assert came["results"] > came["errors"]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_whatever_any_cell_holds_reading_gives_a_result_or_an_error(tmp_path: Path) -> None:
    came, findings = swept(tmp_path, 1)
    print(f"\ncells: {came['cells']}, {came['results']} results, {came['errors']} errors")
    assert not findings, "\n".join(findings)


def commanded(
    place: Path, share: int, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch
) -> tuple[int, list[str]]:
    original = Original(place)
    patch.chdir(place)
    tried = 0
    findings: list[str] = []
    for cell in chosen(original, share):
        path = original.with_cell(cell)
        if path is None:
            continue
        tried += 1
        with suppress(SmithersError):  # it makes its own triggers anew where they were damaged
            create_smithers_db(path, watch=False).close()
        with closing(Witness(path / FILE)) as witness, pytest.MonkeyPatch.context() as inner:
            judge = Judge(witness, capsys, inner)
            for words in COMMANDS:
                (place / "dump.jsonl").unlink(missing_ok=True)
                judge.run(["db", *words, "--path", str(path)])
            findings += [f"{cell}: {finding}" for finding in judge.findings]
    return tried, findings


def test_whatever_a_cell_holds_a_command_ends_in_an_exit_code_and_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, findings = commanded(tmp_path, 4 * SHORT, capsys, monkeypatch)
    assert not findings, "\n".join(findings)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_whatever_any_cell_holds_a_command_ends_in_an_exit_code_and_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, findings = commanded(tmp_path, 6, capsys, monkeypatch)
    with capsys.disabled():
        print(f"\ncells: {tried}, {len(COMMANDS)} commands at each")
    assert not findings, "\n".join(findings)
