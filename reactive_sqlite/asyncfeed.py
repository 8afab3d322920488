"""A feed whose log is read on a worker and whose changes come on the event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from reactivex import Observable, abc

from reactive_sqlite.consumers import Batch, Change
from reactive_sqlite.errors import DatabaseClosed
from reactive_sqlite.feed import Feed, stream
from reactive_sqlite.listeners import Tail
from reactive_sqlite.subscription import Report, Subscription
from reactive_sqlite.worker import Worker, post, running_loop


class AsyncFeed:
    """The asynchronous twin of `Feed`.

    The consumer is registered by the call that returned this; an error of that is raised by
    whatever is done first with it.

    Example:
        >>> feed = db.feed("mailer", "orders")
        >>> async for change in feed:
        ...     await send_mail(change.key)
        ...     await feed.ack(change)
    """

    def __init__(self, worker: Worker, make: Callable[[], Feed], report: Report) -> None:
        self._worker = worker
        self._make = make
        self._report = report
        self._feed: Feed | None = None
        with suppress(DatabaseClosed):  # which the first use raises
            worker.submit(self._prepare)

    async def cursor(self) -> int:
        """Return the `seq` of the last change that was acknowledged. See `Feed.cursor`."""
        return await self._worker.run(lambda: self.opened().cursor)

    async def due(self, limit: int | None = None) -> list[Change]:
        """Return the changes that are there and not acknowledged. See `Feed.due`."""
        return await self._worker.run(lambda: self.opened().due(limit))

    async def ack(self, change: Change) -> None:
        """Acknowledge the change and all before it. See `Feed.ack`."""
        await self._worker.run(lambda: self.opened().ack(change))

    async def close(self) -> None:
        """End what iterates over this feed or observes it; its cursor stays."""
        await self._worker.run(lambda: self.opened().close())

    def __aiter__(self) -> AsyncGenerator[Change, None]:
        """Yield each change after the last acknowledged one; wait for more; end at close()."""

        def begin(bell: Tail) -> int:
            self.opened().attach(bell)
            return self.opened().cursor

        async def attach(bell: Tail) -> int:
            return await self._worker.run(begin, bell)

        async def read(at: int) -> Batch:
            return await self._worker.run(lambda: self.opened().read(at))

        def detach(bell: Tail) -> None:
            if self._feed is not None:
                self._feed.detach(bell)

        return stream(attach, read, detach)

    def observe(self) -> Observable[Change]:
        """Return an Observable of the changes, told on the event loop. See `Feed.observe`."""
        return Observable(lambda observer, scheduler: _Following(self, observer, scheduler))

    def opened(self) -> Feed:
        """Return the feed itself; on the worker."""
        if self._feed is None:
            self._feed = self._make()
        return self._feed

    def report(self, error: BaseException) -> None:
        """Tell the database of an error that nobody else hears."""
        self._report(error)

    def _prepare(self) -> None:
        with suppress(Exception):  # raised again by the first use
            self.opened()


class _Following(abc.DisposableBase):
    """One subscriber, served by a task of the event loop."""

    def __init__(
        self,
        feed: AsyncFeed,
        observer: abc.ObserverBase[Change],
        scheduler: abc.SchedulerBase | None,
    ) -> None:
        self._feed = feed
        self._subscription = Subscription(
            observer.on_next,
            observer.on_error,
            observer.on_completed,
            scheduler=scheduler,
            report=feed.report,
            owner=self,
            every=True,
        )
        self._loop = running_loop()
        self._task = self._loop.create_task(self._follow())

    def dispose(self) -> None:
        self._subscription.dispose()

    def left(self, _: Subscription) -> None:
        post(self._loop, self._task.cancel)

    async def _follow(self) -> None:
        subscription = self._subscription
        try:
            async for change in self._feed:
                subscription.post(change)
                subscription.drain()
        except Exception as error:
            subscription.end(error)
        else:
            subscription.end()
        subscription.drain()
