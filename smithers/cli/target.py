"""Which database a command works on, and the options that every command shares."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from smithers.db import DEFAULT_PATH, FILE_NAME, SmithersDB, create_smithers_db, locate
from smithers.errors import CannotOpen, SmithersError

VARIABLE = "SMITHERS_DB_PATH"
HOME = Path(".smithers")
HOW_TO_MAKE = "a program makes it with create_smithers_db, or `smithers db set --create` does"
F = TypeVar("F", bound=Callable[..., Any])
_NEGATIVE = re.compile(r"-\.?\d")


class ValuesCommand(click.Command):
    """A command whose arguments may be negative numbers."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take `-3` for a value; other unknown options are errors where no such value stands."""
        ctx.ignore_unknown_options = any(map(_NEGATIVE.match, args))
        return super().parse_args(ctx, args)


def path_option(command: F) -> F:
    """Add --path, the directory of the database."""
    text = f"Directory of the database [default: ${VARIABLE}, else the only one below {HOME}/]."
    return click.option("--path", metavar="DIR", help=text)(command)


def json_option(command: F) -> F:
    """Add --json, for programs that read the output."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def limit_option(default: int | None, text: str) -> Callable[[F], F]:
    """Add --limit, a number of rows."""
    kind = click.IntRange(min=0, max=2**63 - 1)
    return click.option(
        "--limit", type=kind, metavar="N", default=default, show_default=True, help=text
    )


def open_for_reading(
    path: str | None,
    *,
    watch: bool = False,
    session: str | None = None,
    project: str | None = None,
) -> SmithersDB:
    """Open the database a command names; nothing of it is changed."""
    return create_smithers_db(
        existing(path), read_only=True, watch=watch, session=session, project=project
    )


def open_for_writing(path: str | None, *, create: bool = False) -> SmithersDB:
    """Open the database a command names.

    A missing one is an error, not made by a typing slip, unless `create` says so.
    """
    file = _wanted(path) if create else existing(path)
    # The library would advise an argument of its own.
    if file.is_file() and not os.access(file, os.W_OK):
        raise CannotOpen(str(file), "you may read it, but not write to it")
    return create_smithers_db(file.parent if create and not file.exists() else file, watch=False)


def place_for(path: str | None, default: Path) -> Path:
    """Tell where the database of a workflow is that is to run, be it there yet or not."""
    named = path or os.environ.get(VARIABLE) or str(default)
    if locate(named) is None:
        raise CannotOpen(named, "no other program can see a database in memory")
    return Path(named)


def existing(path: str | None) -> Path:
    named = path or os.environ.get(VARIABLE)
    if named is None:
        return _only_one()
    file = locate(named)
    if file is None:
        raise CannotOpen(named, "no other program can see a database in memory")
    if not file.exists():
        below = _below(file.parent)
        reason = f"only below it: {below}" if below else HOW_TO_MAKE
        raise CannotOpen(named, f"there is no database; {reason}")
    return file


def _wanted(path: str | None) -> Path:
    named = path or os.environ.get(VARIABLE)
    if named is None and any(HOME.rglob(FILE_NAME)):
        return _only_one()
    file = locate(named or DEFAULT_PATH)
    if file is None:
        raise CannotOpen(str(named), "no other program can see a database in memory")
    return file


def _only_one() -> Path:
    found = sorted(HOME.rglob(FILE_NAME))
    if not found:
        raise SmithersError(
            f"no database below {HOME}/: pass --path DIR or set {VARIABLE}; {HOW_TO_MAKE}"
        )
    if len(found) > 1:
        candidates = ", ".join(str(file.parent) for file in found)
        raise SmithersError(f"several databases below {HOME}/, pass --path: {candidates}")
    return found[0]


def _below(folder: Path) -> str:
    # No deeper than workflows are kept: the folder may be somebody's home.
    found = {*folder.glob(f"*/{FILE_NAME}"), *folder.glob(f"*/*/{FILE_NAME}")}
    return ", ".join(str(file.parent) for file in sorted(found))
