"""`smithers db phases | steps | agents | tools`: what stands below an execution."""

from __future__ import annotations

import click

from smithers.cli.columns import (
    cost_column,
    count_column,
    id_column,
    size_column,
    status_column,
    text_column,
    time_column,
    took_column,
)
from smithers.cli.ids import whole_id
from smithers.cli.output import as_fields, print_json, shown_value
from smithers.cli.tables import print_listing, print_nothing
from smithers.cli.target import json_option, limit_option, open_for_reading, path_option
from smithers.records import Agent, ToolCall


@click.command()
@path_option
@json_option
@limit_option(100, "Show the newest N phases.")
@click.argument("id")
def phases(path: str | None, as_json: bool, limit: int, id: str) -> None:
    """List the phases of execution ID.

    Oldest first. ID may be its beginning or its end, from four characters on.
    """
    with open_for_reading(path) as db:
        _, whole = whole_id(db, id, "execution")
        every = db.phases.list(whole)
    shown = every[len(every) - min(limit, len(every)) :]
    if as_json:
        print_json([as_fields(phase) for phase in shown])
    elif not shown:
        _print_none(len(every), "phase", "The execution has no phases.")
    else:
        print_listing(
            [
                id_column(phase.id for phase in shown),
                text_column("name", [phase.name for phase in shown]),
                count_column("iteration", [phase.iteration for phase in shown], spare=False),
                status_column(phase.status for phase in shown),
                time_column("started", [phase.started_at for phase in shown]),
                took_column([(phase.started_at, phase.duration_ms) for phase in shown]),
                text_column("error", [phase.error for phase in shown], spare=True),
            ]
        )


@click.command()
@path_option
@json_option
@limit_option(100, "Show the newest N steps.")
@click.argument("id")
def steps(path: str | None, as_json: bool, limit: int, id: str) -> None:
    """List the steps of a phase or an execution, ID.

    Oldest first. ID may be its beginning or its end, from four characters on.
    """
    with open_for_reading(path) as db:
        kind, whole = whole_id(db, id, "phase", "execution")
        of_phase = kind == "phase"
        every = db.steps.list(whole) if of_phase else db.steps.list(execution_id=whole)
    shown = every[len(every) - min(limit, len(every)) :]
    if as_json:
        print_json([as_fields(step) for step in shown])
    elif not shown:
        _print_none(len(every), "step", f"The {kind} has no steps.")
    else:
        results = [None if step.result is None else shown_value(step.result) for step in shown]
        print_listing(
            [
                id_column(step.id for step in shown),
                text_column("name", [step.name for step in shown]),
                status_column(step.status for step in shown),
                time_column("started", [step.started_at for step in shown]),
                took_column([(step.started_at, step.duration_ms) for step in shown]),
                text_column("commit", [step.commit_created for step in shown], spare=True),
                text_column("result", results, spare=True),
                text_column("error", [step.error for step in shown], spare=True),
            ]
        )


@click.command()
@path_option
@json_option
@limit_option(20, "Show the newest N agents.")
@click.option("--execution", metavar="ID", help="Only those of one execution.")
def agents(path: str | None, as_json: bool, limit: int, execution: str | None) -> None:
    """List the agents: model, prompt, tokens and cost.

    The newest ones, oldest first.
    """
    with open_for_reading(path) as db:
        whole = None if execution is None else whole_id(db, execution, "execution")[1]
        shown = db.agents.list(whole, limit=limit)
        none_at_all = not shown and not db.agents.list(limit=1)
    if as_json:
        print_json([as_fields(agent) for agent in shown])
    elif not shown:
        print_nothing("There are no agents." if none_at_all else "No agent matches.")
    else:
        _print_agents(shown)


@click.command()
@path_option
@json_option
@limit_option(100, "Show the newest N tool calls.")
@click.argument("agent")
def tools(path: str | None, as_json: bool, limit: int, agent: str) -> None:
    """List the tool calls of AGENT.

    Oldest first. AGENT may be the beginning or the end of its id, from four characters on. With
    --json an output above 64 KB is null: `output_size` says how large it is.
    """
    with open_for_reading(path) as db:
        _, whole = whole_id(db, agent, "agent")
        every = db.tools.list(whole)
    shown = every[len(every) - min(limit, len(every)) :]
    if as_json:
        print_json([as_fields(call) for call in shown])
    elif not shown:
        _print_none(len(every), "tool call", "The agent has called no tools.")
    else:
        _print_tools(shown)


def _print_none(count: int, noun: str, nothing: str) -> None:
    print_nothing(f"Shown: 0 of {count} {noun}s." if count else nothing)


def _print_agents(shown: list[Agent]) -> None:
    tokens = [agent.tokens_input + agent.tokens_output for agent in shown]
    print_listing(
        [
            id_column(agent.id for agent in shown),
            text_column("model", [agent.model for agent in shown]),
            status_column(agent.status for agent in shown),
            took_column([(agent.started_at, agent.duration_ms) for agent in shown]),
            count_column("tokens", tokens, spare=False),
            cost_column([agent.cost_usd for agent in shown]),
            text_column("prompt", [agent.prompt for agent in shown]),
            text_column("error", [agent.error for agent in shown], spare=True),
            time_column("started", [agent.started_at for agent in shown], spare=True),
            count_column("turns", [agent.turns for agent in shown]),
        ]
    )


def _print_tools(shown: list[ToolCall]) -> None:
    print_listing(
        [
            id_column(call.id for call in shown),
            text_column("name", [call.name for call in shown]),
            status_column(call.status for call in shown),
            took_column([(call.started_at, call.duration_ms) for call in shown]),
            size_column("output", [call.output_size for call in shown]),
            text_column("input", [shown_value(call.input) for call in shown]),
            text_column("summary", [call.summary for call in shown], spare=True),
            text_column("error", [call.error for call in shown], spare=True),
            time_column("started", [call.started_at for call in shown], spare=True),
        ]
    )
