"""`smithers demo`: the main job on real input, in well under a minute."""

from __future__ import annotations

from pathlib import Path

import click

COLOURS = {
    "workflow": "green",
    "subscriber": "cyan",
    "sqlite3": "yellow",
    "history": "magenta",
}


@click.command()
@click.option(
    "--path",
    metavar="DIR",
    # Not below .smithers/, where it would stand beside the workflows that commands look for.
    default=".smithers-demo",
    show_default=True,
    help="Directory of the demonstration's own database.",
)
def demo(path: str) -> None:
    """Show a workflow, a live subscriber and the sqlite3 program on one database.

    Nothing else is needed: no model, no key, no network.
    """
    from smithers.demo.stage import perform

    perform(Path(path), _say)


def _say(who: str, text: str, seconds: float) -> None:
    if not who:
        lead = "" if text.startswith(" ") else "\n"
        click.secho(lead + text, bold=not text.startswith(" "))
        return
    lead = click.style(f"{seconds:6.3f}s ", dim=True)
    click.echo(lead + click.style(f"{who:>10} │ ", fg=COLOURS.get(who)) + text)
