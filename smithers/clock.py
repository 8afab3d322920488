"""What time it is, and how a time is written in the database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Tell the time, timezone-aware, in UTC."""
    return datetime.now(UTC)


def to_text(moment: datetime) -> str:
    """Write a time as ISO-8601 text in UTC with microseconds: `2026-01-31T12:00:00.000000Z`."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    # Without microseconds `isoformat` leaves them out, unless told by a slower road.
    text = moment.isoformat() if moment.microsecond else moment.isoformat(timespec="microseconds")
    return text[:-6] + "Z"


def from_text(text: str) -> datetime:
    """Read ISO-8601 text; without an offset (as SQLite's own `datetime()` writes) it is UTC."""
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
