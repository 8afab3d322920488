"""Leaves from outside the graph: publishing as one change, watching, and volatile values."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from reactive_sqlite import (
    CycleError,
    batch,
    catch_error,
    create_effect,
    create_memo,
    create_signal,
)
from reactive_sqlite.signals import scheduler
from reactive_sqlite.signals.external import External, flush, publish, tracking
from reactive_sqlite.signals.scheduler import ROUNDS
from reactive_sqlite.signals.state import STATE
from tests.reactive_sqlite.signals.background import run_in_thread
from tests.reactive_sqlite.signals.noting import note


def read(leaf: External[Any]) -> Any:
    """Read a leaf as the accessor of a query does."""
    leaf.track()
    return leaf.value


def refuse(error: BaseException) -> None:
    raise AssertionError(f"no error was expected: {error!r}")


def emit(*changes: tuple[External[Any], Any], on_error: Any = refuse) -> None:
    publish(changes, on_error)
    flush(on_error)


def test_a_leaf_shows_its_name_where_it_has_one() -> None:
    assert repr(External(0, name="rows")) == "<external rows>"
    unnamed = External(0)
    assert repr(unnamed) == f"<external {hex(id(unnamed))}>"


def test_an_effect_follows_what_is_published() -> None:
    rows = External([1])
    seen: list[list[int]] = []
    create_effect(lambda: seen.append(read(rows)))
    emit((rows, [2]))
    assert seen == [[1], [2]]
    emit((rows, [2]))
    assert seen == [[1], [2], [2]], "every pair counts as a change"


def test_several_leaves_published_together_are_one_change() -> None:
    first, second = External(1), External(1)
    both = create_memo(lambda: (read(first), read(second)))
    seen: list[tuple[int, int]] = []
    create_effect(lambda: seen.append((read(first), read(second))))
    create_effect(lambda: seen.append(both()))
    emit((first, 2), (second, 2))
    assert seen == [(1, 1), (1, 1), (2, 2), (2, 2)]


def test_publishing_runs_nothing_and_reads_are_new_at_once() -> None:
    leaf = External(1)
    double = create_memo(lambda: read(leaf) * 2)
    seen: list[int] = []
    create_effect(lambda: seen.append(double()))
    publish([(leaf, 5)], refuse)
    assert seen == [2]
    assert (leaf.value, double()) == (5, 10)
    assert seen == [2], "reading a memo runs no effects that are due"
    flush(refuse)
    assert seen == [2, 10]


def test_flushing_in_a_batch_waits_for_its_end() -> None:
    leaf = External(1)
    seen: list[int] = []
    create_effect(lambda: seen.append(read(leaf)))
    with batch():
        emit((leaf, 2))
        assert seen == [1]
    assert seen == [1, 2], "also when the batch itself wrote nothing"


def test_flushing_in_an_effect_waits_for_its_end() -> None:
    leaf = External(1)
    go, set_go = create_signal(False)
    seen: list[int] = []
    create_effect(lambda: seen.append(read(leaf)))

    def run() -> None:
        if go():
            emit((leaf, 2))
            assert seen == [1]

    create_effect(run)
    set_go(True)
    assert seen == [1, 2]


def test_flushing_in_a_memo_waits_for_what_is_around_it() -> None:
    leaf = External(1)
    seen: list[int] = []
    create_effect(lambda: seen.append(read(leaf)))
    memo = create_memo(lambda: emit((leaf, 2)))
    memo()
    assert seen == [1], "a reader is not made to run effects that others caused"
    flush(refuse)
    assert seen == [1, 2]


def test_errors_of_effects_that_a_publication_woke_go_to_its_handler() -> None:
    leaf = External(1)
    told: list[BaseException] = []
    seen: list[int] = []
    create_effect(lambda: seen.append(10 // read(leaf)))
    create_effect(lambda: seen.append(read(leaf)))
    emit((leaf, 0), on_error=told.append)
    assert [type(error) for error in told] == [ZeroDivisionError]
    assert seen == [10, 1, 0], "the other effect still runs"


def test_errors_of_effects_that_those_write_to_go_to_its_handler_as_well() -> None:
    leaf = External(1)
    copy, set_copy = create_signal(1)
    told: list[BaseException] = []
    create_effect(lambda: set_copy(read(leaf)))
    create_effect(lambda: 10 // copy())
    emit((leaf, 0), on_error=told.append)
    assert [type(error) for error in told] == [ZeroDivisionError]


def test_publications_of_another_thread_that_fall_into_an_effects_runs_are_no_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduler, "PATIENCE", 100.0)  # with which it serves that thread
    leaves = [External(0) for _ in range(ROUNDS + 10)]
    copy, set_copy = create_signal(0)
    going, go = create_signal(False)

    def follow() -> None:
        # Each run reads another leaf, which changes before the run has subscribed to it.
        leaf = leaves[-1]
        read(leaf)
        if going() and len(leaves) > 1:
            set_copy(len(leaves))
            run_in_thread(lambda: publish([(leaves.pop(), 1)], refuse)).result()

    effect = create_effect(follow)
    go(True)
    assert (copy(), len(leaves)) == (2, 1)
    effect.dispose()


def test_a_cycle_of_effects_behind_a_publication_goes_to_its_handler() -> None:
    leaf = External(0)
    a, set_a = create_signal(0)
    told: list[BaseException] = []
    relay = create_effect(lambda: set_a(read(leaf)))
    climber = create_effect(lambda: set_a(a() + 1) if a() else None)
    emit((leaf, 1), on_error=told.append)
    assert [type(error) for error in told] == [CycleError]
    relay.dispose()
    climber.dispose()


def test_errors_go_to_the_publications_handler_although_a_set_runs_the_effect() -> None:
    leaf = External(1)
    a, set_a = create_signal(0)
    create_effect(lambda: a())
    create_effect(lambda: 10 // read(leaf))
    told: list[BaseException] = []
    publish([(leaf, 0)], told.append)
    set_a(1)
    assert [type(error) for error in told] == [ZeroDivisionError]


def test_catch_error_comes_before_the_publications_handler() -> None:
    leaf = External(1)
    caught: list[Exception] = []
    catch_error(lambda: create_effect(lambda: 10 // read(leaf)), caught.append)
    emit((leaf, 0))
    assert len(caught) == 1


def test_a_cycle_of_publications_goes_to_the_handler_and_ends() -> None:
    leaf = External(0)
    told: list[BaseException] = []
    going = [True]

    def climb() -> None:
        value = read(leaf)
        if going[0] and value:
            emit((leaf, value + 1), on_error=told.append)

    create_effect(climb, name="climb")
    emit((leaf, 1), on_error=told.append)
    assert [type(error) for error in told] == [CycleError]
    going[0] = False
    seen: list[int] = []
    create_effect(lambda: seen.append(read(leaf)))
    emit((leaf, -1))
    assert seen[-1] == -1, "the graph is usable after"


def test_tracking_tells_whether_something_records() -> None:
    leaf = External(1)
    told: list[bool] = [tracking(), leaf.track()]
    create_effect(lambda: told.extend((tracking(), leaf.track())))
    create_memo(lambda: told.extend((tracking(), leaf.track())))()
    assert told == [False, False, True, True, True, True]


class Watch:
    """A leaf and what its `on_watch` saw."""

    def __init__(self) -> None:
        self.seen: list[bool] = []
        self.act: Callable[[], object] = lambda: None
        self.leaf = External(1, on_watch=self.look)

    def look(self) -> None:
        self.seen.append(self.leaf.watched)
        assert not tracking(), "nothing that a watcher reads is recorded"
        self.act()


def test_a_leaf_is_watched_while_an_effect_reads_it() -> None:
    watch = Watch()
    effect = create_effect(lambda: watch.leaf.track())
    assert watch.seen == [True]
    assert watch.leaf.watched
    effect.dispose()
    assert watch.seen == [True, False]
    assert not watch.leaf.watched
    assert STATE.flips == {}, "nothing is left to be told"


def test_a_leaf_is_watched_through_memos_that_lead_to_an_effect() -> None:
    watch = Watch()
    inner = create_memo(lambda: read(watch.leaf))
    outer = create_memo(lambda: inner() + 1)
    assert outer() == 2
    assert watch.seen == []
    effect = create_effect(lambda: outer())
    assert watch.seen == [True]
    effect.dispose()
    assert watch.seen == [True, False]


def test_a_leaf_is_no_longer_watched_once_the_last_reader_has_turned_away() -> None:
    watch = Watch()
    on, set_on = create_signal(True)
    create_effect(lambda: on() and watch.leaf.track())
    set_on(False)
    assert watch.seen == [True, False]
    set_on(True)
    assert watch.seen == [True, False, True]


def test_running_again_does_not_disturb_the_watch() -> None:
    watch = Watch()
    a, set_a = create_signal(0)
    create_effect(lambda: (a(), watch.leaf.track()))
    set_a(1)
    emit((watch.leaf, 2))
    assert watch.seen == [True]


def test_a_second_reader_does_not_call_the_watcher() -> None:
    watch = Watch()
    first = create_effect(lambda: watch.leaf.track())
    second = create_effect(lambda: watch.leaf.track())
    first.dispose()
    second.dispose()
    assert watch.seen == [True, False]


def test_a_watcher_may_publish_what_it_has_missed() -> None:
    watch = Watch()
    watch.act = lambda: emit((watch.leaf, 2)) if watch.leaf.value == 1 else None
    seen: list[int] = []
    create_effect(lambda: seen.append(read(watch.leaf)))
    assert seen == [1, 2]


def test_what_a_watcher_sets_during_a_delivery_is_delivered_too() -> None:
    watch = Watch()
    on, set_on = create_signal(False)
    told, tell = create_signal(0)
    watch.act = lambda: tell(len(watch.seen))
    seen: list[int] = []
    follower = create_effect(lambda: seen.append(told()))
    effect = create_effect(lambda: on() and watch.leaf.track())
    set_on(True)
    assert (watch.seen, seen) == ([True], [0, 1])
    effect.dispose()
    assert (watch.seen, seen) == ([True, False], [0, 1, 2])
    follower.dispose()


def test_what_a_watcher_set_before_it_was_interrupted_is_delivered_with_the_next_change() -> None:
    watch = Watch()
    on, set_on = create_signal(False)
    told, tell = create_signal(0)
    _, set_other = create_signal(0)

    def interrupted() -> None:
        tell(1)
        raise KeyboardInterrupt

    watch.act = interrupted
    seen: list[int] = []
    follower = create_effect(lambda: seen.append(told()))
    effect = create_effect(lambda: on() and watch.leaf.track())
    with pytest.raises(KeyboardInterrupt):
        set_on(True)
    watch.act = lambda: None
    with batch():
        set_other(1)
    assert seen == [0, 1]
    effect.dispose()
    follower.dispose()


def test_what_a_memo_made_is_let_go_before_it_computes_again_beside_another_threads_run() -> None:
    watch = Watch()
    a, set_a = create_signal(0)
    inside, go = threading.Event(), threading.Event()

    def block() -> None:
        inside.set()
        assert go.wait(10)

    blocking = run_in_thread(lambda: create_effect(block))
    assert inside.wait(10)

    def compute() -> int:
        create_effect(lambda: watch.leaf.track())
        return a()

    memo = create_memo(compute)
    assert memo() == 0
    set_a(1)
    assert memo() == 1
    assert watch.seen == [True, False, True]
    go.set()
    blocking.result().dispose()


def test_an_error_of_a_watcher_surfaces() -> None:
    watch = Watch()

    def fail() -> None:
        raise LookupError("a bug of ours")

    watch.act = fail
    with pytest.raises(LookupError):
        create_effect(lambda: watch.leaf.track())


def test_no_lock_is_held_while_a_watcher_runs() -> None:
    watch = Watch()
    a, set_a = create_signal(0)
    watch.act = lambda: run_in_thread(lambda: set_a(1)).result()
    create_effect(lambda: watch.leaf.track())
    assert a() == 1
    watch.leaf.value = 5
    watch.act = lambda: run_in_thread(lambda: set_a(2)).result()
    on, set_on = create_signal(True)
    second = Watch()
    second.act = watch.act
    create_effect(lambda: on() and second.leaf.track())
    set_on(False)
    assert a() == 2


def test_a_memo_over_a_volatile_leaf_computes_at_every_read() -> None:
    leaf = External(1)
    assert leaf.volatile is False
    leaf.volatile = True
    runs: list[int] = []
    inner = create_memo(lambda: note(runs, 1, read(leaf)))
    outer = create_memo(lambda: inner() + 1)
    assert outer() == 2
    leaf.value = 5  # as a query does that fetches when it is read
    assert outer() == 6
    assert outer.peek() == 6
    assert len(runs) == 3
    leaf.volatile = False
    outer()
    before = len(runs)
    assert outer() == 6
    assert len(runs) == before


def test_a_volatile_leaf_that_is_freed_makes_no_memo_distrust_its_cache() -> None:
    gc.collect()
    before = STATE.volatiles
    leaves = [External(number) for number in range(4)]
    for number in range(4):
        leaves[number].volatile = True
    assert STATE.volatiles == before + 4
    del leaves[0]
    gc.collect()
    assert STATE.volatiles == before + 3
    leaves.clear()
    gc.collect()
    assert STATE.volatiles == before


def test_a_memo_over_no_volatile_leaf_trusts_its_cache_though_another_is_volatile() -> None:
    leaf, other = External(1), External(1)
    runs: list[int] = []
    inner = create_memo(lambda: note(runs, 1, read(leaf)))
    outer = create_memo(lambda: note(runs, 2, inner() + 1))
    other.volatile = True
    assert (outer(), outer(), runs) == (2, 2, [1, 2])
    emit((other, 2))
    assert (outer(), outer(), len(runs)) == (2, 2, 2)
    other.volatile = False


@pytest.mark.parametrize("first", [True, False])
def test_a_leaf_behind_a_memo_is_watched_no_longer_though_what_else_that_read_is(
    first: bool,
) -> None:
    watch = Watch()
    shared, _ = create_signal(0)
    follower = create_effect(lambda: shared())
    order = (watch.leaf.track, shared) if first else (shared, watch.leaf.track)
    memo = create_memo(lambda: [one() for one in order])
    create_effect(lambda: memo()).dispose()
    assert watch.seen == [True, False]
    follower.dispose()


def test_a_live_memo_over_a_volatile_leaf_trusts_its_cache() -> None:
    leaf = External(1)
    runs: list[int] = []
    memo = create_memo(lambda: note(runs, 1, read(leaf)))
    effect = create_effect(lambda: memo())
    leaf.volatile = True
    memo()
    memo()
    assert len(runs) == 1
    effect.dispose()
    memo()
    memo()
    assert len(runs) == 3, "and computes at every read once it leads nowhere"


def test_a_memo_never_mixes_two_publications_that_fall_into_its_run() -> None:
    first, second = External(1), External(1)
    runs: list[int] = []

    def pair() -> tuple[int, int]:
        left = read(first)
        runs.append(left)
        if len(runs) == 1:
            run_in_thread(lambda: publish([(first, 2), (second, 2)], refuse)).result()
        return left, read(second)

    assert create_memo(pair)() == (2, 2)
    assert runs == [1, 2]


def test_a_publication_by_the_memos_own_thread_is_not_mixed_in_either() -> None:
    first, second = External(1), External(1)
    runs: list[int] = []

    def pair() -> tuple[int, int]:
        left = read(first)
        runs.append(left)
        if len(runs) == 1:  # a query that is read fetches, and finds that both have changed
            publish([(first, 2), (second, 2)], refuse)
        return left, read(second)

    assert create_memo(pair)() == (2, 2)


def test_an_effect_that_a_publication_fell_into_runs_again() -> None:
    first, second = External(1), External(1)
    seen: list[tuple[int, int]] = []

    def follow() -> None:
        left = read(first)
        if not seen:
            run_in_thread(lambda: emit((first, 2), (second, 2))).result()
        seen.append((left, read(second)))

    create_effect(follow)
    assert seen[-1] == (2, 2)


def test_a_publication_while_another_thread_delivers_is_delivered_there() -> None:
    leaf = External(1)
    a, set_a = create_signal(0)
    inside, go = threading.Event(), threading.Event()
    seen: list[tuple[int, threading.Thread]] = []
    double = create_memo(lambda: read(leaf) * 2)

    def block() -> None:
        if a():
            inside.set()
            assert go.wait(5)

    create_effect(block)
    create_effect(lambda: seen.append((double(), threading.current_thread())))
    writer = run_in_thread(lambda: set_a(1))
    assert inside.wait(5)
    emit((leaf, 5))
    assert double() == 10, "reads see the new value at once, memos included"
    assert len(seen) == 1, "the effect waits for the thread that delivers"
    go.set()
    writer.result()
    assert [value for value, _ in seen] == [2, 10]
    assert seen[1][1] is writer.thread


def test_publishing_while_a_lock_of_the_readers_is_held_blocks_nothing() -> None:
    leaf = External(1)
    lock = threading.Lock()
    started = threading.Event()

    def compute() -> int:
        started.set()
        with lock:
            return int(read(leaf))

    memo = create_memo(compute)
    with lock:
        reader = run_in_thread(memo)
        assert started.wait(5)
        publish([(leaf, 2)], refuse)
    assert reader.result() == 2
