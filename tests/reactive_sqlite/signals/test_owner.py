"""Ownership: who is disposed with whom, in what order cleanups run, and who gets errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from reactive_sqlite import (
    Owner,
    catch_error,
    create_effect,
    create_memo,
    create_root,
    create_signal,
    get_owner,
    on_cleanup,
    run_with_owner,
)
from tests.reactive_sqlite.signals.noting import note


def fail(error: Exception) -> None:
    raise error


def test_a_cleanup_runs_before_the_next_run_with_its_own_runs_values() -> None:  # C01
    a, set_a = create_signal(0)
    seen: list[str] = []

    def run() -> None:
        value = a()
        seen.append(f"run {value}")
        on_cleanup(lambda: seen.append(f"clean {value}"))

    create_effect(run)
    set_a(1)
    set_a(2)
    assert seen == ["run 0", "clean 0", "run 1", "clean 1", "run 2"]


def test_disposal_runs_the_last_cleanup_once() -> None:  # C02
    a, _ = create_signal(0)
    cleaned: list[int] = []

    def run() -> None:
        a()
        on_cleanup(lambda: cleaned.append(1))

    effect = create_effect(run)
    effect.dispose()
    effect.dispose()
    assert cleaned == [1]


def test_cleanups_run_last_first() -> None:  # C04
    a, set_a = create_signal(0)
    seen: list[int] = []

    def run() -> None:
        a()
        for i in range(3):
            on_cleanup(partial(seen.append, i))

    create_effect(run)
    set_a(1)
    assert seen == [2, 1, 0]


def test_children_are_cleaned_up_before_their_parents() -> None:
    seen: list[str] = []

    def child(name: str) -> None:
        create_effect(lambda: on_cleanup(lambda: seen.append(name)))

    def parent() -> None:
        on_cleanup(lambda: seen.append("parent"))
        child("first")
        child("second")

    create_effect(parent).dispose()
    assert seen == ["second", "first", "parent"]


def test_reads_in_a_cleanup_subscribe_nothing() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    runs: list[int] = []

    def run() -> None:
        runs.append(a())
        on_cleanup(lambda: b())

    create_effect(run)
    set_a(1)
    set_b(1)
    assert runs == [0, 1]


def test_every_cleanup_runs_although_one_raises() -> None:
    cleaned: list[str] = []

    def run() -> None:
        on_cleanup(lambda: cleaned.append("first"))
        on_cleanup(partial(fail, IndexError()))
        on_cleanup(partial(fail, KeyError()))
        on_cleanup(lambda: cleaned.append("last"))

    effect = create_effect(run)
    with pytest.raises(ExceptionGroup) as caught:
        effect.dispose()
    assert cleaned == ["last", "first"]
    assert [type(error) for error in caught.value.exceptions] == [KeyError, IndexError]
    assert caught.value.message == "cleanups failed"


def test_every_cleanup_of_a_root_and_its_children_runs_although_some_raise() -> None:
    def build(dispose: Callable[[], None]) -> Callable[[], None]:
        on_cleanup(partial(fail, KeyError()))
        create_effect(lambda: on_cleanup(partial(fail, IndexError())))
        return dispose

    with pytest.raises(ExceptionGroup) as caught:
        create_root(build)()
    assert [type(error) for error in caught.value.exceptions] == [IndexError, KeyError]
    assert caught.value.message == "cleanups failed"


def test_an_error_of_a_cleanup_before_a_run_does_not_prevent_the_run() -> None:
    a, set_a = create_signal(0)
    runs: list[int] = []

    def run() -> None:
        runs.append(a())
        if a() == 0:
            on_cleanup(partial(fail, KeyError()))

    create_effect(run)
    with pytest.raises(KeyError):
        set_a(1)
    set_a(2)
    assert runs == [0, 1, 2]


def test_on_cleanup_outside_of_everything_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="on_cleanup"):
        on_cleanup(lambda: None)


def test_an_effect_made_in_an_effect_is_disposed_when_the_outer_one_runs_again() -> None:  # C06
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    inner: list[int] = []

    def outer() -> None:
        value = a()
        create_effect(lambda: note(inner, value, b()))

    create_effect(outer)
    set_a(1)
    set_a(2)
    inner.clear()
    set_b(1)
    assert inner == [2]


def test_disposing_a_root_stops_all_that_was_made_inside() -> None:  # C09
    a, set_a = create_signal(0)
    seen: list[str] = []

    def body(dispose: Callable[[], None]) -> Callable[[], None]:
        def outer() -> None:
            a()
            seen.append("outer")
            create_effect(lambda: note(seen, "inner", a()))

        create_effect(outer)
        on_cleanup(lambda: seen.append("root"))
        return dispose

    dispose = create_root(body)
    seen.clear()
    dispose()
    dispose()
    set_a(1)
    assert seen == ["root"]


def test_what_a_root_has_made_ends_with_its_bodys_error() -> None:
    a, set_a = create_signal(0)
    seen: list[object] = []

    def body(_: Callable[[], None]) -> None:
        on_cleanup(lambda: seen.append("cleaned"))
        create_effect(lambda: seen.append(a()))
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        create_root(body)
    set_a(1)
    assert seen == [0, "cleaned"], "nobody was given a handle to dispose it by"


def test_what_catch_error_has_made_ends_with_an_error_that_it_raises_itself() -> None:
    a, set_a = create_signal(0)
    seen: list[str] = []

    def body(name: str) -> None:
        create_effect(lambda: seen.append(f"{name} {a()}"))
        raise ValueError(name)

    catch_error(lambda: body("handed over"), lambda error: None)
    with pytest.raises(ValueError, match="raised"):
        catch_error(lambda: body("raised"), fail)
    seen.clear()
    set_a(1)
    assert seen == ["handed over 1"], "one that was handed over ends nothing"


def test_reads_in_a_roots_body_do_not_subscribe_the_effect_around_it() -> None:  # C10
    a, set_a = create_signal(0)
    runs: list[int] = []

    def run() -> None:
        runs.append(1)
        create_root(lambda _: a())

    create_effect(run)
    set_a(1)
    assert len(runs) == 1


def test_a_root_made_in_an_effect_survives_its_next_run() -> None:  # C11
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    seen: list[int] = []

    def run() -> None:
        if a() == 0:
            create_root(lambda _: create_effect(lambda: seen.append(b())))

    create_effect(run)
    set_a(1)
    set_b(5)
    assert seen == [0, 5]


def test_an_effect_made_in_a_memo_is_disposed_when_the_memo_computes_again() -> None:  # C12
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    seen: list[int] = []

    def compute() -> int:
        value = a()
        create_effect(lambda: note(seen, value, b()))
        return value

    memo = create_memo(compute)
    create_effect(lambda: memo())
    set_a(1)
    seen.clear()
    set_b(1)
    assert seen == [1]


def test_a_memo_made_in_an_effect_holds_no_subscription_after_its_disposal() -> None:
    a, set_a = create_signal(0)
    runs: list[int] = []

    def outer() -> None:
        memo = create_memo(lambda: note(runs, 1, a()))
        create_effect(lambda: memo())

    create_effect(outer).dispose()
    runs.clear()
    set_a(1)
    assert runs == []


def test_an_owners_list_does_not_grow_with_children_disposed_one_by_one() -> None:
    def body(_: Callable[[], None]) -> int:
        for _i in range(100):
            create_effect(lambda: None).dispose()
        owner = get_owner()
        assert owner is not None
        return len(owner.owned or ())

    assert create_root(body) == 0


def test_get_owner_is_none_outside_and_the_effect_inside() -> None:
    owners: list[Owner | None] = [get_owner()]
    effect = create_effect(lambda: owners.append(get_owner()))
    assert owners == [None, effect]


def test_run_with_owner_makes_things_for_that_owner() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []

    def body(dispose: Callable[[], None]) -> tuple[Callable[[], None], Owner | None]:
        return dispose, get_owner()

    dispose, owner = create_root(body)
    made = run_with_owner(owner, lambda: create_effect(lambda: seen.append(a())))
    assert made is not None
    set_a(1)
    dispose()
    set_a(2)
    assert seen == [0, 1]


def test_what_is_made_later_for_an_effect_lives_until_that_runs_again() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    seen: list[int] = []
    effect = create_effect(lambda: a() and None)
    run_with_owner(effect, lambda: create_effect(lambda: seen.append(b())))
    set_b(1)
    assert seen == [0, 1]
    set_a(1)
    set_b(2)
    assert seen == [0, 1]
    effect.dispose()
    run_with_owner(effect, lambda: create_effect(lambda: seen.append(b())))
    set_b(3)
    assert seen == [0, 1, 2], "made for an owner that has ended, it has run once and ended too"


def test_run_with_owner_is_untracked() -> None:
    a, set_a = create_signal(0)
    runs: list[int] = []
    owner = create_root(lambda _: get_owner())
    create_effect(lambda: note(runs, 1, run_with_owner(owner, a)))
    set_a(1)
    assert len(runs) == 1


def test_catch_error_gets_the_error_of_its_body() -> None:
    caught: list[Exception] = []
    assert catch_error(lambda: 1 // 0, caught.append) is None
    assert [type(error) for error in caught] == [ZeroDivisionError]
    assert catch_error(lambda: 5, caught.append) == 5


def test_catch_error_gets_later_errors_of_effects_made_inside() -> None:
    a, set_a = create_signal(1)
    caught: list[Exception] = []
    seen: list[int] = []
    catch_error(lambda: create_effect(lambda: seen.append(10 // a())), caught.append)
    set_a(0)
    assert [type(error) for error in caught] == [ZeroDivisionError]
    set_a(5)
    assert seen == [10, 2], "the effect goes on"


def test_catch_error_gets_the_first_runs_error_and_the_effect_goes_on() -> None:
    a, set_a = create_signal(0)
    caught: list[Exception] = []
    seen: list[int] = []
    effect = catch_error(lambda: create_effect(lambda: seen.append(10 // a())), caught.append)
    assert effect is not None, "the error was taken, so the effect was made"
    assert len(caught) == 1
    set_a(5)
    assert seen == [2]


def test_an_error_of_the_handler_goes_to_the_next_one_outside() -> None:
    a, set_a = create_signal(1)
    outer: list[str] = []

    def replace(error: Exception) -> None:
        raise LookupError("handler") from error

    def note_outer(error: Exception) -> None:
        outer.append(repr(error))

    catch_error(
        lambda: catch_error(lambda: create_effect(lambda: 1 // a()), replace),
        note_outer,
    )
    set_a(0)
    assert outer == ["LookupError('handler')"]


def test_an_error_of_the_only_handler_is_raised() -> None:
    def replace(error: Exception) -> None:
        raise LookupError("handler") from error

    with pytest.raises(LookupError):
        catch_error(lambda: 1 // 0, replace)


def test_reads_in_the_body_of_catch_error_are_tracked() -> None:
    a, set_a = create_signal(0)
    seen: list[int | None] = []
    create_effect(lambda: seen.append(catch_error(a, lambda _: None)))
    set_a(1)
    assert seen == [0, 1]


def test_a_memos_error_reaches_the_handler_of_the_effect_that_reads_it() -> None:
    a, set_a = create_signal(1)
    memo = create_memo(lambda: 1 // a())
    caught: list[Exception] = []
    catch_error(lambda: create_effect(lambda: memo()), caught.append)
    set_a(0)
    assert len(caught) == 1


def test_an_error_in_a_root_goes_to_the_handler_around_the_root() -> None:
    a, set_a = create_signal(1)
    caught: list[Exception] = []
    build = partial(create_root, lambda _: create_effect(lambda: 1 // a()))
    catch_error(build, caught.append)
    set_a(0)
    assert [type(error) for error in caught] == [ZeroDivisionError]


def test_run_with_owner_hands_errors_to_the_owners_handler() -> None:
    caught: list[Exception] = []
    owner = catch_error(get_owner, caught.append)
    assert run_with_owner(owner, lambda: 1 // 0) is None
    assert len(caught) == 1
    with pytest.raises(ZeroDivisionError):
        run_with_owner(None, lambda: 1 // 0)
