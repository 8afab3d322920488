"""The demonstration: it shows what it says, and fails when something does not happen."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from smithers import create_smithers_db
from smithers.demo import cast, stage

ROOT = Path(__file__).parents[2]


def demo(directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "smithers", "demo"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=55,
    )


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Where it was shown once, and what it said; for tests that leave the place as it is."""
    directory = tmp_path_factory.mktemp("shown")
    done = demo(directory, SMITHERS_HOME=str(directory / "home"))
    assert (done.returncode, done.stderr) == (0, "")
    return directory, done.stdout


def test_three_processes_share_a_database_live_and_go_back_in_time(
    shown: tuple[Path, str], tmp_path: Path, sqlite3_cli: str
) -> None:
    directory, first = shown
    shutil.copytree(directory / ".smithers-demo", tmp_path / ".smithers-demo")
    again = demo(tmp_path)  # on what the first has left
    assert (again.returncode, again.stderr) == (0, "")
    for output in (first, again.stdout):
        seen = [said for who, said in spoken(output) if who == "subscriber"]
        assert [line.partition(" (")[0] for line in seen] == [
            "phase is not set yet",
            'phase "start"',
            'phase "review"',
            'phase "approval"',
            'phase "approved"',
            'phase "done"',
            'phase "review"',
        ]
        assert all(line.endswith(" ms after its commit") for line in seen[1:])
        assert "(no trigger: another program)" in seen[4]
        assert "(replay:t" in seen[6]
        assert "smithers db history --path .smithers-demo" in output
    for place in (directory, tmp_path):
        assert not (place / ".smithers").exists(), "where commands look for the only database"
    with create_smithers_db(tmp_path / ".smithers-demo", read_only=True) as db:
        assert db.state.get("phase") == "review"
        assert db.state.get("compile_report")["files"] > 20, "the agent has read real sources"


def test_it_works_without_the_sqlite3_program(tmp_path: Path) -> None:
    done = demo(tmp_path, PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "Python's module stands in for it" in done.stdout


def test_another_database_is_left_alone(tmp_path: Path) -> None:
    with create_smithers_db(tmp_path / ".smithers-demo") as db:
        db.state.set("mine", 1)
    done = demo(tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: .smithers-demo is another database; choose a --path of its own\n"
    )
    with create_smithers_db(tmp_path / ".smithers-demo") as db:
        assert db.state.get_all() == {"mine": 1}


def test_what_does_not_happen_is_a_failure_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = tmp_path / "approve.sql"
    silent.write_text("UPDATE state SET value = value WHERE key = 'nothing';")
    monkeypatch.setattr(stage, "APPROVAL", silent)
    lines: list[str] = []

    def hear(who: str, text: str, seconds: float) -> None:
        lines.append(text)
        if who == "sqlite3":  # what is awaited from here on never comes
            monkeypatch.setattr(cast, "STEP_SECONDS", 1.0)

    with pytest.raises(cast.DemoFailed, match='the subscriber did not say \'phase "approved"'):
        stage.perform(tmp_path / "demo", hear)
    assert "Done." not in "".join(lines)


def test_a_program_that_ends_too_soon_is_a_failure(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    # There is no program of that name, so Python ends at once.
    with cast.Cast(tmp_path, lambda who, text, seconds: heard.append((who, text))) as actors:
        actors.start("nobody")
        with pytest.raises(cast.DemoFailed, match="the nobody ended before it said 'hello'"):
            actors.expect(("nobody", "hello"))
        with pytest.raises(cast.DemoFailed, match="the nobody ended with exit code 1"):
            actors.finish("nobody")
    assert heard == []


def test_lines_are_in_the_order_of_their_causes_and_times(shown: tuple[Path, str]) -> None:
    output = shown[1]
    times = [float(line[:6]) for line in output.splitlines() if "│" in line]
    assert times == sorted(times) and 0 < times[0] < times[-1] < 55
    lines = [f"{who}: {said}" for who, said in spoken(output)]
    for cause, effect in (
        ("workflow: the agent found", 'subscriber: phase "review"'),
        ('workflow: phase is "approval"', "sqlite3:"),
        ("sqlite3:", 'subscriber: phase "approved"'),
        ("sqlite3:", 'workflow: phase is "approved"'),
        ('workflow: phase is "done"', "history:"),
    ):
        first, then = (
            next(at for at, line in enumerate(lines) if line.startswith(beginning))
            for beginning in (cause, effect)
        )
        assert first < then, f"{effect!r} was shown before {cause!r}"


def test_the_command_that_it_shows_can_be_copied(
    shown: tuple[Path, str], tmp_path: Path, sqlite3_cli: str
) -> None:
    directory, output = shown
    shutil.copytree(directory / ".smithers-demo", tmp_path / ".smithers-demo")
    said = next(said for who, said in spoken(output) if who == "sqlite3")
    assert said.startswith('$ sqlite3 .smithers-demo/db.sqlite "UPDATE state SET value')
    command = shlex.split(said[2:])
    subprocess.run([sqlite3_cli, *command[1:]], cwd=tmp_path, check=True, timeout=30)
    with create_smithers_db(tmp_path / ".smithers-demo", read_only=True) as db:
        assert db.state.get("phase") == "approved"


@pytest.mark.parametrize("lines", [1, 5, 9])
def test_a_reader_that_leaves_early_ends_it_quietly_with_all_its_processes(
    tmp_path: Path, lines: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "smithers", "demo"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        for _ in range(lines):
            process.stdout.readline()
        process.stdout.close()
        # It is inherited by every process, so this ends with the last of them.
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 0


def spoken(output: str) -> list[tuple[str, str]]:
    """Who said what."""
    pairs = [line[7:].split("│ ", 1) for line in output.splitlines() if "│" in line]
    return [(who.strip(), said) for who, said in pairs]
