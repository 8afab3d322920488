"""The command line: its commands, and one line on stderr for whatever goes wrong."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

import click

from smithers.cli.demo import demo
from smithers.cli.queries import query, stats
from smithers.cli.state import delete, history, replay, set_value, state
from smithers.cli.watch import watch


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="smithers-py", prog_name="smithers")
def cli() -> None:
    """Workflow state in SQLite, with history, time travel and live observation."""


@cli.group()
def db() -> None:
    """Look into a workflow database, and change its state.

    The database is the one --path names, else SMITHERS_DB_PATH, else the only one below .smithers/.
    """


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 for an error, 2 for wrong usage."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not end the command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(args, prog_name="smithers", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        # The reader has seen enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except click.UsageError as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _failed("interrupted", 1)
    except click.ClickException as error:
        return _failed(error.format_message(), error.exit_code)
    except Exception as error:
        return _failed(str(error) or type(error).__name__, getattr(error, "exit_code", 1))


def _failed(message: str, code: int) -> int:
    click.echo(f"Error: {' '.join(message.split())}", err=True)
    return code


for _command in (delete, history, query, replay, set_value, state, stats, watch):
    db.add_command(_command)
cli.add_command(demo)
