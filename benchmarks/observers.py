"""Many observers: a write that touches none or one of them, and what each costs to have."""

from __future__ import annotations

import gc
import itertools
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.databases import TOUCHED, ignore, keyed, observe_keys, writer
from benchmarks.figures import Figure, Outcome
from benchmarks.timing import Effort, interleave
from reactive_sqlite import Database
from smithers import create_smithers_db

TITLE = "Many observers of single keys"
OTHERS = 20_000
CROWD = 10_000
SIZES = (1_000, 10_000, 100_000)
SAMPLE = 500  # subscriptions timed at each size

OTHERS_AT_MOST = 1.3
TOUCHED_AT_MOST = 1.5
# O(1), with room for what larger dictionaries cost the processor's caches.
GROWTH_AT_MOST = 1.5
BYTES_AT_MOST = 1536.0

Subscribe = Callable[[str], Callable[[], None]]


def measure(effort: Effort, folder: Path) -> Outcome:
    """Compare writes with and without observers, then the observers themselves."""
    figures = [
        *_table_writes(effort, folder),
        *_state_writes(effort, folder),
        *_growth(effort, folder),
        Figure("memory of an observer", _bytes(effort, folder), "", "bytes", BYTES_AT_MOST),
    ]
    return Outcome("observers", TITLE, tuple(figures))


def _table_writes(effort: Effort, folder: Path) -> list[Figure]:
    others, crowd = effort.count(OTHERS), effort.count(CROWD)
    with ExitStack() as stack:
        databases = {
            name: stack.enter_context(keyed(folder / f"{name}.sqlite"))
            for name in ("none", "others", "one", "crowd")
        }
        observe_keys(databases["others"], others)
        observe_keys(databases["crowd"], crowd - 1)
        for name in ("one", "crowd"):
            databases[name]["t"].observe({"key": TOUCHED}).subscribe(ignore)
        series = interleave({name: writer(db) for name, db in databases.items()}, effort)
    return [
        _ratio(f"table: {others:,} of other keys", series.ratio("others", "none"), OTHERS_AT_MOST),
        Figure(
            f"table: {crowd:,}, one touched",
            series.ratio("crowd", "one"),
            "one observer, touched",
            at_most=TOUCHED_AT_MOST,
        ),
        Figure("table: one observer, touched", series.ratio("one", "none"), "no observer"),
        Figure("table: the write with no observer", series.typical("none") * 1e6, unit="µs"),
    ]


def _state_writes(effort: Effort, folder: Path) -> list[Figure]:
    others = effort.count(OTHERS)
    with (
        create_smithers_db(folder / "quiet") as quiet,
        create_smithers_db(folder / "busy") as busy,
    ):
        for number in range(others):
            busy.state.observe(f"key {number}").subscribe(ignore)
        # New values each time: a trigger would pass over those that change nothing.
        numbers = itertools.count()
        series = interleave(
            {
                "none": lambda: quiet.state.set(TOUCHED, next(numbers)),
                "others": lambda: busy.state.set(TOUCHED, next(numbers)),
            },
            effort,
        )
    ratio = series.ratio("others", "none")
    return [_ratio(f"state: {others:,} of other keys", ratio, OTHERS_AT_MOST)]


def _growth(effort: Effort, folder: Path) -> list[Figure]:
    """What one more observer costs beside many, by turns on databases of all sizes."""
    sizes = [effort.count(size) for size in SIZES]
    with ExitStack() as stack:
        works: list[Subscribe] = []
        for at, size in enumerate(sizes):
            database = stack.enter_context(keyed(folder / f"size{at}.sqlite"))
            observe_keys(database, size)
            works.append(partial(_subscribed, database))
        gc.collect()
        gc.freeze()  # or each collection would walk all the others' observers, whoever is timed
        try:
            rounds = [[_churn(work) for work in works] for _ in range(effort.rounds)]
        finally:
            gc.unfreeze()
    figures: list[Figure] = []
    for step, name in enumerate(("subscribing", "disposing")):
        for at in range(1, len(sizes)):
            ratio = median(row[at][step] / row[0][step] for row in rounds)
            peer = f"beside {sizes[0]:,}"
            figures.append(Figure(f"{name} beside {sizes[at]:,}", ratio, peer, "x", GROWTH_AT_MOST))
        seconds = median(row[0][step] for row in rounds)
        figures.append(Figure(f"{name} beside {sizes[0]:,}", seconds * 1e6, unit="µs"))
    return figures


def _subscribed(database: Database, key: str) -> Callable[[], None]:
    return database.table("t").observe({"key": key}).subscribe(ignore).dispose


def _churn(subscribe: Subscribe) -> tuple[float, float]:
    """Seconds to subscribe to a new key, and to dispose that subscription."""
    began = time.perf_counter()
    disposals = [subscribe(f"new {number}") for number in range(SAMPLE)]
    between = time.perf_counter()
    for dispose in disposals:
        dispose()
    ended = time.perf_counter()
    return (between - began) / SAMPLE, (ended - between) / SAMPLE


def _bytes(effort: Effort, folder: Path) -> float:
    """What an observer keeps allocated, its key, query and subscription included."""
    count = effort.count(CROWD)
    with keyed(folder / "memory.sqlite") as database:
        observe_keys(database, 10)  # what the first one loads is not theirs
        kept = [database["t"].observe({"key": "another"}).subscribe(ignore)]
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for number in range(count):
                kept.append(database["t"].observe({"key": f"kept {number}"}).subscribe(ignore))
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    return (after - before) / count


def _ratio(name: str, ratio: float, at_most: float) -> Figure:
    return Figure(name, ratio, "no observer", at_most=at_most)
