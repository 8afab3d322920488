"""A clock that is set back, stands still or is set forward: nothing is judged by it but its time.

The clock is that of the whole process, by a preloaded library: SQLite and the maker of ids, which
is no Python, ask the system themselves.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from smithers import SmithersDB, create_smithers_db
from smithers.cli.output import shown_lasting
from smithers.storage.overview import Overview
from tests.faults import turned
from tests.faults.clock import built, under


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What is wrong when the clock of a process is turned, by scenario."""
    folder = tmp_path_factory.mktemp("clock")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", turned.__name__, str(folder / "workflow")],
        env=under(built(folder)),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("scenario", turned.SCENARIOS)
def test_a_clock_that_is_turned_moves_nothing_but_the_time(
    wrong: dict[str, list[str]], scenario: str
) -> None:
    assert wrong[scenario] == []


def test_the_parts_of_an_execution_stand_in_their_order_whatever_the_clock_says(
    tmp_path: Path,
) -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    with create_smithers_db(tmp_path, watch=False) as opened:
        db = SmithersDB(opened.database, clock=lambda: now)
        id = db.execution.start("Feature")
        started: list[str] = []
        for days in (0, -1, 0, -2, 1):
            now += timedelta(days=days)
            started.append(db.phases.start(str(days)))
            db.phases.complete(started[-1])
        overview = Overview(db.database)
        assert [part.id for part in overview.everything(id)] == started
        assert [part.id for part in overview.everything(id, limit=2)] == started[-2:]
        assert [phase.id for phase in db.phases.list(id)] == started


def test_what_began_in_the_future_has_lasted_no_negative_time() -> None:
    assert shown_lasting(datetime.now(UTC) + timedelta(days=1), None) == "0 ms"
