"""`smithers db triggers [retry NAME | drop NAME]`: what changes call, and what was set aside."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import click

from smithers.cli.columns import count_column, text_column, time_column
from smithers.cli.output import (
    ABSENT,
    as_fields,
    glance,
    glance_time,
    print_json,
    shown_change,
    shown_text,
    shown_time,
)
from smithers.cli.tables import Column, print_listing, print_nothing
from smithers.cli.target import (
    json_option,
    limit_option,
    open_for_reading,
    open_for_writing,
    path_option,
)
from smithers.errors import NotFound
from smithers.records import DeadLetter, Trigger


@click.group(invoke_without_command=True)
@path_option
@json_option
@limit_option(100, "Show the first N triggers, and N changes that were set aside.")
@click.pass_context
def triggers(context: click.Context, path: str | None, as_json: bool, limit: int) -> None:
    """List what changes call, and the changes that were set aside.

    By name, with the error of each that is retrying. `behind` is one that has something to handle.
    """
    if context.invoked_subcommand is not None:
        return
    with open_for_reading(path) as db:
        every = db.triggers.list(limit=limit)
        letters = db.triggers.dead(limit=limit)
        none_at_all = not every and not db.triggers.list(limit=1)
    if as_json:
        print_json([_fields(trigger, letters) for trigger in every])
    elif not every:
        print_nothing("There are no triggers." if none_at_all else "No trigger matches.")
    else:
        _print_triggers(every)
        if letters:
            click.echo()
            _print_letters(letters)


@triggers.command()
@path_option
@json_option
@click.argument("name")
@click.pass_context
def retry(context: click.Context, path: str | None, as_json: bool, name: str) -> None:
    """Have what was set aside of trigger NAME handled again."""
    with open_for_writing(path or _path_above(context)) as db:
        count = db.triggers.retry(name)
    if as_json:
        print_json({"trigger": name, "requeued": count})
    else:
        click.echo(f"To be handled again: {_changes(count)} of {shown_text(name)}.")


@triggers.command()
@path_option
@json_option
@click.argument("name")
@click.pass_context
def drop(context: click.Context, path: str | None, as_json: bool, name: str) -> None:
    """Forget trigger NAME, for which no program has a handler any more."""
    with open_for_writing(path or _path_above(context)) as db:
        if not db.triggers.drop(name):
            raise NotFound("trigger", name)
    if as_json:
        print_json({"trigger": name, "dropped": True})
    else:
        click.echo(f"Dropped: {shown_text(name)}.")


def _print_triggers(every: list[Trigger]) -> None:
    print_listing(
        [
            text_column("name", [trigger.name for trigger in every]),
            text_column("on", [trigger.key or trigger.sql for trigger in every]),
            Column("state", [trigger.state for trigger in every], whole=True),
            Column("cursor", [_cursor(trigger) for trigger in every], whole=True, number=True),
            count_column("lag", [trigger.lag for trigger in every], spare=False),
            count_column("dead", [trigger.dead for trigger in every], spare=False),
            count_column("attempts", [trigger.attempts for trigger in every]),
            _next_column([trigger.next_at for trigger in every]),
            Column(
                *("owner", [shown_text(trigger.owner) for trigger in every]),
                whole=True,
                spare=True,
            ),
            _error_column([trigger.error for trigger in every], spare=True),
        ]
    )


def _print_letters(letters: list[DeadLetter]) -> None:
    print_listing(
        [
            text_column("trigger", [letter.trigger for letter in letters]),
            text_column("change", [_change(letter) for letter in letters]),
            _error_column([letter.error for letter in letters]),
            count_column("attempts", [letter.attempts for letter in letters]),
            time_column("set aside", [letter.at for letter in letters], spare=True),
            Column(
                *("retry", ["yes" if letter.requeued else "no" for letter in letters]),
                whole=True,
                spare=True,
            ),
        ]
    )


def _error_column(errors: list[str | None] | list[str], *, spare: bool = False) -> Column:
    # What follows the first line is the traceback.
    heads = [None if error is None else error.partition("\n")[0] for error in errors]
    cells, glances = [shown_text(error) for error in errors], [glance(head) for head in heads]
    return Column("error", cells, glances, lines=2, spare=spare)


def _next_column(moments: Iterable[datetime | None]) -> Column:
    listed = list(moments)
    cells = [ABSENT if moment is None else shown_time(moment) for moment in listed]
    glances = [ABSENT if moment is None else glance_time(moment) for moment in listed]
    return Column("next try", cells, glances, whole=True, spare=True)


def _fields(trigger: Trigger, letters: list[DeadLetter]) -> dict[str, Any]:
    own = [letter for letter in letters if letter.trigger == trigger.name]
    return as_fields(trigger) | {"letters": [_letter_fields(letter) for letter in own]}


def _letter_fields(letter: DeadLetter) -> dict[str, Any]:
    transition = letter.transition
    fields = as_fields(letter)
    return fields | {"transition": None if transition is None else as_fields(transition)}


def _cursor(trigger: Trigger) -> str:
    return ABSENT if trigger.cursor is None else f"t{trigger.cursor}"


def _change(letter: DeadLetter) -> str:
    if letter.transition is None:
        return "rows of the query"
    return f"{letter.transition.id} {shown_change(letter.transition)}"


def _changes(count: int) -> str:
    return "1 change" if count == 1 else f"{count} changes"


def _path_above(context: click.Context) -> str | None:
    # `triggers --path DIR retry NAME` is as good as `triggers retry NAME --path DIR`.
    return None if context.parent is None else context.parent.params.get("path")
