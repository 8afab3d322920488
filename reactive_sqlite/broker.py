"""From the end of a transaction to new values for each query that it can have changed."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from sys import intern
from typing import Any
from weakref import WeakValueDictionary

from reactive_sqlite.capture import Capture
from reactive_sqlite.catalog import Catalog
from reactive_sqlite.changelog import ChangeLog
from reactive_sqlite.connection import Connection
from reactive_sqlite.delivery import Deliveries, Home
from reactive_sqlite.dialect import interrupted, locked_elsewhere, may_pass, noted, sqlite3
from reactive_sqlite.entry import Entry
from reactive_sqlite.equality import same_rows
from reactive_sqlite.errors import DatabaseClosed, NotReady
from reactive_sqlite.followed import Followed
from reactive_sqlite.forks import ELSEWHERE, is_of_this_process
from reactive_sqlite.interest import NOBODY, Sources
from reactive_sqlite.listeners import REDEFINED, Listener, Listeners
from reactive_sqlite.publication import Publication, View
from reactive_sqlite.region import Region
from reactive_sqlite.regions import Regions, no_table
from reactive_sqlite.signals.external import publish
from reactive_sqlite.source import Fetched, Parameters, Source, source_key
from reactive_sqlite.statement import Statement
from reactive_sqlite.subscription import Report
from reactive_sqlite.trail import Trail, TrailReader
from reactive_sqlite.versions import Versions
from reactive_sqlite.witness import LogReader, Witness
from reactive_sqlite.worker import causing_run


class Broker:
    """Keeps every followed query at the last committed value.

    Its work is done under the connection's lock; observers are told by `deliveries`, without it.
    """

    def __init__(self, connection: Connection, report: Report, home: Home | None = None) -> None:
        self.connection = connection
        self.deliveries = Deliveries(report, home)
        self.report = report
        self.fetches = 0  # queries run since the database was opened
        self.capture = Capture(
            connection,
            on_commit=self._committed,
            on_commit_alone=self._committed_alone,
            on_rollback=self._begin_later,
            on_deliver=self.deliveries.run,
            find=lambda id: self.regions.catalog.tables.get(id),
            moved=self._schema_moved,
            elsewhere=self._elsewhere,
            look=self.look if connection.memory else None,
        )
        self.log = ChangeLog(connection)
        self._sources: WeakValueDictionary[Any, Source] = WeakValueDictionary()
        self._versions = Versions(connection)
        self.regions = Regions(connection, self._versions)
        self.followed = Followed(connection, self.regions, self.capture.triggers, self.emit)
        self.live = self.followed.live
        self._reader = LogReader(self.log, lambda: self.regions.catalog)
        self.listeners = Listeners(
            self.capture, self.deliveries, lambda: self.regions.catalog, self._reader
        )
        self._witnesses: list[Witness] = [self._reader]
        self._later: dict[View, None] = {}  # their first value waits for the end of the transaction
        self._underived = False  # the schema moved, and its regions are still to be asked for
        self._unmended = False  # and tracked tables with it: some are not logged until that is done
        self._commits = 0
        self._spare: Publication | None = None  # an empty one, to be used again
        connection.ledger = self.capture
        is_of_this_process(self)

    # -- queries ---------------------------------------------------------------------------------

    def source(
        self,
        sql: str,
        parameters: Parameters,
        *,
        pins: tuple[tuple[str, Any], ...] | None = None,
        selected: tuple[str, ...] | None = None,
        missing_is_empty: bool = False,
    ) -> Source:
        """Return the one source of equal queries; nothing is run yet."""
        sql = intern(sql)  # one text for the queries of thousands of keys
        key = source_key(sql, parameters, missing_is_empty)
        found = self._sources.get(key) if key is not None else None
        if found is None:
            found = Source(
                sql, parameters, pins, selected=selected, missing_is_empty=missing_is_empty
            )
            if key is not None:
                self._sources[key] = found
        return found

    def check_query(self, source: Source) -> None:
        """Refuse what can never be observed: a statement that is no query, or no SQL at all.

        A table or column that does not exist may come to exist, and is not refused here.
        """
        with self.locked():
            self._notice_schema()
            try:
                self.regions.analyse(source)
            except sqlite3.OperationalError as error:
                if not str(error).startswith("no such ") and not locked_elsewhere(error):
                    raise

    def region(self, source: Source) -> Region:
        """Return the region that the query reads, as the schema is now."""
        with self.locked():
            self._notice_schema()
            return self.regions.region(source)

    def read(self, source: Source) -> Fetched:
        """Return the rows of a query that nobody follows: fetched now, or inside this thread's
        transaction what is known to be the last committed."""
        with self.locked():
            if source.live and source.fetched is not None:
                return source.fetched
            if self.connection.owned_here():
                if source.fetched is None or source.seen != self._now():
                    raise NotReady("the query has no committed value yet inside this transaction")
                return source.fetched
            self._notice_schema()
            fetched = self._fetch(source)
            source.fetched = fetched if fetched.error is None else None
            source.seen = self._now()
            return fetched

    def key_columns(self, source: Source) -> set[str]:
        """Return the primary key of the one table that a followed query reads, else nothing."""
        return self.regions.key_columns(source.region)

    def follow(self, source: Source, view: View) -> bool:
        """Keep the query current from now on; False when the open transaction of this thread must
        end first (the view is then told to `begin`). The lock is held."""
        if self.connection.owned_here():
            self.follow_later(view)
            return False
        self.followed.sweep()
        if not source.live:
            self._go_live(source)
        return True

    def follow_later(self, view: View) -> None:
        """Tell the view to `begin` when the open transaction of this thread has ended."""
        self._later[view] = None
        self.capture.due = True

    def release(self, source: Source) -> None:
        """Perhaps nobody looks at the query any more; this never waits for the lock."""
        self.followed.released.append(source)
        # A collector may call this in the middle of our own work, which goes through the very
        # dicts that a sweep changes: its end sweeps.
        turn = self.connection.turn
        if not turn.is_held_here() and turn.try_acquire():
            try:
                if not self.connection.closed:
                    self.followed.sweep()
            finally:
                self.connection.turn.release()

    def listen(self, listener: Listener) -> None:
        """Tell the listener of every commit from now on."""
        with self.locked():
            self._notice_schema()
            if not self.listeners.members:
                self._reader.tell_apart()
            self.listeners.add(listener)
            if not self.connection.read_only:
                self.listeners.watch()
                self.capture.due = True  # triggers that must wait for the transaction's end

    def look(self) -> None:
        """Look whether `backup` has replaced a database without a file; before a statement."""
        if self._versions.schema_pending:
            self.capture.schema = True

    def mend_later(self) -> None:
        """Have tables that others have altered tracked anew before anything is written."""
        self._unmended = self.capture.due = True

    def follow_trail(self, trail: Trail) -> None:
        """Trust the trail from now on for what other connections write to its table."""
        with self.locked():
            reader = TrailReader(trail, self.connection.raw, lambda: self.regions.catalog)
            self._witnesses.append(reader)

    def catalog(self) -> Catalog:
        """Return the tables as they are now, also inside this thread's transaction."""
        with self.locked():
            self._notice_schema()
            return self.regions.catalog

    # -- commits ---------------------------------------------------------------------------------

    def check(self) -> bool:
        """Look for commits made elsewhere; True when there was one. Called by the watcher."""
        connection = self.connection
        # Never waiting: a statement under way is over at the watcher's next look, and the end of
        # an open transaction looks itself.
        if not connection.turn.try_acquire():
            self.capture.due = self.capture.due or connection.busy
            return False
        try:
            if connection.closed or connection.busy:
                return False
            if not (self.live or self.listeners):
                return False
            if self._underived or self._versions.schema_pending:
                self._schema_moved()
                self._derive_again()
                self._renew(dict(self.live))
            else:
                newest = self._reader.newest_of_own(self._commits)
                if not (self.followed.overdue or self._versions.data_pending):
                    self._reader.settle(newest, self._commits)
                    return False
                self._renew({})
        except sqlite3.OperationalError as error:
            if not locked_elsewhere(error):
                raise
            return False  # somebody has locked the file: the watcher comes again
        finally:
            connection.turn.release()
        self.deliveries.run()
        return True

    def refresh(self, tables: Iterable[str] = ()) -> None:
        """Run every followed query again, or those that read one of the tables."""
        names = {name.lower() for name in tables}
        with self.locked():
            hit = {source: None for source in self.live if not names or _reads(source, names)}
            if self.connection.owned_here():
                self.followed.overdue.update(hit)
                self.capture.due = True
                return
            self.followed.sweep()
            self._renew(hit)
        self.deliveries.run()

    def shut(self, error: Exception | None) -> None:
        """Complete everything that is observed, or end it with the error, and close the file."""
        with self.connection.exclusive():
            if self.connection.closed:
                return
            self.connection.ended_by = error
            reason = self.connection.closed_error()
            views = dict.fromkeys(view for source in self.live for view in source.audience())
            views.update(self._later)
            publication = Publication()
            for view in views:
                view.end(error, reason, publication)
            self.listeners.end(error)
            self.live.clear()
            self._later.clear()
            self.connection.close()
            self.emit(publication)
        self.deliveries.run()
        self.deliveries.close()

    def abandon(self) -> None:
        """Show no values in this process, which was forked from the one that follows the file."""
        reason = DatabaseClosed(ELSEWHERE)
        for source in tuple(self.live):
            for view in source.audience():
                view.lapse(reason)

    def _committed(self) -> None:
        capture, followed = self.capture, self.followed
        self._commits += 1
        if followed.released:
            followed.sweep()
        idle = not (self.live or self._later or self.listeners)
        if idle and not (capture.schema or capture.due or self._underived):
            if capture.entries:
                capture.drop_unwatched(())
            capture.clear()
            return
        schema = capture.schema or self._underived or self._unmended
        due, changes = capture.due, self.listeners.committed()
        redefined = capture.redefined
        if redefined and self.listeners:
            changes = REDEFINED
        hit: Sources = {}
        if schema:
            hit.update(self.live)
        elif capture.entries or capture.dirty:
            hit = followed.interests.touched(capture.entries, capture.dirty, capture.numbers)
            if not self.listeners:
                capture.drop_unwatched(followed.interests.tables)
        if capture.wrote_any:
            hit.update(followed.interests.everything)
        capture.clear()
        if changes is not None:
            self.listeners.tell(changes)
        try:
            if schema:
                self._underived = True
                self._unmended |= redefined
                if self._unmended:
                    self.log.mend()
                    self._unmended = False
                self._versions.schema_moved()
                self._derive_again()
            if due:
                capture.triggers.settle()
            if hit or due or followed.overdue:
                self._renew(hit)
        except (sqlite3.Error, MemoryError) as error:
            # Another process has locked the file since, or the disk fails. The commit stands, so
            # that its writer must not be told anything else; the watcher comes again.
            followed.overdue.update(hit)
            capture.due = self._unmended  # else what is written next would not be logged
            if not locked_elsewhere(error):
                self.report(error)
        if self._later:
            self._begin_later()

    def _committed_alone(self, statement: Statement) -> None:
        """One statement was committed. Where it touched one row, the captured values may be all
        that is needed; anything out of the ordinary goes the general way."""
        capture = self.capture
        entries, triggers, followed = capture.entries, capture.triggers, self.followed
        if (
            len(entries) <= 1
            and not (capture.dirty or capture.schema or capture.due)
            and triggers.evictions_seen
            and not triggers.unseen
            and not (followed.released or followed.interests.everything)
            and not (self.listeners.members or self.listeners.tails)
            and not (self._later or followed.overdue or self._underived)
        ):
            if not entries:
                capture.clear()
            if not entries or self._row_committed(entries[0]):
                self._commits += 1
                return
        capture.wrote(statement)
        self._committed()

    def _elsewhere(self) -> bool:
        # One query alone cannot show half of another connection's commit, and a change of schema
        # would have shown itself as the statement was compiled anew.
        return len(self.live) > 1 and self._versions.data_pending

    def _row_committed(self, entry: Entry) -> bool:
        """Publish what follows from the one row that was written; False when that takes more than
        what was captured of it."""
        capture = self.capture
        table = capture.numbers[entry[0]]
        source = self.followed.interests.row_hit(entry, table)
        if source is NOBODY:
            capture.entries.clear()
            return True
        if source is None:
            return False
        before = source.fetched
        if (
            source.one_row is None
            or source.tracked is not None
            or before is None
            or not before.columns
            or capture.elsewhere
            or not self.connection.plain_text
        ):
            return False
        rows = source.one_row.rows(entry, table)
        if rows is None:
            return False
        # All there is to clear, and first: what decodes the value may itself ask the database.
        capture.entries.clear()
        if rows != before.rows or not same_rows(before.rows, rows):
            source.fetched = Fetched(rows, before.columns)
            publication, self._spare = self._spare or Publication(), None
            for view in source.audience():
                view.renew(publication)
            if publication.nodes or publication.bundles:
                self.emit(publication)
            else:
                self.deliveries.extend(publication.parcels)
                publication.parcels.clear()
                self._spare = publication
        return True

    def _begin_later(self) -> None:
        self.capture.triggers.settle()
        self.listeners.wake()
        later, self._later = self._later, {}
        for view in later:
            try:
                view.begin()
            except Exception as error:
                view.fail(error)

    def _renew(self, hit: Sources) -> None:
        """Run the queries again, with all others if another connection has committed since, and
        publish what differs: everything from one and the same commit."""
        followed = self.followed
        if followed.overdue:
            hit = {**followed.overdue, **hit}
            followed.overdue = {}
        for source in list(hit):
            if source.tracked:  # by a memo, perhaps, that nobody looks at
                followed.retire({source: None})
        # Hoping that nobody else has committed, which the counter tells afterwards.
        fetched = [(source, self._fetch(source)) for source in hit if source.live]
        try:
            if self._versions.data_pending:
                fetched = self._snapshot(hit)
        except sqlite3.OperationalError as error:
            followed.overdue.update(hit)
            if not locked_elsewhere(error):
                raise
            return  # locked by another process: the watcher comes again
        self._publish(fetched)

    def _snapshot(self, hit: Sources) -> list[tuple[Source, Fetched]]:
        """Another connection has committed: fetch everything in one read transaction."""
        raw = self.connection.raw
        while True:
            raw("BEGIN")
            try:
                elsewhere = self._versions.data_moved()
                moved = self._schema_moved()
                if elsewhere:
                    touched = self._touched_elsewhere(moved=moved)
                    hit.update(touched)
                    self.followed.retire(hit)
                if not moved:
                    return [(source, self._fetch(source)) for source in hit if source.live]
            finally:
                raw("COMMIT")
            self._derive_again()

    def _touched_elsewhere(self, *, moved: bool) -> Sources:
        """Return the queries that other connections' commits can have changed, and tell the
        listeners of these."""
        told = {witness: witness.written() for witness in self._witnesses}
        self.listeners.tell_elsewhere(None if moved else told[self._reader])
        if moved:
            return dict(self.live)
        interests = self.followed.interests
        hit: Sources = dict(interests.everything)
        # Nobody else can write to a temporary table.
        unknown = {table for table in interests.tables if table[0] != "temp"}
        for written in told.values():
            if written is not None:
                unknown -= written.tables
                hit.update(interests.touched(written.entries, written.whole, written.captures))
        hit.update(interests.touched((), unknown, {}))
        return hit

    def _publish(self, fetched: Sequence[tuple[Source, Fetched]]) -> None:
        publication = Publication()
        for source, now in fetched:
            before = source.fetched
            if now.error is not None:
                if locked_elsewhere(now.error):
                    self.followed.overdue[source] = None
                    continue
                if may_pass(now.error):
                    self.followed.overdue[source] = None
                    if before is not None and str(before.error) == str(now.error):
                        continue  # told already
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
        """Publish the nodes as one change and queue the subscribers; the lock is held."""
        if publication.nodes:
            cause = causing_run()
            publish(publication.nodes, self.report, cause)
            self.deliveries.signal(cause)
        if publication.bundles:
            for bundle in publication.bundles:
                bundle.collect(publication)
        if publication.parcels:
            self.deliveries.extend(publication.parcels)

    def _fetch(self, source: Source) -> Fetched:
        self.fetches += 1
        analysis = self.regions.known(source)
        known = analysis.columns if analysis is not None else None
        try:
            try:
                rows, columns = self.connection.fetch(source.sql, source.parameters, known)
            except sqlite3.OperationalError as error:
                if not interrupted(error):
                    raise
                # By somebody who meant another statement: he cannot know of this one.
                rows, columns = self.connection.fetch(source.sql, source.parameters, known)
        except (sqlite3.Error, MemoryError) as error:  # this is what sqlite3 makes of SQLITE_NOMEM
            if source.missing_is_empty and no_table(error):
                return Fetched([], ())
            return Fetched([], (), noted(error, source.sql))
        if analysis is not None:
            analysis.columns = columns
        return Fetched(rows, columns)

    # -- what is followed ------------------------------------------------------------------------

    def _go_live(self, source: Source) -> None:
        if self.capture.schema:
            self._schema_moved()
        while True:
            self.followed.place(source)
            newest = self._reader.newest_of_own(self._commits)
            fetched = self._fetch(source)
            if not self._versions.data_pending:
                self._reader.settle(newest, self._commits)
                break
            self._renew({})  # all that is followed shows one commit, the new one included
        if fetched.error is not None:
            source.region = None
            raise fetched.error
        source.fetched = fetched
        self.followed.add(source)

    def _derive_again(self) -> None:
        """After a schema change: ask the compiler again about every followed query."""
        self._underived = True
        self.regions.forget()
        self.capture.triggers.reinstall()
        self.followed.place_again()
        if not self.connection.read_only:
            self.listeners.watch()
        self._underived = False

    def _now(self) -> tuple[Any, ...]:
        return self._commits, self._versions.read("data_version")

    def _notice_schema(self) -> None:
        # The schema only moves by a commit of another connection, or by a noted one of our own.
        if self.capture.schema or self._versions.data_pending or self._versions.schema_pending:
            self._schema_moved()

    def _schema_moved(self) -> bool:
        if self.capture.schema:
            self._versions.schema_moved()
            self.regions.forget()
            return True
        return self.regions.moved()

    @contextmanager
    def locked(self) -> Generator[None, None, None]:
        """Hold the connection's lock for a `with` block, on an open database."""
        with self.connection.exclusive():
            if self.connection.closed:
                raise self.connection.closed_error()
            yield
            self.followed.sweep()


def _reads(source: Source, names: set[str]) -> bool:
    region = source.region
    if region is None or region.everything:
        return True
    return any(name in names or f"{schema}.{name}" in names for schema, name in region.tables)
