"""The Ralph loop: Claude is asked until the phase says that the task is done.

python examples/ralph_claude.py [DIRECTORY]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile

from smithers import create_async_smithers_db


async def main(path: str) -> None:
    async with (
        create_async_smithers_db(path) as db,
        db.run("Feature", __file__, initial_state={"phase": "start"}) as run,
    ):
        phase, set_phase = await db.state.signal("phase", "start")

        async def body() -> None:
            print("phase:", phase())
            if phase() == "start":
                await run.claude(
                    "Complete the task.",
                    on_finished=lambda result: set_phase("done", trigger="agent_finished"),
                )

        # The body runs again because the phase that it has read is another one now.
        loop = await run.ralph(body, max_iterations=10)
        print(f"{loop.reason} after {loop.iterations} iterations")
        for agent in await db.agents.list(run.id):
            print(f"{agent.model}: {agent.output} ({agent.tokens_output} tokens)")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
