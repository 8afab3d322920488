"""`smithers db check`: whether a database file is sound."""

from __future__ import annotations

import sys

import click

from smithers.cli.output import as_fields, print_json, shown_text
from smithers.cli.tables import Column, print_listing
from smithers.cli.target import json_option, open_for_reading, path_option


@click.command()
@path_option
@json_option
@click.option("--quick", is_flag=True, help="Do not compare indexes with their tables.")
@click.pass_context
def check(context: click.Context, path: str | None, as_json: bool, quick: bool) -> None:
    """Look for what is wrong with the database.

    Nothing is changed or mended. Ends with 1 when there is an error, with 0 when there are
    warnings only. With --json a list, empty where all is well.
    """
    with open_for_reading(path) as db:
        found = db.check(quick=quick)
        place = shown_text(str(db.path))
    errors = sum(finding.level == "error" for finding in found)
    if as_json:
        print_json([as_fields(finding) for finding in found])
    elif not found:
        click.echo(f"{place} is sound.")
    else:
        print_listing(
            [
                Column("level", [finding.level for finding in found], whole=True),
                Column("check", [finding.check for finding in found], whole=True),
                Column("message", [shown_text(finding.message) for finding in found]),
            ]
        )
        warnings = len(found) - errors
        told = f"{place}: {_counted(errors, 'error')}, {_counted(warnings, 'warning')}"
        click.echo(told, err=not sys.stdout.isatty())
    if errors:
        context.exit(1)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
