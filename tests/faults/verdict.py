"""Whether an error is one that a caller should get: ours, short, and about the argument."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from reactive_sqlite import ReactiveError, sqlite3
from smithers import SmithersError
from tests.faults.mischief import Mischief

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "reactive_sqlite", ROOT / "smithers")
# A message repeats no more of what was given.
LONGEST = 5_000
# Who passes an object that is to be called, gone through or asked whether it is true gets what it
# raises; a text for an error, and what it equals, it is not asked for.
ITS_OWN = frozenset({"bool", "call", "item", "iteration", "iteration of a list"})
# Arguments that SQLite or the system judge, by whose errors they are refused.
OF_SQLITE = frozenset({"sql", "params", "parameters", "where", "where_args", "order_by", "select"})
OF_SQLITE_TOO = frozenset({"limit", "table_name", "view_name", "tables", "columns", "column", "pk"})
# From Python 3.12 on it also warns of what it is to refuse one day, and here warnings are errors:
# adapting a `datetime` by itself, and a list for parameters that have names.
REFUSALS = (sqlite3.Error, DeprecationWarning)
OF_SYSTEM = frozenset({"path", "repo", "cwd", "memory_path"})
# Those whose own errors pass.
CALLED = frozenset({"fn", "body", "until", "runner", "scheduler"})


def wrong(error: BaseException, argument: str) -> str | None:
    """Tell what is wrong with an error that a hostile value for an argument has caused."""
    if isinstance(error, Mischief):
        return None if str(error) in ITS_OWN else f"its own error of {error} comes out"
    if argument in CALLED and not isinstance(error, OSError):
        return None
    if isinstance(error, REFUSALS) and argument in OF_SQLITE | OF_SQLITE_TOO:
        return None
    if isinstance(error, OSError) and argument in OF_SYSTEM:
        return None
    if type(error).__module__.startswith("sqlite_utils.") and argument in OF_SQLITE_TOO:
        return None
    if not isinstance(error, TypeError | ValueError | SmithersError | ReactiveError):
        return "of another family"
    place = _deliberately_raised(error)
    if place is not None:
        return f"happened at {place}, and was not raised"
    return "too long" if len(str(error)) > LONGEST else None


def _deliberately_raised(error: BaseException) -> str | None:
    """Return where it happened, None where a statement of this project raised it."""
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    file = Path(trace.tb_frame.f_code.co_filename)
    if any(file.is_relative_to(package) for package in PACKAGES):
        if trace.tb_lineno in _raising(file):
            return None
        file = file.relative_to(ROOT)
    return f"{file}, line {trace.tb_lineno}"


@cache
def _raising(file: Path) -> frozenset[int]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    )
