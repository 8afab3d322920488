"""`smithers run`: scripts run in processes of their own, on terminals and in pipes."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

from smithers import SmithersDB, create_smithers_db
from smithers.cli.screen import most_telling
from smithers.cli.script import MODULE
from smithers.storage.overview import Part
from tests.smithers.commandline import Result, Run, environment, on_terminal
from tests.warm import warm_run

WHOLE = """
async def main(run):
    print("hello from the script")
    async with run.phase("prepare"):
        await run.step("download", lambda: {"files": 3})
    async with run.db.agents.open("Write the\\ttests.", "opus") as id:
        await run.db.tools.complete(await run.db.tools.start(id, "Bash", {}), "ok")
        tokens = {"input": 1000, "output": 20, "cost_usd": 0.01}
        await run.db.agents.complete(id, "done", tokens=tokens)
"""
FAILING = """
def unlucky():
    raise OSError("the disk is full")

async def main(run):
    await run.step("download", lambda: print("downloading"))
    if not (run.db.path.parent / "mended").exists():
        await run.step("write", unlucky)
"""
WAITING = """
import asyncio

async def main(run):
    await run.step("download", lambda: print("downloading", flush=True))
    async with run.phase("wait"):
        if not (run.db.path.parent / "go").exists():
            print("waiting", flush=True)
            await asyncio.Event().wait()
"""


@dataclass(frozen=True)
class Scripts:
    """Scripts in a directory of their own, and what runs them there."""

    folder: Path

    def write(self, text: str, name: str = "feature.py") -> str:
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def begin(self, *args: str) -> subprocess.Popen[str]:
        """Run `smithers run …` in a process of its own, its output a pipe."""
        return subprocess.Popen(
            [sys.executable, "-m", "smithers", "run", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=environment(),
        )

    def run(self, *args: str) -> Result:
        """Run `smithers run …` to its end."""
        done = warm_run(["-m", "smithers", "run", *args], self.folder, environment())
        return Result(done.returncode, done.stdout, done.stderr)

    def database(self, name: str = "feature") -> SmithersDB:
        return create_smithers_db(self.folder / ".smithers" / name, read_only=True)

    def statuses(self, name: str = "feature") -> list[str]:
        with self.database(name) as db:
            return [execution.status for execution in db.execution.list()]


@pytest.fixture
def scripts(working_directory: None, tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)


@pytest.fixture
def waiting(scripts: Scripts) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Begin a script, and wait until it waits."""
    begun: list[subprocess.Popen[str]] = []

    def begin(*args: str) -> subprocess.Popen[str]:
        process = scripts.begin(*args)
        begun.append(process)
        assert process.stdout is not None
        # Read without a buffer of one's own: `communicate` has to get the rest.
        seen = b""
        while b"waiting\n" not in seen:
            chunk = os.read(process.stdout.fileno(), 1)
            assert chunk, process.communicate()
            seen += chunk
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def words(result: Result | str) -> list[str]:
    """Return the lines of events, without their times and how long things took."""
    out = result if isinstance(result, str) else result.out
    lines = [line.split("  ") for line in out.splitlines()]
    return [cells[1] for cells in lines if len(cells) > 1 and cells[0].count(":") == 2]


# -- outcomes ------------------------------------------------------------------------------------


def test_a_script_runs_and_each_of_its_events_is_a_line(scripts: Scripts) -> None:
    done = scripts.run(scripts.write(WHOLE))
    assert (done.code, done.err) == (0, "")
    with scripts.database() as db:
        (execution,) = db.execution.list()
        (agent,) = db.agents.list()
    assert (execution.name, execution.status) == ("feature", "completed")
    assert execution.file_path == str(scripts.folder / "feature.py")
    end = agent.id[-8:]
    assert words(done) == [
        "feature started",
        "phase prepare started",
        "step download started",
        "step download completed",
        "phase prepare completed",
        f"agent opus {end} started",
        f"agent opus {end} completed",
        "feature completed",
    ]
    assert "hello from the script\n" in done.out
    assert f"agent opus {end} started  Write the tests." in done.out
    assert "1 tool call  1,020 tokens  $0.0100" in done.out
    assert not (scripts.folder / "__pycache__").exists(), "nothing is left beside a script"


def test_a_failed_script_ends_with_1_its_own_traceback_and_a_line(scripts: Scripts) -> None:
    failed = scripts.run(scripts.write(FAILING))
    assert failed.code == 1
    assert scripts.statuses() == ["failed"]
    *trace, line = failed.err.splitlines()
    assert line == (
        "Error: 'feature' failed: step 'write': OSError: the disk is full; "
        "go on with it: smithers run feature.py --resume-failed"
    )
    files = {line.split('"')[1] for line in trace if line.lstrip().startswith("File ")}
    assert files == {str(scripts.folder / "feature.py")}, "none of our frames"
    assert "OSError: the disk is full" in trace
    assert '    await run.step("write", unlucky)' in trace
    assert words(failed)[-2:] == ["step write failed", "feature failed"]


def test_a_failed_script_is_gone_on_with_only_where_that_is_asked_for(scripts: Scripts) -> None:
    script = scripts.write(FAILING)
    assert scripts.run(script).code == 1
    anew = scripts.run(script)
    assert (anew.code, anew.out.count("downloading\n")) == (1, 1), "a new one by default"
    (scripts.folder / ".smithers" / "feature" / "mended").touch()
    mended = scripts.run(script, "--resume-failed")
    assert (mended.code, mended.err) == (0, "")
    assert words(mended)[0] == "feature resumed, with 1 step completed"
    assert "downloading" not in mended.out
    assert scripts.statuses() == ["completed", "failed"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_interrupts_and_the_same_command_goes_on(
    scripts: Scripts,
    waiting: Callable[..., subprocess.Popen[str]],
    number: signal.Signals,
    code: int,
) -> None:
    process = waiting(scripts.write(WAITING))
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert err == "Error: 'feature' was interrupted; go on with it: smithers run feature.py\n"
    assert words(out)[-1] == "feature interrupted"
    assert scripts.statuses() == ["interrupted"]
    (scripts.folder / ".smithers" / "feature" / "go").touch()
    resumed = scripts.run("feature.py")
    assert (resumed.code, resumed.err) == (0, "")
    assert "downloading" not in resumed.out
    assert words(resumed)[-2:] == ["phase wait completed", "feature completed"]
    assert scripts.statuses() == ["completed"]


def test_a_killed_script_is_gone_on_with(
    scripts: Scripts, waiting: Callable[..., subprocess.Popen[str]]
) -> None:
    process = waiting(scripts.write(WAITING), "--resume")
    process.kill()
    process.wait(timeout=30)
    (scripts.folder / ".smithers" / "feature" / "go").touch()
    resumed = scripts.run("feature.py", "--resume")
    assert (resumed.code, "downloading" in resumed.out) == (0, False)
    assert scripts.statuses() == ["completed"]


def test_new_begins_anew(scripts: Scripts, waiting: Callable[..., subprocess.Popen[str]]) -> None:
    process = waiting(scripts.write(WAITING))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    (scripts.folder / ".smithers" / "feature" / "go").touch()
    anew = scripts.run("feature.py", "--new")
    assert (anew.code, "downloading" in anew.out) == (0, True)
    assert words(anew)[0] == "feature started"
    assert scripts.statuses() == ["completed", "interrupted"]


def test_a_script_that_is_cancelled_from_elsewhere_ends_with_1_and_says_why(
    scripts: Scripts, waiting: Callable[..., subprocess.Popen[str]]
) -> None:
    process = waiting(scripts.write(WAITING))
    with create_smithers_db(scripts.folder / ".smithers" / "feature") as db:
        (execution,) = db.execution.list("running")
        db.execution.cancel(execution.id, "no longer\x1b[31m wanted")
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert err == "Error: 'feature' was cancelled: no longer\\x1b[31m wanted\n"
    assert words(out)[-1] == "feature cancelled"


def test_a_second_interrupt_ends_what_does_not_heed_the_first(scripts: Scripts) -> None:
    deaf = scripts.write(
        "import asyncio, time\n"
        "async def main(run):\n"
        "    task = asyncio.current_task()\n"
        "    print('deaf', flush=True)\n"
        "    while not task.cancelling():\n"
        "        time.sleep(0.01)\n"
        "    print('interrupted once', flush=True)\n"
        "    time.sleep(50)\n"
    )
    with scripts.begin(deaf) as process:
        assert process.stdout is not None
        for said in ("deaf\n", "interrupted once\n"):
            while process.stdout.readline() != said:
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "Error: 'feature' was interrupted; go on with it: smithers run feature.py\n"
    with scripts.database() as db:
        assert db.execution.find_incomplete("feature") is not None


@pytest.mark.parametrize(("code", "ends", "status"), [("0", 0, "completed"), ("3", 1, "failed")])
def test_a_script_may_exit(scripts: Scripts, code: str, ends: int, status: str) -> None:
    script = scripts.write(f"import sys\nasync def main(run):\n    sys.exit({code})\n")
    assert (scripts.run(script).code, scripts.statuses()) == (ends, [status])


def test_a_group_of_errors_is_shown_without_our_frames(scripts: Scripts) -> None:
    script = scripts.write(
        "async def fail(text):\n    raise ValueError(text)\n"
        "async def main(run):\n    await run.parallel(fail('one'), fail('two'))\n"
    )
    failed = scripts.run(script)
    assert failed.code == 1
    assert "ValueError: one" in failed.err and "ValueError: two" in failed.err
    assert "parallel.py" not in failed.err and "asyncio" not in failed.err
    assert failed.err.splitlines()[-1].startswith("Error: 'feature' failed: ExceptionGroup:")


# -- which script, which database ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "'feature.py' has no `async def main(run)`"),
        ("main = 5\n", "main of 'feature.py' is not async: write `async def main(run)`"),
        ("def main(run): ...\n", "main of 'feature.py' is not async: write `async def main(run)`"),
        (
            "async def main(): ...\n",
            "main of 'feature.py' is not to be called with a run: write `async def main(run)`",
        ),
        ("\nx = (\n", "'feature.py' does not compile: '(' was never closed ({}, line 2)"),
        (
            "\nimport no_such_module\n",
            "'feature.py' cannot be loaded: ModuleNotFoundError: No module named "
            "'no_such_module' (line 2)",
        ),
        (
            "from json import nothing\n",
            "'feature.py' cannot be loaded: ImportError: cannot import name 'nothing' from 'json'",
        ),
        ("import sys\nsys.exit(4)\n", "'feature.py' cannot be loaded: SystemExit: 4"),
        ("1 / 0\n", "'feature.py' cannot be loaded: ZeroDivisionError: division by zero"),
        ("x = '\0'\n", "'feature.py' "),
        ("raise ValueError('one\\ntwo\\x1b[31m')\n", "ValueError: one two\\x1b[31m"),
    ],
    ids=lambda text: repr(text)[:30],
)
def test_what_cannot_be_run_is_told_in_a_line_and_nothing_is_made(
    scripts: Scripts, smithers: Run, loading: None, text: str, said: str
) -> None:
    script = scripts.write(text)
    failed = smithers("run", script)
    assert (failed.code, failed.out) == (1, "")
    last = failed.err.splitlines()[-1]
    assert last.startswith("Error: ") and said.format(scripts.folder / script) in last
    if "Error" not in text and "/" not in text and "exit" not in text:
        assert failed.err.count("\n") == 1, failed.err
    assert not (scripts.folder / ".smithers").exists()


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let what loading a script does to the process be undone."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    yield
    sys.modules.pop(MODULE, None)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("absent.py", "there is no script 'absent.py'"),
        (".", "'.' is a directory, not a script"),
        ("absent\x1b.py", "there is no script 'absent\\x1b.py'"),
    ],
)
def test_a_script_that_is_not_there_is_told_in_a_line(
    scripts: Scripts, smithers: Run, named: str, said: str
) -> None:
    failed = smithers("run", named)
    assert (failed.code, failed.out, failed.err) == (1, "", f"Error: {said}\n")
    assert not (scripts.folder / ".smithers").exists()


def test_wrong_usage_ends_with_2(scripts: Scripts, smithers: Run, loading: None) -> None:
    script = scripts.write(WHOLE)
    assert smithers("run").code == 2
    for name in ("a/b", "..", ""):
        refused = smithers("run", script, "--name", name)
        assert (refused.code, "pass --path" in refused.err) == (2, True), name
    assert not (scripts.folder / ".smithers").exists()


def test_each_script_and_each_name_has_a_database_of_its_own(scripts: Scripts) -> None:
    for name in ("one.py", "two.py"):
        scripts.write("async def main(run):\n    await run.db.state.set('n', 1)\n", name)
    assert [scripts.run(*args).code for args in (["one.py"], ["two.py"])] == [0, 0]
    assert scripts.run("two.py", "--name", "Größe 2").code == 0
    made = sorted(folder.name for folder in (scripts.folder / ".smithers").iterdir())
    assert made == ["Größe 2", "one", "two"]
    assert scripts.run("two.py", "--path", "elsewhere").code == 0
    with create_smithers_db(scripts.folder / "elsewhere", read_only=True) as db:
        assert [execution.name for execution in db.execution.list()] == ["two"]


def test_the_environment_may_name_the_database(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMITHERS_DB_PATH", "named")
    assert scripts.run(scripts.write(WHOLE)).code == 0
    assert (scripts.folder / "named" / "db.sqlite").exists()
    assert not (scripts.folder / ".smithers").exists()


def test_the_command_that_goes_on_is_the_one_that_was_given(scripts: Scripts) -> None:
    failed = scripts.run(scripts.write(FAILING), "--path", "a b", "--name", "Feature")
    again = "smithers run feature.py --path 'a b' --name Feature --resume-failed"
    assert failed.err.splitlines()[-1].endswith(f"go on with it: {again}")


def test_a_script_stands_where_python_would_have_it(scripts: Scripts) -> None:
    below = scripts.folder / "below"
    below.mkdir()
    (below / "neighbour.py").write_text("VALUE = 5\n", encoding="utf-8")
    scripts.write(
        "import sys\nfrom dataclasses import dataclass\nfrom neighbour import VALUE\n"
        "@dataclass\nclass Thing:\n    n: int\n"
        "async def main(run):\n"
        "    print(Thing(VALUE), sys.argv, __file__, __name__ == '__main__')\n"
        "if __name__ == '__main__':\n    raise SystemExit('run by itself')\n",
        "below/feature.py",
    )
    done = scripts.run("below/feature.py")
    assert (done.code, done.err) == (0, "")
    assert f"Thing(n=5) ['below/feature.py'] {below / 'feature.py'} False" in done.out


def test_a_reader_that_has_gone_does_not_end_the_workflow(
    scripts: Scripts, waiting: Callable[..., subprocess.Popen[str]]
) -> None:
    script = scripts.write(
        "import asyncio\nasync def main(run):\n    print('waiting', flush=True)\n"
        "    go = run.db.state.observe('go')\n    await go.first(lambda value: value)\n"
        "    async with run.phase('after'):\n        print('nobody reads this', flush=True)\n"
    )
    process = waiting(script)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    with create_smithers_db(scripts.folder / ".smithers" / "feature") as db:
        db.state.set("go", True)
    assert (process.wait(timeout=30), process.stderr.read()) == (0, "")
    assert scripts.statuses() == ["completed"]


def test_a_gate_is_told_with_the_command_that_answers_it(scripts: Scripts) -> None:
    script = scripts.write("async def main(run):\n    await run.human('deploy it', 'Deploy?')\n")
    with scripts.begin(script) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline(), process.stdout.readline()]
        assert "waiting for an answer  Deploy?  smithers db approve 'deploy it'" in lines[1]
        with create_smithers_db(scripts.folder / ".smithers" / "feature") as db:
            db.approvals.approve("deploy it")
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert words(out) == ["gate deploy it answered", "feature completed"]


# -- on a terminal -------------------------------------------------------------------------------


def test_a_terminal_shows_the_tree_below_what_the_script_prints(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scripts.folder)
    shown = on_terminal(["run", scripts.write(WHOLE)], 80)
    lines = [line.rstrip() for line in shown.splitlines()]
    (head,) = [index for index, line in enumerate(lines[-4:]) if line.startswith("feature ")]
    last = lines[-4:][head:]
    assert "completed" in last[0] and "1 agent  1,020 tokens  $0.0100" in last[0]
    assert last[1].startswith("├─ phase prepare  completed")
    assert last[2].startswith("│  └─ step download  completed")
    assert last[3].startswith("└─ agent opus ")
    assert any(line.endswith("hello from the script") for line in lines)


def test_a_terminal_is_told_what_runs_while_it_runs_although_the_script_blocks(
    scripts: Scripts,
) -> None:
    script = scripts.write(
        "import os\nasync def main(run):\n    async with run.phase('wait'):\n"
        "        await run.step('block', lambda: len(input()))\n"
    )
    with terminal(scripts, ["run", script]) as shown:
        shown.until("step block  running")
        shown.type("on\n")
        shown.until("step block  completed")
        assert shown.process.wait(timeout=30) == 0


def test_ctrl_c_on_a_terminal_leaves_it_as_it_was(scripts: Scripts) -> None:
    with terminal(scripts, ["run", scripts.write(WAITING)]) as shown:
        shown.until("phase wait  running")
        shown.type("\x03")
        shown.until("Error: 'feature' was interrupted; go on with it: smithers run feature.py")
        assert shown.process.wait(timeout=30) == 130
        assert shown.raw.rfind("\x1b[?25h") > shown.raw.rfind("\x1b[?25l"), "the cursor is back"
    assert scripts.statuses() == ["interrupted"]


def test_a_terminal_that_can_do_nothing_gets_lines(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    with terminal(scripts, ["run", scripts.write(WHOLE)], TERM="dumb") as shown:
        shown.until("feature completed")
        assert shown.process.wait(timeout=30) == 0
        assert "\x1b" not in shown.raw


def test_of_a_long_tree_what_runs_and_the_newest_are_shown() -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    part = Part(
        kind="phase",
        id="phase",
        execution_id="execution",
        parents=(),
        name="",
        text=None,
        status="running",
        error=None,
        started_at=began,
        completed_at=None,
        duration_ms=None,
        tokens=0,
        cost_usd=0.0,
        count=0,
    )
    steps = [
        replace(
            part,
            kind="step",
            id=f"step {number}",
            parents=("phase",),
            status="running" if number == 2 else "completed",
            started_at=began + timedelta(seconds=number),
        )
        for number in range(10)
    ]
    parts = [part, *steps]
    assert most_telling(parts, 20) == parts
    kept = [one.id for one in most_telling(parts, 4)]
    assert kept == ["phase", "step 2", "step 8", "step 9"]
    assert [one.id for one in most_telling(parts, 2)] == ["phase", "step 2"]
    assert [one.id for one in most_telling(parts, 1)] == ["phase"]
    ended = [replace(one, status="completed") for one in parts]
    assert most_telling(ended, 0) == []


class Terminal:
    """A process on a terminal of 80 by 24, what it has shown so far, and keys to type."""

    def __init__(self, args: Sequence[str], folder: Path, variables: dict[str, str]) -> None:
        self._ours, its = pty.openpty()
        self.raw = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "smithers", *args],
            stdin=its,
            stdout=its,
            stderr=its,
            cwd=folder,
            env={**environment(), "COLUMNS": "80", "LINES": "24", **variables},
            start_new_session=True,
            preexec_fn=lambda: _control(its),
        )
        os.close(its)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def until(self, text: str) -> None:
        """Read until a text is shown."""
        while text not in click.unstyle(self.raw):
            readable, _, _ = select.select([self._ours], [], [], 30)
            assert readable, f"{text!r} was not shown, but: {self.raw}"
            try:
                chunk = os.read(self._ours, 4096)
            except OSError:
                chunk = b""
            assert chunk, f"it ended without {text!r}: {self.raw}"
            self.raw += chunk.decode(errors="replace")

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())


def terminal(scripts: Scripts, args: Sequence[str], **variables: str) -> Terminal:
    return Terminal(args, scripts.folder, variables)


def _control(its: int) -> None:
    """Let Ctrl-C reach this process: make the terminal the one that controls it."""
    import fcntl
    import termios

    fcntl.ioctl(its, termios.TIOCSCTTY, 0)
