"""`smithers db export | import | prune`: moving a database, and removing what is old."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import click

from reactive_sqlite.opening import path_text
from smithers.cli.output import print_json, shown_size, shown_text
from smithers.cli.tables import print_table
from smithers.cli.target import json_option, open_for_reading, open_for_writing, path_option
from smithers.errors import SmithersError

_AGE = re.compile(r"(\d{1,6})(s|min|h|d|w)", re.ASCII)
_UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Moment(click.ParamType[datetime | timedelta]):
    """A time, or an age like `30d`."""

    name = "moment"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime | timedelta:
        """Read it; a time without a zone is one of the reader's own."""
        text = str(value)
        if age := _AGE.fullmatch(text):
            return timedelta(**{_UNITS[age[2]]: int(age[1])})
        try:
            return datetime.fromisoformat(text).astimezone()
        except (ValueError, OverflowError):
            self.fail(
                f"{text!r} is no age (90s, 30min, 12h, 30d, 4w) and no date or time in ISO form",
                param,
                ctx,
            )


@click.command()
@path_option
@json_option
@click.option("--force", is_flag=True, help="Replace FILE when there is one.")
@click.argument("file")
def export(path: str | None, as_json: bool, force: bool, file: str) -> None:
    """Write the whole database to FILE, as JSON Lines.

    Lossless: the same content gives the same bytes. Tables of your own are not in it. It is one
    state of the database, while others go on writing.
    """
    if not force and Path(file).exists():
        raise SmithersError(f"{file!r} exists: pass --force to replace it")
    with open_for_reading(path) as db:
        counts = db.dump(file)
    _print_counts(counts, as_json, f"{sum(counts.values()):,} rows written to {shown_text(file)}")


@click.command("import")
@path_option
@json_option
@click.option("--create", is_flag=True, help="Make the database when it is missing.")
@click.argument("file")
def import_(path: str | None, as_json: bool, create: bool, file: str) -> None:
    """Take in the rows of FILE, which `export` has written.

    All or nothing. The database is empty, or the one that was exported: then what is there already
    stays as it is, and importing again adds nothing.
    """
    with open(path_text(file, "the path of a dump"), "rb"):
        pass  # nothing is made for what cannot be read
    with open_for_writing(path, create=create) as db:
        counts = db.load(file)
    _print_counts(counts, as_json, f"{sum(counts.values()):,} rows added from {shown_text(file)}")


@click.command()
@path_option
@json_option
@click.option(
    "--before",
    type=Moment(),
    metavar="WHEN",
    help="What ended before then: an age (12h, 30d, 4w) or a date or time (2026-01-31).",
)
@click.option(
    "--keep",
    type=click.IntRange(min=0, max=2**63 - 1),
    metavar="N",
    help="Keep the newest N executions that have ended.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing, tell what would be removed.")
def prune(
    path: str | None,
    as_json: bool,
    before: datetime | timedelta | None,
    keep: int | None,
    dry_run: bool,
) -> None:
    """Remove old executions and old history.

    With --before and --keep an execution goes only where both say so. What runs stays, and so does
    the state as it is. Commits, snapshots and reviews stay, without their execution.
    """
    if before is None and keep is None:
        raise click.UsageError("pass --before, --keep or both: nothing else says what is old")
    with open_for_reading(path) if dry_run else open_for_writing(path) as db:
        pruned = db.prune(before=before, keep_executions=keep, dry_run=dry_run)
    if as_json:
        print_json({"rows": pruned.rows, "bytes_returned": pruned.bytes_returned})
        return
    count = sum(pruned.rows.values())
    if dry_run:
        told = f"{count:,} rows would be removed"
    else:
        told = f"{count:,} rows removed, {shown_size(pruned.bytes_returned or 0)} returned"
    _print_counts(pruned.rows, as_json, told)


def _print_counts(counts: Mapping[str, int], as_json: bool, told: str) -> None:
    """Print how many rows of each table, and on a terminal all in all."""
    if as_json:
        print_json(counts)
        return
    rows = [(table, str(count)) for table, count in counts.items() if count]
    if rows:
        print_table(("table", "rows"), rows, whole=["rows"])
    click.echo(told, err=not sys.stdout.isatty())
