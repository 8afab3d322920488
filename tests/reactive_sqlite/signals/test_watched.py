"""One run of a coroutine: what it reads is followed, and what that means is left to others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from reactive_sqlite import batch, create_effect, create_memo, create_signal, on_cleanup
from reactive_sqlite.signals.external import External, publish
from reactive_sqlite.signals.state import Node
from reactive_sqlite.signals.watched import WatchedRun
from tests.reactive_sqlite.signals.background import run_in_thread
from tests.reactive_sqlite.signals.turning import turns, until


def refuse(error: BaseException) -> None:
    raise AssertionError(f"no error was expected: {error!r}")


async def test_it_tells_whether_what_it_read_has_changed_since() -> None:
    count, set_count = create_signal(1)
    other, set_other = create_signal(1)
    unread, set_unread = create_signal(1)

    async def body() -> int:
        first = count()
        await asyncio.sleep(0)
        return first + other()

    run = WatchedRun(body)
    assert await run.result() == 2
    set_unread(2)
    assert unread() == 2
    assert not run.changed()
    set_other(5)
    assert run.changed()
    run.dispose()
    set_count(3)


async def test_an_equal_memo_is_no_change_and_a_batch_that_ends_as_it_began_neither() -> None:
    count, set_count = create_signal(1)
    odd = create_memo(lambda: count() % 2 == 1)

    async def body() -> None:
        odd()

    run = WatchedRun(body)
    await run.result()
    set_count(3)
    with batch():
        set_count(4)
        set_count(5)
    assert not run.changed()
    set_count(6)
    assert run.changed()
    run.dispose()


async def test_it_is_neither_cancelled_nor_run_again_by_changes() -> None:
    count, set_count = create_signal(1)
    runs: list[int] = []

    async def body() -> None:
        runs.append(count())
        set_count(2)
        await asyncio.sleep(0.001)
        runs.append(count())

    run = WatchedRun(body)
    await asyncio.sleep(0)
    set_count(3)
    await run.result()
    await asyncio.sleep(0)
    assert runs == [1, 3]
    assert run.changed(), "what it read first was not the last value"
    run.dispose()


async def test_its_own_write_of_what_it_read_is_a_change() -> None:
    count, set_count = create_signal(1)

    async def body() -> None:
        set_count(count() + 1)

    run = WatchedRun(body)
    await run.result()
    assert run.changed()
    run.dispose()


async def test_a_change_of_another_thread_is_waited_for() -> None:
    count, set_count = create_signal(1)

    async def body() -> None:
        count()

    run = WatchedRun(body)
    await run.result()
    waiting = asyncio.create_task(run.wait_changed())
    await asyncio.sleep(0)
    assert not waiting.done()
    thread = threading.Thread(target=lambda: set_count(2))
    thread.start()
    await asyncio.wait_for(waiting, 10)
    thread.join()
    run.dispose()


async def test_what_changes_nothing_in_the_end_is_waited_past() -> None:
    count, set_count = create_signal(1)

    async def body() -> None:
        count()

    run = WatchedRun(body)
    await run.result()
    waiting = asyncio.create_task(run.wait_changed())
    await turns()
    with batch():
        set_count(2)
        set_count(1)
    await turns()
    assert not waiting.done()
    set_count(3)
    await asyncio.wait_for(waiting, 10)
    run.dispose()


async def test_many_changes_between_two_turns_of_the_loop_wake_it_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count, set_count = create_signal(1)

    async def body() -> None:
        count()

    run = WatchedRun(body)
    await run.result()
    loop = asyncio.get_running_loop()
    wakes: list[object] = []
    ask = loop.call_soon_threadsafe

    def counted(callback: Callable[..., Any], *args: Any, **options: Any) -> asyncio.Handle:
        wakes.append(callback)
        return ask(callback, *args, **options)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    for value in range(2, 100):
        set_count(value)
    assert len(wakes) == 1
    run.dispose()


def test_a_change_after_its_loop_was_closed_disturbs_no_writer() -> None:
    count, set_count = create_signal(1)

    async def body() -> None:
        count()

    async def main() -> WatchedRun[None]:
        run = WatchedRun(body)
        await run.result()
        return run

    run = asyncio.run(main())
    assert (set_count(2), set_count(3)) == (2, 3)
    assert run.changed()
    run.dispose()


async def test_disposed_by_another_thread_when_it_has_just_ended_it_complains_of_nothing() -> None:
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    cleaned: list[bool] = []

    async def body() -> None:
        on_cleanup(lambda: cleaned.append(True))
        # Before the loop gets to what follows the end of the run.
        loop.call_soon(lambda: run_in_thread(run.dispose).result())

    run = WatchedRun(body)
    await run.result()
    await until(lambda: cleaned)
    await turns()
    assert complaints == []


async def test_a_change_before_the_waiting_ends_it_at_once() -> None:
    count, set_count = create_signal(1)

    async def body() -> None:
        count()

    run = WatchedRun(body)
    await run.result()
    set_count(2)
    await asyncio.wait_for(run.wait_changed(), 10)
    run.dispose()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
async def test_what_leaves_the_body_is_raised_to_whoever_waits(
    error: type[BaseException],
) -> None:
    async def body() -> None:
        await asyncio.sleep(0)
        raise error("left")

    run = WatchedRun(body)
    with pytest.raises(error, match="left"):
        await run.result()
    run.dispose()


async def test_cancelling_the_waiting_cancels_the_body() -> None:
    ended: list[str] = []

    async def body() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    run = WatchedRun(body)
    waiting = asyncio.create_task(run.result())
    await asyncio.sleep(0.001)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == ["cleaned up"]
    run.dispose()


async def test_what_it_made_lives_until_it_is_disposed() -> None:
    count, set_count = create_signal(1)
    seen: list[int] = []

    async def body() -> None:
        create_effect(lambda: seen.append(count()))
        on_cleanup(lambda: seen.append(-1))

    run = WatchedRun(body)
    await run.result()
    set_count(2)
    run.dispose()
    set_count(3)
    assert seen == [1, 2, -1]


async def test_disposed_while_it_runs_it_is_cancelled_and_cleaned_up() -> None:
    cleaned: list[bool] = []

    async def body() -> None:
        on_cleanup(lambda: cleaned.append(True))
        await asyncio.Event().wait()

    run = WatchedRun(body)
    await asyncio.sleep(0.001)
    run.dispose()
    with pytest.raises(asyncio.CancelledError):
        await run.result()
    await asyncio.sleep(0)
    assert cleaned == [True]


async def test_a_cleanup_that_fails_after_it_was_disposed_goes_to_the_loops_handler() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    async def body() -> None:
        on_cleanup(lambda: 1 // 0)
        on_cleanup(lambda: 1 // 0)
        await asyncio.Event().wait()

    run = WatchedRun(body)
    await asyncio.sleep(0.001)
    run.dispose()
    with pytest.raises(asyncio.CancelledError):
        await run.result()
    await asyncio.sleep(0)
    [complaint] = complaints
    assert complaint["message"] == "a run's cleanup failed"
    assert isinstance(complaint["exception"], ExceptionGroup)
    assert complaint["exception"].message == "cleanups failed"


async def test_changes_that_nobody_waits_for_pass_in_silence_and_one_is_told_later() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    count, set_count = create_signal(1)

    async def body() -> None:
        count()

    run = WatchedRun(body)
    await run.result()
    for value in (2, 1):
        with batch():
            set_count(value)
        await asyncio.sleep(0)
    assert run.changed()
    run.dispose()
    assert complaints == []


async def test_an_error_of_an_effect_that_looking_for_changes_wakes_goes_to_the_excepthook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[BaseException | None] = []

    def hook(args: threading.ExceptHookArgs) -> None:
        told.append(args.exc_value)

    monkeypatch.setattr(threading, "excepthook", hook)
    count, set_count = create_signal(1)
    looked, set_looked = create_signal(1)
    odd = create_memo(lambda: set_looked(count()) % 2 == 1)

    async def body() -> None:
        odd()

    run = WatchedRun(body)
    await run.result()
    effect = create_effect(lambda: 1 // (looked() - 3))
    set_count(3)
    assert not run.changed()
    assert [type(error) for error in told] == [ZeroDivisionError]
    effect.dispose()
    run.dispose()


async def test_what_a_memo_writes_while_one_looks_for_changes_wakes_effects() -> None:
    count, set_count = create_signal(1)
    looked, set_looked = create_signal(0)

    def odd_noting() -> bool:
        set_looked(count())
        return count() % 2 == 1

    odd = create_memo(odd_noting)

    async def body() -> None:
        odd()

    run = WatchedRun(body)
    await run.result()
    seen: list[int] = []
    effect = create_effect(lambda: seen.append(looked()))
    set_count(3)
    assert not run.changed()
    assert seen == [1, 3]

    # What others publish and have not delivered is theirs to deliver, before as after.
    leaf = External(0)
    followed: list[int] = []

    def follow() -> None:
        leaf.track()
        followed.append(leaf.value)

    following = create_effect(follow)
    publish([(leaf, 1)], refuse)
    assert create_memo(lambda: count())() == 3
    assert not run.changed()
    assert followed == [0]
    set_looked(0)
    assert followed == [0, 1]
    following.dispose()
    effect.dispose()
    run.dispose()


async def test_a_read_in_the_midst_of_another_threads_batch_counts_as_a_change() -> None:
    get, put = create_signal(0)
    begun, end = threading.Event(), threading.Event()

    def write() -> None:
        with batch():
            put(1)
            begun.set()
            end.wait(10)
            put(0)

    writer = threading.Thread(target=write)

    class Slow(WatchedRun[None]):
        """One that loses the processor between noting a read and reading."""

        __slots__ = ()

        def _record(self, node: Node) -> None:
            super()._record(node)
            writer.start()
            assert begun.wait(10)

    seen: list[int] = []

    async def body() -> None:
        seen.append(get())
        end.set()
        writer.join()

    run = Slow(body)
    await run.result()
    assert seen == [1]
    assert run.changed(), "it was given back the value that it had when the read was noted"
    run.dispose()
