"""Executions and what stands below them: phases, steps, agents, tool calls; and their leases.

Totals of an execution are kept by triggers, so that they are those of the rows whoever writes
them. The cost is summed in whole billionths of a dollar: a sum of floats would depend on the order
of its terms. What is still open below an execution ends with it, by a trigger as well.

Long texts stand last in their rows: SQLite would walk through them to what stands behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from smithers.schema.times import NOW, duration

EXECUTION_STATUSES = ("running", "completed", "failed", "cancelled", "interrupted")
PART_STATUSES = ("running", "completed", "failed", "skipped")
CALL_STATUSES = ("running", "completed", "failed", "cancelled")
ENDED = ("completed", "failed", "cancelled")


def _one_of(column: str, words: Sequence[str]) -> str:
    listed = ", ".join(f"'{word}'" for word in words)
    return f"CHECK ({column} IN ({listed}))"


_ID = "id TEXT NOT NULL UNIQUE CHECK (typeof(id) = 'text' AND id <> '')"
_EXECUTION = "execution_id TEXT {null} REFERENCES executions (id) ON DELETE CASCADE"
_TIMES = f"""
    started_at TEXT NOT NULL DEFAULT ({NOW}),
    completed_at TEXT,
    duration_ms INTEGER CHECK (duration_ms >= 0)
"""


def _count(column: str) -> str:
    return f"{column} INTEGER NOT NULL DEFAULT 0 CHECK ({column} >= 0)"


def _json(column: str) -> str:
    return f"{column} TEXT CHECK ({column} IS NULL OR json_valid({column}))"


_TABLES = (
    f"""
    CREATE TABLE executions (
        seq INTEGER PRIMARY KEY,
        {_ID},
        name TEXT NOT NULL,
        file_path TEXT,
        status TEXT NOT NULL DEFAULT 'running' {_one_of("status", EXECUTION_STATUSES)},
        owner TEXT,
        cancel_requested_at TEXT,
        cancel_reason TEXT,
        {_TIMES},
        created_at TEXT NOT NULL DEFAULT ({NOW}),
        total_iterations INTEGER NOT NULL DEFAULT 0,
        total_agents INTEGER NOT NULL DEFAULT 0,
        total_tool_calls INTEGER NOT NULL DEFAULT 0,
        total_tokens_used INTEGER NOT NULL DEFAULT 0,
        total_cost_nano INTEGER NOT NULL DEFAULT 0,
        total_cost_usd REAL GENERATED ALWAYS AS (total_cost_nano / 1e9) VIRTUAL,
        {_json("config")},
        {_json("result")},
        error TEXT
    )
    """,
    "CREATE INDEX executions_by_status ON executions (status)",
    "CREATE INDEX executions_by_name ON executions (name)",
    f"""
    CREATE TABLE phases (
        seq INTEGER PRIMARY KEY,
        {_ID},
        {_EXECUTION.format(null="NOT NULL")},
        name TEXT NOT NULL,
        {_count("iteration")},
        status TEXT NOT NULL DEFAULT 'running' {_one_of("status", PART_STATUSES)},
        {_TIMES},
        error TEXT
    )
    """,
    "CREATE INDEX phases_by_execution ON phases (execution_id)",
    "CREATE INDEX phases_by_iteration ON phases (execution_id, iteration)",
    f"""
    CREATE TABLE steps (
        seq INTEGER PRIMARY KEY,
        {_ID},
        {_EXECUTION.format(null="NOT NULL")},
        phase_id TEXT REFERENCES phases (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        status TEXT NOT NULL DEFAULT 'running' {_one_of("status", PART_STATUSES)},
        snapshot_before TEXT,
        snapshot_after TEXT,
        commit_created TEXT,
        {_TIMES},
        {_json("result")},
        error TEXT
    )
    """,
    "CREATE INDEX steps_by_execution ON steps (execution_id)",
    "CREATE INDEX steps_by_phase ON steps (phase_id)",
    f"""
    CREATE TABLE agents (
        seq INTEGER PRIMARY KEY,
        {_ID},
        {_EXECUTION.format(null="")},
        phase_id TEXT REFERENCES phases (id) ON DELETE CASCADE,
        step_id TEXT REFERENCES steps (id) ON DELETE CASCADE,
        parent_agent_id TEXT REFERENCES agents (id) ON DELETE SET NULL,
        model TEXT NOT NULL,
        status TEXT NOT NULL DEFAULT 'running' {_one_of("status", CALL_STATUSES)},
        session_id TEXT,
        {_count("turns")},
        {_count("tokens_input")},
        {_count("tokens_output")},
        {_count("tokens_cache_read")},
        {_count("tokens_cache_write")},
        cost_usd REAL NOT NULL DEFAULT 0.0 CHECK (cost_usd >= 0),
        {_TIMES},
        system_prompt TEXT,
        prompt TEXT NOT NULL,
        output TEXT,
        {_json("structured")},
        error TEXT
    )
    """,
    "CREATE INDEX agents_by_execution ON agents (execution_id)",
    "CREATE INDEX agents_by_phase ON agents (phase_id) WHERE phase_id IS NOT NULL",
    "CREATE INDEX agents_by_step ON agents (step_id) WHERE step_id IS NOT NULL",
    "CREATE INDEX agents_by_parent ON agents (parent_agent_id) WHERE parent_agent_id IS NOT NULL",
    # `output` is text, or JSON where it was given as something else.
    f"""
    CREATE TABLE tool_calls (
        seq INTEGER PRIMARY KEY,
        {_ID},
        agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
        {_EXECUTION.format(null="")},
        name TEXT NOT NULL,
        status TEXT NOT NULL DEFAULT 'running' {_one_of("status", CALL_STATUSES)},
        {_TIMES},
        output_is_json INTEGER NOT NULL DEFAULT 0 CHECK (output_is_json IN (0, 1)),
        output_size INTEGER GENERATED ALWAYS AS (length(CAST(output AS BLOB))) STORED,
        summary TEXT,
        {_json("input")},
        error TEXT,
        output TEXT
    )
    """,
    "CREATE INDEX tool_calls_by_agent ON tool_calls (agent_id)",
    "CREATE INDEX tool_calls_by_execution ON tool_calls (execution_id)",
    # `expires` is in seconds since the start of the machine that is named by `boot`.
    """
    CREATE TABLE _smithers_leases (
        execution_id TEXT NOT NULL PRIMARY KEY REFERENCES executions (id) ON DELETE CASCADE,
        token TEXT NOT NULL,
        host TEXT NOT NULL,
        boot TEXT NOT NULL,
        namespace TEXT NOT NULL,
        pid INTEGER NOT NULL,
        process_start TEXT NOT NULL,
        expires REAL NOT NULL,
        beat INTEGER NOT NULL DEFAULT 0,
        beat_at TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    *(
        f"CREATE INDEX {table}_running ON {table} (execution_id) WHERE status = 'running'"
        for table in ("phases", "steps", "agents", "tool_calls")
    ),
)


def _nano(row: str) -> str:
    return f"CAST(round({row}.cost_usd * 1e9) AS INTEGER)"


def _tokens(row: str) -> str:
    return f"{row}.tokens_input + {row}.tokens_output"


def _agents(sign: str, row: str) -> str:
    return f"""
        UPDATE executions SET
            total_agents = total_agents {sign} 1,
            total_tokens_used = total_tokens_used {sign} ({_tokens(row)}),
            total_cost_nano = total_cost_nano {sign} {_nano(row)}
        WHERE id = {row}.execution_id;
    """


def _tool_calls(sign: str, row: str) -> str:
    return f"""
        UPDATE executions SET total_tool_calls = total_tool_calls {sign} 1
        WHERE id = {row}.execution_id;
    """


# One for each iteration in which a phase of the execution ran.
def _iterations(sign: str, row: str) -> str:
    return f"""
        UPDATE executions SET total_iterations = total_iterations {sign} 1
        WHERE id = {row}.execution_id AND NOT EXISTS (
            SELECT 1 FROM phases WHERE execution_id = {row}.execution_id
            AND iteration = {row}.iteration AND seq <> {row}.seq
        );
    """


_TOTALS = (
    f"CREATE TRIGGER phases_added AFTER INSERT ON phases BEGIN {_iterations('+', 'new')} END",
    f"CREATE TRIGGER phases_removed AFTER DELETE ON phases BEGIN {_iterations('-', 'old')} END",
    f"""
    CREATE TRIGGER phases_moved AFTER UPDATE OF execution_id, iteration ON phases
    BEGIN {_iterations("-", "old")} {_iterations("+", "new")} END
    """,
    f"CREATE TRIGGER agents_added AFTER INSERT ON agents BEGIN {_agents('+', 'new')} END",
    f"CREATE TRIGGER agents_removed AFTER DELETE ON agents BEGIN {_agents('-', 'old')} END",
    f"""
    CREATE TRIGGER agents_moved AFTER UPDATE OF execution_id ON agents
    WHEN new.execution_id IS NOT old.execution_id
    BEGIN {_agents("-", "old")} {_agents("+", "new")} END
    """,
    f"""
    CREATE TRIGGER agents_spent AFTER UPDATE OF tokens_input, tokens_output, cost_usd ON agents
    WHEN new.execution_id IS old.execution_id AND (
        {_tokens("new")} <> {_tokens("old")} OR new.cost_usd <> old.cost_usd
    )
    BEGIN
        UPDATE executions SET
            total_tokens_used = total_tokens_used + ({_tokens("new")}) - ({_tokens("old")}),
            total_cost_nano = total_cost_nano + {_nano("new")} - {_nano("old")}
        WHERE id = new.execution_id;
    END
    """,
    f"""
    CREATE TRIGGER tool_calls_added AFTER INSERT ON tool_calls
    BEGIN {_tool_calls("+", "new")} END
    """,
    f"""
    CREATE TRIGGER tool_calls_removed AFTER DELETE ON tool_calls
    BEGIN {_tool_calls("-", "old")} END
    """,
    f"""
    CREATE TRIGGER tool_calls_moved AFTER UPDATE OF execution_id ON tool_calls
    WHEN new.execution_id IS NOT old.execution_id
    BEGIN {_tool_calls("-", "old")} {_tool_calls("+", "new")} END
    """,
)

_END = f"coalesce(new.completed_at, {NOW})"


def _ending(table: str, status: str, reason: str) -> str:
    return f"""
        UPDATE {table} SET
            status = {status}, error = {reason}, completed_at = {_END},
            duration_ms = {duration("started_at", _END)}
        WHERE execution_id = new.id AND status = 'running';
    """


_PART = "CASE new.status WHEN 'cancelled' THEN 'skipped' ELSE 'failed' END"
_REASON = "'the execution has ended: ' || new.status"

_ENDING = (
    f"""
    CREATE TRIGGER executions_ended AFTER UPDATE OF status ON executions
    WHEN new.status IN ('completed', 'failed', 'cancelled')
    BEGIN
        {_ending("tool_calls", "'cancelled'", _REASON)}
        {_ending("agents", "'cancelled'", _REASON)}
        {_ending("steps", _PART, _REASON)}
        {_ending("phases", _PART, _REASON)}
        DELETE FROM _smithers_leases WHERE execution_id = new.id;
    END
    """,
)

EXECUTIONS = (*_TABLES, *_TOTALS, *_ENDING)
