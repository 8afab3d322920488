"""The queries that are followed: found by what they read, until nobody looks at them any more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from reactive_sqlite.connection import Connection
from reactive_sqlite.dialect import locked_elsewhere, sqlite3
from reactive_sqlite.interest import Interests, Sources
from reactive_sqlite.publication import Publication
from reactive_sqlite.region import Region
from reactive_sqlite.regions import Regions
from reactive_sqlite.source import Source
from reactive_sqlite.triggers import Triggers


class Followed:
    """All followed queries of a database; used with the connection's lock held.

    What they read stands in `interests`, and the tables they read are captured.
    """

    def __init__(
        self,
        connection: Connection,
        regions: Regions,
        triggers: Triggers,
        emit: Callable[[Publication], None],
    ) -> None:
        self.live: Sources = {}
        self.interests = Interests()
        self.overdue: Sources = {}  # another process's lock or the disk kept them from being run
        # Perhaps nobody looks at these any more; appended to at any time, without the lock.
        self.released: deque[Source] = deque()
        self._connection = connection
        self._regions = regions
        self._triggers = triggers
        self._emit = emit

    def place(self, source: Source) -> None:
        """Find out what a query reads, before it is fetched, and have that captured.

        Raises as `Regions.region`.
        """
        source.region = self._regions.region(source)
        self._watch(source, source.region)

    def add(self, source: Source) -> None:
        """Follow a query that has been placed and fetched."""
        assert source.region is not None
        source.live = True
        self.interests.add(source, source.region)
        self.live[source] = None

    def place_again(self) -> None:
        """After a schema change: ask the compiler again about every query.

        Raises sqlite3.OperationalError where another process has locked the file.
        """
        for source in list(self.live):
            try:
                region = self._regions.region(source)
            except (sqlite3.Error, ValueError) as error:
                if locked_elsewhere(error):
                    raise  # all of this comes again
                region = Region()  # it does not compile now; the next schema may let it
            if source.region is not None:
                self.interests.remove(source, source.region)
            source.region = region
            self._watch(source, region)
            self.interests.add(source, region)

    def sweep(self) -> None:
        """Follow no longer what was released and nobody looks at."""
        if not self.released:
            return
        publication = Publication()
        while self.released:
            self._retire(self.released.popleft(), publication)
        self._emit(publication)

    def retire(self, hit: Sources) -> None:
        """Take out of `hit`, and follow no longer, what nobody looks at any more."""
        publication = Publication()
        for source in list(hit):
            self._retire(source, publication)
            if not source.live:
                del hit[source]
        self._emit(publication)

    def _retire(self, source: Source, publication: Publication) -> None:
        if not source.live:
            return
        wanted = False
        for view in source.audience():
            if view.wanted:
                wanted = True
            else:
                view.idle(publication)
        if not wanted:
            self._drop(source)

    def _drop(self, source: Source) -> None:
        source.live = False
        del self.live[source]
        if source.region is not None:
            self.interests.remove(source, source.region)
        source.region = source.fetched = source.seen = source.one_row = None
        self.overdue.pop(source, None)

    def _watch(self, source: Source, region: Region) -> None:
        if self._connection.read_only:
            return  # nothing here can write
        source.one_row = self._regions.one_row(source, region)
        carried = source.one_row.carried if source.one_row is not None else ()
        for id, columns in region.tables.items():
            table = self._regions.catalog.tables.get(id)
            if table is not None:
                pinned = [name for name, _ in region.pins]
                self._triggers.watch(table, columns, pinned, carried=carried)
