"""Which database a command works on, and the options that every command shares."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from smithers.db import FILE_NAME, SmithersDB, create_smithers_db, locate
from smithers.errors import CannotOpen, SmithersError

VARIABLE = "SMITHERS_DB_PATH"
HOME = Path(".smithers")
F = TypeVar("F", bound=Callable[..., Any])


def path_option(command: F) -> F:
    """Add --path, the directory of the database."""
    text = f"Directory of the database [default: ${VARIABLE}, else the only one below {HOME}/]."
    return click.option("--path", metavar="DIR", help=text)(command)


def json_option(command: F) -> F:
    """Add --json, for programs that read the output."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def limit_option(default: int | None, text: str) -> Callable[[F], F]:
    """Add --limit, a number of rows."""
    kind = click.IntRange(min=0)
    return click.option(
        "--limit", type=kind, metavar="N", default=default, show_default=True, help=text
    )


def open_for_reading(path: str | None, *, watch: bool = False) -> SmithersDB:
    """Open the database a command names; nothing of it is changed."""
    return create_smithers_db(_existing(path), read_only=True, watch=watch)


def open_for_writing(path: str | None) -> SmithersDB:
    """Open the database a command names; a missing one is an error, not made by a typing slip."""
    return create_smithers_db(_existing(path), watch=False)


def _existing(path: str | None) -> Path:
    named = path or os.environ.get(VARIABLE)
    if named is None:
        return _only_one()
    file = locate(named)
    if file is None or not file.exists():
        raise CannotOpen(named, "there is no database")
    return file


def _only_one() -> Path:
    found = sorted(HOME.rglob(FILE_NAME))
    if not found:
        raise SmithersError(f"no database below {HOME}/: pass --path DIR or set {VARIABLE}")
    if len(found) > 1:
        candidates = ", ".join(str(file.parent) for file in found)
        raise SmithersError(f"several databases below {HOME}/, pass --path: {candidates}")
    return found[0]
