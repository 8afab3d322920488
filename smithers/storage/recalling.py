"""Recalling: memories got by key, listed, counted, and found by full text."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from typing import Any, TypedDict

from reactive_sqlite.arguments import shown
from reactive_sqlite.observation import ObservableQuery
from smithers.clock import to_text
from smithers.codec import check_key, check_limit
from smithers.memory.merged import MergedQuery
from smithers.memory.search import Search, read_search
from smithers.memory.shelves import listing, searching
from smithers.memory.shelving import NEAREST_FIRST, Shelves, check_category, check_scope
from smithers.records import Memory
from smithers.schema.memories import CATEGORIES, SCOPES
from smithers.workspace import Workspace

_NO_LIMIT = -1
_Lists = Sequence[builtins.list[Memory]]


class MemoryStats(TypedDict):
    """How many memories are to be seen: in all, of each category and of each scope."""

    total: int
    by_category: dict[str, int]
    by_scope: dict[str, int]


class Recalling:
    """The reading half of `db.memories`."""

    def __init__(self, workspace: Workspace, shelves: Shelves) -> None:
        self._workspace = workspace
        self._shelves = shelves

    @property
    def session(self) -> str:
        """The session whose memories are seen; another handle may be opened with it."""
        return self._shelves.session

    @property
    def project(self) -> str:
        """The project whose memories are seen."""
        return self._shelves.project

    def get(self, category: str, key: str, scope: str | None = None) -> Memory | None:
        """Return a memory, None when there is none.

        Without a scope it is looked for in the session, then the project, then globally. That it
        was asked for is its `accessed_at` from then on, where the database may be written.

        >>> db.memories.get("fact", "api-endpoint").content
        'The API is at /api/v2'
        """
        check_category(category)
        check_key(key)
        if scope is not None:
            check_scope(scope)
        shelves = self._shelves
        for looked_for in NEAREST_FIRST if scope is None else (scope,):
            values = {
                "scope": looked_for,
                "belongs_to": shelves.belongs_to(looked_for),
                "category": category,
                "key": key,
            }
            for shelf in dict.fromkeys((shelves.home(looked_for), shelves.main)):
                memory = shelf.get(values)
                if memory is not None:
                    if self._workspace.read_only:
                        return memory
                    return shelf.access(memory, to_text(self._workspace.now()))
        return None

    def list(
        self, category: str | None = None, scope: str | None = None, limit: int | None = 100
    ) -> builtins.list[Memory]:
        """List memories, those changed last first; `limit=None` lists all.

        >>> [memory.key for memory in db.memories.list("fact")]
        ['api-endpoint']
        """
        narrowed = _narrowed(category, scope, limit)
        lists = [shelf.newest(narrowed, _bound(limit)) for shelf in self._shelves.asked(scope)]
        return _newest_first(lists, limit)

    def search(
        self,
        query: str,
        category: str | None = None,
        scope: str | None = None,
        limit: int | None = 20,
    ) -> builtins.list[Memory]:
        """List memories in which all words of any text occur, in key or content, best first.

        Case, accents of Latin letters, punctuation and the order of the words do not count, and a
        word of two letters or more may be the beginning of a longer one. Text in scripts that put
        no spaces between words is searched for each word at any place. Without a word nothing is
        found. Hits in the key weigh more. What several files hold is ranked in each, and then
        taken in turn. `limit=None` lists all.

        >>> [memory.key for memory in db.memories.search("the api endpoint?")]
        ['api-endpoint']
        """
        search, narrowed = _read(query), _narrowed(category, scope, limit)
        if not search.words:
            return []
        lists = [
            shelf.search(search, narrowed, _bound(limit)) for shelf in self._shelves.asked(scope)
        ]
        return _best_first(lists, limit)

    def stats(self) -> MemoryStats:
        """Count what is to be seen, in all, by category and by scope.

        >>> db.memories.stats()["total"]
        3
        """
        by_category, by_scope = dict.fromkeys(CATEGORIES, 0), dict.fromkeys(SCOPES, 0)
        for shelf in self._shelves.asked():
            for category, scope, count in shelf.count():
                by_category[category] += count
                by_scope[scope] += count
        return {
            "total": sum(by_scope.values()),
            "by_category": by_category,
            "by_scope": by_scope,
        }

    def observe(
        self, category: str | None = None, scope: str | None = None, limit: int | None = 100
    ) -> ObservableQuery[builtins.list[Memory]]:
        """Observe what `list` gives; see `observe_search`.

        >>> db.memories.observe("fact").subscribe(print)
        """
        query = listing(_narrowed(category, scope, limit), _bound(limit))
        return self._observed(query, scope, partial(_newest_first, limit=limit))

    def observe_search(
        self,
        query: str,
        category: str | None = None,
        scope: str | None = None,
        limit: int | None = 20,
    ) -> ObservableQuery[builtins.list[Memory]]:
        """Observe what `search` gives, in whichever file and by whichever process it changes.

        What expires is gone from the next value on; the mere passing of time gives none.

        >>> db.memories.observe_search("api endpoint").subscribe(print)
        """
        asked = searching(_read(query), _narrowed(category, scope, limit), _bound(limit))
        return self._observed(asked, scope, partial(_best_first, limit=limit))

    def _observed(
        self,
        query: tuple[str, Mapping[str, Any]],
        scope: str | None,
        merge: Callable[[_Lists], builtins.list[Memory]],
    ) -> ObservableQuery[builtins.list[Memory]]:
        make = partial(self._shelves.main.observed, query=query)
        main, stores = make(self._workspace.database), self._shelves.stores(scope)
        return MergedQuery(main, stores, make, merge) if stores else main


def _narrowed(category: str | None, scope: str | None, limit: int | None) -> dict[str, str]:
    check_limit(limit)
    narrowed: dict[str, str] = {}
    if category is not None:
        check_category(category)
        narrowed["category"] = category
    if scope is not None:
        check_scope(scope)
        narrowed["scope"] = scope
    return narrowed


def _bound(limit: int | None) -> int:
    return _NO_LIMIT if limit is None else limit


def _read(query: object) -> Search:
    if not isinstance(query, str):
        raise TypeError(f"query is a str, not {type(query).__name__}: {shown(query)}")
    return read_search(query)


def _newest_first(lists: _Lists, limit: int | None) -> builtins.list[Memory]:
    every = chain.from_iterable(_once(lists))
    return sorted(every, key=lambda memory: memory.updated_at, reverse=True)[:limit]


def _best_first(lists: _Lists, limit: int | None) -> builtins.list[Memory]:
    # How well something fits is measured against the rest of its file, so no measures of two files
    # are compared, only places.
    places = chain.from_iterable(zip_longest(*_once(lists)))
    return [*islice((memory for memory in places if memory is not None), limit)]


def _once(lists: _Lists) -> Iterator[builtins.list[Memory]]:
    """Leave out what has taken the place of, in a later file, under the same name."""
    taken: set[tuple[str, str, str]] = set()
    kept: builtins.list[builtins.list[Memory]] = []
    for memories in reversed(lists):
        names = [(memory.category, memory.scope, memory.key) for memory in memories]
        kept.append([m for m, name in zip(memories, names, strict=True) if name not in taken])
        taken.update(names)
    return reversed(kept)
