"""A write-ahead log that belongs to another database, found before SQLite takes it for the file's.

SQLite takes any whole log for that of the file it lies beside, and its pages end up in the file
when that is closed: somebody who copied one of two files has lost the other database.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from reactive_sqlite.dialect import sqlite3
from smithers.errors import CannotOpen, ForeignLog
from smithers.files import is_damage, refusal
from smithers.schema.identity import identity

_HEADER = 32  # bytes of a log without a frame
_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
# A checkpoint of another process may be writing the very page that is read without the log.
_LOOKS = 3
_PAUSE = 0.01  # seconds
_PATIENCE = 0.5  # seconds; who finds it locked for longer learns it by opening


def check_log(file: Path, *, read_only: bool) -> None:
    """Raise an error where the log beside a file is known to be another's; before it is opened.

    It is known where both the file and the log have the mark of their database, and where the file
    makes no sense together with the log. Nothing is changed.

    Raises:
        ForeignLog: the marks differ, or a file that is whole makes no sense with the log, or an
            empty one is only to be read.
        NotADatabase: what can be read makes no sense.
    """
    log = Path(f"{os.path.realpath(file)}-wal")
    if not _has_frames(log):
        return
    if file.stat().st_size == 0:
        # SQLite takes such a log away, even where it only reads.
        if read_only:
            raise ForeignLog(str(file), str(log), "what is left of another database")
        return
    if (fault := _fault(file, log)) is not None:
        raise fault


def _has_frames(log: Path) -> bool:
    try:
        with log.open("rb") as bytes_of_log:
            start = bytes_of_log.read(_HEADER + 1)
    except OSError:
        return False  # none is there, or what is wrong with it will be said by SQLite
    return len(start) > _HEADER and start[:4] in _MAGIC


def _fault(file: Path, log: Path) -> CannotOpen | None:
    """Tell what is wrong with the log, as the error to be raised."""
    fault: CannotOpen | None = None
    for look in range(_LOOKS):
        if look:
            time.sleep(_PAUSE)
        try:
            without = _identity(file, "immutable=1")
        except sqlite3.Error:
            without = frozenset[str]()  # half of it may be in the log
        try:
            together = _identity(file)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                return None  # opening will say it
            if without:
                fault = ForeignLog(str(file), str(log), "damaged, or of another database")
            else:
                fault = refusal(str(file), error)
        else:
            if not without or not together or without == together:
                return None
            fault = ForeignLog(str(file), str(log), "that of another database")
    return fault


def _identity(file: Path, *options: str) -> frozenset[str]:
    uri = f"file:{quote(str(file.absolute()))}?{'&'.join(['mode=ro', *options])}"
    with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE)) as connection:
        return identity(connection)
