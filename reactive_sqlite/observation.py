"""An observed query: a reactivex Observable and a signal accessor in one.

Fetching and comparing happen once per query text and parameters (`source`, `broker`), and one way
to look at the rows is a `view`; here is what its users see of it.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from reactivex import Observable, abc

from reactive_sqlite.arguments import check_observer
from reactive_sqlite.equality import kind_of
from reactive_sqlite.errors import ReactiveError
from reactive_sqlite.projection import Decoded
from reactive_sqlite.signals.external import tracking
from reactive_sqlite.signals.state import STATE
from reactive_sqlite.subscription import Subscription
from reactive_sqlite.view import IDLE, NO_VALUES, QueryView, Raised
from reactive_sqlite.waiting import first, newest, wait_for

if TYPE_CHECKING:  # few ask for differences, so what makes them is imported when they do
    from reactive_sqlite.diff import Diff, Key

T = TypeVar("T")
U = TypeVar("U")


class ObservableQuery(QueryView, Observable[T]):
    """A query whose result can be read, tracked, subscribed to, awaited and iterated.

    * ``query()`` returns the current value and subscribes the running memo or effect.
    * ``query.subscribe(on_next)`` is told the current value at once, then each change.
    * ``async for value in query`` yields the newest value; a slow loop skips what was overtaken.

    Nothing runs for a query that nobody looks at; its accessor then fetches at each read. Emitted
    rows are shared by all subscribers: treat them as read-only.

    Example:
        >>> names = db.observe("SELECT name FROM users ORDER BY name")
        >>> names.subscribe(print)
        >>> create_effect(lambda: print(len(names()), "users"))

    Raises (when read): the error of a failed fetch, `DatabaseClosed`, or `NotReady` inside a
    transaction when no committed value is known. Whatever a callback raises goes to its own
    `on_error`, else to the database's `on_observer_error`; it never reaches the writer.
    """

    __slots__ = ("_lock",)

    # Without this, iter() would find reactivex's __getitem__ and never end.
    __iter__ = None

    # Made by QueryView alone: Observable.__init__ makes an RLock and a dict for each of thousands.

    @property
    def lock(self) -> Any:  # type: ignore[override]
        """The lock that some operators of reactivex take; made when first asked for."""
        if not hasattr(self, "_lock"):
            self._lock = threading.RLock()
        return self._lock

    # -- as a signal accessor ------------------------------------------------------------------

    def __call__(self) -> T:
        """Return the current value, and subscribe the running memo or effect to it."""
        if STATE.recorder is None and not STATE.others:
            # Nearly always: nothing records anywhere. Kept flat, for it is read the most.
            current: T = self._value
            if current.__class__ not in NO_VALUES:
                return current
        if not tracking():
            value = self._value
            if value is IDLE:
                value = self._glance()
            if value.__class__ is Raised:
                raise value.error
            return cast(T, value)
        node = self._tracked_node()
        node.track()
        value = node.value
        return self._given(value if value is not IDLE else self._begin_tracked(node))

    def peek(self) -> T:
        """Return the current value without subscribing anything."""
        value = self._value
        return self._given(self._glance() if value is IDLE else value)

    # -- as an Observable ----------------------------------------------------------------------

    def subscribe(
        self,
        on_next: abc.ObserverBase[T] | Callable[[T], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        on_completed: Callable[[], object] | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Call `on_next` with the current value at once and with each change after it.

        Inside this thread's transaction the first call waits for its end. `on_completed` is
        called when the database closes. An `on_error` that the query's end calls (its first
        fetch failed, or the file was replaced) is the last call; one for an error of `on_next`
        itself is not. Without `on_error` a failing first fetch raises here.

        Args:
            scheduler: where to call; by default on the thread that committed, or is delivering.
        """
        if on_next is not None and hasattr(on_next, "on_next"):
            observer = cast("abc.ObserverBase[T]", on_next)
            on_next, on_error, on_completed = (
                observer.on_next,
                observer.on_error,
                observer.on_completed,
            )
        check_observer(on_next, on_error, on_completed, scheduler)
        broker = self._broker
        subscription = Subscription(
            cast("Callable[[Any], object] | None", on_next),
            on_error,
            on_completed,
            scheduler=scheduler,
            report=broker.report,
            owner=self,
        )
        try:
            self._admit(subscription)
        except Exception as error:
            if on_error is None:
                raise
            subscription.end(error)
        broker.deliveries.first(subscription)
        return subscription

    def as_observable(self) -> Observable[T]:
        """Return a plain Observable of the same values, for operators that would take this one,
        being callable, for a function: ``flat_map(query.as_observable())``."""
        return Observable(lambda observer, scheduler: self.subscribe(observer, scheduler=scheduler))

    def decoded(self, decode: Callable[[T], U]) -> ObservableQuery[U]:
        """Return the same query with each new value passed through `decode`, once per change.

        Nothing is emitted when the decoded value is the same as before.
        """
        projection = Decoded(self._projection, decode)
        return ObservableQuery(self._broker, self._source, projection, skip_initial=self._skip)

    def hold(self) -> abc.DisposableBase:
        """Follow the query until disposed, so that reading it never waits for a lock."""
        disposable = self.subscribe()
        with self._broker.locked():
            self._begin_tracked(self._tracked_node())
        return disposable

    def diffs(self) -> Observable[Diff[Any]]:
        """Emit how each list differs from the one before, as ordered steps; the first from [].

        ``diff.apply(list)`` gives the next list. Rows of a single table whose primary key is among
        the selected columns are updated in place; other rows are removed and inserted.

        Raises (to `on_error`): TypeError, the value is not a list.

        Example:
            >>> shown = []
            >>> def follow(diff):
            ...     shown[:] = diff.apply(shown)
            >>> db["todos"].observe().diffs().subscribe(follow)
        """
        from reactive_sqlite.differences import differences

        return differences(self, self._row_key)

    # -- waiting ---------------------------------------------------------------------------------

    def wait(self, predicate: Callable[[T], bool] | None = None, timeout: float | None = None) -> T:
        """Block this thread until the value satisfies `predicate` and return that value.

        Without a predicate, return the current value. The predicate is called on this thread.

        Args:
            timeout: seconds without a new value after which to give up.

        Raises:
            TimeoutError: nothing fitting came in time.
            DatabaseClosed: the database was closed meanwhile.
            ReactiveError: called inside this thread's own transaction, which nothing could pass.
        """
        if self._broker.connection.owned_here():
            raise ReactiveError("wait() inside a transaction would never see another commit")
        return wait_for(self, predicate, timeout, self._source.sql)

    async def first(  # type: ignore[override]
        self,
        predicate: Callable[[T], bool] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  (the contract's, as in reactivex)
    ) -> T:
        """Return the first value that satisfies `predicate`, the current one included.

        Args:
            timeout: seconds after which to give up.

        Raises:
            TimeoutError: nothing fitting came in time.
            DatabaseClosed: the database was closed meanwhile.
        """
        return await first(self, predicate, timeout)

    def __await__(self) -> Generator[Any, Any, T]:
        """Await the current value; reactivex would wait for the last one, which never comes."""
        return self.first().__await__()

    def __aiter__(self) -> AsyncGenerator[T, None]:
        """Yield the current value, then the newest whenever it has changed; end at close()."""
        return newest(self)

    def __repr__(self) -> str:
        return f"<ObservableQuery {self._source.sql!r}>"

    def _given(self, value: Any) -> T:
        if isinstance(value, Raised):
            raise value.error
        return cast(T, value)

    def _row_key(self, rows: Sequence[Any]) -> Key | None:
        from reactive_sqlite.differences import by_columns

        columns = self._broker.key_columns(self._source)
        if not columns or not all(kind_of(row) is dict and row.keys() >= columns for row in rows):
            return None
        return by_columns(tuple(columns))
