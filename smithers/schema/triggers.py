"""Tables of change-driven triggers: how far each has come, who handles it, what was set aside."""

from __future__ import annotations

from smithers.schema.times import NOW

TRIGGERS = (
    # Of a trigger on a key, `cursor` is the `seq` of the last transition that it is done with; of
    # one on a query, `handled` is the digest of the answer. `attempts` have failed in a row, the
    # next is to be made at `next_at`.
    f"""
    CREATE TABLE _smithers_triggers (
        name TEXT NOT NULL PRIMARY KEY CHECK (typeof(name) = 'text' AND name <> ''),
        key TEXT,
        sql TEXT,
        cursor INTEGER CHECK (cursor >= 0),
        handled TEXT,
        attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
        next_at TEXT,
        error TEXT,
        registered_at TEXT NOT NULL DEFAULT ({NOW}),
        CHECK ((key IS NULL) <> (sql IS NULL)),
        CHECK ((key IS NULL) = (cursor IS NULL))
    ) WITHOUT ROWID
    """,
    # A transition is kept whole (`change`, a JSON array of its columns): pruning may remove it.
    f"""
    CREATE TABLE _smithers_dead_letters (
        seq INTEGER PRIMARY KEY,
        name TEXT NOT NULL REFERENCES _smithers_triggers (name) ON DELETE CASCADE,
        change TEXT CHECK (change IS NULL OR json_valid(change)),
        digest TEXT,
        attempts INTEGER NOT NULL,
        requeued INTEGER NOT NULL DEFAULT 0 CHECK (requeued IN (0, 1)),
        at TEXT NOT NULL DEFAULT ({NOW}),
        error TEXT NOT NULL,
        CHECK ((change IS NULL) <> (digest IS NULL))
    )
    """,
    "CREATE INDEX _smithers_dead_letters_by_name ON _smithers_dead_letters (name, seq)",
    # As `_smithers_leases`: `expires` is in seconds since the start of the machine.
    """
    CREATE TABLE _smithers_trigger_leases (
        name TEXT NOT NULL PRIMARY KEY REFERENCES _smithers_triggers (name) ON DELETE CASCADE,
        token TEXT NOT NULL,
        host TEXT NOT NULL,
        boot TEXT NOT NULL,
        namespace TEXT NOT NULL,
        pid INTEGER NOT NULL,
        process_start TEXT NOT NULL,
        expires REAL NOT NULL,
        beat INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID
    """,
)
