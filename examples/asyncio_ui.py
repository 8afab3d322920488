"""A live view on an event loop: `async for` over two typed keys and a query, drawn as they change.

`work` changes the state; in earnest other tasks and other programs would.
Run it with a directory to keep the database: python examples/asyncio_ui.py DIRECTORY
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from typing import Any

from smithers import AsyncSmithersDB, create_async_smithers_db

RECENT = 'SELECT count(*) AS changes, count(DISTINCT "trigger") AS causes FROM transitions'


class View:
    """One line on the screen, drawn again whenever one of its parts has a new value."""

    def __init__(self) -> None:
        self.parts: dict[str, Any] = {}
        self.changed = asyncio.Condition()

    async def follow(self, name: str, values: Any) -> None:
        async for value in values:
            async with self.changed:
                self.parts[name] = value
                print("  ".join(f"{part}: {shown}" for part, shown in self.parts.items()))
                self.changed.notify_all()

    async def shows(self, name: str, value: Any) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: self.parts.get(name) == value)


async def work(db: AsyncSmithersDB, view: View) -> None:
    for number, name in enumerate(("build", "test", "done"), start=1):
        await db.state.set_many({"phase": name, "attempts": number}, trigger=f"step {number}")
        for part, value in (("phase", name), ("attempts", number)):
            await view.shows(part, value)
        await view.shows("history", [{"changes": 2 * number, "causes": number}])


async def main(folder: str) -> None:
    async with create_async_smithers_db(folder) as db, asyncio.TaskGroup() as group:
        view = View()
        keys = db.state.key("phase", str, default="start"), db.state.key("attempts", int, default=0)
        parts = {key.name: key.observe() for key in keys} | {"history": db.observe(RECENT)}
        tasks = [group.create_task(view.follow(name, part)) for name, part in parts.items()]
        await work(db, view)
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else temporary))
