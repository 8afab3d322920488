"""`smithers db memories`: what is worth knowing beyond one run."""

from __future__ import annotations

import click

from smithers.cli.columns import id_column, text_column, time_column
from smithers.cli.output import as_fields, print_json
from smithers.cli.tables import Column, print_listing, print_nothing
from smithers.cli.target import json_option, limit_option, open_for_reading, path_option
from smithers.schema.memories import CATEGORIES, SCOPES


@click.command()
@path_option
@json_option
@limit_option(20, "Show the first N memories.")
@click.option(
    "--category",
    type=click.Choice(CATEGORIES),
    metavar="CATEGORY",
    help=f"Only those of {', '.join(CATEGORIES[:-1])} or {CATEGORIES[-1]}.",
)
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    metavar="SCOPE",
    help=f"Only those of {', '.join(SCOPES[:-1])} or {SCOPES[-1]}.",
)
@click.option("--session", metavar="ID", help="See the memories of that session, too.")
@click.option("--project", metavar="NAME", help="See those of another project than this one.")
@click.argument("query", nargs=-1)
def memories(
    path: str | None,
    as_json: bool,
    limit: int,
    category: str | None,
    scope: str | None,
    session: str | None,
    project: str | None,
    query: tuple[str, ...],
) -> None:
    """List memories, or search them for all words of QUERY.

    Those changed last first, of a search the best first. The words may be the beginnings of longer
    ones, in any order. Memories of a session are seen with --session only.
    """
    with open_for_reading(path, session=session, project=project) as db:
        asked = " ".join(query)
        if query:
            shown = db.memories.search(asked, category, scope, limit)
        else:
            shown = db.memories.list(category, scope, limit)
        none_at_all = not shown and not db.memories.list(limit=1)
    if as_json:
        print_json([as_fields(memory) for memory in shown])
    elif not shown:
        print_nothing("There are no memories." if none_at_all else "No memory matches.")
    else:
        print_listing(
            [
                Column("category", [memory.category for memory in shown], whole=True),
                text_column("key", [memory.key for memory in shown]),
                text_column("content", [memory.content for memory in shown], lines=3),
                Column("scope", [memory.scope for memory in shown], whole=True),
                time_column("updated", [memory.updated_at for memory in shown], spare=True),
                text_column("source", [memory.source for memory in shown], spare=True),
                Column(
                    "confidence",
                    [str(memory.confidence) for memory in shown],
                    whole=True,
                    number=True,
                    spare=True,
                ),
                id_column((memory.id for memory in shown), spare=True),
            ]
        )
