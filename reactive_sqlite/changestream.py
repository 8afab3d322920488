"""The change sets of commits as a stream: every commit in order, none merged."""

from __future__ import annotations

from collections.abc import Iterable

from reactivex import Observable, abc

from reactive_sqlite.broker import Broker
from reactive_sqlite.changes import ChangeSet
from reactive_sqlite.subscription import Subscription


def changes(broker: Broker, tables: Iterable[str]) -> Observable[ChangeSet]:
    """Emit the change set of every commit that touches one of the tables (of all, without any)."""
    wanted = frozenset(table.lower() for table in tables) or None
    return Observable(
        lambda observer, scheduler: Listener(broker, wanted, observer, scheduler).start()
    )


class Listener:
    """One subscriber to change sets: every commit in order, none merged."""

    def __init__(
        self,
        broker: Broker,
        tables: frozenset[str] | None,
        observer: abc.ObserverBase[ChangeSet],
        scheduler: abc.SchedulerBase | None,
    ) -> None:
        self.tables = tables
        self._broker = broker
        self._subscription = Subscription(
            observer.on_next,
            observer.on_error,
            observer.on_completed,
            scheduler=scheduler,
            report=broker.report,
            owner=self,
            every=True,
        )

    def start(self) -> abc.DisposableBase:
        """Hear of every commit from now on."""
        self._broker.listen(self)
        return self._subscription

    def post(self, changes: ChangeSet) -> None:
        self._subscription.post(changes)

    def end(self, error: BaseException | None) -> None:
        self._subscription.end(error)

    def drain(self) -> None:
        self._subscription.drain()

    def left(self, _: Subscription) -> None:
        self._broker.listeners.discard(self)
