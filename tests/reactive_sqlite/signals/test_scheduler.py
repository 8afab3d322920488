"""Batches: what is held back, until when, and what counts as changed."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from reactive_sqlite import CycleError, batch, create_effect, create_memo, create_signal
from reactive_sqlite.signals.scheduler import ROUNDS
from tests.reactive_sqlite.signals.background import run_in_thread
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


def test_effects_wait_for_the_outermost_of_three_batches() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []
    create_effect(lambda: seen.append(a()))
    with batch():
        with batch():
            with batch():
                set_a(1)
            set_a(2)
        set_a(3)
        with batch():
            set_a(4)
        assert seen == [0]
    assert seen == [0, 4]
    set_a(5)
    assert seen == [0, 4, 5], "no batch is open any more"


def test_a_batch_ends_although_one_inside_another_is_open_on_another_thread() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []
    create_effect(lambda: seen.append(a()))
    inside, go = threading.Event(), threading.Event()

    def nest() -> None:
        with batch(), batch():
            inside.set()
            assert go.wait(10)

    other = run_in_thread(nest)
    assert inside.wait(10)
    with batch():
        set_a(1)
    assert seen == [0, 1]
    go.set()
    other.result()


def test_a_batch_that_is_interrupted_tells_the_errors_of_its_effects_to_the_excepthook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[BaseException | None] = []

    def hook(args: threading.ExceptHookArgs) -> None:
        told.append(args.exc_value)

    monkeypatch.setattr(threading, "excepthook", hook)
    a, set_a = create_signal(1)
    effect = create_effect(lambda: 1 // a())
    with pytest.raises(KeyboardInterrupt), batch():
        set_a(0)
        raise KeyboardInterrupt
    assert [type(error) for error in told] == [ZeroDivisionError]
    effect.dispose()


def test_effects_that_an_interruption_kept_from_running_run_with_the_next_change() -> None:
    a, set_a = create_signal(0)
    _, set_other = create_signal(0)
    seen: list[tuple[int, int]] = []

    def follow(number: int) -> None:
        seen.append((number, a()))
        if (number, a()) == (1, 1):
            raise KeyboardInterrupt

    effects = [create_effect(partial(follow, number)) for number in range(6)]
    waking = create_signal(0)
    effects.append(create_effect(lambda: seen.append((9, waking[0]()))))
    seen.clear()
    with pytest.raises(KeyboardInterrupt):
        set_a(1)
    assert seen == [(0, 1), (1, 1)]
    set_other(1)
    waking[1](1)
    assert seen == [(0, 1), (1, 1), *((number, 1) for number in range(2, 6)), (9, 1)]
    for effect in effects:
        effect.dispose()


def test_two_effects_run_in_the_order_they_were_made_whichever_subscribed_first() -> None:
    a, set_a = create_signal(0)
    late, set_late = create_signal(False)
    seen: list[str] = []
    first = create_effect(lambda: seen.append(f"first {a() if late() else ''}"))
    second = create_effect(lambda: seen.append(f"second {a()}"))
    set_late(True)
    seen.clear()
    set_a(1)
    assert seen == ["first 1", "second 1"]
    first.dispose()
    second.dispose()


@pytest.mark.parametrize("rounds", [ROUNDS, ROUNDS + 1])
def test_what_effects_cause_may_take_a_hundred_rounds_to_settle(rounds: int) -> None:
    a, set_a = create_signal(0)

    def climb() -> None:
        if 0 < a() < rounds:
            set_a(a() + 1)

    effect = create_effect(climb)
    if rounds > ROUNDS:
        with pytest.raises(CycleError):
            set_a(1)
    else:
        set_a(1)
    assert a() == rounds
    effect.dispose()


def test_effects_that_were_in_a_cycle_go_on_with_the_next_change_and_it_names_them_all() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    runs: list[int] = []
    ping = create_effect(lambda: set_b(a() + 1) if a() > 0 else runs.append(a()), name="ping")
    pong = create_effect(lambda: set_a(a() + 1) if b() and a() > 0 else None, name="pong")
    for _ in range(2):
        with pytest.raises(CycleError, match=r"without an end: p[io]ng(, pong)?$"):
            set_a(1)
        runs.clear()
        set_a(-1)
        assert runs == [-1]
    ping.dispose()
    pong.dispose()


def test_a_cycle_of_several_effects_names_them_in_the_order_they_were_made() -> None:
    a, set_a = create_signal(0)
    ping = create_effect(lambda: set_a(lambda n: n + 1) if a() else None, name="ping")
    pong = create_effect(lambda: set_a(lambda n: n + 1) if a() else None, name="pong")
    with pytest.raises(CycleError, match=r", 100 rounds without an end: ping, pong$") as caught:
        set_a(1)
    assert caught.value.nodes == ("ping", "pong")
    ping.dispose()
    pong.dispose()


def test_what_others_caused_before_a_cycle_ends_is_delivered_after_it() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    seen: list[int] = []
    follower = create_effect(lambda: seen.append(b()))

    def climb() -> None:
        if a() == 50:
            run_in_thread(lambda: set_b(1)).result()
        if a():
            set_a(a() + 1)

    effect = create_effect(climb)
    with pytest.raises(CycleError):
        set_a(1)
    assert seen == [0, 1]
    effect.dispose()
    follower.dispose()


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
    with batch():
        set_nan(1.0)
    with batch():
        set_nan(2.0)
        set_nan(float("nan"))
    assert seen == [0, 1, 1, 1], "not a number is equal to itself and to no number"


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


def test_that_one_signal_has_reverted_says_nothing_of_another() -> None:
    a, set_a = create_signal([1], equals=lambda old, new: old == new)
    b, set_b = create_signal([1], equals=lambda old, new: old == new)
    seen: list[tuple[list[int], list[int]]] = []
    create_effect(lambda: seen.append((a(), b())))
    with batch():
        set_a([2])
        set_a([1])
        set_b([2])
    assert seen == [([1], [1]), ([1], [2])]


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
