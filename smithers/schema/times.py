"""How SQLite itself writes the time and measures between two, for writes of other programs."""

from __future__ import annotations

# As `smithers.clock` writes it; SQLite knows milliseconds only.
NOW = "strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z'"


def duration(start: str, end: str) -> str:
    """Give the SQL for the whole milliseconds between two times, 0 when the clock went back."""
    return f"max(0, CAST(round((julianday({end}) - julianday({start})) * 86400000) AS INTEGER))"
