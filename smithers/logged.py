"""What a call that logs something is given, checked, and below what it is logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

from reactive_sqlite.arguments import check_flag, shown
from smithers.clock import to_text
from smithers.codec import check_text, encode
from smithers.parents import parents
from smithers.records import Commit, Review, Snapshot
from smithers.workspace import Workspace

R = TypeVar("R")


def given(
    call: str,
    facts: Mapping[str, Any] | None,
    named: Mapping[str, Any],
    *,
    keys: Sequence[str],
    needed: int,
) -> Mapping[str, Any]:
    """Return the one dict or the keywords; the first `needed` of the keys must be there.

    Raises TypeError, which names the key, for one that is unknown or missing.
    """
    if facts is not None and named:
        raise TypeError(f"{call} takes keywords or facts, one dict, not both")
    taken: Any = named if facts is None else facts
    if not isinstance(taken, Mapping):
        raise TypeError(f"{call} takes keywords or facts, one dict, not {type(taken).__name__}")
    values = cast("Mapping[str, Any]", taken)
    unknown = [key for key in values if key not in keys]
    if unknown:
        raise TypeError(f"{call} takes {', '.join(keys)}, not {shown(unknown[0])}")
    missing = [key for key in keys[:needed] if key not in values]
    if missing:
        raise TypeError(f"{call} needs {' and '.join(missing)}")
    return values


def text_or_none(text: Any, name: str) -> str | None:
    """Return text, or None where there is none; `name` says in errors what it is."""
    if text is None:
        return None
    check_text(text, name, empty=True)
    return str(text)


def time_or_none(time: Any, name: str) -> str | None:
    """Write a datetime, or ISO-8601 text with a zone, as a table holds it.

    A datetime without a zone is local time, as everywhere in Python. Text without one may come from
    anywhere and is refused.
    """
    if time is None:
        return None
    if isinstance(time, str):
        time = _read(str.__str__(time), name)
    if not isinstance(time, datetime):
        kind = type(time).__name__
        raise TypeError(f"{name} is a datetime or ISO-8601 text, not {kind}: {shown(time)}")
    try:
        return to_text(time)
    except (OverflowError, ValueError) as error:
        raise ValueError(f"{name} lies outside the calendar: {shown(time)}") from error


def count_or_none(number: Any, name: str) -> int | None:
    """Return a number from 0 up, or None where there is none."""
    if number is None:
        return None
    if type(number) is not int:
        raise TypeError(f"{name} is an int, not {type(number).__name__}: {shown(number)}")
    if not 0 <= number < 2**63:
        raise ValueError(f"{name} is a whole number from 0 up, not {shown(number)}")
    return number


def flag(value: object, name: str) -> bool:
    """Return True or False, and nothing that merely counts as either."""
    check_flag(value, name)
    return value is True


def json_list(value: object, name: str) -> str:
    """Write a list of any JSON as JSON text."""
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name} are a list, not {type(value).__name__}: {shown(value)}")
    return encode(cast("Sequence[Any]", value), name=name)


def logged_below(
    workspace: Workspace, present: Commit | Review | Snapshot | None
) -> tuple[str | None, str | None]:
    """Return the execution and the agent that something is logged below, inside its transaction.

    What runs here but was ended or deleted by another program is passed over. Raises OwnershipLost
    where this run has lost that execution, or the one of what is present.
    """
    above = parents(workspace)
    workspace.ownership.check(above.execution_id)
    if present is not None:
        workspace.ownership.check(present.execution_id)
    return above.execution_id, above.agent_id


def written(record: R | None) -> R:
    """Return a record that was written just now, in the same transaction."""
    assert record is not None
    return record


def _read(text: str, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{name} is ISO-8601 text, not {shown(text)}") from error
    if moment.tzinfo is None:
        raise ValueError(f"{name}, where it is text, has a zone: {shown(text)} has none")
    return moment
