"""Rows as people and programs read them: a table, records where it is narrow, lines in a pipe."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from smithers.cli.output import ABSENT

if TYPE_CHECKING:
    from rich.text import Text

# Between two columns, in cells of the terminal.
GAP = 3
# A column is never made narrower than this, or than its name up to the second figure.
NARROWEST = 10
LONGEST_NAME = 16
# A longer cell is cut on a terminal: what scrolls away is not read, and a pipe gets it whole.
MOST_LINES = 20
# What a cell that may be folded should have before a spare column is shown beside it.
COMFORTABLE = 24

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a listing.

    Attributes:
        name: what stands above it.
        cells: its cells, whole and without control characters.
        glances: shorter ones for a terminal; where there are none, `cells`.
        whole: whether it is never folded.
        number: whether it is set to the right.
        spare: whether a terminal that is too narrow goes without it, the last one first.
        lines: how many lines of a cell a terminal shows.
    """

    name: str
    cells: Sequence[str]
    glances: Sequence[str] = ()
    whole: bool = False
    number: bool = False
    spare: bool = False
    lines: int = MOST_LINES

    @property
    def seen(self) -> Sequence[str]:
        """The cells as a terminal shows them."""
        return self.glances or self.cells


def print_listing(columns: Sequence[Column]) -> None:
    """Print columns: the more important ones as wide as a terminal is, in a pipe all of them."""
    if not sys.stdout.isatty():
        _print_lines([column.name for column in columns], _rows(c.cells for c in columns))
        return
    width = shutil.get_terminal_size().columns
    # What says nothing of any row takes room from the others.
    shown = [c for c in columns if not (c.spare and set(c.seen) <= {ABSENT})]
    while _comfortable(shown) > width and (spare := [c for c in shown if c.spare]):
        shown.remove(spare[-1])
    _print_on_terminal(shown, width)


def print_table(columns: Sequence[str], rows: Rows, *, whole: Sequence[str] = ()) -> None:
    """Print rows of cells without control characters, every column of each of them.

    On a terminal as a table as wide as that, or else row by row; the columns `whole` are never
    folded. Elsewhere nothing is cut: a line for each row, tabs between the cells.
    """
    if not sys.stdout.isatty():
        _print_lines(columns, rows)
        return
    cells = zip(*rows, strict=True) if rows else [()] * len(columns)
    shown = [
        Column(name, column, whole=name in whole)
        for name, column in zip(columns, cells, strict=True)
    ]
    _print_on_terminal(shown, shutil.get_terminal_size().columns)


def print_nothing(reason: str) -> None:
    """Say why there are no rows; a program that reads the output gets no line at all."""
    click.echo(reason, err=not sys.stdout.isatty())


def table_widths(
    columns: Sequence[str], rows: Rows, *, width: int, whole: Sequence[str] = ()
) -> list[int] | None:
    """Share the width of the terminal out among the columns; None where it is not enough.

    Each gets what it needs as far as that goes; those that need more share the rest evenly.
    """
    from rich.cells import cell_len

    names = [cell_len(column) for column in columns]
    # The name of a column whose cells stay whole may still be folded between its words.
    heads = [
        max(map(cell_len, column.split()), default=0) if column in whole else name
        for column, name in zip(columns, names, strict=True)
    ]
    needs = [
        max(head, *map(cell_len, cells))
        for head, cells in zip(heads, zip(*rows, strict=True), strict=True)
    ]
    widths = [
        need if column in whole else min(need, max(NARROWEST, min(name, LONGEST_NAME)))
        for column, name, need in zip(columns, names, needs, strict=True)
    ]
    left = width - sum(widths) - GAP * (len(columns) - 1)
    if left < 0:
        return None
    while left > 0:
        hungry = [at for at, need in enumerate(needs) if widths[at] < need]
        if not hungry:
            break
        # The narrowest first, so that columns of a like need end with a like width.
        at = min(hungry, key=widths.__getitem__)
        widths[at] += 1
        left -= 1
    return widths


def cut(text: str, most: int) -> str:
    """Cut a text to so many cells of a terminal, with an ellipsis where something is missing."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= most else set_cell_size(text, most - 1).rstrip() + "…"


def _print_lines(names: Sequence[str], rows: Rows) -> None:
    click.echo("\n".join("\t".join(line) for line in (names, *rows)))


def _print_on_terminal(columns: Sequence[Column], width: int) -> None:
    names = [column.name for column in columns]
    rows = _rows(column.seen for column in columns)
    whole = [column.name for column in columns if column.whole]
    widths = table_widths(names, rows, width=width, whole=whole)
    click.echo(_records(columns, rows, width) if widths is None else _table(columns, widths, width))


def _comfortable(columns: Sequence[Column]) -> int:
    from rich.cells import cell_len

    needs = [(max(map(cell_len, (column.name, *column.seen))), column.whole) for column in columns]
    each = [need if whole else min(need, COMFORTABLE) for need, whole in needs]
    return sum(each) + GAP * (len(columns) - 1)


def _table(columns: Sequence[Column], widths: Sequence[int], width: int) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column, share in zip(columns, widths, strict=True):
        table.add_column(
            Text(column.name),
            width=share,
            overflow="fold",
            justify="right" if column.number else "left",
        )
    for row in _rows(column.seen for column in columns):
        cells = zip(row, widths, columns, strict=True)
        table.add_row(*(_folded(cell, share, one.lines) for cell, share, one in cells))
    screen = io.StringIO()
    Console(file=screen, width=width, highlight=False, force_terminal=True).print(table)
    return screen.getvalue().rstrip("\n")


def _folded(cell: str, width: int, most: int) -> Text:
    from rich.cells import cell_len, set_cell_size
    from rich.console import Console
    from rich.text import Text

    text = Text(cut(cell, most * width))
    lines = text.wrap(Console(width=width), width, overflow="fold")
    if len(lines) > most:
        last = lines[most - 1].plain.rstrip()
        last = (last if cell_len(last) < width else set_cell_size(last, width - 1).rstrip()) + "…"
        text = Text("\n").join([*lines[: most - 1], Text(last)])
    return text


def _records(columns: Sequence[Column], rows: Rows, width: int) -> str:
    # A line that is too long is left to the terminal, which folds it and copies it unfolded.
    return "\n\n".join(
        "\n".join(
            cut(f"{column.name}: {cell}", column.lines * width)
            for column, cell in zip(columns, row, strict=True)
        )
        for row in rows
    )


def _rows(columns: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    return list(zip(*columns, strict=True))
