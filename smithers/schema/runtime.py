"""Where a workflow script stands: which rows its steps, phases and loops have, its gates, sessions.

A session of a model goes on in the next run, and with it the total of its cost that the model
keeps: what one agent has cost is the difference of two of them.
"""

from __future__ import annotations

from smithers.schema.times import NOW

RUNTIME = (
    # `place` says where in the script a row stands, see `smithers.runtime.place`. A loop has no
    # row of its own: `done` counts its iterations, `outcome` says why it ended.
    """
    CREATE TABLE _smithers_places (
        execution_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
        place TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('phase', 'step', 'agent', 'loop', 'gate')),
        row_id TEXT,
        done INTEGER NOT NULL DEFAULT 0,
        outcome TEXT,
        PRIMARY KEY (execution_id, place)
    ) WITHOUT ROWID
    """,
    f"""
    CREATE TABLE _smithers_approvals (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE CHECK (typeof(id) = 'text' AND id <> ''),
        execution_id TEXT NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
        key TEXT NOT NULL,
        occurrence INTEGER NOT NULL DEFAULT 0,
        prompt TEXT NOT NULL,
        status TEXT NOT NULL DEFAULT 'pending'
            CHECK (status IN ('pending', 'approved', 'denied', 'void')),
        comment TEXT,
        requested_at TEXT NOT NULL DEFAULT ({NOW}),
        decided_at TEXT
    )
    """,
    "CREATE INDEX _smithers_approvals_by_execution ON _smithers_approvals (execution_id)",
    """
    CREATE INDEX _smithers_approvals_pending ON _smithers_approvals (key)
    WHERE status = 'pending'
    """,
    """
    CREATE TABLE _smithers_sessions (
        session_id TEXT NOT NULL PRIMARY KEY,
        cost_usd REAL NOT NULL CHECK (cost_usd >= 0)
    ) WITHOUT ROWID
    """,
    # Nobody waits there any more.
    f"""
    CREATE TRIGGER executions_ended_gates AFTER UPDATE OF status ON executions
    WHEN new.status IN ('completed', 'failed', 'cancelled')
    BEGIN
        UPDATE _smithers_approvals SET
            status = 'void', decided_at = coalesce(new.completed_at, {NOW})
        WHERE execution_id = new.id AND status = 'pending';
    END
    """,
)
