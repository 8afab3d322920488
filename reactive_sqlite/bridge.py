"""Signals to reactivex observables and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .arguments import check_callable, check_has
from .signals.effect import create_effect
from .signals.owner import create_root, get_owner, on_cleanup, untrack
from .signals.signal import Accessor, Signal

if TYPE_CHECKING:
    import reactivex
    from reactivex import abc

T = TypeVar("T")


def to_observable(get: Callable[[], T]) -> reactivex.Observable[T]:
    """Make an observable of an accessor: the value at once, then each change, to every subscriber.

    Each subscription is an effect. It ends with the subscription, and with the owner around the
    `subscribe` call, if there is one: the observer is then told that it is complete. An error of
    the accessor goes to `on_error`, which as always ends the subscription, although a memo might
    recover.

        to_observable(total).pipe(operators.debounce(0.5)).subscribe(save)
    """
    check_callable(get, "to_observable: get")
    import reactivex
    from reactivex.disposable import Disposable

    def subscribe(observer: abc.ObserverBase[T], _: Any = None) -> abc.DisposableBase:
        ended = False

        def emit() -> None:
            try:
                value = get()
            except Exception as error:
                failure = error
                untrack(lambda: observer.on_error(failure))
            else:
                untrack(lambda: observer.on_next(value))

        def end() -> None:
            nonlocal ended
            if not ended:
                ended = True
                dispose()

        def complete() -> None:
            if not ended:
                end()
                observer.on_completed()

        def start(dispose: Callable[[], None]) -> Callable[[], None]:
            create_effect(emit, name="to_observable")
            return dispose

        dispose = create_root(start)
        if get_owner() is not None:
            on_cleanup(complete)
        return Disposable(end)

    return reactivex.Observable(subscribe)


def from_observable(
    observable: reactivex.Observable[T], initial: T | None = None
) -> Accessor[T | None]:
    """Make an accessor of an observable: `initial`, then its newest value.

    It subscribes at once, until the owner around this call is disposed. After an error the accessor
    raises it; after completion it keeps the last value. Every emission counts as a change only if
    the value differs, as with `create_signal`.

        seconds = from_observable(reactivex.interval(1.0), 0)
    """
    check_has(observable, "subscribe", "from_observable: observable")
    return _Received(observable, initial)


class _Received(Generic[T]):
    """The accessor of `from_observable`."""

    __slots__ = ("error", "value")

    def __init__(self, observable: reactivex.Observable[T], initial: T | None) -> None:
        self.value: Signal[T | None] = Signal(initial, None, "from_observable")
        self.error: Signal[Exception | None] = Signal(None, None, None)
        subscription = untrack(
            lambda: observable.subscribe(on_next=self.value.put, on_error=self.error.put)
        )
        if get_owner() is not None:
            on_cleanup(subscription.dispose)

    def __call__(self) -> T | None:
        error = self.error()
        if error is not None:
            raise error
        return self.value()

    def peek(self) -> T | None:
        return untrack(self)
