"""What time it is, and how a time is written in the database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from reactive_sqlite.arguments import shown
from smithers.errors import StateTypeError

# The second that was written last, and its text.
_written: tuple[datetime, str] = datetime(1970, 1, 1, tzinfo=UTC), "1970-01-01T00:00:00"

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Tell the time, timezone-aware, in UTC."""
    return datetime.now(UTC)


def to_text(moment: datetime) -> str:
    """Write a time as ISO-8601 text in UTC with microseconds: `2026-01-31T12:00:00.000000Z`."""
    global _written
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    # Many writes fall into one second, and `isoformat` takes most of its time for the offset.
    second, text = _written
    since = moment - second
    if since.days or since.seconds:
        second, text = moment.replace(microsecond=0), moment.isoformat(timespec="seconds")[:-6]
        _written = second, text
    return f"{text}.{moment.microsecond:06d}Z"


def from_text(text: str) -> datetime:
    """Read ISO-8601 text; without an offset (as SQLite's own `datetime()` writes) it is UTC.

    Raises StateTypeError for what another program has written in its place.
    """
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError) as error:
        raise StateTypeError(
            f"a time in the database is no ISO-8601 text: {shown(text)} (`check` says where)"
        ) from error
