"""Batches: what is held back, until when, and what counts as changed."""

from __future__ import annotations

import pytest

from reactive_sqlite import batch, create_effect, create_memo, create_signal
from tests.reactive_sqlite.signals.noting import note


def test_three_writes_in_a_batch_are_one_run_with_the_last_value() -> None:  # B01
    a, set_a = create_signal(0)
    seen: list[int] = []
    create_effect(lambda: seen.append(a()))
    with batch():
        set_a(1)
        set_a(2)
        set_a(3)
    assert seen == [0, 3]


def test_effects_wait_for_the_outermost_batch() -> None:  # B02
    a, set_a = create_signal(0)
    seen: list[int] = []
    create_effect(lambda: seen.append(a()))
    with batch():
        set_a(1)
        with batch():
            set_a(2)
        assert seen == [0]
        set_a(3)
    assert seen == [0, 3]


def test_reads_in_a_batch_are_new() -> None:  # B03
    a, set_a = create_signal(1)
    double = create_memo(lambda: a() * 2)
    double()
    with batch():
        set_a(5)
        assert (a(), double()) == (5, 10)


def test_effects_run_also_when_the_body_raises() -> None:  # B04
    a, set_a = create_signal(0)
    seen: list[int] = []
    create_effect(lambda: seen.append(a()))
    with pytest.raises(KeyError, match="boom"), batch():
        set_a(1)
        raise KeyError("boom")
    assert seen == [0, 1]


def test_a_batch_that_ends_with_the_values_it_began_with_runs_nothing() -> None:  # B05
    a, set_a = create_signal(0)
    nan, set_nan = create_signal(float("nan"))
    seen: list[int] = []
    create_effect(lambda: note(seen, a(), nan()))
    with batch():
        set_a(5)
        set_nan(1.0)
        set_a(0)
        set_nan(float("nan"))
    assert seen == [0]
    set_a(1)
    assert seen == [0, 1], "the next change is seen"


def test_an_equality_of_ones_own_decides_whether_a_batch_has_reverted() -> None:
    a, set_a = create_signal([1], equals=lambda old, new: old == new)
    seen: list[list[int]] = []
    create_effect(lambda: seen.append(a()))
    with batch():
        set_a([2])
        set_a([1])
    assert seen == [[1]]
    with batch():
        set_a([2])
    assert seen == [[1], [2]]


def test_an_equality_that_fails_at_the_end_of_a_batch_leaves_a_change() -> None:
    fails: list[Exception] = []

    def equals(old: int, new: int) -> bool:
        if fails:
            raise fails[0]
        return False

    a, set_a = create_signal(1, equals=equals)
    seen: list[int] = []
    create_effect(lambda: seen.append(a()))
    with pytest.raises(ValueError, match="equality"), batch():
        set_a(2)
        fails.append(ValueError("equality"))
    assert seen == [1, 2]


def test_an_equality_that_calls_one_object_changed_is_believed_in_a_batch() -> None:
    items = [1]
    a, set_a = create_signal(items, equals=lambda old, new: False)
    seen: list[int] = []
    create_effect(lambda: seen.append(len(a())))
    with batch():
        items.append(2)
        set_a(items)
    assert seen == [1, 2]


def test_returning_from_a_batch_works_as_from_any_block() -> None:  # B07
    def answer() -> int:
        with batch():
            return 42

    assert answer() == 42


def test_reading_a_memo_in_a_batch_runs_no_effect_early() -> None:  # B11
    a, set_a = create_signal(0)
    plus = create_memo(lambda: a() + 1)
    double = create_memo(lambda: a() * 2)
    seen: list[int] = []
    create_effect(lambda: seen.append(double()))
    with batch():
        set_a(5)
        assert plus() == 6
        assert seen == [0]
    assert seen == [0, 10]


def test_an_effect_made_in_a_batch_runs_at_once_and_once_more_after_a_later_write() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []
    with batch():
        set_a(1)
        create_effect(lambda: seen.append(a()))
        assert seen == [1]
        set_a(2)
        assert seen == [1]
    assert seen == [1, 2]


def test_a_memo_that_becomes_live_in_a_batch_is_told_of_its_later_writes() -> None:
    a, set_a = create_signal(0)
    double = create_memo(lambda: a() * 2)
    seen: list[int] = []
    with batch():
        set_a(1)
        create_effect(lambda: seen.append(double()))
        set_a(2)
    assert seen == [2, 4]


def test_an_empty_batch_does_nothing() -> None:
    with batch():
        pass


def test_a_batch_in_an_effect_ends_with_the_effect() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    seen: list[int] = []
    create_effect(lambda: seen.append(b()))

    def run() -> None:
        value = a()
        with batch():
            set_b(value * 10)
        assert seen[-1] != value * 10 or value == 0, "the effect is a batch itself"

    create_effect(run)
    set_a(1)
    assert seen == [0, 10]


def test_a_change_after_a_batch_that_restored_a_value_is_seen_by_an_unread_memo() -> None:
    a, set_a = create_signal(0)
    double = create_memo(lambda: a() * 2)
    assert double() == 0
    with batch():
        set_a(5)
        set_a(0)
    set_a(7)
    assert double() == 14
