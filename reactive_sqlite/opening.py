"""Opening the file: journal mode, pragmas, read-only and what can go wrong on the way."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote as percent

from reactive_sqlite.arguments import check_flag, seconds, shown
from reactive_sqlite.connection import Connection
from reactive_sqlite.cursor import Cursor
from reactive_sqlite.dialect import locked_elsewhere, sqlite3
from reactive_sqlite.errors import DatabaseReplaced

C = TypeVar("C", bound=Connection)
# Three weeks: SQLite counts the milliseconds in 32 bits.
_LONGEST_TIMEOUT = 2_000_000.0
_SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")


def connect(
    path: Path | None, *, read_only: bool, busy_timeout: float, synchronous: str
) -> Connection:
    """Open a connection (to a database without a file when `path` is None) and set it up.

    A new file gets a write-ahead log; an existing one keeps its journal mode.
    """
    check_flag(read_only, "read_only")
    given = cast("object", synchronous)
    if not (isinstance(given, str) and str.upper(given) in _SYNCHRONOUS):
        raise ValueError(
            f"synchronous must be one of {', '.join(_SYNCHRONOUS)}, not {shown(synchronous)}"
        )
    busy_timeout = min(seconds(busy_timeout, "busy_timeout"), _LONGEST_TIMEOUT)
    try:
        if path is None:
            connection = _open(":memory:", busy_timeout, kind=Connection)
            connection.memory = True
            return _set_up(connection, synchronous)
        if read_only:
            return _open_read_only(path, busy_timeout)
        fresh = not path.exists() or path.stat().st_size == 0
        connection = _open(str(path), busy_timeout, kind=Connection)
        try:
            if fresh:
                _use_wal(connection, busy_timeout)
            return _set_up(connection, synchronous)
        except BaseException:
            with log_kept(path):
                connection.close()
            raise
    except sqlite3.Error as error:
        error.add_note(f"while opening {path if path is not None else ':memory:'}")
        raise


@contextmanager
def log_kept(path: Path | None) -> Generator[None]:
    """Leave the file's log where it is while a connection to the file is closed in this block.

    The last connection to close would move the log into the file, which is not to be changed where
    it was refused. One that only reads cannot, and while it is open the other one is not the last.
    """
    keeper: sqlite3.Connection | None = None
    if path is not None and _holds_something(_log(path.resolve())):
        with suppress(sqlite3.Error):  # without a whole log there is none to be moved
            keeper = sqlite3.connect(_uri(path, "ro"), uri=True, timeout=0)
            keeper.execute("PRAGMA schema_version").fetchone()
    try:
        yield
    finally:
        if keeper is not None:
            keeper.close()


def path_text(path: object, name: str) -> str:
    """Return a path as plain text; `name` says in errors what it is.

    Raises TypeError for what is no path, ValueError for one that no file can have.
    """
    given: object = None
    with suppress(TypeError):
        given = os.fspath(cast("str", path))
    if not isinstance(given, str):
        raise TypeError(f"{name} is a str or a Path, not {shown(path)}")
    text = str.__str__(given)
    if not text:
        raise ValueError(f"{name} is empty")
    if "\0" in text:
        raise ValueError(f"{name} has no NUL character: {shown(text)}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ValueError(f"{name} has no lone surrogates: {shown(text)}") from None
    return text


class Visitor(Connection):
    """A read-only connection to a file that has no log, and has none afterwards either."""

    file: Path

    def close(self) -> None:
        """Close the connection, and take away the empty log that reading has made."""
        if self.closed:
            return
        super().close()
        # Only SQLite can tell whether anybody else has the log open; then it stays, and so it does
        # where this user may not write.
        with suppress(OSError, sqlite3.Error):
            if _log(self.file).stat().st_size == 0:
                _take_log_away(self.file)


class Frozen(Connection):
    """A connection to a file that nobody wrote when it was opened, and that it does not lock.

    From the moment on at which somebody writes after all, every statement raises DatabaseReplaced.
    """

    file: Path
    state: tuple[int, ...] | None = None

    def run(self, cursor: Cursor, sql: str, parameters: Any) -> None:
        """Execute one statement on the cursor."""
        with self._unchanged():
            super().run(cursor, sql, parameters)

    def fetch(
        self, sql: str, parameters: Any, columns: tuple[str, ...] | None
    ) -> tuple[list[Any], tuple[str, ...]]:
        """Run a query unnoticed."""
        with self._unchanged():
            return super().fetch(sql, parameters, columns)

    def blobopen(self, *args: Any, **kwargs: Any) -> Any:
        """Open a blob."""
        with self._unchanged():
            return super().blobopen(*args, **kwargs)

    def backup(self, *args: Any, **kwargs: Any) -> None:
        """Copy the database."""
        with self._unchanged():
            super().backup(*args, **kwargs)

    def difference(self) -> str | None:
        """Tell what is different since the opening; None while nothing is."""
        if self.closed or _state(self.file) == self.state:
            return None
        return f"somebody has written to {self.file} since it was opened for reading: open it again"

    @contextmanager
    def _unchanged(self) -> Generator[None]:
        # Looked at afterwards: until then the file was as it is, and a change under way may be the
        # reason of an error.
        try:
            yield
        finally:
            difference = self.difference()
            if difference is not None:
                raise DatabaseReplaced(difference)


def _open(target: str, busy_timeout: float, *, kind: type[C], uri: bool = False) -> C:
    # sqlite3.connect passes no arguments of its own to the factory.
    def make(*args: Any, **kwargs: Any) -> C:
        return kind(*args, busy_timeout=busy_timeout, **kwargs)

    factory: Any = make
    return cast("C", sqlite3.connect(target, uri=uri, factory=factory))


def _set_up(connection: Connection, synchronous: str) -> Connection:
    connection.raw(f"PRAGMA synchronous = {synchronous}")
    connection.raw("PRAGMA foreign_keys = ON")
    connection.raw("PRAGMA recursive_triggers = ON")
    connection.raw("PRAGMA schema_version")  # reads the file: another kind of file is found here
    connection.look_at_journal()
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
    uri, file = _uri(path, "ro"), path.resolve()
    connection = _visit(uri, file, busy_timeout)
    connection.read_only = True
    try:
        return _set_up(connection, "NORMAL")
    except BaseException as error:
        connection.close()
        if not isinstance(error, sqlite3.OperationalError) or locked_elsewhere(error):
            raise
        state = _state(file)
        if state is None:
            _explain(error, file)
            raise
    # A closed write-ahead database in a directory that cannot be written: nothing waits in a log,
    # so the file alone is the whole truth, for as long as nobody else writes.
    frozen = _open(uri + "&immutable=1", busy_timeout, kind=Frozen, uri=True)
    frozen.read_only = frozen.immutable = True
    frozen.file, frozen.state = file, state
    try:
        return _set_up(frozen, "NORMAL")
    except BaseException:
        frozen.close()
        raise


def _visit(uri: str, file: Path, busy_timeout: float) -> Connection:
    log = _log(file)
    # An empty one may be that of another visitor, who cannot take it away while this one is there.
    if log.exists() and log.stat().st_size > 0:
        return _open(uri, busy_timeout, kind=Connection, uri=True)
    visitor = _open(uri, busy_timeout, kind=Visitor, uri=True)
    visitor.file = file
    return visitor


def _take_log_away(file: Path) -> None:
    """Let SQLite remove an empty log, as the last connection that may write does at its end."""
    last = sqlite3.connect(_uri(file, "rw"), uri=True, timeout=0, isolation_level=None)
    try:
        last.execute("PRAGMA schema_version").fetchone()
    finally:
        last.close()


def _uri(path: Path, mode: str) -> str:
    return f"file:{percent(str(path.absolute()))}?mode={mode}"


def _log(file: Path) -> Path:
    return file.with_name(file.name + "-wal")


def _holds_something(log: Path) -> bool:
    try:
        return log.stat().st_size > 0
    except OSError:
        return False


def _state(file: Path) -> tuple[int, ...] | None:
    """Tell the state of a file that is complete by itself; None where more may be in a journal."""
    log, journal = _log(file), file.with_name(file.name + "-journal")
    try:
        found = file.stat()
        if journal.exists() or (log.exists() and log.stat().st_size > 0):
            return None
    except OSError:
        return None  # it is being taken away just now
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _explain(error: sqlite3.OperationalError, file: Path) -> None:
    if _log(file).exists():
        error.add_note(
            "its newest commits are still in the -wal that a writer left, and reading that takes a "
            "-shm, which is not there and cannot be made here: open it once where its directory "
            "can be written"
        )
