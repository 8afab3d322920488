"""A workflow of twelve steps that kills itself at one point; run as `sweep.py PATH LOG POINT`.

Three phases of a step each, in a loop of four iterations. Points are counted from 0 in the order
in which this process comes to them. Steps write to LOG what they do, by a system call each, so that
it survives the kill.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from smithers import create_async_smithers_db

PHASES = ("plan", "build", "review")
ITERATIONS = 4


class Points:
    """Counts the points, and kills this process at one of them."""

    def __init__(self, fatal: int) -> None:
        self.left = fatal

    def passed(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


async def main(path: str, log: str, fatal: int) -> None:
    points = Points(fatal)
    file = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def said(word: str, name: str) -> None:
        os.write(file, f"{word} {name}\n".encode())

    async with create_async_smithers_db(path) as db, db.run("sweep", initial_state={"n": 0}) as run:
        count, set_count = await db.state.signal("n", 0)

        def work(name: str, n: int) -> dict[str, object]:
            said("begin", name)
            points.passed()
            said("end", name)
            return {"name": name, "n": n}

        async def body() -> None:
            n = count()
            for phase in PHASES:
                async with run.phase(phase):
                    name = f"{phase} {n}"
                    points.passed()
                    await run.step(phase, work, name, n)
                    points.passed()
            await set_count(n + 1, trigger="iterated")

        loop = await run.ralph(body, max_iterations=ITERATIONS)
        results = [step.result for step in await db.steps.list() if step.status == "completed"]
        print(json.dumps({"iterations": loop.iterations, "reason": loop.reason, "n": count()}))
        print(json.dumps(sorted(results, key=json.dumps)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
