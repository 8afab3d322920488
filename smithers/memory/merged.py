"""Queries of several databases, some of which may not be there yet, observed as one."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from reactivex import abc
from reactivex.disposable import Disposable

from reactive_sqlite.broker import Broker
from reactive_sqlite.database import Database, ErrorHandler
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.signals.external import External, flush, publish, tracking
from reactive_sqlite.signals.memo import create_memo
from reactive_sqlite.signals.owner import run_with_owner
from smithers.memory.stores import Store

T = TypeVar("T")
U = TypeVar("U")
Part = ObservableQuery[Any]
Merge = Callable[[Sequence[Any]], T]
_MISSING: Any = object()


class MergedQuery(ObservableQuery[T]):
    """What `merge` makes of the values of one query in several databases.

    A store that is missing has no value; once it is there, its values are followed too.

    Args:
        main: the query in the database that is always there.
        stores: where else to ask.
        make: makes the query of a store's database.
        merge: makes the value of those of all parts, in their order.
    """

    __slots__ = ("_appeared", "_main", "_make", "_memo", "_merge", "_parts", "_stores")

    def __init__(
        self,
        main: Part,
        stores: Sequence[Store],
        make: Callable[[Database], Part],
        merge: Merge[T],
    ) -> None:
        super().__init__(main._broker, main._source, main._projection)
        self._main = main
        self._stores = stores
        self._make = make
        self._merge = merge
        self._parts: dict[Store, tuple[Database, Part]] = {}
        self._memo: Callable[[], T] | None = None
        self._appeared: External[int] = External(0, name="stores")
        for store in stores:
            weakref.finalize(self, store.on_found(_announcing(self._appeared, store)))
            store.look_out(self)

    def __call__(self) -> T:
        """Return the current value, and subscribe the running memo or effect to it."""
        if not tracking():
            return self.peek()
        if self._memo is None:
            # Nobody's, since the query may outlive the effect in which it is read first.
            made = run_with_owner(
                None, lambda: create_memo(self._tracked, equals=lambda old, new: old == new)
            )
            self._memo = cast("Callable[[], T]", made)
        return self._memo()

    def peek(self) -> T:
        """Return the current value without subscribing anything."""
        return self._merge([part.peek() for part in self.parts()])

    def subscribe(
        self,
        on_next: abc.ObserverBase[T] | Callable[[T], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        on_completed: Callable[[], object] | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Call `on_next` with the current value at once and with each change after it.

        See `ObservableQuery.subscribe`.
        """
        if on_next is not None and hasattr(on_next, "on_next"):
            observer = cast("abc.ObserverBase[T]", on_next)
            on_next, on_error, on_completed = (
                observer.on_next,
                observer.on_error,
                observer.on_completed,
            )
        telling = _Telling(
            self,
            self._merge,
            cast("Callable[[Any], object] | None", on_next),
            on_error,
            on_completed,
            scheduler=scheduler,
            report=self._broker.report,
        )
        telling.begin()
        return Disposable(telling.dispose)

    def decoded(self, decode: Callable[[T], U]) -> ObservableQuery[U]:
        """Return the same query with each new value passed through `decode`."""
        merge = self._merge
        return MergedQuery(
            self._main, self._stores, self._make, lambda values: decode(merge(values))
        )

    def hold(self) -> abc.DisposableBase:
        """Follow the query until disposed, so that reading it never waits for a lock."""
        holds = [part.hold() for part in self.parts()]

        def join(store: Store, database: Database) -> None:
            holds.append(self.part(store).hold())

        ends = [store.on_found(partial(join, store)) for store in self._stores]

        def release() -> None:
            for end in ends:
                end()
            for hold in holds:
                hold.dispose()

        return Disposable(release)

    @property
    def broker(self) -> Broker:
        """Of several databases there is none: they have no commits in common."""
        raise ValueError("this query reads several databases, so no commit gives all of its value")

    @property
    def main(self) -> Part:
        """The query in the database that is always there."""
        return self._main

    @property
    def stores(self) -> Sequence[Store]:
        """Where else it asks."""
        return self._stores

    def parts(self) -> list[Part]:
        """List the queries of the databases that are there."""
        there = [store for store in self._stores if store.found() is not None]
        return [self._main, *(self.part(store) for store in there)]

    def part(self, store: Store) -> Part:
        """Return the query of a store that has been found."""
        database = store.found()
        assert database is not None
        known = self._parts.get(store)
        if known is None or known[0] is not database:
            known = self._parts[store] = database, self._make(database)
        return known[1]

    def _tracked(self) -> T:
        self._appeared.track()
        return self._merge([part() for part in self.parts()])


class _Telling:
    """One subscriber of a merged query: the newest value of each part, told one at a time.

    The parts tell on threads of their own. Whoever comes while another one is telling leaves its
    value there, so nothing nests and nobody is called under a lock.
    """

    def __init__(
        self,
        query: MergedQuery[Any],
        merge: Merge[Any],
        on_next: Callable[[Any], object] | None,
        on_error: Callable[[Exception], object] | None,
        on_completed: Callable[[], object] | None,
        *,
        scheduler: abc.SchedulerBase | None,
        report: ErrorHandler,
    ) -> None:
        self._query = query
        self._merge = merge
        self._next = on_next
        self._error = on_error
        self._completed = on_completed
        self._scheduler = scheduler
        self._report = report
        self._lock = threading.Lock()
        self._values: dict[Store | None, Any] = {}
        self._ends: list[Callable[[], None]] = []
        self._told: Any = _MISSING
        self._due = self._telling = self._over = False

    def begin(self) -> None:
        """Follow all parts; the first value is told when each has given its own."""
        query = self._query
        there = [store for store in query.stores if store.found() is not None]
        # Before the first of them tells anything.
        self._values = dict.fromkeys((None, *there), _MISSING)
        for store in query.stores:
            self._ends.append(store.on_found(partial(self._join, store)))
        try:
            self._follow(None)
            for store in there:
                self._follow(store)
        except BaseException:
            self.dispose()
            raise

    def dispose(self) -> None:
        """Tell nothing more."""
        self._over = True
        while self._ends:
            self._ends.pop()()

    def _join(self, store: Store, database: Database) -> None:
        self._follow(store)

    def _follow(self, store: Store | None) -> None:
        self._values.setdefault(store, _MISSING)
        part = self._query.main if store is None else self._query.part(store)

        def changed(value: Any) -> None:
            with self._lock:
                self._values[store] = value
                self._due = True
                if self._telling:
                    return
                self._telling = True
            self._tell()

        followed = part.subscribe(
            changed,
            None if self._error is None else self._failed,
            # The stores close with the database, or end with an error of their own.
            self._complete if store is None else None,
            scheduler=self._scheduler,
        )
        self._ends.append(followed.dispose)
        if self._over:
            followed.dispose()

    def _tell(self) -> None:
        while True:
            with self._lock:
                if self._over or not self._due:
                    self._telling = False
                    return
                self._due = False
                # In the order of the parts, whichever of them was found later.
                parts = (None, *self._query.stores)
                values = [self._values[part] for part in parts if part in self._values]
            if any(value is _MISSING for value in values):
                continue
            try:
                merged = self._merge(values)
                if self._told is _MISSING or merged != self._told:
                    self._told = merged
                    if self._next is not None:
                        self._next(merged)
            except Exception as error:
                self._raised(error)

    def _raised(self, error: Exception) -> None:
        """The subscriber itself raised: its own on_error hears of it, and it lives on."""
        handler = self._error
        if handler is None or isinstance(getattr(handler, "__self__", None), abc.ObserverBase):
            self._report(error)
            return
        try:
            handler(error)
        except Exception as further:
            self._report(further)

    def _failed(self, error: Exception) -> None:
        if not self._over:
            self.dispose()
            if self._error is not None:
                self._error(error)

    def _complete(self) -> None:
        if not self._over:
            self.dispose()
            if self._completed is not None:
                self._completed()


def _announcing(appeared: External[int], store: Store) -> Callable[[Database], None]:
    """Make what tells effects and memos that a store is there now, where they are to be told."""
    home, report = store.options.home, store.options.report

    def tell() -> None:
        publish([(appeared, appeared.value + 1)], report)
        flush(report)

    def announce(_: Database) -> None:
        if home is None or home.here():
            tell()
        else:
            home.post(tell)

    return announce
