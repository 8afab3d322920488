"""Differences of lists: applying them always gives the next list."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_sqlite.diff import Diff, Insert, Move, Remove, Update, diff_lists, frozen

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from([0.0, 1.0, "1", b"1", float("nan")]),
)
rows = st.lists(st.fixed_dictionaries({"id": st.integers(0, 5), "v": scalars}), max_size=12)


def by_id(row: dict[str, Any]) -> int:
    return int(row["id"])


@given(rows, rows)
def test_applying_a_keyed_diff_gives_the_next_list(
    old: list[dict[str, Any]], new: list[dict[str, Any]]
) -> None:
    assert frozen(diff_lists(old, new, by_id).apply(old)) == frozen(new)


@given(rows, rows)
def test_applying_a_diff_without_a_key_gives_the_next_list(
    old: list[dict[str, Any]], new: list[dict[str, Any]]
) -> None:
    difference = diff_lists(old, new)
    assert frozen(difference.apply(old)) == frozen(new)
    assert not any(isinstance(step, Update) for step in difference.steps)


@given(st.permutations(range(8)))
def test_a_pure_reorder_only_moves_and_no_more_than_needed(order: list[int]) -> None:
    difference = diff_lists(range(8), order)
    assert all(isinstance(step, Move) for step in difference.steps)
    assert difference.apply(range(8)) == order
    longest = max(
        (bin(kept).count("1") for kept in range(256) if _increasing(order, kept)), default=0
    )
    assert len(difference.steps) == 8 - longest


def _increasing(order: list[int], kept: int) -> bool:
    chosen = [number for at, number in enumerate(order) if kept >> at & 1]
    return chosen == sorted(chosen)


def test_200_rapid_swaps_are_followed() -> None:
    rng = random.Random(7)
    shown: list[int] = list(range(50))
    now = list(shown)
    for _ in range(200):
        a, b = rng.sample(range(50), 2)
        now[a], now[b] = now[b], now[a]
        difference = diff_lists(shown, now)
        assert len(difference.steps) <= 2
        shown = difference.apply(shown)
        assert shown == now


def test_one_changed_row_of_1000_is_one_update() -> None:
    old: list[dict[str, Any]] = [{"id": i, "v": i} for i in range(1000)]
    new = [dict(row) for row in old]
    new[500]["v"] = "changed"
    assert diff_lists(old, new, by_id).steps == (Update(500, old[500], new[500]),)


def test_each_kind_of_step_in_its_order() -> None:
    old = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}]
    new = [{"id": 3, "v": "c"}, {"id": 4, "v": "d"}, {"id": 1, "v": "A"}]
    assert diff_lists(old, new, by_id).steps == (
        Remove(1, old[1]),
        Move(1, 0, old[2]),
        Insert(1, new[1]),
        Update(2, old[0], new[2]),
    )


def test_a_changed_type_is_a_change() -> None:
    assert diff_lists([1], [True]).steps == (Remove(0, 1), Insert(0, True))
    assert not diff_lists([float("nan")], [float("nan")])


def test_the_steps_of_another_list_are_refused() -> None:
    with pytest.raises(IndexError):
        Diff((Insert(3, "x"),)).apply(["a"])
    with pytest.raises(IndexError):
        Diff((Remove(3, "x"),)).apply(["a"])
