"""The difference of two lists as ordered operations: remove, move, insert, update."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from reactive_sqlite.equality import kind_of, same_value

T = TypeVar("T")
Key = Callable[[Any], Hashable]


@dataclass(frozen=True, slots=True)
class Remove(Generic[T]):
    """The item at `index` is gone."""

    index: int
    item: T


@dataclass(frozen=True, slots=True)
class Move(Generic[T]):
    """The item at `origin` is taken out and put back so that it stands at `index`."""

    origin: int
    index: int
    item: T


@dataclass(frozen=True, slots=True)
class Insert(Generic[T]):
    """A new item stands at `index`."""

    index: int
    item: T


@dataclass(frozen=True, slots=True)
class Update(Generic[T]):
    """The item at `index` has the same key as before and another content."""

    index: int
    old: T
    item: T


Step: TypeAlias = Remove[T] | Move[T] | Insert[T] | Update[T]


@dataclass(frozen=True, slots=True)
class Diff(Generic[T]):
    """What makes one list out of another: `steps`, to be taken in order.

    Removals come first (last index first), then moves, insertions (first index first) and
    updates. An index is that of the list as the steps before have left it.
    """

    steps: tuple[Step[T], ...]

    def apply(self, items: Sequence[T]) -> list[T]:
        """Return the list that the steps make of `items`, which is left as it is.

        Raises:
            IndexError: the steps are of another list.
        """
        result = list(items)
        for step in self.steps:
            match step:
                case Remove(index):
                    del result[index]
                case Move(origin, index, item):
                    del result[origin]
                    result.insert(index, item)
                case Insert(index, item):
                    if index > len(result):
                        raise IndexError(f"nothing can be inserted at {index} of {len(result)}")
                    result.insert(index, item)
                case Update(index, _, item):
                    result[index] = item
        return result

    def __bool__(self) -> bool:
        return bool(self.steps)


def diff_lists(old: Sequence[T], new: Sequence[T], key: Key | None = None) -> Diff[T]:
    """Return the steps from `old` to `new`, with as few moves as possible.

    Items of the same key are the same item, moved or updated; without a key, those of the same
    content. Items that share a key are told apart by their order.
    """
    identity = key or frozen
    old_names, new_names = _names(old, identity), _names(new, identity)
    kept = set(old_names) & set(new_names)
    steps: list[Step[T]] = [
        Remove(index, old[index])
        for index in range(len(old) - 1, -1, -1)
        if old_names[index] not in kept
    ]
    before = {name: old[index] for index, name in enumerate(old_names)}
    steps.extend(
        _moves([n for n in old_names if n in kept], [n for n in new_names if n in kept], before)
    )
    steps.extend(Insert(i, new[i]) for i, name in enumerate(new_names) if name not in kept)
    for index, name in enumerate(new_names):
        if name in kept and not same_value(before[name], new[index]):
            steps.append(Update(index, before[name], new[index]))
    return Diff(tuple(steps))


def frozen(value: Any) -> Hashable:
    """Return a hashable stand-in that is equal only for values of the same type and content."""
    kind = kind_of(value)
    if issubclass(kind, dict):
        return dict, tuple([(name, frozen(item)) for name, item in value.items()])
    if kind in (list, tuple):
        return kind, tuple([frozen(item) for item in value])
    return kind, repr(value) if issubclass(kind, float) else value


def _names(items: Sequence[Any], key: Key) -> list[tuple[Hashable, int]]:
    """A name for each item: its key, and the how-many-th of that key it is."""
    seen: Counter[Hashable] = Counter()
    names: list[tuple[Hashable, int]] = []
    for item in items:
        of_item = key(item)
        names.append((of_item, seen[of_item]))
        seen[of_item] += 1
    return names


def _moves(
    old: list[tuple[Hashable, int]], new: list[tuple[Hashable, int]], items: dict[Any, T]
) -> Iterable[Move[T]]:
    """Put `old` into the order of `new`, leaving the longest run that is in order in its place."""
    if old == new:
        return
    position = {name: index for index, name in enumerate(old)}
    order = [position[name] for name in new]
    staying = _longest_increasing(order)
    current = list(range(len(old)))  # numbers of old positions, compared faster than names
    # From the end: whatever stands behind is already right, so "before that one" is exact.
    following: int | None = None
    for number in reversed(order):
        if number not in staying:
            origin = current.index(number)
            del current[origin]
            index = len(current) if following is None else current.index(following)
            current.insert(index, number)
            yield Move(origin, index, items[old[number]])
        following = number


def _longest_increasing(numbers: list[int]) -> set[int]:
    """The members of a longest increasing subsequence, by patience sorting."""
    tails: list[int] = []
    previous: dict[int, int | None] = {}
    for number in numbers:
        at = bisect_left(tails, number)
        previous[number] = tails[at - 1] if at else None
        tails[at : at + 1] = [number]
    members: set[int] = set()
    member: int | None = tails[-1] if tails else None
    while member is not None:
        members.add(member)
        member = previous[member]
    return members
