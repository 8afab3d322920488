"""The change log as one consumer reads it: in order, at least once, from where it left off."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

from reactivex import Observable, abc

from reactive_sqlite.arguments import shown
from reactive_sqlite.broker import Broker
from reactive_sqlite.consumers import Batch, Change, Consumers
from reactive_sqlite.errors import DatabaseClosed, ReactiveError
from reactive_sqlite.listeners import Tail
from reactive_sqlite.subscription import Subscription
from reactive_sqlite.worker import post, running_loop

if TYPE_CHECKING:
    import asyncio

_draining = threading.Lock()  # held for a test and a mark only


class Feed:
    """The changes of tracked tables for one consumer, whose cursor is kept in the database.

    * ``for change in feed`` waits for more when all is read, and ends when the database closes.
    * ``async for change in feed`` does the same on an event loop.
    * ``feed.observe()`` is an Observable of the same changes.
    * ``feed.due()`` returns what is there now.

    All of them begin after the last change that was acknowledged, and give every later one in the
    order of commits, whoever wrote it. ``feed.ack(change)`` acknowledges it and all before it;
    what was not acknowledged comes again the next time, also after a crash. Acknowledge in the
    transaction that does the work, and it is done exactly once.

    Example:
        >>> db["orders"].track()
        >>> feed = db.feed("mailer", "orders")
        >>> for change in feed:
        ...     send_mail(change.key)
        ...     feed.ack(change)
    """

    def __init__(
        self,
        broker: Broker,
        consumers: Consumers,
        consumer: str,
        tables: tuple[str, ...] | None,
        batch_size: int,
    ) -> None:
        self.consumer = consumer
        self.tables = tables
        self._broker = broker
        self._consumers = consumers
        self._batch_size = batch_size
        self._bells: dict[Tail, None] = {}

    @property
    def cursor(self) -> int:
        """The `seq` of the last change that was acknowledged, or where the consumer began.

        Raises:
            ConsumerDropped: the consumer was dropped.
        """
        with self._broker.locked():
            return self._consumers.cursor(self.consumer)

    def due(self, limit: int | None = None) -> list[Change]:
        """Return the changes that are there and not acknowledged, oldest first, without waiting.

        Args:
            limit: at most so many, 1 or more; by default the feed's `batch_size`.

        Raises:
            ReactiveError: called inside this thread's own transaction, which nothing could pass.
        """
        wanted = self._batch_size if limit is None else check_batch_size(limit, "limit")
        changes: list[Change] = []
        at = self.cursor
        while len(changes) < wanted:
            batch = self.read(at, wanted - len(changes))
            changes += batch.changes
            at = batch.position
            if batch.complete:
                break
        return changes

    def ack(self, change: Change) -> None:
        """Acknowledge the change and all before it; one that is acknowledged already is no step
        back. Inside a transaction it counts when that is committed.

        Raises:
            ConsumerDropped: the consumer was dropped.
        """
        if not isinstance(change, Change):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a Change is acknowledged, not {shown(change)}")
        self._consumers.acknowledge(self.consumer, change.seq)

    def __iter__(self) -> Iterator[Change]:
        """Yield each change after the last acknowledged one; wait for more; end at close()."""
        bell = Bell()
        self.attach(bell)
        try:
            at = self.cursor
            while True:
                bell.clear()
                batch = self._read_until_end(bell, at)
                for change in batch.changes:
                    if bell.ended:
                        break
                    yield change
                if bell.ended:
                    bell.raise_error()
                    return
                at = batch.position
                if batch.complete:
                    bell.wait()
        finally:
            self.detach(bell)

    def __aiter__(self) -> AsyncGenerator[Change, None]:
        """Yield as ``for`` does, while other tasks run."""

        async def read(at: int) -> Batch:
            return self.read(at)

        async def attach(bell: Tail) -> int:
            self.attach(bell)
            return self.cursor

        return stream(attach, read, self.detach)

    def observe(self) -> Observable[Change]:
        """Return an Observable of the changes: each subscriber gets every one after the last
        acknowledged, in order; those that are there already are told before `subscribe` returns.

        A subscriber's error goes to its own `on_error`, else to the database's
        `on_observer_error`; the change counts as told.
        """
        return Observable(lambda observer, scheduler: Pump(self, observer, scheduler).start())

    def close(self) -> None:
        """End what iterates over this feed or observes it; its cursor stays. From any thread."""
        for bell in tuple(self._bells):
            bell.end(None)
        self._broker.deliveries.run()

    def __repr__(self) -> str:
        tables = "all tracked tables" if self.tables is None else ", ".join(self.tables)
        return f"<Feed {self.consumer!r} of {tables}>"

    # -- for those who read it -------------------------------------------------------------------

    @property
    def broker(self) -> Broker:
        """The broker of its database."""
        return self._broker

    def read(self, at: int, limit: int | None = None) -> Batch:
        """Return the changes after a number; only committed ones. Raises as `due`."""
        with self._broker.locked():
            if self._broker.connection.owned_here():
                raise ReactiveError("a feed cannot be read inside a transaction, only acknowledged")
            return self._consumers.read(self.tables, at, limit or self._batch_size)

    def attach(self, bell: Tail) -> None:
        """Ring the bell at each commit from now on."""
        with self._broker.locked():
            self._broker.listeners.tails[bell] = None
            self._bells[bell] = None

    def detach(self, bell: Tail) -> None:
        """Ring the bell no more."""
        self._broker.listeners.tails.pop(bell, None)
        self._bells.pop(bell, None)

    def _read_until_end(self, bell: Bell, at: int) -> Batch:
        try:
            return self.read(at)
        except DatabaseClosed:
            if not bell.ended:
                raise
            return Batch((), at, complete=True)


class Bell:
    """Rung at each commit, for a thread that waits."""

    def __init__(self) -> None:
        self._rung = threading.Event()
        self._error: BaseException | None = None
        self.ended = False

    def wake(self) -> None:
        self._rung.set()

    def end(self, error: BaseException | None) -> None:
        self._error, self.ended = error, True
        self._rung.set()

    def clear(self) -> None:
        """Wait for the next ring, not for one that has been."""
        self._rung.clear()

    def wait(self) -> None:
        self._rung.wait()

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error


class LoopBell:
    """Rung at each commit, from any thread, for a task of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rung: asyncio.Event) -> None:
        self._loop = loop
        self._rung = rung
        self._error: BaseException | None = None
        self.ended = False

    def wake(self) -> None:
        post(self._loop, self._rung.set)

    def end(self, error: BaseException | None) -> None:
        self._error, self.ended = error, True
        post(self._loop, self._rung.set)

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error


async def stream(
    attach: Callable[[Tail], Awaitable[int]],
    read: Callable[[int], Awaitable[Batch]],
    detach: Callable[[Tail], None],
) -> AsyncGenerator[Change, None]:
    """Yield changes as they come; `attach` says where to begin, `read` what comes after."""
    import asyncio

    rung = asyncio.Event()
    bell = LoopBell(running_loop(), rung)
    try:
        at = await attach(bell)
        while True:
            rung.clear()
            try:
                batch = await read(at)
            except DatabaseClosed:
                if not bell.ended:
                    raise
                batch = Batch((), at, complete=True)
            for change in batch.changes:
                if bell.ended:
                    break
                yield change
            if bell.ended:
                bell.raise_error()
                return
            at = batch.position
            if batch.complete:
                await rung.wait()
    finally:
        detach(bell)


class Pump:
    """One subscriber to a feed: told every change in order, a batch read at a time."""

    def __init__(
        self,
        feed: Feed,
        observer: abc.ObserverBase[Change],
        scheduler: abc.SchedulerBase | None,
    ) -> None:
        self._feed = feed
        self._broker = feed.broker
        self._scheduler = scheduler
        self._at = 0
        self._busy = self._again = False
        self._closing: tuple[BaseException | None] | None = None
        # Handed out where the log is read, so that no more than a batch waits for a slow one.
        self._subscription = Subscription(
            observer.on_next,
            observer.on_error,
            observer.on_completed,
            scheduler=None,
            report=self._broker.report,
            owner=self,
            every=True,
        )

    def start(self) -> abc.DisposableBase:
        """Begin after the consumer's cursor; inside a transaction, when it has ended."""
        with self._broker.locked():
            self._at = self._feed.cursor
            self._feed.attach(self)
        self._broker.deliveries.first(self)
        return self._subscription

    # -- called under the lock -------------------------------------------------------------------

    def wake(self) -> None:
        self._broker.deliveries.add(self)

    def end(self, error: BaseException | None) -> None:
        self._closing = (error,)
        self._broker.deliveries.add(self)

    # -- handing out -----------------------------------------------------------------------------

    def drain(self) -> None:
        """Hand out what there is, on the scheduler where there is one."""
        if self._scheduler is None:
            self._drain()
            return
        if self._subscription.disposed:
            return
        try:
            self._scheduler.schedule(lambda scheduler, state: self._drain())
        except Exception as error:
            if not self._subscription.disposed:  # meanwhile, and its scheduler after it
                self._broker.report(error)

    def left(self, _: Subscription) -> None:
        self._feed.detach(self)

    def _drain(self) -> None:
        with _draining:
            self._again = True
            if self._busy:
                return  # the thread at it, or the callback we are in, looks once more
            self._busy = True
        try:
            while self._looks_again():
                while not self._hand_out():
                    pass
        except BaseException:
            self._busy = False
            raise

    def _looks_again(self) -> bool:
        with _draining:
            self._busy, self._again = self._again, False
            return self._busy

    def _hand_out(self) -> bool:
        """Hand out one batch; True when there is no more."""
        subscription = self._subscription
        if subscription.disposed:
            return True
        if self._closing is not None:
            subscription.end(self._closing[0])
            subscription.drain()
            return True
        try:
            batch = self._read()
        except DatabaseClosed:
            return True  # its end is on the way
        except Exception as error:
            self._broker.report(error)  # a lock, perhaps: the next commit looks again
            return True
        if batch is None:
            return True
        self._at = batch.position
        for change in batch.changes:
            subscription.post(change)
        subscription.drain()
        return batch.complete

    def _read(self) -> Batch | None:
        with self._broker.locked():
            if self._broker.connection.owned_here():
                self._broker.capture.due = True  # then its end is told in any case
                return None
            return self._feed.read(self._at)


def check_batch_size(size: Any, name: str) -> int:
    """Return a number of changes; raise ValueError for what is none."""
    if type(size) is not int or not 1 <= size < 2**63:
        raise ValueError(f"{name} is a whole number from 1 on, not {shown(size)}")
    return size
