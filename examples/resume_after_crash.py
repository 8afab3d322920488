"""A workflow that kills itself midway, and the next run of it, which goes on there.

python examples/resume_after_crash.py [DIRECTORY]
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile

from smithers import ToolCall, create_async_smithers_db


async def release(path: str, *, crash: bool) -> None:
    async with create_async_smithers_db(path) as db, db.run("Release", __file__) as run:
        print("resumed" if run.resumed else "started", flush=True)

        version = await run.step("choose a version", choose)
        notes = await run.claude(f"Write the notes of release {version}.")
        print(f"notes: {notes.output}", flush=True)

        # Killed here, the agent has no result. The next run goes on with its session.
        published = await run.claude("Publish it.", on_tool=die if crash else None)
        print(f"published: {published.output}", flush=True)

        for agent in await db.agents.list(run.id):
            print(f"  {agent.prompt} {agent.status}")


def choose() -> str:
    print("a version is chosen", flush=True)
    return "1.4"


def die(call: ToolCall) -> None:
    print(f"killed after {call.name}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def main(path: str) -> None:
    killed = subprocess.run([sys.executable, __file__, path, "--crash"])
    print("exit code:", killed.returncode, flush=True)
    asyncio.run(release(path, crash=False))


if __name__ == "__main__":
    if "--crash" in sys.argv:
        asyncio.run(release(sys.argv[1], crash=True))
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
