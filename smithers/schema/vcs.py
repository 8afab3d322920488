"""What version control did during a workflow: commits, snapshots and reviews."""

from __future__ import annotations

from smithers.schema.times import NOW

_EXECUTION = "execution_id TEXT REFERENCES executions (id) ON DELETE SET NULL"
_AGENT = "agent_id TEXT REFERENCES agents (id) ON DELETE SET NULL"
_ID = "id TEXT NOT NULL UNIQUE CHECK (typeof(id) = 'text' AND id <> '')"

VCS = (
    f"""
    CREATE TABLE commits (
        seq INTEGER PRIMARY KEY,
        {_ID},
        {_EXECUTION},
        {_AGENT},
        vcs_type TEXT NOT NULL CHECK (vcs_type IN ('git', 'jj')),
        hash TEXT NOT NULL CHECK (hash <> ''),
        change_id TEXT,
        message TEXT NOT NULL,
        author TEXT,
        timestamp TEXT NOT NULL DEFAULT ({NOW}),
        files_changed INTEGER CHECK (files_changed >= 0),
        insertions INTEGER CHECK (insertions >= 0),
        deletions INTEGER CHECK (deletions >= 0),
        UNIQUE (vcs_type, hash)
    )
    """,
    "CREATE INDEX commits_by_execution ON commits (execution_id)",
    "CREATE INDEX commits_by_agent ON commits (agent_id) WHERE agent_id IS NOT NULL",
    f"""
    CREATE TABLE snapshots (
        seq INTEGER PRIMARY KEY,
        {_ID},
        {_EXECUTION},
        snapshot_id TEXT NOT NULL UNIQUE CHECK (snapshot_id <> ''),
        description TEXT,
        timestamp TEXT NOT NULL DEFAULT ({NOW})
    )
    """,
    "CREATE INDEX snapshots_by_execution ON snapshots (execution_id)",
    f"""
    CREATE TABLE reviews (
        seq INTEGER PRIMARY KEY,
        {_ID},
        {_EXECUTION},
        {_AGENT},
        review_id TEXT NOT NULL UNIQUE CHECK (review_id <> ''),
        target TEXT NOT NULL,
        approved INTEGER NOT NULL CHECK (approved IN (0, 1)),
        blocking INTEGER NOT NULL DEFAULT 0 CHECK (blocking IN (0, 1)),
        resolved_at TEXT,
        summary TEXT NOT NULL,
        issues TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(issues)),
        timestamp TEXT NOT NULL DEFAULT ({NOW})
    )
    """,
    "CREATE INDEX reviews_by_execution ON reviews (execution_id)",
    "CREATE INDEX reviews_by_agent ON reviews (agent_id) WHERE agent_id IS NOT NULL",
    """
    CREATE INDEX reviews_blocking ON reviews (seq)
    WHERE blocking = 1 AND approved = 0 AND resolved_at IS NULL
    """,
)
