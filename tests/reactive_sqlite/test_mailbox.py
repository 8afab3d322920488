"""The way back from a worker to the event loop that waits."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import resource
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from operator import add
from pathlib import Path

import pytest

from reactive_sqlite.aio import AsyncDatabase
from reactive_sqlite.mailbox import mailbox
from reactive_sqlite.worker import Worker, post
from tests.recorder import Recorder

uvloop = pytest.importorskip("uvloop", reason="uvloop does not exist for Windows")
Loops = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker("answers")
    yield worker
    worker.close()


@pytest.fixture(params=[asyncio.SelectorEventLoop, uvloop.new_event_loop])
def loops(request: pytest.FixtureRequest) -> Loops:
    return request.param  # type: ignore[no-any-return]


def ended(name: str) -> None:
    """Wait for the threads of workers that were closed."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(20)
            assert not thread.is_alive()


def test_an_answer_comes_after_all_that_the_job_left_for_the_loop(
    worker: Worker, loops: Loops
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in range(1, 200):
            seen: list[int] = []

            def job(seen: list[int] = seen, number: int = number) -> None:
                for _ in range(number % 3):
                    post(loop, seen.append, number)

            await worker.run(job)
            assert seen == [number] * (number % 3)

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(main())


def test_an_observer_is_told_before_its_write_returns(tmp_path: Path, loops: Loops) -> None:
    async def main() -> None:
        async with AsyncDatabase(tmp_path / "told.db") as db:
            await db.execute("CREATE TABLE t (v)")
            seen = Recorder[int]()
            db.observe_value("SELECT count(*) FROM t").subscribe(seen)
            for number in range(1, 100):
                await db.execute("INSERT INTO t VALUES (1)")
                assert seen.last == number

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(main())


def test_every_one_of_many_tasks_is_answered(worker: Worker, loops: Loops) -> None:
    def halved(number: int) -> int:
        if number % 2:
            raise ValueError(number)
        return number // 2

    async def main() -> None:
        calls = (worker.run(halved, number) for number in range(2_000))
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert found[::2] == list(range(1_000))
        assert all(isinstance(error, ValueError) for error in found[1::2])

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(main())


def test_one_worker_answers_several_loops_at_once(worker: Worker, loops: Loops) -> None:
    found: list[list[int]] = []

    async def main(base: int) -> None:
        found.append([await worker.run(add, base, number) for number in range(300)])

    def loop(base: int) -> None:
        # With debug, a future that is answered on another thread than its loop's is an error.
        with asyncio.Runner(loop_factory=loops, debug=True) as runner:
            runner.run(main(base))

    threads = [threading.Thread(target=loop, args=(base,)) for base in (0, 1_000, 2_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [list(range(base, base + 300)) for base in (0, 1_000, 2_000)]


@pytest.mark.skipif(sys.platform != "linux", reason="counts /proc's descriptors")
def test_a_loop_that_ends_leaves_no_descriptor(worker: Worker, loops: Loops) -> None:
    async def main() -> None:
        await worker.run(int)

    def after_loops(count: int) -> int:
        for _ in range(count):
            with asyncio.Runner(loop_factory=loops) as runner:
                runner.run(main())
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    assert after_loops(10) == after_loops(2)


@pytest.mark.skipif(sys.platform != "linux", reason="counts /proc's descriptors")
def test_a_loop_that_ends_leaves_no_descriptor_to_the_collector(loops: Loops) -> None:
    async def main() -> None:
        cycle: list[object] = [asyncio.get_running_loop()]
        cycle.append(cycle)
        worker = Worker("of one loop")
        await worker.run(int)
        worker.close()

    def after_loops(count: int) -> int:
        for _ in range(count):
            with asyncio.Runner(loop_factory=loops) as runner:
                runner.run(main())
        ended("of one loop")
        return len(os.listdir("/proc/self/fd"))

    first = after_loops(1)
    gc.disable()  # in a large process it comes seldom
    try:
        assert after_loops(10) == first
    finally:
        gc.enable()


@pytest.mark.skipif(sys.platform != "linux", reason="counts /proc's descriptors")
def test_a_loop_that_ends_before_it_is_answered_leaves_no_descriptor(loops: Loops) -> None:
    def after_loops(count: int) -> int:
        for _ in range(count):
            worker, begun, may_answer = Worker("slow"), threading.Event(), threading.Event()

            def job(begun: threading.Event = begun, wait: threading.Event = may_answer) -> None:
                begun.set()
                wait.wait(20)

            async def main(worker: Worker = worker, begun: threading.Event = begun) -> None:
                asking = asyncio.create_task(worker.run(job))
                await asyncio.to_thread(begun.wait, 20)
                assert not asking.done()

            with asyncio.Runner(loop_factory=loops) as runner:
                runner.run(main())
            may_answer.set()
            worker.close()
            ended("slow")
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    assert after_loops(10) == after_loops(2)


@pytest.mark.skipif(sys.platform != "linux", reason="only there does it take a descriptor")
def test_without_a_descriptor_left_it_is_answered_all_the_same(worker: Worker) -> None:
    async def main() -> int:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            return await worker.run(add, 1, 2)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert asyncio.run(main()) == 3


def test_the_context_of_the_first_caller_is_not_kept(worker: Worker) -> None:
    class Request: ...

    request: contextvars.ContextVar[Request] = contextvars.ContextVar("request")

    async def first() -> weakref.ref[Request]:
        asked = Request()
        request.set(asked)
        await worker.run(int)
        return weakref.ref(asked)

    async def main() -> None:
        asked = await asyncio.create_task(first())
        await worker.run(int)  # the worker lets go of the job before
        gc.collect()
        assert asked() is None

    asyncio.run(main())


def test_an_answer_to_a_loop_that_has_ended_is_nobodys(worker: Worker, loops: Loops) -> None:
    may_answer = threading.Event()

    async def main() -> None:
        asyncio.get_running_loop().create_task(worker.run(may_answer.wait))
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(main())
    may_answer.set()
    with asyncio.Runner(loop_factory=loops) as runner:
        assert runner.run(worker.run(lambda: "next")) == "next"


@pytest.mark.skipif(sys.platform != "linux", reason="only there is one better than the loop's own")
def test_there_is_one_for_each_of_asyncios_own_loops_and_for_no_other() -> None:
    async def boxes() -> bool:
        loop = asyncio.get_running_loop()
        assert mailbox(loop) is mailbox(loop)
        return mailbox(loop) is not None

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        assert runner.run(boxes())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert not runner.run(boxes())
