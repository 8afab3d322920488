"""`db.phases`, awaited; what is started runs in the context of the caller."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from reactive_sqlite.asyncquery import AsyncObservableQuery
from reactive_sqlite.face import AsyncFace, awaited
from smithers.aio.twins import begun, left_with, twin
from smithers.records import Phase
from smithers.storage.phases import Phases


class AsyncPhases(AsyncFace[Phases]):
    """`db.phases` of an asynchronous database. See `Phases`."""

    begin = awaited(Phases.begin)
    rejoin = awaited(Phases.rejoin)
    leave = awaited(Phases.leave)
    complete = awaited(Phases.complete)
    skip = awaited(Phases.skip)
    fail = awaited(Phases.fail)
    get = awaited(Phases.get)
    current = awaited(Phases.current)
    is_running = awaited(Phases.is_running)
    list = awaited(Phases.list)

    @twin(Phases.start)
    async def start(self, name: str, iteration: int = 0, *, execution_id: str | None = None) -> str:
        sync = self._sync
        frame = await begun(
            self._worker,
            lambda: sync.begin(name, iteration, execution_id=execution_id),
            sync.leave,
        )
        return frame.enter()

    @twin(Phases.open)
    @asynccontextmanager
    async def open(
        self, name: str, iteration: int = 0, *, execution_id: str | None = None
    ) -> AsyncGenerator[str]:
        id = await self.start(name, iteration, execution_id=execution_id)
        async with left_with(self._worker, self._sync.leave, id):
            yield id

    @twin(Phases.observe)
    def observe(
        self, execution_id: str | None = None
    ) -> AsyncObservableQuery[builtins.list[Phase]]:
        return AsyncObservableQuery(self._worker, lambda: self._sync.observe(execution_id))
