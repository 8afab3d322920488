"""`smithers db watch`: an overview that is live, or every transition as it commits."""

from __future__ import annotations

import io
import queue
import select
import sys
from datetime import UTC, datetime

import click

from smithers.cli.board import Board, is_shown
from smithers.cli.output import as_fields, print_json, shown_change, shown_text, shown_time
from smithers.cli.target import json_option, limit_option, open_for_reading, path_option
from smithers.records import Transition

# How often a quiet watch asks whether somebody still reads.
READER_SECONDS = 0.5


@click.command()
@path_option
@json_option
@limit_option(None, "End after N transitions.")
@click.argument("key", required=False)
def watch(path: str | None, as_json: bool, limit: int | None, key: str | None) -> None:
    """Show what happens, as it happens; Ctrl-C ends.

    On a terminal that is an overview: what runs, what waits for an answer, the newest changes of
    the state. In a pipe, with KEY (only the changes of that key), --limit or --json (one line of
    JSON for each) it is a line for every change from now on.
    """
    arrived: queue.SimpleQueue[Transition | Exception | None] = queue.SimpleQueue()
    with open_for_reading(path, watch=True) as db:
        if key is None and limit is None and not as_json and is_shown():
            Board(db).show()
            return
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
        try:
            item = arrived.get(timeout=READER_SECONDS)
        except queue.Empty:
            _check_reader()
            continue
        if isinstance(item, Exception):
            raise item
        if item is None:
            return
        _print(item, as_json)
        shown += 1


def _check_reader() -> None:
    """Raise BrokenPipeError when nobody can read any more: `watch | head -1` ends by itself."""
    watched = select.poll()
    try:
        # Nothing is asked for, since errors are told anyway.
        watched.register(sys.stdout, 0)
    except io.UnsupportedOperation:
        return  # no file but an object, whose reader is its owner
    if any(event & select.POLLERR for _, event in watched.poll(0)):
        raise BrokenPipeError


def _print(transition: Transition, as_json: bool) -> None:
    if as_json:
        print_json(as_fields(transition))
        return
    # The clock may have been set back since.
    late = max(0.0, (datetime.now(UTC) - transition.timestamp).total_seconds() * 1000)
    cause = "" if transition.trigger is None else f"  ({shown_text(transition.trigger)})"
    moment = shown_time(transition.timestamp)
    click.echo(f"{moment}  {transition.id}  {shown_change(transition)}{cause}  +{late:.1f} ms")
