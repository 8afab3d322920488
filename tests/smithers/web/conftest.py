"""A view of the database of each test, and a browser that has visited it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from smithers import SmithersDB
from smithers.web.server import LiveView
from tests.smithers.web.browser import Browser, browsing, serving


@pytest.fixture
async def view(db: SmithersDB, path: Path) -> AsyncIterator[LiveView]:
    async with serving(path) as opened:
        yield opened


@pytest.fixture
async def browser(view: LiveView) -> AsyncIterator[Browser]:
    async with browsing(view) as opened:
        yield opened
