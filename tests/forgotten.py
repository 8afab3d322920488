"""Marks the tests that forget an open database and expect the collector to end it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from reactive_sqlite import sqlite3

T = TypeVar("T", bound=Callable[..., object])

_hidden = pytest.mark.skipif(
    sqlite3.__name__.startswith("pysqlite3"),
    reason="pysqlite3 shows the collector nothing of what its connections and cursors refer to",
)
# Python 3.13 warns of it, and is right: whoever means it closes.
_unclosed = pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")


def forgets(test: T) -> T:
    """Mark a test in which a database is forgotten, not closed."""
    marked: T = _hidden(_unclosed(test))
    return marked
