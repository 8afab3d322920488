"""An observed query: a reactivex Observable and a signal accessor in one.

Fetching and comparing happen once per query text and parameters (`source`, `broker`); what is kept
here is one view of the rows: all of them, the first, its first value, or a decoding of these.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakSet

from reactivex import Observable, abc

from reactive_sqlite.arguments import check_observer
from reactive_sqlite.broker import Broker
from reactive_sqlite.equality import kind_of
from reactive_sqlite.errors import ReactiveError
from reactive_sqlite.projection import Decoded, Projection
from reactive_sqlite.publication import Bundle, Publication
from reactive_sqlite.signals.external import External, tracking
from reactive_sqlite.signals.state import STATE
from reactive_sqlite.source import Fetched, Source
from reactive_sqlite.subscription import Subscription
from reactive_sqlite.waiting import first, newest, wait_for

if TYPE_CHECKING:  # few ask for differences, so what makes them is imported when they do
    from reactive_sqlite.diff import Diff, Key

T = TypeVar("T")
U = TypeVar("U")


class _Idle:
    """In the place of a value: nobody follows the query, so whoever reads must fetch."""

    __slots__ = ()


class _Raised:
    """An error in the place of a value."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


_IDLE: Any = _Idle()
NO_VALUES = (_Idle, _Raised)


class ObservableQuery(Observable[T]):
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

    __slots__ = (
        "_broker",
        "_bundles",
        "_lock",
        "_node",
        "_projection",
        "_seen",
        "_skip",
        "_source",
        "_subscriptions",
        "_told",
        "_value",
    )

    # Without this, iter() would find reactivex's __getitem__ and never end.
    __iter__ = None

    def __init__(
        self,
        broker: Broker,
        source: Source,
        projection: Projection,
        *,
        skip_initial: bool = False,
    ) -> None:
        # On purpose not Observable.__init__: it makes an RLock and a dict for each of thousands.
        self._broker = broker
        self._source = source
        self._projection = projection
        self._told: Fetched | None = None  # what the last value told was made of
        self._skip = skip_initial
        self._value: Any = _IDLE
        self._seen: tuple[Fetched, Any] | None = None
        self._node: External[Any] | None = None
        # One alone as it is: a dict for each of thousands would be most of their memory.
        self._subscriptions: Subscription | dict[Subscription, None] | None = None
        self._lock: Any = None
        self._bundles: dict[Bundle, None] | None = None

    @property
    def lock(self) -> Any:  # type: ignore[override]
        """The lock that some operators of reactivex take; made when first asked for."""
        if self._lock is None:
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
            if value is _IDLE:
                value = self._glance()
            if value.__class__ is _Raised:
                raise value.error
            return cast(T, value)
        node = self._tracked_node()
        node.track()
        value = node.value
        return self._given(value if value is not _IDLE else self._begin_tracked(node))

    def peek(self) -> T:
        """Return the current value without subscribing anything."""
        value = self._value
        return self._given(self._glance() if value is _IDLE else value)

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
            with broker.locked():
                self._take_on(subscription)
                try:
                    if broker.follow(self._source, self):
                        self._begin(subscription)
                except BaseException:
                    if self._subscriptions is subscription:
                        self._subscriptions = None  # the lock is held
                    self._forget(subscription)
                    raise
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

    # -- called by the broker, its lock held ---------------------------------------------------

    @property
    def wanted(self) -> bool:
        """Whether a subscriber, an effect or a memo that leads to one looks at it."""
        there, node = self._subscriptions, self._node
        if there is not None and (there if isinstance(there, dict) else not there.disposed):
            return True
        return bool(self._bundles) or (node is not None and node.watched)

    def renew(self, publication: Publication) -> None:
        """Take over what the source has fetched, and put into `publication` whom to tell."""
        fetched = self._source.fetched
        if fetched is None:
            return
        before, told = self._value, self._told
        if fetched.error is None:
            try:
                value = self._projection.value(fetched)
            except Exception as error:
                value = _Raised(error)
        else:
            value = _Raised(fetched.error)
        failed = before.__class__ is _Raised
        if value.__class__ is _Raised:
            if value.error is not fetched.error:
                self._broker.report(value.error)
        elif told is not None and self._projection.same(
            told, self._project(told) if failed else before, fetched, value
        ):
            if not failed:
                return
            self._told = fetched  # it works again, and gives what it gave before it failed
            if self._bundles:
                publication.tell(self._bundles)
        else:
            self._told = fetched
            there = self._subscriptions
            if isinstance(there, Subscription):
                there.post(value)
                publication.parcels.append(there)
            elif there:
                for subscription in list(there):
                    subscription.post(value)
                    publication.parcels.append(subscription)
            if self._bundles:
                publication.tell(self._bundles)
        self._value = value
        if self._node is not None and self._node.value is not _IDLE:
            publication.nodes.append((self._node, value))

    def idle(self, publication: Publication) -> None:
        """Nobody looks any more: let the next reader fetch, and redo a run that is under way."""
        self._source.leave(self)
        if self._subscriptions.__class__ is not dict:
            self._subscriptions = None  # it has been disposed
        if self._source.tracked is not None:
            self._source.tracked.discard(self)
        self._value, self._told = _IDLE, None
        if self._node is not None and self._node.value is not _IDLE:
            publication.nodes.append((self._node, _IDLE))

    def begin(self) -> None:
        """The transaction in which somebody subscribed has ended: give the first value."""
        if not self.wanted or not self._broker.follow(self._source, self):
            return
        publication = Publication()
        for subscription in [s for s in self._subscribers() if s.awaits_first]:
            self._begin(subscription)
            publication.parcels.append(subscription)
        if self._bundles:
            self._follow()
            publication.tell(self._bundles)
        if self._node is not None and self._node.watched:
            self._track_source()
            publication.nodes.append((self._node, self._value))
        self._broker.emit(publication)

    def fail(self, error: Exception) -> None:
        """Its first fetch failed: everybody who waits for it ends with the error."""
        for subscription in self._subscribers():
            subscription.end(error)
            self._broker.deliveries.add(subscription)
        for bundle in list(self._bundles or ()):
            bundle.end(error)

    def end(
        self, error: BaseException | None, reason: BaseException, publication: Publication
    ) -> None:
        """The database closes (or its file is gone): nothing comes any more."""
        node = self._node
        followed = node is not None and node.value is not _IDLE
        self.lapse(reason)
        if error is not None and node is not None and followed:
            publication.nodes.append((node, self._value))  # effects fail with it
        for subscription in self._subscribers():
            subscription.end(error)
            self._broker.deliveries.add(subscription)
        for bundle in list(self._bundles or ()):
            bundle.end(error)

    def lapse(self, reason: BaseException) -> None:
        """Raise the reason from now on wherever the value is read; nobody is told."""
        self._value = _Raised(reason)
        if self._node is not None:
            self._node.value = self._value

    # -- for observe_many ----------------------------------------------------------------------

    def take_in(self, bundle: Bundle) -> bool:
        """Let the bundle be told of changes; the lock is held. False: after the transaction."""
        if self._bundles is None:
            self._bundles = {}
        self._bundles[bundle] = None
        if not self._broker.follow(self._source, self):
            return False
        self._follow()
        return True

    def let_go(self, bundle: Bundle) -> None:
        """Tell the bundle nothing any more."""
        if self._bundles is not None:
            self._bundles.pop(bundle, None)
        if not self.wanted:
            self._broker.release(self._source)

    @property
    def current(self) -> Any:
        """The value that is followed, for a bundle; the lock is held."""
        return self._value

    @property
    def has_value(self) -> bool:
        """Whether `current` is a value: followed, and not an error."""
        return self._value is not _IDLE and not isinstance(self._value, _Raised)

    @property
    def broker(self) -> Broker:
        return self._broker

    # -- private -------------------------------------------------------------------------------

    def _glance(self) -> Any:
        """The value, while nobody follows it through this view."""
        fetched = self._source.fetched if self._source.live else None
        if fetched is None:
            return self._project(self._broker.read(self._source))
        # Another view of the same rows is followed: they are current.
        seen = self._seen
        if seen is None or seen[0] is not fetched:
            seen = self._seen = fetched, self._project(fetched)
        return seen[1]

    def _subscribers(self) -> Sequence[Subscription]:
        there = self._subscriptions
        if there is None:
            return ()
        return list(there) if isinstance(there, dict) else (there,)

    def _take_on(self, subscription: Subscription) -> None:
        there = self._subscriptions
        if isinstance(there, dict):
            there[subscription] = None
        elif there is None or there.disposed:
            self._subscriptions = subscription
        else:
            self._subscriptions = both = {there: None, subscription: None}
            # It may have been disposed by another thread that did not see the dict yet.
            if there.disposed:
                both.pop(there, None)

    def _forget(self, subscription: Subscription) -> None:
        # Without the lock, from any thread. One alone stays where it is: its own mark says that it
        # is disposed, and whoever holds the lock puts another in its place.
        there = self._subscriptions
        if isinstance(there, dict):
            there.pop(subscription, None)

    def _project(self, fetched: Fetched) -> Any:
        if fetched.error is not None:
            return _Raised(fetched.error)
        try:
            return self._projection.value(fetched)
        except Exception as error:
            return _Raised(error)

    def _given(self, value: Any) -> T:
        if isinstance(value, _Raised):
            raise value.error
        return cast(T, value)

    def _row_key(self, rows: Sequence[Any]) -> Key | None:
        from reactive_sqlite.differences import by_columns

        columns = self._broker.key_columns(self._source)
        if not columns or not all(kind_of(row) is dict and row.keys() >= columns for row in rows):
            return None
        return by_columns(tuple(columns))

    def _follow(self) -> None:
        self._source.join(self)
        self._take_over()

    def _take_over(self) -> None:
        if self._value is _IDLE and self._source.fetched is not None:
            self._told = self._source.fetched
            self._value = self._project(self._source.fetched)

    def _begin(self, subscription: Subscription) -> None:
        self._follow()
        if isinstance(self._value, _Raised):
            raise self._value.error
        subscription.begin(self._value, skip=self._skip)

    def _tracked_node(self) -> External[Any]:
        node = self._node
        if node is None:
            node = self._node = External(_IDLE, on_watch=_watcher(self))
            node.volatile = True
        return node

    def _begin_tracked(self, node: External[Any]) -> Any:
        """A memo or effect reads it, and nobody followed it until now."""
        broker = self._broker
        with broker.locked():
            if node.value is not _IDLE:
                return node.value
            if broker.connection.owned_here():
                broker.follow_later(self)
                return self._project(broker.read(self._source))
            try:
                broker.follow(self._source, self)
            except Exception as error:
                return _Raised(error)
            self._track_source()
            node.value = self._value
            return self._value

    def _track_source(self) -> None:
        if self._source.tracked is None:
            self._source.tracked = WeakSet()
        self._source.tracked.add(self)
        self._take_over()

    def _watch_changed(self, node: External[Any]) -> None:
        node.volatile = not node.watched
        if not node.watched and not self.wanted:
            self._broker.release(self._source)

    def left(self, subscription: Subscription) -> None:
        self._forget(subscription)
        if not self.wanted:
            self._broker.release(self._source)

    def __del__(self) -> None:
        # A query that only a memo had read: its source must not be followed for ever. Only
        # noted here, since a collector may call this at any point.
        if getattr(self, "_value", _IDLE) is not _IDLE:
            self._broker.followed.released.append(self._source)


def _watcher(query: ObservableQuery[Any]) -> Callable[[], None]:
    # The node keeps its query alive (whoever reads the node needs it), not the other way round
    # only: a cycle, but one that the collector breaks when both are dropped.
    def on_watch() -> None:
        node = query._node  # pyright: ignore[reportPrivateUsage]
        if node is not None:
            query._watch_changed(node)  # pyright: ignore[reportPrivateUsage]

    return on_watch
