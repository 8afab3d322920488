"""How the command line writes texts, times, amounts and sizes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smithers.cli.output import (
    glance,
    glance_id,
    shown_cost,
    shown_duration,
    shown_lasting,
    shown_size,
    shown_text,
    shown_value,
)


@given(st.text())
def test_no_text_holds_what_a_terminal_would_obey(text: str) -> None:
    for shown in (shown_text(text), shown_value(text), glance(text), glance_id(text)):
        assert all(mark.isprintable() or mark in "\u200c\u200d" for mark in shown)
        assert shown != ""
    if shown_text(text) != text:
        assert json.loads(shown_text(text)) == text, "what is not shown as it is can be read back"


@pytest.mark.parametrize(
    ("text", "whole", "seen"),
    [
        ("plain", "plain", "plain"),
        ("two\nlines", r'"two\nlines"', "two lines"),
        ("日本語\n🎉", r'"日本語\n🎉"', "日本語 🎉"),
        ("👨\u200d👩\u200d👧 क्\u200cष", "👨\u200d👩\u200d👧 क्\u200cष", None),
        ("\x1b[2J日本", r'"\u001b[2J日本"', r"\u001b[2J日本"),
        ("a\u202eb", r'"a\u202eb"', r"a\u202eb"),
        ("", '""', "-"),
        (" \n ", r'" \n "', "-"),
        ("-", '"-"', "-"),
        (None, "-", "-"),
        ("\U000e0001", r'"\udb40\udc01"', r"\udb40\udc01"),
    ],
)
def test_only_what_a_terminal_would_obey_is_escaped(
    text: str | None, whole: str, seen: str | None
) -> None:
    assert shown_text(text) == whole
    assert glance(text) == (whole if seen is None else seen)


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        *((None, "-"), (0, "0 ms"), (999, "999 ms"), (1000, "1.0 s"), (12_345, "12.3 s")),
        *((59_949, "59.9 s"), (59_950, "1 min 00 s"), (125_000, "2 min 05 s")),
        *((3_599_499, "59 min 59 s"), (3_599_500, "1 h 00 min"), (11_220_000, "3 h 07 min")),
        (360_000_000, "100 h 00 min"),
    ],
)
def test_durations(milliseconds: int | None, shown: str) -> None:
    assert shown_duration(milliseconds) == shown


def test_what_has_not_ended_lasts_until_now() -> None:
    now = datetime.now(UTC)
    assert shown_lasting(now, 5) == "5 ms"
    assert shown_lasting(now - timedelta(hours=2), None) == "2 h 00 min"
    assert shown_lasting(now + timedelta(hours=2), None) == "0 ms", "a clock that was set back"


@pytest.mark.parametrize(
    ("dollars", "shown"),
    [(0.0, "$0.0000"), (0.01234, "$0.0123"), (1.5, "$1.50"), (12345.678, "$12,345.68")],
)
def test_amounts(dollars: float, shown: str) -> None:
    assert shown_cost(dollars) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        *((None, "-"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KB"), (1536, "1.5 KB")),
        *((64 * 2**20, "64.0 MB"), (2**30, "1.0 GB"), (2**40, "1.0 TB"), (2**60, "1048576.0 TB")),
    ],
)
def test_sizes(size: int | None, shown: str) -> None:
    assert shown_size(size) == shown


def test_an_id_of_this_package_is_shown_by_its_end() -> None:
    assert glance_id("01a22a27-1fcb-70c1-a862-017d2c1c251f") == "2c1c251f"
    assert glance_id("mine") == "mine"
    assert glance_id("\n") == r'"\n"'
