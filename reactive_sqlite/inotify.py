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
        system = ctypes.CDLL(None, use_errno=True)
        self._descriptor = _checked(system.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK), directory)
        try:
            _checked(
                system.inotify_add_watch(
                    self._descriptor, os.fsencode(directory), MASK | ONLY_A_DIRECTORY
                ),
                directory,
            )
        except OSError:
            os.close(self._descriptor)
            raise

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
                *_, length = EVENT.unpack_from(buffer, position)
                position += EVENT.size
                found.add(os.fsdecode(buffer[position : position + length].rstrip(b"\0")))
                position += length
            if len(buffer) < BUFFER_SIZE // 2:
                return found

    def close(self) -> None:
        os.close(self._descriptor)


def _checked(result: int, directory: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), directory)
    return result
