"""Opening the file: journal mode, pragmas, read-only and what can go wrong on the way."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import quote as percent

from reactive_sqlite.connection import Connection
from reactive_sqlite.dialect import sqlite3

_SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")


def connect(
    path: Path | None, *, read_only: bool, busy_timeout: float, synchronous: str
) -> Connection:
    """Open a connection (to a database without a file when `path` is None) and set it up.

    A new file gets a write-ahead log; an existing one keeps its journal mode.
    """
    if synchronous.upper() not in _SYNCHRONOUS:
        raise ValueError(
            f"synchronous must be one of {', '.join(_SYNCHRONOUS)}, not {synchronous!r}"
        )
    if not busy_timeout >= 0:
        raise ValueError(f"busy_timeout is a number of seconds, not {busy_timeout!r}")
    try:
        if path is None:
            connection = _open(":memory:", busy_timeout)
            connection.memory = True
            return _set_up(connection, synchronous)
        if read_only:
            return _open_read_only(path, busy_timeout)
        fresh = not path.exists() or path.stat().st_size == 0
        connection = _open(str(path), busy_timeout)
        try:
            if fresh:
                _use_wal(connection, busy_timeout)
            return _set_up(connection, synchronous)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        error.add_note(f"while opening {path if path is not None else ':memory:'}")
        raise


def _open(target: str, busy_timeout: float, *, uri: bool = False) -> Connection:
    return sqlite3.connect(target, uri=uri, factory=_factory(busy_timeout))


def _factory(busy_timeout: float) -> type[Connection]:
    # sqlite3.connect passes no arguments of its own to the factory.
    def make(*args: object, **kwargs: object) -> Connection:
        return Connection(*args, busy_timeout=busy_timeout, **kwargs)

    return make  # type: ignore[return-value]


def _set_up(connection: Connection, synchronous: str) -> Connection:
    connection.raw(f"PRAGMA synchronous = {synchronous}")
    connection.raw("PRAGMA foreign_keys = ON")
    connection.raw("PRAGMA recursive_triggers = ON")
    connection.raw("PRAGMA schema_version")  # reads the file: another kind of file is found here
    return connection


def _use_wal(connection: Connection, busy_timeout: float) -> None:
    # Of several processes that open one fresh file, all but one are told "locked" at once here,
    # whatever the busy timeout.
    until = time.monotonic() + max(busy_timeout, 1.0)
    while True:
        try:
            connection.raw("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)


def _open_read_only(path: Path, busy_timeout: float) -> Connection:
    uri = f"file:{percent(str(path.absolute()))}?mode=ro"
    connection = _open(uri, busy_timeout, uri=True)
    connection.read_only = True
    try:
        return _set_up(connection, "NORMAL")
    except BaseException as error:
        connection.close()
        if not (isinstance(error, sqlite3.OperationalError) and _unchanging(path)):
            raise
    # A closed write-ahead database in a directory that cannot be written: nobody can be writing
    # to it either, and nothing waits in a log, so the file alone is the whole truth.
    connection = _open(uri + "&immutable=1", busy_timeout, uri=True)
    connection.read_only = connection.immutable = True
    try:
        return _set_up(connection, "NORMAL")
    except BaseException:
        connection.close()
        raise


def _unchanging(path: Path) -> bool:
    log = path.with_name(path.name + "-wal")
    return path.is_file() and not (log.exists() and log.stat().st_size > 0)
