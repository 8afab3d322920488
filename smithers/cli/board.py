"""What goes on in a database, on a terminal: drawn anew as it changes, until Ctrl-C."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from smithers.cli.output import glance_time, shown_change, shown_text
from smithers.cli.progress import now, waiting
from smithers.cli.screen import head, most_telling
from smithers.cli.tree import tree_lines
from smithers.db import SmithersDB
from smithers.records import Approval, Execution, Transition
from smithers.storage.overview import Overview, Part

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

FRAMES_PER_SECOND = 4
NEWEST_CHANGES = 6
# At least so much of the screen is kept for what the executions do.
_MOST_GATES = 4


class Board:
    """Executions with what runs below them, gates that wait, the newest changes of the state."""

    def __init__(self, db: SmithersDB) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._executions: Sequence[Execution] = ()
        self._running: Sequence[Part] = ()
        self._gates: Sequence[Approval] = ()
        self._changes: deque[Transition] = deque(maxlen=NEWEST_CHANGES)

    def show(self) -> None:
        """Draw until Ctrl-C. Raises what ends the following: the file was replaced, say."""
        from rich.console import Console
        from rich.live import Live

        console = Console(highlight=False)
        db = self._db
        self._changes.extend(db.state.history(limit=NEWEST_CHANGES))
        followed = db.database.observe_many(
            db.executions.observe(),
            Overview(db.database).observe_running(),
            db.approvals.observe("pending"),
        )
        subscriptions = [
            followed.subscribe(self._take, self._end, self._ended.set),
            db.state.transitions().subscribe(self._take_change),
        ]
        try:
            with Live(
                console=console,
                get_renderable=lambda: self._drawn(console),
                refresh_per_second=FRAMES_PER_SECOND,
                screen=True,
            ):
                self._ended.wait()
        except KeyboardInterrupt:
            return  # how it ends
        finally:
            for subscription in subscriptions:
                subscription.dispose()
        if self._error is not None:
            raise self._error

    def _take(self, found: tuple[Sequence[Execution], Sequence[Part], Sequence[Approval]]) -> None:
        with self._lock:
            self._executions, self._running, self._gates = found

    def _take_change(self, transition: Transition) -> None:
        with self._lock:
            self._changes.append(transition)

    def _end(self, error: Exception) -> None:
        self._error = error
        self._ended.set()

    def _drawn(self, console: Console) -> RenderableType:
        from rich.text import Text

        with self._lock:
            executions, running, gates = self._executions, self._running, self._gates
            changes = list(self._changes)
        top = [Text(f"{now():%H:%M:%S}  Ctrl-C ends  {self._db.path}", "dim")]
        top += [Text("  ".join(waiting(gate)), "bold yellow") for gate in gates[:_MOST_GATES]]
        below = [_change(one) for one in reversed(changes)]
        room = console.height - len(top) - min(len(below), max(console.height // 3, 1)) - 1
        lines = [*top, *_lines(executions, running, room, console.width)]
        if below:
            lines += [Text(), *below]
        shown = lines[: console.height]
        for line in shown:
            line.truncate(console.width, overflow="ellipsis")
        return Text("\n", no_wrap=True, overflow="crop").join(shown)


def is_shown() -> bool:
    """Tell whether the output is a terminal on which something can be drawn anew."""
    from rich.console import Console

    console = Console()
    return console.is_terminal and not console.is_dumb_terminal


def _lines(
    executions: Sequence[Execution], running: Sequence[Part], room: int, width: int
) -> Iterator[Text]:
    from rich.text import Text

    if not executions:
        yield Text("No execution yet: `smithers run SCRIPT` or db.run() begins one.")
    active = [one for one in executions if one.status == "running"]
    ended = [one for one in executions if one.status != "running"]
    # A line for each that runs, one for that which has ended last; the rest is for what they do.
    trees = most_telling(running, room - len(active) - min(len(ended), 1))
    left = room - len(active) - len(trees)
    for execution in active:
        yield head(execution)
        yield from tree_lines([one for one in trees if one.execution_id == execution.id], width)
    yield from map(head, ended[: max(left, 0)])


def _change(transition: Transition) -> Text:
    from rich.text import Text

    cause = "" if transition.trigger is None else f"  ({shown_text(transition.trigger)})"
    moment = glance_time(transition.timestamp)[-5:]
    return Text.assemble(
        (f"{moment}  {transition.id}  ", "dim"), shown_change(transition), (cause, "dim")
    )
