"""Answers to any SQL that reads, within limits, from a connection that can do nothing else."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reactive_sqlite.dialect import LIMITS, sqlite3

MOST_ROWS = 1_000
MOST_SECONDS = 2.0
MOST_CHARACTERS = 2_000_000
LONGEST_CELL = 10_000
_LARGEST_VALUE = 64 * 1024 * 1024
_STEPS = 1_000
_TELLING = frozenset(
    {
        *("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"),
        *(
            "foreign_key_list",
            "database_list",
            "collation_list",
            "function_list",
            "compile_options",
        ),
    }
)
_READING = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_NEVER = frozenset({"load_extension", "fts3_tokenizer"})


class Unanswered(ValueError):
    """A question that is refused, or took too long."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of an answer, cut off where `truncated`, and the tables that it was read from."""

    columns: list[str]
    rows: list[list[Any]]
    truncated: bool
    tables: frozenset[str]


def ask(path: Path, sql: str) -> Answer:
    """Run one statement that reads.

    Cells are as SQLite has them, but a long text is `{"text": its beginning, "size": …}` and a blob
    `{"blob": the beginning in hexadecimal digits, "size": …}`, with its number of bytes.

    Raises Unanswered for what writes, attaches or takes longer than MOST_SECONDS; errors of SQLite
    pass as they are.
    """
    # Another connection than the one that is watched: what is slow here holds nothing up there.
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=MOST_SECONDS
    )
    try:
        connection.execute("PRAGMA query_only = ON")
        if LIMITS:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
        watch = _Watch(MOST_SECONDS)
        connection.set_authorizer(watch.allows)
        connection.set_progress_handler(watch.is_over, _STEPS)
        return _answer(connection, sql, watch)
    finally:
        connection.close()


class _Watch:
    """Looks at what a statement is about to do, and how long it takes."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self.tables: set[str] = set()
        self.refused = False
        self.late = False

    def allows(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ and first:
            self.tables.add(first.lower())
        elif action == sqlite3.SQLITE_PRAGMA:
            if (first or "").lower() not in _TELLING:
                return self._refuse()
        elif action not in _READING or (second or "").lower() in _NEVER:
            return self._refuse()
        return sqlite3.SQLITE_OK

    def is_over(self) -> int:
        self.late = time.monotonic() > self._until
        return int(self.late)

    def _refuse(self) -> int:
        self.refused = True
        return sqlite3.SQLITE_DENY

    def explained(self, error: Exception) -> Exception:
        if self.refused:
            return Unanswered("only questions are answered here: nothing that writes or attaches")
        return Unanswered(f"it took more than {self._seconds:g} s") if self.late else error


def _answer(connection: Any, sql: str, watch: _Watch) -> Answer:
    rows: list[list[Any]] = []
    room = MOST_CHARACTERS
    try:
        cursor = connection.execute(sql)
        columns = [column[0] for column in cursor.description or ()]
        for row in cursor:
            if len(rows) == MOST_ROWS or room <= 0:
                return Answer(columns, rows, True, frozenset(watch.tables))
            rows.append([_cell(value) for value in row])
            room -= sum(map(_size, row))
    except sqlite3.Warning as error:
        # More than one statement, as older modules and pysqlite3 say it.
        raise Unanswered(str(error)) from error
    except sqlite3.Error as error:
        raise watch.explained(error) from error
    return Answer(columns, rows, False, frozenset(watch.tables))


def _size(value: Any) -> int:
    return min(len(value), LONGEST_CELL) if isinstance(value, str | bytes) else 8


def _cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"blob": value[: LONGEST_CELL // 2].hex(), "size": len(value)}
    if isinstance(value, str) and len(value) > LONGEST_CELL:
        return {"text": value[:LONGEST_CELL], "size": len(value)}
    return value
