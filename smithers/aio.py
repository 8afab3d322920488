"""The workflow database for asyncio: the same calls, awaited; observers served on the loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

from reactive_sqlite.aio import AsyncDatabase, LoopHome, loop_report
from reactive_sqlite.asyncquery import AsyncObservableQuery, subscribed
from reactive_sqlite.database import Database
from reactive_sqlite.errors import DatabaseClosed, NotReady
from reactive_sqlite.face import AsyncFace, awaited
from reactive_sqlite.signals.owner import get_owner, on_cleanup, run_with_owner
from reactive_sqlite.worker import Worker, running_loop
from smithers.codec import check_key
from smithers.db import DEFAULT_PATH, SmithersDB, State, open_smithers_db
from smithers.records import Transition
from smithers.storage.keys import MISSING, StateKey
from smithers.storage.reports import Parameters

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def _twin(method: Callable[..., Any]) -> Callable[[F], F]:
    """Give a method written by hand the docstring of its synchronous twin."""

    def documented(fn: F) -> F:
        fn.__doc__ = method.__doc__
        return fn

    return documented


class AsyncSetState(Protocol):
    """The setter of `signal`, awaited: write a value, or what a function makes of the present one.

    The function is called on the worker's thread.
    """

    async def __call__(self, value: Any, trigger: str | None = None) -> Transition: ...


class AsyncStateStore(AsyncFace[State]):
    """`db.state` of an asynchronous database.

    Calls run in the order they were made, each as one transaction. Functions given to them (`fn` of
    `update`) are called on the worker's thread. See `StateStore` and `StateHistory`.
    """

    get = awaited(State.get)
    has = awaited(State.has)
    keys = awaited(State.keys)
    entry = awaited(State.entry)
    entries = awaited(State.entries)
    get_all = awaited(State.get_all)
    set = awaited(State.set)
    set_many = awaited(State.set_many)
    update = awaited(State.update)
    delete = awaited(State.delete)
    reset = awaited(State.reset)
    snapshot = awaited(State.snapshot)
    restore = awaited(State.restore)
    history = awaited(State.history)
    state_at = awaited(State.state_at)
    replay_to = awaited(State.replay_to)

    @_twin(State.observe)
    def observe(self, key: str, default: Any = None) -> AsyncObservableQuery[Any]:
        check_key(key)
        return AsyncObservableQuery(self._worker, lambda: self._sync.observe(key, default))

    @_twin(State.observe_all)
    def observe_all(self) -> AsyncObservableQuery[dict[str, Any]]:
        return AsyncObservableQuery(self._worker, self._sync.observe_all)

    @_twin(State.transitions)
    def transitions(self, key: str | None = None) -> Observable[Transition]:
        if key is not None:
            check_key(key)
        return _Transitions(self._worker, lambda: self._sync.transitions_ahead(key))

    @_twin(State.signal)
    async def signal(
        self, key: str, default: Any = None
    ) -> tuple[AsyncObservableQuery[Any], AsyncSetState]:
        get = self.observe(key, default)
        await _follow(get)

        async def set_state(value: Any, trigger: str | None = None) -> Transition:
            if callable(value):
                return await self.update(key, value, default, trigger)
            return await self.set(key, value, trigger)

        return get, set_state

    @overload
    def key(self, name: str, type: type[T], default: T) -> AsyncStateKey[T]: ...
    @overload
    def key(self, name: str, type: type[T]) -> AsyncStateKey[T | None]: ...
    @overload
    def key(self, name: str, type: Any, default: Any = ...) -> AsyncStateKey[Any]: ...
    @_twin(State.key)
    def key(self, name: str, type: Any, default: Any = MISSING) -> AsyncStateKey[Any]:
        return AsyncStateKey(self._sync.key(name, type, default), self._worker)


class AsyncSetKey(Generic[T]):
    """The setter of `AsyncStateKey.signal`, awaited."""

    def __init__(self, key: AsyncStateKey[T]) -> None:
        self._key = key

    async def __call__(self, value: T | Callable[[T], T], trigger: str | None = None) -> Transition:
        if callable(value):
            return await self._key.update(cast(Any, value), trigger)
        return await self._key.set(value, trigger)


class AsyncStateKey(AsyncFace[StateKey[T]], Generic[T]):
    """`StateKey` of an asynchronous database."""

    @property
    def name(self) -> str:
        """The key."""
        return self._sync.name

    @property
    def type(self) -> Any:
        """The type of its values."""
        return self._sync.type

    @_twin(StateKey[Any].get)
    async def get(self) -> T:
        return await self._call(StateKey[T].get)

    @_twin(StateKey[Any].set)
    async def set(self, value: T, trigger: str | None = None) -> Transition:
        return await self._call(StateKey[T].set, value, trigger)

    @_twin(StateKey[Any].update)
    async def update(self, fn: Callable[[T], T], trigger: str | None = None) -> Transition:
        return await self._call(StateKey[T].update, fn, trigger)

    @_twin(StateKey[Any].observe)
    def observe(self) -> AsyncObservableQuery[T]:
        return AsyncObservableQuery(self._worker, self._sync.observe)

    @_twin(StateKey[Any].signal)
    async def signal(self) -> tuple[AsyncObservableQuery[T], AsyncSetKey[T]]:
        get = self.observe()
        await _follow(get)
        return get, AsyncSetKey(self)

    def __repr__(self) -> str:
        return f"Async{self._sync!r}"


class AsyncSmithersDB(AsyncFace[SmithersDB]):
    """A workflow database for asyncio, made by `create_async_smithers_db`.

    Every call runs on one worker thread, in the order it was made; observers are called on the
    event loop, before the `await` of the write that caused them returns. A cancelled call that had
    not begun never begins; one that had is finished: all or nothing. Before it is awaited or
    entered everything raises `NotReady`, after `close()` `DatabaseClosed`.
    """

    def __init__(self, open: Callable[[LoopHome], SmithersDB]) -> None:
        self._open = open
        self._opening = asyncio.Lock()
        self._opened: _Opened | None = None

    def __await__(self) -> Generator[Any, Any, AsyncSmithersDB]:
        """Open the database."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> AsyncSmithersDB:
        home = LoopHome(running_loop())
        async with self._opening:
            if self._opened is None:
                self._opened = await self._begin(home)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def state(self) -> AsyncStateStore:
        """Key-value state with history, time travel and observation."""
        return self._ready().state

    @property
    def database(self) -> AsyncDatabase:
        """The reactive database below, for tables of your own in the same file."""
        return self._ready().database

    @property
    def path(self) -> Path | None:
        """The database file, None in memory."""
        self._ready()
        return self._sync.path

    query = awaited(SmithersDB.query)
    stats = awaited(SmithersDB.stats)

    @_twin(SmithersDB.observe)
    def observe(
        self, sql: str, params: Parameters = ()
    ) -> AsyncObservableQuery[list[dict[str, Any]]]:
        self._ready()
        return AsyncObservableQuery(self._worker, lambda: self._sync.observe(sql, params))

    async def transact(
        self, fn: Callable[Concatenate[SmithersDB, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run `fn(db, …)` with the synchronous database as one transaction on the worker.

        What it raises undoes everything and is raised here. It must not keep the database.

        >>> await db.transact(lambda db: db.state.set("n", len(db.state.keys())))
        Transition(id='t1', ...)
        """
        return await self._call(_transaction, fn, *args, **kwargs)

    @_twin(SmithersDB.close)
    async def close(self) -> None:
        if self._opened is None:
            return
        worker, sync = self._worker, self._sync

        def close() -> None:
            sync.close()
            worker.close()  # here, so that it happens also when nobody awaits it any more

        try:
            await worker.run(close)
        except DatabaseClosed:
            return

    async def _begin(self, home: LoopHome) -> _Opened:
        worker = Worker("smithers-worker")
        opened: list[SmithersDB] = []
        try:
            await worker.run(lambda: opened.append(self._open(home)))
        except BaseException:
            # Cancelled meanwhile, perhaps: what is being opened must not stay open.
            worker.submit(lambda: _close_all(opened))
            worker.close()
            raise
        super().__init__(opened[0], worker)
        return _Opened(opened[0], worker)

    async def _call(
        self,
        method: Callable[Concatenate[SmithersDB, P], R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        self._ready()
        return await super()._call(method, *args, **kwargs)

    def _ready(self) -> _Opened:
        if self._opened is None:
            raise NotReady("open the database first: `async with` it, or await it")
        return self._opened


def create_async_smithers_db(
    path: str | os.PathLike[str] = DEFAULT_PATH,
    *,
    read_only: bool = False,
    synchronous: str = "NORMAL",
    busy_timeout: float = 5.0,
    watch: bool = True,
) -> AsyncSmithersDB:
    """Return a workflow database for asyncio, to be awaited or entered, which opens it.

    The arguments and the errors of opening are those of `create_smithers_db`.

    >>> async with create_async_smithers_db(".smithers/my-workflow") as db:
    ...     await db.state.set("phase", "review", trigger="tests_passed")
    """

    def open(home: LoopHome) -> SmithersDB:
        return open_smithers_db(
            path,
            read_only=read_only,
            synchronous=synchronous,
            busy_timeout=busy_timeout,
            watch=watch,
            home=home,
            on_observer_error=loop_report(home),
        )

    return AsyncSmithersDB(open)


class _Opened:
    """What there is once the file is open."""

    def __init__(self, sync: SmithersDB, worker: Worker) -> None:
        self.state = AsyncStateStore(sync.state, worker)
        self.database: AsyncDatabase = _Tables(sync.database, worker)


class _Tables(AsyncDatabase):
    """The face of a database that is open already, on its own worker."""

    def __init__(self, database: Database, worker: Worker) -> None:
        self._database = database
        super(AsyncDatabase, self).__init__(database, worker)


class _Transitions(Observable[Transition]):
    """A stream of transitions that is subscribed to on the worker, and told on the loop."""

    def __init__(self, worker: Worker, make: Callable[[], Observable[Transition]]) -> None:
        super().__init__()
        self._worker = worker
        self._make = make

    def subscribe(
        self,
        on_next: ObserverBase[Transition] | Callable[[Transition], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
        on_completed: Callable[[], None] | None = None,
        *,
        scheduler: SchedulerBase | None = None,
    ) -> DisposableBase:
        """Call `on_next` with every transition from now on; see `TransitionStream.subscribe`."""
        return subscribed(self._worker, self._make, on_next, on_error, on_completed, scheduler)


async def _follow(get: AsyncObservableQuery[Any]) -> None:
    """Keep a query current until it is collected, or the owner of the caller is disposed."""
    owner = get_owner()
    if owner is not None:
        run_with_owner(owner, lambda: on_cleanup(get.release))
    await get


def _transaction(
    db: SmithersDB,
    fn: Callable[Concatenate[SmithersDB, P], R],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    with db.transaction():
        return fn(db, *args, **kwargs)


def _close_all(opened: list[SmithersDB]) -> None:
    for db in opened:
        db.close()
