"""What a workflow does on a terminal: a tree, kept up to date below what the script prints."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from smithers.cli.output import glance, glance_id
from smithers.cli.progress import Progress, spent, waiting
from smithers.cli.tree import STYLES, print_parts, tree_lines
from smithers.records import Execution
from smithers.storage.overview import Part

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.text import Text

FRAMES_PER_SECOND = 4


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

        Console(highlight=False).print(head(self._execution), no_wrap=True, overflow="ellipsis")
        if self._parts:
            print_parts([part for part in self._parts if part.kind != "tool"])

    def _drawn(self, console: Console) -> RenderableType:
        from rich.text import Text

        with self._lock:
            execution, parts, gates = self._execution, self._parts, self._gates
        lines = [] if execution is None else [head(execution)]
        asked = [Text("  ".join(waiting(gate)), "bold yellow") for gate in gates]
        # One line stays free for the cursor, one for how many are left out.
        shown = most_telling(parts, console.height - len(lines) - len(asked) - 2)
        if len(shown) < len(parts):
            lines.append(
                Text(f"… {len(parts) - len(shown)} more, see `smithers db execution ID`", "dim")
            )
        lines += [*tree_lines(shown, console.width), *asked]
        for line in lines:
            line.truncate(console.width, overflow="ellipsis")
        return Text("\n").join(lines)


def head(execution: Execution) -> Text:
    """Write an execution and what it has spent as one line."""
    from rich.text import Text

    line = Text.assemble((glance(execution.name), "bold"), (f" {glance_id(execution.id)}", "dim"))
    line.append(f"  {execution.status}", STYLES.get(execution.status, ""))
    return line.append("".join(f"  {word}" for word in spent(execution)))


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
