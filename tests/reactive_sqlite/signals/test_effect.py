"""Effects: when they run, in what order, and where their errors go."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pytest
from reactivex.abc import DisposableBase, SchedulerBase
from reactivex.scheduler import EventLoopScheduler, ImmediateScheduler, ThreadPoolScheduler
from reactivex.testing import TestScheduler

from reactive_sqlite import (
    CycleError,
    Effect,
    batch,
    create_effect,
    create_memo,
    create_signal,
    on,
    on_cleanup,
)
from tests.recorder import Recorder


class Interruption(BaseException):
    """What a key press or an exit raises, but harmless to the tests."""


def failing_at(get: Callable[[], int], value: int, message: str) -> Effect:
    """An effect that raises ValueError(message) when the signal has that value."""

    def run() -> None:
        if get() == value:
            raise ValueError(message)

    return create_effect(run)


def test_an_effect_runs_at_once_and_after_each_change() -> None:  # F01
    a, set_a = create_signal(0)
    seen: list[int] = []
    create_effect(lambda: seen.append(a()))
    set_a(1)
    set_a(2)
    assert seen == [0, 1, 2]


def test_a_disposed_effect_runs_no_more_and_disposing_twice_is_harmless() -> None:  # F02
    a, set_a = create_signal(0)
    seen: list[int] = []
    effect = create_effect(lambda: seen.append(a()))
    effect.dispose()
    effect.dispose()
    set_a(1)
    assert seen == [0]


def test_an_effect_that_disposes_itself_finishes_that_run() -> None:  # F03
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    handle: list[Effect] = []
    seen: list[int] = []

    def run() -> None:
        seen.append(a())
        if a() == 1:
            handle[0].dispose()
        b()

    handle.append(create_effect(run))
    set_a(1)
    set_a(2)
    set_b(1)
    assert seen == [0, 1]


@pytest.mark.parametrize("cleanups", [0, 1, 2])
@pytest.mark.parametrize("body", [0, 1])
def test_an_effect_that_disposes_itself_tells_what_fails_in_that_run_and_after(
    body: int, cleanups: int
) -> None:
    a, set_a = create_signal(0)

    def run() -> None:
        if a() == 1:
            effect.dispose()
            for _ in range(cleanups):
                on_cleanup(lambda: 1 // 0)
            if body:
                raise ValueError("body")

    effect = create_effect(run)
    caught: list[Exception] = []
    try:
        set_a(1)
    except ExceptionGroup as group:
        assert group.message == "an effect failed"
        caught.extend(group.exceptions)
    except (ValueError, ZeroDivisionError) as error:
        caught.append(error)
    expected = [ValueError] * body + [ZeroDivisionError] * cleanups
    assert [type(error) for error in caught] == expected, "in the order of failing"


def test_an_effect_disposed_by_one_before_it_does_not_run() -> None:  # F04
    a, set_a = create_signal(0)
    second: list[Effect] = []
    seen: list[int] = []
    create_effect(lambda: second[0].dispose() if a() == 1 else None)
    second.append(create_effect(lambda: seen.append(a())))
    set_a(1)
    assert seen == [0]


def test_what_an_effect_writes_settles_before_the_outer_set_returns() -> None:  # F05
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    create_effect(lambda: set_b(a() * 10))
    seen: list[int] = []
    create_effect(lambda: seen.append(b()))
    set_a(1)
    assert b() == 10
    assert seen == [0, 10]


def test_two_writes_in_one_effect_wake_a_third_once() -> None:  # F06
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    c, set_c = create_signal(0)
    create_effect(lambda: (set_b(a() + 1), set_c(a() + 2)))
    seen: list[tuple[int, int]] = []
    create_effect(lambda: seen.append((b(), c())))
    set_a(10)
    assert seen == [(1, 2), (11, 12)]


def test_an_effect_may_write_what_it_reads_until_it_settles() -> None:  # F07
    a, set_a = create_signal(0)
    runs: list[int] = []

    def climb() -> None:
        runs.append(a())
        if a() < 5:
            set_a(a() + 1)

    create_effect(climb)
    assert a() == 5
    assert runs == [0, 1, 2, 3, 4, 5]


def test_effects_of_one_write_run_in_the_order_they_were_made() -> None:  # F09
    a, set_a = create_signal(0)
    seen: list[int] = []

    def add(i: int, _value: int, _previous: int) -> None:
        seen.append(i)

    for i in range(5):
        create_effect(on(a, partial(add, i), defer=True))
    set_a(1)
    assert seen == [0, 1, 2, 3, 4]


def test_a_parameter_with_a_default_keeps_it() -> None:  # F12
    seen: list[int] = []

    def run(i: int = 7) -> None:
        seen.append(i)

    create_effect(run)
    assert seen == [7]


def test_fn_gets_what_it_returned_last_when_an_initial_value_is_given() -> None:
    a, set_a = create_signal(1)
    seen: list[int] = []

    def add(total: int) -> int:
        seen.append(total + a())
        return seen[-1]

    create_effect(add, 10)
    set_a(5)
    assert seen == [11, 16]


def test_what_an_effect_returns_is_not_called() -> None:
    a, set_a = create_signal(0)
    called: list[str] = []
    create_effect(lambda: (a(), lambda: called.append("as a cleanup"))[1])
    set_a(1)
    assert called == []


def test_an_effect_made_in_an_effect_wakes_alone() -> None:  # C07
    a, set_a = create_signal(0)
    outer: list[int] = []
    inner: list[int] = []

    def run() -> None:
        outer.append(1)
        create_effect(lambda: inner.append(a()))

    create_effect(run)
    set_a(1)
    set_a(2)
    assert (outer, inner) == ([1], [0, 1, 2])


def test_an_inner_change_does_not_unsubscribe_the_outer_effect() -> None:  # R11
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    outer: list[int] = []

    def run() -> None:
        outer.append(a())
        create_effect(lambda: b())

    create_effect(run)
    set_b(1)
    set_a(1)
    set_a(2)
    assert outer == [0, 1, 2]


def test_the_cleanup_of_an_effect_that_disposed_itself_subscribes_nothing() -> None:  # R09
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    runs: list[int] = []
    handle: list[Effect] = []

    def run() -> None:
        runs.append(a())
        on_cleanup(lambda: b())
        if a() == 1:
            handle[0].dispose()

    handle.append(create_effect(run))
    set_a(1)
    set_b(1)
    set_b(2)
    set_a(2)
    assert runs == [0, 1]


def test_an_error_of_the_first_run_is_raised_by_create_effect() -> None:
    a, set_a = create_signal(0)
    runs: list[int] = []

    def fail() -> None:
        runs.append(a())
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        create_effect(fail)
    set_a(1)
    assert runs == [0], "an effect that was not made does not run"


def test_an_error_of_the_first_run_inside_an_effect_goes_to_the_outer_one() -> None:
    a, set_a = create_signal(0)

    def outer() -> None:
        if a() == 1:
            failing_at(a, 1, "inner")

    create_effect(outer)
    with pytest.raises(ValueError, match="inner"):
        set_a(1)
    set_a(2)


def test_the_other_effects_still_run_when_one_raises() -> None:  # X04
    a, set_a = create_signal(0)
    before: list[int] = []
    after: list[int] = []
    create_effect(lambda: before.append(a()))
    failing_at(a, 1, "middle")
    create_effect(lambda: after.append(a()))
    with pytest.raises(ValueError, match="middle"):
        set_a(1)
    assert (before, after) == ([0, 1], [0, 1])


def test_an_effects_error_is_raised_by_the_set_that_caused_it() -> None:  # X05
    a, set_a = create_signal(0)
    failing_at(a, 1, "seen by the writer")
    with pytest.raises(ValueError, match="seen by the writer"):
        set_a(1)
    assert a() == 1, "the write stands"


def test_several_errors_are_raised_as_a_group() -> None:
    a, set_a = create_signal(0)
    failing_at(a, 1, "one")
    failing_at(a, 1, "two")
    with pytest.raises(ExceptionGroup) as caught:
        set_a(1)
    assert [str(error) for error in caught.value.exceptions] == ["one", "two"]
    assert caught.value.message == "effects failed"


def test_several_errors_come_out_of_a_batch_as_a_group() -> None:
    a, set_a = create_signal(0)
    failing_at(a, 1, "one")
    failing_at(a, 1, "two")
    with pytest.raises(ExceptionGroup) as caught, batch():
        set_a(1)
    assert [str(error) for error in caught.value.exceptions] == ["one", "two"]
    assert caught.value.message == "effects failed"


def test_an_effects_error_comes_out_of_the_batch_that_caused_it() -> None:
    a, set_a = create_signal(0)
    failing_at(a, 1, "at the end")
    seen: list[str] = []
    with pytest.raises(ValueError, match="at the end"), batch():
        set_a(1)
        seen.append("the body goes on")
    assert seen == ["the body goes on"]


def test_errors_of_a_batchs_body_and_of_its_effects_are_raised_together() -> None:
    a, set_a = create_signal(0)
    failing_at(a, 1, "effect")
    with pytest.raises(ExceptionGroup) as caught, batch():
        set_a(1)
        raise KeyError("body")
    assert caught.value.message == "a batch and the effects it caused failed"
    body, effect = caught.value.exceptions
    assert isinstance(body, KeyError)
    assert isinstance(effect, ValueError)


def test_an_effect_that_failed_runs_again_after_the_next_change() -> None:
    a, set_a = create_signal(0)
    runs: list[int] = []

    def run() -> None:
        runs.append(a())
        if a() == 1:
            raise ValueError("once")

    create_effect(run)
    with pytest.raises(ValueError, match="once"):
        set_a(1)
    set_a(2)
    assert runs == [0, 1, 2]


def test_the_graph_is_usable_after_an_error() -> None:  # X07
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    failing_at(a, 1, "bad")
    with pytest.raises(ValueError, match="bad"):
        set_a(1)
    seen: list[int] = []
    create_effect(lambda: seen.append(b()))
    set_b(1)
    assert seen == [0, 1]


def test_an_effect_that_always_wakes_itself_ends_in_a_cycle_error() -> None:  # Y03
    a, set_a = create_signal(0)
    runs: list[int] = []

    def climb() -> None:
        runs.append(1)
        set_a(a() + 1)

    with pytest.raises(CycleError, match="climber") as caught:
        create_effect(climb, name="climber")
    assert caught.value.nodes == ("climber",)
    assert len(runs) < 1000


def test_effects_that_wake_each_other_end_in_a_cycle_error_that_names_them() -> None:  # Y04
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    going, stop = create_signal(True)
    create_effect(lambda: set_b(a() + 1) if going() else None, name="ping")
    with pytest.raises(CycleError) as caught:
        create_effect(lambda: set_a(b() + 1) if going() else None, name="pong")
    assert set(caught.value.nodes) <= {"ping", "pong"}
    assert caught.value.nodes
    stop(False)
    c, set_c = create_signal(0)
    seen: list[int] = []
    create_effect(lambda: seen.append(c()))
    set_c(1)
    assert seen == [0, 1], "the graph is usable after"


def test_the_set_that_starts_a_cycle_raises_its_error() -> None:
    on_, set_on = create_signal(False)
    a, set_a = create_signal(0)
    create_effect(lambda: set_a(a() + 1) if on_() else None)
    with pytest.raises(CycleError):
        set_on(True)
    set_on(False)


def test_an_effect_that_writes_a_never_equal_value_ends_in_a_cycle_error() -> None:  # R05
    a, set_a = create_signal(object())

    def replace() -> None:
        a()
        set_a(object())

    with pytest.raises(CycleError):
        create_effect(replace)


def test_an_effect_that_wakes_itself_for_ever_from_the_start_is_disposed() -> None:
    a, set_a = create_signal(0)
    cleaned: list[str] = []

    def climb() -> None:
        on_cleanup(lambda: cleaned.append("cleaned"))
        create_effect(lambda: cleaned.append(f"inner saw {a()}"))
        set_a(a() + 1)

    with pytest.raises(CycleError):
        create_effect(climb)
    assert cleaned[-1] == "cleaned"
    cleaned.clear()
    assert set_a(0) == 0, "nobody has a handle to the effect, so it must not live on"
    assert cleaned == [], "nor what it had created"


def test_an_effect_whose_creation_raises_the_error_of_one_that_it_woke_is_disposed() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    other = failing_at(b, 1, "woken")
    runs: list[int] = []

    def wake() -> None:
        runs.append(a())
        set_b(1)

    with pytest.raises(ValueError, match="woken"):
        create_effect(wake)
    set_a(1)
    assert runs == [0]
    set_b(2)
    with pytest.raises(ValueError, match="woken"):
        set_b(1)  # the one it woke has a handle, and goes on
    other.dispose()


def test_an_effect_that_is_interrupted_in_its_first_run_is_disposed() -> None:
    a, set_a = create_signal(0)
    runs: list[int] = []

    def run() -> None:
        runs.append(a())
        raise Interruption

    with pytest.raises(Interruption):
        create_effect(run)
    set_a(1)
    assert runs == [0]


def test_a_scheduled_effect_whose_creation_raises_is_disposed() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    runs: list[int] = []

    def run() -> None:
        runs.append(a())
        set_b(a() + 1)

    scheduler = TestScheduler()
    failing = failing_at(b, 1, "woken")
    with pytest.raises(ValueError, match="woken"):
        create_effect(run, scheduler=scheduler)
    failing.dispose()
    set_a(5)
    scheduler.advance_by(1)
    assert runs == [0]


def test_an_effect_is_asked_for_again_after_its_scheduler_has_failed() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []

    class Full(TestScheduler):
        """A scheduler that takes nothing the first time."""

        full = True

        def schedule(self, action: Any, state: Any = None) -> DisposableBase:
            if self.full:
                self.full = False
                raise RuntimeError("full")
            return super().schedule(action, state)

    scheduler = Full()
    create_effect(lambda: seen.append(a()), scheduler=scheduler)
    with pytest.raises(RuntimeError, match="full"):
        set_a(1)
    set_a(2)
    scheduler.advance_by(1)
    assert seen == [0, 2]


@pytest.mark.parametrize("spare", range(1, 25))
def test_no_effect_is_lost_to_a_write_near_the_end_of_the_stack(spare: int) -> None:
    a, set_a = create_signal(0)
    plus = create_memo(lambda: a() + 1)
    direct: list[int] = []
    behind: list[int] = []
    create_effect(lambda: direct.append(a()))
    create_effect(lambda: behind.append(plus()))

    def down() -> None:
        try:
            down()
        except RecursionError:
            # What is called here fails sooner or later, depending on how far it is to the end.
            if next(climbed) == spare:
                set_a(1)
            else:
                raise

    climbed = count()
    with suppress(RecursionError, ExceptionGroup):
        down()
    with suppress(RecursionError, ExceptionGroup):
        set_a(2)  # brings the errors of what could not run then
    set_a(3)
    assert (direct[-1], behind[-1]) == (3, 4)


def test_on_follows_its_dependency_and_nothing_else() -> None:
    a, set_a = create_signal(1)
    b, set_b = create_signal(10)
    seen: list[tuple[int, int | None, int]] = []
    create_effect(on(a, lambda value, previous: seen.append((value, previous, b()))))
    set_b(20)
    set_a(2)
    assert seen == [(1, None, 10), (2, 1, 20)]


def test_on_several_dependencies_gives_lists() -> None:
    a, set_a = create_signal(1)
    b, set_b = create_signal(2)
    seen: list[tuple[list[int], list[int] | None]] = []
    create_effect(on([a, b], lambda value, previous: seen.append((value, previous))))
    with batch():
        set_a(3)
        set_b(4)
    assert seen == [([1, 2], None), ([3, 4], [1, 2])]


def test_on_with_defer_waits_for_the_first_change() -> None:
    a, set_a = create_signal(1)
    seen: list[tuple[int, int]] = []
    create_effect(on(a, lambda value, previous: seen.append((value, previous)), defer=True))
    assert seen == []
    set_a(2)
    assert seen == [(2, 1)]


def test_on_makes_a_memo_too() -> None:
    a, set_a = create_signal(1)
    b, set_b = create_signal(10)
    memo = create_memo(on(a, lambda value, _: value + b()))
    assert memo() == 11
    set_b(20)
    assert memo() == 11
    set_a(2)
    assert memo() == 22


def test_a_scheduler_runs_all_but_the_first_run() -> None:
    a, set_a = create_signal(0)
    seen: Recorder[int] = Recorder()
    scheduler = EventLoopScheduler()
    effect = create_effect(lambda: seen(a()), scheduler=scheduler)
    assert seen.values == [0], "the first run happens here and now"
    set_a(1)
    seen.wait_for_count(2)
    assert seen.threads[0] is threading.current_thread()
    assert seen.threads[1] is not threading.current_thread()
    effect.dispose()
    scheduler.dispose()


def test_changes_before_the_scheduler_gets_to_it_are_one_run() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []
    scheduler = TestScheduler()
    create_effect(lambda: seen.append(a()), scheduler=scheduler)
    set_a(1)
    set_a(2)
    assert seen == [0]
    scheduler.advance_by(1)
    assert seen == [0, 2]
    set_a(3)
    scheduler.advance_by(1)
    assert seen == [0, 2, 3]


def test_an_effect_disposed_before_the_scheduler_gets_to_it_does_not_run() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []
    scheduler = TestScheduler()
    effect = create_effect(lambda: seen.append(a()), scheduler=scheduler)
    set_a(1)
    effect.dispose()
    scheduler.advance_by(1)
    assert seen == [0]


def test_a_scheduler_that_acts_at_once_settles_before_set_returns() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    seen: list[int] = []
    create_effect(lambda: set_b(a() * 10), scheduler=ImmediateScheduler())
    create_effect(lambda: seen.append(b()))
    set_a(1)
    assert seen == [0, 10]


def test_a_pool_of_threads_never_runs_one_effect_twice_at_once() -> None:
    a, set_a = create_signal(0)
    scheduler = ThreadPoolScheduler(4)
    seen: Recorder[int] = Recorder()
    inside = threading.Lock()
    overlaps: list[int] = []

    def run() -> None:
        if not inside.acquire(blocking=False):
            overlaps.append(a())
            return
        try:
            value = a()
            for _ in range(2000):
                pass
            seen(value)
        finally:
            inside.release()

    effect = create_effect(run, scheduler=scheduler)
    for value in range(1, 200):
        set_a(value)
    seen.wait_for(lambda value: value == 199)
    assert overlaps == []
    effect.dispose()
    scheduler.executor.shutdown()


def test_a_scheduled_effects_error_goes_to_the_excepthook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[BaseException | None] = []

    def hook(args: threading.ExceptHookArgs) -> None:
        told.append(args.exc_value)

    monkeypatch.setattr(threading, "excepthook", hook)
    a, set_a = create_signal(0)
    scheduler = TestScheduler()

    def run() -> None:
        if a() == 1:
            raise ValueError("scheduled")

    create_effect(run, scheduler=scheduler)
    set_a(1)
    scheduler.advance_by(1)
    assert [str(error) for error in told] == ["scheduled"]


def test_an_error_that_a_scheduled_effects_write_causes_goes_to_the_excepthook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[BaseException | None] = []

    def hook(args: threading.ExceptHookArgs) -> None:
        told.append(args.exc_value)

    monkeypatch.setattr(threading, "excepthook", hook)
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    scheduler = TestScheduler()
    create_effect(lambda: set_b(a()), scheduler=scheduler)
    failing_at(b, 1, "behind it")
    set_a(1)
    scheduler.advance_by(1)
    assert [str(error) for error in told] == ["behind it"]


def test_a_scheduler_is_given_by_keyword_and_not_to_an_async_effect() -> None:
    async def run() -> None:
        """Never run."""

    scheduler: SchedulerBase = TestScheduler()
    with pytest.raises(TypeError, match="loop"):
        create_effect(run, scheduler=scheduler)
