"""Who must be told: from the end of a transaction to new values for every query it can have changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol
from weakref import WeakValueDictionary

from .analysis import Analysis, proven_pins
from .capture import DELETED, INSERTED, UPDATED, Capture, TableCapture
from .catalog import Catalog, Table
from .changes import ChangeSet, Operation, RowChange
from .connection import Connection
from .delivery import Deliveries, Parcel, Report
from .dialect import quote, sqlite3
from .equality import same_rows
from .errors import DatabaseClosed, NotReady
from .interest import Interests, Sources
from .region import Region, TableName
from .signals.external import External, publish
from .source import Fetched, Parameters, Source, source_key

_OPERATIONS: dict[int, Operation] = {INSERTED: "insert", UPDATED: "update", DELETED: "delete"}
_BUSY = frozenset({5, 6})  # SQLITE_BUSY, SQLITE_LOCKED: later, not never


class Publication:
    """What one delivery changes: nodes of the signal graph, and subscribers to be told."""

    def __init__(self) -> None:
        self.nodes: list[tuple[External[Any], Any]] = []
        self.parcels: list[Parcel] = []
        self.bundles: dict[Any, None] = {}


class View(Protocol):
    """How the broker sees an observable query."""

    @property
    def wanted(self) -> bool: ...
    def renew(self, publication: Publication) -> None: ...
    def idle(self, publication: Publication) -> None: ...
    def begin(self) -> None: ...
    def fail(self, error: BaseException) -> None: ...


class ChangeListener(Protocol):
    """Somebody who wants the change sets of some tables (None: of all)."""

    tables: frozenset[str] | None

    def post(self, changes: ChangeSet) -> None: ...
    def drain(self) -> None: ...


class Broker:
    """Keeps every live query at the last committed value; all its work is done under the
    connection's lock, and what is to be told goes to `deliveries`, which run without it."""

    def __init__(self, connection: Connection, report: Report) -> None:
        self.connection = connection
        self.deliveries = Deliveries(report)
        self.report = report
        self.gate = self.deliveries.gate
        self.fetches = 0  # queries run since the database was opened
        self.live: Sources = {}
        self.released: deque[Source] = deque()
        self.listeners: dict[ChangeListener, None] = {}
        self.capture = Capture(
            connection,
            on_commit=self._committed,
            on_rollback=self._rolled_back,
            on_deliver=self.deliveries.run,
            find=lambda id: self.catalog.tables.get(id),
            moved=self._schema_moved,
        )
        self._sources: WeakValueDictionary[Any, Source] = WeakValueDictionary()
        self._interests = Interests()
        self._analyses: dict[tuple[str, bool], Analysis] = {}
        self._catalog: Catalog | None = None
        self._schemas: list[str] = ["main"]
        self._later: list[View] = []  # their first value waits for the end of the transaction
        self._overdue: Sources = {}
        self._commits = 0
        self._schema_versions = self._versions("schema_version")
        self._data_versions = self._versions("data_version")
        connection.ledger = self.capture

    # -- queries -------------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        """The tables as they are now."""
        if self._catalog is None:
            self._catalog = Catalog(self.connection.raw)
        return self._catalog

    def source(
        self,
        sql: str,
        parameters: Parameters,
        *,
        pins: tuple[tuple[str, Any], ...] | None = None,
        missing_is_empty: bool = False,
    ) -> Source:
        """Return the one source of equal queries; nothing is run yet."""
        key = source_key(sql, parameters, missing_is_empty)
        found = self._sources.get(key) if key is not None else None
        if found is None:
            found = Source(sql, parameters, pins, missing_is_empty=missing_is_empty)
            if key is not None:
                self._sources[key] = found
        return found

    def check_query(self, source: Source) -> None:
        """Refuse what can never be observed: a statement that is no query, or no SQL at all.

        A table or column that does not exist may come to exist, and is not refused here.
        """
        with self.locked():
            self._schema_moved()
            try:
                self._analyse(source)
            except sqlite3.OperationalError as error:
                if not str(error).startswith("no such ") and not _busy(error):
                    raise noted(error, source.sql) from None
            except sqlite3.Error as error:
                raise noted(error, source.sql) from None

    def region(self, source: Source) -> Region:
        """The region that the query reads, as the schema is now."""
        with self.locked():
            self._schema_moved()
            return self._region(source)

    def read(self, source: Source) -> Fetched:
        """The value of a query that nobody observes: fetched, or the last committed one inside
        this thread's transaction."""
        with self.locked():
            if self.connection.owned_here():
                if source.fetched is None or (not source.live and source.seen != self._now()):
                    raise NotReady("the query has no committed value to show inside this transaction")
                return source.fetched
            if source.live and source.fetched is not None:
                return source.fetched
            fetched = self._fetch(source)
            source.fetched = fetched if fetched.error is None else None
            source.seen = self._now()
            return fetched

    def activate(self, source: Source, view: View) -> bool:
        """Follow the query from now on, with its value fetched; False when the open transaction
        of this thread must end first (the view then begins at its end)."""
        if self.connection.owned_here():
            self._later.append(view)
            self.capture.due = True
            return False
        self._sweep()
        if not source.live:
            self._go_live(source)
        return True

    def release(self, source: Source) -> None:
        """Perhaps nobody looks at it any more; never waits for the lock."""
        self.released.append(source)
        if self.connection.lock.acquire(blocking=False):
            try:
                if not self.connection.closed:
                    self._sweep()
            finally:
                self.connection.lock.release()

    def listen(self, listener: ChangeListener) -> None:
        """Tell the listener of every commit from now on."""
        with self.locked():
            self.listeners[listener] = None
            self._watch_changes()

    # -- commits -------------------------------------------------------------------------------

    def check(self) -> bool:
        """Look for commits made elsewhere; True when there was one. For the watcher."""
        connection = self.connection
        if not connection.lock.acquire(timeout=0.05):
            self.capture.due = True  # the open transaction's end looks instead
            return False
        try:
            if connection.closed or connection.in_transaction or not (self.live or self.listeners):
                return False
            if not self._overdue and self._versions("data_version") == self._data_versions:
                return False
            self._renew({})
        finally:
            connection.lock.release()
        self.deliveries.run()
        return True

    def refresh(self, tables: Iterable[str] = ()) -> None:
        """Run every live query again, or those that read one of the tables."""
        names = {name.lower() for name in tables}
        with self.locked():
            if self.connection.owned_here():
                self.capture.dirty |= {id for id in self.capture.tables if not names or id[1] in names}
                self.capture.due = True
                return
            self._sweep()
            self._renew({s: None for s in self.live if not names or _reads_any(s, names)})
        self.deliveries.run()

    def close(self) -> list[View]:
        """Forget every query and return who was still looking; the lock is held."""
        views = [view for source in self.live for view in source.audience()]
        views.extend(view for view in self._later if view not in views)
        self.live.clear()
        self._later.clear()
        return views

    def _committed(self) -> None:
        capture = self.capture
        self._commits += 1
        if self.released:
            self._sweep()
        hit: Sources = {}
        changes: ChangeSet | None = None
        schema = capture.schema
        if self.listeners and (capture.entries or capture.dirty):
            changes = self._change_set()
        if schema:
            hit.update(self.live)
        elif capture.entries or capture.dirty:
            hit = self._interests.touched(capture.entries, capture.dirty, capture.numbers)
            self._drop_unwatched()
        if capture.wrote_any and self._interests.everything:
            hit.update(self._interests.everything)
        due = capture.due
        capture.clear()
        if changes is not None:
            self._tell_listeners(changes)
        if schema:
            self._schema_moved()
            self._rederive()
        if hit or due or self._overdue:
            self._renew(hit, external=due)
        if self._later:
            self._begin_later()

    def _rolled_back(self) -> None:
        if self._later:
            self._begin_later()

    def _begin_later(self) -> None:
        self.capture.settle()
        later, self._later = self._later, []
        for view in later:
            try:
                view.begin()
            except (sqlite3.Error, ValueError) as error:
                view.fail(error)

    def _renew(self, hit: Sources, *, external: bool = True) -> None:
        """Run the queries again in one read transaction, with all others if another connection
        has committed since, and publish what differs."""
        connection = self.connection
        overdue, self._overdue = self._overdue, {}
        hit = {**overdue, **hit}
        self._retire(hit)
        if not (hit or external):
            return
        fetched: list[tuple[Source, Fetched]] = []
        while True:
            connection.raw("BEGIN")
            try:
                elsewhere = self._data_moved()
                if elsewhere and self._schema_moved():
                    connection.raw("COMMIT")
                    self._rederive()
                    hit = dict(self.live)
                    elsewhere = False
                    self._tell_listeners(ChangeSet(None, None, external=True))
                    continue
                if elsewhere:
                    hit = dict(self.live)
                    self._retire(hit)
                fetched = [(source, self._fetch(source)) for source in hit if source.live]
            except sqlite3.OperationalError as error:
                if not _busy(error):
                    raise
                self._overdue.update(hit)  # locked by another process: the watcher comes again
                return
            finally:
                if connection.in_transaction:
                    connection.raw("COMMIT")
            break
        if elsewhere:
            self._tell_listeners(ChangeSet(None, None, external=True))
        self._publish(fetched)

    def _publish(self, fetched: Sequence[tuple[Source, Fetched]]) -> None:
        publication = Publication()
        for source, now in fetched:
            before = source.fetched
            if now.error is not None:
                if _busy(now.error):
                    self._overdue[source] = None
                    continue
                self.report(now.error)
            elif (
                before is not None
                and before.error is None
                and before.columns == now.columns
                and same_rows(before.rows, now.rows)
            ):
                continue
            source.fetched = now
            for view in source.audience():
                view.renew(publication)
        self.emit(publication)

    def emit(self, publication: Publication) -> None:
        """Publish nodes at once and queue subscribers; the lock is held."""
        if publication.nodes:
            publish(publication.nodes, self.report)
            self.deliveries.signals_due = True
        for bundle in publication.bundles:
            bundle.collect(publication)
        for parcel in publication.parcels:
            self.deliveries.add(parcel)

    def _fetch(self, source: Source) -> Fetched:
        self.fetches += 1
        try:
            rows, columns = self.connection.raw_described(source.sql, source.parameters)
        except sqlite3.Error as error:
            if source.missing_is_empty and str(error).startswith("no such table"):
                return Fetched([], ())
            return Fetched([], (), noted(error, source.sql))
        return Fetched(rows, columns)

    # -- liveness ------------------------------------------------------------------------------

    def _go_live(self, source: Source) -> None:
        self._schema_moved()
        source.region = self._region(source)
        self._watch(source.region)
        self._interests.add(source, source.region)
        self.live[source] = None
        source.live = True
        try:
            self.connection.raw("BEGIN")
            try:
                elsewhere = self._versions("data_version") != self._data_versions
                fetched = self._fetch(source)
            finally:
                self.connection.raw("COMMIT")
            if fetched.error is not None:
                raise fetched.error
        except BaseException:
            self._go_idle(source)
            raise
        source.fetched = fetched
        if elsewhere:
            self._renew({})

    def _go_idle(self, source: Source) -> None:
        if source.live:
            source.live = False
            del self.live[source]
            if source.region is not None:
                self._interests.remove(source, source.region)
            source.region = None
            source.fetched = None
            source.seen = None
            self._overdue.pop(source, None)

    def _sweep(self) -> None:
        publication = Publication()
        while self.released:
            self._retire_one(self.released.popleft(), publication)
        self.emit(publication)

    def _retire(self, hit: Sources) -> None:
        """Take out of `hit` what nobody looks at any more."""
        publication = Publication()
        for source in list(hit):
            self._retire_one(source, publication)
            if not source.live:
                del hit[source]
        self.emit(publication)

    def _retire_one(self, source: Source, publication: Publication) -> None:
        if not source.live:
            return
        wanted = False
        for view in source.audience():
            if view.wanted:
                wanted = True
            else:
                view.idle(publication)
        if not wanted:
            self._go_idle(source)

    def _watch(self, region: Region) -> None:
        if self.connection.read_only:
            return  # nothing here can write
        for id, columns in region.tables.items():
            table = self.catalog.tables.get(id)
            if table is not None:
                self.capture.watch(table, columns, (name for name, _ in region.pins))

    def _drop_unwatched(self) -> None:
        # A table keeps its triggers until the first commit that nobody cares about: subscribing
        # and disposing in a loop must not make and drop them each time.
        if self.listeners:
            return
        touched = {entry[0] for entry in self.capture.entries}
        for number in touched:
            table = self.capture.numbers[number].table.id
            if table not in self._interests.tables:
                self.capture.unwatch(table)

    def _rederive(self) -> None:
        """After a schema change: ask the compiler again about every live query."""
        self._analyses.clear()
        self.capture.reinstall()
        for source in list(self.live):
            if source.region is not None:
                self._interests.remove(source, source.region)
            try:
                source.region = self._region(source)
            except (sqlite3.Error, ValueError):
                source.region = Region()  # it does not compile now; the next schema change asks again
            self._watch(source.region)
            self._interests.add(source, source.region)
        self._watch_changes()

    def _region(self, source: Source) -> Region:
        try:
            analysis = self._analyse(source)
        except sqlite3.Error as error:
            if source.missing_is_empty and str(error).startswith("no such table"):
                return Region()
            raise noted(error, source.sql) from None
        if source.given_pins is None:
            return analysis.region(self.catalog, source.parameters)
        if analysis.everything:
            return Region(everything=True)
        if len(analysis.tables) != 1:
            return Region(analysis.tables)
        table = self.catalog.tables[next(iter(analysis.tables))]
        pins = proven_pins(table, source.given_pins) if table.kind == "table" else ()
        return Region(analysis.tables, pins)

    def _analyse(self, source: Source) -> Analysis:
        key = (source.sql, source.given_pins is None)
        known = self._analyses.get(key)
        if known is None:
            known = Analysis(
                self.connection, self.catalog, source.sql, source.parameters, free=source.given_pins is None
            )
            self._analyses[key] = known
        return known

    # -- versions ------------------------------------------------------------------------------

    def _versions(self, pragma: str) -> tuple[int, ...]:
        raw = self.connection.raw
        if self._schemas == ["main"]:
            return (raw(f"PRAGMA main.{pragma}")[0][0],)
        return tuple([raw(f"PRAGMA {quote(schema)}.{pragma}")[0][0] for schema in self._schemas])

    def _now(self) -> tuple[Any, ...]:
        return self._commits, self._versions("data_version")

    def _data_moved(self) -> bool:
        versions = self._versions("data_version")
        moved = versions != self._data_versions
        self._data_versions = versions
        return moved

    def _schema_moved(self) -> bool:
        """Whether the schema is another one since last asked; forgets what was derived from it."""
        schemas = [name for _, name, _ in self.connection.raw("PRAGMA database_list") if name != "temp"]
        if schemas != self._schemas:
            self._schemas = schemas
            self._data_versions = self._versions("data_version")
        versions = self._versions("schema_version")
        if versions == self._schema_versions and not self.capture.schema:
            return False
        self._schema_versions = versions
        self._catalog = None
        self._analyses.clear()
        return True

    # -- change sets ---------------------------------------------------------------------------

    def _watch_changes(self) -> None:
        if self.connection.in_transaction or self.connection.read_only:
            return
        named: set[str] = set()
        for listener in self.listeners:
            if listener.tables is None:
                named.update(_spelled(table.id) for table in self.catalog.tables.values())
            else:
                named |= listener.tables
        for table in list(self.catalog.tables.values()):
            if _spelled(table.id) in named and table.kind in ("table", "virtual"):
                self.capture.watch(table, (), (), every_column=True)

    def _change_set(self) -> ChangeSet:
        capture = self.capture
        tables = {_spelled(id) for id in capture.dirty}
        if capture.dirty:
            tables.update(_spelled(capture.numbers[entry[0]].table.id) for entry in capture.entries)
            return ChangeSet(frozenset(tables), None)
        rows = tuple([_row_change(capture.numbers[entry[0]], entry) for entry in capture.entries])
        return ChangeSet(frozenset(row.table for row in rows), rows)

    def _tell_listeners(self, changes: ChangeSet) -> None:
        for listener in self.listeners:
            if listener.tables is None or changes.touches(listener.tables):
                listener.post(_only(changes, listener.tables))
                self.deliveries.add(listener)

    def locked(self) -> AbstractContextManager[None]:
        """Hold the connection's lock for a `with` block, on an open database."""
        if self.connection.closed:
            raise DatabaseClosed("the database is closed")
        return self.connection.exclusive()


def noted(error: sqlite3.Error, sql: str) -> sqlite3.Error:
    """Add the SQL to SQLite's own error; parameter values stay out of logs."""
    note = f"in the query: {sql}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error


def _busy(error: BaseException) -> bool:
    code = getattr(error, "sqlite_errorcode", 0)
    return bool(code) and code & 0xFF in _BUSY


def _spelled(id: TableName) -> str:
    schema, name = id
    return name if schema == "main" else f"{schema}.{name}"


def _reads_any(source: Source, names: set[str]) -> bool:
    region = source.region
    return region is None or region.everything or any(name in names for _, name in region.tables)


def _row_change(capture: TableCapture, entry: tuple[Any, ...]) -> RowChange:
    count, width = len(capture.key), len(capture.captured)
    first = entry[3 : 3 + count]
    if entry[1] != UPDATED:
        return RowChange(_spelled(capture.table.id), _OPERATIONS[entry[1]], _key(first))
    second = entry[3 + width : 3 + width + count]
    return RowChange(_spelled(capture.table.id), "update", _key(second), _key(first))


def _key(values: tuple[Any, ...]) -> Any:
    return values[0] if len(values) == 1 else values or None


def _only(changes: ChangeSet, tables: frozenset[str] | None) -> ChangeSet:
    if tables is None or changes.tables is None or changes.tables <= tables:
        return changes
    rows = changes.rows
    return ChangeSet(
        changes.tables & tables,
        None if rows is None else tuple([row for row in rows if row.table in tables]),
        external=changes.external,
    )


