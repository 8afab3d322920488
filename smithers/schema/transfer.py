"""What moving and pruning a database needs: its id, what pruned history says, quiet triggers.

A dump carries rows as they are, so the triggers of `state` record nothing while one is loaded: the
transaction that loads has a row `loading` in `_smithers_meta`, which nobody else ever sees.

Pruning removes transitions up to one commit. What they say of each key that was there at that time
is kept in `_smithers_baseline`: a key with no transition before some point has the value of the
baseline there.
"""

from __future__ import annotations

from smithers.schema.history import ADOPTED, KNOWN, recorded

_TABLES = (
    """
    CREATE TABLE _smithers_meta (
        name TEXT NOT NULL PRIMARY KEY,
        value TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    # `pruned` is the number of the last transition that was ever removed.
    """
    INSERT INTO _smithers_meta (name, value)
    VALUES ('database', lower(hex(randomblob(16)))), ('pruned', '0')
    """,
    """
    CREATE TABLE _smithers_baseline (
        key TEXT NOT NULL PRIMARY KEY,
        value TEXT NOT NULL,
        seq INTEGER NOT NULL,
        timestamp TEXT NOT NULL
    ) WITHOUT ROWID
    """,
)

# Asked last: a write of our own is known already, and pays for nothing here.
_NOT_LOADING = "NOT EXISTS (SELECT 1 FROM _smithers_meta WHERE name = 'loading')"


def _previous(key: str) -> str:
    return f"""(
        SELECT value FROM (
            SELECT value, seq FROM _smithers_baseline WHERE key = {key}
            UNION ALL
            SELECT value, seq FROM (
                SELECT value, seq FROM transitions WHERE key = {key} ORDER BY seq DESC LIMIT 1
            )
        ) ORDER BY seq DESC LIMIT 1
    )"""


_DELETED = """
    coalesce((
        SELECT deleted FROM transitions WHERE key = old.key ORDER BY seq DESC LIMIT 1
    ), 0)
"""

_FOREIGN_CHANGES = (
    *(
        f"DROP TRIGGER {name}"
        for name in ("state_inserted", "state_updated", "state_renamed", "state_deleted")
    ),
    f"""
    CREATE TRIGGER state_inserted AFTER INSERT ON state WHEN NOT {KNOWN} AND {_NOT_LOADING}
    BEGIN
        {recorded("new.key", _previous("new.key"), "new.value", 0)}
        {ADOPTED}
    END
    """,
    f"""
    CREATE TRIGGER state_updated AFTER UPDATE OF key, value ON state
    WHEN new.key IS old.key AND (new.seq IS old.seq OR NOT {KNOWN}) AND {_NOT_LOADING}
    BEGIN
        {recorded("new.key", "old.value", "new.value", 0)}
        {ADOPTED}
    END
    """,
    f"""
    CREATE TRIGGER state_renamed AFTER UPDATE OF key ON state
    WHEN new.key IS NOT old.key AND {_NOT_LOADING}
    BEGIN
        {recorded("old.key", "old.value", "NULL", 1)}
        {recorded("new.key", _previous("new.key"), "new.value", 0)}
        {ADOPTED}
    END
    """,
    f"""
    CREATE TRIGGER state_deleted AFTER DELETE ON state
    WHEN {_DELETED} = 0 AND {_NOT_LOADING}
    BEGIN
        {recorded("old.key", "old.value", "NULL", 1)}
    END
    """,
)

TRANSFER = (*_TABLES, *_FOREIGN_CHANGES)
