"""Times in the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

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
