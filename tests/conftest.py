"""Fixtures and settings that every test shares."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import shutil
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.recorder import Recorder
from tests.scripted import Scripted

# The machines that run this are shared and noisy: a slow example is no finding.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("repeatable", settings.get_profile("default"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Hundreds of processes are started that import this package. Where they were told to leave no
# bytecode beside the sources, compiling them anew each time was half of what the tests cost.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    compiled = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(compiled))

_USERS = itertools.count()


def pytest_collection_finish() -> None:
    """Spare whoever collects garbage the thousands of collected tests: half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def user_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the memories of the user are, for each test anew: nothing reaches the real ones."""
    # Not by `mktemp`, which looks through the directories of all tests before.
    users = tmp_path_factory.getbasetemp() / "users"
    users.mkdir(exist_ok=True)
    home = users / str(next(_USERS))
    monkeypatch.setenv("SMITHERS_HOME", str(home))
    monkeypatch.delenv("SMITHERS_MEMORY", raising=False)
    return home


@pytest.fixture
def sqlite3_cli() -> str:
    """The path of the `sqlite3` command line; skips where it is absent.

    Under SMITHERS_REQUIRE_TOOLS, which CI sets after installing it, its absence is a failure.
    """
    return require_tool("sqlite3")


@pytest.fixture
def recorder() -> Recorder[Any]:
    return Recorder()


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Claude Code, saying what a script has it say."""
    return Scripted(tmp_path / "claude", monkeypatch)


@pytest.fixture
async def collected() -> AsyncIterator[None]:
    """Let nothing wait for the garbage collector when the loop is closed.

    The library of Claude Code leaves the pipe of a program that it has given up on to it. That is
    not to run before the end of the test, where what it says of the pipe would be an error.
    """
    gc.disable()
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
        await asyncio.sleep(0)
    gc.enable()


def require_tool(name: str) -> str:
    """Return the path of a program that a test needs, or skip (CI: fail) with the reason."""
    found = shutil.which(name)
    if found is None:
        reason = f"the program {name!r} is not installed"
        if os.environ.get("SMITHERS_REQUIRE_TOOLS"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found
