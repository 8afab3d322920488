"""Implement and review in turns, until the tests pass; the history says why each turn was taken.

python examples/review_loop.py [DIRECTORY]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile

from smithers import AgentResult, create_async_smithers_db


async def main(path: str) -> None:
    async with (
        create_async_smithers_db(path) as db,
        db.run("Review", __file__, initial_state={"phase": "start"}) as run,
    ):
        phase, set_phase = await db.state.signal("phase", "start")

        async def judge(result: AgentResult) -> None:
            if "PASS" in result.output:
                await set_phase("complete", trigger="tests_passed")
            else:
                await set_phase("retry", trigger="tests_failed")

        async def body() -> None:
            match phase():
                case "start" | "retry":
                    await set_phase("implement", trigger="work_begins")
                case "implement":
                    async with run.phase("implement"):
                        await run.claude("Implement the feature.")
                    await set_phase("review", trigger="implemented")
                case "review":
                    async with run.phase("review"):
                        await run.claude("Run the tests. Say PASS or FAIL.", on_finished=judge)
                case "complete":
                    await set_phase("done", trigger="reviewed")
                case _:
                    pass

        await run.ralph(body, max_iterations=20)
        for transition in await db.state.history("phase"):
            print(f"{transition.value} ({transition.trigger})")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
