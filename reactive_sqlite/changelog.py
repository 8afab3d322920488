"""The durable log of changes, and which tables it is kept for; all of it lives in the file.

The triggers of a tracked table (`tracking`) write one row for each row that any program inserts,
updates or deletes. SQLite has one writer at a time, so the order of the log is that of commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from reactive_sqlite.catalog import Catalog, Table
from reactive_sqlite.connection import Connection
from reactive_sqlite.dialect import quote, sqlite3
from reactive_sqlite.errors import Untrackable
from reactive_sqlite.shared import is_in_transaction
from reactive_sqlite.tracking import (
    CONSUMERS,
    FIRST_KEY,
    LOG,
    PREFIX,
    TRACKED,
    Generation,
    as_json,
    generation,
    names_from_json,
    refusal,
    shape_of,
    trigger_names,
    triggers,
)

# So many of the newest entries are kept although no consumer needs them: what other processes that
# observe have not read yet. The rest goes in portions.
KEPT = 10_000
PORTION = 1_000

NEEDED = f"""EXISTS (
    SELECT 1 FROM {CONSUMERS} AS c JOIN {TRACKED} AS t ON t.id = {LOG}.tbl
    WHERE c.cursor < {LOG}.seq AND (c.tables IS NULL OR instr(c.tables, t.listed)))"""
"""Whether an entry of the log has still to be read by some consumer."""

# No AUTOINCREMENT: it would write one more page at each commit. That no number is given twice is
# held by never deleting the newest entry.
_SCHEMA = (
    f"CREATE TABLE main.{LOG} (seq INTEGER PRIMARY KEY, tbl, op, changed, at, key1, old1)",
    f"CREATE TABLE main.{TRACKED} (id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " name TEXT NOT NULL, listed TEXT NOT NULL, shape TEXT NOT NULL, current INTEGER NOT NULL,"
    " sound_at INTEGER)",
    f"CREATE TABLE main.{CONSUMERS} (name TEXT PRIMARY KEY, cursor INTEGER NOT NULL, tables TEXT)",
    f"CREATE TRIGGER main.{PREFIX}keep BEFORE DELETE ON {LOG}"
    f" WHEN OLD.seq = (SELECT max(seq) FROM {LOG}) BEGIN SELECT RAISE(IGNORE); END",
    # In the schema, since the writers may all be programs without anything of ours. Each entry is
    # looked at when it leaves the newest, and once more when the last consumer has passed it; then
    # only some go at a time, since it is a user's statement that waits.
    f"CREATE TRIGGER main.{PREFIX}trim AFTER INSERT ON {LOG}"
    f" WHEN NEW.seq % {PORTION} = 0 BEGIN"
    f" DELETE FROM {LOG} WHERE seq < (SELECT min(seq) FROM {LOG}) + {5 * PORTION}"
    f" AND seq <= min(NEW.seq - {KEPT},"
    f" coalesce((SELECT min(cursor) FROM {CONSUMERS}), NEW.seq));"
    f" DELETE FROM {LOG} WHERE seq > NEW.seq - {KEPT + PORTION} AND seq <= NEW.seq - {KEPT}"
    f" AND NOT {NEEDED}; END",
)

Run = Callable[..., Any]


@dataclass(slots=True)
class Installed:
    """The triggers of one generation that are there."""

    table: str  # that they are on now, in lower case
    place: int  # of the first of them in the order of the schema
    texts: set[str] = field(default_factory=set[str])


class ChangeLog:
    """The log of one database file; used with the connection's lock held."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._fetch = connection.raw

    @property
    def exists(self) -> bool:
        """Whether the file has a log."""
        sql = "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = ?"
        return bool(self._fetch(sql, (TRACKED,)))

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, whose entries may yet be undone."""
        return self._connection.busy

    def create(self, run: Run) -> None:
        """Make the log's own tables where there are none yet."""
        if not self.exists:
            for sql in _SCHEMA:
                run(sql)

    def track(self, catalog: Catalog, name: str) -> bool:
        """Log the changes of the table from now on; False when that is so already.

        Inside a transaction of this thread.

        Raises:
            Untrackable: SQLite allows no durable trigger that sees its rows.
            sqlite3.OperationalError: there is no such table.
        """
        table = self.trackable(catalog, name)
        if self.is_tracked(table):
            return False
        run = self._connection.execute
        self.create(run)
        self._track(table, run)
        return True

    def untrack(self, name: str) -> None:
        """Log the changes of the table no more; what is logged stays for its consumers."""
        if not self.exists:
            return
        run = self._connection.execute
        for id, installed in self.installed().items():
            if installed.table == name.lower():
                _drop(id, run)
                run(f"UPDATE {TRACKED} SET current = 0 WHERE id = ?", (id,))
        run(f"UPDATE {TRACKED} SET current = 0 WHERE name = ?", (name.lower(),))

    def tracked(self) -> list[str]:
        """Return the names of the tables whose changes are logged, in lower case, sorted."""
        if not self.exists:
            return []
        kinds = len(trigger_names(0))
        return sorted(
            {found.table for found in self.installed().values() if len(found.texts) == kinds}
        )

    def mend(self) -> None:
        """Track anew the tables that were altered, or dropped and made again, since.

        What a program without anything of ours does to the schema is found here, at the next
        opening; what this one does, before or right after its commit.
        """
        if not self.exists or self._known_sound():
            return
        own = not self._connection.owned_here()
        if own:
            self._fetch("BEGIN IMMEDIATE")
        try:
            if self._unsound():
                self._rename()
                for table in self._unsound():
                    self._track(table, self._fetch)
            self._fetch(f"UPDATE main.{TRACKED} SET sound_at = ?", (self._schema_version(),))
            if own:
                self._fetch("COMMIT")
        except BaseException:
            # Also where readers keep it from being committed: what is written next would be part
            # of a transaction that nobody ends.
            if own and is_in_transaction(self._connection):
                self._fetch("ROLLBACK")
            raise

    def trackable(self, catalog: Catalog, name: str) -> Table:
        """Return the table that is to be tracked. Raises as `track`."""
        table = catalog.find(name)
        if table is None:
            raise sqlite3.OperationalError(f"no such table: {name:.80}")
        reason = refusal(catalog, name)
        if reason is not None:
            raise Untrackable(name, reason)
        return table

    def is_tracked(self, table: Table) -> bool:
        """Whether the table's changes are logged, by triggers that fit it as it is now."""
        if not self.exists:
            return False
        if self._known_sound(table.id[1]):
            return True
        return any(
            installed.table == table.id[1] and self._sound(id, table, installed)
            for id, installed in self.installed().items()
        )

    def generations(self) -> dict[int, Generation]:
        """Return under which shapes tables were and are tracked."""
        rows = self._fetch(f"SELECT id, name, shape, current FROM main.{TRACKED}")
        return {row[0]: generation(row) for row in rows}

    def installed(self) -> dict[int, Installed]:
        """Return the triggers that are there, by the generation that they belong to."""
        found: dict[int, Installed] = {}
        rows = self._fetch(
            "SELECT rowid, name, tbl_name, sql FROM main.sqlite_master"
            " WHERE type = 'trigger' AND name GLOB ? ORDER BY rowid",
            (PREFIX + "[0-9]*_?",),
        )
        for place, name, table, sql in rows:
            id = int(name[len(PREFIX) :].partition("_")[0])
            found.setdefault(id, Installed(table.lower(), place)).texts.add(sql)
        return found

    def newest(self) -> int:
        """Return the number of the newest entry that there ever was, 0 before the first."""
        return self._fetch(f"SELECT max(seq) FROM main.{LOG}")[0][0] or 0

    def entries(self, after: int, until: int) -> list[tuple[Any, ...]]:
        """Return the rows of the log after one number up to another, in order."""
        sql = f"SELECT * FROM main.{LOG} WHERE seq > ? AND seq <= ? ORDER BY seq"
        return self._fetch(sql, (after, until))

    # -- private ---------------------------------------------------------------------------------

    def _schema_version(self) -> int:
        return int(self._fetch("PRAGMA main.schema_version")[0][0])

    def _known_sound(self, name: str | None = None) -> bool:
        """Whether the schema is the one under which the tables, or this one, were found sound."""
        rows = self._fetch(
            f"SELECT sound_at FROM main.{TRACKED} WHERE current AND name = coalesce(?, name)",
            (name,),
        )
        version = self._schema_version()
        return all(sound_at == version for (sound_at,) in rows) and (name is None or bool(rows))

    def _sound(self, id: int, table: Table, installed: Installed) -> bool:
        wanted = {f"CREATE TRIGGER {text}" for text in triggers(table, shape_of(table), id)}
        if installed.texts != wanted:
            return False
        # SQLite runs the newest trigger first. One of the user's that came after ours and writes
        # to the same table would be logged before what caused it.
        newer = self._fetch(
            "SELECT 1 FROM main.sqlite_master WHERE type = 'trigger' AND lower(tbl_name) = ?"
            " AND rowid > ? AND name NOT GLOB ?",
            (table.id[1], installed.place, PREFIX + "*"),
        )
        return not newer

    def _unsound(self) -> list[Table]:
        catalog = Catalog(self._fetch)
        installed = self.installed()
        tables: list[Table] = []
        for id, known in self.generations().items():
            if not known.current:
                continue
            found = installed.get(id)
            table = catalog.tables.get(("main", found.table if found is not None else known.name))
            if table is None or refusal(catalog, table.name) is not None:
                continue  # it may come back
            if found is None or found.table != known.name or not self._sound(id, table, found):
                tables.append(table)
        return tables

    def _rename(self) -> None:
        """Follow tables that were renamed: triggers go with their table."""
        for id, installed in self.installed().items():
            known = self.generations().get(id)
            if known is None or known.name == installed.table:
                continue
            old, new = known.name, installed.table
            self._fetch(
                f"UPDATE {TRACKED} SET name = ?, listed = ? WHERE name = ?",
                (new, as_json(new), old),
            )
            for name, tables in self._fetch(
                f"SELECT name, tables FROM main.{CONSUMERS} WHERE tables IS NOT NULL"
            ):
                renamed = as_json(
                    [new if table == old else table for table in names_from_json(tables)]
                )
                self._fetch(
                    f"UPDATE main.{CONSUMERS} SET tables = ? WHERE name = ?", (renamed, name)
                )

    def _track(self, table: Table, run: Run) -> None:
        name, shape = table.id[1], shape_of(table)
        for id, installed in self.installed().items():
            if installed.table == name:
                _drop(id, run)
        run(f"UPDATE {TRACKED} SET current = 0 WHERE name = ?", (name,))
        run(
            f"DELETE FROM {TRACKED} WHERE NOT current"
            f" AND id NOT IN (SELECT DISTINCT tbl FROM {LOG})"
        )
        run(
            f"INSERT INTO {TRACKED} (name, listed, shape, current) VALUES (?, ?, ?, 1)",
            (name, as_json(name), shape.text()),
        )
        width = (len(self._fetch(f"PRAGMA main.table_info({LOG})")) - FIRST_KEY) // 2
        for at in range(width + 1, len(shape.key) + 1):
            run(f"ALTER TABLE main.{LOG} ADD COLUMN key{at}")
            run(f"ALTER TABLE main.{LOG} ADD COLUMN old{at}")
        id = self._fetch(f"SELECT max(id) FROM {TRACKED}")[0][0]
        for text in triggers(table, shape, id):
            run(f"CREATE TRIGGER main.{text}")


def _drop(id: int, run: Run) -> None:
    for name in trigger_names(id):
        run(f"DROP TRIGGER IF EXISTS main.{quote(name)}")


def placeholders(values: Iterable[Any]) -> str:
    """Return as many question marks as there are values."""
    return ", ".join("?" for _ in values)
