"""Times in the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from smithers import StateTypeError
from smithers.clock import from_text, to_text, utc_now


def test_now_is_aware_and_in_utc() -> None:
    assert utc_now().tzinfo is UTC


def test_every_time_is_written_in_one_form_that_sorts() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
    assert to_text(moment) == "2026-01-31T10:00:00.000000Z"
    assert from_text(to_text(moment)) == moment
    assert from_text(to_text(moment)).tzinfo is UTC


@pytest.mark.parametrize(
    "text", ["2026-01-31T10:00:00.000000Z", "2026-01-31 10:00:00", "2026-01-31T12:00:00+02:00"]
)
def test_what_other_programs_write_is_read_as_utc(text: str) -> None:
    assert from_text(text) == datetime(2026, 1, 31, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["yesterday", "", "1796005604", 1796005604, b"2026-01-31", "0001-01-01T00:00:00+05:00"]
)
def test_what_is_no_time_is_told_as_what_another_program_has_written(text: Any) -> None:
    with pytest.raises(StateTypeError, match="no ISO-8601 text"):
        from_text(text)
