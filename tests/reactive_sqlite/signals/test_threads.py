"""Signals used from several threads: the rules, each reproduced without luck."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from reactive_sqlite import (
    CycleError,
    Effect,
    batch,
    create_effect,
    create_memo,
    create_root,
    create_signal,
    get_owner,
    on_cleanup,
    run_with_owner,
)
from reactive_sqlite.signals import scheduler
from reactive_sqlite.signals.external import External, flush, publish
from tests.reactive_sqlite.signals.background import Background, run_in_thread
from tests.reactive_sqlite.signals.noting import note
from tests.recorder import Recorder

WAIT = 10.0


class Gate:
    """Two events: somebody is inside, and may go on."""

    def __init__(self) -> None:
        self.inside = threading.Event()
        self.open = threading.Event()

    def stop(self) -> None:
        """Say that one is inside, and wait for permission to go on."""
        self.inside.set()
        assert self.open.wait(WAIT)

    def reached(self) -> None:
        assert self.inside.wait(WAIT)


@pytest.fixture
def excepthook(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    told: list[BaseException | None] = []

    def hook(args: threading.ExceptHookArgs) -> None:
        told.append(args.exc_value)

    monkeypatch.setattr(threading, "excepthook", hook)
    return told


def test_effects_on_two_threads_do_not_record_each_others_reads() -> None:  # T01
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    together = threading.Barrier(2)
    seen_a: list[int] = []
    seen_b: list[int] = []

    def follow(get: Callable[[], int], seen: list[int]) -> None:
        if not seen:
            together.wait(WAIT)
        seen.append(get())
        if len(seen) == 1:
            together.wait(WAIT)

    one = run_in_thread(lambda: create_effect(lambda: follow(a, seen_a)))
    two = run_in_thread(lambda: create_effect(lambda: follow(b, seen_b)))
    one.result()
    two.result()
    set_a(1)
    assert (seen_a, seen_b) == ([0, 1], [0])
    set_b(1)
    assert (seen_a, seen_b) == ([0, 1], [0, 1])


def test_a_plain_read_on_another_thread_subscribes_no_running_effect() -> None:  # T01
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    gate = Gate()
    seen: list[int] = []

    def run() -> None:
        if not seen:
            gate.stop()
        seen.append(a())

    making = run_in_thread(lambda: create_effect(run))
    gate.reached()
    b()
    gate.open.set()
    making.result()
    set_b(1)
    assert seen == [0]
    set_a(1)
    assert seen == [0, 1]


def test_the_last_run_sees_the_last_of_a_thousand_writes_from_four_threads() -> None:  # T02
    a, set_a = create_signal(-1)
    seen: list[int] = []
    create_effect(lambda: seen.append(a()))

    def write(start: int) -> None:
        for i in range(250):
            set_a(start + i)

    for writer in [run_in_thread(partial(write, k * 1000)) for k in range(4)]:
        writer.result()
    assert seen[-1] == a()


def test_no_update_by_a_function_is_lost_on_four_threads() -> None:
    a, set_a = create_signal(0)

    def count() -> None:
        for _ in range(500):
            set_a(lambda n: n + 1)

    for writer in [run_in_thread(count) for _ in range(4)]:
        writer.result()
    assert a() == 2000


def test_two_readers_of_one_memo_share_one_run() -> None:
    a, _ = create_signal(1)
    gate = Gate()
    runs: list[int] = []

    def compute() -> int:
        runs.append(1)
        gate.stop()
        return a() * 2

    memo = create_memo(compute)
    first = run_in_thread(memo)
    gate.reached()
    second = run_in_thread(memo)
    gate.open.set()
    assert (first.result(), second.result()) == (2, 2), "two readers are no cycle"
    assert len(runs) == 1


def test_an_effect_may_wait_for_another_threads_set() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    seen: list[int] = []

    def run() -> None:
        if a() == 1:
            run_in_thread(lambda: set_b(7)).result()

    create_effect(run)
    create_effect(lambda: seen.append(b()))
    run_in_thread(lambda: set_a(1)).result()
    assert seen == [0, 7], "the thread that delivers has delivered this as well"


def test_a_reader_never_waits_for_an_effect() -> None:
    a, set_a = create_signal(0)
    plus = create_memo(lambda: a() + 1)
    gate = Gate()

    def block() -> None:
        if a():
            gate.stop()

    create_effect(block)
    writer = run_in_thread(lambda: set_a(1))
    gate.reached()
    fresh = create_memo(lambda: a() + 5)
    assert run_in_thread(plus).result() == 2
    assert run_in_thread(fresh).result() == 6
    gate.open.set()
    writer.result()


def test_a_set_elsewhere_does_not_end_my_batch() -> None:
    x, set_x = create_signal(0)
    y, set_y = create_signal(0)
    z, set_z = create_signal(0)
    seen: list[tuple[int, int]] = []
    create_effect(lambda: seen.append((x(), y())))
    create_effect(lambda: z())
    gate = Gate()

    def write_both() -> None:
        with batch():
            set_x(1)
            gate.stop()
            set_y(1)

    writer = run_in_thread(write_both)
    gate.reached()
    set_z(1)
    assert seen == [(0, 0)]
    gate.open.set()
    writer.result()
    assert seen == [(0, 0), (1, 1)]


def test_my_set_settles_although_another_thread_is_in_a_batch() -> None:
    x, set_x = create_signal(0)
    y, set_y = create_signal(0)
    total = create_memo(lambda: x() + y())
    seen: list[int] = []
    create_effect(lambda: seen.append(total()))
    gate = Gate()

    def write_half() -> None:
        with batch():
            set_x(1)
            gate.stop()

    writer = run_in_thread(write_half)
    gate.reached()
    set_y(10)
    assert seen[-1] in (10, 11)
    gate.open.set()
    writer.result()
    assert seen[-1] == 11


def test_a_batch_published_after_an_effect_saw_it_hides_no_later_change() -> None:  # rule 1
    a, set_a = create_signal(0)
    z, set_z = create_signal(0)
    double = create_memo(lambda: a() * 2)
    seen: list[tuple[int, int]] = []
    create_effect(lambda: seen.append((z(), double())))
    gate = Gate()

    def write() -> None:
        with batch():
            set_a(1)
            gate.stop()

    writer = run_in_thread(write)
    gate.reached()
    set_z(1)
    gate.open.set()
    writer.result()
    set_a(5)
    assert seen[-1] == (1, 10)


def test_what_a_second_recording_thread_makes_belongs_to_its_effect() -> None:  # rule 2
    a, set_a = create_signal(0)
    gate = Gate()
    cleaned: list[str] = []
    inner: list[int] = []

    def first() -> None:
        gate.stop()

    def second() -> None:
        value = a()
        on_cleanup(lambda: cleaned.append("second"))
        create_effect(lambda: inner.append(value))

    home = run_in_thread(lambda: create_effect(first))
    gate.reached()
    effect = run_in_thread(lambda: create_effect(second)).result()
    set_a(1)
    assert (cleaned, inner) == (["second"], [0, 1])
    gate.open.set()
    home.result()
    effect.dispose()
    assert cleaned == ["second", "second"]
    assert effect.owned is None


def test_a_flood_of_writes_from_elsewhere_is_no_cycle() -> None:  # rule 3
    a, set_a = create_signal(0)
    out, set_out = create_signal(0)
    plus = create_memo(lambda: a() + 1)
    seen: list[int] = []
    stop = threading.Event()
    create_effect(lambda: set_out(plus()))
    create_effect(lambda: seen.append(out()))

    def flood(start: int) -> None:
        value = start
        while not stop.is_set():
            value += 1
            set_a(value)

    writers = [run_in_thread(partial(flood, k * 10**6)) for k in (1, 2, 3)]
    assert not stop.wait(0.5)
    stop.set()
    for writer in writers:
        writer.result()
    assert seen[-1] == a() + 1


def test_a_set_between_two_reads_of_a_memo_reaches_no_reader_as_a_mix() -> None:  # rule 4
    a, set_a = create_signal(1)
    runs: list[int] = []

    def pair() -> tuple[int, int]:
        left = a()
        runs.append(left)
        if len(runs) == 1:
            run_in_thread(lambda: set_a(2)).result()
        return left, a()

    assert create_memo(pair)() == (2, 2)
    assert runs == [1, 2], "the run that the write fell into was thrown away"


def test_the_error_of_a_mixed_run_reaches_no_reader() -> None:
    a, set_a = create_signal(1)
    runs: list[int] = []

    def compare() -> str:
        left = a()
        runs.append(left)
        if len(runs) == 1:
            run_in_thread(lambda: set_a(2)).result()
        if left != a():
            raise AssertionError("a mix of two states")
        return "whole"

    assert create_memo(compare)() == "whole"


@pytest.mark.parametrize("kind", ["signal", "memo", "memo of a memo"])
def test_a_set_between_an_effects_read_and_its_end_makes_it_run_again(kind: str) -> None:
    a, set_a = create_signal(1)
    memo = create_memo(lambda: a())
    read = {"signal": a, "memo": memo, "memo of a memo": create_memo(lambda: memo())}[kind]
    seen: list[int] = []

    def run() -> None:
        value = read()
        if not seen:
            run_in_thread(lambda: set_a(2)).result()
        seen.append(value)

    create_effect(run)
    assert seen == [1, 2]
    set_a(3)
    assert seen == [1, 2, 3]


def test_an_effect_whose_memo_stayed_equal_while_another_thread_wrote_is_told_of_the_next() -> None:
    a, set_a = create_signal(0)
    _, set_other = create_signal(0)

    def tens() -> int:
        run_in_thread(lambda: set_other(lambda n: n + 1)).result()
        return a() // 10

    memo = create_memo(tens)
    seen: list[int] = []
    effect = create_effect(lambda: seen.append(memo()))
    for value in (1, 2, 30, 31, 40):
        set_a(value)
    assert seen == [0, 3, 4]
    effect.dispose()


def test_memos_that_read_each_other_in_different_states_are_no_cycle() -> None:  # rule 5
    flag, set_flag = create_signal(True)
    meet = threading.Barrier(2)
    runs = {"a": 0, "b": 0}

    def compute_a() -> int:
        runs["a"] += 1
        before = flag()
        if runs["a"] == 1:
            meet.wait(WAIT)
            meet.wait(WAIT)
        return b() if before else 1

    def compute_b() -> int:
        runs["b"] += 1
        before = flag()
        if runs["b"] == 1:
            meet.wait(WAIT)
        return 2 if before else a()

    a = create_memo(compute_a, name="a")
    b = create_memo(compute_b, name="b")
    first = run_in_thread(a)
    meet.wait(WAIT)
    set_flag(False)
    second = run_in_thread(b)
    assert (first.result(), second.result()) == (1, 1)
    assert (a(), b()) == (1, 1)


def test_memos_on_two_threads_that_do_read_each_other_are_a_cycle() -> None:
    on, set_on = create_signal(True)
    meet = threading.Barrier(2)
    runs = {"a": 0, "b": 0}

    def compute(name: str, other: Callable[[], Callable[[], int]]) -> int:
        runs[name] += 1
        if not on():
            return 1
        if runs[name] == 1:
            meet.wait(WAIT)
        return other()() + 1

    a = create_memo(lambda: compute("a", lambda: b), name="a")
    b = create_memo(lambda: compute("b", lambda: a), name="b")

    def attempt(memo: Callable[[], int]) -> type[BaseException] | None:
        try:
            memo()
        except CycleError as error:
            return type(error)
        return None

    first, second = run_in_thread(lambda: attempt(a)), run_in_thread(lambda: attempt(b))
    assert (first.result(), second.result()) == (CycleError, CycleError)
    set_on(False)
    assert (a(), b()) == (1, 1), "the graph is usable after"


def test_another_thread_may_see_half_a_batch_and_then_runs_again() -> None:  # rule 6
    x, set_x = create_signal(0)
    y, set_y = create_signal(0)
    z, set_z = create_signal(0)
    seen: list[tuple[int, int]] = []
    create_effect(lambda: note(seen, (x(), y()), z()))
    gate = Gate()

    def write_both() -> None:
        with batch():
            set_x(1)
            gate.stop()
            set_y(1)

    writer = run_in_thread(write_both)
    gate.reached()
    set_z(1)
    assert seen[-1] == (1, 0), "values are not hidden from other threads"
    gate.open.set()
    writer.result()
    assert seen[-1] == (1, 1)


def test_a_set_is_not_kept_busy_by_other_threads_writes() -> None:  # rule 7
    a, set_a = create_signal(0)
    stop = threading.Event()
    pause = threading.Event()
    seen: list[int] = []

    def slow() -> None:
        seen.append(a())
        pause.wait(0.001)

    create_effect(slow)

    def flood(start: int) -> None:
        value = start
        while not stop.is_set():
            value += 1
            set_a(value)
            pause.wait(0.0005)

    started = time.monotonic()
    first = run_in_thread(lambda: set_a(-1))
    writers = [run_in_thread(partial(flood, k * 10**6)) for k in (1, 2)]
    first.result()
    took = time.monotonic() - started
    stop.set()
    for writer in writers:
        writer.result()
    assert took < 2.0, f"one set took {took:.2f} s"
    assert seen[-1] == a(), "what was handed on has been run"


def test_what_nobody_takes_over_is_run_by_a_thread_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # rule 7
    monkeypatch.setattr(scheduler, "PATIENCE", 0.0)
    monkeypatch.setattr(scheduler, "HELP_AFTER", 0.0)
    a, set_a = create_signal(0)
    seen: Recorder[int] = Recorder()

    def run() -> None:
        value = a()
        seen(value)
        if 0 < value < 5:  # each round is caused by another thread, which waits for nothing
            run_in_thread(lambda: set_a(value + 1)).result()

    create_effect(run)
    set_a(1)
    seen.wait_for(lambda value: value == 5)
    assert any(thread.name == "reactive_sqlite delivery" for thread in seen.threads)


@pytest.mark.parametrize("way", ["set", "function", "batch", "publish"])
def test_a_flood_of_writes_does_not_starve_a_slow_memo(way: str) -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    left, right = External(0), External(0)
    pause = threading.Event()
    stop = threading.Event()

    def refuse(error: BaseException) -> None:
        raise AssertionError(error)

    def write(value: int) -> None:
        if way == "set":
            set_a(value)
        elif way == "function":
            set_b(lambda n: n + 1)
        elif way == "batch":
            with batch():
                set_a(value)
                set_b(value)
        else:
            publish([(left, value), (right, value)], refuse)
            flush(refuse)

    def flood() -> None:
        value = 0
        while not stop.is_set():
            value += 1
            write(value)

    def slow() -> bool:
        left.track()
        first = a(), b(), left.value
        pause.wait(0.01)
        right.track()
        return first == (a(), b(), right.value)

    writer = run_in_thread(flood)
    try:
        assert run_in_thread(create_memo(slow)).result(20)
    finally:
        stop.set()
        writer.result()


def test_a_real_cycle_is_found_on_any_thread() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    create_effect(lambda: set_b(a() + 1) if a() else None)
    create_effect(lambda: set_a(b() + 1) if a() else None)
    with pytest.raises(CycleError):
        run_in_thread(lambda: set_a(1)).result()
    c, set_c = create_signal(0)
    seen: list[int] = []
    create_effect(lambda: seen.append(c()))
    set_c(1)
    assert seen == [0, 1]


def test_errors_of_effects_handed_over_go_to_the_excepthook(
    excepthook: list[BaseException | None],
) -> None:  # rule 8
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)

    def hand_over() -> None:
        if a() == 1:
            run_in_thread(lambda: set_b(1)).result()

    def fail() -> None:
        if b():
            raise KeyError("b")

    create_effect(hand_over)
    create_effect(fail)
    set_a(1)  # raises nothing: b is no business of whoever sets a
    assert [type(error) for error in excepthook] == [KeyError]


def test_a_value_restored_by_a_batch_is_noticed_although_another_thread_looked() -> None:  # rule 9
    a, set_a = create_signal(0)
    z, set_z = create_signal(0)
    seen: list[tuple[int, int]] = []
    create_effect(lambda: seen.append((z(), a())))
    gate = Gate()

    def write_and_restore() -> None:
        with batch():
            set_a(1)
            gate.stop()
            set_a(0)

    writer = run_in_thread(write_and_restore)
    gate.reached()
    set_z(1)
    assert seen[-1] == (1, 1), "it has seen the value in between"
    gate.open.set()
    writer.result()
    assert seen[-1] == (1, 0), "so it must be told that it is gone"


def test_a_root_disposed_while_another_thread_adds_children_leaves_none_running() -> (
    None
):  # rule 10
    a, set_a = create_signal(0)
    runs: list[int] = []
    gate = Gate()

    def child() -> None:
        runs.append(a())
        if len(runs) == 1:
            gate.stop()

    dispose, owner = create_root(lambda dispose: (dispose, get_owner()))
    making = run_in_thread(lambda: run_with_owner(owner, lambda: create_effect(child)))
    gate.reached()
    dispose()
    gate.open.set()
    making.result()
    set_a(1)
    assert runs == [0]


def test_a_child_made_under_a_disposed_owner_is_disposed_with_it() -> None:  # rule 10
    a, set_a = create_signal(0)
    runs: list[int] = []
    dispose, owner = create_root(lambda dispose: (dispose, get_owner()))
    dispose()
    run_with_owner(owner, lambda: create_effect(lambda: runs.append(a())))
    set_a(1)
    assert runs == [0], "its owner has ended, so nothing would ever dispose it"


def test_an_unrelated_set_does_not_wait_for_a_slow_memo() -> None:
    a, set_a = create_signal(0)
    _, set_b = create_signal(0)
    gate = Gate()

    def slow() -> int:
        if a():
            gate.stop()
        return a()

    memo = create_memo(slow)
    memo()
    set_a(1)
    reader = run_in_thread(memo)
    gate.reached()
    run_in_thread(lambda: set_b(1)).result()
    gate.open.set()
    assert reader.result() == 1


def test_a_memo_may_wait_for_another_threads_set() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)

    def compute() -> int:
        value = a()
        if value:
            run_in_thread(lambda: set_b(value)).result()
        return value

    memo = create_memo(compute)
    memo()
    set_a(1)
    assert (memo(), b()) == (1, 1)


def test_a_memo_may_wait_for_another_threads_read() -> None:
    a, _ = create_signal(0)
    inner = create_memo(lambda: a() + 1)
    assert create_memo(lambda: run_in_thread(inner).result())() == 1


def test_an_effect_disposed_during_its_run_cleans_up_after_itself() -> None:
    a, set_a = create_signal(0)
    runs: list[int] = []
    cleaned: list[int] = []
    gate = Gate()

    def run() -> None:
        value = a()
        runs.append(value)
        on_cleanup(lambda: cleaned.append(value))
        if value == 1:
            gate.stop()

    effect: Effect = create_effect(run)
    writer = run_in_thread(lambda: set_a(1))
    gate.reached()
    run_in_thread(effect.dispose).result()
    assert cleaned == [0], "the run under way is not cut off"
    run_in_thread(lambda: set_a(2)).result()
    gate.open.set()
    writer.result()
    set_a(3)
    assert (runs, cleaned) == ([0, 1], [0, 1])


def test_a_reader_waits_for_a_memo_that_is_under_way_elsewhere() -> None:
    a, set_a = create_signal(0)
    gate = Gate()

    def compute() -> int:
        value = a()
        if value == 1:
            gate.stop()
        return value * 10

    memo = create_memo(compute)
    memo()
    set_a(1)
    first = run_in_thread(memo)
    gate.reached()
    waiting: Background[int] = run_in_thread(memo)
    gate.open.set()
    assert (first.result(), waiting.result()) == (10, 10)


@pytest.mark.parametrize("kind", ["signal", "memo", "dynamic"])
def test_an_effect_that_ran_in_the_midst_of_a_batch_follows_what_the_batch_gave_back(
    kind: str,
) -> None:
    get, put = create_signal(0)
    which, choose = create_signal(0)
    ten = create_memo(lambda: get() * 10)
    other = create_memo(lambda: 10)
    reads = {
        "signal": get,
        "memo": ten,
        "dynamic": create_memo(lambda: (ten, other)[which()]()),
    }
    read, wake = reads[kind], create_signal(0)
    started, read_it = Gate(), Gate()
    seen: list[int] = []

    def follow() -> None:
        wake[0]()
        if len(seen) == 1:
            started.stop()
        seen.append(read())
        if len(seen) == 2:
            read_it.stop()

    effect = create_effect(follow)
    runs = run_in_thread(lambda: wake[1](1))
    started.reached()
    with batch():
        choose(1) if kind == "dynamic" else put(1)
        started.open.set()
        read_it.reached()
        choose(0) if kind == "dynamic" else put(0)
        assert read() == 0
    read_it.open.set()
    runs.result()
    assert seen == [0, 1 if kind == "signal" else 10, 0], "its last run saw the last state"
    effect.dispose()


def test_a_run_that_gives_back_what_it_found_is_no_reason_to_run_again() -> None:
    get, put = create_signal(0)
    ten = create_memo(lambda: get() * 10)
    wake, rouse = create_signal(0)
    seen: list[tuple[int, int]] = []

    def follow() -> None:
        wake()
        put(1)
        between = ten()
        put(0)
        seen.append((between, ten()))

    effect = create_effect(follow)
    run_in_thread(lambda: rouse(1)).result()
    assert seen[-1] == (10, 0)
    assert len(seen) <= 4, "writes of its own that cancel out wake it at most once more"
    effect.dispose()


def test_threads_that_put_values_back_leave_no_effect_behind() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for seed in range(12):
            _put_back(seed)
    finally:
        sys.setswitchinterval(interval)


def _parity(get: Callable[[], int]) -> Callable[[], int]:
    return create_memo(lambda: get() % 2)


def _put_back(seed: int) -> None:
    """Four threads toggle few small values in batches: whatever is missed stays wrong."""
    pairs = [create_signal(0) for _ in range(3)]
    memos = [_parity(get) for get, _ in pairs]
    chosen = create_memo(lambda: memos[1 + pairs[0][0]() % 2]())
    total = create_memo(lambda: sum(memo() for memo in memos))
    reads: dict[str, Callable[[], object]] = {
        "signal": pairs[0][0],
        "memo": memos[1],
        "chosen": chosen,
        "total": total,
        "all": lambda: tuple(get() for get, _ in pairs),
    }
    seen: dict[str, object] = {}

    def watch(name: str, read: Callable[[], object]) -> Effect:
        def run() -> None:
            value = read()
            sum(range(50))  # so that others write in the middle of it
            seen[name] = value

        return create_effect(run)

    effects = [watch(name, read) for name, read in reads.items()]

    def work(thread: int) -> None:
        rnd = random.Random(seed * 10 + thread)
        for _ in range(60):
            get, put = rnd.choice(pairs)
            with batch():
                before = get.peek()
                put(rnd.randrange(3))
                rnd.choice(list(reads.values()))()
                if rnd.random() < 0.8:
                    put(before)

    threads = [run_in_thread(partial(work, thread)) for thread in range(4)]
    for thread in threads:
        thread.result()
    assert seen == {name: read() for name, read in reads.items()}, f"seed {seed}"
    for effect in effects:
        effect.dispose()


def test_a_memo_read_inside_a_batch_while_others_write_still_wakes_its_effects() -> None:
    get, put = create_signal(0)
    other, set_other = create_signal(0)
    gate = Gate()
    armed = threading.Event()

    def ten_times() -> int:
        if armed.is_set():
            armed.clear()
            gate.stop()
        return get() * 10

    ten = create_memo(ten_times)
    seen: list[int] = []
    effects = [create_effect(lambda: seen.append(ten())), create_effect(other)]
    with batch():
        put(1)
        armed.set()
        reader = run_in_thread(ten)
        gate.reached()
        run_in_thread(lambda: set_other(1)).result()
        gate.open.set()
        assert reader.result() == 10
    assert seen[-1] == 10, "the end of the batch reaches what is behind the memo"
    put(2)
    assert seen[-1] == 20
    for effect in effects:
        effect.dispose()
