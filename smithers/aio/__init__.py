"""The workflow database for asyncio: the same calls, awaited; observers served on the loop."""

from __future__ import annotations

from smithers.aio.database import AsyncSmithersDB, create_async_smithers_db
from smithers.aio.executions import AsyncExecutions
from smithers.aio.phases import AsyncPhases
from smithers.aio.state import AsyncSetKey, AsyncSetState, AsyncStateKey, AsyncStateStore

__all__ = [
    "AsyncExecutions",
    "AsyncPhases",
    "AsyncSetKey",
    "AsyncSetState",
    "AsyncSmithersDB",
    "AsyncStateKey",
    "AsyncStateStore",
    "create_async_smithers_db",
]
