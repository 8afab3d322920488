"""Workflows in SQLite: state with history and time travel, executions, agents, memories.

Names load on first use, so that importing this package opens nothing and loads no heavy library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smithers.aio import (
        AsyncAgents,
        AsyncApprovals,
        AsyncExecutions,
        AsyncMemories,
        AsyncPhases,
        AsyncSmithersDB,
        AsyncStateKey,
        AsyncStateStore,
        AsyncSteps,
        AsyncTools,
        AsyncTriggers,
        AsyncVcs,
        create_async_smithers_db,
    )
    from smithers.db import Memories, SmithersDB, Vcs, create_smithers_db
    from smithers.errors import (
        AgentFailed,
        CannotLoad,
        CannotOpen,
        ClaudeMissing,
        DamagedDump,
        DumpConflict,
        DumpTooNew,
        ExecutionBusy,
        ExecutionCancelled,
        ForeignLog,
        InTransaction,
        InvalidStatus,
        NoCurrentExecution,
        NotADatabase,
        NotFound,
        OwnershipLost,
        ReadOnly,
        RepositoryError,
        SchemaTooNew,
        SmithersError,
        StateTypeError,
        StepFailed,
        TransitionNotFound,
    )
    from smithers.records import (
        Agent,
        AgentResult,
        Approval,
        Commit,
        DeadLetter,
        Execution,
        Finding,
        Memory,
        Phase,
        Pruned,
        RalphResult,
        Review,
        Snapshot,
        StateEntry,
        Step,
        ToolCall,
        Transition,
        Trigger,
    )
    from smithers.registry import ANY
    from smithers.runtime.recorder import AgentRecorder
    from smithers.runtime.run import Run
    from smithers.runtime.runners import (
        AgentOutcome,
        AgentRunner,
        AgentTask,
        CommandRunner,
        RunnerError,
    )
    from smithers.storage.agents import Agents
    from smithers.storage.approvals import Approvals
    from smithers.storage.executions import Executions
    from smithers.storage.keys import StateKey
    from smithers.storage.phases import Phases
    from smithers.storage.steps import Steps
    from smithers.storage.tools import Tools
    from smithers.triggers import Triggers

__version__ = "0.1.0"

__all__ = [
    "ANY",
    "Agent",
    "AgentFailed",
    "AgentOutcome",
    "AgentRecorder",
    "AgentResult",
    "AgentRunner",
    "AgentTask",
    "Agents",
    "Approval",
    "Approvals",
    "AsyncAgents",
    "AsyncApprovals",
    "AsyncExecutions",
    "AsyncMemories",
    "AsyncPhases",
    "AsyncSmithersDB",
    "AsyncStateKey",
    "AsyncStateStore",
    "AsyncSteps",
    "AsyncTools",
    "AsyncTriggers",
    "AsyncVcs",
    "CannotLoad",
    "CannotOpen",
    "ClaudeMissing",
    "CommandRunner",
    "Commit",
    "DamagedDump",
    "DeadLetter",
    "DumpConflict",
    "DumpTooNew",
    "Execution",
    "ExecutionBusy",
    "ExecutionCancelled",
    "Executions",
    "Finding",
    "ForeignLog",
    "InTransaction",
    "InvalidStatus",
    "Memories",
    "Memory",
    "NoCurrentExecution",
    "NotADatabase",
    "NotFound",
    "OwnershipLost",
    "Phase",
    "Phases",
    "Pruned",
    "RalphResult",
    "ReadOnly",
    "RepositoryError",
    "Review",
    "Run",
    "RunnerError",
    "SchemaTooNew",
    "SmithersDB",
    "SmithersError",
    "Snapshot",
    "StateEntry",
    "StateKey",
    "StateTypeError",
    "Step",
    "StepFailed",
    "Steps",
    "ToolCall",
    "Tools",
    "Transition",
    "TransitionNotFound",
    "Trigger",
    "Triggers",
    "Vcs",
    "create_async_smithers_db",
    "create_smithers_db",
]

_ERRORS = (
    "AgentFailed",
    "CannotLoad",
    "CannotOpen",
    "ClaudeMissing",
    "DamagedDump",
    "DumpConflict",
    "DumpTooNew",
    "ExecutionBusy",
    "ExecutionCancelled",
    "ForeignLog",
    "InTransaction",
    "InvalidStatus",
    "NoCurrentExecution",
    "NotADatabase",
    "NotFound",
    "OwnershipLost",
    "ReadOnly",
    "RepositoryError",
    "SchemaTooNew",
    "SmithersError",
    "StateTypeError",
    "StepFailed",
    "TransitionNotFound",
)
_RECORDS = (
    "Agent",
    "AgentResult",
    "Approval",
    "Commit",
    "DeadLetter",
    "Execution",
    "Finding",
    "Memory",
    "Phase",
    "Pruned",
    "RalphResult",
    "Review",
    "Snapshot",
    "StateEntry",
    "Step",
    "ToolCall",
    "Transition",
    "Trigger",
)
_FACES = (
    "AsyncAgents",
    "AsyncApprovals",
    "AsyncExecutions",
    "AsyncMemories",
    "AsyncPhases",
    "AsyncSmithersDB",
    "AsyncStateKey",
    "AsyncStateStore",
    "AsyncSteps",
    "AsyncTools",
    "AsyncTriggers",
    "AsyncVcs",
    "create_async_smithers_db",
)
_RUNNERS = ("AgentOutcome", "AgentRunner", "AgentTask", "CommandRunner", "RunnerError")
_HOMES = {
    "ANY": "smithers.registry",
    **dict.fromkeys(_ERRORS, "smithers.errors"),
    **dict.fromkeys(_RECORDS, "smithers.records"),
    **dict.fromkeys(_FACES, "smithers.aio"),
    **dict.fromkeys(_RUNNERS, "smithers.runtime.runners"),
    "AgentRecorder": "smithers.runtime.recorder",
    "Agents": "smithers.storage.agents",
    "Approvals": "smithers.storage.approvals",
    "Executions": "smithers.storage.executions",
    "Memories": "smithers.db",
    "Phases": "smithers.storage.phases",
    "SmithersDB": "smithers.db",
    "StateKey": "smithers.storage.keys",
    "Steps": "smithers.storage.steps",
    "Tools": "smithers.storage.tools",
    "Triggers": "smithers.triggers",
    "Vcs": "smithers.db",
    "Run": "smithers.runtime.run",
    "create_smithers_db": "smithers.db",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
