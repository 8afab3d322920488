"""Memos: previous values, errors, equality, and what is no memo."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from reactive_sqlite import (
    Accessor,
    Effect,
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
from reactive_sqlite.signals.external import External
from tests.reactive_sqlite.signals.background import run_in_thread
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
    with pytest.raises(ExceptionGroup, match=r"^cleanups failed$"):
        memo()
    assert memo() == 1


def test_what_fails_when_the_owner_of_a_memo_is_disposed_is_raised() -> None:
    def build(dispose: Callable[[], None]) -> Callable[[], None]:
        def compute() -> int:
            on_cleanup(partial(divmod, 1, 0))
            on_cleanup(partial(divmod, 1, 0))
            return 1

        assert create_memo(compute)() == 1
        return dispose

    with pytest.raises(ExceptionGroup, match=r"^cleanups failed$"):
        create_root(build)()


@pytest.mark.parametrize("cleanups", [1, 2])
def test_cleanups_that_fail_before_a_memo_computes_again_are_its_error(cleanups: int) -> None:
    a, set_a = create_signal(0)

    def compute() -> int:
        if a() == 0:
            for _ in range(cleanups):
                on_cleanup(partial(divmod, 1, 0))
        return a()

    memo = create_memo(compute)
    memo()
    set_a(1)
    expected = ZeroDivisionError if cleanups == 1 else ExceptionGroup
    with pytest.raises(expected, match=r"by zero$" if cleanups == 1 else r"^cleanups failed$"):
        memo()
    set_a(2)
    assert memo() == 2


def test_what_is_made_for_a_disposed_memo_is_disposed_at_once() -> None:
    a, set_a = create_signal(0)
    owners: list[Owner | None] = []
    seen: list[int] = []

    def build(dispose: Callable[[], None]) -> Callable[[], None]:
        create_memo(lambda: owners.append(get_owner()))()
        return dispose

    create_root(build)()
    run_with_owner(owners[0], lambda: create_effect(lambda: seen.append(a())))
    set_a(1)
    assert seen == [0]


def test_a_memo_over_a_disposed_one_computes_no_more_than_any_other() -> None:
    runs: list[int] = []
    leaf = External(0)
    leaf.volatile = True

    def build(dispose: Callable[[], None]) -> tuple[Accessor[int], Callable[[], None]]:
        return create_memo(lambda: 7), dispose

    other, set_other = create_signal(0)
    inner, dispose = create_root(build)
    outer = create_memo(lambda: note(runs, 1, inner()))
    assert outer() == 7
    dispose()
    for value in range(1, 4):
        set_other(value)
        assert (outer(), len(runs)) == (7, 1)
    create_effect(lambda: outer()).dispose()
    assert (outer(), other(), len(runs)) == (7, 3, 1)
    leaf.volatile = False


def test_what_is_read_and_made_after_a_memo_belongs_to_the_effect_that_read_it() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    memo = create_memo(lambda: a())
    seen: list[object] = []

    def run() -> None:
        memo()
        seen.append(get_owner())
        on_cleanup(lambda: seen.append("cleaned"))
        b()

    effect = create_effect(run)
    set_a(1)
    set_b(1)
    effect.dispose()
    assert seen == [effect, "cleaned"] * 3


def test_a_memo_keeps_recording_although_another_thread_records_meanwhile() -> None:
    a, set_a = create_signal(0)
    b, _ = create_signal(0)
    others: list[Effect] = []

    def compute() -> int:
        if not others:
            others.append(run_in_thread(lambda: create_effect(lambda: b())).result())
        return a()

    memo = create_memo(compute)
    seen: list[int] = []
    effect = create_effect(lambda: seen.append(memo()))
    set_a(1)
    assert seen == [0, 1]
    for one in (effect, *others):
        one.dispose()


def test_a_memo_may_put_right_what_it_reads() -> None:
    a, set_a = create_signal(0)

    def clamp() -> int:
        if a() > 10:
            set_a(10)
        return a()

    memo = create_memo(clamp)
    again = create_memo(lambda: memo() + 1)
    seen: list[int] = []
    effect = create_effect(lambda: seen.append(again()))
    set_a(20)
    assert (memo(), again(), a()) == (10, 11, 10)
    assert seen[-1] == 11
    set_a(5)
    assert (memo(), seen[-1]) == (5, 6)
    effect.dispose()


def test_not_a_number_is_equal_to_itself_and_to_no_number() -> None:
    a, set_a = create_signal(1)
    memo = create_memo(lambda: float("nan") if a() > 1 else 1.0)
    seen: list[str] = []
    effect = create_effect(lambda: seen.append(str(memo())))
    for value in (2, 3, 1):
        set_a(value)
    assert seen == ["1.0", "nan", "1.0"]
    effect.dispose()


def failing_at_zero(seen: list[object], memo: Accessor[object]) -> Effect:
    """An effect that notes a memo's value or that it has failed."""

    def follow() -> None:
        try:
            seen.append(memo())
        except ZeroDivisionError:
            seen.append("error")

    return create_effect(follow)


def test_a_batch_that_ends_an_error_is_a_change_whatever_it_was_before_the_error() -> None:
    a, set_a = create_signal(1)
    b, set_b = create_signal(0)
    memo = create_memo(lambda: 0 * b() + 10 // a())
    seen: list[object] = []
    effect = failing_at_zero(seen, memo)
    set_a(0)
    with batch():
        set_b(1)
        with pytest.raises(ZeroDivisionError):
            memo()
        set_a(1)
        assert memo() == 10
    assert seen == [10, "error", 10]
    effect.dispose()


def test_a_batch_that_ends_an_error_with_none_is_a_change() -> None:
    a, set_a = create_signal(0)
    memo = create_memo(lambda: 10 // a() if a() < 2 else None)
    seen: list[object] = []
    effect = failing_at_zero(seen, memo)
    with batch():
        set_a(1)
        assert memo() == 10
        set_a(2)
        assert memo() is None
    assert seen == ["error", None]
    effect.dispose()


def test_a_memo_read_twice_in_a_batch_that_changes_it_twice_is_changed() -> None:
    a, set_a = create_signal(0)
    memo = create_memo(lambda: a() * 10)
    seen: list[int] = []
    effect = create_effect(lambda: seen.append(memo()))
    with batch():
        for value in (1, 2):
            set_a(value)
            assert memo() == 10 * value
    assert seen == [0, 20]
    effect.dispose()


def test_who_saw_a_memo_in_the_midst_of_a_batch_is_told_that_it_was_given_back() -> None:
    a, set_a = create_signal(0)
    memo = create_memo(lambda: a() * 10)
    before: list[int] = []
    between: list[int] = []
    first = create_effect(lambda: before.append(memo()))
    with batch():
        set_a(1)
        second = create_effect(lambda: between.append(memo()))
        set_a(0)
        assert memo() == 0
    assert (before, between) == ([0], [10, 0])
    first.dispose()
    second.dispose()


def test_a_memo_that_led_to_an_effect_is_still_right_after_that() -> None:
    a, set_a = create_signal(0)
    other, set_other = create_signal(0)
    runs: list[int] = []
    memo = create_memo(lambda: note(runs, 1, a()))
    create_effect(lambda: memo()).dispose()
    assert (memo(), len(runs)) == (0, 1)
    set_other(other() + 1)
    assert (memo(), len(runs)) == (0, 1)
    set_a(1)
    assert (memo(), len(runs)) == (1, 2)


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
        assert caught.traceback[-1].name == "<lambda>", "it tells where it was raised"
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
