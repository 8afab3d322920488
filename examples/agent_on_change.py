"""A row that another program inserts starts an agent, and its answer goes into the row.

python examples/agent_on_change.py [DIRECTORY]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from typing import Any

from smithers import create_async_smithers_db

OPEN = "SELECT id, task FROM tickets WHERE answer IS NULL ORDER BY id"
# It knows nothing of this package. What it writes while nobody watches is found later.
OTHER_PROGRAM = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("INSERT INTO tickets (task) VALUES ('Fix the login.'), ('Write the tests.')")
connection.commit()
"""


async def main(path: str) -> None:
    async with create_async_smithers_db(path) as db:
        await db.database.execute(
            "CREATE TABLE IF NOT EXISTS tickets (id INTEGER PRIMARY KEY, task TEXT, answer TEXT)"
        )

        answered: asyncio.Queue[str] = asyncio.Queue()

        @db.triggers.on_query(OPEN, name="tickets")
        async def work(tickets: list[dict[str, Any]]) -> None:
            for ticket in tickets:
                # Should this program be killed, the run is gone on with by its name.
                async with db.run(f"Ticket {ticket['id']}", __file__) as run:
                    result = await run.claude(ticket["task"])
                    answer = [result.output, ticket["id"]]
                    await db.query(
                        "UPDATE tickets SET answer = $1 WHERE id = $2", answer, write=True
                    )
                await answered.put(f"{ticket['task']} {result.output}")

        delivering = asyncio.create_task(db.triggers.deliver_forever())
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", OTHER_PROGRAM, str(db.path)
        )
        await other.wait()
        for _ in range(2):
            print(await answered.get())
        delivering.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
