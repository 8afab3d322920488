"""Async effects amid what other threads and other code on their loop do: whose change it was."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest

from reactive_sqlite import (
    batch,
    create_effect,
    create_memo,
    create_signal,
    get_owner,
    on_cleanup,
)
from reactive_sqlite.signals.async_effect import AsyncEffect
from reactive_sqlite.signals.external import External, Run, current_run, flush, publish
from reactive_sqlite.signals.signal import Signal
from reactive_sqlite.signals.state import MISSING, Node
from tests.reactive_sqlite.signals.background import run_in_thread
from tests.reactive_sqlite.signals.finalizing import Finalizing
from tests.reactive_sqlite.signals.turning import turns, until

WAIT = 10.0


def refuse(error: BaseException) -> None:
    raise AssertionError(f"no error was expected: {error!r}")


def announce(leaf: External[int], value: int, by: Run | None = None) -> None:
    """Publish a value and run the effects behind it."""
    publish([(leaf, value)], refuse, by)
    flush(refuse, by)


class Told:
    """What a run says of itself: that it begins, was cancelled, has ended, each with a value."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    async def around(self, value: int, body: Callable[[], Awaitable[object]]) -> None:
        """Say what becomes of `body`."""
        self.seen.append(("in", value))
        try:
            await body()
        except asyncio.CancelledError:
            self.seen.append(("cancelled", value))
            raise
        self.seen.append(("done", value))


async def test_what_another_thread_publishes_on_its_behalf_does_not_cancel_it() -> None:
    leaf: External[int] = External(0)
    told = Told()

    async def run() -> None:
        leaf.track()
        value, me = leaf.value, current_run()

        async def body() -> None:
            if value == 0:
                await asyncio.to_thread(announce, leaf, 1, me)
                await turns()

        await told.around(value, body)

    effect = create_effect(run)
    await until(lambda: ("done", 1) in told.seen)
    assert told.seen == [("in", 0), ("done", 0), ("in", 1), ("done", 1)]
    effect.dispose()


async def test_what_effects_write_in_turn_on_another_thread_does_not_cancel_it_either() -> None:
    leaf: External[int] = External(0)
    copy, set_copy = create_signal(0)
    told = Told()

    def relay() -> None:
        leaf.track()
        set_copy(leaf.value)

    relaying = create_effect(relay)

    async def run() -> None:
        value, me = copy(), current_run()

        async def body() -> None:
            if value == 0:
                await asyncio.to_thread(announce, leaf, 1, me)
                await turns()

        await told.around(value, body)

    effect = create_effect(run)
    await until(lambda: ("done", 1) in told.seen)
    assert told.seen == [("in", 0), ("done", 0), ("in", 1), ("done", 1)]
    effect.dispose()
    relaying.dispose()


@pytest.mark.parametrize("way", ["set", "set and wake", "publish", "read and set"])
async def test_a_change_from_elsewhere_cancels_it_also_after_something_it_wrote_itself(
    way: str,
) -> None:
    a, set_a = create_signal(0)
    other, set_other = create_signal(0)
    leaf: External[int] = External(0)
    follower = create_effect(lambda: other() if way == "set and wake" else leaf.track())
    told = Told()
    loop, pool = asyncio.get_running_loop(), ThreadPoolExecutor(1)

    async def run() -> None:
        value, me = a(), current_run()
        if way == "read and set":
            other()

        async def body() -> None:
            if value:
                return
            if way == "publish":
                await loop.run_in_executor(pool, announce, leaf, 1, me)
            else:
                set_other(1)
            await asyncio.Event().wait()

        await told.around(value, body)

    effect = create_effect(run)
    await until(lambda: told.seen and (leaf.value or other.peek()))
    await turns()
    if way == "publish":
        await loop.run_in_executor(pool, set_a, 1)  # by the very thread that has worked for it
    else:
        set_a(1)
    await until(lambda: ("done", 1) in told.seen)
    assert told.seen == [("in", 0), ("cancelled", 0), ("in", 1), ("done", 1)]
    effect.dispose()
    follower.dispose()
    pool.shutdown()


async def test_a_publication_from_elsewhere_cancels_it_though_its_own_follows() -> None:
    leaf: External[int] = External(0)
    told = Told()

    async def run() -> None:
        leaf.track()
        value, me = leaf.value, current_run()

        def publish_both() -> None:
            publish([(leaf, 1)], refuse)
            announce(leaf, 2, me)

        async def body() -> None:
            if value == 0:
                await asyncio.to_thread(publish_both)
                await asyncio.Event().wait()

        await told.around(value, body)

    effect = create_effect(run)
    await until(lambda: ("done", 2) in told.seen)
    assert told.seen == [("in", 0), ("cancelled", 0), ("in", 2), ("done", 2)]
    effect.dispose()


@pytest.mark.parametrize("when", ["before the step", "in the step"])
async def test_a_publication_that_its_own_step_delivers_is_still_from_elsewhere(when: str) -> None:
    leaf: External[int] = External(0)
    go = asyncio.Event()
    told = Told()

    def change() -> None:
        run_in_thread(lambda: publish([(leaf, 1)], refuse)).result()

    async def run() -> None:
        leaf.track()
        value = leaf.value

        async def body() -> None:
            await go.wait()
            if value == 0:
                if when == "in the step":
                    change()
                await asyncio.Event().wait()

        await told.around(value, body)

    effect = create_effect(run)
    await until(lambda: told.seen)
    if when == "before the step":
        change()
    go.set()
    await until(lambda: ("done", 1) in told.seen)
    assert told.seen == [("in", 0), ("cancelled", 0), ("in", 1), ("done", 1)]
    effect.dispose()


async def test_what_puts_back_a_value_elsewhere_does_not_cancel_it_after_its_own_write() -> None:
    a, set_a = create_signal(0)
    b, set_b = create_signal(0)
    go = asyncio.Event()
    told = Told()

    async def run() -> None:
        value = a(), b()

        async def body() -> None:
            if value == (0, 0):
                set_a(1)
            await go.wait()

        await told.around(value[0], body)

    effect = create_effect(run)
    await until(lambda: a.peek())
    with batch():
        set_b(1)
        set_b(0)
    await turns()
    go.set()
    await until(lambda: ("done", 1) in told.seen)
    assert told.seen == [("in", 0), ("done", 0), ("in", 1), ("done", 1)]
    effect.dispose()


async def test_its_own_write_after_an_undelivered_one_from_elsewhere_makes_that_not_its_own() -> (
    None
):
    a, set_a = create_signal(0)
    z, set_z = create_signal(0)
    inside, go = threading.Event(), threading.Event()
    told = Told()

    def block() -> None:
        if z():
            inside.set()
            assert go.wait(WAIT)

    blocker = create_effect(block)

    async def run() -> None:
        value = a()

        async def body() -> None:
            if value == 0:
                run_in_thread(lambda: set_z(1))
                await asyncio.to_thread(inside.wait, WAIT)
                await asyncio.to_thread(set_a, 1)
                set_a(2)
                go.set()
                await asyncio.Event().wait()

        await told.around(value, body)

    effect = create_effect(run)
    await until(lambda: ("done", 2) in told.seen)
    assert told.seen == [("in", 0), ("cancelled", 0), ("in", 2), ("done", 2)]
    effect.dispose()
    blocker.dispose()


async def test_many_changes_between_two_turns_of_the_loop_wake_it_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []

    async def run() -> None:
        seen.append(a())

    effect = create_effect(run)
    await until(lambda: seen)
    await turns()
    loop = asyncio.get_running_loop()
    wakes: list[object] = []
    ask = loop.call_soon_threadsafe

    def counted(callback: Callable[..., Any], *args: Any, **options: Any) -> asyncio.Handle:
        wakes.append(callback)
        return ask(callback, *args, **options)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    for value in range(1, 101):
        set_a(value)
    assert len(wakes) == 1
    await until(lambda: seen == [0, 100])
    set_a(101)
    await until(lambda: seen == [0, 100, 101])
    assert len(wakes) == 2
    effect.dispose()


async def test_a_write_elsewhere_during_its_step_is_no_change_of_what_it_has_read() -> None:
    a, set_a = create_signal(0)
    other, set_other = create_signal(0)
    seen: list[int] = []

    async def run() -> None:
        seen.append(a())
        run_in_thread(lambda: set_other(1)).result()

    set_a(1)
    effect = create_effect(run)
    await until(lambda: seen)
    await turns()
    assert (seen, other()) == ([1], 1)
    effect.dispose()


@pytest.mark.parametrize("wrote_between", [True, False])
async def test_a_batch_that_restores_what_it_read_does_not_cancel_it(wrote_between: bool) -> None:
    a, set_a = create_signal(0)
    odd = create_memo(lambda: a() % 2)
    _, set_other = create_signal(0)
    seen: list[int] = []

    async def run() -> None:
        set_a(1)
        seen.append(a())
        odd()
        await asyncio.Event().wait()

    effect = create_effect(run)
    await until(lambda: seen)
    if wrote_between:
        set_other(1)
    with batch():
        set_a(2)
        odd()
        set_a(1)
    await turns()
    assert seen == [1]
    effect.dispose()


async def test_a_memo_that_changes_just_before_it_subscribes_is_followed() -> None:
    a, set_a = create_signal(1)
    double = create_memo(lambda: a() * 2)
    writes: list[Callable[[], object]] = [lambda: set_a(2)]
    seen: list[int] = []

    class Interrupted(AsyncEffect):
        """One that loses the processor between bringing a memo up to date and subscribing."""

        __slots__ = ()

        def _record(self, node: Node) -> None:
            if writes:
                run_in_thread(writes.pop()).result()
            super()._record(node)

    async def run() -> None:
        seen.append(double())

    effect = Interrupted(run, MISSING, None)
    await until(lambda: seen)
    await turns()
    assert seen[-1] == 4
    set_a(3)
    await until(lambda: seen[-1] == 6)
    effect.dispose()


async def test_disposed_in_the_middle_of_marking_it_ends_after_it() -> None:
    a, set_a = create_signal(0)
    seen: list[int] = []
    after: list[int] = []

    async def run() -> None:
        on_cleanup(lambda: seen.append(-1))
        seen.append(a())

    effect = create_effect(run)
    await until(lambda: seen)
    await turns()
    assert isinstance(a, Signal)
    a.subs[Finalizing(effect.dispose)] = None
    follower = create_effect(lambda: after.append(a()))
    set_a(1)
    assert after == [0, 1], "those after it have been told"
    await turns()
    set_a(2)
    await turns()
    assert seen == [0, -1]
    follower.dispose()


async def test_what_its_own_write_finalizes_ends_after_the_marking() -> None:
    a, set_a = create_signal(0)
    doomed = create_effect(lambda: a())
    after: list[int] = []
    assert isinstance(a, Signal)
    a.subs[Finalizing(doomed.dispose)] = None
    follower = create_effect(lambda: after.append(a()))

    async def run() -> None:
        set_a(1)

    effect = create_effect(run)
    await until(lambda: after == [0, 1])
    await turns()
    assert repr(doomed).endswith(", disposed>")
    effect.dispose()
    follower.dispose()


async def test_disposed_by_another_thread_when_its_run_has_just_ended_it_complains_of_nothing() -> (
    None
):
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    cleaned: list[bool] = []

    async def run() -> None:
        on_cleanup(lambda: cleaned.append(True))
        # Before the loop gets to what follows the end of the run.
        loop.call_soon(lambda: run_in_thread(effect.dispose).result())

    effect = create_effect(run)
    await until(lambda: cleaned)
    await turns()
    assert complaints == []


def test_disposed_while_its_loop_stands_still_it_is_cancelled_when_that_goes_on() -> None:
    told = Told()

    async def start() -> AsyncEffect:
        async def run() -> None:
            await told.around(0, asyncio.Event().wait)

        effect = create_effect(run)
        await until(lambda: told.seen)
        assert isinstance(effect, AsyncEffect)
        return effect

    with asyncio.Runner() as runner:
        runner.run(start()).dispose()
        runner.run(turns())
        assert told.seen == [("in", 0), ("cancelled", 0)]


def test_a_step_inside_a_batch_reads_owns_and_goes_on_as_any_other() -> None:
    a, set_a = create_signal(0)
    inner: list[int] = []
    seen: list[int] = []
    owned: list[bool] = []

    async def start() -> AsyncEffect:
        async def run() -> None:
            seen.append(a())
            with pytest.raises(TimeoutError):  # asyncio throws into the step
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()
            owned.append(get_owner() is effect)
            create_effect(lambda: inner.append(a.peek()))

        effect = create_effect(run)
        assert isinstance(effect, AsyncEffect)
        return effect

    with asyncio.Runner() as runner:
        with batch():
            effect = runner.run(start())
            runner.run(turns())
        assert (seen, owned) == ([0], [True])
        set_a(1)
        runner.run(turns())
        assert (seen, owned, inner) == ([0, 1], [True, True], [0, 1])
        effect.dispose()


@pytest.mark.parametrize("inside", [True, False])
def test_what_a_step_read_in_the_midst_of_another_threads_batch_makes_it_run_again(
    inside: bool,
) -> None:
    get, put = create_signal(0)
    begun, end = threading.Event(), threading.Event()
    seen: list[int] = []

    def write() -> None:
        with batch():
            put(1)
            begun.set()
            end.wait(WAIT)
            put(0)

    writer = threading.Thread(target=write)

    class Slow(AsyncEffect):
        """One that loses the processor between noting its first read and reading."""

        __slots__ = ()

        def _record(self, node: Node) -> None:
            super()._record(node)
            if not seen:
                writer.start()
                assert begun.wait(WAIT)

    async def run() -> None:
        seen.append(get())
        end.set()
        writer.join()

    async def start() -> AsyncEffect:
        return Slow(run, MISSING, None)

    with asyncio.Runner() as runner:
        with batch() if inside else nullcontext():
            effect = runner.run(start())
            runner.run(until(lambda: seen))
        runner.run(until(lambda: len(seen) == 2))
        assert seen == [1, 0], "it was given back the value that it had when the read was noted"
        effect.dispose()
