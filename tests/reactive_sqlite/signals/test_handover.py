"""Who runs the effects that other threads cause: a deliverer serves them, but not for ever."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable

import pytest

from reactive_sqlite import batch, create_effect, create_memo, create_signal
from reactive_sqlite.signals import scheduler
from reactive_sqlite.signals.external import External, flush, publish
from reactive_sqlite.signals.graph import TRIES
from reactive_sqlite.signals.state import STATE
from tests.reactive_sqlite.signals.background import Background, run_in_thread

WAIT = 10.0
SOON = 5.0  # less than PATIENCE, for which the threads of these tests wait in real time
PATIENCE = 10.0
LOOP_PATIENCE = 1.0
HELP_AFTER = 100.0


class Service:
    """An effect that stops at every value until it may go on, and the thread that delivers it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(scheduler, "monotonic", lambda: self.now)
        monkeypatch.setattr(scheduler, "PATIENCE", PATIENCE)
        monkeypatch.setattr(scheduler, "LOOP_PATIENCE", LOOP_PATIENCE)
        monkeypatch.setattr(scheduler, "HELP_AFTER", HELP_AFTER)
        self.get, self.put = create_signal(0)
        self.inside: dict[int, threading.Event] = defaultdict(threading.Event)
        self.go: dict[int, threading.Event] = defaultdict(threading.Event)
        self.threads: dict[int, threading.Thread] = {}
        self.effect = create_effect(self._run)

    def start(self, *, on_loop: bool = False) -> Background[int]:
        """Have a thread deliver value 1, its own; it stops there."""

        async def write() -> int:
            return self.put(1)

        started = run_in_thread(lambda: asyncio.run(write()) if on_loop else self.put(1))
        self.stands_at(1)
        return started

    def elsewhere(self, value: int) -> None:
        """Have another thread write a value, for which it does not wait."""
        run_in_thread(lambda: self.put(value)).result(SOON)

    def on_to(self, value: int, *, at: float, after: int | None = None) -> None:
        """Let it go on to a value that is due, at that time."""
        self.now = at
        self.go[value - 1 if after is None else after].set()
        self.stands_at(value)

    def stands_at(self, value: int) -> None:
        assert self.inside[value].wait(WAIT)

    def end(self, value: int) -> None:
        self.go[value].set()

    def _run(self) -> None:
        value = self.get()
        if value:
            self.threads[value] = threading.current_thread()
            self.inside[value].set()
            assert self.go[value].wait(WAIT)
        if value < 0:
            raise LookupError(f"at {value}")


@pytest.fixture
def excepthook(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []

    def hook(args: threading.ExceptHookArgs) -> None:
        assert args.exc_type is type(args.exc_value)
        told.append(str(args.exc_value))

    monkeypatch.setattr(threading, "excepthook", hook)
    return told


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    return Service(monkeypatch)


def relieved(service: Service) -> Background[int]:
    """A thread that has served others for as long as is fair, and is about to deliver value 3."""
    first = service.start()
    service.elsewhere(2)
    service.on_to(2, at=0.0)
    service.elsewhere(3)
    service.on_to(3, at=PATIENCE + 1)
    return first


def takers(count: int) -> None:
    """Wait until so many threads are waiting to take over."""
    pause = threading.Event()
    for _ in range(2000):
        if STATE.takers == count:
            return
        pause.wait(0.001)
    raise AssertionError(f"{STATE.takers} of {count} threads want to take over")


def test_it_serves_others_until_its_time_is_over_and_longer_when_nobody_takes_over(
    service: Service,
) -> None:
    first = service.start()
    service.elsewhere(2)
    service.on_to(2, at=0.0)
    service.elsewhere(3)
    service.on_to(3, at=PATIENCE)
    service.elsewhere(4)  # not yet longer than is fair: this writer does not wait
    service.on_to(4, at=PATIENCE + HELP_AFTER - 1)
    service.end(4)
    assert first.result() == 1
    assert {service.threads[value] for value in (1, 2, 3, 4)} == {first.thread}
    service.effect.dispose()


@pytest.mark.parametrize("way", ["set", "batch", "flush"])
def test_a_thread_that_writes_takes_over_from_one_that_has_served_for_long(
    service: Service, excepthook: list[str], way: str
) -> None:
    leaf: External[int] = External(0)
    told: list[BaseException] = []

    def write() -> None:
        if way == "set":
            service.put(-4)
        elif way == "batch":
            with batch():
                service.put(-4)
        else:
            publish([(leaf, -4)], told.append)
            flush(told.append)

    def relay() -> None:
        leaf.track()
        if leaf.value:
            service.put(leaf.value)

    relaying = create_effect(relay)
    first = relieved(service)
    second = run_in_thread(write)
    takers(1)
    service.end(3)
    first.result(SOON)
    service.stands_at(-4)
    service.end(-4)
    second.result(SOON)
    assert [str(error) for error in told] == (["at -4"] if way == "flush" else [])
    assert excepthook == ([] if way == "flush" else ["at -4"]), "what is handed over is nobody's"
    assert service.threads[3] is first.thread
    assert service.threads[-4] is second.thread
    assert STATE.takers == 0
    service.effect.dispose()
    relaying.dispose()


def test_of_several_that_would_take_over_one_does(service: Service) -> None:
    first = relieved(service)
    others = [run_in_thread(lambda: service.put(4)), run_in_thread(lambda: service.put(5))]
    takers(2)
    service.end(4)
    service.end(5)
    service.end(3)
    for thread in (first, *others):
        thread.result(SOON)
    last = service.get.peek()
    assert service.threads[last] in [other.thread for other in others]
    assert STATE.takers == 0
    service.effect.dispose()


def test_who_would_take_over_waits_only_for_a_moment(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = relieved(service)
    monkeypatch.setattr(scheduler, "PATIENCE", 0.01)
    service.elsewhere(4)  # the effect at 3 might be waiting for that very thread
    assert 4 not in service.threads
    service.on_to(4, at=PATIENCE + 1)
    service.end(4)
    first.result()
    assert service.threads[4] is first.thread
    service.effect.dispose()


def test_a_thread_with_an_event_loop_does_not_wait_to_take_over(service: Service) -> None:
    first = relieved(service)

    async def write() -> None:
        service.put(4)

    run_in_thread(lambda: asyncio.run(write())).result(SOON)
    service.on_to(4, at=PATIENCE + 1)
    service.end(4)
    first.result()
    assert service.threads[4] is first.thread
    service.effect.dispose()


@pytest.mark.parametrize("at", [LOOP_PATIENCE, LOOP_PATIENCE + 1])
def test_a_thread_with_an_event_loop_serves_others_for_less_and_then_has_a_thread_made(
    service: Service, at: float
) -> None:
    first = service.start(on_loop=True)
    service.elsewhere(2)
    service.on_to(2, at=0.0)
    service.elsewhere(3)
    service.on_to(3, at=at)
    if at > LOOP_PATIENCE:
        assert first.result(SOON) == 1, "though value 3 is still being delivered"
        assert service.threads[3].name == "reactive_sqlite delivery"
        assert service.threads[3].daemon, "it does not keep the process alive"
        service.end(3)
        service.threads[3].join(WAIT)
    else:
        service.end(3)
        first.result()
        assert service.threads[3] is first.thread
    service.effect.dispose()


def test_a_thread_is_made_for_what_nobody_takes_over_and_serves_to_the_end(
    service: Service, excepthook: list[str]
) -> None:
    first = service.start()
    service.elsewhere(2)
    service.on_to(2, at=0.0)
    service.elsewhere(3)
    service.on_to(3, at=PATIENCE + HELP_AFTER)
    assert first.result(SOON) == 1, "though value 3 is still being delivered"
    helper = service.threads[3]
    assert helper.name == "reactive_sqlite delivery"
    assert helper.daemon, "it does not keep the process alive"
    service.elsewhere(-4)
    service.on_to(-4, at=10 * HELP_AFTER, after=3)
    service.end(-4)
    helper.join(WAIT)
    assert service.threads[-4] is helper
    assert excepthook == ["at -4"]
    service.effect.dispose()


def test_the_deliverer_goes_on_where_no_thread_can_be_made(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = service.start()
    service.elsewhere(2)
    service.on_to(2, at=0.0)
    service.elsewhere(3)

    class Refused(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as context:
        context.setattr(threading, "Thread", Refused)
        service.on_to(3, at=PATIENCE + HELP_AFTER)
    service.end(3)
    first.result()
    assert service.threads[3] is first.thread
    service.effect.dispose()


@pytest.mark.parametrize("way", ["set", "batch"])
def test_what_is_written_while_another_thread_delivers_is_delivered_there(
    service: Service, way: str
) -> None:
    other, set_other = create_signal(0)
    threads: list[threading.Thread] = []

    def follow() -> None:
        other()
        threads.append(threading.current_thread())

    follower = create_effect(follow)
    first = service.start()

    def write() -> None:
        if way == "set":
            set_other(1)
        else:
            with batch():
                set_other(1)

    run_in_thread(write).result(SOON)
    assert len(threads) == 1
    service.end(1)
    first.result()
    assert threads[1:] == [first.thread]
    service.effect.dispose()
    follower.dispose()


@pytest.mark.parametrize(("tries", "pause"), [(1, 0.05), (2, 0.1), (3, 0.2), (5, 0.8), (6, 1.0)])
def test_a_writer_stands_back_the_longer_the_more_often_a_memo_has_failed_but_a_second_at_most(
    monkeypatch: pytest.MonkeyPatch, tries: int, pause: float
) -> None:
    waits: list[tuple[bool, float | None]] = []

    def wait_for(condition: Callable[[], bool], timeout: float | None = None) -> bool:
        waits.append((condition(), timeout))
        return True

    monkeypatch.setattr(STATE.condition, "wait_for", wait_for)
    monkeypatch.setattr(STATE, "starving", tries)
    scheduler.stand_back()
    [(done, waited)] = waits
    assert not done
    assert waited == pytest.approx(pause)
    with batch():
        scheduler.stand_back()

    async def on_a_loop() -> None:
        scheduler.stand_back()

    asyncio.run(on_a_loop())
    assert len(waits) == 1, "in no batch and on no event loop's thread"


def test_a_writer_stands_back_until_the_memo_that_it_kept_spoiling_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduler, "PATIENCE", PATIENCE)
    monkeypatch.setattr(scheduler, "LONGEST_PAUSE", PATIENCE)
    get, put = create_signal(0)
    inside, go = threading.Semaphore(0), threading.Semaphore(0)

    def slow() -> tuple[int, int]:
        first = get()
        inside.release()
        assert go.acquire(timeout=WAIT)
        return first, get()

    reader = run_in_thread(create_memo(slow))
    for value in range(1, TRIES + 2):
        assert inside.acquire(timeout=WAIT)
        run_in_thread(lambda value=value: put(value)).result(SOON)  # type: ignore[misc]
        go.release()
    assert inside.acquire(timeout=WAIT)
    writer = run_in_thread(lambda: put(9))
    while get.peek() != 9:
        writer.thread.join(0.001)
    go.release()
    assert inside.acquire(timeout=WAIT)
    writer.thread.join(0.05)
    assert writer.thread.is_alive()
    go.release()
    assert reader.result() == (9, 9)
    assert writer.result(SOON) == 9
