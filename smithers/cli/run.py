"""`smithers run`: a workflow script from its beginning to an exit code that tells how it ended."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from smithers.aio.database import create_async_smithers_db
from smithers.cli.eventlines import Lines
from smithers.cli.progress import Progress
from smithers.cli.screen import Screen
from smithers.cli.script import CannotRun, Main, load_main, one_line, shown_trace
from smithers.cli.target import HOME, VARIABLE, place_for
from smithers.errors import SmithersError, StepFailed
from smithers.records import Execution
from smithers.runtime.run import Resume, Run

INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
_HELP = f"Directory of the database [default: ${VARIABLE}, else {HOME}/NAME]; made when missing."


_RESUME: dict[str, Resume] = {"incomplete": True, "new": False, "failed": "failed"}


class Ended(SmithersError):
    """A run has not come to its end; its execution is as the message says.

    Attributes:
        exit_code: what the process ends with.
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run has ended: what was raised, and its execution, None where it has been deleted."""

    error: BaseException | None
    execution: Execution | None


@click.command()
@click.option("--path", metavar="DIR", help=_HELP)
@click.option("--name", metavar="NAME", help="Name of the workflow [default: the script's].")
@click.option(
    "--resume",
    "resume",
    flag_value="incomplete",
    default="incomplete",
    help="Go on with what was cut off; the default.",
)
@click.option("--new", "resume", flag_value="new", help="Begin anew, whatever was cut off.")
@click.option(
    "--resume-failed", "resume", flag_value="failed", help="Go on also with what has failed."
)
@click.argument("script", type=click.Path(path_type=Path))
def run(script: Path, path: str | None, name: str | None, resume: str) -> int:
    """Run a script, a Python file with an `async def main(run)`.

    Ends with 0 when the workflow is completed, 1 when it has failed or was cancelled, 130 after
    Ctrl-C and 143 after SIGTERM. What was cut off goes on by the same command.
    """
    try:
        main = load_main(script)
    except CannotRun as error:
        _print_trace(error.trace)
        raise
    called = script.stem if name is None else name
    again = _command(script, path, name)
    place = place_for(path, _default(called))
    try:
        outcome = asyncio.run(_run(main, script.absolute(), place, called, _RESUME[resume]))
    except (KeyboardInterrupt, asyncio.CancelledError):
        # Before anything was started, or by an impatient second Ctrl-C.
        raise Ended(f"{called!r} was interrupted; go on with it: {again}", INTERRUPTED) from None
    _judge(outcome, called, again)
    return 0


async def _run(main: Main, script: Path, place: Path, name: str, resume: Resume) -> Outcome:
    error: BaseException | None = None
    entered = False
    async with create_async_smithers_db(place) as db:
        running = db.run(name, script, resume=resume)
        assert db.path is not None
        with ExitStack() as shown:
            try:
                async with running:
                    entered = True
                    shown.enter_context(_progress(db.path, running))
                    await main(running)
            except BaseException as caught:  # a run that was entered has recorded it
                if not entered:
                    raise
                error = caught
        return Outcome(error, await db.execution.get(running.id))


def _progress(path: Path, running: Run[Any]) -> Progress:
    """Return what shows a run as stdout takes it."""
    live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return (Screen if live else Lines)(path, running.id, resumed=running.resumed)


def _judge(outcome: Outcome, name: str, again: str) -> None:
    """Raise Ended unless the workflow is completed."""
    execution, error = outcome.execution, outcome.error
    status = "deleted" if execution is None else execution.status
    if status == "completed":
        return
    # By the second Ctrl-C also that may have been cut off which records the first.
    cut_off = isinstance(error, asyncio.CancelledError | KeyboardInterrupt)
    if status == "interrupted" or (status == "running" and cut_off):
        terminated = isinstance(error, SystemExit) and error.code == TERMINATED
        code = TERMINATED if terminated else INTERRUPTED
        raise Ended(f"{name!r} was interrupted; go on with it: {again}", code)
    if status == "cancelled":
        reason = None if execution is None else execution.cancel_reason
        raise Ended(f"{name!r} was cancelled" + (f": {reason}" if reason else ""))
    if error is not None:
        _print_trace(shown_trace(error))
    what = "nothing was raised" if error is None else one_line(error)
    if isinstance(error, StepFailed) and error.__cause__ is not None:
        what = f"step {error.step!r}: {one_line(error.__cause__)}"
    if status == "failed":
        raise Ended(f"{name!r} failed: {what}; go on with it: {again} --resume-failed")
    # Another run has taken it over, or somebody has removed it.
    raise Ended(f"{name!r} is {status}, and ended here: {what}")


def _default(name: str) -> Path:
    if name in ("", ".", "..") or "/" in name or os.sep in name or "\0" in name:
        raise click.UsageError(f"{name!r} is no name for a directory: pass --path")
    return HOME / name


def _command(script: Path, path: str | None, name: str | None) -> str:
    options = [*(("--path", path) if path else ()), *(("--name", name) if name else ())]
    return shlex.join(["smithers", "run", str(script), *options])


def _print_trace(text: str) -> None:
    if text:
        # A terminal would obey what may stand in a message.
        marks = (mark if mark.isprintable() or mark == "\n" else repr(mark)[1:-1] for mark in text)
        click.echo("".join(marks), err=True)
