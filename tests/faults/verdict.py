"""Whether an error is one that a caller should get: ours, short, and about the argument."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
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
CALLED = frozenset({"fn", "body", "until", "runner", "scheduler", "predicate", "on_next"})

# Arguments that errors call by another word, and the reason.
SAID: Mapping[str, str] = {
    "params": "parameter",  # a statement has parameters; one is named by its number or name
    "parameters": "parameter",
    "where_args": "parameter",
    "pk": "key|parameter",
    "where": "where|column|parameter",  # of a dict, the column or the value that is wrong
    "facts": r"facts|log_\w+ (?:takes|needs)",  # and the key that is none of those it takes
    "values": r"values|a key|state \W",  # of several, the one that is wrong
    "initial_state": r"initial_state|a key|state \W",
    "snapshot": r"snapshot|a key|state \W",
    "path": "path|no regular file",
    # What is stored under a key is named by the key.
    "value": r"value|state \W",
    "default": r"default|state \W",
    "name": r"name|key|trigger \W",  # what other calls name by `key`; a trigger by its name
    "tables": "tables|name of a table",
}


def wrong(error: BaseException, argument: str) -> str | None:
    """Tell what is wrong with an error that a hostile value for an argument has caused."""
    found = out_of_family(error, argument)
    return found or (None if names(error, argument) else f"does not name it: {error!s:.150}")


def names(error: BaseException, argument: str) -> bool:
    """Tell whether an error says which argument it is about, where it is for us to say."""
    # What is not there, or is in the way, is named by its own errors, which have it as attributes.
    if not isinstance(error, TypeError | ValueError) or isinstance(error, SmithersError):
        return True
    if isinstance(error, Mischief):
        return True
    if argument in CALLED or str(error).startswith("nothing was given"):
        return True  # of nothing there is no argument to name
    said = SAID.get(argument, argument).replace("_", "[_ ]")
    kind, _, of = argument.rpartition("_")
    if kind and of in ("id", "name"):
        said += f"|{of} of an? {kind}"
    return re.search(rf"\b(?:{said})", str(error), re.IGNORECASE) is not None


def out_of_family(error: BaseException, argument: str) -> str | None:
    """Tell what is wrong with an error but for whether it names the argument."""
    if isinstance(error, Mischief):
        return None if str(error) in ITS_OWN else f"its own error of {error} comes out"
    if isinstance(error, TimeoutError) and argument in ("timeout", "predicate"):
        return None  # nothing fitting came in time
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
