"""Linux's file events of a few files of one directory, through ctypes: the least waking needs."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress

MODIFY = 0x2
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
OVERFLOW = 0x4000  # not asked for: events were lost
IGNORED = 0x8000  # not asked for: the end of a watch
ONLY_A_DIRECTORY = 0x0100_0000
COMING_AND_GOING = MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF

EVENT = struct.Struct("iIII")
BUFFER_SIZE = 65_536


class Inotify:
    """The events of some files of one directory; `fileno()` is readable when there are some.

    Of the directory's other files only the coming and going is heard: one that is written all the
    time, a log or another database, must not wake whoever listens here.

    Raises OSError where the system has no inotify, or the user's limit of watches is reached.
    """

    def __init__(self, directory: str, names: Iterable[str]) -> None:
        if sys.platform != "linux":
            raise OSError("only Linux has inotify")
        self._system = ctypes.CDLL(None, use_errno=True)
        self._directory = directory
        self._names = frozenset(names)
        # By the number of a watch: the file that it is of; the directory has no name.
        self._watches: dict[int, str] = {}
        self._descriptor = self._checked(self._system.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        try:
            self.resume()
        except OSError:
            os.close(self._descriptor)
            raise

    def pause(self) -> None:
        """Let events pass unnoticed: each costs whoever writes some 0.5 µs."""
        for watch in self._watches:
            self._system.inotify_rm_watch(self._descriptor, watch)
        self._watches.clear()

    def resume(self) -> None:
        """Notice events again. Raises OSError when the directory is gone."""
        if not self._watches:
            # First: a file that comes while its like is looked for is heard of.
            self._watch("", COMING_AND_GOING | ONLY_A_DIRECTORY)
            self._watch_files()

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
                watch, mask, _, length = EVENT.unpack_from(buffer, position)
                position += EVENT.size
                name = os.fsdecode(buffer[position : position + length].rstrip(b"\0"))
                position += length
                if mask & IGNORED:
                    self._watches.pop(watch, None)
                    continue
                found.add(name or self._watches.get(watch, ""))
                if mask & OVERFLOW:
                    self._watch_files()  # any of them may have come meanwhile
                elif mask & (CREATE | MOVED_TO) and name in self._names:
                    self._watch_file(name)
            if len(buffer) < BUFFER_SIZE // 2:
                return found

    def close(self) -> None:
        os.close(self._descriptor)

    def _watch_files(self) -> None:
        for name in self._names:
            self._watch_file(name)

    def _watch_file(self, name: str) -> None:
        # One that is not there will be heard of when it comes.
        with suppress(FileNotFoundError):
            self._watch(name, MODIFY)

    def _watch(self, name: str, mask: int) -> None:
        path = os.fsencode(os.path.join(self._directory, name))
        add = self._system.inotify_add_watch
        self._watches[self._checked(add(self._descriptor, path, mask))] = name

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), self._directory)
        return result
