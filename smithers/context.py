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
        outer: what ran around it when it was started.
        ended: whether it has ended, in whichever task or thread.
    """

    context: Context
    kind: Kind
    id: str
    execution_id: str | None
    phase_id: str | None = None
    step_id: str | None = None
    outer: Frame | None = None
    ended: bool = False

    def enter(self) -> str:
        """Let it run in this context, around what is started next; return its id."""
        self.context.enter(self)
        return self.id


# What runs, for each handle; a copy at every change, because tasks inherit the mapping.
_running: ContextVar[Mapping[Context, Frame]] = ContextVar("smithers_running")


class Context:
    """What has been started through one handle, as the running task or thread sees it.

    A task inherits what ran where it was made, a thread begins with nothing. What has ended, no
    matter where, is passed over: then the next outer one runs.
    """

    def __init__(self, only_execution: Callable[[], str | None]) -> None:
        self._only_execution = only_execution
        self._open: weakref.WeakValueDictionary[str, Frame] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        self._used = False
        self._closed = False

    def enter(self, frame: Frame) -> None:
        """Let a row that has been started run in this context."""
        with self._lock:
            self._open[frame.id] = frame
        frame.outer = self._top()
        running = _running.get({})
        others = {one: top for one, top in running.items() if not one._closed}
        _running.set({**others, self: frame})
        self._used = True

    def leave(self, id: str) -> None:
        """Take a row that has ended out of every context, and with an execution all below it."""
        with self._lock:
            frame = self._open.pop(id, None)
            if frame is None:
                return
            frame.ended = True
            if frame.kind == "execution":
                for inner in [one for one in self._open.values() if one.execution_id == id]:
                    inner.ended = True
                    del self._open[inner.id]

    def abandon(self, frame: Frame) -> None:
        """Take a row out of every context that was never written after all."""
        self.leave(frame.id)

    def reenter(self, frame: Frame) -> None:
        """Let a row run again whose end was never written after all."""
        with self._lock:
            frame.ended = False
            self._open[frame.id] = frame

    def started_here(self, id: str) -> Frame | None:
        """Return a row that was started through this handle and has not ended."""
        return self._open.get(id)

    def nearest(self, kind: Kind) -> Frame | None:
        """Return the innermost running row of a kind in this context."""
        frame = self._top()
        while frame is not None and (frame.ended or frame.kind != kind):
            frame = frame.outer
        return frame

    @property
    def top(self) -> Frame | None:
        """The innermost row that runs in this context."""
        return self._top()

    @property
    def execution_id(self) -> str | None:
        """The execution that runs here, else the only one of this handle."""
        frame = self._top()
        if frame is not None and frame.execution_id is not None:
            return frame.execution_id
        return self._only_execution()

    @property
    def agent_id(self) -> str | None:
        """The agent that runs here."""
        if not self._used:
            return None
        frame = self.nearest("agent")
        return None if frame is None else frame.id

    def close(self) -> None:
        """Let nothing run any more."""
        self._closed = True
        self._used = False

    def _top(self) -> Frame | None:
        if not self._used:
            return None
        frame = _running.get({}).get(self)
        while frame is not None and frame.ended:
            frame = frame.outer
        return frame
