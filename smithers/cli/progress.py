"""What a workflow does, while it does it: a tree on a terminal, a line for each event in a pipe.

It is seen through a handle of its own, so that a script that keeps the event loop busy does not
hold it up, and it is told by observed queries; a terminal is drawn anew for its clock only.
"""

from __future__ import annotations

import heapq
import os
import shlex
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import click
from reactivex.abc import DisposableBase

from smithers.cli.output import (
    glance,
    glance_id,
    shown_cost,
    shown_duration,
    shown_lasting,
    shown_text,
)
from smithers.cli.tree import STYLES, print_parts, tree_lines
from smithers.db import create_smithers_db
from smithers.records import Approval, Execution
from smithers.storage.overview import Overview, Part

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.text import Text

# Of each kind the newest; older ones have been shown.
MOST_PARTS = 200
FRAMES_PER_SECOND = 4
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


def progress(path: Path, id: str, *, resumed: bool) -> Progress:
    """Show an execution as stdout takes it."""
    live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return (Screen if live else Lines)(path, id, resumed=resumed)


# -- in a pipe -----------------------------------------------------------------------------------


class Lines(Progress):
    """A line for each event, as it happens."""

    _known: dict[str, str] | None = None

    def _begin(self) -> None:
        # What an earlier run has done is no event of this one.
        before = self._overview.everything(self._id, limit=MOST_PARTS) if self._resumed else []
        self._known = {part.id: part.status for part in before}
        execution = self._execution
        if execution is None:
            return
        done = Counter(part.kind for part in before if part.status == "completed")
        counts = ", ".join(_counted(count, kind) for kind, count in sorted(done.items()))
        what = f"resumed{f', with {counts} completed' if counts else ''}"
        _say(
            _now(), f"{shown_text(execution.name)} {what if self._resumed else 'started'}", self._id
        )

    def _tell_parts(self, parts: list[Part]) -> None:
        known = self._known or {}
        events = [event for part in parts for event in _events(part, known.get(part.id))]
        for at, *words in sorted(events, key=lambda event: event[0]):
            _say(at, *words)
        self._known = {**known, **{part.id: part.status for part in parts}}

    def _tell_gates(self, gates: list[Approval]) -> None:
        known, waiting = ({gate.id for gate in each} for each in (self._gates, gates))
        for gate in self._gates:
            if gate.id not in waiting:
                _say(_now(), f"gate {shown_text(gate.key)} answered")
        for gate in gates:
            if gate.id not in known:
                _say(gate.requested_at, *_waiting(gate))

    def _end(self) -> None:
        execution = self._execution
        if execution is not None:
            words = (f"{shown_text(execution.name)} {execution.status}", *_spent(execution))
            _say(_now(), *words)


def _events(part: Part, known: str | None) -> Iterator[tuple[datetime, *tuple[str, ...]]]:
    """Tell what has happened to a part since its status was known."""
    if part.kind == "tool" or part.status == known:
        return
    name = " ".join(_named(part))
    if known is None:
        yield part.started_at, f"{name} started", _cut(glance(part.text)) if part.text else ""
    if part.status == "running":
        if known is not None:
            yield _now(), f"{name} goes on"
        return
    words = [f"{name} {part.status}", shown_duration(part.duration_ms)]
    if part.kind == "agent":
        words += [_counted(part.count, "tool call"), _counted(part.tokens, "token")]
        words.append(shown_cost(part.cost_usd))
    if part.error:
        words.append(_cut(glance(part.error.splitlines()[0])))
    yield (part.completed_at or _now(), *words)


def _named(part: Part) -> Iterator[str]:
    yield part.kind
    yield shown_text(part.name)
    if part.kind == "phase" and part.count:
        yield f"#{part.count}"
    if part.kind == "agent":
        yield glance_id(part.id)


def _say(at: datetime, *words: str) -> None:
    line = "  ".join(word for word in (f"{at.astimezone():%H:%M:%S}", *words) if word)
    try:
        click.echo(line)
    except BrokenPipeError:
        _read_no_more()


def _read_no_more() -> None:
    """Go on without a reader: the workflow is not the pipe's, and what it does is recorded."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


# -- on a terminal -------------------------------------------------------------------------------


class Screen(Progress):
    """A tree below what the script prints."""

    _live: Live | None = None

    def __enter__(self) -> Progress:
        super().__enter__()
        from rich.console import Console
        from rich.live import Live

        console = Console(highlight=False)
        self._live = Live(
            console=console,
            get_renderable=lambda: self._drawn(console),
            refresh_per_second=FRAMES_PER_SECOND,
            transient=True,
        )
        self._live.start()
        return self

    def _end(self) -> None:
        if self._live is not None:
            self._live.stop()
        if self._execution is None:
            return
        from rich.console import Console

        Console(highlight=False).print(_head(self._execution), no_wrap=True, overflow="ellipsis")
        if self._parts:
            print_parts([part for part in self._parts if part.kind != "tool"])

    def _drawn(self, console: Console) -> RenderableType:
        from rich.text import Text

        with self._lock:
            execution, parts, gates = self._execution, self._parts, self._gates
        lines = [] if execution is None else [_head(execution)]
        asked = [Text("  ".join(_waiting(gate)), "bold yellow") for gate in gates]
        # One line stays free for the cursor, one for how many are left out.
        shown = most_telling(parts, console.height - len(lines) - len(asked) - 2)
        if len(shown) < len(parts):
            lines.append(
                Text(f"… {len(parts) - len(shown)} more, see `smithers db current`", "dim")
            )
        lines += [*tree_lines(shown, console.width), *asked]
        for line in lines:
            line.truncate(console.width, overflow="ellipsis")
        return Text("\n").join(lines)


def _head(execution: Execution) -> Text:
    from rich.text import Text

    line = Text.assemble((glance(execution.name), "bold"), (f" {glance_id(execution.id)}", "dim"))
    line.append(f"  {execution.status}", STYLES.get(execution.status, ""))
    return line.append("".join(f"  {word}" for word in _spent(execution)))


def most_telling(parts: Sequence[Part], room: int) -> list[Part]:
    """Choose what fits: what has ended goes, from the oldest, but nothing above what stays."""
    children = Counter(id for part in parts for id in part.parents)
    every = {part.id: part for part in parts}
    leaves = [(part.started_at, part.id) for part in parts if _may_go(part, children)]
    heapq.heapify(leaves)
    while len(every) > room and leaves:
        _, id = heapq.heappop(leaves)
        for above in every.pop(id).parents:
            children[above] -= 1
            if above in every and _may_go(every[above], children):
                heapq.heappush(leaves, (every[above].started_at, above))
    return list(every.values())[: max(room, 0)]


def _may_go(part: Part, children: Counter[str]) -> bool:
    return part.status != "running" and not children[part.id]


# -- words ---------------------------------------------------------------------------------------


def _waiting(gate: Approval) -> tuple[str, ...]:
    answer = f"smithers db approve {shlex.quote(shown_text(gate.key))}"
    return "waiting for an answer", _cut(glance(gate.prompt)), answer


def _spent(execution: Execution) -> Iterator[str]:
    yield shown_lasting(execution.started_at, execution.duration_ms)
    if execution.total_agents:
        yield _counted(execution.total_agents, "agent")
        yield _counted(execution.total_tokens_used, "token")
        yield shown_cost(execution.total_cost_usd)


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _now() -> datetime:
    return datetime.now().astimezone()
