"""Marks the tests that need of the SQLite module what pysqlite3 has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from reactive_sqlite import sqlite3
from reactive_sqlite.dialect import LIMITS

T = TypeVar("T", bound=Callable[..., object])

_hidden = pytest.mark.skipif(
    sqlite3.__name__.startswith("pysqlite3"),
    reason="pysqlite3 shows the collector nothing of what its connections and cursors refer to",
)
limited = pytest.mark.skipif(not LIMITS, reason="no limit can be set in pysqlite3")
# Python 3.13 warns of it, and is right: whoever means it closes.
_unclosed = pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")


def forgets(test: T) -> T:
    """Mark a test in which a database is forgotten, not closed."""
    marked: T = _hidden(_unclosed(test))
    return marked
