"""What runs now: below which execution, phase, step and agent this task or thread works."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

Kind = Literal["execution", "phase", "step", "agent"]


@dataclass(slots=True, weakref_slot=True, eq=False)
class Frame:
    """One row that has been started here, with the ids of those it stands below.

    Attributes:
        context: of the handle it was started through.
        kind: of which table.
        id: its id.
        execution_id: its execution, itself when it is one.
        phase_id: the phase it stands below.
        step_id: the step it stands below.
        ended: whether it has ended, in whichever task or thread.
        ended_in: the number of the transaction in which it has, 0 outside of any.
    """

    context: Context
    kind: Kind
    id: str
    execution_id: str | None
    phase_id: str | None = None
    step_id: str | None = None
    ended: bool = False
    ended_in: int = 0

    def enter(self) -> str:
        """Let it run in this context, around what is started next; return its id."""
        self.context.enter(self)
        return self.id


class Context:
    """What has been started through one handle, as the running task or thread sees it.

    A task inherits what ran where it was made, a thread begins with nothing. What has ended, no
    matter where, is passed over: then the next outer one runs.

    Args:
        only_execution: tells the execution of this handle when there is one alone.
        undoable: tells the number of this thread's transaction, by which what happens now may
            still be rolled back; 0 outside of any.

    Attributes:
        used: whether anything has ever been entered; without that, nothing runs anywhere.
    """

    def __init__(
        self, only_execution: Callable[[], str | None], undoable: Callable[[], int]
    ) -> None:
        self._only_execution = only_execution
        self._undoable = undoable
        self._open: weakref.WeakValueDictionary[str, Frame] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        self.used = False
        self._closed = False

    def add(self, frame: Frame) -> Frame:
        """Know a row that has been started; it runs where it is entered."""
        with self._lock:
            self._open[frame.id] = frame
        return frame

    def enter(self, frame: Frame) -> None:
        """Let a row that has been started run in this context."""
        running = _running.get(_NOTHING)
        # What has ended is let go of here, or a long loop would pile it up; unless its end may
        # still be rolled back.
        outer, transaction = running.get(self), self._undoable()
        while outer is not None and outer.frame.ended:
            if transaction and outer.frame.ended_in == transaction:
                break
            outer = outer.outer
        others = {one: entry for one, entry in running.items() if not one._closed}
        _running.set({**others, self: _Entry(frame, outer)})
        self.used = True

    def leave(self, id: str) -> list[Frame]:
        """Take a row that has ended out of every context; return what `reenter` takes."""
        frame = self._open.get(id)
        return [] if frame is None else self._end([frame])

    def leave_execution(self, id: str) -> list[Frame]:
        """Take an execution and all below it out of every context; return what `reenter` takes."""
        # Its own frame may be gone with the task that has started it.
        return self._end([one for one in self._frames() if one.execution_id == id])

    def reenter(self, frames: list[Frame]) -> None:
        """Let rows run again whose end was never written after all."""
        with self._lock:
            for frame in frames:
                frame.ended = False
                self._open[frame.id] = frame

    def started_here(self, id: str) -> Frame | None:
        """Return a row that was started through this handle and has not ended."""
        return self._open.get(id)

    def nearest(self, kind: Kind) -> Frame | None:
        """Return the innermost running row of a kind in this context.

        What runs around another execution is none of its.
        """
        entry = self._entry()
        if entry is None:
            return None
        execution_id = entry.frame.execution_id
        while entry is not None:
            frame = entry.frame
            if not frame.ended:
                if frame.execution_id != execution_id:
                    return None
                if frame.kind == kind:
                    return frame
            entry = entry.outer
        return None

    @property
    def top(self) -> Frame | None:
        """The innermost row that runs in this context."""
        entry = self._entry()
        return None if entry is None else entry.frame

    @property
    def execution_id(self) -> str | None:
        """The execution that runs here, else the only one of this handle."""
        frame = self.top
        if frame is not None and frame.execution_id is not None:
            return frame.execution_id
        return self._only_execution()

    @property
    def agent_id(self) -> str | None:
        """The agent that runs here."""
        frame = self.nearest("agent")
        return None if frame is None else frame.id

    def close(self) -> None:
        """Let nothing run any more."""
        self._closed = True
        self.used = False

    def _entry(self) -> _Entry | None:
        if not self.used:
            return None
        entry = _running.get(_NOTHING).get(self)
        while entry is not None and entry.frame.ended:
            entry = entry.outer
        return entry

    def _frames(self) -> list[Frame]:
        with self._lock:
            return list(self._open.values())

    def _end(self, frames: list[Frame]) -> list[Frame]:
        transaction = self._undoable()
        with self._lock:
            for frame in frames:
                frame.ended, frame.ended_in = True, transaction
                self._open.pop(frame.id, None)
        return frames


@dataclass(slots=True, eq=False)
class _Entry:
    """A frame that was entered, and what ran around it there."""

    frame: Frame
    outer: _Entry | None


_NOTHING: Mapping[Context, _Entry] = {}
# What runs, for each handle; a copy at every change, because tasks inherit the mapping.
_running: ContextVar[Mapping[Context, _Entry]] = ContextVar("smithers_running")
