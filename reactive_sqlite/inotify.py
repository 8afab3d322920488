"""Linux's file events of one directory, through ctypes: the least that waking needs."""

from __future__ import annotations

import ctypes
import os
import struct
import sys

MODIFY = 0x2
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
IGNORED = 0x8000  # not asked for: the end of a watch
ONLY_A_DIRECTORY = 0x0100_0000
MASK = MODIFY | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF

EVENT = struct.Struct("iIII")
BUFFER_SIZE = 65_536


class Inotify:
    """The events of files in one directory; `fileno()` is readable when there are some.

    Raises OSError where the system has no inotify, or the user's limit of watches is reached.
    """

    def __init__(self, directory: str) -> None:
        if sys.platform != "linux":
            raise OSError("only Linux has inotify")
        self._system = system = ctypes.CDLL(None, use_errno=True)
        self._directory = directory
        self._descriptor = _checked(system.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK), directory)
        try:
            self._watch: int | None = self._watched()
        except OSError:
            os.close(self._descriptor)
            raise

    def pause(self) -> None:
        """Let events pass unnoticed: each costs whoever writes some 0.5 µs."""
        if self._watch is not None:
            self._system.inotify_rm_watch(self._descriptor, self._watch)
            self._watch = None

    def resume(self) -> None:
        """Notice events again. Raises OSError when the directory is gone."""
        if self._watch is None:
            self._watch = self._watched()

    def fileno(self) -> int:
        return self._descriptor

    def names(self) -> set[str]:
        """Take the waiting events and return the names of their files.

        The empty name stands for the directory itself, and for events that were lost.
        """
        found: set[str] = set()
        while True:
            try:
                buffer = os.read(self._descriptor, BUFFER_SIZE)
            except BlockingIOError:
                return found
            position = 0
            while position < len(buffer):
                _, mask, _, length = EVENT.unpack_from(buffer, position)
                position += EVENT.size
                if not mask & IGNORED:
                    found.add(os.fsdecode(buffer[position : position + length].rstrip(b"\0")))
                position += length
            if len(buffer) < BUFFER_SIZE // 2:
                return found

    def close(self) -> None:
        os.close(self._descriptor)

    def _watched(self) -> int:
        path = os.fsencode(self._directory)
        add = self._system.inotify_add_watch
        return _checked(add(self._descriptor, path, MASK | ONLY_A_DIRECTORY), self._directory)


def _checked(result: int, directory: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), directory)
    return result
