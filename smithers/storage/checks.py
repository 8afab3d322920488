"""Whether a database file is sound: what SQLite says of it, and what this package promises."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from reactive_sqlite.dialect import quote, sqlite3
from smithers.clock import from_text
from smithers.errors import StateTypeError
from smithers.records import Finding
from smithers.schema import TABLES, migrate
from smithers.schema.memories import PIECES, WORDS, unspaced
from smithers.workspace import Workspace

# More of the same is not told by name.
MOST_NAMED = 5

_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR})
# The first releases in which a write-ahead log that is written and checkpointed at once cannot be
# damaged any more, each in its own line of releases.
_MENDED = ((3, 44, 6), (3, 50, 7), (3, 51, 3))
_FIRST_WITH_LOG = (3, 7, 0)

_ORPHANS = """
    SELECT "table", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2 ORDER BY 1, 2
"""
_FULL_TEXT = """
    SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%fts5%'
"""
_OBJECTS = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
# Rows whose parents stand below another execution than they do.
_STRAYED = tuple(
    (
        table,
        f"""
        SELECT {table}.id FROM {table} JOIN {above} ON {above}.id = {table}.{column}
        WHERE {table}.execution_id IS NOT {above}.execution_id ORDER BY {table}.seq
        """,
    )
    for table, column, above in (
        ("steps", "phase_id", "phases"),
        ("agents", "phase_id", "phases"),
        ("agents", "step_id", "steps"),
        ("tool_calls", "agent_id", "agents"),
    )
)
_LEFT_OPEN = tuple(
    (
        table,
        f"""
        SELECT {table}.id FROM {table} JOIN executions ON executions.id = execution_id
        WHERE {table}.status = 'running'
        AND executions.status IN ('completed', 'failed', 'cancelled') ORDER BY {table}.seq
        """,
    )
    for table in ("phases", "steps", "agents", "tool_calls")
)
_TOTALS = """
    WITH spent AS (
        SELECT execution_id, count(*) AS agents, sum(tokens_input + tokens_output) AS tokens,
            sum(CAST(round(cost_usd * 1e9) AS INTEGER)) AS nano
        FROM agents GROUP BY execution_id
    ), called AS (
        SELECT execution_id, count(*) AS calls FROM tool_calls GROUP BY execution_id
    ), iterated AS (
        SELECT execution_id, count(DISTINCT iteration) AS iterations
        FROM phases GROUP BY execution_id
    )
    SELECT id FROM executions
    LEFT JOIN spent ON spent.execution_id = id
    LEFT JOIN called ON called.execution_id = id
    LEFT JOIN iterated ON iterated.execution_id = id
    WHERE total_agents <> coalesce(agents, 0) OR total_tokens_used <> coalesce(tokens, 0)
    OR total_cost_nano <> coalesce(nano, 0) OR total_tool_calls <> coalesce(calls, 0)
    OR total_iterations <> coalesce(iterations, 0)
    ORDER BY seq
"""
# What history, pruned or not, says of each key.
_KNOWN = """
    WITH newest AS (
        SELECT key, value, deleted FROM (SELECT max(seq) AS seq FROM transitions GROUP BY key)
        JOIN transitions USING (seq)
    ), known AS (
        SELECT key, value FROM newest WHERE deleted = 0
        UNION ALL
        SELECT key, value FROM _smithers_baseline WHERE key NOT IN (SELECT key FROM newest)
    )
"""
_STATE_AND_HISTORY = (
    (
        "{keys} in the state with another value than in their newest transition: {named}",
        f"{_KNOWN} SELECT key FROM state JOIN known USING (key) WHERE state.value <> known.value",
    ),
    (
        "{keys} in the state that history does not know: {named}",
        f"{_KNOWN} SELECT key FROM state WHERE key NOT IN (SELECT key FROM known)",
    ),
    (
        "{keys} that history knows and the state has not: {named}",
        f"{_KNOWN} SELECT key FROM known WHERE key NOT IN (SELECT key FROM state)",
    ),
)
# Of a memory and an index by which it is to be found.
_DIFFERENT = "{index}.key IS NOT memories.key OR {index}.content IS NOT memories.content"
_UNINDEXED = tuple(
    (
        index,
        f"""
        SELECT memories.key FROM memories LEFT JOIN {index} ON {index}.rowid = memories.seq
        WHERE {only} ({_DIFFERENT.format(index=index)}) ORDER BY memories.seq
        """,
    )
    for index, only in ((WORDS, ""), (PIECES, f"{unspaced('memories')} AND"))
)
# Nearly all are written in the one form that needs no closer look.
_TIMES = """
    SELECT m.name, p.name FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS p
    WHERE m.type = 'table' AND (p.name LIKE '%\\_at' ESCAPE '\\' OR p.name = 'timestamp')
    ORDER BY m.name, p.cid
"""
_ODD_TIMES = """
    SELECT {column} FROM {table} WHERE {column} IS NOT NULL AND (
        {column} NOT GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9]T*Z'
        OR date({column}, '+0 days') IS NOT substr({column}, 1, 10) OR julianday({column}) IS NULL
    )
"""
_MADE_BY = "SELECT sql FROM sqlite_master WHERE name = ?"
_SHADOWS = ("data", "idx", "content", "docsize", "config")
_RUNNING = """
    SELECT id, name, owner, cancel_requested_at FROM executions WHERE status = 'running'
    ORDER BY seq DESC
"""


class Checks:
    """Look for what is wrong with the file; nothing is changed or mended."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._database = workspace.database

    def run(self, *, quick: bool = False) -> list[Finding]:
        """List what is found, errors first; `SmithersDB.check` is its public face."""
        with self._snapshot():
            integrity = self._quickly_whole if quick else self._whole
            found = [*_safely("integrity", integrity)]
            for name, check in self._others():
                found += _safely(name, check)
        return sorted(found, key=lambda finding: finding.level != "error")

    def _others(self) -> Iterator[tuple[str, Callable[[], Iterator[Finding]]]]:
        yield "schema", self._schema
        yield "orphans", self._orphans
        yield "parents", self._parents
        yield "totals", self._totals
        yield "times", self._times
        yield "history", self._history
        yield "search", self._search
        yield "owners", self._owners
        yield "sqlite", self._sqlite
        yield "permissions", self._permissions

    @contextmanager
    def _snapshot(self) -> Generator[None]:
        """See one state of the file throughout; writers in other processes are not kept waiting."""
        conn = self._database.conn
        if conn.in_transaction:
            yield
            return
        conn.execute("BEGIN")
        try:
            yield
        finally:
            # Of a damaged file even reading alone cannot be committed.
            conn.execute("ROLLBACK")

    def _whole(self) -> Iterator[Finding]:
        return self._integrity("PRAGMA integrity_check(100)")

    def _quickly_whole(self) -> Iterator[Finding]:
        return self._integrity("PRAGMA quick_check(100)")

    def _integrity(self, sql: str) -> Iterator[Finding]:
        self._look_anew()
        told = [text for (text,) in self._database.conn.execute(sql).fetchall() if text != "ok"]
        if told:
            yield _finding("integrity", "; ".join(told[:MOST_NAMED]), len(told))

    def _look_anew(self) -> None:
        """Have FTS5 forget what it remembers of indexes that others have written to since.

        Whatever reads an index does so, but for the check that SQLite makes of it from 3.44 on:
        that takes what was remembered for what has to be in the file, and calls it corrupt.
        """
        for (name,) in self._database.conn.execute(_FULL_TEXT).fetchall():
            # What cannot be read is for the check to tell.
            with suppress(sqlite3.DatabaseError):
                self._database.conn.execute(f"SELECT rowid FROM {quote(name)} LIMIT 1").fetchall()

    def _schema(self) -> Iterator[Finding]:
        from sqlite_utils import Database

        expected = Database(memory=True)
        try:
            migrate(expected)
            wanted = _objects(expected.conn.execute(_OBJECTS))
        finally:
            expected.close()
        there = _objects(self._database.conn.execute(_OBJECTS))
        missing = [f"{kind} {name}" for kind, name in sorted(wanted.keys() - there.keys())]
        if missing:
            yield _finding("schema", f"missing: {_named(missing)}", len(missing))
        changed = [
            f"{kind} {name}"
            for kind, name in sorted(wanted.keys() & there.keys())
            if wanted[kind, name] != there[kind, name]
        ]
        if changed:
            message = f"not as this version makes it: {_named(changed)}"
            yield _finding("schema", message, len(changed))

    def _orphans(self) -> Iterator[Finding]:
        for table, parent, count in self._database.conn.execute(_ORPHANS).fetchall():
            rows = _counted(count, "row")
            yield _finding("orphans", f"{rows} of {table} without a row of {parent}", count)

    def _parents(self) -> Iterator[Finding]:
        for table, sql in _STRAYED:
            if ids := self._column(sql):
                rows = _counted(len(ids), "row")
                message = f"{rows} of {table} below another execution's row: {_named(ids)}"
                yield _finding("parents", message, len(ids))
        for table, sql in _LEFT_OPEN:
            if ids := self._column(sql):
                rows = _counted(len(ids), "row")
                message = f"{rows} of {table} running below an ended execution: {_named(ids)}"
                yield _finding("parents", message, len(ids), level="warning")

    def _totals(self) -> Iterator[Finding]:
        if ids := self._column(_TOTALS):
            which = _counted(len(ids), "execution")
            message = f"{which} with totals other than those of the rows: {_named(ids)}"
            yield _finding("totals", message, len(ids))

    def _times(self) -> Iterator[Finding]:
        for table, column in self._database.conn.execute(_TIMES).fetchall():
            if table not in TABLES:
                continue
            sql = _ODD_TIMES.format(table=table, column=column)
            odd = [text for (text,) in self._database.conn.execute(sql) if not _is_time(text)]
            if odd:
                message = f"{_counted(len(odd), 'row')} of {table} with a {column} that is no time"
                yield _finding("times", f"{message}: {_named([*map(repr, odd)])}", len(odd))

    def _history(self) -> Iterator[Finding]:
        for message, sql in _STATE_AND_HISTORY:
            if keys := self._column(sql):
                counted = _counted(len(keys), "key")
                named = _named([repr(key) for key in keys])
                yield _finding("history", message.format(keys=counted, named=named), len(keys))

    def _search(self) -> Iterator[Finding]:
        for index, sql in _UNINDEXED:
            if keys := self._column(sql):
                memories = "memory" if len(keys) == 1 else "memories"
                named = _named([repr(key) for key in keys])
                message = f"{len(keys)} {memories} not as they are in {index}: {named}"
                yield _finding("search", message, len(keys))
        for index in (WORDS, PIECES):
            if told := self._damage(index):
                yield _finding("search", f"{index}: {told}", 0)

    def _damage(self, index: str) -> str | None:
        """Have FTS5 check an index: a copy of it, since it checks as an answer to a write."""
        conn = self._database.conn
        copy = sqlite3.connect(":memory:", isolation_level=None)
        try:
            copy.execute(conn.execute(_MADE_BY, (index,)).fetchone()[0])
            for part in _SHADOWS:
                copy.execute(f"DELETE FROM {index}_{part}")
                rows = conn.execute(f"SELECT * FROM {index}_{part}")
                marks = ", ".join("?" * len(rows.description))
                copy.executemany(f"INSERT INTO {index}_{part} VALUES ({marks})", rows)
            # What it keeps in memory of the empty index is forgotten.
            copy.execute("PRAGMA writable_schema = RESET")
            copy.execute(f"INSERT INTO {index} ({index}) VALUES ('integrity-check')")
        except sqlite3.DatabaseError as error:
            return str(error)
        finally:
            copy.close()
        return None

    def _owners(self) -> Iterator[Finding]:
        ownership = self._workspace.ownership
        for id, name, owner, asked in self._database.conn.execute(_RUNNING).fetchall():
            if ownership.live_owner(id):
                continue
            what = "is to be cancelled" if asked else "can be resumed"
            message = f"execution {name!r} ({id}) {what}: its owner {owner} has ended"
            yield _finding("owners", message, 1, level="warning")

    def _sqlite(self) -> Iterator[Finding]:
        mode = self._database.conn.execute("PRAGMA journal_mode").fetchone()[0]
        if mode == "wal" and can_damage_log(sqlite3.sqlite_version_info):
            message = (
                f"SQLite {sqlite3.sqlite_version} can damage a write-ahead log that is written and "
                "checkpointed at the same time; 3.51.3, 3.50.7 and 3.44.6 cannot: the extra "
                "`sqlite` of this package brings a newer one"
            )
            yield _finding("sqlite", message, 0, level="warning")

    def _permissions(self) -> Iterator[Finding]:
        path = None if self._database.path is None else Path(self._database.path)
        if path is None or os.name != "posix":
            return
        for place in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
            try:
                mode = place.stat().st_mode
            except FileNotFoundError:
                continue
            if mode & 0o066:
                may = "read and write" if mode & 0o022 and mode & 0o044 else "write"
                may = may if mode & 0o022 else "read"
                message = f"others may {may} {place.name} (mode {mode & 0o777:04o})"
                yield _finding("permissions", message, 0, level="warning")

    def _column(self, sql: str) -> list[Any]:
        return [value for (value,) in self._database.conn.execute(sql).fetchall()]


def can_damage_log(version: tuple[int, ...]) -> bool:
    """Tell whether a version of SQLite can damage a write-ahead log.

    >>> can_damage_log((3, 51, 2)), can_damage_log((3, 50, 7))
    (True, False)
    """
    if not _FIRST_WITH_LOG <= version < _MENDED[-1]:
        return False
    return not any(version[:2] == mended[:2] and version >= mended for mended in _MENDED)


def _safely(name: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Make a check; where the file is too damaged for it, that is what was found."""
    try:
        yield from check()
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code not in _DAMAGE and not isinstance(error, sqlite3.OperationalError):
            raise
        yield _finding(name, f"cannot be checked: {error}", 0)


def _finding(check: str, message: str, count: int, *, level: str = "error") -> Finding:
    return Finding(check=check, level=level, message=message, count=count)


def _objects(rows: Iterator[tuple[str, str, str]]) -> dict[tuple[str, str], str]:
    return {(kind, name): " ".join(sql.split()) for kind, name, sql in rows}


def _is_time(text: str) -> bool:
    try:
        from_text(text)
    except StateTypeError:
        return False
    return True


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _named(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(map(str, names[:MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
