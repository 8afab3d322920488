"""What other connections wrote since last looked, as far as something in the file tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from reactive_sqlite.catalog import Catalog
from reactive_sqlite.changelog import ChangeLog
from reactive_sqlite.dialect import locked_elsewhere, sqlite3
from reactive_sqlite.entry import DELETED, INSERTED, UPDATED, Entry, TableCapture
from reactive_sqlite.region import TableName
from reactive_sqlite.tracking import LOG, Generation, same_shape

MOST = 1_000
"""Beyond so many entries since the last look, running every query again is cheaper."""

_LOG = ("main", LOG)


@dataclass(slots=True)
class Written:
    """What was written to some tables; of any other table nothing is known."""

    tables: set[TableName] = field(default_factory=set[TableName])
    """The tables of which all is told."""
    entries: list[Entry] = field(default_factory=list[Entry])
    """Their rows, as if captured here. May hold some of this connection's own commits."""
    captures: dict[int, TableCapture] = field(default_factory=dict[int, TableCapture])
    """What the entries are made of, by table number."""
    whole: set[TableName] = field(default_factory=set[TableName])
    """Those of the tables in which rows may have gone that no entry names."""
    foreign: list[Entry] | None = None
    """The entries that are of other connections alone, where these can be told apart."""


class Witness(Protocol):
    """Something in the file that tells what was written; used with the connection's lock held."""

    def written(self) -> Written | None:
        """Return what was written since the last call; None when that cannot be told.

        Called inside a read transaction, after a commit of another connection.
        """
        ...


class LogReader:
    """Reads the change log from where it was read last, on behalf of observed queries."""

    def __init__(self, log: ChangeLog, catalog: Callable[[], Catalog]) -> None:
        self._log = log
        self._catalog = catalog
        self._known: _Known | None = None
        self._seen = log.newest() if log.exists else 0
        self._settled = 0  # so many commits of our own are known to be in the log
        self._own: set[int] = set()
        # Entries after this one are of others unless in `_own`; None: nobody tells them apart.
        self._told_from: int | None = None
        self._telling = False

    def newest_of_own(self, commits: int) -> int | None:
        """Return the newest entry, if one of the `commits` of this connection so far may have
        written it since last settled; to be asked before it is known that nobody else committed."""
        return self._newest() if self._settled != commits else None

    def settle(self, newest: int | None, commits: int) -> None:
        """Nobody else had committed when `newest` was asked for: look no more at what is older."""
        if newest is not None:
            self._seen = max(self._seen, newest)
            self._own = {seq for seq in self._own if seq > newest}
            self._settled = commits

    def tell_apart(self) -> None:
        """From now on, each entry of this connection is given to `wrote`."""
        self._telling = True
        # In a transaction the newest entry may yet be rolled back.
        self._told_from = None if self._log.in_transaction else self._newest()
        self._own.clear()

    def wrote(self, seq: int) -> None:
        """An entry of this connection was committed."""
        self._own.add(seq)
        if len(self._own) > MOST:
            self.lost_count()

    def lost_count(self) -> None:
        """Entries of this connection were committed that nobody named."""
        self._told_from = None
        self._own.clear()

    def written(self) -> Written | None:
        catalog = self._catalog()
        if _LOG not in catalog.tables:
            return None
        seen, self._seen = self._seen, self._log.newest()
        own, self._own = self._own, set()
        told_from = self._told_from
        if self._telling:
            self._told_from = self._seen
        if not 0 <= self._seen - seen <= MOST:
            return None
        try:
            rows = self._log.entries(seen, self._seen)
        except sqlite3.OperationalError as error:
            if locked_elsewhere(error):
                raise
            return None  # a key that is no UTF-8
        if len(rows) != self._seen - seen:
            return None  # some were trimmed before they were read
        known = self._known
        if known is None or known.catalog is not catalog:
            known = self._known = _Known(self._log, catalog)
        if told_from is None:
            return known.written(rows, None)
        return known.written(rows, own.union(range(seen + 1, told_from + 1)))

    def _newest(self) -> int:
        """Return the number of the newest entry, 0 without a log."""
        return self._log.newest() if _LOG in self._catalog().tables else 0


class _Known:
    """The generations whose triggers are there and name the tables' columns as they are now."""

    def __init__(self, log: ChangeLog, catalog: Catalog) -> None:
        self.catalog = catalog
        self.captures: dict[int, TableCapture] = {}
        self._generations: dict[int, Generation] = {}
        self._names: dict[int, TableName] = {}
        installed = log.installed()
        for id, generation in log.generations().items():
            self._names[id] = ("main", generation.name)
            found = installed.get(id)
            table = catalog.tables.get(("main", found.table)) if found is not None else None
            if found is None or table is None or len(found.texts) != 3:
                continue
            if same_shape(generation, table):
                self.captures[id] = generation.capture(table)
                self._generations[id] = generation
        self.tables = frozenset(capture.id for capture in self.captures.values())

    def written(self, rows: list[tuple[Any, ...]], own: set[int] | None) -> Written | None:
        """Return what the rows of the log tell; `own` are the numbers of this connection's."""
        written = Written(set(self.tables), captures=self.captures)
        foreign: list[Entry] = []
        for row in rows:
            entry = self.entry(row)
            if entry is None:
                if row[1] not in self._names:
                    return None
                written.tables.discard(self._names[row[1]])
                continue
            if not entry[2]:
                continue  # an UPDATE that changed nothing
            written.entries.append(entry)
            if own is not None and row[0] not in own:
                foreign.append(entry)
            if self.evicts(entry):
                written.whole.add(self.captures[entry[0]].id)
        written.foreign = foreign if own is not None else None
        return written

    def entry(self, row: tuple[Any, ...]) -> Entry | None:
        """Return a row of the log as captured rows are; None when it is of another shape."""
        _, id, op, changed, *_ = row
        generation = self._generations.get(id)
        if generation is None:
            return None
        keys, olds = generation.keys(row)
        bits = generation.bits(changed)
        if op != UPDATED:
            return (id, INSERTED if op == INSERTED else DELETED, bits, *keys)
        return (id, UPDATED, bits, *olds, *keys)

    def evicts(self, entry: Entry) -> bool:
        """Whether the write may have removed another row unseen: a program that has not turned
        `recursive_triggers` on removes what stands in the way of a REPLACE without any trigger."""
        capture = self.captures[entry[0]]
        unique = capture.table.unique_columns
        if entry[1] == DELETED or (unique is not None and not unique):
            return False
        changed = capture.columns_of(entry[2])
        return unique is None or changed is None or not changed.isdisjoint(unique)
