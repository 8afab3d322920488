"""The rows that calls return, as frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class StateEntry:
    """One key of the state as it stands.

    >>> db.state.entry("phase")
    StateEntry(key='phase', value='review', updated_at=datetime.datetime(...))
    """

    key: str
    value: Any
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One change of one key of the state, as history keeps it.

    `seq` is 1, 2, … in commit order and `id` the same as text (`t1`, `t2`, …). `commit` is shared
    by the transitions of one commit. `value` is None when `deleted`; `previous_value` is None when
    the key was absent. What another program did to the table carries no `trigger` and no ids; a
    value of its that Python cannot read (nested 1,000 deep) is given as its JSON text.

    >>> db.state.set("phase", "review", trigger="tests_passed").trigger
    'tests_passed'
    """

    id: str
    seq: int
    key: str
    previous_value: Any
    value: Any
    trigger: str | None
    timestamp: datetime
    execution_id: str | None
    agent_id: str | None
    deleted: bool
    commit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One run of a workflow.

    `status` is one of running, completed, failed, cancelled, interrupted. `owner` is the run that
    has it, or had it last, as `host:pid`; `is_live` says whether that one lives and owns it still,
    as it was when the record was read. `duration_ms` is in milliseconds, None before the end.
    `total_tokens_used` counts input and output, not the cache; `total_cost_usd` is in US dollars.

    >>> db.execution.get(id).status
    'running'
    """

    id: str
    name: str
    file_path: str | None
    status: str
    config: Any
    result: Any
    error: str | None
    owner: str | None
    is_live: bool
    cancel_requested_at: datetime | None
    cancel_reason: str | None
    started_at: datetime
    completed_at: datetime | None
    created_at: datetime
    duration_ms: int | None
    total_iterations: int
    total_agents: int
    total_tool_calls: int
    total_tokens_used: int
    total_cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of an execution; `status` is running, completed, failed or skipped.

    >>> db.phases.get(id).iteration
    0
    """

    id: str
    execution_id: str
    name: str
    iteration: int
    status: str
    error: str | None
    started_at: datetime
    completed_at: datetime | None
    duration_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step, of a phase or of the execution itself; `status` as of a phase.

    >>> db.steps.get(id).result
    {'tests': 12}
    """

    id: str
    execution_id: str
    phase_id: str | None
    name: str
    status: str
    result: Any
    error: str | None
    snapshot_before: str | None
    snapshot_after: str | None
    commit_created: str | None
    started_at: datetime
    completed_at: datetime | None
    duration_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One run of a model; `status` is running, completed, failed or cancelled.

    `output` is the text of its result, while it runs the text so far. Tokens are counted as the
    model bills them, `cost_usd` is in US dollars.

    >>> db.agents.get(id).tokens_output
    500
    """

    id: str
    execution_id: str | None
    phase_id: str | None
    step_id: str | None
    parent_agent_id: str | None
    model: str
    system_prompt: str | None
    prompt: str
    status: str
    output: str | None
    structured: Any
    error: str | None
    session_id: str | None
    turns: int
    tokens_input: int
    tokens_output: int
    tokens_cache_read: int
    tokens_cache_write: int
    cost_usd: float
    started_at: datetime
    completed_at: datetime | None
    duration_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool by an agent; `status` as of an agent.

    `output_size` is in bytes of UTF-8. Listings leave `output` out (None) above 64 KB of it:
    `db.tools.get_output` has it whole.

    >>> db.tools.get(id).summary
    'Edited src/main.py: added 15 lines'
    """

    id: str
    agent_id: str
    execution_id: str | None
    name: str
    input: Any
    output: Any
    output_size: int | None
    summary: str | None
    status: str
    error: str | None
    started_at: datetime
    completed_at: datetime | None
    duration_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Something worth knowing beyond one run; see `db.memories` for categories and scopes.

    >>> db.memories.get("fact", "api-endpoint").content
    'The API endpoint is at /api/v2/users'
    """

    id: str
    category: str
    scope: str
    key: str
    content: str
    confidence: float
    source: str | None
    execution_id: str | None
    created_at: datetime
    updated_at: datetime
    accessed_at: datetime | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Pruned:
    """What `db.prune` has removed, or would remove.

    `rows` counts them by table; `bytes_returned` is how much smaller the database has become on
    disk, None for a dry run.

    >>> db.prune(before=timedelta(days=30)).rows["executions"]
    12
    """

    rows: dict[str, int]
    bytes_returned: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit of version control (`vcs_type` git or jj), logged during a workflow.

    >>> db.vcs.commits()[0].files_changed
    3
    """

    id: str
    execution_id: str | None
    agent_id: str | None
    vcs_type: str
    hash: str
    change_id: str | None
    message: str
    author: str | None
    timestamp: datetime
    files_changed: int | None
    insertions: int | None
    deletions: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot of the working copy.

    >>> db.vcs.snapshots()[0].description
    'Before refactoring'
    """

    id: str
    execution_id: str | None
    snapshot_id: str
    description: str | None
    timestamp: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A review of a commit or of anything else that `target` names.

    >>> db.vcs.blocking_reviews()[0].issues
    [{'severity': 'high', 'file': 'auth.py'}]
    """

    id: str
    execution_id: str | None
    agent_id: str | None
    review_id: str
    target: str
    approved: bool
    blocking: bool
    resolved_at: datetime | None
    summary: str
    issues: list[Any]
    timestamp: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that `db.check` found wrong.

    `check` is what was looked at (`integrity`, `totals`, …), `level` is error or warning, `count`
    the number of rows it is about, 0 where it is about none.

    >>> [finding.message for finding in db.check() if finding.level == "error"]
    []
    """

    check: str
    level: str
    message: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A gate at which a workflow waits for a person.

    `status` is pending, approved or denied, or void when its execution has ended without an answer.
    `occurrence` counts the gates of one key in one place of the script, from 0.

    >>> approval = await run.human("deploy", "Deploy to production?")
    >>> approval.approved
    True
    """

    id: str
    execution_id: str
    key: str
    occurrence: int
    prompt: str
    status: str
    comment: str | None
    requested_at: datetime
    decided_at: datetime | None

    @property
    def approved(self) -> bool:
        """Whether the answer was yes."""
        return self.status == "approved"


@dataclass(frozen=True, slots=True)
class RalphResult:
    """How a loop ended.

    `reason` is one of settled, until, stopped, max_iterations, cancelled.

    >>> await run.ralph(body)
    RalphResult(iterations=3, reason='settled')
    """

    iterations: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """What an agent has come to.

    `tokens` has the names input, output, cache_read and cache_write; `cost_usd` is in US dollars.

    >>> (await run.claude("Complete the task.")).output
    'Done.'
    """

    id: str
    output: str
    structured: Any
    tokens: dict[str, int]
    cost_usd: float
    session_id: str | None
    turns: int
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A change-driven trigger as it stands in the file, whether or not a program handles it now.

    It is on changes of `key` or on the answer of `sql`, the other is None. `cursor` is the `seq` of
    the last transition that it is done with and `lag` counts those of its key after that, handled
    or not; both are None of a query. `state` is idle, behind (there is something to handle) or
    retrying: `attempts` have failed, the last with `error`, and the next is at `next_at`. `owner`
    is who handles it as `host:pid`, None while nobody does. `dead` counts what was set aside,
    `requeued` what of that is to be tried again.

    >>> db.triggers.list()[0].lag
    0
    """

    name: str
    key: str | None
    sql: str | None
    state: str
    cursor: int | None
    lag: int | None
    attempts: int
    next_at: datetime | None
    error: str | None
    owner: str | None
    dead: int
    requeued: int
    registered_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A change that a trigger's handler could not handle; see `db.triggers`.

    `transition` is the change, None of a query. `attempts` have failed, the last with `error`.

    >>> db.triggers.dead("deploy")[0].transition.value
    'review'
    """

    id: int
    trigger: str
    transition: Transition | None
    error: str
    attempts: int
    requeued: bool
    at: datetime
