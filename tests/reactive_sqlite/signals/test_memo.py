"""Memos: previous values, errors, equality, and what is no memo."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from reactive_sqlite import (
    Accessor,
    Owner,
    batch,
    create_effect,
    create_memo,
    create_root,
    create_signal,
    get_owner,
    on_cleanup,
    run_with_owner,
)
from tests.reactive_sqlite.signals.noting import note


def test_fn_gets_the_previous_value_when_an_initial_one_is_given() -> None:  # P01
    a, set_a = create_signal(1)
    total = create_memo(lambda previous: previous + a(), 10)
    assert total() == 11
    set_a(5)
    assert total() == 16


def test_none_is_an_initial_value_too() -> None:
    a, set_a = create_signal(1)

    def add(previous: tuple[int, ...] | None) -> tuple[int, ...] | None:
        return (*(previous or ()), a())

    history = create_memo(add, None)
    assert history() == (1,)
    set_a(2)
    assert history() == (1, 2)


def test_parameters_with_defaults_are_left_alone() -> None:
    def double(number: int = 7) -> int:
        return number * 2

    assert create_memo(double)() == 14, "fn() is called, whatever parameters it has"


def test_an_error_reaches_the_reader_through_the_memos_above() -> None:  # X01
    a, set_a = create_signal(1)
    inner = create_memo(lambda: 10 // a())
    outer = create_memo(lambda: inner() + 1)
    assert outer() == 11
    set_a(0)
    for memo in (inner, outer):
        with pytest.raises(ZeroDivisionError):
            memo()


def memo_that_ends_itself(compute: Callable[[], int], cleaned: list[str]) -> Accessor[int]:
    """A memo in whose first run the root around it is disposed."""

    def root(dispose: Callable[[], None]) -> Accessor[int]:
        def run() -> int:
            on_cleanup(lambda: cleaned.append("before"))
            dispose()
            on_cleanup(lambda: cleaned.append("after"))
            return compute()

        return create_memo(run)

    return create_root(root)


def test_a_memo_disposed_in_its_run_keeps_that_runs_value_and_is_cleaned_up_after() -> None:
    a, set_a = create_signal(1)
    cleaned: list[str] = []
    memo = memo_that_ends_itself(a, cleaned)
    assert (memo(), memo.peek()) == (1, 1)
    assert cleaned == ["after", "before"]
    set_a(2)
    assert (memo(), memo.peek()) == (1, 1), "it is computed no more"
    assert cleaned == ["after", "before"]


def test_a_memo_disposed_in_its_run_keeps_that_runs_error() -> None:
    memo = memo_that_ends_itself(lambda: 1 // 0, [])
    for read in (memo, memo.peek, memo):
        with pytest.raises(ZeroDivisionError):
            read()


def test_a_cleanup_that_fails_after_the_run_that_disposed_its_memo_is_told_the_reader() -> None:
    def compute() -> int:
        on_cleanup(partial(divmod, 1, 0))
        on_cleanup(partial(divmod, 1, 0))
        return 1

    memo = memo_that_ends_itself(compute, [])
    with pytest.raises(ExceptionGroup, match="cleanups failed"):
        memo()
    assert memo() == 1


def test_what_is_made_later_for_a_memo_lives_until_it_computes_again() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    owners: list[Owner | None] = []
    seen: list[int] = []

    def compute() -> int:
        owners.append(get_owner())
        return a()

    memo = create_memo(compute)
    assert memo() == 0
    run_with_owner(owners[0], lambda: create_effect(lambda: seen.append(b())))
    set_b(1)
    assert seen == [0, 1]
    set_a(1)
    assert memo() == 1
    set_b(2)
    assert seen == [0, 1]


def test_a_failed_memo_is_not_run_again_without_a_change() -> None:  # X02
    a, _ = create_signal(0)
    runs: list[int] = []
    memo = create_memo(lambda: 10 // note(runs, 1, a()))
    for read in (memo, memo, memo.peek):
        with pytest.raises(ZeroDivisionError):
            read()
    assert len(runs) == 1


def test_a_failed_memo_and_those_above_recover() -> None:  # X03
    a, set_a = create_signal(0)
    inner = create_memo(lambda: 10 // a())
    outer = create_memo(lambda: inner() + 1)
    with pytest.raises(ZeroDivisionError):
        outer()
    set_a(5)
    assert outer() == 3


def test_a_cached_error_does_not_grow_with_every_reader() -> None:
    a, _ = create_signal(0)
    memo = create_memo(lambda: 10 // a())

    def depth() -> int:
        with pytest.raises(ZeroDivisionError) as caught:
            memo()
        return len(caught.traceback)

    first = depth()
    depth()
    assert depth() == first, "each reader gets the traceback of the run, plus its own frames"


def test_a_memo_that_fails_under_an_effect_recovers_with_its_dependency() -> None:  # R15
    a, set_a = create_signal(1)
    runs: list[int] = []
    memo = create_memo(lambda: 10 // note(runs, 1, a()))
    seen: list[int | str] = []

    def follow() -> None:
        try:
            seen.append(memo())
        except ZeroDivisionError:
            seen.append("error")

    create_effect(follow)
    set_a(0)
    set_a(5)
    assert seen == [10, "error", 2]
    assert len(runs) == 3


def test_an_error_and_the_same_value_after_it_are_both_changes() -> None:
    a, set_a = create_signal(1)
    memo = create_memo(lambda: 10 if a() else 1 // a())
    seen: list[int | str] = []

    def follow() -> None:
        try:
            seen.append(memo())
        except ZeroDivisionError:
            seen.append("error")

    create_effect(follow)
    set_a(0)
    set_a(2)
    assert seen == [10, "error", 10]


def test_reads_in_a_memos_equality_are_not_dependencies_of_its_reader() -> None:  # R13
    exact, set_exact = create_signal(1.0)
    allowed, set_allowed = create_signal(0.1)
    count, set_count = create_signal(1)
    inner = create_memo(lambda: exact(), equals=lambda old, new: abs(old - new) < allowed())
    runs: list[int] = []
    outer = create_memo(lambda: note(runs, count(), inner()))
    outer()
    set_exact(2.0)
    set_count(2)
    outer()
    before = len(runs)
    set_allowed(0.2)
    outer()
    assert len(runs) == before


def test_an_equality_of_ones_own_may_call_one_object_changed() -> None:
    a, set_a = create_signal(0)
    items: list[int] = []

    def fill() -> list[int]:
        items.append(a())
        return items

    memo = create_memo(fill, equals=lambda old, new: False)
    seen: list[int] = []
    create_effect(lambda: seen.append(len(memo())))
    set_a(1)
    assert seen == [1, 2]


def test_an_equality_of_ones_own_keeps_the_old_value() -> None:
    a, set_a = create_signal(1.0)
    memo = create_memo(lambda: a(), equals=lambda old, new: abs(old - new) < 0.5)
    seen: list[float] = []
    create_effect(lambda: seen.append(memo()))
    set_a(1.2)
    assert memo() == 1.0
    set_a(2.0)
    assert seen == [1.0, 2.0]


def test_writing_in_a_memo_settles_before_its_reader_goes_on() -> None:
    a, set_a = create_signal(1)
    copy, set_copy = create_signal(0)
    seen: list[int] = []
    create_effect(lambda: seen.append(copy()))
    memo = create_memo(lambda: set_copy(a()))
    assert memo() == 1
    assert seen == [0, 1]
    set_a(2)
    assert memo() == 2
    assert seen == [0, 1, 2]


def test_a_live_memo_is_right_in_the_middle_of_a_batch() -> None:  # B03
    a, set_a = create_signal(1)
    memo = create_memo(lambda: a() * 2)
    create_effect(lambda: memo())
    with batch():
        set_a(5)
        assert (a(), memo()) == (5, 10)


class Loader:
    async def method(self) -> int:
        return 1

    async def __call__(self) -> int:
        return 1


async def load(value: int = 0) -> int:
    return value


@pytest.mark.parametrize("fn", [load, partial(load, 1), Loader().method, Loader()])
def test_an_async_memo_is_a_type_error_that_names_create_resource(fn: object) -> None:
    with pytest.raises(TypeError, match="create_resource"):
        create_memo(fn)  # type: ignore[call-overload]


def test_a_memo_that_writes_and_is_read_inside_a_batch_still_wakes_its_effects() -> None:
    get, put = create_signal(0)
    calls, set_calls = create_signal(0)
    seen: list[int] = []

    def ten_times() -> int:
        set_calls(lambda before: before + 1)
        return get() * 10

    ten = create_memo(ten_times)
    again = create_memo(lambda: ten() + 1)
    effects = [create_effect(lambda: seen.append(again())), create_effect(calls)]
    with batch():
        put(1)
        assert again() == 11
    assert seen == [1, 11], "the end of the batch reaches what is behind the memo"
    put(2)
    assert seen == [1, 11, 21]
    for effect in effects:
        effect.dispose()
