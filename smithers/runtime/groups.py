"""Process groups: ending a program with all that it has started, so that no orphan is left."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

# Seconds for a group to end after SIGTERM, and to be gone after SIGKILL.
TERM_GRACE = 2.0
_KILL_GRACE = 1.0
_LOOK = 0.02
_PROC = Path("/proc")


class Launched:
    """An executable to be run by somebody else, who makes no process group for it.

    Attributes:
        path: what is to be run in its place.
    """

    def __init__(self, executable: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="smithers-"))
        self._file = self._folder / "group"
        self._group: int | None = None
        script = self._folder / "run"
        words = (sys.executable, "-IS", str(Path(__file__).with_name("launcher.py")))
        command = " ".join(map(shlex.quote, (*words, str(self._file), executable)))
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        script.chmod(0o700)
        self.path = str(script)

    @property
    def group(self) -> int | None:
        """The group it leads, None before it has been started."""
        if self._group is None:
            try:
                self._group = int(self._file.read_text(encoding="ascii"))
            except FileNotFoundError:
                return None
        return self._group

    @property
    def has_ended(self) -> bool:
        """Whether it was started and has ended, however its group fares."""
        group = self.group
        return group is not None and not _signal(os.kill, group, 0)

    def remove(self) -> None:
        """Take away what was written for it."""
        shutil.rmtree(self._folder, ignore_errors=True)


async def end_group(group: int) -> None:
    """End all processes of a group: politely, and those that do not listen for good."""
    loop = asyncio.get_running_loop()
    for number, grace in ((signal.SIGTERM, TERM_GRACE), (signal.SIGKILL, _KILL_GRACE)):
        if not _signal(os.killpg, group, number):
            return
        until = loop.time() + grace
        while loop.time() < until:
            if not _lives(group):
                return
            await asyncio.sleep(_LOOK)


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Await work that must not be left by half; a cancellation meanwhile is raised at its end."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        # What went wrong in it is told with the cancellation, not instead of it.
        if not task.cancelled() and (failure := task.exception()) is not None:
            cancelled.add_note(f"{type(failure).__name__}: {failure}")
        raise cancelled
    return task.result()


def _signal(send: Any, target: int, number: int) -> bool:
    """Send a signal; tell whether anybody is there to get it."""
    try:
        send(target, number)
    except (ProcessLookupError, PermissionError):
        return False  # macOS says EPERM where only zombies are left
    return True


def _lives(group: int) -> bool:
    """Tell whether any process of a group runs; those that nobody has waited for do not."""
    if not _signal(os.killpg, group, 0):
        return False
    if not (_PROC / "self" / "stat").exists():
        return True
    return any(_runs_in(group, entry) for entry in _PROC.iterdir() if entry.name.isdigit())


def _runs_in(group: int, process: Path) -> bool:
    try:
        _, _, rest = (
            (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
        )
    except OSError:
        return False
    state, _, of_group = rest.split()[:3]
    return int(of_group) == group and state not in "ZX"
