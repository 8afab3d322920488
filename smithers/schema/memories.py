"""Memories, and the two full-text indexes that follow them by triggers, whoever writes.

The indexes keep texts of their own. One that reads them from `memories` needs the old text to
forget a row, and that is gone where a writer without recursive_triggers has replaced it.

Words go into one index. Scripts that put no spaces between words (those of East and South-East
Asia) have no words it could find, so texts with any of their characters go into a second one, by
pieces of three characters, for finding any part of a text.

`belongs_to` is the session or the project whose memory it is; nothing for global ones, and for
those that somebody else has written without it, which every project that uses the file sees.
"""

from __future__ import annotations

from smithers.schema.times import NOW

CATEGORIES: tuple[str, ...] = ("fact", "learning", "preference", "context", "skill")
SCOPES: tuple[str, ...] = ("global", "project", "session")
WORDS = "_smithers_memories_words"
PIECES = "_smithers_memories_pieces"

# Thai to Myanmar, Hangul letters, Khmer, Tai, then all from the radicals of Han on but for
# surrogates and private use.
_UNSPACED = (
    *((0x0E00, 0x109F), (0x1100, 0x11FF), (0x1780, 0x17FF), (0x1950, 0x19DF), (0x1A20, 0x1AAF)),
    *((0x2E80, 0xD7FF), (0xF900, 0xFAFF), (0xFF00, 0xFFEF), (0x16FE0, 0x1B2FF)),
    (0x20000, 0x3FFFF),
)
_PATTERN = "".join(f"{chr(first)}-{chr(last)}" for first, last in _UNSPACED)


def unspaced(row: str) -> str:
    """Give the SQL for whether a memory has any character of a script without spaces."""
    return f"({row}.key GLOB '*[{_PATTERN}]*' OR {row}.content GLOB '*[{_PATTERN}]*')"


def _table(execution: str) -> tuple[str, ...]:
    one_of_categories = ", ".join(f"'{category}'" for category in CATEGORIES)
    one_of_scopes = ", ".join(f"'{scope}'" for scope in SCOPES)
    return (
        # AUTOINCREMENT: what the indexes still hold of a row that was replaced never comes to
        # stand for another one.
        f"""
        CREATE TABLE memories (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE DEFAULT (lower(hex(randomblob(16))))
                CHECK (typeof(id) = 'text' AND id <> ''),
            category TEXT NOT NULL CHECK (category IN ({one_of_categories})),
            scope TEXT NOT NULL DEFAULT 'project' CHECK (scope IN ({one_of_scopes})),
            belongs_to TEXT NOT NULL DEFAULT '',
            key TEXT NOT NULL CHECK (
                typeof(key) = 'text' AND length(key) BETWEEN 1 AND 1024 AND instr(key, char(0)) = 0
            ),
            confidence REAL NOT NULL DEFAULT 1.0 CHECK (confidence BETWEEN 0 AND 1),
            source TEXT,
            execution_id TEXT {execution},
            created_at TEXT NOT NULL DEFAULT ({NOW}),
            updated_at TEXT NOT NULL DEFAULT ({NOW}),
            accessed_at TEXT,
            expires_at TEXT CHECK (expires_at IS NULL OR (
                date(substr(expires_at, 1, 10), '+0 days') = substr(expires_at, 1, 10)
                AND expires_at >= '0001' AND substr(expires_at, 12, 2) < '24'
                AND instr(substr(expires_at, 12), ' ') = 0 AND instr(expires_at, 'z') = 0
                AND julianday(expires_at) IS NOT NULL
            )),
            content TEXT NOT NULL CHECK (typeof(content) = 'text' AND content <> ''),
            CHECK (scope <> 'session' OR belongs_to <> ''),
            CHECK (scope <> 'global' OR belongs_to = ''),
            UNIQUE (scope, belongs_to, category, key)
        )
        """,
        "CREATE INDEX memories_by_time ON memories (updated_at)",
        "CREATE INDEX memories_by_execution ON memories (execution_id)",
    )


# One letter alone is never the beginning of a word (`smithers.memory.search`), hence from two on.
_INDEXES = (
    f"""
    CREATE VIRTUAL TABLE {WORDS} USING fts5 (
        key, content, prefix = '2 3',
        tokenize = "unicode61 remove_diacritics 2 categories 'L* N* M* Co'"
    )
    """,
    f"CREATE VIRTUAL TABLE {PIECES} USING fts5 (key, content, tokenize = 'trigram')",
)


def _forget(row: str) -> str:
    return f"""
        DELETE FROM {WORDS} WHERE rowid = {row}.seq;
        DELETE FROM {PIECES} WHERE rowid = {row}.seq;
    """


# Forgotten first: a row that was replaced under the same number was never deleted for a trigger.
_LEARN = f"""
    {_forget("new")}
    INSERT INTO {WORDS} (rowid, key, content) VALUES (new.seq, new.key, new.content);
    INSERT INTO {PIECES} (rowid, key, content)
        SELECT new.seq, new.key, new.content WHERE {unspaced("new")};
"""

_TRIGGERS = (
    f"CREATE TRIGGER memories_added AFTER INSERT ON memories BEGIN {_LEARN} END",
    f"CREATE TRIGGER memories_removed AFTER DELETE ON memories BEGIN {_forget('old')} END",
    f"""
    CREATE TRIGGER memories_changed AFTER UPDATE OF seq, key, content ON memories
    BEGIN {_forget("old")} {_LEARN} END
    """,
)

MEMORIES = (
    *_table("REFERENCES executions (id) ON DELETE SET NULL"),
    *_INDEXES,
    *_TRIGGERS,
)
# A file of memories alone; the executions are those of many databases.
STORE = (*_table(""), *_INDEXES, *_TRIGGERS)
