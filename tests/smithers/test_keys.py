"""Typed keys: what fits is read and written, what does not is refused by name."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from reactive_sqlite import DatabaseClosed, create_effect, create_memo
from smithers import ReadOnly, SmithersDB, StateKey, StateTypeError, create_smithers_db
from tests.recorder import Recorder


class Colour(Enum):
    RED = "red"
    TWO = 2


class Options(TypedDict, total=False):
    depth: int
    tags: list[str]


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.5
    tags: list[str] = field(default_factory=list[str])


class Review(BaseModel):
    approved: bool
    by: str = Field(alias="reviewer")


@pytest.fixture(params=["pydantic", "without pydantic"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test with pydantic, and again as where it is not installed."""
    if request.param != "pydantic":
        monkeypatch.setitem(sys.modules, "pydantic", None)


def test_a_key_reads_its_default_until_it_is_written(db: SmithersDB) -> None:
    attempts = db.state.key("attempts", int, default=0)
    assert (attempts.get(), db.state.has("attempts")) == (0, False), "the default is not written"
    assert attempts.set(1, "first").trigger == "first"
    assert attempts.update(lambda n: n + 1, "again").value == 2
    assert (attempts.get(), db.state.get("attempts")) == (2, 2)
    assert [t.trigger for t in db.state.history("attempts")] == ["first", "again"]


def test_a_key_without_a_default_may_be_none(db: SmithersDB) -> None:
    reviewer = db.state.key("reviewer", str)
    assert reviewer.get() is None
    reviewer.set("ada")
    assert reviewer.get() == "ada"
    reviewer.set(None)
    assert (reviewer.get(), db.state.has("reviewer")) == (None, True)


FITTING: list[tuple[Any, Any]] = [
    (None, None),
    (bool, True),
    (int, 10**40),
    (float, 1.5),
    (str, "é"),
    (list, [1, "a", None]),
    (dict, {"a": [1]}),
    (Any, [1, {"a": None}]),
    (int | None, None),
    (Literal["a", 1, None], 1),
    (int | str | list[int], [1, 2]),
    (list[list[float]], [[1.5], []]),
    (dict[str, int | None], {"a": 1, "b": None}),
    (Options, {"depth": 1}),
    (Point, Point(1, 2.5, ["a"])),
    (list[Point | None], [Point(1), None]),
    (Colour, Colour.TWO),
]


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(("kind", "value"), FITTING)
def test_values_come_back_as_they_were_written(db: SmithersDB, kind: Any, value: Any) -> None:
    key: StateKey[Any] = db.state.key("key", kind, default=value)
    assert repr(key.get()) == repr(value), "the default passes the same way"
    key.set(value)
    assert repr(key.get()) == repr(value)


MISFITS: list[tuple[Any, Any, Any]] = [
    (None, 0, None),
    (bool, 1, False),
    (int, True, 0),
    (int, 1.0, 0),
    (int, "1", 0),
    (int, None, 0),
    (float, True, 0.0),
    (float, 10**400, 0.0),
    (float, "1", 0.0),
    (str, 1, ""),
    (list, {}, []),
    (dict, [], {}),
    (int | None, "a", None),
    (Literal["a", 1], True, 1),
    (Literal["a", 1], "b", "a"),
    (list[int], [1, "2"], []),
    (list[int], 1, []),
    (dict[str, int], {"a": "b"}, {}),
    (dict[str, int], 1, {}),
    (Options, {"depth": "deep"}, {}),
    (Point, {"y": 1.5}, Point(1)),
    (Point, {"x": 1, "tags": [1]}, Point(1)),
    (Point, 3, Point(1)),
    (Colour, "blue", Colour.RED),
]


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(("kind", "value", "default"), MISFITS)
def test_a_value_that_does_not_fit_is_refused_by_name(
    db: SmithersDB, kind: Any, value: Any, default: Any
) -> None:
    key: StateKey[Any] = db.state.key("phase", kind, default=default)
    with pytest.raises(StateTypeError, match="state 'phase'"):
        key.set(value)
    with pytest.raises(StateTypeError, match="state 'phase'"):
        key.update(lambda _: value)
    with pytest.raises(StateTypeError, match="state 'phase'"):
        db.state.key("phase", kind, default=value)
    assert db.state.history() == [], "nothing was written"
    db.state.set("phase", value)
    with pytest.raises(StateTypeError, match=r"^state 'phase': found .*, wanted "):
        key.get()
    with pytest.raises(StateTypeError, match=r"^state 'phase': found .*, wanted "):
        key.update(lambda present: present)


@pytest.mark.usefixtures("either_way")
def test_the_message_says_what_was_found_what_was_wanted_and_where(db: SmithersDB) -> None:
    def said(kind: Any, stored: Any) -> str:
        db.state.set("key", stored)
        with pytest.raises(StateTypeError) as caught:
            db.state.key("key", kind).get()
        return str(caught.value)

    assert said(int, "three") == "state 'key': found \"three\", wanted int | None"
    assert said(Literal["a", "b"], "c").endswith("wanted Literal['a', 'b'] | None")
    assert len(said(int, "x" * 1_000_000)) < 150, "a long value is cut"
    point = said(Point, {"x": 1, "tags": ["a", 2]})
    assert "Point" in point and "tags.1" in point


def test_an_int_is_taken_for_a_float_unless_the_type_has_ints_too(db: SmithersDB) -> None:
    db.state.set("n", 1)
    assert repr(db.state.key("n", float).get()) == "1.0"
    number: StateKey[Any] = db.state.key("n", float | int)
    assert repr(number.get()) == "1"


def test_other_keys_of_a_typed_dict_are_not_lost_by_an_update(db: SmithersDB) -> None:
    db.state.set("options", {"depth": 1, "of_a_newer_version": True})
    options: StateKey[Any] = db.state.key("options", Options, default={})
    options.update(lambda found: {**found, "depth": 2})
    assert db.state.get("options") == {"depth": 2, "of_a_newer_version": True}


def test_pydantic_knows_more_types(db: SmithersDB) -> None:
    review = db.state.key("review", Review)
    review.set(Review(approved=True, reviewer="ada"))
    assert review.get() == Review(approved=True, reviewer="ada")
    assert db.state.get("review") == {"approved": True, "reviewer": "ada"}
    moment = db.state.key("moment", datetime, default=datetime(2026, 1, 1, tzinfo=UTC))
    moment.update(lambda then: then.replace(year=2027))
    assert moment.get() == datetime(2027, 1, 1, tzinfo=UTC)
    rest: list[tuple[Any, Any]] = [
        (set[int], {1, 2}),
        (tuple[int, str], (1, "a")),
        (dict[int, str], {1: "a"}),
        (UUID, UUID(int=5)),
        (Annotated[int, Field(gt=0)], 3),
    ]
    for kind, value in rest:
        key: StateKey[Any] = db.state.key("key", kind, default=value)
        key.set(value)
        assert key.get() == value
    positive: StateKey[int] = db.state.key("key", Annotated[int, Field(gt=0)], default=1)
    with pytest.raises(StateTypeError, match="greater than 0"):
        positive.set(0)


def test_without_pydantic_such_a_type_is_refused_with_a_hint(
    db: SmithersDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    unknown: list[Any] = [datetime, set[int], Annotated[int, Field(gt=0)], list[datetime], Review]
    for kind in unknown:
        with pytest.raises(TypeError, match=r"state 'key': .*`typed`"):
            db.state.key("key", kind)


def test_what_is_no_type_and_what_is_no_key_is_refused(db: SmithersDB) -> None:
    for kind in (object.__new__, SmithersDB, 3):
        with pytest.raises(TypeError, match="state 'key'"):
            db.state.key("key", kind)
    with pytest.raises(ValueError, match="a key is not empty"):
        db.state.key("", int)
    with pytest.raises(TypeError, match="a trigger"):
        db.state.key("key", int).set(1, 2)  # type: ignore[arg-type]  # pyright: ignore
    with pytest.raises(StateTypeError, match="state 'key'"):
        db.state.key("key", set[int]).set({object()})  # type: ignore[arg-type]  # pyright: ignore


def test_a_reader_who_changes_the_default_changes_only_its_own(db: SmithersDB) -> None:
    seen: StateKey[list[int]] = db.state.key("seen", list[int], default=[])
    seen.get().append(1)
    assert seen.get() == []


def test_a_key_is_observed_and_followed_by_memos(db: SmithersDB) -> None:
    told, effects = Recorder[int](), Recorder[int]()
    attempts = db.state.key("attempts", int, default=0)
    query = attempts.observe()
    query.subscribe(told)
    double = create_memo(lambda: query() * 2)
    create_effect(lambda: effects(double()))
    attempts.set(1)
    attempts.update(lambda n: n + 1)
    assert (told.values, effects.values) == ([0, 1, 2], [0, 2, 4])


def test_an_observed_value_that_does_not_fit_fails_like_a_query_and_recovers(
    db: SmithersDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, reported = Recorder[int](), list[BaseException]()
    monkeypatch.setattr(db.database.broker, "report", reported.append)
    attempts = db.state.key("attempts", int, default=0).observe()
    attempts.subscribe(told)
    db.state.set("attempts", "many")
    with pytest.raises(StateTypeError, match="state 'attempts'"):
        attempts()
    assert [type(error) for error in reported] == [StateTypeError]
    db.state.set("attempts", 3)
    assert (told.values, attempts()) == ([0, 3], 3)


def test_a_pair_writes_values_and_functions_and_follows(db: SmithersDB) -> None:
    attempts, set_attempts = db.state.key("attempts", int, default=0).signal()
    assert set_attempts(2, "two").trigger == "two"
    assert set_attempts(lambda n: n + 1, trigger="more").trigger == "more"
    assert attempts() == 3
    db.state.set("attempts", 7)
    assert attempts() == 7
    with pytest.raises(StateTypeError, match="state 'attempts'"):
        set_attempts("x")  # type: ignore[arg-type]  # pyright: ignore
    assert attempts() == 7


def test_a_read_only_or_closed_database_refuses(db: SmithersDB) -> None:
    assert db.path is not None
    db.state.set("n", 1)
    with create_smithers_db(db.path, read_only=True) as reader:
        key = reader.state.key("n", int, default=0)
        with pytest.raises(ReadOnly):
            key.set(2)
        with pytest.raises(ReadOnly):
            key.update(lambda n: n + 1)
        assert key.get() == 1
    for call in (key.get, key.observe, key.signal):
        with pytest.raises(DatabaseClosed):
            call()
