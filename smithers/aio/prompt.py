"""Values read on the event loop itself, when nothing has to be waited for."""

from __future__ import annotations

import asyncio

from reactive_sqlite.database import Database
from reactive_sqlite.worker import Worker
from smithers.journal import VALUE


class PromptReader:
    """Reads one row of the state without the worker: what is left is less than the two hops.

    It must not overtake: only when all that was asked before has been done, by this task or
    another, may the loop read for itself.
    """

    def __init__(self, database: Database, worker: Worker) -> None:
        self._connection = database.conn
        self._worker = worker

    async def text(self, key: str) -> tuple[str | None] | None:
        """Return the JSON text of a key, (None,) when it is absent; None: the worker must be asked.

        As every await of a database, this lets the other tasks of the loop go on.
        """
        if not self._worker.idle:
            return None
        rows = self._connection.at_once(VALUE, (key,))
        if rows is None:
            return None
        await asyncio.sleep(0)
        return rows[0] if rows else (None,)
