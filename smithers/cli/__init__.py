"""The command line: its commands, and one line on stderr for whatever goes wrong."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from smithers.cli.approvals import approve, deny
from smithers.cli.check import check
from smithers.cli.demo import demo
from smithers.cli.executions import cancel, current, execution, executions
from smithers.cli.mcp import mcp
from smithers.cli.memories import memories
from smithers.cli.parts import agents, phases, steps, tools
from smithers.cli.queries import query, stats
from smithers.cli.run import run
from smithers.cli.state import delete, history, replay, set_value, state
from smithers.cli.transfer import export, import_, prune
from smithers.cli.triggers import triggers
from smithers.cli.ui import ui
from smithers.cli.vcs import commits, reviews
from smithers.cli.watch import watch

# As the help shows them.
SECTIONS = {
    "Executions": (
        executions,
        execution,
        current,
        phases,
        steps,
        agents,
        tools,
        cancel,
        approve,
        deny,
    ),
    "State": (state, set_value, delete, history, replay, watch, triggers),
    "Memories and version control": (memories, commits, reviews),
    "Database": (query, stats, check, export, import_, prune),
}


class _Unread(Exception):
    """The reader of our output has gone."""


class _Commands(click.Group):
    """The commands; click itself would end one whose reader has gone with exit code 1."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _unread():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _unread():
            return super().invoke(ctx)


class _Sections(click.Group):
    """Commands that the help shows under headings."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, self.commands))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                room = formatter.width - longest - 6
                formatter.write_dl(
                    [
                        ((command.name or "").ljust(longest), command.get_short_help_str(room))
                        for command in commands
                    ]
                )


@contextmanager
def _unread() -> Generator[None, None, None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _Unread from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="smithers-py", prog_name="smithers")
def cli() -> None:
    """Workflow state in SQLite, with history, time travel and live observation."""


@cli.group(cls=_Sections)
def db() -> None:
    """Look into a workflow database, and change its state.

    The database is the one --path names, else SMITHERS_DB_PATH, else the only one below .smithers/.
    """


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 for an error, 2 for wrong usage.

    A reader that has seen enough (`| head`) ends it quietly, with 0.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us: nobody reads it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not end the command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with _unread():
            code = _run(args)
            sys.stdout.flush()
            return code
    except _Unread:
        _discard_output()
        return 0


def _run(args: Sequence[str] | None) -> int:
    try:
        code = cli.main(args, prog_name="smithers", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except (_Unread, BrokenPipeError):
        raise
    except click.UsageError as error:
        text = io.StringIO()
        error.show(text)
        click.echo("\n".join(map(_harmless, text.getvalue().splitlines())), err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _failed("interrupted", 1)
    except click.ClickException as error:
        return _failed(error.format_message(), error.exit_code)
    except OSError as error:
        # The number of the error says nothing to a person.
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)!r}: "
        return _failed(f"{where}{error.strerror or error}", 1)
    except Exception as error:
        return _failed(str(error) or type(error).__name__, getattr(error, "exit_code", 1))


def _failed(message: str, code: int) -> int:
    # SQLite repeats the text it does not understand, and a terminal would obey what is in it.
    click.echo(f"Error: {_harmless(' '.join(message.split()))}", err=True)
    return code


def _harmless(line: str) -> str:
    return "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in line)


def _discard_output() -> None:
    # Python would complain once more when it flushes at exit.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


for _commands in SECTIONS.values():
    for _command in _commands:
        db.add_command(_command)
for _command in (run, ui, mcp, demo):
    cli.add_command(_command)
