"""Several queries as one stream: their values as a tuple, all of them from one commit."""

from __future__ import annotations

from typing import Any

from reactivex import Observable, abc

from reactive_sqlite.equality import same_value
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.publication import Publication
from reactive_sqlite.subscription import Subscription


def observe_many(queries: tuple[ObservableQuery[Any], ...]) -> Observable[tuple[Any, ...]]:
    """Emit the values of all the queries together, once per commit that changed any of them."""
    return Observable(lambda observer, scheduler: Bundle(queries, observer, scheduler).start())


class Bundle:
    """One subscriber to several queries: told one tuple per commit."""

    def __init__(
        self,
        queries: tuple[ObservableQuery[Any], ...],
        observer: abc.ObserverBase[tuple[Any, ...]],
        scheduler: abc.SchedulerBase | None,
    ) -> None:
        self._queries = queries
        self._broker = queries[0].broker
        self._told: tuple[Any, ...] | None = None
        self._subscription = Subscription(
            observer.on_next,
            observer.on_error,
            observer.on_completed,
            scheduler=scheduler,
            report=self._broker.report,
            owner=self,
        )

    def start(self) -> abc.DisposableBase:
        """Give the first tuple at once; inside a transaction, at its end."""
        with self._broker.locked():
            try:
                ready = [query.take_in(self) for query in self._queries]
            except BaseException:
                self._subscription.dispose()
                raise
            if all(ready):
                self._post()
        self._broker.deliveries.first(self._subscription)
        return self._subscription

    def collect(self, publication: Publication) -> None:
        """Take the tuple of this commit; all its values are already in place."""
        if self._post():
            publication.parcels.append(self._subscription)

    def end(self, error: BaseException | None) -> None:
        """End with the database."""
        self._subscription.end(error)
        self._broker.deliveries.add(self._subscription)

    def _post(self) -> bool:
        if not all([query.has_value for query in self._queries]):
            return False
        values = tuple([query.current for query in self._queries])
        # A query that failed and gives again what it gave before changes nothing by itself.
        if self._told is not None and same_value(self._told, values):
            return False
        self._told = values
        self._subscription.post(values)
        return True

    def left(self, _: Subscription) -> None:
        for query in self._queries:
            query.let_go(self)
