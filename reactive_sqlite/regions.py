"""What each query reads, for the schema as it is now; forgotten when the schema moves."""

from __future__ import annotations

from reactive_sqlite.analysis import Analysis, proven_pins
from reactive_sqlite.catalog import Catalog
from reactive_sqlite.connection import Connection
from reactive_sqlite.dialect import sqlite3
from reactive_sqlite.onerow import OneRow, one_row
from reactive_sqlite.region import Region
from reactive_sqlite.source import Source
from reactive_sqlite.versions import Versions


class Regions:
    """The catalog and the analyses of query texts; used with the connection's lock held."""

    def __init__(self, connection: Connection, versions: Versions) -> None:
        self._connection = connection
        self._versions = versions
        self._analyses: dict[tuple[str, bool], Analysis] = {}
        self._catalog: Catalog | None = None
        self._one_rows: dict[tuple[str, ...], OneRow] = {}

    @property
    def catalog(self) -> Catalog:
        """The tables as they are now."""
        if self._catalog is None:
            self._catalog = Catalog(self._connection.raw)
        return self._catalog

    def moved(self) -> bool:
        """Whether the schema is another one since last asked; forgets what was derived from it."""
        if not self._versions.schema_moved():
            return False
        self.forget()
        return True

    def forget(self) -> None:
        """Ask the compiler again from now on."""
        self._catalog = None
        self._analyses.clear()
        self._one_rows.clear()

    def known(self, source: Source) -> Analysis | None:
        """Return what is known of the query's text, without asking."""
        return self._analyses.get((source.sql, source.given_pins is None))

    def analyse(self, source: Source) -> Analysis:
        """Return what the compiler says of the query's text.

        Raises:
            ValueError: the statement is not a mere query.
            sqlite3.Error: it does not compile.
        """
        known = self.known(source)
        if known is None:
            free = source.given_pins is None
            known = Analysis(
                self._connection, self.catalog, source.sql, source.parameters, free=free
            )
            self._analyses[source.sql, free] = known
        return known

    def region(self, source: Source) -> Region:
        """Return what the query reads, with the keys that it is pinned to. Raises as `analyse`."""
        try:
            analysis = self.analyse(source)
        except sqlite3.Error as error:
            if source.missing_is_empty and no_table(error):
                return Region()
            raise
        if source.given_pins is None:
            return analysis.region(self.catalog, source.parameters)
        if analysis.everything or len(analysis.tables) != 1:
            return Region(analysis.tables, everything=analysis.everything)
        table = self.catalog.tables[next(iter(analysis.tables))]
        pins = proven_pins(table, source.given_pins) if table.kind == "table" else ()
        return Region(analysis.tables, pins)

    def one_row(self, source: Source, region: Region) -> OneRow | None:
        """Return how a captured row answers the query; None when it has to be fetched."""
        if source.selected is None or source.given_pins is None:
            return None
        made = one_row(self.catalog, region, source.selected, len(source.given_pins))
        if made is None:
            return None
        table = next(iter(region.tables))
        return self._one_rows.setdefault((*table, *made.columns), made)

    def key_columns(self, region: Region | None) -> set[str]:
        """Return the primary key of the one table that a region is of, else nothing."""
        if region is None or region.everything or len(region.tables) != 1:
            return set()
        table = self.catalog.tables.get(next(iter(region.tables)))
        return set(table.primary_key) if table is not None else set()


def no_table(error: BaseException) -> bool:
    """Whether SQLite's error says that a table does not exist."""
    return str(error).startswith("no such table")
