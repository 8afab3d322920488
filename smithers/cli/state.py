"""`smithers db state | set | delete | history | replay`: the state and its history."""

from __future__ import annotations

import json
from typing import Any

import click

from smithers.cli.output import (
    as_fields,
    print_json,
    print_table,
    shown_change,
    shown_text,
    shown_time,
    shown_value,
)
from smithers.cli.target import (
    json_option,
    limit_option,
    open_for_reading,
    open_for_writing,
    path_option,
)
from smithers.errors import NotFound, SmithersError
from smithers.records import Transition


@click.command()
@path_option
@json_option
@limit_option(None, "Show the first N keys only.")
def state(path: str | None, as_json: bool, limit: int | None) -> None:
    """Show the state as it is now: with --json one object with a value for each key."""
    with open_for_reading(path) as db:
        entries = db.state.entries()[:limit]
    if as_json:
        print_json({entry.key: entry.value for entry in entries})
    elif not entries:
        click.echo("The state is empty.")
    else:
        rows = [
            (shown_text(e.key), shown_value(e.value), shown_time(e.updated_at)) for e in entries
        ]
        print_table(("key", "value", "updated"), rows, folded="value")


@click.command("set")
@path_option
@json_option
@click.option("--trigger", metavar="TEXT", help="What caused the change, for the history.")
@click.argument("key")
@click.argument("value", metavar="JSON")
def set_value(path: str | None, as_json: bool, trigger: str | None, key: str, value: str) -> None:
    """Set KEY to the value that the text JSON stands for: '"review"', 3, '{"a": [1, 2]}'."""
    parsed = _parsed(value)
    with open_for_writing(path) as db:
        _told(db.state.set(key, parsed, trigger), as_json)


@click.command()
@path_option
@json_option
@click.option("--trigger", metavar="TEXT", help="What caused the change, for the history.")
@click.argument("key")
def delete(path: str | None, as_json: bool, trigger: str | None, key: str) -> None:
    """Remove KEY from the state; its history stays."""
    with open_for_writing(path) as db:
        transition = db.state.delete(key, trigger)
    if transition is None:
        raise NotFound("key", key)
    _told(transition, as_json)


@click.command()
@path_option
@json_option
@limit_option(100, "Show the newest N transitions.")
@click.option("--before", metavar="ID", help="Only transitions before this one.")
@click.option("--since", metavar="ID", help="Only transitions after this one.")
@click.argument("key", required=False)
def history(
    path: str | None,
    as_json: bool,
    limit: int,
    before: str | None,
    since: str | None,
    key: str | None,
) -> None:
    """Show what happened to the state, or to KEY, oldest first."""
    with open_for_reading(path) as db:
        transitions = db.state.history(key, limit, before=_id(before), since=_id(since))
    if as_json:
        print_json([as_fields(transition) for transition in transitions])
    elif not transitions:
        click.echo("There is no history.")
    else:
        rows = [
            (t.id, shown_time(t.timestamp), shown_change(t), shown_text(t.trigger))
            for t in transitions
        ]
        print_table(("id", "time", "change", "trigger"), rows, folded="change")


@click.command()
@path_option
@json_option
@click.argument("id")
def replay(path: str | None, as_json: bool, id: str) -> None:
    """Make the whole state what it was after the commit of transition ID.

    This is recorded as new transitions, so it can be undone in the same way.
    """
    with open_for_writing(path) as db:
        transitions = db.state.replay_to(_id(id) or id)
    if as_json:
        print_json([as_fields(transition) for transition in transitions])
    elif not transitions:
        click.echo(f"The state is already what it was at {id}.")
    else:
        for transition in transitions:
            _told(transition, as_json)


def _id(text: str | None) -> str | int | None:
    # "12" is as good as "t12" where everything is text.
    return int(text) if text is not None and text.isdecimal() else text


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        quoted = "'" + json.dumps(text) + "'"
        raise SmithersError(
            f"{text!r} is not JSON ({error}); text needs quotes of its own: {quoted}"
        ) from error


def _told(transition: Transition, as_json: bool) -> None:
    if as_json:
        print_json(as_fields(transition))
    else:
        click.echo(f"{transition.id}  {shown_change(transition)}")
