"""`db.state` and typed keys, awaited; observers served on the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, cast, overload

from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

from reactive_sqlite.asyncquery import AsyncObservableQuery, subscribed
from reactive_sqlite.face import AsyncFace, awaited
from reactive_sqlite.signals.owner import get_owner, on_cleanup, run_with_owner
from reactive_sqlite.worker import Worker
from smithers.aio.prompt import PromptReader
from smithers.aio.twins import twin
from smithers.codec import check_key, decode
from smithers.db import State
from smithers.records import Transition
from smithers.storage.keys import MISSING, StateKey, value_of

T = TypeVar("T")


class AsyncSetState(Protocol):
    """The setter of `signal`, awaited: write a value, or what a function makes of the present one.

    The function is called on the worker's thread.
    """

    async def __call__(self, value: Any, trigger: str | None = None) -> Transition: ...


class AsyncStateStore(AsyncFace[State]):
    """`db.state` of an asynchronous database.

    Calls run in the order they were made, each as one transaction. Functions given to them (`fn` of
    `update`) are called on the worker's thread. `get` and `has` read on the loop itself where that
    has to wait for nothing. See `StateStore` and `StateHistory`.
    """

    def __init__(self, sync: State, worker: Worker, prompt: PromptReader) -> None:
        super().__init__(sync, worker)
        self._prompt = prompt

    @twin(State.get)
    async def get(self, key: str, default: Any = None) -> Any:
        check_key(key)
        found = await self._prompt.text(key)
        if found is None:
            return await self._call(State.get, key, default)
        text = found[0]
        return default if text is None else decode(text, name="state", key=key)

    @twin(State.has)
    async def has(self, key: str) -> bool:
        check_key(key)
        found = await self._prompt.text(key)
        return await self._call(State.has, key) if found is None else found[0] is not None

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

    @twin(State.observe)
    def observe(self, key: str, default: Any = None) -> AsyncObservableQuery[Any]:
        check_key(key)
        return AsyncObservableQuery(self._worker, lambda: self._sync.observe(key, default))

    @twin(State.observe_all)
    def observe_all(self) -> AsyncObservableQuery[dict[str, Any]]:
        return AsyncObservableQuery(self._worker, self._sync.observe_all)

    @twin(State.transitions)
    def transitions(self, key: str | None = None) -> Observable[Transition]:
        if key is not None:
            check_key(key)
        return _Transitions(self._worker, lambda: self._sync.transitions_ahead(key))

    @twin(State.signal)
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
    @twin(State.key)
    def key(self, name: str, type: Any, default: Any = MISSING) -> AsyncStateKey[Any]:
        return AsyncStateKey(self._sync.key(name, type, default), self._worker, self._prompt)


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

    def __init__(self, sync: StateKey[T], worker: Worker, prompt: PromptReader) -> None:
        super().__init__(sync, worker)
        self._prompt = prompt

    @property
    def name(self) -> str:
        """The key."""
        return self._sync.name

    @property
    def type(self) -> Any:
        """The type of its values."""
        return self._sync.type

    @twin(StateKey[Any].get)
    async def get(self) -> T:
        found = await self._prompt.text(self.name)
        if found is None:
            return await self._call(StateKey[T].get)
        return value_of(self._sync, found[0])

    @twin(StateKey[Any].set)
    async def set(self, value: T, trigger: str | None = None) -> Transition:
        return await self._call(StateKey[T].set, value, trigger)

    @twin(StateKey[Any].update)
    async def update(self, fn: Callable[[T], T], trigger: str | None = None) -> Transition:
        return await self._call(StateKey[T].update, fn, trigger)

    @twin(StateKey[Any].observe)
    def observe(self) -> AsyncObservableQuery[T]:
        return AsyncObservableQuery(self._worker, self._sync.observe)

    @twin(StateKey[Any].signal)
    async def signal(self) -> tuple[AsyncObservableQuery[T], AsyncSetKey[T]]:
        get = self.observe()
        await _follow(get)
        return get, AsyncSetKey(self)

    def __repr__(self) -> str:
        return f"Async{self._sync!r}"


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
