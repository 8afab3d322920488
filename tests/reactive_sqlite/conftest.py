"""Databases for the tests of the observable database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reactive_sqlite import Database


@pytest.fixture
def observer_errors() -> list[BaseException]:
    """What the database of the fixture `db` was told of its observers' errors."""
    return []


@pytest.fixture
def db(tmp_path: Path, observer_errors: list[BaseException]) -> Iterator[Database]:
    """A database with a file, which no watcher looks at."""
    with Database(
        tmp_path / "test.db", watch=False, on_observer_error=observer_errors.append
    ) as database:
        yield database
