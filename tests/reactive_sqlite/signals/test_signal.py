"""What counts as a change, and what reading and writing a signal do."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, cast

import pytest

from reactive_sqlite import batch, create_effect, create_memo, create_signal, untrack
from tests.reactive_sqlite.signals.noting import note


class ArrayLike:
    """Its `==` gives no bool, as that of NumPy's arrays."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


def observed(value: Any, **options: Any) -> tuple[list[Any], Any]:
    """A signal whose values an effect collects: the list, and the setter."""
    get, put = create_signal(value, **options)
    seen: list[Any] = []
    create_effect(lambda: seen.append(get()))
    return seen, put


@pytest.mark.parametrize(
    ("value", "equal"),
    [
        (1, 1),
        (1000, int("1000")),
        ("ab", "".join(["a", "b"])),
        (1.5, float("1.5")),
        (b"ab", bytes([97, 98])),
        (True, True),
        (2j, complex(0, 2)),
        (None, None),
    ],
)
def test_an_equal_scalar_is_no_change(value: object, equal: object) -> None:  # E01
    seen, put = observed(value)
    put(equal)
    assert len(seen) == 1


def test_a_memo_that_gives_an_equal_scalar_is_no_change() -> None:  # E02
    a, set_a = create_signal(0)
    memo = create_memo(lambda: int("1000") + 0 * a())
    seen: list[int] = []
    create_effect(lambda: seen.append(memo()))
    set_a(1)
    set_a(2)
    assert seen == [1000]


@pytest.mark.parametrize("nan", [math.nan, float("nan"), complex(math.nan, 1)])
def test_nan_equals_itself(nan: complex) -> None:  # E03
    seen, put = observed(nan)
    put(nan)
    put(type(nan)(str(nan)))
    assert len(seen) == 1


def test_complex_numbers_that_differ_in_the_other_part_differ() -> None:
    seen, put = observed(complex(math.nan, 1))
    put(complex(math.nan, 2))
    assert len(seen) == 2


def test_the_eq_of_an_array_like_value_is_never_asked() -> None:  # E04
    a, set_a = create_signal(ArrayLike(1))
    memo = create_memo(lambda: ArrayLike(a().x + 1))
    seen: list[int] = []
    create_effect(lambda: seen.append(memo().x))
    set_a(ArrayLike(5))
    assert seen == [2, 6]
    with batch():
        set_a(ArrayLike(7))
    assert seen == [2, 6, 8], "nor at the end of a batch"


def test_scalars_of_different_types_differ() -> None:  # E05
    seen, put = observed(1)
    for value in (True, 1.0, 1 + 0j, "1", b"1", None):
        put(value)
    assert [repr(value) for value in seen] == [
        *("1", "True", "1.0", "(1+0j)", "'1'", "b'1'", "None")
    ]


def test_a_subclass_of_a_scalar_is_compared_by_identity() -> None:
    class Name(str):
        """Not exactly a built-in, so its == is not asked."""

    first = Name("x")
    seen, put = observed(first)
    put(first)
    assert len(seen) == 1
    put(Name("x"))
    assert len(seen) == 2


def test_an_equality_of_ones_own_decides_and_its_reads_are_not_tracked() -> None:  # E06
    other, set_other = create_signal(0)
    asked: list[tuple[list[int], list[int]]] = []

    def equals(old: list[int], new: list[int]) -> bool:
        other()
        asked.append((old, new))
        return old == new

    get, put = create_signal([1], equals=equals)
    seen: list[list[int]] = []
    create_effect(lambda: seen.append(get()))
    put([1])
    assert seen == [[1]]
    put([2])
    assert seen == [[1], [2]]
    assert asked == [([1], [1]), ([1], [2])], "asked as equals(old, new)"
    set_other(1)
    assert len(seen) == 2


def test_setting_inside_an_effect_does_not_track_the_reads_of_the_equality() -> None:
    other, set_other = create_signal(0)
    _, put = create_signal(0, equals=lambda old, new: other() == -1)
    runs: list[int] = []

    def write() -> None:
        runs.append(1)
        put(len(runs))

    create_effect(write)
    set_other(1)
    assert len(runs) == 1


def test_changing_a_value_in_place_and_setting_it_again_is_no_change() -> None:  # E08
    items = [1]
    seen, put = observed(items)
    items.append(2)
    put(items)
    assert len(seen) == 1


def test_without_equality_every_write_is_a_change() -> None:
    seen, put = observed(1, equals=False)
    put(1)
    put(1)
    assert seen == [1, 1, 1]
    with batch():
        put(1)
    assert seen == [1, 1, 1, 1], "also in a batch that ends with the value it began with"


def test_a_memo_without_equality_passes_every_run_on() -> None:
    a, set_a = create_signal(0)
    memo = create_memo(lambda: a() * 0, equals=False)
    seen: list[int] = []
    create_effect(lambda: seen.append(memo()))
    set_a(1)
    assert seen == [0, 0]


def test_a_function_makes_the_new_value_of_the_previous_one() -> None:
    get, put = create_signal(1)
    assert put(lambda n: n + 1) == 2
    assert get() == 2


def test_reads_of_an_updating_function_are_not_tracked() -> None:
    other, set_other = create_signal(0)
    _, put = create_signal(0)
    runs: list[int] = []

    def write() -> None:
        runs.append(1)
        put(lambda n: n + other())

    create_effect(write)
    set_other(1)
    assert len(runs) == 1


def test_a_function_is_stored_by_a_function_that_gives_it() -> None:
    def stored() -> str:
        return "called"

    def other() -> str:
        return "the first"

    get, put = create_signal(other)
    assert put(lambda _: stored) is stored
    assert get() is stored


def test_set_returns_what_is_stored() -> None:
    _, put = create_signal(1)
    assert put(2) == 2
    near, set_near = create_signal(1.0, equals=lambda old, new: abs(old - new) < 0.1)
    assert set_near(1.05) == 1.0, "equal to the old value, which is kept"
    assert near() == 1.0
    assert set_near(2.0) == 2.0


def test_an_error_of_the_equality_is_raised_and_changes_nothing() -> None:
    def refuse(old: int, new: int) -> bool:
        raise KeyError("equality")

    get, put = create_signal(1, equals=refuse)
    with pytest.raises(KeyError):
        put(2)
    assert get() == 1


def test_peek_reads_without_subscribing() -> None:
    a, set_a = create_signal(1)
    memo = create_memo(lambda: a() * 2)
    seen: list[tuple[int, int]] = []
    create_effect(lambda: seen.append((a.peek(), memo.peek())))
    set_a(2)
    assert seen == [(1, 2)]
    assert (a.peek(), memo.peek()) == (2, 4)


def test_untracked_reads_do_not_subscribe_an_effect() -> None:  # U01
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    seen: list[tuple[int, int]] = []
    create_effect(lambda: seen.append((a(), untrack(b))))
    set_b(1)
    set_a(1)
    assert seen == [(0, 0), (1, 1)]


def test_untracked_reads_do_not_subscribe_a_memo() -> None:  # U02
    a, _ = create_signal(0)
    b, set_b = create_signal(0)
    runs: list[int] = []
    memo = create_memo(lambda: note(runs, 1, (a(), untrack(b))))
    memo()
    set_b(1)
    assert memo() == (0, 0)
    assert len(runs) == 1


def test_an_effect_created_untracked_tracks_as_usual() -> None:  # U04
    a, set_a = create_signal(0)
    seen: list[int] = []
    untrack(lambda: create_effect(lambda: seen.append(a())))
    set_a(1)
    assert seen == [0, 1]


def test_tracking_is_restored_after_the_untracked_function_raises() -> None:  # U05
    a, set_a = create_signal(0)
    seen: list[int] = []

    def run() -> None:
        with pytest.raises(ZeroDivisionError):
            untrack(lambda: 1 // 0)
        seen.append(a())

    create_effect(run)
    set_a(1)
    assert seen == [0, 1]


def test_signals_and_memos_show_their_names() -> None:
    get, _ = create_signal(1, name="count")
    memo = create_memo(lambda: get(), name="copy")
    effect = create_effect(lambda: None, name="idle")
    assert "count" in repr(get)
    assert "copy" in repr(memo)
    assert repr(effect) == "<effect idle>"
    effect.dispose()
    assert repr(effect) == "<effect idle, disposed>"


def test_what_has_no_name_shows_that_of_its_function_or_its_kind() -> None:
    def watch() -> None:
        """Do nothing."""

    assert repr(create_effect(watch)).endswith("watch>")
    assert repr(create_effect(partial(int, 1))) == "<effect synceffect>"


def test_what_a_function_makes_is_compared_as_what_is_set() -> None:
    before = cast("object", 1)
    a, set_a = create_signal(before)
    seen: list[object] = []
    effect = create_effect(lambda: seen.append(a()))
    items = [1]
    made: list[object] = [True, True, 1, items, [1], items]
    for _ in range(len(made)):
        set_a(lambda _: made.pop(0))
    assert seen == [1, True, 1, [1], [1], [1]]
    assert [type(one) for one in seen[:3]] == [int, bool, int]
    effect.dispose()
