"""An open asynchronous workflow database for each test of scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from smithers import AsyncSmithersDB, create_async_smithers_db


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The directory of a database that does not exist yet."""
    return tmp_path / "workflow"


@pytest.fixture
async def db(made: Path) -> AsyncIterator[AsyncSmithersDB]:
    async with create_async_smithers_db(made) as opened:
        yield opened
