"""What a workflow does as lines in a pipe: one for each event, as it happens."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from datetime import datetime
from types import TracebackType
from typing import Any

import click

from smithers.cli.output import glance, glance_id, shown_cost, shown_duration, shown_text
from smithers.cli.progress import MOST_PARTS, Progress, counted, cut, now, spent, waiting
from smithers.records import Approval
from smithers.storage.overview import Part


class Lines(Progress):
    """A line for each event, as it happens."""

    _known: dict[str, str] | None = None

    def __enter__(self) -> Progress:
        with ExitStack() as stack:
            stack.enter_context(_read_or_not())
            super().__enter__()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._stack:
            super().__exit__(kind, error, trace)

    def _begin(self) -> None:
        # What an earlier run has done is no event of this one.
        before = self._overview.everything(self._id, limit=MOST_PARTS) if self._resumed else []
        self._known = {part.id: part.status for part in before}
        execution = self._execution
        if execution is None:
            return
        done = Counter(part.kind for part in before if part.status == "completed")
        counts = ", ".join(counted(count, kind) for kind, count in sorted(done.items()))
        what = f"resumed{f', with {counts} completed' if counts else ''}"
        _say(
            now(), f"{shown_text(execution.name)} {what if self._resumed else 'started'}", self._id
        )

    def _tell_parts(self, parts: list[Part]) -> None:
        known = self._known or {}
        events = [event for part in parts for event in _events(part, known.get(part.id))]
        for at, *words in sorted(events, key=lambda event: event[0]):
            _say(at, *words)
        self._known = {**known, **{part.id: part.status for part in parts}}

    def _tell_gates(self, gates: list[Approval]) -> None:
        known, pending = ({gate.id for gate in each} for each in (self._gates, gates))
        for gate in self._gates:
            if gate.id not in pending:
                _say(now(), f"gate {shown_text(gate.key)} answered")
        for gate in gates:
            if gate.id not in known:
                _say(gate.requested_at, *waiting(gate))

    def _end(self) -> None:
        execution = self._execution
        if execution is not None:
            words = (f"{shown_text(execution.name)} {execution.status}", *spent(execution))
            _say(now(), *words)


def _events(part: Part, known: str | None) -> Iterator[tuple[datetime, *tuple[str, ...]]]:
    """Tell what has happened to a part since its status was known."""
    if part.kind == "tool" or part.status == known:
        return
    name = " ".join(_named(part))
    if known is None:
        yield part.started_at, f"{name} started", cut(glance(part.text)) if part.text else ""
    if part.status == "running":
        if known is not None:
            yield now(), f"{name} goes on"
        return
    words = [f"{name} {part.status}", shown_duration(part.duration_ms)]
    if part.kind == "agent":
        words += [counted(part.count, "tool call"), counted(part.tokens, "token")]
        words.append(shown_cost(part.cost_usd))
    if part.error:
        words.append(cut(glance(part.error.splitlines()[0])))
    yield (part.completed_at or now(), *words)


def _named(part: Part) -> Iterator[str]:
    yield part.kind
    yield shown_text(part.name)
    if part.kind == "phase" and part.count:
        yield f"#{part.count}"
    if part.kind == "agent":
        yield glance_id(part.id)


def _say(at: datetime, *words: str) -> None:
    click.echo("  ".join(word for word in (f"{at.astimezone():%H:%M:%S}", *words) if word))


@contextmanager
def _read_or_not() -> Generator[None]:
    """Go on without a reader: a workflow is not the pipe's, and what it does is recorded."""
    out = sys.stdout
    try:
        pipe = io.BufferedWriter(_Pipe(out.fileno(), "wb", closefd=False))
    except io.UnsupportedOperation:
        yield  # no file but an object, which has no reader that could go
        return
    out.flush()
    with io.TextIOWrapper(pipe, out.encoding, "backslashreplace") as told, redirect_stdout(told):
        yield


class _Pipe(io.FileIO):
    """A pipe that swallows what nobody reads."""

    def write(self, data: Any, /) -> int:
        """Write what is read."""
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes
