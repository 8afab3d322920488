"""What a workflow does, while it does it, as the lines and the screen of `smithers run` see it.

It is seen through a handle of its own, so that a script that keeps the event loop busy does not
hold it up, and it is told by observed queries; a terminal is drawn anew for its clock only.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from types import TracebackType

from reactivex.abc import DisposableBase

from smithers.cli.output import glance, shown_cost, shown_lasting, shown_text
from smithers.db import create_smithers_db
from smithers.records import Approval, Execution
from smithers.storage.overview import Overview, Part

# Of each kind the newest; older ones have been shown.
MOST_PARTS = 200
_LONGEST = 100


class Progress(AbstractContextManager["Progress"]):
    """Shows what happens below an execution until the block is left, and then how it ended."""

    def __init__(self, path: Path, id: str, *, resumed: bool) -> None:
        self._path = path
        self._id = id
        self._resumed = resumed
        self._lock = threading.Lock()
        self._closed = False
        self._subscriptions: list[DisposableBase] = []
        self._execution: Execution | None = None
        self._parts: list[Part] = []
        self._gates: list[Approval] = []

    def __enter__(self) -> Progress:
        self._db = create_smithers_db(self._path, read_only=True)
        try:
            self._overview = Overview(self._db.database)
            self._execution = self._db.execution.get(self._id)
            self._begin()
            parts = self._overview.observe(self._id, limit=MOST_PARTS)
            self._subscriptions = [
                self._db.execution.observe(self._id).subscribe(self._take_execution),
                self._db.approvals.observe("pending").subscribe(self._take_gates),
                parts.subscribe(self._take_parts),
            ]
        except BaseException:
            self._db.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for subscription in self._subscriptions:
            subscription.dispose()
        try:
            self._take_execution(self._db.execution.get(self._id))
            self._take_parts(self._overview.everything(self._id, limit=MOST_PARTS))
            with self._lock:
                self._closed = True
        finally:
            self._db.close()
            self._end()

    def _take_execution(self, execution: Execution | None) -> None:
        with self._lock:
            if not self._closed:
                self._execution = execution

    def _take_gates(self, gates: Sequence[Approval]) -> None:
        ours = [gate for gate in gates if gate.execution_id == self._id]
        with self._lock:
            if not self._closed:
                self._tell_gates(ours)
                self._gates = ours

    def _take_parts(self, parts: list[Part]) -> None:
        with self._lock:
            if not self._closed:
                self._tell_parts(parts)
                self._parts = parts

    # -- what the two of them do -----------------------------------------------------------------

    def _begin(self) -> None:
        """Begin to show; nothing has been told yet."""

    def _tell_parts(self, parts: list[Part]) -> None:
        """Show what has become of the parts; called with the lock held."""

    def _tell_gates(self, gates: list[Approval]) -> None:
        """Show which gates wait; called with the lock held."""

    def _end(self) -> None:
        """Show how it ended."""


def waiting(gate: Approval) -> tuple[str, ...]:
    """Say that a gate waits, and how it is answered."""
    answer = f"smithers db approve {shlex.quote(shown_text(gate.key))}"
    return "waiting for an answer", cut(glance(gate.prompt)), answer


def spent(execution: Execution) -> Iterator[str]:
    """Say what an execution has taken so far."""
    yield shown_lasting(execution.started_at, execution.duration_ms)
    if execution.total_agents:
        yield counted(execution.total_agents, "agent")
        yield counted(execution.total_tokens_used, "token")
        yield shown_cost(execution.total_cost_usd)


def counted(count: int, word: str) -> str:
    """Write `1 agent`, `2 agents`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def cut(text: str) -> str:
    """Leave of a text what fits on a line beside other words."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def now() -> datetime:
    """Tell the time in the reader's own zone."""
    return datetime.now().astimezone()
