"""Signals as observables and observables as signals, and who releases whom."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from reactivex import Observable, operators
from reactivex.subject import BehaviorSubject, Subject

from reactive_sqlite import (
    batch,
    create_effect,
    create_memo,
    create_root,
    create_signal,
    from_observable,
    to_observable,
)
from tests.recorder import Recorder


def times_ten(number: int) -> int:
    return number * 10


def plus_one(number: int) -> int:
    return number + 1


def test_a_subscriber_gets_the_value_at_once_and_then_each_change() -> None:
    a, set_a = create_signal(1)
    seen: Recorder[int] = Recorder()
    subscription = to_observable(a).subscribe(seen.on_next)
    set_a(2)
    with batch():
        set_a(3)
        set_a(4)
    assert seen.values == [1, 2, 4]
    subscription.dispose()
    subscription.dispose()
    set_a(5)
    assert seen.values == [1, 2, 4]


def test_operators_work_on_it() -> None:
    a, set_a = create_signal(1)
    seen: Recorder[int] = Recorder()
    to_observable(a).pipe(operators.map(times_ten), operators.take(2)).subscribe(
        seen.on_next, seen.on_error, seen.on_completed
    )
    set_a(2)
    set_a(3)
    assert seen.values == [10, 20]
    assert seen.completed == 1


def test_disposing_the_subscription_releases_the_signal() -> None:
    a, set_a = create_signal(0)
    runs: list[int] = []

    def compute() -> int:
        runs.append(a())
        return runs[-1]

    memo = create_memo(compute)
    subscription = to_observable(memo).subscribe(lambda _: None)
    subscription.dispose()
    set_a(1)
    assert runs == [0], "nothing observes the memo any more"


def test_disposing_the_owner_of_a_subscription_completes_it() -> None:
    a, set_a = create_signal(0)
    seen: Recorder[int] = Recorder()

    def body(dispose: Callable[[], None]) -> Callable[[], None]:
        to_observable(a).subscribe(seen.on_next, seen.on_error, seen.on_completed)
        return dispose

    dispose = create_root(body)
    set_a(1)
    dispose()
    set_a(2)
    assert seen.values == [0, 1]
    assert seen.completed == 1


def test_an_observer_reads_untracked() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    seen: Recorder[tuple[int, int]] = Recorder()
    subscription = to_observable(a).subscribe(lambda value: seen((value, b())))
    set_b(1)
    set_a(1)
    assert seen.values == [(0, 0), (1, 1)]
    subscription.dispose()


def test_an_error_of_the_accessor_goes_to_on_error_and_ends_the_subscription() -> None:
    a, set_a = create_signal(1)
    seen: Recorder[int] = Recorder()
    to_observable(create_memo(lambda: 10 // a())).subscribe(seen.on_next, seen.on_error)
    set_a(0)
    set_a(5)
    assert seen.values == [10]
    assert [type(error) for error in seen.errors] == [ZeroDivisionError]


def test_a_memo_of_two_signals_does_not_glitch_as_combine_latest_does() -> None:
    a, set_a = create_signal(1)
    double = create_memo(lambda: a() * 2)
    both: Recorder[tuple[int, int]] = Recorder()
    subscription = to_observable(create_memo(lambda: (a(), double()))).subscribe(both.on_next)
    set_a(2)
    assert both.values == [(1, 2), (2, 4)]
    subscription.dispose()


def test_an_accessor_follows_an_observable() -> None:
    subject: Subject[int] = Subject()
    get = from_observable(subject, 0)
    seen: list[int | None] = []
    effect = create_effect(lambda: seen.append(get()))
    subject.on_next(1)
    subject.on_next(1)
    subject.on_next(2)
    assert seen == [0, 1, 2]
    assert get.peek() == 2
    effect.dispose()


def test_a_value_given_at_subscription_is_there_at_once() -> None:
    subject = BehaviorSubject(5)
    assert from_observable(subject)() == 5
    never: Observable[int] = Subject[int]()
    assert from_observable(never)() is None


def test_the_accessor_raises_the_observables_error() -> None:
    subject: Subject[int] = Subject()
    get = from_observable(subject, 0)
    subject.on_error(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        get()
    with pytest.raises(ValueError, match="broken"):
        get.peek()


def test_the_last_value_stays_after_completion() -> None:
    subject: Subject[int] = Subject()
    get = from_observable(subject, 0)
    subject.on_next(7)
    subject.on_completed()
    assert get() == 7


def test_disposing_the_owner_releases_the_observable() -> None:
    subject: Subject[int] = Subject()

    def body(dispose: Callable[[], None]) -> Callable[[], None]:
        from_observable(subject, 0)
        return dispose

    dispose = create_root(body)
    assert len(subject.observers) == 1
    dispose()
    assert subject.observers == []


def test_a_function_is_received_as_a_value() -> None:
    subject: Subject[Callable[[], int]] = Subject()
    get = from_observable(subject)

    def value() -> int:
        return 1

    subject.on_next(value)
    assert get() is value


def test_there_and_back_again() -> None:
    a, set_a = create_signal(1)

    def body(dispose: Callable[[], None]) -> tuple[Callable[[], None], Callable[[], int | None]]:
        return dispose, from_observable(to_observable(a).pipe(operators.map(plus_one)))

    dispose, plus = create_root(body)
    assert plus() == 2
    set_a(5)
    assert plus() == 6
    dispose()
    set_a(9)
    assert plus() == 6
