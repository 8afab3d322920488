"""One view of a query's rows: what it shows now, and who is told when that is something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

from reactive_sqlite.broker import Broker
from reactive_sqlite.projection import Projection
from reactive_sqlite.publication import Bundle, Publication
from reactive_sqlite.signals.external import External
from reactive_sqlite.source import Fetched, Source
from reactive_sqlite.subscription import Subscription


class Idle:
    """In the place of a value: nobody follows the query, so whoever reads must fetch."""

    __slots__ = ()


class Raised:
    """An error in the place of a value."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


IDLE: Any = Idle()
NO_VALUES = (Idle, Raised)


class QueryView:
    """A query's rows, or the first, its first value, or a decoding of these, while it is followed.

    Subscribers, bundles of several queries and a node of the signal graph may look at it. Unless
    it says otherwise, a method is called with the connection's lock held.
    """

    __slots__ = (
        "_broker",
        "_bundles",
        "_node",
        "_projection",
        "_seen",
        "_skip",
        "_source",
        "_subscriptions",
        "_told",
        "_value",
    )

    def __init__(
        self,
        broker: Broker,
        source: Source,
        projection: Projection,
        *,
        skip_initial: bool = False,
    ) -> None:
        self._broker = broker
        self._source = source
        self._projection = projection
        self._told: Fetched | None = None  # what the last value told was made of
        self._skip = skip_initial
        self._value: Any = IDLE
        self._seen: tuple[Fetched, Any] | None = None
        self._node: External[Any] | None = None
        # One alone as it is: a dict for each of thousands would be most of their memory.
        self._subscriptions: Subscription | dict[Subscription, None] | None = None
        self._bundles: dict[Bundle, None] | None = None

    # -- for the broker ------------------------------------------------------------------------

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
                value = Raised(error)
        else:
            value = Raised(fetched.error)
        failed = before.__class__ is Raised
        if value.__class__ is Raised:
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
        if self._node is not None and self._node.value is not IDLE:
            publication.nodes.append((self._node, value))

    def idle(self, publication: Publication) -> None:
        """Nobody looks any more: let the next reader fetch, and redo a run that is under way."""
        self._source.leave(self)
        if self._subscriptions.__class__ is not dict:
            self._subscriptions = None  # it has been disposed
        if self._source.tracked is not None:
            self._source.tracked.discard(self)
        self._value, self._told = IDLE, None
        if self._node is not None and self._node.value is not IDLE:
            publication.nodes.append((self._node, IDLE))

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
        followed = node is not None and node.value is not IDLE
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
        self._value = Raised(reason)
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
        return self._value is not IDLE and not isinstance(self._value, Raised)

    @property
    def broker(self) -> Broker:
        """The broker of its database."""
        return self._broker

    # -- for its subscribers -------------------------------------------------------------------

    def left(self, subscription: Subscription) -> None:
        """Tell the subscription nothing any more; from any thread, without the lock."""
        self._forget(subscription)
        if not self.wanted:
            self._broker.release(self._source)

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

    def _admit(self, subscription: Subscription) -> None:
        """Begin to tell the subscription; the lock is not held, and waited for."""
        with self._broker.locked():
            self._take_on(subscription)
            try:
                if self._broker.follow(self._source, self):
                    self._begin(subscription)
            except BaseException:
                if self._subscriptions is subscription:
                    self._subscriptions = None  # the lock is held
                self._forget(subscription)
                raise

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
            return Raised(fetched.error)
        try:
            return self._projection.value(fetched)
        except Exception as error:
            return Raised(error)

    def _follow(self) -> None:
        self._source.join(self)
        self._take_over()

    def _take_over(self) -> None:
        if self._value is IDLE and self._source.fetched is not None:
            self._told = self._source.fetched
            self._value = self._project(self._source.fetched)

    def _begin(self, subscription: Subscription) -> None:
        self._follow()
        if isinstance(self._value, Raised):
            raise self._value.error
        subscription.begin(self._value, skip=self._skip)

    def _tracked_node(self) -> External[Any]:
        node = self._node
        if node is None:
            node = self._node = External(IDLE, on_watch=_watcher(self))
            node.volatile = True
        return node

    def _begin_tracked(self, node: External[Any]) -> Any:
        """A memo or effect reads it, and nobody followed it until now."""
        broker = self._broker
        with broker.locked():
            if node.value is not IDLE:
                return node.value
            if broker.connection.owned_here():
                broker.follow_later(self)
                return self._project(broker.read(self._source))
            try:
                broker.follow(self._source, self)
            except Exception as error:
                return Raised(error)
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

    def __del__(self) -> None:
        # A query that only a memo had read: its source must not be followed for ever. Only
        # noted here, since a collector may call this at any point.
        if getattr(self, "_value", IDLE) is not IDLE:
            self._broker.followed.released.append(self._source)


def _watcher(query: QueryView) -> Callable[[], None]:
    # The node keeps its query alive (whoever reads the node needs it), not the other way round
    # only: a cycle, but one that the collector breaks when both are dropped.
    def on_watch() -> None:
        node = query._node  # pyright: ignore[reportPrivateUsage]
        if node is not None:
            query._watch_changed(node)  # pyright: ignore[reportPrivateUsage]

    return on_watch
