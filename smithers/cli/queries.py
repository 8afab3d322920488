"""`smithers db query | stats`: free SQL, and what the database holds in numbers."""

from __future__ import annotations

from typing import Any

import click

from smithers.cli.output import ABSENT, print_json, print_table, shown_text, shown_value
from smithers.cli.target import (
    json_option,
    limit_option,
    open_for_reading,
    open_for_writing,
    path_option,
)


@click.command()
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
    """Run one SQL statement. PARAMS are text, for $1, $2 or ? in it."""
    with open_for_writing(path) if write else open_for_reading(path) as db:
        rows = db.query(sql, params, write=write)[:limit]
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("No rows.")
    else:
        columns = list(rows[0])
        cells = [[_shown(row[column]) for column in columns] for row in rows]
        widest = max(range(len(columns)), key=lambda at: max(len(row[at]) for row in cells))
        print_table(columns, cells, folded=columns[widest])


@click.command()
@path_option
@json_option
@limit_option(None, "Show the first N tables only.")
def stats(path: str | None, as_json: bool, limit: int | None) -> None:
    """Count the rows of every table."""
    with open_for_reading(path) as db:
        counts = dict(list(db.stats().items())[:limit])
        place = str(db.path)
    if as_json:
        print_json(counts)
        return
    click.echo(place)
    rows = [(table, str(count)) for table, count in counts.items()]
    print_table(("table", "rows"), rows, folded="table")


def _shown(value: Any) -> str:
    if value is None:
        return ABSENT
    return shown_text(value) if isinstance(value, str) else shown_value(value)
