"""The three ways to look at fetched rows."""

from __future__ import annotations

from typing import Any

from reactive_sqlite.source import Fetched


def all_rows(fetched: Fetched) -> list[dict[str, Any]]:
    """All rows as dicts."""
    return fetched.dicts()


def first_row(fetched: Fetched) -> dict[str, Any] | None:
    """The first row as a dict, None when there is none."""
    return fetched.dicts()[0] if fetched.rows else None


def first_value(fetched: Fetched) -> Any:
    """The first column of the first row, None when there is none."""
    return fetched.rows[0][0] if fetched.rows else None
