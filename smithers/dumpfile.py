"""The file that a database is dumped to: JSON Lines, each of which vouches for itself.

    {"format":"smithers dump","version":1,"schema":5,…,"crc":"9c1f03aa"}
    {"table":"executions","row":{"seq":1,"id":"…",…},"crc":"07e2b1d4"}
    …
    {"end":{"executions":1,…},"crc":"e1180c57"}

`crc` is a checksum of everything before it, from the first byte of the file on: a line that was
changed, left out, doubled or moved is told by its number. What JSON has no word for stands as an
object: `{"blob": base64}`, `{"text": base64}` for a text that is no UTF-8, `{"float": "inf"}`.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import stat
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from reactive_sqlite.opening import path_text
from smithers.errors import DamagedDump, DumpTooNew

FORMAT = "smithers dump"
VERSION = 1

_CRC = b',"crc":"%08x"}\n'
_CRC_SIZE = len(_CRC % 0)
_BUFFER = 1 << 20
_PLAIN = frozenset({str, int, type(None)})
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class BrokenText:
    """A text of SQLite's that is no UTF-8, as its bytes; only a foreign program writes one."""

    content: bytes


class DumpWriter:
    """Writes the lines of a dump, in order."""

    def __init__(self, file: BinaryIO) -> None:
        self._write = file.write
        self._crc = 0

    def header(self, facts: Mapping[str, Any]) -> None:
        """Begin with what the whole file is about."""
        self._line(_encode({"format": FORMAT, "version": VERSION, **facts}))

    def row(self, table: str, row: dict[str, Any]) -> None:
        """Write one row: its columns by name."""
        for value in row.values():
            if type(value) not in _PLAIN:
                row = {name: _portable(value) for name, value in row.items()}
                break
        self._line(_encode({"table": table, "row": row}))

    def end(self, counts: Mapping[str, int]) -> None:
        """End with how many rows of each table there are."""
        self._line(_encode({"end": dict(counts)}))

    def _line(self, text: str) -> None:
        body = text[:-1].encode()
        self._crc = zlib.crc32(body, self._crc)
        self._write(body)
        self._write(_CRC % self._crc)


class DumpReader:
    """Reads the lines of a dump and checks each; raises DamagedDump at the first that is wrong.

    Attributes:
        header: the facts of the first line.
        line: the number of the line that was read last.
    """

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file = file
        self._path = path
        self._crc = 0
        self._decode = json.JSONDecoder(parse_constant=_no_constant).decode
        self.line = 0
        self.header = self._header()

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Read the rows, each with its table, and check at the end that all of them came."""
        counts: dict[str, int] = {}
        while True:
            found = self._next()
            if "end" in found:
                break
            table, row = found.get("table"), found.get("row")
            if not (isinstance(table, str) and isinstance(row, dict)):
                raise self.damaged("this is no row of a table")
            values = cast("dict[str, Any]", row)
            if not _PLAIN.issuperset(map(type, values.values())):
                values = {name: self._value(name, value) for name, value in values.items()}
            counts[table] = counts.get(table, 0) + 1
            yield table, values
        if found["end"] != counts:
            raise self.damaged("the rows are not as many as they were")
        if self._file.read(1):
            self.line += 1
            raise self.damaged("something follows the last line")

    def damaged(self, reason: str) -> DamagedDump:
        """Make the error that names the line read last."""
        return DamagedDump(self._path, self.line, reason)

    def _header(self) -> dict[str, Any]:
        self.line = 1
        text = self._file.readline(_BUFFER)
        try:
            header: Any = json.loads(text)
        except (ValueError, RecursionError):
            header = None
        if not isinstance(header, dict) or cast("Any", header).get("format") != FORMAT:
            raise self.damaged("this is no dump of a workflow database")
        facts = cast("dict[str, Any]", header)
        version = facts.get("version")
        if type(version) is not int:
            raise self.damaged("the header does not say of which version it is")
        if version > VERSION:
            raise DumpTooNew(self._path, "format", found=version, supported=VERSION)
        self._check(text)
        return facts

    def _next(self) -> dict[str, Any]:
        text = self._file.readline()
        self.line += 1
        if not text:
            raise self.damaged("the file ends before its last line")
        self._check(text)
        try:
            found: Any = self._decode(text.decode())
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"this is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise self.damaged("this is no row of a table")
        return cast("dict[str, Any]", found)

    def _check(self, text: bytes) -> None:
        body = text[:-_CRC_SIZE]
        self._crc = zlib.crc32(body, self._crc)
        if text[-_CRC_SIZE:] != _CRC % self._crc:
            cut_off = not text.endswith(b"\n")
            raise self.damaged("the line is cut off" if cut_off else "the checksum does not fit")

    def _value(self, column: str, value: Any) -> Any:
        if type(value) in _PLAIN or type(value) is float:
            return value
        if isinstance(value, dict) and len(cast("dict[str, Any]", value)) == 1:
            ((kind, text),) = cast("dict[str, Any]", value).items()
            read = _SPECIAL.get(kind)
            if read is not None and isinstance(text, str):
                try:
                    return read(text)
                except (ValueError, binascii.Error) as error:
                    raise self.damaged(f"column {column!r}: {error}") from error
        raise self.damaged(f"column {column!r} holds no value of SQLite's")


@contextmanager
def written(path: str | os.PathLike[str]) -> Generator[BinaryIO]:
    """Write a file as a whole, for this user alone: there is the old one until the new is safe.

    Raises OSError as the system says, and leaves nothing behind then.
    """
    target = Path(os.path.realpath(path))
    descriptor, name = tempfile.mkstemp(prefix=".smithers-", suffix=".tmp", dir=target.parent)
    try:
        with open(descriptor, "wb", buffering=_BUFFER) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _remember(target.parent)


def check_target(path: str | os.PathLike[str], database: Path | None) -> str:
    """Return the path of a file to be written.

    Raises ValueError for what is no regular file, and for the database itself.
    """
    text = path_text(path, "the path of a dump")
    target = os.path.realpath(text)
    if database is not None:
        own = os.path.realpath(database)
        if target in (own, f"{own}-wal", f"{own}-shm", f"{own}-journal"):
            raise ValueError(f"{text!r} is the database itself")
    try:
        regular = stat.S_ISREG(os.stat(target).st_mode)
    except FileNotFoundError:
        return text
    if not regular:
        raise ValueError(f"{text!r} is no regular file")
    return text


def _portable(value: Any) -> Any:
    if type(value) is bytes:
        return {"blob": base64.b64encode(value).decode()}
    if type(value) is BrokenText:
        return {"text": base64.b64encode(value.content).decode()}
    if type(value) is float and not math.isfinite(value):
        return {"float": "inf" if value > 0 else "-inf"}
    return value


def _infinity(text: str) -> float:
    if text not in ("inf", "-inf"):
        raise ValueError(f"{text!r} is no number")
    return float(text)


_SPECIAL: Mapping[str, Callable[[str], Any]] = {
    "blob": lambda text: base64.b64decode(text, validate=True),
    "text": lambda text: BrokenText(base64.b64decode(text, validate=True)),
    "float": _infinity,
}


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _remember(directory: Path) -> None:
    """Make the new name of the file as safe as its content."""
    if os.name != "posix":
        return  # elsewhere a directory is nothing that could be opened
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
