"""What is JSON for the state, what is not, and how each refusal names its key."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smithers.codec import MAX_DEPTH, check_key, check_trigger, decode, encode, encoded, same_json
from smithers.errors import StateTypeError

NAME = "state 'phase'"

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # Any text, lone surrogates included.
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@dataclass
class Point:
    x: int
    y: Any


class Colour(Enum):
    RED = "red"
    PAIR = (1, 2)


class Phase(StrEnum):
    REVIEW = "review"


class Level(IntEnum):
    HIGH = 3


class Pair(NamedTuple):
    left: int
    right: int


@given(json_values)
def test_every_json_value_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    back = decode(encode(value, name=NAME), name=NAME)
    assert repr(back) == repr(value), "repr tells 1 from 1.0 and True, and 0.0 from -0.0"


@given(json_values)
def test_encoded_text_is_utf8_without_nul_for_every_value(value: Any) -> None:
    assert b"\0" not in encode(value, name=NAME).encode()


FORMS: list[tuple[Any, Any]] = [
    ((1, (2,)), [1, [2]]),
    (Pair(1, 2), [1, 2]),
    (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (Point(1, Point(2, [Colour.RED])), {"x": 1, "y": {"x": 2, "y": ["red"]}}),
    (Colour.PAIR, [1, 2]),
    (Phase.REVIEW, "review"),
    ({Phase.REVIEW: Level.HIGH}, {"review": 3}),
    (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00+00:00"),
    (date(2026, 1, 31), "2026-01-31"),
    (time(12, 30), "12:30:00"),
    (10**4000, 10**4000),
    ("é☃\U0001f600", "é☃\U0001f600"),
]


@pytest.mark.parametrize(("value", "stored"), FORMS)
def test_python_values_have_one_documented_form(value: Any, stored: Any) -> None:
    assert decode(encode(value, name=NAME), name=NAME) == stored


def test_text_is_stored_readably_unless_it_has_no_utf8_form() -> None:
    assert encode("é", name=NAME) == '"é"'
    assert encode(["é", "\ud800"], name=NAME) == r'["\u00e9","\ud800"]'


def test_a_pydantic_model_is_dumped_by_itself() -> None:
    class Model:
        # What marks a pydantic model, which is an extra: its own tests run where it is installed.
        __pydantic_validator__ = object()

        def model_dump(self, *, mode: str) -> dict[str, str]:
            return {"mode": mode}

    assert encode(Model(), name=NAME) == '{"mode":"json"}'


@pytest.mark.parametrize(
    "value",
    [
        b"bytes",
        {1, 2},
        object(),
        Decimal(1),
        Path("x"),
        1j,
        Point,
        iter([]),
        lambda: None,
        range(2),
    ],
)
def test_what_is_no_json_is_a_type_error_that_names_the_key(value: Any) -> None:
    wrapped: list[Any] = [value, [[value]], {"a": {"b": value}}, Point(1, value)]
    for item in wrapped:
        with pytest.raises(TypeError, match=r"^state 'phase': \w+ has no form in JSON"):
            encode(item, name=NAME)


@pytest.mark.parametrize("key", [1, None, True, 1.5, (1, 2), b"x"])
def test_a_dict_key_that_is_no_text_is_a_type_error_that_names_the_key(key: Any) -> None:
    with pytest.raises(TypeError, match=r"^state 'phase': the keys of a dict are str"):
        encode([{key: 1}], name=NAME)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_without_json_form_is_a_value_error_that_names_the_key(number: float) -> None:
    for value in (number, [number], {"a": number}, Point(1, number)):
        with pytest.raises(ValueError, match=r"^state 'phase': -?(nan|inf) has no form"):
            encode(value, name=NAME)


def test_nesting_ends_at_the_documented_depth() -> None:
    assert json.loads(encode(_nested(MAX_DEPTH), name=NAME)) == _nested(MAX_DEPTH)
    with pytest.raises(ValueError, match=r"^state 'phase': nested deeper than 500"):
        encode(_nested(MAX_DEPTH + 1), name=NAME)


@pytest.mark.parametrize("depth", [1_500, 100_000])
def test_nesting_beyond_the_call_stack_is_the_same_error(depth: int) -> None:
    with pytest.raises(ValueError, match="nested deeper than 500"):
        encode(_nested(depth), name=NAME)


def test_what_contains_itself_is_refused_at_once() -> None:
    twice: list[Any] = []
    twice += [twice, twice]
    itself: dict[str, Any] = {}
    itself["self"] = itself
    point = Point(1, None)
    point.y = [point]
    for value in (twice, itself, point):
        with pytest.raises(ValueError, match="contains itself"):
            encode(value, name=NAME)


def test_an_int_with_more_digits_than_python_writes_names_the_key() -> None:
    with pytest.raises(ValueError, match=r"^state 'phase': Exceeds the limit"):
        encode([10**5000], name=NAME)


@pytest.mark.parametrize("text", ["", "{", "nul", "[" * 100_000, "1" * 5000])
def test_stored_text_that_cannot_be_read_is_an_error_that_names_the_key(text: str) -> None:
    with pytest.raises(StateTypeError, match=r"^state 'phase': the stored value cannot be read"):
        decode(text, name=NAME)


@pytest.mark.parametrize("stored", [b"1", b"", b"[1]" * 100_000, 5, 1.5])
def test_what_is_stored_and_is_no_text_is_an_error_that_names_the_key(stored: Any) -> None:
    reason = f"the stored value cannot be read: it is JSON text, not {type(stored).__name__}"
    with pytest.raises(StateTypeError, match=rf"^state 'phase': {reason}$"):
        decode(stored, name=NAME)


@pytest.mark.parametrize(("one", "other"), [(b"1", "1"), (1, "1"), (b"1", 1)])
def test_what_is_no_text_means_nothing_but_itself(one: Any, other: Any) -> None:
    assert not same_json(one, other)
    assert same_json(one, one)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1", "1", True),
        (" 1", "1", True),
        ('{"a":1,"b":2}', '{"b": 2, "a": 1}', True),
        (r'"\u00e9"', '"é"', True),
        ("[1,2]", "[2,1]", False),
        ("1", "1.0", False),
        ("1", "true", False),
        ("0.0", "-0.0", False),
        ('"1"', "1", False),
        ("null", "{}", False),
    ],
)
def test_two_texts_are_the_same_when_they_mean_the_same(one: str, other: str, same: bool) -> None:
    assert same_json(one, other) is same


@pytest.mark.parametrize("key", ["a", "é" * 1024, "a b", "\n", "'; DROP TABLE state; --", "%"])
def test_any_text_of_a_sane_length_is_a_key(key: str) -> None:
    check_key(key)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "not empty"),
        ("a" * 1025, "at most 1024 characters, not 1025"),
        ("a\0b", "no NUL"),
        ("\ud800", "no lone surrogates"),
    ],
)
def test_a_key_outside_the_rule_is_a_value_error(key: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_key(key)


@pytest.mark.parametrize("key", [None, 1, b"a", ["a"]])
def test_a_key_that_is_no_text_is_a_type_error(key: Any) -> None:
    with pytest.raises(TypeError, match="a key is a str"):
        check_key(key)


@pytest.mark.parametrize(
    ("trigger", "error"),
    [(1, TypeError), (b"x", TypeError), ("\0", ValueError), ("\udfff", ValueError)],
)
def test_a_trigger_is_text_or_none(trigger: Any, error: type[Exception]) -> None:
    check_trigger(None)
    check_trigger("")
    with pytest.raises(error, match="a trigger"):
        check_trigger(trigger)


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(json_values)
def test_what_is_said_to_be_decoded_is_what_decoding_gives(value: Any) -> None:
    text, told = encoded(value, name=NAME)
    assert repr(told) == repr(decode(text, name=NAME))


@pytest.mark.parametrize(("value", "stored"), FORMS)
def test_richer_values_are_said_to_be_decoded_into_their_form(value: Any, stored: Any) -> None:
    told = encoded(value, name=NAME)[1]
    assert (told, repr(told)) == (stored, repr(stored))


@given(json_values, st.sampled_from([None, 1, "\t"]))
def test_large_values_are_read_by_pieces_into_the_same(value: Any, indent: Any) -> None:
    padding = "x" * 300_000
    for large in ([padding, value], {"a": {"b": [[value]], "c": padding}}, padding):
        text = f"\n {json.dumps(large, indent=indent)} "
        assert repr(decode(text, name=NAME)) == repr(large)


def test_a_large_text_that_is_no_json_is_refused_as_a_small_one_is() -> None:
    for end in ("", ",", ",]", "]]", "] 1", ",nul]", ' "x"]'):
        with pytest.raises(StateTypeError, match="phase"):
            decode(f'["{"x" * 300_000}"{end}', name=NAME)


def test_values_of_many_items_are_written_like_small_ones() -> None:
    items = [{"n": number, "é": [number / 3, None, True, "\ud800"]} for number in range(10_000)]
    text, told = encoded(items, name=NAME)
    assert told == items
    assert text == json.dumps(items, separators=(",", ":"))
    with pytest.raises(ValueError, match=r"phase.*nan"):
        encoded([*items, [math.nan]], name=NAME)
