"""Questions of pages in SQL, each on a thread that nothing waits for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from reactive_sqlite.worker import Worker
from smithers.errors import SmithersError
from smithers.storage.questions import MOST_SECONDS, Answer, Unanswered, ask

# A single function of SQLite may take for ever over large texts, and nothing ends it but the end
# of the process: so many may be under way, and nobody waits for longer than this.
MOST_UNDER_WAY = 8
PATIENCE_SECONDS = MOST_SECONDS + 1


class TooManyQuestions(SmithersError):
    """Those that were asked before have not been answered yet."""


class Asking:
    """Asks questions about one database."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._under_way: set[Worker] = set()

    async def answer(self, sql: str) -> Answer:
        """Answer a question. Raises TooManyQuestions and what `ask` raises."""
        if len(self._under_way) >= MOST_UNDER_WAY:
            raise TooManyQuestions("too many questions are still being answered: ask later")
        worker = Worker("smithers-ui-sql")
        begun = False

        def answered() -> Answer:
            nonlocal begun
            begun = True
            try:
                return ask(self._path, sql)
            finally:
                self._under_way.discard(worker)

        self._under_way.add(worker)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await worker.run(answered)
        except TimeoutError:
            raise Unanswered(f"it took more than {MOST_SECONDS:g} s") from None
        finally:
            worker.close()
            if not begun:  # and never will
                self._under_way.discard(worker)
