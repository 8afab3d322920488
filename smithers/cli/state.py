"""`smithers db state | set | delete | history | replay`: the state and its history."""

from __future__ import annotations

import json
import shlex
from typing import Any

import click

from reactive_sqlite.arguments import shown
from smithers.cli.output import (
    as_fields,
    print_json,
    shown_change,
    shown_text,
    shown_times,
    shown_value,
)
from smithers.cli.tables import print_nothing, print_table
from smithers.cli.target import (
    ValuesCommand,
    json_option,
    limit_option,
    open_for_reading,
    open_for_writing,
    path_option,
)
from smithers.codec import check_key, check_trigger, encode
from smithers.errors import NotFound, SmithersError
from smithers.records import Transition

# Of longer ones only the beginning is repeated in an error.
LONGEST_SHOWN = 200


@click.command()
@path_option
@json_option
@limit_option(None, "Show the first N keys only.")
def state(path: str | None, as_json: bool, limit: int | None) -> None:
    """Show the state as it is now.

    With --json one object with a value for each key.
    """
    with open_for_reading(path) as db:
        every = db.state.entries()
    entries = every[:limit]
    if as_json:
        print_json({entry.key: entry.value for entry in entries})
    elif not entries:
        print_nothing(f"Shown: 0 of {len(every)} keys." if every else "The state is empty.")
    else:
        updated, times = shown_times("updated", (entry.updated_at for entry in entries))
        keys = [shown_text(entry.key) for entry in entries]
        values = [shown_value(entry.value) for entry in entries]
        rows = list(zip(keys, values, times, strict=True))
        print_table(("key", "value", updated), rows, whole=[updated])


@click.command("set", cls=ValuesCommand)
@path_option
@json_option
@click.option("--trigger", metavar="TEXT", help="What caused the change, for the history.")
@click.option("--create", is_flag=True, help="Make the database when it is missing.")
@click.argument("key")
@click.argument("value", metavar="JSON")
def set_value(
    path: str | None, as_json: bool, trigger: str | None, create: bool, key: str, value: str
) -> None:
    """Set KEY to the value of the text JSON.

    Text needs quotes of its own: '"review"'. Others: 3, -1.5, true, null, '{"a": [1, 2]}'.
    """
    parsed = _parsed(value)
    # Nothing is made for what could not be kept in it.
    check_key(key)
    check_trigger(trigger)
    encode(parsed, name=f"state {shown(key)}")
    with open_for_writing(path, create=create) as db:
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
    """Show what happened to the state, oldest first.

    With KEY only what happened to that key.
    """
    with open_for_reading(path) as db:
        transitions = db.state.history(key, limit, before=_id(before), since=_id(since))
        none_at_all = not transitions and not db.state.history(limit=1)
    if as_json:
        print_json([as_fields(transition) for transition in transitions])
    elif not transitions:
        print_nothing("There is no history." if none_at_all else "No transition matches.")
    else:
        time, times = shown_times("time", (t.timestamp for t in transitions))
        rows = [
            (t.id, moment, shown_change(t), shown_text(t.trigger))
            for t, moment in zip(transitions, times, strict=True)
        ]
        print_table(("id", time, "change", "trigger"), rows, whole=["id", time])


@click.command()
@path_option
@json_option
@click.argument("id")
def replay(path: str | None, as_json: bool, id: str) -> None:
    """Make the state what it was at transition ID.

    That is the whole state after the commit that wrote the transition. Going there is recorded as
    new transitions, so it can be undone in the same way.
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
    # What has more digits than one can have is told as it is.
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else text


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if len(text) > LONGEST_SHOWN:
            raise SmithersError(f"{shown(text)} is not JSON ({error})") from error
        quoted = shlex.quote(json.dumps(text, ensure_ascii=False))
        raise SmithersError(
            f"{text!r} is not JSON ({error}); text needs quotes of its own: {quoted}"
        ) from error


def _told(transition: Transition, as_json: bool) -> None:
    if as_json:
        print_json(as_fields(transition))
    else:
        click.echo(f"{transition.id}  {shown_change(transition)}")
