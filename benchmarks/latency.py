"""How soon a commit of another process is heard of, by each road, and what waiting for it costs."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

from benchmarks.databases import ignore
from benchmarks.figures import Figure, Outcome
from benchmarks.timing import Effort, percentile
from reactive_sqlite import Database
from reactive_sqlite.watcher import Watcher
from smithers import create_smithers_db

TITLE = "Commits of another process"

HOT = 10_000
HOT_BY_OTHERS = 1_000  # by the roads that are slower
CHUNK = 250  # commits in one turn of a road
COLD = 12
IDLENESS = 2.0  # seconds before each cold commit
WATCHED_IDLE = 5.0  # seconds over which idle processor time is measured
KEYS = 20_000
PATIENCE = 5.0  # seconds after which a value counts as missed

Road = Literal["inotify", "watchfiles", "poll"]
AT_MOST = {
    ("inotify", "hot p50"): 0.5,
    ("inotify", "hot p99"): 5.0,
    ("inotify", "cold p50"): 0.5,
    ("inotify", "cold worst"): 5.0,
    ("inotify", "idle"): 0.1,
    ("watchfiles", "hot p50"): 2.0,
    ("watchfiles", "cold p50"): 80.0,
    ("watchfiles", "idle"): 0.3,
}
BY_HAND = "a thread that polls each ms"
ROADS: tuple[Road, ...] = ("inotify", "watchfiles", "poll")

# Commits the number that it reads, and answers when the commit was over, by the clock of all
# processes.
WRITER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute("PRAGMA synchronous = NORMAL")
for line in sys.stdin:
    connection.execute(sys.argv[2], (line.strip(),))
    print(time.monotonic_ns(), flush=True)
"""


class Other:
    """Another process, which commits when told to."""

    def __init__(self, path: Path, statement: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), statement],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def commit(self, value: object) -> int:
        """Return when the commit was over, in nanoseconds."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{value}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait(PATIENCE)


class Ear:
    """Remembers when the newest number was heard."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._newest, self._at = 0, 0

    def hear(self, number: int | None) -> None:
        now = time.monotonic_ns()
        with self._changed:
            if number is not None and number > self._newest:
                self._newest, self._at = number, now
                self._changed.notify_all()

    def heard(self, number: int) -> int | None:
        """Wait for the number, and return when it came; None when it never did."""
        with self._changed:
            if self._changed.wait_for(lambda: self._newest >= number, PATIENCE):
                return self._at
        return None


class Course:
    """A file, another process that writes to it, and the delays of what was heard."""

    def __init__(self, path: Path) -> None:
        self.ear = Ear()
        self.missed = 0
        self._path = path
        self._number = 0
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
        self._other = Other(path, "INSERT INTO t VALUES (?)")

    @contextmanager
    def watched(self, road: Road) -> Generator[Database]:
        """Observe the newest number by the road given."""
        with (
            Database(self._path, watch=False) as database,
            closing(_watcher(database, self._path, road)) as watcher,
        ):
            database.observe_value("SELECT max(n) FROM t").subscribe(self.ear.hear)
            watcher.start()
            yield database

    @contextmanager
    def polled(self) -> Generator[None]:
        """Ask every millisecond by hand."""
        ended = threading.Event()

        def poll() -> None:
            with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
                seen = None
                while not ended.wait(0.001):
                    version = connection.execute("PRAGMA data_version").fetchone()
                    if version != seen:
                        seen = version
                        self.ear.hear(connection.execute("SELECT max(n) FROM t").fetchone()[0])

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def delays(self, count: int, idleness: float = 0.0) -> list[float]:
        """Let the other process commit, and return after how many ms each was heard of."""
        delays: list[float] = []
        for _ in range(count):
            if idleness:
                time.sleep(idleness)
            self._number += 1
            committed = self._other.commit(self._number)
            heard = self.ear.heard(self._number)
            if heard is None:
                self.missed += 1
            else:
                # It may be heard of before the other process has looked at the clock.
                delays.append(max(0, heard - committed) / 1e6)
        return delays

    def close(self) -> None:
        self._other.close()


def measure(effort: Effort, folder: Path) -> Outcome:
    """Measure each road while commits follow each other, after idleness, and while nothing is."""
    with closing(Course(folder / "shared.sqlite")) as course:
        hot, heard = _hot(course, effort)
        figures = [figure for road, delays in hot.items() for figure in _hot_figures(road, delays)]
        figures += [_beside(road, hot) for road in ROADS]
        figures.append(Figure(f"missed of {heard:,} commits", course.missed, at_most=0.0, unit=""))
        for road in ROADS:
            figures += _cold_figures(course, road, effort)
    figures.append(_foreign_state_write(effort, folder))
    return Outcome("latency", TITLE, tuple(figures))


def _hot(course: Course, effort: Effort) -> tuple[dict[str, list[float]], int]:
    """Give each road some commits by turns."""
    delays: dict[str, list[float]] = {road: [] for road in (*ROADS, BY_HAND)}
    wanted = {road: effort.count(HOT_BY_OTHERS, least=4) for road in delays}
    wanted["inotify"] = effort.count(HOT, least=4)
    given = dict.fromkeys(delays, 0)
    while any(given[road] < wanted[road] for road in delays):
        for road in (*ROADS, BY_HAND):
            count = min(CHUNK, wanted[road] - given[road])
            if count:
                with course.polled() if road == BY_HAND else course.watched(_road(road)):
                    course.delays(1)  # wakes what is still cold
                    delays[road] += course.delays(count)
                given[road] += count
    return delays, sum(given.values())


def _road(name: str) -> Road:
    return next(road for road in ROADS if road == name)


def _hot_figures(road: str, delays: list[float]) -> list[Figure]:
    return [
        _figure(road, "hot p50", percentile(delays, 0.5)),
        _figure(road, "hot p99", percentile(delays, 0.99)),
    ]


def _beside(road: Road, hot: dict[str, list[float]]) -> Figure:
    ratio = percentile(hot[road], 0.5) / percentile(hot[BY_HAND], 0.5)
    return Figure(f"{road}: hot p50", ratio, BY_HAND)


def _cold_figures(course: Course, road: Road, effort: Effort) -> list[Figure]:
    with course.watched(road) as database:
        delays = course.delays(effort.count(COLD, least=1), effort.scale * IDLENESS)
        before, began = time.process_time(), time.monotonic()
        time.sleep(effort.scale * WATCHED_IDLE)
        share = (time.process_time() - before) / (time.monotonic() - began)
        database.refresh()
    return [
        _figure(road, "cold p50", percentile(delays, 0.5)),
        _figure(road, "cold worst", max(delays)),
        _figure(road, "idle", share * 100, "% of a core"),
    ]


def _figure(road: str, name: str, value: float, unit: str = "ms") -> Figure:
    return Figure(f"{road}: {name}", value, unit=unit, at_most=AT_MOST.get((road, name)))


def _watcher(database: Database, path: Path, road: Road) -> Watcher:
    def failed(error: BaseException) -> None:
        raise error

    def replaced(reason: str) -> None:
        raise RuntimeError(reason)

    check: Callable[[], bool] = database.broker.check
    return Watcher(str(path), check=check, replaced=replaced, failed=failed, backend=road)


def _foreign_state_write(effort: Effort, folder: Path) -> Figure:
    """How many queries one commit of another process re-runs, with an observer for each key."""
    count = effort.count(KEYS)
    heard = threading.Event()
    values: list[Any] = []

    def hear(value: Any) -> None:
        values.append(value)
        if value == "new":
            heard.set()

    with create_smithers_db(folder / "foreign") as db:
        for number in range(count - 1):
            db.state.observe(f"key {number}").subscribe(ignore)
        db.state.observe("touched").subscribe(hear)
        before = db.database.broker.fetches
        statement = "INSERT INTO state (key, value) VALUES ('touched', ?)"
        with closing(Other(folder / "foreign" / "db.sqlite", statement)) as other:
            other.commit('"new"')
            if not heard.wait(10 * PATIENCE):
                raise TimeoutError(f"a foreign write was never heard of, only {values}")
        queries = db.database.broker.fetches - before
    name = f"queries run for a foreign state write, {count:,} observers"
    return Figure(name, queries, unit="", at_most=1.0)
