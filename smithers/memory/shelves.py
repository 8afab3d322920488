"""The memories of one file, as one session of one project sees them.

What has expired is as good as gone. SQLite's own clock cannot be replaced, so the time comes from
a function of ours, which only these statements call.

Reading never writes: when a memory was last asked for is noted here, and written with the next
change of a memory in the file, or at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from reactive_sqlite.database import Database
from reactive_sqlite.dialect import sqlite3
from reactive_sqlite.errors import ReactiveError
from reactive_sqlite.observation import ObservableQuery
from smithers.cells import checked
from smithers.clock import Clock, from_text, to_text
from smithers.errors import SmithersError
from smithers.memory.search import Search
from smithers.records import Memory
from smithers.schema.memories import PIECES, WORDS

_COLUMNS = """id, category, scope, key, content, confidence, source, execution_id,
    created_at, updated_at, accessed_at, expires_at"""
_ALIVE = "(expires_at IS NULL OR julianday(expires_at) > julianday(_smithers_now()))"
# The pluses keep these from choosing the index: what comes first is found by other means.
_SEEN = f"""(
    (+scope = 'session' AND +belongs_to = :session)
    OR (+scope = 'project' AND +belongs_to IN (:project, ''))
    OR (+scope = 'global' AND +belongs_to = '')
) AND {_ALIVE}"""
_GET = f"""
    SELECT {_COLUMNS} FROM memories
    WHERE scope = :scope AND belongs_to IN (:belongs_to, :anybody)
    AND category = :category AND key = :key AND {_ALIVE}
    ORDER BY belongs_to = '' LIMIT 1
"""
_FIND = f"SELECT {_COLUMNS} FROM memories WHERE id = :id AND {_SEEN}"
_LIST = f"""
    SELECT {_COLUMNS} FROM memories WHERE {_SEEN} {{narrowed}}
    ORDER BY updated_at DESC, seq DESC LIMIT :limit
"""
_COUNT = f"SELECT category, scope, count(*) FROM memories WHERE {_SEEN} GROUP BY category, scope"

# A hit in the key counts as much as some in the content.
_WEIGHTS = "8.0, 1.0"
_BY_WORDS = f"""
    SELECT rowid AS found, bm25({WORDS}, {_WEIGHTS}) AS score
    FROM {WORDS} WHERE {WORDS} MATCH :words
"""
_BY_PIECES = f"""
    SELECT rowid, bm25({PIECES}, {_WEIGHTS}) FROM {PIECES}
    WHERE {PIECES} MATCH :pieces AND {{all_there}}
"""
# With nothing that the index could find all its texts are looked through.
_BY_LOOKING = f"SELECT rowid, -({{in_key}}) FROM {PIECES} WHERE {{all_there}}"
_AT_START = "' ' || lower({column}) || ' ' GLOB :{name}"
_ANYWHERE = "{column} LIKE :{name}"
_SEARCH = f"""
    WITH found AS MATERIALIZED ({_BY_WORDS} UNION ALL {{others}}),
    best AS MATERIALIZED (
        SELECT seq, min(score) AS score FROM found JOIN memories ON seq = found
        WHERE {_SEEN} {{narrowed}}
        GROUP BY seq ORDER BY 2, updated_at DESC, 1 DESC LIMIT :limit
    )
    SELECT {_COLUMNS} FROM best JOIN memories USING (seq)
    ORDER BY score, updated_at DESC, seq DESC
"""

_DROP_EXPIRED = f"""
    DELETE FROM memories
    WHERE scope = :scope AND belongs_to = :belongs_to AND category = :category AND key = :key
    AND NOT {_ALIVE}
"""
_ADD = f"""
    INSERT INTO memories (
        id, category, scope, belongs_to, key, content, confidence, source, execution_id,
        created_at, updated_at, expires_at
    ) VALUES (
        :id, :category, :scope, :belongs_to, :key, :content, :confidence, :source, :execution_id,
        :now, :now, :expires_at
    )
    ON CONFLICT (scope, belongs_to, category, key) DO UPDATE SET
        content = :content, confidence = :confidence, source = :source,
        execution_id = :execution_id, updated_at = :now, expires_at = :expires_at
    RETURNING {_COLUMNS}
"""
_DELETE = "DELETE FROM memories WHERE id = ?"
_WHOLE_BY_KEY = """
    SELECT * FROM memories
    WHERE scope = :scope AND belongs_to = :belongs_to AND category = :category AND key = :key
"""
_WHOLE_BY_ID = "SELECT * FROM memories WHERE id = ?"
# All that a write changes; whether a memory was asked for since does not matter.
_WRITTEN = """
    SELECT key, content, confidence, source, execution_id, expires_at, updated_at
    FROM memories WHERE id = ?
"""
_ACCESSED = "UPDATE memories SET accessed_at = max(coalesce(accessed_at, ''), ?) WHERE id = ?"

Values = Mapping[str, Any]
Row = tuple[Any, ...]


def install_clock(database: Database, clock: Clock) -> None:
    """Let the statements of this module ask for the time; before anything else is done."""
    database.conn.create_function("_smithers_now", 0, lambda: to_text(clock()))


class Shelf:
    """The memories of one file.

    Args:
        found: returns the database for reading, None while the file is missing.
        made: returns it for writing.
        writing: opens a transaction of it, or refuses to.
        viewer: the session and the project that look, as `session` and `project`.
    """

    def __init__(
        self,
        found: Callable[[], Database | None],
        made: Callable[[], Database],
        writing: Callable[[Database], AbstractContextManager[Any]],
        viewer: Values,
    ) -> None:
        self._found = found
        self._made = made
        self._writing = writing
        self._viewer = viewer
        self._accessed: dict[str, str] = {}

    def get(self, values: Values) -> Memory | None:
        """Return the memory with this `scope`, `belongs_to`, `category` and `key`."""
        return next(iter(self._read(_GET, {"anybody": "", **values})), None)

    def find(self, id: str) -> Memory | None:
        """Return the memory with this id."""
        return next(iter(self._read(_FIND, {"id": id})), None)

    def newest(self, narrowed: Values, limit: int) -> list[Memory]:
        """List the memories with these values, those changed last first."""
        return self._read(*listing(narrowed, limit))

    def search(self, search: Search, narrowed: Values, limit: int) -> list[Memory]:
        """List the memories in which all words occur, best first."""
        return self._read(*searching(search, narrowed, limit))

    def count(self) -> list[tuple[str, str, int]]:
        """Count the memories of each category and scope."""
        database = self._found()
        if database is None:
            return []
        counted: list[tuple[str, str, int]]
        counted = database.conn.execute(_COUNT, self._viewer).fetchall()
        return counted

    def observed(
        self, database: Database, query: tuple[str, Values]
    ) -> ObservableQuery[list[Memory]]:
        """Observe what `listing` or `searching` asks for."""
        sql, values = query
        found = database.observe(sql, {**self._viewer, **values})
        return found.decoded(lambda rows: [_memory(*row.values()) for row in rows])

    def access(self, memory: Memory, now: str) -> Memory:
        """Note that a memory was asked for, and return it with that time."""
        self._accessed[memory.id] = now
        return replace(memory, accessed_at=from_text(now))

    def add(self, values: Values) -> tuple[Memory, Callable[[], None]]:
        """Add a memory, or update the one of that key; return it and what would undo that."""
        with self._changing() as database:
            before = database.conn.execute(_WHOLE_BY_KEY, values).fetchone()
            database.conn.execute(_DROP_EXPIRED, values)
            row = database.conn.execute(_ADD, values).fetchone()
            after = database.conn.execute(_WRITTEN, (row[0],)).fetchone()
        return _memory(*row), lambda: _put_back(database, row[0], before, after)

    def update(self, id: str, changes: Values) -> tuple[Memory | None, Callable[[], None]]:
        """Change columns of a memory; return it and what would undo that."""
        listed = ", ".join(f"{name} = :{name}" for name in changes)
        sql = f"UPDATE memories SET {listed} WHERE id = :id RETURNING {_COLUMNS}"
        with self._changing() as database:
            before = database.conn.execute(_WHOLE_BY_ID, (id,)).fetchone()
            row = database.conn.execute(sql, {**changes, "id": id}).fetchone()
            after = database.conn.execute(_WRITTEN, (id,)).fetchone()
        memory = None if row is None else _memory(*row)
        return memory, lambda: _put_back(database, id, before, after)

    def delete(self, id: str) -> tuple[bool, Callable[[], None]]:
        """Delete a memory; return whether it was there and what would undo that."""
        with self._changing() as database:
            before = database.conn.execute(_WHOLE_BY_ID, (id,)).fetchone()
            there = database.conn.execute(_DELETE, (id,)).rowcount > 0
        return there, lambda: _put_back(database, id, before, None)

    def let_go(self) -> None:
        """Write when memories were last asked for, where that has not been written yet."""
        try:
            database = self._found() if self._accessed else None
            if database is not None and not database.conn.read_only:
                with self._writing(database):
                    self._write_accesses(database)
        except (sqlite3.Error, ReactiveError, SmithersError):
            # Locked for long, taken over, or the file is gone: no time of access is worth an error
            # at the end.
            return

    @contextmanager
    def _changing(self) -> Generator[Database]:
        database = self._made()
        with self._writing(database):
            self._write_accesses(database)
            yield database

    def _write_accesses(self, database: Database) -> None:
        accessed, self._accessed = self._accessed, {}
        if accessed:
            database.conn.executemany(_ACCESSED, [(now, id) for id, now in accessed.items()])

    def _read(self, sql: str, values: Values) -> list[Memory]:
        database = self._found()
        if database is None:
            return []
        rows = database.conn.execute(sql, {**self._viewer, **values})
        memories = [_memory(*row) for row in rows]
        if self._accessed:
            memories = [self._with_access(memory) for memory in memories]
        return memories

    def _with_access(self, memory: Memory) -> Memory:
        now = self._accessed.get(memory.id)
        return memory if now is None else replace(memory, accessed_at=from_text(now))


def listing(narrowed: Values, limit: int) -> tuple[str, Values]:
    """Give the query of the memories with these values, newest first."""
    return _LIST.format(narrowed=_narrowing(narrowed)), {**narrowed, "limit": limit}


def searching(search: Search, narrowed: Values, limit: int) -> tuple[str, Values]:
    """Give the query of the memories in which all words occur, best first."""
    tests = [
        *((_AT_START, pattern) for pattern in search.at_starts),
        *((_ANYWHERE, pattern) for pattern in search.anywhere),
    ]
    in_key, there = ["0"], ["true"]
    # Nothing but nothing is found by two quotes.
    values = {
        "words": search.by_words or '""',
        "pieces": search.by_pieces or '""',
        "limit": limit,
        **narrowed,
    }
    for place, (test, pattern) in enumerate(tests):
        name = f"pattern{place}"
        values[name] = pattern
        in_key.append(f"({test.format(column='key', name=name)})")
        there.append(f"({in_key[-1]} OR {test.format(column='content', name=name)})")
    others = _BY_LOOKING if search.words and not search.by_pieces else _BY_PIECES
    others = others.format(in_key=" + ".join(in_key), all_there=" AND ".join(there))
    return _SEARCH.format(others=others, narrowed=_narrowing(narrowed)), values


def _narrowing(narrowed: Values) -> str:
    return "".join(f"AND +{name} = :{name} " for name in narrowed)


def _put_back(database: Database, id: str, before: Row | None, after: Row | None) -> None:
    """Let the row with an id be again what it was, or not be.

    What somebody else has made of it since, or has put in its place, stays.
    """
    with database.transaction():
        if database.conn.execute(_WRITTEN, (id,)).fetchone() != after:
            return
        database.conn.execute(_DELETE, (id,))
        if before is not None:
            marks = ", ".join("?" * len(before))
            database.conn.execute(f"INSERT OR IGNORE INTO memories VALUES ({marks})", before)


def _memory(
    id: str,
    category: str,
    scope: str,
    key: str,
    content: str,
    confidence: float,
    source: str | None,
    execution_id: str | None,
    created_at: str,
    updated_at: str,
    accessed_at: str | None,
    expires_at: str | None,
) -> Memory:
    memory = Memory(
        id=id,
        category=category,
        scope=scope,
        key=key,
        content=content,
        # RETURNING gives a whole number back as it was bound.
        confidence=float(confidence) if type(confidence) is int else confidence,
        source=source,
        execution_id=execution_id,
        created_at=from_text(created_at),
        updated_at=from_text(updated_at),
        accessed_at=None if accessed_at is None else from_text(accessed_at),
        expires_at=None if expires_at is None else from_text(expires_at),
    )
    return checked(memory)
