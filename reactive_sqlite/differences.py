"""A stream of lists as the stream of their differences."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

from reactivex import Observable, abc

from reactive_sqlite.diff import Diff, Key, diff_lists
from reactive_sqlite.equality import kind_of


class Lists(Protocol):
    """What emits lists, newest value first told at once."""

    def subscribe(
        self,
        on_next: Callable[[Any], None],
        on_error: Callable[[Exception], None],
        on_completed: Callable[[], None],
        *,
        scheduler: abc.SchedulerBase | None,
    ) -> abc.DisposableBase: ...


def differences(lists: Lists, key: Callable[[Sequence[Any]], Key | None]) -> Observable[Diff[Any]]:
    """Emit for each list what makes it out of the one before; the first is made out of [].

    Args:
        key: asked with each new list how its items are named.
    """

    def subscribe(
        observer: abc.ObserverBase[Diff[Any]], scheduler: abc.SchedulerBase | None
    ) -> abc.DisposableBase:
        known: list[Any] = []

        def told(value: Any) -> None:
            if kind_of(value) is not list:
                observer.on_error(TypeError("diffs() is for queries whose value is a list"))
                return
            nonlocal known
            before, known = known, list(map(_copied, value))
            difference = diff_lists(before, known, key(known))
            if difference or not before:
                observer.on_next(difference)

        return lists.subscribe(told, observer.on_error, observer.on_completed, scheduler=scheduler)

    return Observable(subscribe)


def by_columns(columns: tuple[str, ...]) -> Key:
    """Name rows by the values of some of their columns."""

    def key(row: dict[str, Any]) -> Hashable:
        return tuple([row[column] for column in columns])

    return key


def _copied(item: Any) -> Any:
    # Emitted rows are shared: somebody who changes one must not change what is compared.
    return item.copy() if kind_of(item) is dict else item
