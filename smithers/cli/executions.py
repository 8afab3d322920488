"""`smithers db executions | execution | current | cancel`: the runs of a workflow."""

from __future__ import annotations

from collections.abc import Iterator

import click

from smithers.cli.columns import (
    cost_column,
    count_column,
    id_column,
    text_column,
    time_column,
    took_column,
)
from smithers.cli.ids import whole_id
from smithers.cli.output import (
    as_fields,
    print_json,
    shown_cost,
    shown_lasting,
    shown_text,
    shown_time,
    shown_value,
)
from smithers.cli.tables import Column, print_listing, print_nothing
from smithers.cli.target import (
    json_option,
    limit_option,
    open_for_reading,
    open_for_writing,
    path_option,
)
from smithers.cli.tree import print_fields, print_parts
from smithers.db import SmithersDB
from smithers.errors import NotFound
from smithers.records import Execution
from smithers.schema.executions import EXECUTION_STATUSES
from smithers.storage.overview import Overview, Part

OPEN = ("running", "interrupted")


@click.command()
@path_option
@json_option
@limit_option(20, "Show the newest N executions.")
@click.option(
    "--status",
    type=click.Choice(EXECUTION_STATUSES),
    metavar="STATUS",
    help=f"Only those that are {', '.join(EXECUTION_STATUSES[:-1])} or {EXECUTION_STATUSES[-1]}.",
)
def executions(path: str | None, as_json: bool, limit: int, status: str | None) -> None:
    """List the runs of the workflow, newest first.

    `running (dead)` is one whose owner has ended without a word: it can be resumed.
    """
    with open_for_reading(path) as db:
        every = db.executions.list(status, limit)
        none_at_all = not every and not db.executions.list(limit=1)
    if as_json:
        print_json([as_fields(execution) for execution in every])
    elif not every:
        print_nothing("There are no executions." if none_at_all else "No execution matches.")
    else:
        print_listing(
            [
                id_column(execution.id for execution in every),
                text_column("name", [execution.name for execution in every]),
                Column("status", [_status(execution) for execution in every], whole=True),
                time_column("started", [execution.started_at for execution in every]),
                took_column([(e.started_at, e.duration_ms) for e in every]),
                cost_column([execution.total_cost_usd for execution in every]),
                count_column("agents", [execution.total_agents for execution in every]),
                count_column("tokens", [execution.total_tokens_used for execution in every]),
                count_column("tools", [execution.total_tool_calls for execution in every]),
                Column(
                    *("owner", [shown_text(execution.owner) for execution in every]),
                    whole=True,
                    spare=True,
                ),
            ]
        )


@click.command()
@path_option
@json_option
@limit_option(100, "Show the newest N phases, steps and agents.")
@click.argument("id")
def execution(path: str | None, as_json: bool, limit: int, id: str) -> None:
    """Show an execution and the tree below it.

    ID may be its beginning or its end, from four characters on. With --json the tree is the list
    `parts`.
    """
    with open_for_reading(path) as db:
        _, whole = whole_id(db, id, "execution")
        record = _existing(db, whole)
        parts = Overview(db.database).everything(whole, limit=limit)
    _print_execution(record, parts, as_json)
    counts = [sum(part.kind == kind for part in parts) for kind in ("phase", "step", "agent")]
    if not as_json and limit in counts:
        click.echo(f"Of each kind the newest {limit} are shown; --limit shows more.", err=True)


@click.command()
@path_option
@json_option
@limit_option(100, "Show the newest N of each kind.")
def current(path: str | None, as_json: bool, limit: int) -> None:
    """Show what runs now, as a tree.

    That is the newest running execution and what is open below it. An owner that has ended is
    shown as dead. With --json null where nothing runs.
    """
    with open_for_reading(path) as db:
        record = db.executions.current()
        parts = [] if record is None else Overview(db.database).running(record.id, limit=limit)
        others = len(db.executions.list("running", limit=None)) - 1
    if record is None:
        if as_json:
            print_json(None)
        else:
            print_nothing("Nothing is running.")
        return
    _print_execution(record, parts, as_json)
    if others > 0 and not as_json:
        more = "1 more execution is" if others == 1 else f"{others} more executions are"
        click.echo(f"{more} running: smithers db executions --status running", err=True)


@click.command()
@path_option
@json_option
@click.option("--reason", metavar="TEXT", help="Why, for the record.")
@click.argument("id")
def cancel(path: str | None, as_json: bool, reason: str | None, id: str) -> None:
    """Cancel an execution.

    One that another process runs is asked to stop, and is cancelled when it does. ID may be its
    beginning or its end, from four characters on.
    """
    with open_for_writing(path) as db:
        _, whole = whole_id(db, id, "execution")
        db.executions.cancel(whole, reason)
        record = _existing(db, whole)
    if as_json:
        print_json(as_fields(record))
    elif record.status == "cancelled":
        click.echo(f"cancelled  {shown_text(record.name)}  {shown_text(record.id)}")
    else:
        click.echo(f"asked {shown_text(record.owner)} to cancel  {shown_text(record.id)}")


def _existing(db: SmithersDB, id: str) -> Execution:
    found = db.executions.get(id)
    if found is None:  # another process has removed it just now
        raise NotFound("execution", id)
    return found


def _status(execution: Execution) -> str:
    if execution.status not in OPEN:
        return execution.status
    if not execution.is_live:
        return f"{execution.status} (dead)" if execution.status == "running" else execution.status
    return execution.status if execution.cancel_requested_at is None else "cancelling"


def _print_execution(execution: Execution, parts: list[Part], as_json: bool) -> None:
    if as_json:
        print_json({**as_fields(execution), "parts": [as_fields(part) for part in parts]})
        return
    print_fields(list(_fields(execution)))
    if parts:
        click.echo()
        print_parts(parts)


def _fields(execution: Execution) -> Iterator[tuple[str, str]]:
    yield "name", shown_text(execution.name)
    yield "id", shown_text(execution.id)
    yield "status", execution.status
    if execution.owner is not None:
        yield "owner", shown_text(execution.owner) + _life(execution)
    if execution.file_path is not None:
        yield "file", shown_text(execution.file_path)
    yield "started", shown_time(execution.started_at)
    if execution.completed_at is not None:
        yield "ended", shown_time(execution.completed_at)
    yield "took", shown_lasting(execution.started_at, execution.duration_ms)
    yield "spent", _spent(execution)
    if execution.cancel_requested_at is not None:
        asked = shown_time(execution.cancel_requested_at)
        because = execution.cancel_reason
        yield "cancel", f"asked for {asked}" + (f": {shown_text(because)}" if because else "")
    for name, value in (("config", execution.config), ("result", execution.result)):
        if value is not None:
            yield name, shown_value(value)
    if execution.error is not None:
        yield "error", shown_text(execution.error)


def _life(execution: Execution) -> str:
    if execution.status not in OPEN:
        return ""
    if execution.is_live:
        return " (alive)"
    return " (dead)" if execution.cancel_requested_at else " (dead; the execution can be resumed)"


def _spent(execution: Execution) -> str:
    counts = (
        (execution.total_iterations, "iteration"),
        (execution.total_agents, "agent"),
        (execution.total_tool_calls, "tool call"),
        (execution.total_tokens_used, "token"),
    )
    words = [f"{count:,} {word}{'' if count == 1 else 's'}" for count, word in counts]
    return ", ".join([*words, shown_cost(execution.total_cost_usd)])
