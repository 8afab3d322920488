"""The state and its history: their tables, and the triggers that keep the two in step.

How history is written. Our own code inserts one row into `transitions` with `apply = 1`; a trigger
applies it to `state` and leaves its `seq` there. The triggers of `state` record what other programs
do to it, and stay quiet when the row carries the `seq` of the newest transition with that key and
value, because then history knows it already. The other order, values first and history by trigger,
needs a place for the cause; there a foreign write inherits the cause of the last own one.

How commits are numbered. `"commit"` is the `seq` of the first transition of the commit. For a
foreign program, whose transactions no trigger can see, every statement counts as a commit: SQLite
writes `sqlite_sequence` back when the outermost statement ends, so all rows of one statement read
the same number there. Our own transactions hand the number on (see `journal`).
"""

from __future__ import annotations

from smithers.schema.times import NOW as _NOW

NEXT_COMMIT = "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'transitions'), 0) + 1"
NEWEST = "(SELECT max(seq) FROM transitions)"
KNOWN = f"""EXISTS (
    SELECT 1 FROM transitions
    WHERE seq = new.seq AND seq = {NEWEST} AND key = new.key AND value IS new.value
)"""

_STATE_AND_TRANSITIONS = (
    f"""
    CREATE TABLE state (
        key TEXT NOT NULL PRIMARY KEY CHECK (
            typeof(key) = 'text' AND length(key) BETWEEN 1 AND 1024 AND instr(key, char(0)) = 0
        ),
        value TEXT NOT NULL CHECK (
            typeof(value) = 'text' AND json_valid(value) AND instr(value, char(0)) = 0
        ),
        updated_at TEXT NOT NULL DEFAULT ({_NOW}),
        seq INTEGER
    ) WITHOUT ROWID
    """,
    # AUTOINCREMENT: the id of a pruned transition is never given to another one.
    """
    CREATE TABLE transitions (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT GENERATED ALWAYS AS ('t' || seq) VIRTUAL,
        key TEXT NOT NULL,
        previous_value TEXT,
        value TEXT,
        "trigger" TEXT,
        timestamp TEXT NOT NULL,
        execution_id TEXT,
        agent_id TEXT,
        deleted INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1)),
        "commit" INTEGER NOT NULL,
        apply INTEGER NOT NULL DEFAULT 0 CHECK (apply IN (0, 1)),
        CHECK ((value IS NULL) = deleted)
    )
    """,
    "CREATE INDEX transitions_by_key ON transitions (key, seq)",
)

_OWN_CHANGES = (
    """
    CREATE TRIGGER transitions_set AFTER INSERT ON transitions
    WHEN new.apply = 1 AND new.deleted = 0
    BEGIN
        INSERT INTO state (key, value, updated_at, seq)
        VALUES (new.key, new.value, new.timestamp, new.seq)
        ON CONFLICT (key) DO UPDATE
        SET value = excluded.value, updated_at = excluded.updated_at, seq = excluded.seq;
    END
    """,
    """
    CREATE TRIGGER transitions_delete AFTER INSERT ON transitions
    WHEN new.apply = 1 AND new.deleted = 1
    BEGIN
        DELETE FROM state WHERE key = new.key;
    END
    """,
)


def _last(column: str, key: str) -> str:
    return f"(SELECT {column} FROM transitions WHERE key = {key} ORDER BY seq DESC LIMIT 1)"


def recorded(key: str, previous: str, value: str, deleted: int) -> str:
    """Give the SQL that records what another program did to a key."""
    return f"""
        INSERT INTO transitions (key, previous_value, value, timestamp, deleted, "commit")
        VALUES ({key}, {previous}, {value}, {_NOW}, {deleted}, {NEXT_COMMIT});
    """


# Not one of `key` and `value`, so the triggers on them stay quiet.
ADOPTED = f"UPDATE state SET seq = {NEWEST}, updated_at = {_NOW} WHERE key = new.key;"

_FOREIGN_CHANGES = (
    # The previous value comes from history: REPLACE on a connection without recursive_triggers
    # removes the old row without a word.
    f"""
    CREATE TRIGGER state_inserted AFTER INSERT ON state WHEN NOT {KNOWN}
    BEGIN
        {recorded("new.key", _last("value", "new.key"), "new.value", 0)}
        {ADOPTED}
    END
    """,
    # An UPDATE that leaves `seq` alone is never ours, even when it writes the value that was there.
    f"""
    CREATE TRIGGER state_updated AFTER UPDATE OF key, value ON state
    WHEN new.key IS old.key AND (new.seq IS old.seq OR NOT {KNOWN})
    BEGIN
        {recorded("new.key", "old.value", "new.value", 0)}
        {ADOPTED}
    END
    """,
    f"""
    CREATE TRIGGER state_renamed AFTER UPDATE OF key ON state WHEN new.key IS NOT old.key
    BEGIN
        {recorded("old.key", "old.value", "NULL", 1)}
        {recorded("new.key", _last("value", "new.key"), "new.value", 0)}
        {ADOPTED}
    END
    """,
    # A row stands in `state` only while its newest transition is no deletion; when it is one, this
    # DELETE is the applying of it.
    f"""
    CREATE TRIGGER state_deleted AFTER DELETE ON state
    WHEN coalesce({_last("deleted", "old.key")}, 0) = 0
    BEGIN
        {recorded("old.key", "old.value", "NULL", 1)}
    END
    """,
)

HISTORY = (*_STATE_AND_TRANSITIONS, *_OWN_CHANGES, *_FOREIGN_CHANGES)
