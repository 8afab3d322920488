"""Resources: values that are fetched asynchronously whenever their source changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ..arguments import check_callable
from .effect import create_effect
from .owner import on_cleanup, untrack
from .scheduler import batch
from .signal import Signal

if TYPE_CHECKING:
    import asyncio

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Fetcher(Protocol[S_contra, T_co]):
    """What a resource calls to get its value."""

    def __call__(self, value: S_contra, /, *, refetching: bool) -> Awaitable[T_co]:
        """Fetch for the source's value; `refetching` tells that `refetch` asked for it."""
        ...


def create_resource(
    source: Callable[[], S | None],
    fetcher: Fetcher[S, T],
    *,
    initial: T | None = None,
) -> Resource[T]:
    """Fetch a value for what `source` gives, now and after each change of it.

    `fetcher(value, refetching=False)` is awaited as a task of the running event loop (RuntimeError
    without one), untracked. A source of None fetches nothing. A change of the source cancels the
    fetch under way, and its answer never overwrites a newer one. The owner's disposal cancels too.

        user = create_resource(user_id, fetch_user)
        create_effect(lambda: print("..." if user.loading() else user()))
    """
    check_callable(source, "create_resource: source")
    check_callable(fetcher, "create_resource: fetcher")
    return Resource(source, fetcher, initial)


class Resource(Generic[T]):
    """A fetched value and what is known about it; all that reads it also subscribes.

    Made by `create_resource`.
    """

    def __init__(
        self, source: Callable[[], Any], fetcher: Fetcher[Any, T], initial: T | None
    ) -> None:
        import asyncio  # a loop is running, so this loads nothing

        self._loop = asyncio.get_running_loop()
        self._source = source
        self._fetcher = fetcher
        self._value: Signal[T | None] = Signal(initial, None, None)
        self._error: Signal[Exception | None] = Signal(None, None, None)
        self._loading: Signal[bool] = Signal(False, None, None)
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[None]] = []
        # The fetch that counts. Raising it makes the answers of all before it late.
        self._ticket = 0
        self._effect = create_effect(self._follow, name="resource")

    def __call__(self) -> T | None:
        """Return the value: `initial` before the first answer, the last one during later fetches.

        Raises the error of the last fetch when it failed and no other is under way.
        """
        error = self._error()
        if error is not None and not self._loading():
            raise error
        return self._value()

    def peek(self) -> T | None:
        """Return what calling it returns, without subscribing."""
        return untrack(self)

    def latest(self) -> T | None:
        """Return the last value there was, whatever has gone wrong since."""
        return self._value()

    def loading(self) -> bool:
        """Tell whether a fetch is under way."""
        return self._loading()

    def error(self) -> Exception | None:
        """Return the error of the last fetch that ended, or None."""
        return self._error()

    def refetch(self) -> asyncio.Future[None]:
        """Fetch again for the source as it is; on the loop's thread.

        What it returns may be awaited: it is done when nothing is loading any more.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(done)
        value = untrack(self._source)
        self._cancel()
        self._load(value, refetching=True)
        return done

    def mutate(self, value: T | Callable[[T | None], T | None] | None) -> T | None:
        """Set the value without a fetch; a function is given the present one. Return the value."""
        with batch():
            self._error.set(None)
            return self._value.set(value)

    def dispose(self) -> None:
        """Follow the source no longer, and cancel the fetch under way."""
        self._effect.dispose()

    def _follow(self) -> None:
        on_cleanup(self._cancel)
        value = self._source()
        untrack(lambda: self._load(value, refetching=False))

    def _load(self, value: Any, *, refetching: bool) -> None:
        """Begin a fetch, from whichever thread the source has changed on."""
        ticket = self._ticket
        self._loading.set(value is not None)
        self._on_loop(lambda: self._start(ticket, value, refetching=refetching))

    def _start(self, ticket: int, value: Any, *, refetching: bool) -> None:
        if ticket != self._ticket:
            return
        if value is None:
            self._release()
        else:
            self._task = self._loop.create_task(self._fetch(ticket, value, refetching=refetching))

    async def _fetch(self, ticket: int, value: Any, *, refetching: bool) -> None:
        import asyncio

        answer: T | None = None
        failure: Exception | None = None
        arrived = False
        try:
            answer = await self._fetcher(value, refetching=refetching)
            arrived = True
        except asyncio.CancelledError:
            if ticket != self._ticket:
                raise  # by us
        except Exception as error:
            failure = error
        if ticket != self._ticket:
            return
        try:
            with batch():
                if arrived:
                    self._value.put(answer)
                self._error.put(failure)
                self._loading.put(False)
        except Exception as error:
            self._loop.call_exception_handler(
                {"message": "an effect failed after a fetch", "exception": error}
            )
        self._release()

    def _cancel(self) -> None:
        """Make the fetch under way late, and cancel it."""
        self._ticket += 1
        task, self._task = self._task, None
        if task is not None and not self._loop.is_closed():
            self._on_loop(task.cancel)
        if self._effect_ended():
            self._loading.set(False)
            self._on_loop(self._release)

    def _effect_ended(self) -> bool:
        return hasattr(self, "_effect") and self._effect.fn is None

    def _release(self) -> None:
        """Tell those who await a refetch that nothing is loading any more."""
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            if not done.done():
                done.set_result(None)

    def _on_loop(self, act: Callable[[], object]) -> None:
        import asyncio

        if asyncio._get_running_loop() is self._loop:
            act()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(act)
