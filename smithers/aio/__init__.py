"""The workflow database for asyncio: the same calls, awaited; observers served on the loop."""

from __future__ import annotations

from smithers.aio.agents import AsyncAgents
from smithers.aio.approvals import AsyncApprovals
from smithers.aio.database import AsyncSmithersDB, create_async_smithers_db
from smithers.aio.executions import AsyncExecutions
from smithers.aio.memories import AsyncMemories
from smithers.aio.phases import AsyncPhases
from smithers.aio.state import AsyncSetKey, AsyncSetState, AsyncStateKey, AsyncStateStore
from smithers.aio.steps import AsyncSteps
from smithers.aio.tools import AsyncTools
from smithers.aio.triggers import AsyncTriggers
from smithers.aio.vcs import AsyncVcs

__all__ = [
    "AsyncAgents",
    "AsyncApprovals",
    "AsyncExecutions",
    "AsyncMemories",
    "AsyncPhases",
    "AsyncSetKey",
    "AsyncSetState",
    "AsyncSmithersDB",
    "AsyncStateKey",
    "AsyncStateStore",
    "AsyncSteps",
    "AsyncTools",
    "AsyncTriggers",
    "AsyncVcs",
    "create_async_smithers_db",
]
