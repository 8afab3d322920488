"""Sixteen threads on one handle at random, against a model: nothing lost, nothing after its end."""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import create_effect, create_memo, create_root
from smithers import SmithersDB, create_smithers_db

THREADS = 16
KEYS = tuple(f"counter {number}" for number in range(6))
# More blocks of memory after eighty rounds: less than one for every twenty that have observed. The
# numbers of the model itself, which grow beyond those that Python keeps, take two hundred.
MOST_BLOCKS = 600
# Seconds: for how long threads work in one round, and after which they are taken to be stuck.
ROUND = 0.5
STUCK = 30.0


class Undo(Exception):
    """Raised to have a transaction rolled back."""


class Watch:
    """Somebody who observes one key; made, told and ended on any thread."""

    def __init__(self, key: str, told: threading.Condition) -> None:
        self.key = key
        self.last: Any = None
        self.late = 0  # calls that began when the end had been called
        self.ended = False
        self.end: Callable[[], object] = lambda: None
        self._told = told

    def tell(self, value: Any) -> None:
        with self._told:
            self.late += self.ended
            self.last = value
            self._told.notify_all()

    def dispose(self) -> None:
        self.end()
        with self._told:
            self.ended = True


class Storm:
    """Threads that write, observe and dispose at random on one handle, and what should be there."""

    def __init__(self, db: SmithersDB, seed: int) -> None:
        self.db = db
        self.seed = seed
        self.done = 0
        self.told = threading.Condition()
        self.written: list[dict[str, int]] = [dict.fromkeys(KEYS, 0) for _ in range(THREADS)]
        self.undone = 0
        self.watches: list[Watch] = []
        self.errors: list[BaseException] = []
        self.pairs = {key: db.state.signal(key, 0) for key in KEYS}

    def round(self, seconds: float) -> None:
        """Let all threads work for so long; where they do not end, show where they stand."""
        self.seed += 1
        end = time.monotonic() + seconds
        threads = [
            threading.Thread(target=self._work, args=(number, end), daemon=True)
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, end + STUCK - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            faulthandler.dump_traceback(sys.__stderr__ or 2, all_threads=True)
            pytest.fail(f"seed {self.seed}: threads are stuck (their stacks stand in stderr)")
        if self.errors:
            raise self.errors[0]

    def check(self) -> None:
        """Compare the file and everybody who observes with what was written, then end them all."""
        totals = {key: sum(written[key] for written in self.written) for key in KEYS}
        assert {key: self.db.state.get(key, 0) for key in KEYS} == totals, (
            f"seed {self.seed}: no update is lost and nothing rolled back is there"
        )
        for key, (get, _) in self.pairs.items():
            assert get() == totals[key], f"seed {self.seed}: the pair of {key!r}"
        rows = self.db.query("SELECT key, max(seq), count(*) AS n FROM transitions GROUP BY key")
        assert {row["key"]: row["n"] for row in rows} == {k: n for k, n in totals.items() if n}, (
            f"seed {self.seed}: each update has a transition of its own"
        )
        live = [watch for watch in self.watches if not watch.ended]
        ended = [watch for watch in self.watches if watch.ended]
        with self.told:
            assert self.told.wait_for(
                lambda: all(watch.last == totals[watch.key] for watch in live), STUCK
            ), f"seed {self.seed}: {[(w.key, w.last, totals[w.key]) for w in live]}"
            # One call may have been on its way, on another thread, when the end came.
            late = [watch.late for watch in ended if watch.late > 1]
        assert not late, f"seed {self.seed}: told {late} times after the end"
        before = [watch.late for watch in ended]
        with self.db.transaction():
            for key in KEYS:
                self._add(0, key)
        with self.told:
            assert self.told.wait_for(
                lambda: all(watch.last == totals[watch.key] + 1 for watch in live), STUCK
            ), f"seed {self.seed}: a further update arrives"
        assert [watch.late for watch in ended] == before, "what has ended is never told again"
        for watch in live:
            watch.dispose()
        self.watches.clear()

    def _work(self, number: int, end: float) -> None:
        rnd = random.Random(self.seed * 1000 + number)
        mine: list[Watch] = []
        try:
            while time.monotonic() < end:
                self._step(number, rnd, mine)
                self.done += 1  # about: shown alone
            for watch in mine[len(mine) // 2 :]:
                watch.dispose()
        except BaseException as error:
            self.errors.append(error)

    def _step(self, number: int, rnd: random.Random, mine: list[Watch]) -> None:
        choice, key = rnd.random(), rnd.choice(KEYS)
        if choice < 0.2:
            self._add(number, key)
        elif choice < 0.3:
            self.pairs[key][1](one_more, "pair")
            self.written[number][key] += 1
        elif choice < 0.45:
            self._transaction(number, rnd)
        elif choice < 0.55:
            self.pairs[key][0]()
        elif choice < 0.8 and len(mine) < 6:
            watch = Watch(key, self.told)
            (self._subscribe, self._effect, self._root)[rnd.randrange(3)](watch)
            self.watches.append(watch)
            mine.append(watch)
        elif mine:
            mine.pop(rnd.randrange(len(mine))).dispose()

    def _add(self, number: int, key: str) -> None:
        self.db.state.update(key, one_more, default=0)
        self.written[number][key] += 1

    def _transaction(self, number: int, rnd: random.Random) -> None:
        before = dict(self.written[number])
        try:
            with self.db.transaction():
                for key in rnd.sample(KEYS, 3):
                    self._add(number, key)
                inside = dict(self.written[number])
                try:
                    with self.db.transaction():
                        self._add(number, rnd.choice(KEYS))
                        if rnd.random() < 0.5:
                            raise Undo
                except Undo:
                    self.written[number] = inside
                if rnd.random() < 0.4:
                    raise Undo
        except Undo:
            self.written[number] = before
            self.undone += 1

    def _subscribe(self, watch: Watch) -> None:
        watch.end = self.db.state.observe(watch.key, 0).subscribe(watch.tell).dispose

    def _effect(self, watch: Watch) -> None:
        get = self.pairs[watch.key][0]
        watch.end = create_effect(lambda: watch.tell(get())).dispose

    def _root(self, watch: Watch) -> None:
        query = self.db.state.observe(watch.key, 0)

        def grow(dispose: Callable[[], None]) -> None:
            watch.end = dispose
            double = create_memo(lambda: query() * 2)
            create_effect(lambda: watch.tell(double() // 2))

        create_root(grow)


def one_more(value: int) -> int:
    return value + 1


def blocks() -> int:
    """Count the blocks of memory that are in use, once nothing waits for the collector."""
    gc.collect()
    gc.collect()
    return sys.getallocatedblocks()


def storm(folder: Path, rounds: int) -> tuple[Storm, list[int]]:
    """Let threads work for some rounds; return them with the blocks in use after each."""
    used: list[int] = []
    with create_smithers_db(folder) as db:
        found = Storm(db, seed=int(os.environ.get("SMITHERS_SEED", random.randrange(10**6))))
        for _ in range(rounds):
            found.round(ROUND)
            found.check()
            used.append(blocks())
    return found, used


def test_sixteen_threads_lose_no_update_and_tell_nobody_after_the_end(tmp_path: Path) -> None:
    found, _ = storm(tmp_path, 2)
    assert found.done > 0 and found.undone > 0


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_sixteen_threads_for_a_minute_lose_nothing_and_their_memory_is_flat(tmp_path: Path) -> None:
    found, used = storm(tmp_path, 100)
    first, last = min(used[20:40]), min(used[-20:])
    totals = sum(sum(written.values()) for written in found.written)
    print(
        f"{found.done} steps of {THREADS} threads in {len(used)} rounds, {totals} updates, 0 lost; "
        f"{first} blocks of memory after 20 rounds, {last} at the end"
    )
    assert last < first + MOST_BLOCKS, "memory is flat"
