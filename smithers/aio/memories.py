"""`db.memories`, awaited; observers served on the loop."""

from __future__ import annotations

import builtins

from reactive_sqlite.asyncquery import AsyncObservableQuery
from reactive_sqlite.face import AsyncFace, awaited
from smithers.aio.twins import twin
from smithers.db import Memories
from smithers.records import Memory


class AsyncMemories(AsyncFace[Memories]):
    """`db.memories` of an asynchronous database. See `Memories`."""

    add = awaited(Memories.add)
    add_fact = awaited(Memories.add_fact)
    add_learning = awaited(Memories.add_learning)
    add_preference = awaited(Memories.add_preference)
    add_context = awaited(Memories.add_context)
    add_skill = awaited(Memories.add_skill)
    update = awaited(Memories.update)
    delete = awaited(Memories.delete)
    get = awaited(Memories.get)
    list = awaited(Memories.list)
    search = awaited(Memories.search)
    stats = awaited(Memories.stats)

    @property
    def session(self) -> str:
        """The session whose memories are seen; another handle may be opened with it."""
        return self._sync.session

    @property
    def project(self) -> str:
        """The project whose memories are seen."""
        return self._sync.project

    @twin(Memories.observe)
    def observe(
        self, category: str | None = None, scope: str | None = None, limit: int | None = 100
    ) -> AsyncObservableQuery[builtins.list[Memory]]:
        return AsyncObservableQuery(
            self._worker, lambda: self._sync.observe(category, scope, limit)
        )

    @twin(Memories.observe_search)
    def observe_search(
        self,
        query: str,
        category: str | None = None,
        scope: str | None = None,
        limit: int | None = 20,
    ) -> AsyncObservableQuery[builtins.list[Memory]]:
        return AsyncObservableQuery(
            self._worker, lambda: self._sync.observe_search(query, category, scope, limit)
        )
