"""Questions that no other room owns: free SQL, and what the database holds in numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from reactive_sqlite.arguments import check_parameter, check_parameters, shown, sql_text
from reactive_sqlite.dialect import quote, sqlite3
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.tokens import first_keyword
from smithers.schema import TABLES
from smithers.workspace import Workspace

# Whether it is worth asking: it may also stand inside a string.
_NUMBERED = re.compile(r"\$|\?[0-9]")
# What holds rows of somebody's own: no views, no tables that belong to SQLite, to a virtual table
# (its shadows), to the migrations or to the inner workings of this package.
_OTHER_TABLES = r"""
    SELECT name FROM pragma_table_list
    WHERE schema = 'main' AND type IN ('table', 'virtual')
    AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND name NOT LIKE '\_smithers\_%' ESCAPE '\'
    AND name NOT LIKE '\_reactive\_%' ESCAPE '\'
    AND name <> '_sqlite_migrations'
    ORDER BY name
"""
# Those that write and may stand inside a transaction; PRAGMA, VACUUM and ATTACH may not.
_WRITING = frozenset(
    {
        *("ALTER", "ANALYZE", "CREATE", "DELETE", "DROP", "INSERT", "REINDEX", "REPLACE"),
        *("UPDATE", "WITH"),
    }
)
Parameters = Sequence[Any] | Mapping[str, Any]


class WriteRefused(ValueError):
    """A statement that writes was given where only reading was asked for.

    Attributes:
        sql: the statement, which was not run.
    """

    def __init__(self, sql: str) -> None:
        super().__init__(f"this statement writes: pass write=True to allow it: {shown(sql)}")
        self.sql = sql


class Reports:
    """Answer free SQL and count rows."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._database = workspace.database

    def query(
        self, sql: str, params: Parameters = (), *, write: bool = False
    ) -> list[dict[str, Any]]:
        """Run one statement and return its rows; `SmithersDB.query` is its public face."""
        sql = sql_text(sql)
        bound = self._bound(sql, params)
        reads = _explains(sql) or self._database.reads_only(sql, bound)
        if not (reads or write):
            raise WriteRefused(sql)
        with nullcontext() if reads else self._writing(sql):
            cursor = self._database.conn.execute(sql, bound)
            names = _told_apart(column[0] for column in cursor.description or ())
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def observe(self, sql: str, params: Parameters = ()) -> ObservableQuery[list[dict[str, Any]]]:
        """Observe the rows of a query; `SmithersDB.observe` is its public face."""
        sql = sql_text(sql)
        return self._database.observe(sql, self._bound(sql, params))

    def check(self, sql: str, params: Parameters = ()) -> None:
        """Refuse what `query` would refuse as it is now, without running it."""
        if not self._database.reads_only(sql, self._bound(sql, params)):
            raise WriteRefused(sql)

    def stats(self) -> dict[str, int]:
        """Count the rows of every table of the file: ours first, then the user's own by name."""
        own = [name for (name,) in self._database.conn.execute(_OTHER_TABLES).fetchall()]
        return {
            table: self._database.conn.execute(f"SELECT count(*) FROM {quote(table)}").fetchone()[0]
            for table in dict.fromkeys((*TABLES, *own))
        }

    def _writing(self, sql: str) -> AbstractContextManager[object]:
        """Refuse a write below an execution that this run has lost, or where none is possible."""
        self._workspace.check_writable("write by a query")
        keyword = first_keyword(sql)
        ownership, execution_id = self._workspace.ownership, self._workspace.context.execution_id
        # Undoing writes nothing, and who has lost an execution must be able to.
        if not ownership.owns(execution_id) or keyword == "ROLLBACK":
            return nullcontext()
        if keyword in _WRITING:
            return self._workspace.transaction()
        ownership.check(execution_id)
        return nullcontext()

    def _bound(self, sql: str, params: Parameters) -> Parameters:
        """Bind a sequence by number where the statement has `$1` or `?1`; else leave it alone.

        By position SQLite numbers `$2 … $1` in the order of appearance, so they have to be bound
        by name (and some Pythons take `?1` for a name). Which names a statement has is asked of
        SQLite itself, through EXPLAIN, which runs nothing: the text alone cannot tell `$1` from
        what stands inside a string.
        """
        check_parameters(params)
        if isinstance(params, Mapping):
            for name, value in params.items():
                check_parameter(value, name)
            return params
        params = tuple(params)  # what can be read only once is read several times
        for number, value in enumerate(params, start=1):
            check_parameter(value, number)
        if not _NUMBERED.search(sql):
            return params
        numbered = _Numbered(params)
        probe = sql if _explains(sql) else f"EXPLAIN -- {len(params)} parameters\n{sql}"
        try:
            self._database.conn.execute(probe, numbered)
        except sqlite3.ProgrammingError:
            if not numbered.asked:
                return params
            raise
        if numbered.asked != len(params):
            raise sqlite3.ProgrammingError(
                f"{len(params)} parameters were given, the statement names {numbered.asked}"
            )
        return dict(numbered)


class _Numbered(dict[str, Any]):
    """Parameters by their number, which remember the largest number that was asked for."""

    def __init__(self, params: Sequence[Any]) -> None:
        super().__init__({str(number): value for number, value in enumerate(params, start=1)})
        self.asked = 0

    def __getitem__(self, name: str) -> Any:
        self.asked = max(self.asked, int(name) if name.isdecimal() else 0)
        return super().__getitem__(name)


def _explains(sql: str) -> bool:
    # EXPLAIN only compiles what follows it, and cannot itself be explained.
    return sql.lstrip()[:7].upper() == "EXPLAIN"


def _told_apart(names: Iterable[str]) -> list[str]:
    from sqlite_utils.utils import dedupe_keys

    return list(dedupe_keys(names))
