"""Rows as people and programs read them: a table, records where it is narrow, lines in a pipe."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Sequence

import click

# Between two columns, in cells of the terminal.
GAP = 3
# A column is never made narrower than this, or than its name up to the second figure.
NARROWEST = 10
LONGEST_NAME = 16
# A longer cell is cut on a terminal: what scrolls away is not read, and a pipe gets it whole.
MOST_LINES = 20

Rows = Sequence[Sequence[str]]


def print_table(columns: Sequence[str], rows: Rows, *, whole: Sequence[str] = ()) -> None:
    """Print rows of cells without control characters, every column of each of them.

    On a terminal as a table as wide as that, or else row by row; the columns `whole` are never
    folded. Elsewhere nothing is cut: a line for each row, tabs between the cells.
    """
    if not sys.stdout.isatty():
        click.echo("\n".join("\t".join(line) for line in (columns, *rows)))
        return
    width = shutil.get_terminal_size().columns
    widths = table_widths(columns, rows, width=width, whole=whole)
    click.echo(
        _records(columns, rows, width) if widths is None else _table(columns, rows, widths, width)
    )


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
    needs = [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)]
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


def _table(columns: Sequence[str], rows: Rows, widths: Sequence[int], width: int) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column, share in zip(columns, widths, strict=True):
        table.add_column(Text(column), width=share, overflow="fold")
    for row in rows:
        cells = zip(row, widths, strict=True)
        table.add_row(*(Text(_cut(cell, MOST_LINES * share)) for cell, share in cells))
    screen = io.StringIO()
    Console(file=screen, width=width, highlight=False, force_terminal=True).print(table)
    return screen.getvalue().rstrip("\n")


def _records(columns: Sequence[str], rows: Rows, width: int) -> str:
    # A line that is too long is left to the terminal, which folds it and copies it unfolded.
    most = MOST_LINES * width
    return "\n\n".join(
        "\n".join(
            _cut(f"{column}: {cell}", most) for column, cell in zip(columns, row, strict=True)
        )
        for row in rows
    )


def _cut(text: str, most: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= most else set_cell_size(text, most - 1) + "…"
