"""Files of memories apart from the workflow database: opened when first needed, and followed."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reactive_sqlite.database import Database, ErrorHandler
from reactive_sqlite.delivery import Home, default_report
from reactive_sqlite.dialect import sqlite3
from reactive_sqlite.errors import DatabaseClosed
from reactive_sqlite.opening import log_kept
from smithers.errors import CannotOpen, SchemaTooNew
from smithers.files import make_file, refusal
from smithers.foreignlog import check_log
from smithers.schema import STORE_VERSION, migrate_store, store_version

# Not that of a workflow database: no search for those finds it.
FILE_NAME = "memories.sqlite"
# Seconds between two looks for a file that somebody else may make.
LOOK = 0.5

Found = Callable[[Database], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """How the files of one handle are opened; see `Database`."""

    read_only: bool = False
    watch: bool = True
    busy_timeout: float = 5.0
    synchronous: str = "NORMAL"
    home: Home | None = None
    on_observer_error: ErrorHandler | None = None

    @property
    def report(self) -> ErrorHandler:
        """Who is told of errors that have no caller."""
        return self.on_observer_error or default_report


class Store:
    """One directory with a file of memories, which may be missing.

    Args:
        directory: where the file is, or would be.
        options: how it is opened.
        prepare: called with the database when it has been opened, before anybody reads it.
    """

    def __init__(self, directory: Path, options: StoreOptions, prepare: Found) -> None:
        self.file = directory / FILE_NAME
        self.options = options
        self._prepare = prepare
        self._lock = threading.RLock()
        self._database: Database | None = None
        self._told: dict[object, Found] = {}
        self._waiting: weakref.WeakSet[object] = weakref.WeakSet()
        self._lookout: threading.Thread | None = None
        self._over = threading.Event()

    def found(self) -> Database | None:
        """Return the database for reading, None while there is none; nothing is made.

        Raises CannotOpen for a file that is something else, or of a newer version.
        """
        return self._opened() or self._open(make=False)

    def made(self) -> Database:
        """Return the database for writing, made when it is missing.

        Raises CannotOpen as `found` does, and where it cannot be made or written to.
        """
        database = self._opened()
        if database is None:
            make_file(self.file)
            database = self._open(make=True)
        if database is None or database.conn.read_only:
            raise CannotOpen(str(self.file), "it may not be written")
        return database

    def on_found(self, told: Found) -> Callable[[], None]:
        """Have `told` called when the file has been opened; return what ends that."""
        key = object()
        self._told[key] = told
        # Weakly: what ends it may be kept for a finalizer of somebody whom the store itself tells.
        known = weakref.ref(self)

        def end() -> None:
            store = known()
            if store is not None:
                store._told.pop(key, None)

        return end

    def look_out(self, waiting: object) -> None:
        """Look for the file while somebody waits for it, in case another process makes it."""
        if not self.options.watch or self._opened() is not None:
            return
        with self._lock:
            self._waiting.add(waiting)
            if self._lookout is None:
                self._lookout = threading.Thread(
                    target=_look_out,
                    args=(weakref.ref(self), self._over),
                    name="smithers-lookout",
                    daemon=True,
                )
                self._lookout.start()

    def look(self) -> bool:
        """Look for the file once; False when there is no more to look for."""
        try:
            if self.found() is None and self._waits():
                return True
        except DatabaseClosed:
            return False
        except (CannotOpen, sqlite3.Error) as error:
            self.options.report(error)
            self._lookout = None
        return False

    def close(self) -> None:
        """Close the file, if it is open, and never open it again."""
        self._over.set()
        with self._lock:
            if self._database is not None:
                self._database.close()

    def _waits(self) -> bool:
        with self._lock:
            if not self._waiting:
                self._lookout = None  # under the lock, for whoever comes to wait just now
            return self._lookout is not None

    def _opened(self) -> Database | None:
        database = self._database
        if self._over.is_set():
            raise DatabaseClosed("the database was closed")
        # One whose file was replaced has closed itself.
        return None if database is None or database.closed else database

    def _open(self, *, make: bool) -> Database | None:
        with self._lock:
            database = self._opened()
            if database is not None:
                return database
            if not self.file.is_file():
                return None
            database = self._database = self._connected(make=make)
        if database is not None:
            self._tell(database)
        return database

    def _tell(self, database: Database) -> None:
        for told in list(self._told.values()):
            try:
                told(database)
            except Exception as error:
                # Whoever opens it, to write perhaps, has nothing to do with those who wait for it.
                self.options.report(error)

    def _connected(self, *, make: bool) -> Database | None:
        options, name = self.options, str(self.file)
        writable = os.access(self.file, os.W_OK) and os.access(self.file.parent, os.W_OK)
        read_only = options.read_only or not writable
        check_log(self.file, read_only=read_only)
        try:
            database = Database(
                name,
                read_only=read_only,
                watch=options.watch,
                busy_timeout=options.busy_timeout,
                synchronous=options.synchronous,
                home=options.home,
                on_observer_error=options.on_observer_error,
            )
        except sqlite3.Error as error:
            raise refusal(name, error) from error
        try:
            if self._is_ready(database, make=make):
                self._prepare(database)
                return database
            database.close()
        except BaseException as error:
            with log_kept(self.file):
                database.close()
            if isinstance(error, sqlite3.Error):
                raise refusal(name, error) from error
            raise
        return None

    def _is_ready(self, database: Database, *, make: bool) -> bool:
        version = store_version(database)
        if version > STORE_VERSION:
            raise SchemaTooNew(str(self.file), found=version, supported=STORE_VERSION)
        if version < STORE_VERSION:
            # Without tables it is being made by another process, unless that is what we are at.
            if database.conn.read_only or not (version or make):
                return False
            with database.transaction():
                migrate_store(database)
                database.table("memories").track()
        return True


def _look_out(reference: weakref.ref[Store], over: threading.Event) -> None:
    """Look again and again until the store is found, closed or collected."""
    while not over.wait(LOOK):
        store = reference()
        if store is None or not store.look():
            return
        del store
