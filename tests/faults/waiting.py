"""Runs that wait on a thread of their own, in a process that is told other things meanwhile."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor

from smithers import SmithersDB, create_async_smithers_db

_POOL = ThreadPoolExecutor(4)


def at_gate(folder: str, key: str, timeout: float | None = None) -> Future[str]:
    """Have a run of its own wait at a gate; gives the status of the answer, or "nobody"."""
    return _POOL.submit(lambda: asyncio.run(_answer(folder, key, timeout)))


def for_changes(db: SmithersDB) -> Future[None]:
    """Have triggers handled until the database is closed."""
    return _POOL.submit(db.triggers.run_forever)


async def _answer(folder: str, key: str, timeout: float | None) -> str:  # noqa: ASYNC109
    async with (
        create_async_smithers_db(folder) as db,
        db.run("Release", resume=False) as run,
    ):
        try:
            return (await run.human(key, "Go on?", timeout=timeout)).status
        except TimeoutError:
            return "nobody"
