"""`smithers db query | stats`: free SQL, and what the database holds in numbers."""

from __future__ import annotations

import sys
from typing import Any

import click

from smithers.cli.output import ABSENT, print_json, shown_text, shown_value
from smithers.cli.tables import print_nothing, print_table
from smithers.cli.target import (
    ValuesCommand,
    json_option,
    limit_option,
    open_for_reading,
    open_for_writing,
    path_option,
)
from smithers.errors import SmithersError
from smithers.storage.reports import WriteRefused


@click.command(cls=ValuesCommand)
@path_option
@json_option
@limit_option(None, "Show the first N rows only.")
@click.option("--write", is_flag=True, help="Allow a statement that writes.")
@click.argument("sql")
@click.argument("params", nargs=-1)
def query(
    path: str | None,
    as_json: bool,
    limit: int | None,
    write: bool,
    sql: str,
    params: tuple[str, ...],
) -> None:
    """Run one SQL statement.

    PARAMS are text, for $1, $2 or ? in it. With --json a blob is the text of its hexadecimal
    digits, and infinity is 9e999.
    """
    with open_for_writing(path) if write else open_for_reading(path) as db:
        try:
            every = db.query(sql, params, write=write)
        except WriteRefused as refusal:
            raise SmithersError(
                f"this statement writes: pass --write to allow it: {refusal.sql!r}"
            ) from refusal
    rows = every[:limit]
    if as_json:
        print_json(rows)
    elif not rows:
        print_nothing(f"Shown: 0 of {len(every)} rows." if every else "No rows.")
    else:
        columns = list(rows[0])
        cells = [[_shown(row[column]) for column in columns] for row in rows]
        numbers = [
            shown_text(column)
            for column in columns
            if all(isinstance(row[column], int | float | None) for row in rows)
        ]
        print_table([shown_text(column) for column in columns], cells, whole=numbers)


@click.command()
@path_option
@json_option
@limit_option(None, "Show the first N tables only.")
def stats(path: str | None, as_json: bool, limit: int | None) -> None:
    """Count the rows of every table.

    Ours come first, then the user's own.
    """
    with open_for_reading(path) as db:
        every = db.stats()
        place = str(db.path)
    counts = dict(list(every.items())[:limit])
    if as_json:
        print_json(counts)
        return
    # No row of the table, so it is kept from programs that read the rows.
    click.echo(place, err=not sys.stdout.isatty())
    if not counts:
        print_nothing(f"Shown: 0 of {len(every)} tables.")
        return
    rows = [(shown_text(table), str(count)) for table, count in counts.items()]
    print_table(("table", "rows"), rows, whole=["rows"])


def _shown(value: Any) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return shown_text(value) if isinstance(value, str) else shown_value(value)
