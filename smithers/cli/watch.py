"""`smithers db watch`: every transition as it commits, in whatever process."""

from __future__ import annotations

import queue
from datetime import UTC, datetime

import click

from smithers.cli.output import as_fields, print_json, shown_change, shown_text, shown_time
from smithers.cli.target import json_option, limit_option, open_for_reading, path_option
from smithers.records import Transition


@click.command()
@path_option
@json_option
@limit_option(None, "End after N transitions.")
@click.argument("key", required=False)
def watch(path: str | None, as_json: bool, limit: int | None, key: str | None) -> None:
    """Show every change of the state, or of KEY, as it happens; Ctrl-C ends.

    With --json one line of JSON for each. What was there before is not shown: see `state`.
    """
    arrived: queue.SimpleQueue[Transition | Exception | None] = queue.SimpleQueue()
    with open_for_reading(path, watch=True) as db:
        following = db.state.transitions(key)
        following.subscribe(arrived.put, arrived.put, lambda: arrived.put(None))
        click.echo(f"watching {db.path}; Ctrl-C ends", err=True)
        try:
            _print_all(arrived, limit, as_json)
        except KeyboardInterrupt:
            return  # how a watch ends


def _print_all(
    arrived: queue.SimpleQueue[Transition | Exception | None], limit: int | None, as_json: bool
) -> None:
    shown = 0
    while shown != limit:
        item = arrived.get()
        if isinstance(item, Exception):
            raise item
        if item is None:
            return
        _print(item, as_json)
        shown += 1


def _print(transition: Transition, as_json: bool) -> None:
    if as_json:
        print_json(as_fields(transition))
        return
    late = (datetime.now(UTC) - transition.timestamp).total_seconds() * 1000
    cause = "" if transition.trigger is None else f"  ({shown_text(transition.trigger)})"
    moment = shown_time(transition.timestamp)
    click.echo(f"{moment}  {transition.id}  {shown_change(transition)}{cause}  +{late:.1f} ms")
