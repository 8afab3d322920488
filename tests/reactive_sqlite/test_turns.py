"""Threads that wait for the end of a transaction come one after the other, and none is lost."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from reactive_sqlite import Database, sqlite3
from tests.reactive_sqlite.threads import elsewhere


class Interrupted(BaseException):
    """Raised by the handler of a signal, as KeyboardInterrupt is."""


class Queue:
    """Threads of which each inserts its name, begun one by one while they have to wait."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._threads = ThreadPoolExecutor(20)

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()

    def join(self, name: str, work: Callable[[], Any] | None = None) -> Future[Any]:
        """Have a thread wait, behind those that wait already."""
        before = self.waiting()
        future = self._threads.submit(work or (lambda: insert(self.db, name)))
        self.until(lambda: self.waiting() > before)
        return future

    def waiting(self) -> int:
        return len(self.db.conn.turn.waiting)

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end, "in vain"
            time.sleep(0.001)  # nothing tells that a thread has begun to wait


@pytest.fixture
def db(tmp_path: Path) -> Generator[Database, None, None]:
    with Database(tmp_path / "t.db", watch=False, busy_timeout=20.0) as db:
        db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        yield db


def insert(db: Database, name: str) -> None:
    db.execute("INSERT INTO t(v) VALUES (?)", (name,))


def insert_in_transaction(db: Database, name: str) -> None:
    with db.transaction():
        insert(db, name)


def inserted(db: Database) -> list[str]:
    return [row["v"] for row in db.query("SELECT v FROM t ORDER BY id")]


@pytest.mark.parametrize("write", [insert, insert_in_transaction])
def test_threads_come_in_the_order_in_which_they_began_to_wait(
    db: Database, write: Callable[[Database, str], None]
) -> None:
    names = [str(number) for number in range(12)]
    with Queue(db) as queue:
        db.execute("BEGIN")
        waits = [queue.join(name, partial(write, db, name)) for name in names]
        db.execute("COMMIT")
        for wait in waits:
            wait.result(20)
    assert inserted(db) == names


@pytest.mark.parametrize("write", [insert, insert_in_transaction])
def test_who_ends_a_transaction_comes_again_after_those_that_waited(
    db: Database, write: Callable[[Database, str], None]
) -> None:
    with Queue(db) as queue:
        for number in range(20):
            db.execute("BEGIN")
            other = queue.join("other", lambda: insert_in_transaction(db, "other"))
            db.execute("COMMIT")
            write(db, "mine")
            other.result(20)
            assert inserted(db)[2 * number :] == ["other", "mine"], f"time {number}"


def test_who_holds_the_lock_waits_for_nobody(db: Database) -> None:
    with Queue(db) as queue:
        with db.conn.exclusive():
            db.execute("BEGIN")
        other = queue.join("other")
        with db.conn.exclusive():
            db.execute("COMMIT")
            insert(db, "mine")  # the other's turn, were it not for the lock
            insert_in_transaction(db, "mine again")
        other.result(20)
    assert inserted(db) == ["mine", "mine again", "other"]


def test_a_thread_that_waits_in_vain_keeps_nobody_from_coming(db: Database) -> None:
    with Queue(db) as queue:
        db.execute("BEGIN")
        early = queue.join("early")
        db.conn.turn.timeout = 0.05
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            elsewhere(lambda: insert(db, "in vain"))
        db.conn.turn.timeout = 20.0
        late = queue.join("late")
        assert queue.waiting() == 2
        db.execute("COMMIT")
        early.result(20)
        late.result(20)
    assert inserted(db) == ["early", "late"]


def test_all_go_on_when_the_thread_inside_the_transaction_ends_without_it(db: Database) -> None:
    begun, end = threading.Event(), threading.Event()

    def begin() -> None:
        db.execute("BEGIN")
        insert(db, "lost")
        begun.set()
        assert end.wait(20)

    owner = threading.Thread(target=begin)
    owner.start()
    assert begun.wait(20)
    with Queue(db) as queue:
        waits = [queue.join(str(number)) for number in range(5)]
        end.set()
        for wait in waits:
            wait.result(20)
    owner.join()
    assert sorted(inserted(db)) == ["0", "1", "2", "3", "4"]


def test_all_get_the_error_when_the_database_is_closed_while_they_wait(db: Database) -> None:
    with Queue(db) as queue:
        db.execute("BEGIN")
        waits = [queue.join(str(number)) for number in range(5)]
        db.close()
        for wait in waits:
            assert type(wait.exception(20)).__name__ == "DatabaseClosed"


# -- interrupted by a signal -----------------------------------------------------------------------


@pytest.fixture
def signalled() -> Generator[Callable[[Callable[[], Any]], None], None, None]:
    """Set what is done in the main thread when SIGUSR1 comes."""
    if not hasattr(signal, "SIGUSR1"):
        pytest.skip("this system has no signals of the user's own")
    before = signal.getsignal(signal.SIGUSR1)

    def do(work: Callable[[], Any]) -> None:
        def handle(number: int, frame: FrameType | None) -> None:
            work()

        signal.signal(signal.SIGUSR1, handle)

    yield do
    signal.signal(signal.SIGUSR1, before)


def interrupt() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


def fail() -> None:
    raise Interrupted


@pytest.mark.parametrize("when", ["while it waits", "when its turn has come"])
def test_a_thread_that_is_interrupted_passes_its_turn_on(
    db: Database, signalled: Callable[[Callable[[], Any]], None], when: str
) -> None:
    signalled(fail)
    begun = threading.Event()
    with Queue(db) as queue:
        behind: list[Future[Any]] = []

        def hold() -> None:
            db.execute("BEGIN")
            begun.set()
            queue.until(lambda: queue.waiting() == 1)
            behind.extend(queue.join(name) for name in ("second", "third"))
            if when == "while it waits":
                interrupt()
                queue.until(lambda: queue.waiting() == 2)
                db.execute("COMMIT")
                return
            with db.conn.exclusive():
                db.execute("COMMIT")
                interrupt()

        holding = ThreadPoolExecutor(1).submit(hold)
        assert begun.wait(20)
        with pytest.raises(Interrupted):
            insert(db, "first")
        holding.result(20)
        assert [wait.result(20) for wait in behind] == [None, None]
    assert inserted(db) == ["second", "third"]


def test_the_handler_of_a_signal_may_write_while_its_thread_waits(
    db: Database, signalled: Callable[[Callable[[], Any]], None]
) -> None:
    signalled(lambda: insert(db, "handler"))
    begun = threading.Event()
    with Queue(db) as queue:

        def hold() -> None:
            db.execute("BEGIN")
            begun.set()
            queue.until(lambda: queue.waiting() == 1)
            interrupt()
            queue.until(lambda: queue.waiting() == 2)
            db.execute("COMMIT")

        holding = ThreadPoolExecutor(1).submit(hold)
        assert begun.wait(20)
        insert(db, "waited")
        holding.result(20)
    assert elsewhere(lambda: inserted(db)) == ["handler", "waited"]


@pytest.mark.parametrize("moment", ["own", "disown"])
def test_a_handler_that_raises_as_a_transaction_begins_or_ends_keeps_nobody_waiting(
    db: Database, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    turn = db.conn.turn
    noted = getattr(turn, moment)

    def interrupted() -> None:
        monkeypatch.setattr(turn, moment, noted)
        raise Interrupted

    monkeypatch.setattr(turn, moment, interrupted)
    with pytest.raises(Interrupted), db.transaction():
        insert(db, "interrupted")
    other = threading.Thread(target=insert, args=(db, "other"), daemon=True)
    other.start()
    other.join(5)
    assert not other.is_alive(), "though the transaction is over it waits for its end"
    with db.transaction():
        insert(db, "afterwards")
    # One that was interrupted as it ended had been committed.
    names = ["other", "afterwards"] if moment == "own" else ["interrupted", "other", "afterwards"]
    assert [row["v"] for row in db.query("SELECT v FROM t ORDER BY id")] == names
