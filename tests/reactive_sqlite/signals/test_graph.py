"""How changes travel: once, in order, only where something has really changed."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, cast

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
    untrack,
)
from reactive_sqlite.signals.signal import Signal
from reactive_sqlite.signals.state import STATE
from tests.reactive_sqlite.signals.finalizing import Finalizing
from tests.reactive_sqlite.signals.noting import note


class Big:
    """Something that can be watched for being freed."""


def test_a_diamond_is_computed_once_with_both_new_values() -> None:  # G01
    a, set_a = create_signal(1)
    plus = create_memo(lambda: a() + 1)
    times = create_memo(lambda: a() * 10)
    runs: list[tuple[int, int]] = []

    def joint() -> tuple[int, int]:
        runs.append((plus(), times()))
        return runs[-1]

    both = create_memo(joint)
    assert both() == (2, 10)
    set_a(2)
    assert both() == (3, 20)
    assert len(runs) == 2


def test_an_effect_below_a_diamond_runs_once_per_write_and_sees_no_mixed_pair() -> None:  # G02
    a, set_a = create_signal(1)
    left = create_memo(lambda: a())
    right = create_memo(lambda: a())
    seen: list[tuple[int, int]] = []
    create_effect(lambda: seen.append((left(), right())))
    set_a(2)
    set_a(3)
    assert seen == [(1, 1), (2, 2), (3, 3)]


def test_paths_of_different_length_meet_in_one_run() -> None:  # G03
    a, set_a = create_signal("a")
    b = create_memo(lambda: a())
    c = create_memo(lambda: a())
    d = create_memo(lambda: c())
    runs: list[str] = []

    def counted(name: str, fn: Callable[[], str]) -> Accessor[str]:
        def run() -> str:
            runs.append(name)
            return fn()

        return create_memo(run)

    e = counted("e", lambda: b() + d())
    f = counted("f", lambda: e() + "f")
    g = counted("g", lambda: e() + "g")
    assert (f(), g()) == ("aaf", "aag")
    runs.clear()
    set_a("b")
    assert (f(), g()) == ("bbf", "bbg")
    assert sorted(runs) == ["e", "f", "g"], "the joint and each tail run once"


def test_nothing_runs_behind_a_memo_that_stays_equal() -> None:  # G04
    a, set_a = create_signal(1)
    constant = create_memo(lambda: (a(), "k")[1])
    runs: list[str] = []
    behind = create_memo(lambda: note(runs, "memo", constant()))
    create_effect(lambda: runs.append(behind()))
    runs.clear()
    set_a(2)
    set_a(3)
    assert runs == []


def test_a_memo_that_nobody_reads_is_not_computed_by_writes() -> None:  # G07
    a, set_a = create_signal(0)
    runs: list[int] = []
    memo = create_memo(lambda: note(runs, a(), a()))
    memo()
    for value in (1, 2, 3):
        set_a(value)
    assert runs == [0]
    assert memo() == 3
    assert runs == [0, 3]


def test_a_memo_computes_once_until_something_it_read_changes() -> None:  # G08
    a, set_a = create_signal(0)
    runs: list[str] = []
    memo = create_memo(lambda: note(runs, "a", a()))
    alone = create_memo(lambda: note(runs, "alone", 42))
    for read in (memo, memo, alone, alone):
        read()
    set_a(1)
    assert alone() == 42
    assert runs == ["a", "alone"], "a memo without dependencies computes once ever"


def test_none_is_a_value_like_any_other() -> None:  # G09
    a, set_a = create_signal(0)
    runs: list[int] = []
    memo = create_memo(lambda: note(runs, a(), a() or None))
    assert memo() is None
    assert memo() is None
    assert runs == [0]
    set_a(1)
    assert memo() == 1
    set_a(0)
    assert memo() is None
    b, set_b = create_signal(cast("int | None", None))
    seen: list[int | None] = []
    create_effect(lambda: seen.append(b()))
    set_b(1)
    set_b(None)
    assert seen == [None, 1, None]


def test_a_memo_read_after_a_write_is_new_at_once() -> None:  # G11
    a, set_a = create_signal(0)
    double = create_memo(lambda: a() * 2)
    set_a(5)
    assert double() == 10
    inside: list[int] = []

    def write_and_read() -> None:
        set_a(6)
        inside.append(untrack(double))

    create_effect(write_and_read).dispose()
    assert inside == [12], "inside an effect as well"


def test_two_hundred_effects_run_once_each_in_the_order_they_were_made() -> None:  # G12, F09
    a, set_a = create_signal(0)
    seen: list[int] = []

    def make(i: int) -> None:
        memo = create_memo(lambda: a() + i)
        create_effect(lambda: note(seen, i, memo()))

    for i in range(200):
        make(i)
    seen.clear()
    set_a(1)
    assert seen == list(range(200))


def test_a_chain_of_memos_may_be_longer_than_the_stack() -> None:  # G13
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        a, set_a = create_signal(0)
        last: Callable[[], int] = a

        def after(source: Callable[[], int]) -> Accessor[int]:
            return create_memo(lambda: source() + 1)

        for _ in range(5000):
            last = after(last)
            last()
        seen: list[int] = []
        set_a(1)
        assert last() == 5001
        effect = create_effect(lambda: seen.append(last()))
        set_a(2)
        assert seen == [5001, 5002]
        effect.dispose()
    finally:
        sys.setrecursionlimit(limit)


def chain(source: Callable[[], int], length: int) -> Accessor[int]:
    """Memos that nobody has read yet, each one more than the one before."""

    def after(source: Callable[[], int]) -> Accessor[int]:
        return create_memo(lambda: source() + 1)

    last = after(source)
    for _ in range(length - 1):
        last = after(last)
    return last


def with_recursion_limit(limit: int, fn: Callable[[], object]) -> list[object]:
    """Call `fn` on a thread whose stack is long enough for it; give its result or its error."""
    results: list[object] = []

    def run() -> None:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(limit)
        try:
            results.append(fn())
        except Exception as error:
            results.append(error)
        finally:
            sys.setrecursionlimit(before)

    size = threading.stack_size(256 * 1024 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
    return results


def test_a_fresh_chain_may_be_as_long_as_the_recursion_limit_lets_functions_call() -> None:
    a, set_a = create_signal(0)
    last = chain(a, 5000)
    # Four frames for each memo: its function, the accessor, and two of ours.
    assert with_recursion_limit(4 * 5000 + 500, last) == [5000]
    set_a(1)
    assert last() == 5001, "once computed, it is brought up to date without recursion"


@pytest.mark.parametrize("spare", range(8))
def test_a_chain_too_long_for_the_stack_can_be_read_where_there_is_more(spare: int) -> None:
    a, set_a = create_signal(0)
    last = chain(a, 500)
    (error,) = with_recursion_limit(500 + spare, last)  # fails at another line of ours each time
    assert isinstance(error, RecursionError)
    assert with_recursion_limit(5000, last) == [500]
    seen: list[int] = []
    create_effect(lambda: seen.append(last()))
    set_a(1)
    assert seen == [500, 501]


def test_a_memo_may_catch_that_another_is_too_deep() -> None:
    depth, set_depth = create_signal(10_000)

    def down(levels: int) -> int:
        return 0 if levels == 0 else 1 + down(levels - 1)

    deep = create_memo(lambda: down(depth()))

    def caught() -> int:
        try:
            return deep()
        except RecursionError:
            return -1

    safe = create_memo(caught)
    assert safe() == -1
    seen: list[int] = []
    create_effect(lambda: seen.append(safe()))
    set_depth(10)
    assert seen == [-1, 10]


def test_only_the_branch_that_was_taken_counts() -> None:  # D01
    choose, set_choose = create_signal(True)
    a, set_a = create_signal("a")
    b, set_b = create_signal("b")
    seen: list[str] = []
    create_effect(lambda: seen.append(a() if choose() else b()))
    set_b("b2")
    assert seen == ["a"]
    set_choose(False)
    set_a("a2")
    assert seen == ["a", "b2"], "the branch left behind is dropped"
    set_b("b3")
    set_choose(True)
    assert seen == ["a", "b2", "b3", "a2"]


def test_a_memo_behind_a_closed_guard_is_not_computed() -> None:  # D02
    a, set_a = create_signal(cast("dict[str, int] | None", {"v": 1}))
    guard = create_memo(lambda: a())
    wrong: list[str] = []

    def inner() -> int:
        value = guard()
        if value is None:
            wrong.append("computed behind the closed guard")
            return 0
        return value["v"]

    memo = create_memo(inner)
    outer = create_memo(lambda: memo() if guard() else 0)
    seen: list[int] = []
    create_effect(lambda: seen.append(outer()))
    set_a(None)
    assert seen == [1, 0]
    # The guard is read after the memo it guards, so the memo is checked first, once.
    first = create_memo(lambda: memo() if guard() is not None else 0)
    wrong.clear()
    guarded = create_memo(lambda: 0 if guard() is None else memo())
    assert guarded() == 0
    set_a({"v": 5})
    assert (first(), guarded()) == (5, 5)
    set_a(None)
    wrong.clear()
    assert guarded() == 0
    assert wrong == []


def test_reading_a_signal_a_hundred_times_is_one_dependency() -> None:  # D03
    a, set_a = create_signal(1)
    seen: list[int] = []
    create_effect(lambda: seen.append(sum(a() for _ in range(100))))
    set_a(2)
    assert seen == [100, 200]


def test_dependencies_shrink_and_grow_with_each_run() -> None:  # D05
    count, set_count = create_signal(3)
    pairs = [create_signal(i) for i in range(5)]
    seen: list[list[int]] = []
    create_effect(lambda: seen.append([pairs[i][0]() for i in range(count())]))
    set_count(1)
    pairs[2][1](99)
    assert len(seen) == 2
    pairs[0][1](7)
    assert seen[-1] == [7]
    set_count(4)
    pairs[2][1](5)
    assert seen[-1] == [7, 1, 5, 3]


def test_an_unobserved_memo_is_freed_while_its_source_lives() -> None:  # M01
    a, _ = create_signal(0)

    def make() -> weakref.ref[Big]:
        big = Big()
        memo = create_memo(lambda: (a(), big)[0])
        memo()
        return weakref.ref(big)

    freed = make()
    gc.collect()
    assert freed() is None, "an unobserved memo holds no subscription"


def test_a_disposed_effect_is_freed() -> None:  # M02
    a, _ = create_signal(0)

    def make() -> weakref.ref[Big]:
        big = Big()
        create_effect(lambda: (a(), big)).dispose()
        return weakref.ref(big)

    freed = make()
    gc.collect()
    assert freed() is None


def test_a_memo_is_freed_after_its_last_observer() -> None:  # M03
    a, _ = create_signal(0)

    def make() -> weakref.ref[Big]:
        big = Big()
        memo = create_memo(lambda: (a(), big)[0])
        create_effect(lambda: memo()).dispose()
        return weakref.ref(big)

    freed = make()
    gc.collect()
    assert freed() is None


def test_an_effect_without_a_handle_goes_on() -> None:  # M04
    a, set_a = create_signal(0)
    seen: list[int] = []
    create_effect(lambda: seen.append(a()))
    gc.collect()
    set_a(1)
    assert seen == [0, 1], "it is kept alive by what it reads"


def test_an_effect_behind_a_memo_without_handles_goes_on() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []

    def make() -> None:
        memo = create_memo(lambda: a() * 2)
        create_effect(lambda: seen.append(memo()))

    make()
    gc.collect()
    set_a(1)
    assert seen == [0, 2]


def test_two_effects_and_a_joint_on_one_memo_each_run_once() -> None:  # R01
    a, set_a = create_signal(1)
    b = create_memo(lambda: a() * 2)
    c = create_memo(lambda: b() + 10)
    d = create_memo(lambda: b() + c())
    seen: list[tuple[str, int]] = []
    create_effect(lambda: seen.append(("b", b())))
    create_effect(lambda: seen.append(("c", c())))
    create_effect(lambda: seen.append(("d", d())))
    seen.clear()
    set_a(5)
    assert sorted(seen) == [("b", 10), ("c", 20), ("d", 30)]


def test_observers_may_be_disposed_while_they_are_being_told() -> None:  # R03
    a, set_a = create_signal(0)
    handles: list[Any] = []
    runs: list[int] = []
    handles.append(create_effect(lambda: a()))
    create_effect(lambda: [handle.dispose() for handle in handles] if a() == 1 else None)
    handles.append(create_effect(lambda: runs.append(a())))
    set_a(1)
    set_a(2)
    assert runs == [0]


def test_a_memo_read_in_the_middle_of_a_batch_that_reverts_stays_right() -> None:  # R07
    a, set_a = create_signal("A")
    memo = create_memo(lambda: a() + "!")
    memo()
    with batch():
        set_a("B")
        assert memo() == "B!"
        set_a("A")
    assert memo() == "A!"
    set_a("C")
    assert memo() == "C!"


def test_a_live_memo_read_in_the_middle_of_a_batch_that_reverts_stays_right() -> None:
    a, set_a = create_signal("A")
    memo = create_memo(lambda: a() + "!")
    seen: list[str] = []
    create_effect(lambda: seen.append(memo()))
    with batch():
        set_a("B")
        assert memo() == "B!"
        set_a("A")
    assert memo() == "A!"
    set_a("C")
    assert seen == ["A!", "C!"]


@pytest.mark.parametrize("odd", [0, 1])
def test_a_batch_that_reverts_wakes_nobody_whatever_was_read_in_one_before(odd: int) -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    memo = create_memo(lambda: b() if a() % 2 else 0)
    with batch():
        set_a(2)
        assert memo() == 0
        set_a(4 * odd)
    seen: list[int] = []
    create_effect(lambda: seen.append(memo()))
    with batch():
        set_b(1)
    with batch():
        set_a(5)
        assert memo() == 1
        set_a(4 * odd)
    assert seen == [0]


def test_a_memo_that_failed_in_the_middle_of_a_batch_that_reverts_wakes_nobody() -> None:
    a, set_a = create_signal(1)
    inverse = create_memo(lambda: 10 // a())
    seen: list[int] = []
    create_effect(lambda: seen.append(inverse()))
    with batch():
        set_a(0)
        with pytest.raises(ZeroDivisionError):
            inverse()
        set_a(1)
    assert seen == [10]
    set_a(2)
    assert seen == [10, 5]


@pytest.mark.parametrize("way", ["set", "batch", "effect", "memo"])
def test_a_disposal_in_the_middle_of_marking_waits_for_its_end(way: str) -> None:
    a, put = create_signal(0)
    wanted, want = create_signal(0)
    create_effect(lambda: put(wanted()))

    def set_a(value: int) -> None:
        if way == "set":
            put(value)
        elif way == "batch":
            with batch():
                put(value)
        elif way == "effect":
            want(value)
        else:
            create_memo(lambda: put(value))()

    seen: list[int] = []
    effects = [create_effect(lambda: seen.append(a())) for _ in range(3)]
    assert isinstance(a, Signal)
    a.subs[Finalizing(effects[0].dispose)] = None
    memo = create_memo(lambda: a())
    effects.append(create_effect(lambda: seen.append(memo())))
    seen.clear()
    set_a(1)
    seen.clear()
    set_a(2)
    assert seen == [2, 2, 2], "the disposed one of four is gone, and nothing was disturbed"
    assert STATE.flips == {}, "nothing is left to be done"


def test_a_write_in_the_middle_of_marking_is_delivered_at_its_end() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    seen: list[tuple[int, int]] = []
    assert isinstance(a, Signal)
    a.subs[Finalizing(lambda: set_b(a.peek()))] = None
    create_effect(lambda: seen.append((a(), b())))
    set_a(1)
    assert seen == [(0, 0), (1, 1)]


@pytest.mark.parametrize("reader", ["memo", "effect"])
def test_a_memo_that_reads_itself_is_a_cycle_error_that_names_the_memos(reader: str) -> None:  # Y01
    from reactive_sqlite import CycleError

    switch, set_switch = create_signal(True)
    ring: list[Accessor[int]] = []
    first = create_memo(lambda: ring[0]() + 1 if switch() else 1, name="first")
    second = create_memo(lambda: first() + 1, name="second")
    ring.append(second)
    with pytest.raises(CycleError, match="'first' reads itself: first → second → first") as caught:
        if reader == "memo":
            first()
        else:
            create_effect(lambda: first())
    assert caught.value.nodes == ("first", "second")
    set_switch(False)
    assert (first(), second()) == (1, 2), "the graph is usable after"


def test_a_memo_may_catch_that_it_reads_itself() -> None:
    from reactive_sqlite import CycleError

    own: list[Accessor[str]] = []

    def read_itself() -> str:
        try:
            return own[0]()
        except CycleError as error:
            return str(error)

    own.append(create_memo(read_itself, name="mirror"))
    assert own[0]() == "memo 'mirror' reads itself"


def test_a_cycle_of_four_memos_names_them_in_the_order_of_reading() -> None:
    from reactive_sqlite import CycleError

    ring: list[Accessor[int]] = []

    def reader(place: int) -> Accessor[int]:
        return create_memo(lambda: ring[(place + 1) % 4](), name="abcd"[place])

    ring.extend(reader(place) for place in range(4))
    outside = create_memo(lambda: ring[1](), name="outside")
    with pytest.raises(CycleError, match="'b' reads itself: b → c → d → a → b") as caught:
        outside()
    assert caught.value.nodes == ("b", "c", "d", "a")


def test_a_root_disposed_in_the_middle_of_marking_waits_for_its_end() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []
    assert isinstance(a, Signal)

    def build(dispose: Callable[[], None]) -> Callable[[], None]:
        value = create_memo(lambda: a())
        create_effect(lambda: seen.append(value()))
        return dispose

    a.subs[Finalizing(create_root(build))] = None
    other: list[int] = []
    create_effect(lambda: other.append(a()))
    set_a(1)
    set_a(2)
    assert other == [0, 1, 2]
    assert seen[-1] < 2, "what was in the root is gone"


def test_a_memo_disposed_in_the_middle_of_marking_is_disposed_at_its_end() -> None:
    a, set_a = create_signal(0)
    owners: list[Owner | None] = []

    def compute() -> int:
        owners.append(get_owner())
        return a()

    memo = create_memo(compute)
    seen: list[int] = []
    create_effect(lambda: seen.append(memo()))
    other: list[int] = []
    [owner] = owners
    assert owner is not None and isinstance(a, Signal)
    a.subs[Finalizing(owner.dispose)] = None
    create_effect(lambda: other.append(a()))
    set_a(1)
    set_a(2)
    assert other == [0, 1, 2]
    assert (memo(), len(owners)) == (seen[-1], len(seen)), "it is computed no more"
    assert seen[-1] < 2
