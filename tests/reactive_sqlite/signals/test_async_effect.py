"""Async effects: tracked across awaits, one run at a time, restarted by changes from elsewhere."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from reactive_sqlite import (
    batch,
    catch_error,
    create_effect,
    create_memo,
    create_root,
    create_signal,
    get_owner,
    on_cleanup,
)
from reactive_sqlite.signals.external import External, current_run, flush, publish
from tests.reactive_sqlite.signals.background import run_in_thread
from tests.reactive_sqlite.signals.turning import turns, until


async def test_reads_are_tracked_across_awaits_and_not_in_tasks_it_starts() -> None:
    a, set_a = create_signal(1)
    b, set_b = create_signal(2)
    c, set_c = create_signal(3)
    seen: list[tuple[int, int]] = []

    async def child() -> int:
        await asyncio.sleep(0)
        return c()

    async def run() -> None:
        value = a()
        task = asyncio.create_task(child())
        await asyncio.sleep(0)
        seen.append((value, b()))
        await task

    effect = create_effect(run)
    await until(lambda: seen)
    set_c(9)
    await turns()
    assert seen == [(1, 2)]
    set_b(5)
    await until(lambda: len(seen) == 2)
    set_a(7)
    await until(lambda: len(seen) == 3)
    assert seen == [(1, 2), (1, 5), (7, 5)]
    effect.dispose()


async def test_reads_of_other_code_between_its_steps_are_not_its_own() -> None:
    a, _ = create_signal(1)
    b, set_b = create_signal(2)
    runs: list[int] = []
    go = asyncio.Event()

    async def run() -> None:
        runs.append(a())
        await go.wait()

    effect = create_effect(run)
    await until(lambda: runs)
    b()
    go.set()
    set_b(3)
    await turns()
    assert runs == [1]
    effect.dispose()


async def test_the_first_step_runs_at_the_loops_next_turn() -> None:
    runs: list[int] = []

    async def run() -> None:
        runs.append(1)

    effect = create_effect(run)
    assert runs == []
    await asyncio.sleep(0)
    assert runs == [1]
    effect.dispose()


async def test_a_change_from_elsewhere_cancels_awaits_the_end_and_starts_again() -> None:
    a, set_a = create_signal(0)
    seen: list[tuple[str, int]] = []
    inside: list[int] = []

    async def run() -> None:
        value = a()
        inside.append(value)
        assert len(inside) == 1, "never two at once"
        try:
            seen.append(("in", value))
            if value < 2:
                await asyncio.Event().wait()
            seen.append(("done", value))
        finally:
            await turns(3)
            inside.remove(value)
            seen.append(("end", value))

    effect = create_effect(run)
    await until(lambda: seen)
    set_a(1)
    set_a(2)
    await until(lambda: ("end", 2) in seen)
    assert seen == [("in", 0), ("end", 0), ("in", 2), ("done", 2), ("end", 2)]
    effect.dispose()


async def test_its_own_write_never_cancels_it_and_makes_it_run_again_afterwards() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []

    async def run() -> None:
        value = a()
        await asyncio.sleep(0)
        if value < 3:
            set_a(value + 1)
        await asyncio.sleep(0)
        seen.append(value)

    effect = create_effect(run)
    await until(lambda: len(seen) == 4)
    await turns()
    assert seen == [0, 1, 2, 3]
    effect.dispose()


async def test_its_own_write_through_an_effect_and_a_memo_is_still_its_own() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    double = create_memo(lambda: b() * 2)
    seen: list[int] = []
    relay = create_effect(lambda: set_b(a()))

    async def run() -> None:
        value = double()
        await asyncio.sleep(0)
        if value < 4:
            set_a(a.peek() + 1)
        await asyncio.sleep(0)
        seen.append(value)

    effect = create_effect(run)
    await until(lambda: len(seen) == 3)
    await turns()
    assert seen == [0, 2, 4]
    effect.dispose()
    relay.dispose()


async def test_a_write_while_another_thread_delivers_is_still_its_own() -> None:
    a, set_a = create_signal(0)
    z, set_z = create_signal(0)
    inside, go = threading.Event(), threading.Event()
    seen: list[tuple[str, int]] = []

    def block() -> None:
        if z():
            inside.set()
            assert go.wait(10)

    blocker = create_effect(block)

    async def run() -> None:
        value = a()
        seen.append(("in", value))
        if value == 0:
            run_in_thread(lambda: set_z(1))
            await asyncio.to_thread(inside.wait, 10)
            set_a(1)
            asyncio.get_running_loop().call_later(0.01, go.set)
            await asyncio.sleep(0.03)
        seen.append(("done", value))

    effect = create_effect(run)
    await until(lambda: ("done", 1) in seen)
    assert seen == [("in", 0), ("done", 0), ("in", 1), ("done", 1)]
    effect.dispose()
    blocker.dispose()


async def test_a_write_of_a_task_it_started_comes_from_elsewhere() -> None:
    a, set_a = create_signal(0)
    seen: list[str] = []

    async def child() -> None:
        await asyncio.sleep(0)
        set_a(1)

    async def run() -> None:
        value = a()
        if value == 0:
            task = asyncio.create_task(child())
            await asyncio.Event().wait()
            seen.append("not cancelled")
            await task
        seen.append(f"done {value}")

    effect = create_effect(run)
    await until(lambda: seen)
    assert seen == ["done 1"]
    effect.dispose()


async def test_a_change_from_another_thread_restarts_it() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []

    async def run() -> None:
        seen.append(a())
        await asyncio.Event().wait()

    effect = create_effect(run)
    await until(lambda: seen)
    await asyncio.to_thread(set_a, 1)
    await until(lambda: len(seen) == 2)
    assert seen == [0, 1]
    effect.dispose()


async def test_a_change_within_the_step_that_read_is_not_lost() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []

    async def run() -> None:
        value = a()
        if value == 0:
            run_in_thread(lambda: set_a(1)).result()
        await asyncio.sleep(0)
        seen.append(value)

    effect = create_effect(run)
    await until(lambda: seen)
    assert seen == [1]
    effect.dispose()


async def test_a_change_during_the_await_after_a_read_is_not_lost() -> None:
    a, set_a = create_signal(0)
    memo = create_memo(lambda: a() * 10)
    seen: list[int] = []
    go = asyncio.Event()

    async def run() -> None:
        value = memo()
        await go.wait()
        seen.append(value)

    effect = create_effect(run)
    await turns()
    set_a(1)
    await turns()
    go.set()
    await until(lambda: seen)
    assert seen == [10]
    effect.dispose()


async def test_a_change_of_what_only_the_last_run_read_does_not_cancel_this_one() -> None:
    a, set_a = create_signal(True)
    b, set_b = create_signal(0)
    seen: list[str] = []
    go = asyncio.Event()

    async def run() -> None:
        if a():
            b()
            seen.append("first")
        else:
            seen.append("second begins")
            await go.wait()
            seen.append("second ends")

    effect = create_effect(run)
    await until(lambda: seen)
    set_a(False)
    await until(lambda: len(seen) == 2)
    set_b(1)
    await turns()
    go.set()
    await until(lambda: len(seen) == 3)
    await turns()
    assert seen == ["first", "second begins", "second ends"]
    effect.dispose()


async def test_a_batch_that_restores_what_it_read_does_not_cancel_it() -> None:
    a, set_a = create_signal(0)
    seen: list[str] = []
    go = asyncio.Event()

    async def run() -> None:
        a()
        seen.append("in")
        await go.wait()
        seen.append("done")

    effect = create_effect(run)
    await until(lambda: seen)
    with batch():
        set_a(1)
        set_a(0)
    await turns()
    go.set()
    await until(lambda: len(seen) == 2)
    assert seen == ["in", "done"]
    effect.dispose()


async def test_disposal_cancels_the_run_and_cleans_up_when_it_has_ended() -> None:
    a, set_a = create_signal(0)
    seen: list[str] = []

    async def run() -> None:
        a()
        on_cleanup(lambda: seen.append("clean"))
        seen.append("in")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    effect = create_effect(run)
    await until(lambda: seen)
    effect.dispose()
    await until(lambda: "clean" in seen)
    set_a(1)
    await turns()
    assert seen == ["in", "cancelled", "clean"]


async def test_disposal_of_an_idle_one_cleans_up_at_once() -> None:
    cleaned: list[str] = []
    done: list[int] = []

    async def run() -> None:
        on_cleanup(lambda: cleaned.append("clean"))
        await asyncio.sleep(0)
        done.append(1)

    effect = create_effect(run)
    await until(lambda: done)
    await turns()
    assert cleaned == []
    effect.dispose()
    assert cleaned == ["clean"]


async def test_one_that_disposes_itself_finishes_that_run() -> None:
    seen: list[str] = []
    a, set_a = create_signal(0)

    async def run() -> None:
        a()
        effect.dispose()
        await asyncio.sleep(0)
        seen.append("finished")

    effect = create_effect(run)
    await until(lambda: seen)
    set_a(1)
    await turns()
    assert seen == ["finished"]


async def test_disposal_from_another_thread_cancels_too() -> None:
    seen: list[str] = []

    async def run() -> None:
        seen.append("in")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("out")

    effect = create_effect(run)
    await until(lambda: seen)
    await asyncio.to_thread(effect.dispose)
    await until(lambda: len(seen) == 2)


async def test_cleanups_and_children_of_any_step_end_before_the_next_run() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    seen: list[str] = []

    async def run() -> None:
        value = a()
        await asyncio.sleep(0)
        on_cleanup(lambda: seen.append(f"clean {value}"))
        create_effect(lambda: seen.append(f"child {value} {b()}"))
        assert get_owner() is effect

    effect = create_effect(run)
    await until(lambda: len(seen) == 1)
    set_a(1)
    await until(lambda: len(seen) == 3)
    set_b(1)
    assert seen == ["child 0 0", "clean 0", "child 1 0", "child 1 1"]
    effect.dispose()


async def test_an_owner_disposes_an_async_effect() -> None:
    seen: list[str] = []

    async def run() -> None:
        seen.append("in")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("out")

    def body(dispose: Callable[[], None]) -> Callable[[], None]:
        create_effect(run)
        return dispose

    dispose = create_root(body)
    await until(lambda: seen)
    dispose()
    await until(lambda: len(seen) == 2)


async def test_cancellation_reaches_timeouts_and_task_groups_inside() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []

    async def run() -> None:
        value = a()
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            if value == 0:
                group.create_task(asyncio.Event().wait())
        seen.append(value)

    effect = create_effect(run)
    await turns()
    set_a(1)
    await until(lambda: seen)
    assert seen == [1]
    effect.dispose()


async def test_a_run_that_swallows_its_cancellation_is_followed_by_the_next() -> None:
    a, set_a = create_signal(0)
    seen: list[int | str] = []

    async def run() -> None:
        value = a()
        if value == 0:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("swallowed")
        seen.append(value)

    effect = create_effect(run)
    await turns()
    set_a(1)
    await until(lambda: 1 in seen)
    assert seen == ["swallowed", 0, 1]
    effect.dispose()


async def test_set_does_not_wait_for_an_async_effect() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []

    async def run() -> None:
        seen.append(a())

    effect = create_effect(run)
    await until(lambda: seen)
    set_a(1)
    assert seen == [0]
    await until(lambda: len(seen) == 2)
    effect.dispose()


async def test_writes_of_one_step_wake_effects_once_at_its_end() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    seen: list[tuple[int, int]] = []
    watcher = create_effect(lambda: seen.append((a(), b())))

    async def run() -> None:
        set_a(1)
        set_b(1)
        await asyncio.sleep(0)
        set_a(2)

    effect = create_effect(run)
    await until(lambda: len(seen) == 3)
    assert seen == [(0, 0), (1, 1), (2, 1)]
    effect.dispose()
    watcher.dispose()


async def test_fn_gets_what_it_returned_last_when_an_initial_value_is_given() -> None:
    a, set_a = create_signal(1)
    seen: list[int] = []

    async def add(total: int) -> int:
        await asyncio.sleep(0)
        seen.append(total + a())
        return seen[-1]

    effect = create_effect(add, 10)
    await until(lambda: seen)
    await turns()
    set_a(5)
    await until(lambda: len(seen) == 2)
    assert seen == [11, 16]
    effect.dispose()


@pytest.fixture
def complaints() -> list[dict[str, Any]]:
    return []


def listen(complaints: list[dict[str, Any]]) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))


async def test_errors_go_to_the_loops_exception_handler(complaints: list[dict[str, Any]]) -> None:
    listen(complaints)
    a, set_a = create_signal(0)
    seen: list[int] = []

    async def run() -> None:
        await asyncio.sleep(0)
        seen.append(10 // a())

    effect = create_effect(run)
    await until(lambda: complaints)
    assert isinstance(complaints[0]["exception"], ZeroDivisionError)
    set_a(5)
    await until(lambda: seen)
    assert seen == [2], "the effect goes on"
    effect.dispose()


async def test_catch_error_gets_errors_of_async_effects(complaints: list[dict[str, Any]]) -> None:
    listen(complaints)
    caught: list[Exception] = []

    async def run() -> None:
        await asyncio.sleep(0)
        raise ValueError("async")

    effect = catch_error(lambda: create_effect(run), caught.append)
    await until(lambda: caught)
    assert complaints == []
    assert effect is not None
    effect.dispose()


async def test_an_effects_error_after_an_async_write_goes_to_the_loops_handler(
    complaints: list[dict[str, Any]],
) -> None:
    listen(complaints)
    a, set_a = create_signal(1)
    follower = create_effect(lambda: 1 // a())

    async def run() -> None:
        set_a(0)

    effect = create_effect(run)
    await until(lambda: complaints)
    assert isinstance(complaints[0]["exception"], ZeroDivisionError)
    assert complaints[0]["message"] == "an effect failed after an async effect's write"
    effect.dispose()
    follower.dispose()


def test_without_a_loop_it_is_a_runtime_error() -> None:
    async def run() -> None:
        """Never run."""

    told = "^create_effect: an async effect needs a running event loop on this thread$"
    with pytest.raises(RuntimeError, match=told):
        create_effect(run)


def test_a_closed_loop_ends_its_effects_and_disturbs_no_writer() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    cleaned: list[str] = []

    async def run() -> None:
        a()
        on_cleanup(lambda: set_b(1))
        on_cleanup(lambda: cleaned.append("clean"))

    async def main() -> None:
        create_effect(run)
        await turns()

    asyncio.run(main())
    follower = create_effect(lambda: cleaned.append(f"followed {b()}"))
    set_a(1)
    assert cleaned == ["followed 0", "clean", "followed 1"]
    set_a(2)
    assert cleaned[3:] == []
    follower.dispose()


async def test_a_leaf_is_watched_while_an_async_effect_reads_it() -> None:
    seen: list[bool] = []
    leaf: External[int] = External(1, on_watch=lambda: seen.append(leaf.watched))
    a, set_a = create_signal(0)
    runs: list[int] = []

    async def run() -> None:
        a()
        leaf.track()
        runs.append(leaf.value)
        await asyncio.sleep(0)

    effect = create_effect(run)
    await until(lambda: runs)
    set_a(1)
    await until(lambda: len(runs) == 2)
    assert seen == [True], "running again does not disturb the watch"
    publish([(leaf, 2)], seen.append)  # type: ignore[arg-type]
    flush(seen.append)  # type: ignore[arg-type]
    await until(lambda: len(runs) == 3)
    assert runs[-1] == 2
    effect.dispose()
    await until(lambda: len(seen) == 2)
    assert seen == [True, False]


async def test_what_a_watcher_publishes_at_the_first_read_does_not_cancel_the_run() -> None:
    runs: list[int] = []

    def catch_up() -> None:
        if leaf.watched and leaf.value == 1:
            publish([(leaf, 2)], refuse)
            flush(refuse)

    def refuse(error: BaseException) -> None:
        raise AssertionError(error)

    leaf: External[int] = External(1, on_watch=catch_up)

    async def run() -> None:
        leaf.track()
        value = leaf.value
        await turns(5)
        runs.append(value)

    effect = create_effect(run)
    await until(lambda: runs)
    await turns()
    assert runs == [2]
    effect.dispose()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
async def test_an_eager_task_factory_changes_nothing() -> None:
    factory = asyncio.eager_task_factory  # type: ignore[attr-defined, unused-ignore]
    asyncio.get_running_loop().set_task_factory(factory)  # pyright: ignore
    runs: list[int] = []

    async def run() -> None:
        runs.append(1)

    effect = create_effect(run)
    assert runs == []
    await until(lambda: runs)
    effect.dispose()


def test_signals_alone_load_neither_asyncio_nor_reactivex() -> None:
    code = (
        "import sys, reactive_sqlite.signals\n"
        "heavy = {'asyncio', 'reactivex', 'inspect', 'sqlite3'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_async_callables_of_every_kind_are_recognised() -> None:
    runs: list[str] = []

    class Callables:
        async def method(self) -> None:
            runs.append("method")

        async def __call__(self) -> None:
            runs.append("object")

    def make() -> Callable[[], Awaitable[None]]:
        return Callables().method

    effects = [create_effect(Callables()), create_effect(make())]
    await until(lambda: len(runs) == 2)
    for effect in effects:
        effect.dispose()


async def test_the_effect_whose_own_code_runs_is_known_also_from_what_it_made() -> None:
    runs: list[object] = []

    async def run() -> None:
        runs.append(current_run())
        await asyncio.sleep(0)
        create_root(lambda _: runs.append(current_run()))
        runs.append(create_memo(current_run)())

    effect = create_effect(run)
    await until(lambda: len(runs) == 3)
    assert runs == [effect] * 3
    assert current_run() is None
    create_effect(lambda: runs.append(current_run())).dispose()
    assert runs[-1] is None
    effect.dispose()


async def test_a_change_after_a_batch_that_restored_what_it_read_makes_it_run_again() -> None:
    a, set_a = create_signal(1)
    seen: list[int] = []

    async def run() -> None:
        seen.append(a())

    effect = create_effect(run)
    await until(lambda: seen == [1])
    with batch():
        set_a(2)
        set_a(1)
    await turns()
    assert seen == [1]
    set_a(3)
    await until(lambda: seen == [1, 3])
    effect.dispose()


async def test_a_second_change_does_not_cancel_what_cleans_up_after_the_first() -> None:
    a, set_a = create_signal(1)
    seen: list[int] = []
    cleaned: list[bool] = []
    clean = asyncio.Event()

    async def run() -> None:
        seen.append(a())
        if a() == 1:
            try:
                await asyncio.Event().wait()
            finally:
                await clean.wait()
                cleaned.append(True)

    effect = create_effect(run)
    await until(lambda: seen == [1])
    for value in (2, 3):
        set_a(value)
        await turns()
    assert (seen, cleaned) == ([1], [])
    clean.set()
    await until(lambda: seen == [1, 3])
    assert cleaned == [True]
    effect.dispose()


async def test_every_run_has_the_context_in_which_the_effect_was_made() -> None:
    where: ContextVar[str] = ContextVar("where", default="nowhere")
    a, set_a = create_signal(1)
    seen: list[tuple[int, str]] = []

    async def run() -> None:
        seen.append((a(), where.get()))
        where.set("in the run")

    where.set("here")
    effect = create_effect(run)
    where.set("later")
    for value in (2, 3):
        await turns()
        set_a(value)
    await until(lambda: len(seen) == 3)
    assert seen == [(1, "here"), (2, "here"), (3, "here")]
    effect.dispose()


async def test_what_a_run_reads_no_more_is_watched_no_more() -> None:
    a, set_a = create_signal(1)
    leaf = External(0)

    async def run() -> None:
        if a() == 1:
            leaf.track()

    effect = create_effect(run)
    await until(lambda: leaf.watched)
    set_a(2)
    await until(lambda: not leaf.watched)
    effect.dispose()


async def test_what_fails_in_it_is_told_with_its_name(complaints: list[dict[str, Any]]) -> None:
    listen(complaints)

    async def run() -> None:
        on_cleanup(lambda: 1 // 0)
        raise LookupError("first")

    async def wait() -> None:
        on_cleanup(lambda: 1 // 0)
        await asyncio.Event().wait()

    failing = create_effect(run, name="one")
    waiting = create_effect(wait, name="two")
    await turns()
    waiting.dispose()
    with pytest.raises(ZeroDivisionError):
        failing.dispose()
    await until(lambda: len(complaints) == 2)
    assert [(one["message"], type(one["exception"])) for one in complaints] == [
        ("async effect one failed", LookupError),
        ("an effect's cleanup failed", ZeroDivisionError),
    ]


async def test_what_fails_together_is_told_as_a_group(complaints: list[dict[str, Any]]) -> None:
    listen(complaints)
    a, set_a = create_signal(0)

    def clean_up_twice() -> None:
        on_cleanup(lambda: 1 // 0)
        on_cleanup(lambda: next(iter(())))

    async def run() -> None:
        if a() == 1:
            raise LookupError("body")
        clean_up_twice()

    async def wait() -> None:
        clean_up_twice()
        await asyncio.Event().wait()

    async def idle() -> None:
        clean_up_twice()

    effect, waiting, idling = create_effect(run), create_effect(wait), create_effect(idle)
    await turns()
    set_a(1)
    await until(lambda: complaints)
    waiting.dispose()
    await until(lambda: len(complaints) == 2)
    with pytest.raises(ExceptionGroup, match=r"^cleanups failed$"):
        idling.dispose()
    groups = [complaint["exception"] for complaint in complaints]
    assert [group.message for group in groups] == ["an async effect failed", "cleanups failed"]
    in_order: list[type[Exception]] = [type(error) for error in groups[0].exceptions]
    assert in_order == [StopIteration, ZeroDivisionError, LookupError]
    effect.dispose()
