"""Files and directories of this package, made for this user alone; why one cannot be opened."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import cast

from reactive_sqlite.dialect import sqlite3
from reactive_sqlite.opening import path_text
from smithers.errors import CannotOpen, NotADatabase

# Closing a descriptor drops the locks that SQLite holds on the same file in this process, so no
# database is opened here between the creation of its empty file and the closing of that descriptor.
_creating = threading.Lock()


def make_file(file: Path) -> None:
    """Make the missing directories (0700) and the empty file (0600), whatever the umask.

    Raises CannotOpen where that cannot be done, or the file may not be written.
    """
    try:
        missing = [place for place in file.parents if not place.exists()]
        for place in reversed(missing):
            _make_directory(place)
        with _creating:
            if not file.exists():
                _create(file)
    except OSError as error:
        raise CannotOpen(str(file), error.strerror or str(error)) from error
    # SQLite would open it all the same, and fail at the first write.
    if not os.access(file, os.W_OK):
        raise CannotOpen(str(file), "it may not be written; pass read_only=True to read it")


def opened_path(path: object, name: str = "the path of a database") -> str:
    """Return the path of a database as plain text; CannotOpen for one that no file can have."""
    try:
        return path_text(path, name)
    except ValueError as error:
        raise CannotOpen(os.fspath(cast("str", path)), "this is no path") from error


def refusal(name: str, error: Exception) -> CannotOpen:
    """Make of an error of SQLite at opening the one that says so."""
    if is_damage(error):
        return NotADatabase(name, str(error))
    # What opening adds to SQLite's words; the path is in ours already.
    notes = [note for note in getattr(error, "__notes__", ()) if not note.startswith("while ")]
    return CannotOpen(name, "; ".join([str(error), *notes]))


def is_damage(error: Exception) -> bool:
    """Whether SQLite says that the file is none of its own, or damaged."""
    # The low byte is the primary result code.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def _make_directory(place: Path) -> None:
    try:
        place.mkdir(0o700)
    except FileExistsError:
        return  # another process was faster
    place.chmod(0o700)


def _create(file: Path) -> None:
    try:
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return  # another process was faster
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
