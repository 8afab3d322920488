"""Eight threads at once against a model: no lost update, no mixed value, no deadlock."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from reactive_sqlite import (
    Accessor,
    Effect,
    batch,
    create_effect,
    create_memo,
    create_signal,
    on_cleanup,
)
from reactive_sqlite.signals.external import External, flush, publish
from reactive_sqlite.signals.state import STATE
from tests.reactive_sqlite.signals.background import run_in_thread

THREADS = 8
COUNTERS = 6
ROUND = 2.0  # seconds


@pytest.fixture(autouse=True)
def busy_switching(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Switch threads as often as possible, so that every window is hit."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


class Round:
    """A fresh graph, threads that work on it, and what it must look like afterwards."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.faults: list[str] = []
        self.seen: dict[str, object] = {}
        self.runs = 0
        self.effects: list[Effect] = []
        pairs = [create_signal(0) for _ in range(COUNTERS)]
        self.get, self.put = [get for get, _ in pairs], [put for _, put in pairs]
        self.added = [[0] * COUNTERS for _ in range(THREADS)]
        self.left, self.set_left = create_signal(0)
        self.right, self.set_right = create_signal(0)
        self.leaves = (External(0), External(0))
        self.out, self.set_out = create_signal(0)
        self.doubles = [self._double(get) for get in self.get]
        low, high = (self._plus(offset) for offset in (1, 2))
        self.memos = {
            "diamond": create_memo(lambda: self._same("diamond", high() - low(), 1) + 2 * low()),
            "leaves": create_memo(self._read_leaves),
            "dynamic": create_memo(lambda: self.doubles[self.get[1]() % COUNTERS]()),
            "all": create_memo(lambda: sum(double() for double in self.doubles)),
        }
        self.memos["out"] = create_memo(lambda: self.out() + 1)
        for name, memo in self.memos.items():
            self._watch(name, memo)
        for i, double in enumerate(self.doubles):
            self._watch(f"double {i}", double)
        self.effects.append(create_effect(lambda: self.set_out(self.memos["all"]())))
        self._watch("pair", lambda: (self.left(), self.right()))

    def work(self, thread: int, end: float) -> None:
        """Do random things until the time is over."""
        rnd = random.Random(self.seed * 100 + thread)
        step = 0
        while time.monotonic() < end:
            step += 1
            choice = rnd.random()
            if thread == 0 and choice < 0.2:
                with batch():
                    self.set_left(step)
                    self.set_right(step)
            elif thread == 1 and choice < 0.2:
                publish([(leaf, step) for leaf in self.leaves], self._report)
                flush(self._report)
            elif choice < 0.4:
                self._add(thread, rnd.randrange(COUNTERS))
            elif choice < 0.5:
                with batch():
                    for i in range(COUNTERS):
                        self._add(thread, i)
            elif choice < 0.85:
                rnd.choice([*self.memos.values(), *self.doubles])()
            elif choice < 0.93:
                self._make_and_dispose(thread, rnd)
            else:
                passing = self._sum([rnd.choice(self.doubles) for _ in range(3)])
                passing()
                passing()

    def check(self) -> None:
        """Compare what readers and effects have with what was written."""
        totals = [sum(added[i] for added in self.added) for i in range(COUNTERS)]
        assert [get() for get in self.get] == totals, "no update is lost"
        wanted: dict[str, object] = {
            "diamond": 2 * totals[0] + 3,
            "leaves": self.leaves[0].value,
            "dynamic": 2 * totals[totals[1] % COUNTERS],
            "all": 2 * sum(totals),
            "out": 2 * sum(totals) + 1,
        }
        for name, memo in self.memos.items():
            assert memo() == wanted[name], name
        wanted["pair"] = self.left(), self.right()
        wanted |= {f"double {i}": 2 * total for i, total in enumerate(totals)}
        assert self.seen == wanted, "every effect's last run saw the last state"
        before = self.runs
        for effect in self.effects:
            effect.dispose()
        for put in self.put:
            put(lambda value: value + 1)
        assert self.runs == before, "nothing runs after its disposal"
        assert not any(leaf.watched for leaf in self.leaves)
        left = {
            name: value
            for name in ("held", "nested", "others", "queue", "inbox", "pending", "nesting")
            if (value := getattr(STATE, name))
        }
        assert not left, "no trace of what the threads did is left"
        assert not (STATE.deliverer or STATE.waiting or STATE.rings or STATE.flips)

    def _double(self, get: Accessor[int]) -> Accessor[int]:
        return create_memo(lambda: get() * 2)

    def _plus(self, offset: int) -> Accessor[int]:
        return create_memo(lambda: self.get[0]() + offset)

    def _sum(self, some: list[Accessor[int]]) -> Accessor[int]:
        return create_memo(lambda: sum(double() for double in some))

    def _read_leaves(self) -> int:
        values: list[int] = []
        for leaf in self.leaves:
            leaf.track()
            values.append(leaf.value)
        return self._same("leaves", *values)

    def _same(self, what: str, one: int, other: int) -> int:
        # A run may see a mix, as long as its result reaches nobody: -1 would be noticed.
        return one if one == other else -(10**9)

    def _watch(self, name: str, read: Callable[[], object]) -> None:
        inside = threading.Lock()

        def run() -> None:
            if not inside.acquire(blocking=False):
                self.faults.append(f"two runs of {name} at once")
                return
            value = self.seen[name] = read()
            if isinstance(value, int) and value < 0:
                self.faults.append(f"{name} saw a mix of two states")
            self.runs += 1
            inside.release()

        self.effects.append(create_effect(run))

    def _add(self, thread: int, counter: int) -> None:
        self.put[counter](lambda value: value + 1)
        self.added[thread][counter] += 1

    def _make_and_dispose(self, thread: int, rnd: random.Random) -> None:
        """Make an effect with a child, change what it reads, and count runs against cleanups."""
        counter, double = rnd.randrange(COUNTERS), rnd.choice(self.doubles)
        started: list[int] = []
        cleaned: list[int] = []
        settled = threading.Condition()

        def run() -> None:
            started.append(1)
            on_cleanup(clean)
            double()
            self.get[counter]()
            create_effect(lambda: self.doubles[0]())

        def clean() -> None:
            with settled:
                cleaned.append(1)
                settled.notify_all()

        effect = create_effect(run)
        self._add(thread, counter)
        effect.dispose()
        with settled:
            if not settled.wait_for(lambda: len(cleaned) == len(started), 10):
                self.faults.append(f"{len(started)} runs and {len(cleaned)} cleanups")

    def _report(self, error: BaseException) -> None:
        self.faults.append(repr(error))


def stress(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    unexpected: list[str] = []

    def hook(args: threading.ExceptHookArgs) -> None:
        unexpected.append(repr(args.exc_value))

    monkeypatch.setattr(threading, "excepthook", hook)
    end = time.monotonic() + seconds
    seed = 0
    while time.monotonic() < end:
        seed += 1
        round_ = Round(seed)
        until = min(end, time.monotonic() + ROUND)
        workers = [run_in_thread(partial(round_.work, k, until)) for k in range(THREADS)]
        for worker in workers:
            worker.result(ROUND + 20)
        _await_delivery()
        assert not round_.faults, round_.faults[:5]
        assert not unexpected, unexpected[:5]
        round_.check()


def _await_delivery() -> None:
    """Wait for the thread that is made to deliver when those that wrote have done so for long."""
    for thread in threading.enumerate():
        if thread.name == "reactive_sqlite delivery":
            thread.join(30)
            assert not thread.is_alive(), "the delivery comes to an end when nobody writes"


def test_two_seconds_of_eight_threads_agree_with_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stress(2.0, monkeypatch)


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_a_minute_of_eight_threads_agrees_with_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    stress(60.0, monkeypatch)
