"""JSON text that every reader takes."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from smithers.jsontext import json_text


def test_what_records_hold_is_written() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    value = {"at": moment, "blob": b"\x00\xff", "text": "漢", "n": [1, 1.5, None, True]}
    written = json.loads(json_text(value))
    assert written == {**value, "at": "2026-01-31T12:00:00+00:00", "blob": "00ff"}
    assert "漢" in json_text(value) and json_text(value, ascii_only=True).isascii()


def test_what_is_not_finite_is_a_number_or_null_but_text_stays_text() -> None:
    value = [float("inf"), float("-inf"), float("nan"), 'Infinity "NaN"']
    text = json_text(value)
    assert text == '[9e999, -9e999, null, "Infinity \\"NaN\\""]'
    assert json.loads(text)[:2] == [float("inf"), float("-inf")]


def test_what_has_no_form_in_json_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no form in JSON"):
        json_text(object())
