"""Agents in a script that kills itself once at each of its points; run as `agent_sweep PATH LOG`.

LOG has the points that it has come to, and what was done, by a system call each.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from smithers import (
    AgentOutcome,
    AgentRecorder,
    AgentResult,
    AgentTask,
    create_async_smithers_db,
)

PROMPTS = ("plan", "build")
PLACES = ("before", "begun", "in session", "tool", "all but done", "finished", "noted", "after")


class Log:
    """What every run of the script has written."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._path.touch()

    def write(self, line: str) -> None:
        with open(self._path, "a", encoding="utf-8", buffering=1) as file:
            file.write(f"{line}\n")

    def point(self, name: str) -> None:
        """Die here, unless that was done before."""
        if f"point {name}" not in self._path.read_text("utf-8").splitlines():
            self.write(f"point {name}")
            os.kill(os.getpid(), signal.SIGKILL)


class Runner:
    """An agent in a session, with a tool."""

    model = "swept"

    def __init__(self, log: Log) -> None:
        self._log = log

    async def run(self, task: AgentTask, recorder: AgentRecorder) -> AgentOutcome:
        point, prompt = self._log.point, task.prompt
        point(f"{prompt}: begun")
        recorder.session(task.session_id or f"session of {prompt}")
        await recorder.flush()
        point(f"{prompt}: in session")
        recorder.tool_started("1", "look")
        await recorder.flush()
        point(f"{prompt}: tool")
        recorder.tool_ended("1", "seen")
        self._log.write(f"did {prompt} in {task.session_id}")
        await recorder.flush()
        point(f"{prompt}: all but done")
        return AgentOutcome(output=f"{prompt} is done")


async def main(path: str, log: Log) -> None:
    async with create_async_smithers_db(path) as db, db.run("sweep") as run:

        async def finish(result: AgentResult) -> None:
            log.point(f"{result.output.split()[0]}: finished")
            await db.state.set(result.output, value=True, trigger="finished")
            log.point(f"{result.output.split()[0]}: noted")

        outputs: list[str] = []
        for prompt in PROMPTS:
            log.point(f"{prompt}: before")
            result = await run.agent(Runner(log), prompt, on_finished=finish)
            outputs.append(result.output)
            log.point(f"{prompt}: after")
        print(json.dumps([run.resumed, outputs, await db.state.get_all()]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Log(sys.argv[2])))
