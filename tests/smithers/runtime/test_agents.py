"""Agents in scripts, whoever runs them: commands, and runners of one's own."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from smithers import (
    AgentFailed,
    AgentOutcome,
    AgentRecorder,
    AgentResult,
    AgentRunner,
    AgentTask,
    AsyncSmithersDB,
    CommandRunner,
    OwnershipLost,
    RunnerError,
    create_async_smithers_db,
    create_smithers_db,
)
from smithers.runtime import agents, groups
from tests.processes import runs
from tests.smithers.runtime import agent_sweep
from tests.warm import warm_run

ROOT = Path(__file__).parents[3]
Work = Callable[[AgentTask, AgentRecorder], Awaitable[str]]


class Runner:
    """Does what a test says, and remembers what it was asked."""

    model = "mine"

    def __init__(self, work: Work | None = None) -> None:
        self.tasks: list[AgentTask] = []
        self._work = work

    async def run(self, task: AgentTask, recorder: AgentRecorder) -> AgentOutcome:
        self.tasks.append(task)
        if self._work is None:
            return AgentOutcome(output=f"did {task.prompt}")
        return AgentOutcome(output=await self._work(task, recorder))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait as little as will do."""
    monkeypatch.setattr(agents, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(groups, "TERM_GRACE", 0.3)


def command(program: str, *arguments: str, **options: Any) -> CommandRunner:
    return CommandRunner([sys.executable, "-c", program, *arguments], **options)


async def ask(
    db: AsyncSmithersDB, runner: AgentRunner, prompt: str = "go", **arguments: Any
) -> AgentResult:
    """Ask in a run of its own."""
    async with db.run("w") as run:
        return await run.agent(runner, prompt, **arguments)
    raise AssertionError("a run lets every error pass")


# -- commands --------------------------------------------------------------------------------------


async def test_a_command_answers_with_its_output(db: AsyncSmithersDB) -> None:
    runner = command("import sys; print('You said:', sys.stdin.read())", model="echo")
    result = await ask(db, runner, "héllo", system_prompt="Be brief.")
    assert (result.output, result.structured, result.session_id) == ("You said: héllo", None, None)
    assert result.tokens == {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0}
    (row,) = await db.agents.list()
    assert (row.id, row.status, row.output) == (result.id, "completed", result.output)
    assert (row.model, row.prompt, row.system_prompt) == ("echo", "héllo", "Be brief.")


async def test_the_prompt_is_an_argument_where_one_says_so(
    db: AsyncSmithersDB, tmp_path: Path
) -> None:
    program = "import os, sys; print(sys.argv[1:], repr(sys.stdin.read()), os.environ['X'])"
    runner = command(program, "--ask={prompt}", env={"X": "y"}, cwd=tmp_path)
    assert (await ask(db, runner, "a b; c")).output == "['--ask=a b; c'] '' y"
    assert runner.model == Path(sys.executable).name


async def test_output_is_recorded_as_it_comes(db: AsyncSmithersDB) -> None:
    program = "import time\nprint('first', flush=True)\ntime.sleep(60)"
    async with db.run("w") as run:
        asking = asyncio.create_task(run.agent(command(program), "go"))
        async with asyncio.timeout(20):
            await db.agents.observe().first(lambda rows: bool(rows and rows[0].output))
        (row,) = await db.agents.list()
        assert (row.status, row.output) == ("running", "first\n")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    (row,) = await db.agents.list()
    assert (row.status, row.output) == ("cancelled", "first\n")


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import sys; print('so far'); sys.exit('no such file')", "exited with code 1"),
        ("import os; print('so far', flush=True); os.kill(os.getpid(), 9)", "ended by signal 9"),
    ],
)
async def test_a_command_that_fails_is_a_failed_agent(
    db: AsyncSmithersDB, program: str, why: str
) -> None:
    with pytest.raises(AgentFailed, match=why) as caught:
        await ask(db, command(program))
    (row,) = await db.agents.list()
    assert (row.id, row.status, row.output) == (caught.value.id, "failed", "so far\n")
    assert (row.error or "").startswith(caught.value.reason)
    if "file" in program:
        assert "no such file" in (row.error or ""), "what it said of its failure is kept"


async def test_a_command_that_is_not_there_is_a_failed_agent(db: AsyncSmithersDB) -> None:
    with pytest.raises(AgentFailed, match="cannot start '/no/such/program': No such file"):
        await ask(db, CommandRunner(["/no/such/program"]), retries=2)
    assert len(await db.agents.list()) == 1, "it will not be there the next time"


async def test_time_is_up_and_its_whole_group_is_ended(db: AsyncSmithersDB, tmp_path: Path) -> None:
    program = (
        "import os, signal, subprocess, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "print(os.getpid(), child.pid, flush=True)\n"
        "time.sleep(60)"
    )
    began = time.monotonic()
    with pytest.raises(AgentFailed, match="no result within 4 s"):
        await ask(db, command(program), timeout=4.0)
    assert time.monotonic() - began < 30
    (row,) = await db.agents.list()
    pids = [int(word) for word in (row.output or "").split()]
    assert len(pids) == 2 and not any(map(runs, pids))


async def test_what_a_command_leaves_behind_is_ended_with_it(db: AsyncSmithersDB) -> None:
    program = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid)"
    began = time.monotonic()
    result = await ask(db, command(program))
    assert time.monotonic() - began < 20, "nobody waits for the pipe it holds"
    assert not runs(int(result.output))


async def test_a_large_prompt_and_a_large_output_pass(db: AsyncSmithersDB) -> None:
    prompt = "x" * 1_000_000
    runner = command("import sys; sys.stdout.write(sys.stdin.read() * 2)")
    assert len((await ask(db, runner, prompt)).output) == 2_000_000
    deaf = command("print('I do not listen')")
    assert (await ask(db, deaf, prompt)).output == "I do not listen"


async def test_an_answer_that_is_json_is_read_into_its_type(db: AsyncSmithersDB) -> None:
    runner = command("print('[1, 2]')")
    result = await ask(db, runner, output_type=list[int])
    assert result.structured == [1, 2]
    (row,) = await db.agents.list()
    assert row.structured == [1, 2]
    with pytest.raises(AgentFailed, match=r"its answer is no list\[str\]"):
        await ask(db, runner, output_type=list[str])
    with pytest.raises(AgentFailed, match="its answer is no int"):
        await ask(db, command("print('many')"), output_type=int)


@pytest.mark.parametrize("argv", ["ls -l", []])
def test_a_command_is_a_list(argv: Any) -> None:
    with pytest.raises(TypeError, match="argv is a list"):
        CommandRunner(argv)


# -- runners of one's own --------------------------------------------------------------------------


async def test_a_runner_is_any_object_thatruns(db: AsyncSmithersDB) -> None:
    async def work(task: AgentTask, recorder: AgentRecorder) -> str:
        recorder.session("s-1")
        recorder.tool_started("1", "look", {"at": "it"})
        recorder.tool_ended("1", {"seen": True}, summary="looked")
        recorder.tokens("m-1", {"input": 10, "output": 2})
        recorder.tokens("m-1", {"input": 10, "output": 3})
        recorder.turns(1)
        recorder.cost(0.25)
        return "seen"

    result = await ask(db, Runner(work), model="other")
    assert (result.output, result.session_id, result.turns, result.cost_usd) == (
        "seen",
        "s-1",
        1,
        0.25,
    )
    assert result.tokens == {"input": 10, "output": 3, "cache_read": 0, "cache_write": 0}
    (row,) = await db.agents.list()
    assert row.model == "other"
    (call,) = await db.tools.list(row.id)
    assert (call.name, call.input, call.output, call.summary) == (
        "look",
        {"at": "it"},
        {"seen": True},
        "looked",
    )


async def test_it_stands_where_it_was_called_and_what_it_starts_below_it(
    db: AsyncSmithersDB,
) -> None:
    async def work(task: AgentTask, recorder: AgentRecorder) -> str:
        return await db.agents.start("below")

    async with db.run("w") as run, run.phase("p") as phase:
        result = await run.agent(Runner(work), "go")
        assert await db.agents.current() is not None, "the one below was left open"
        after = await db.agents.start("beside")
    main, below, beside = await db.agents.list()
    assert (main.phase_id, main.execution_id) == (phase, run.id)
    assert (below.id, below.parent_agent_id) == (result.output, main.id)
    assert (beside.id, beside.parent_agent_id) == (after, None)


async def test_any_exception_fails_it_and_is_the_cause(db: AsyncSmithersDB) -> None:
    async def work(task: AgentTask, recorder: AgentRecorder) -> str:
        recorder.text("so far")
        recorder.tool_started("1", "look")
        raise ZeroDivisionError("of all things")

    runner = Runner(work)
    with pytest.raises(AgentFailed, match="ZeroDivisionError: of all things") as caught:
        await ask(db, runner, retries=3)
    assert isinstance(caught.value.__cause__, RunnerError)
    assert isinstance(caught.value.__cause__.__cause__, ZeroDivisionError)
    assert len(runner.tasks) == 1, "nobody has said that another attempt may go better"
    (row,) = await db.agents.list()
    assert (row.status, row.output) == ("failed", "so far")
    (call,) = await db.tools.list(row.id)
    assert call.status == "cancelled"


async def test_what_could_not_be_recorded_is_noted_on_the_failure(db: AsyncSmithersDB) -> None:
    async def work(task: AgentTask, recorder: AgentRecorder) -> str:
        recorder.tool_started("1", "look", object())
        recorder.tool_ended("1", "seen")
        await recorder.flush()
        raise RunnerError("no more")

    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    with pytest.raises(AgentFailed, match="no more") as caught:
        await ask(db, Runner(work))
    (note,) = caught.value.__notes__
    assert note.startswith("not recorded: TypeError: the input of tool 'look'")
    assert len(reported) == 1
    (call,) = await db.tools.list(caught.value.id)
    assert (call.status, call.output) == ("completed", "seen")


async def test_another_attempt_knows_of_the_last(db: AsyncSmithersDB) -> None:
    async def work(task: AgentTask, recorder: AgentRecorder) -> str:
        recorder.session(task.session_id or "s-1")
        if task.session_id is None:
            raise RunnerError("overloaded", transient=True, details="try later")
        return "at last"

    runner = Runner(work)
    assert (await ask(db, runner, retries=1)).output == "at last"
    assert [(task.session_id, task.trouble) for task in runner.tasks] == [
        (None, None),
        ("s-1", "overloaded"),
    ]
    first, second = await db.agents.list()
    assert (first.status, first.error) == ("failed", "overloaded\ntry later")
    assert second.status == "completed"


async def test_no_attempt_begins_that_would_come_too_late(
    db: AsyncSmithersDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(task: AgentTask, recorder: AgentRecorder) -> str:
        raise RunnerError("overloaded", transient=True)

    monkeypatch.setattr(agents, "FIRST_PAUSE", 30)
    runner = Runner(work)
    with pytest.raises(AgentFailed, match="overloaded"):
        await ask(db, runner, retries=5, timeout=10)
    assert len(runner.tasks) == 1


async def test_a_runner_that_cancels_itself_fails(db: AsyncSmithersDB) -> None:
    async def work(task: AgentTask, recorder: AgentRecorder) -> str:
        raise asyncio.CancelledError

    with pytest.raises(AgentFailed, match="its runner has cancelled itself"):
        await ask(db, Runner(work))


async def test_on_tool_may_stop_the_agent(db: AsyncSmithersDB) -> None:
    async def work(task: AgentTask, recorder: AgentRecorder) -> str:
        recorder.tool_started("1", "rm")
        recorder.tool_ended("1", "gone")
        await asyncio.Event().wait()
        return "never"

    async def forbid(call: Any) -> None:
        raise PermissionError(f"no {call.name}")

    with pytest.raises(PermissionError, match="no rm"):
        await ask(db, Runner(work), on_tool=forbid)
    (row,) = await db.agents.list()
    assert row.status == "failed" and "PermissionError: no rm" in (row.error or "")


async def test_one_whose_execution_is_taken_over_stops(path: Path) -> None:
    started = asyncio.Event()

    async def work(task: AgentTask, recorder: AgentRecorder) -> str:
        while True:
            recorder.text("more")
            started.set()
            await asyncio.sleep(0.02)

    async def script() -> None:
        async with create_async_smithers_db(path) as db, db.run("w") as run:
            await run.agent(Runner(work), "go")

    task = asyncio.create_task(script())
    await started.wait()
    with create_smithers_db(path, watch=False) as thief:
        thief.query("UPDATE _smithers_leases SET expires = 0, pid = 1", write=True)
        (execution,) = thief.execution.list()
        thief.execution.resume(execution.id)
        with pytest.raises(OwnershipLost):
            async with asyncio.timeout(20):
                await task
        found = thief.execution.get(execution.id)
        assert found is not None and found.status == "running", "it is another's now"


async def test_what_was_cut_off_goes_on_in_its_session_and_what_was_done_is_found(
    db: AsyncSmithersDB,
) -> None:
    async def work(task: AgentTask, recorder: AgentRecorder) -> str:
        recorder.session(f"s-{task.prompt}")
        await asyncio.sleep(0)
        if task.prompt == "b" and task.session_id is None:
            await asyncio.Event().wait()
        return f"{task.prompt} in {task.session_id}"

    runner = Runner(work)

    async def script() -> list[str]:
        async with db.run("w") as run:
            return [(await run.agent(runner, prompt)).output for prompt in "ab"]
        raise AssertionError

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await script()
    assert await script() == ["a in None", "b in s-b"]
    assert [task.prompt for task in runner.tasks] == ["a", "b", "b"]
    assert [row.status for row in await db.agents.list()] == ["completed", "cancelled", "completed"]


async def test_in_a_loop_each_iteration_has_its_own(db: AsyncSmithersDB) -> None:
    runner = Runner()
    done, set_done = await db.state.signal("n", 0)

    async def finish(result: AgentResult) -> None:
        await set_done(done.peek() + 1, trigger="finished")

    async def body() -> None:
        if done() < 3:
            result = await run.agent(runner, "go", on_finished=finish)
            assert result.output == "did go"

    async with db.run("w") as run:
        ralph = await run.ralph(body)
    assert (ralph.iterations, len(runner.tasks)) == (4, 3)
    assert [t.trigger for t in await db.state.history("n")] == ["finished"] * 3


async def test_an_interrupted_process_ends_its_command(path: Path, tmp_path: Path) -> None:
    program = f"""
import asyncio, sys
from smithers import CommandRunner, create_async_smithers_db
async def main():
    async with create_async_smithers_db({str(path)!r}) as db, db.run("w") as run:
        runner = CommandRunner(["sh", "-c", "echo $$; exec sleep 60"])
        asking = asyncio.create_task(run.agent(runner, "go"))
        await db.agents.observe().first(lambda rows: bool(rows and rows[0].output))
        print((await db.agents.list())[0].output, flush=True)
        await asking
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program), stdout=asyncio.subprocess.PIPE, stderr=-3
    )
    assert process.stdout is not None
    pid = int(await process.stdout.readline())
    assert runs(pid)
    process.send_signal(signal.SIGTERM)
    await process.communicate()
    assert not runs(pid)
    with create_smithers_db(path, watch=False) as db:
        assert [row.status for row in db.agents.list()] == ["cancelled"]
        assert [row.status for row in db.execution.list()] == ["interrupted"]


def test_killed_at_every_point_it_comes_to_the_same_end(path: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = ["-m", agent_sweep.__name__, str(path), str(log)]
    points = len(agent_sweep.PROMPTS) * len(agent_sweep.PLACES)
    for _ in range(points):
        killed = warm_run(command, ROOT)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = warm_run(command, ROOT)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        True,
        ["plan is done", "build is done"],
        {"plan is done": True, "build is done": True},
    ]
    lines = log.read_text("utf-8").splitlines()
    with create_smithers_db(path, watch=False) as db:
        rows = db.agents.list()
        assert [row.status for row in db.execution.list()] == ["completed"]
        calls = [call for row in rows for call in db.tools.list(row.id)]
        statuses = {row.status for row in rows} | {call.status for call in calls}
        assert statuses == {"completed", "cancelled"}
        notes = len(db.state.history())
    for prompt in agent_sweep.PROMPTS:
        completed = [row for row in rows if (row.prompt, row.status) == (prompt, "completed")]
        assert len(completed) == 1, "what was recorded as done was not done again"
        cut_off = [row for row in rows if (row.prompt, row.status) == (prompt, "cancelled")]
        assert len(cut_off) == 4, "begun, in session, in its tool, and all but done"
        assert [row.session_id for row in cut_off] == [None, *[f"session of {prompt}"] * 3]
        # Done twice outside of the database: once it was killed just before its end was recorded.
        assert lines.count(f"did {prompt} in session of {prompt}") == 2
    assert notes == 4, "each was told twice: once it was killed before that was noted"
