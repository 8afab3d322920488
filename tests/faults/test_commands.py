"""Any words and any environment of the command line: an exit code and one line, no traceback."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest

import smithers.cli
from smithers import create_smithers_db
from smithers.cli import cli, main
from tests.faults.test_arguments import Witness
from tests.faults.verdict import out_of_family
from tests.smithers.commandline import environment
from tests.smithers.hostile import HOSTILE, UNWRITABLE

# They go on until somebody ends them; `serves` below is for them.
ENDLESS = frozenset({("db", "watch"), ("mcp",), ("demo",), ("ui",)})
WORDS = (
    *HOSTILE,
    *UNWRITABLE,
    *("", "-", "--", "-1", "--help", "--path", "--no-such-option", "nan", "1e400", "9" * 5_000),
    *("9223372036854775808", "t9223372036854775808", "[" * 100_000, '{"a":' * 1_000, "NaN", "1_0"),
    *(
        "..",
        "/",
        "/dev/null",
        "/proc/self/mem",
        "a\udcff",
        "%s%n",
        "$(id)",
        "`id`",
        "; id",
        "~root",
    ),
    *("99999999999999999w", "-5d", "2026-13-45", "0001-01-01", "9999-12-31T23:59:59.999999+00:00"),
)
VARIABLES = ("SMITHERS_DB_PATH", "SMITHERS_HOME", "SMITHERS_MEMORY", "COLUMNS", "TZ", "TERM")
SHORT = 60
ASKING = (
    ("db", "state"),
    ("db", "memories", "api"),
    ("db", "set", "phase", '"review"'),
    ("db", "query", "SELECT count(*) FROM memories"),
    ("db", "check"),
)


def commands(group: click.Group, *above: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        words = (*above, name)
        if isinstance(command, click.Group):
            yield from commands(command, *words)
        elif words not in ENDLESS:
            yield words, command


def invocations(path: Path) -> Iterator[list[str]]:
    """Every command with every hostile word in the place of each of its arguments and options."""
    for words, command in commands(cli):
        named = ["--path", str(path)]
        parameters = [each for each in command.params if each.name != "help"]
        arguments = [each for each in parameters if isinstance(each, click.Argument)]
        plain = ["phase" for each in arguments if each.required]
        for word in WORDS:
            if words == ("run",) and word in UNWRITABLE:
                continue  # no process is started with such a name of a script
            yield [*words, *plain, word, *named]
            for place in range(len(arguments)):
                given = ["phase"] * len(arguments)
                given[place] = word
                yield [*words, *named, "--", *given]
            for option in parameters:
                if isinstance(option, click.Option):
                    text = option.opts[0]
                    rest = named if text != "--path" else []
                    yield [*words, *plain, *rest, *([text] if option.is_flag else [text, word])]


class Judge:
    """Runs commands in this process, and looks at what came of them."""

    def __init__(
        self,
        witness: Witness,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self._witness = witness
        self._capsys = capsys
        self._caught: list[BaseException] = []
        failed = smithers.cli._failed  # pyright: ignore[reportPrivateUsage]

        def noted(message: str, code: int) -> int:
            # The command line tells every error in a line, one of this package's own too.
            caught = sys.exception()
            self._caught += [] if caught is None else [caught]
            return failed(message, code)

        monkeypatch.setattr(smithers.cli, "_failed", noted)
        self.codes: Counter[int] = Counter()
        self.findings: list[str] = []

    def run(self, args: list[str]) -> None:
        what = ascii([word[:60] for word in args])
        self._caught.clear()
        code = main(args)
        said = self._capsys.readouterr()
        self.codes[code] += 1
        assert code in (0, 1, 2), what
        assert "Traceback" not in said.err + said.out, what
        if code == 1:
            lines = [line for line in said.err.splitlines() if line.startswith("Error: ")]
            assert len(lines) == 1 and said.err.endswith("\n"), (what, said.err[:500])
        assert all(mark.isprintable() or mark in "\n\t" for mark in said.err), what
        for caught in self._caught:
            if isinstance(caught, click.ClickException | OSError):
                continue
            judged = out_of_family(caught, "sql")
            if judged is not None:
                self.findings.append(f"{what}: {caught!r:.200} {judged}")
        assert not self._witness.is_injected(), what


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a database with something in it, somewhere else than where one is."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.delenv("SMITHERS_DB_PATH", raising=False)
    path = tmp_path / "workflow"
    with create_smithers_db(path, watch=False) as db:
        db.state.set("phase", "plan")
        db.memories.add_fact("api", "at /v2")
        id = db.execution.start("phase")
        with db.phases.open("plan"), db.steps.open("write"):
            db.tools.start(db.agents.start("why"), "Read", None)
        db.approvals.request(id, "phase", "Deploy?")
    return path


def swept(judge: Judge, path: Path, share: int) -> str:
    chosen = list(invocations(path))
    if share != 1:
        random.Random(time.strftime("%j")).shuffle(chosen)
    begun = time.monotonic()
    for args in chosen[: len(chosen) // share]:
        judge.run(args)
        for made in Path().iterdir():
            made.unlink()  # an export, which `run` would take for a script
    counted = ", ".join(f"{count} of {code}" for code, count in sorted(judge.codes.items()))
    return f"exit codes {counted} in {time.monotonic() - begun:.0f} s"


def test_any_word_for_a_command_ends_in_an_exit_code_and_a_line(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Witness(place / "db.sqlite")) as witness:
        judge = Judge(witness, capsys, monkeypatch)
        swept(judge, place, SHORT)
    assert not judge.findings, "\n".join(judge.findings)


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_thousands_of_words_for_commands_end_in_an_exit_code_and_a_line(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Witness(place / "db.sqlite")) as witness:
        judge = Judge(witness, capsys, monkeypatch)
        tally = swept(judge, place, 2)
    with capsys.disabled():
        print(f"\ncommands: {tally}")
    assert not judge.findings, "\n".join(judge.findings)


@pytest.mark.parametrize("variable", VARIABLES)
def test_any_value_of_an_environment_variable_ends_in_an_exit_code_and_a_line(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
) -> None:
    with closing(Witness(place / "db.sqlite")) as witness:
        judge = Judge(witness, capsys, monkeypatch)
        for number, word in enumerate(WORDS):
            if "\0" in word or word.startswith("lone"):
                continue  # no environment can hold it
            monkeypatch.setenv(variable, word)
            asked = [*ASKING[number % len(ASKING)]]
            judge.run(asked if variable == "SMITHERS_DB_PATH" else [*asked, "--path", str(place)])


def test_bytes_that_are_no_text_reach_no_traceback(place: Path) -> None:
    for args, besides in (
        ((b"db", b"state", b"\xff\xfe", b"--path", bytes(place)), {}),
        ((b"db", b"set", b"\xff", b'"\xff"', b"--path", bytes(place)), {}),
        ((b"run", b"\xff.py", b"--path", bytes(place)), {}),
        ((b"mcp", b"--path", b"\xff"), {}),
        ((b"db", b"state"), {b"SMITHERS_DB_PATH": b"\xff\xfe"}),
        ((b"db", b"memories", b"--path", bytes(place)), {b"SMITHERS_HOME": b"\xff/\xfe"}),
    ):
        done = subprocess.run(
            [os.fsencode(sys.executable), b"-m", b"smithers", *args],
            env={**{os.fsencode(k): os.fsencode(v) for k, v in environment().items()}, **besides},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=50,
        )
        assert done.returncode in (0, 1, 2), args
        assert b"Traceback" not in done.stderr and done.stderr.count(b"Error") <= 1, done.stderr
