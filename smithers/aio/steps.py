"""`db.steps`, awaited; what is started runs in the context of the caller."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from reactive_sqlite.asyncquery import AsyncObservableQuery
from reactive_sqlite.face import AsyncFace, awaited
from smithers.aio.twins import begun, left_with, twin
from smithers.records import Step
from smithers.storage.steps import Steps


class AsyncSteps(AsyncFace[Steps]):
    """`db.steps` of an asynchronous database. See `Steps`."""

    begin = awaited(Steps.begin)
    leave = awaited(Steps.leave)
    complete = awaited(Steps.complete)
    skip = awaited(Steps.skip)
    fail = awaited(Steps.fail)
    get = awaited(Steps.get)
    current = awaited(Steps.current)
    is_running = awaited(Steps.is_running)
    list = awaited(Steps.list)

    @twin(Steps.start)
    async def start(self, name: str, *, phase_id: str | None = None) -> str:
        sync = self._sync
        frame = await begun(self._worker, lambda: sync.begin(name, phase_id=phase_id), sync.leave)
        return frame.enter()

    @twin(Steps.open)
    @asynccontextmanager
    async def open(self, name: str, *, phase_id: str | None = None) -> AsyncGenerator[str]:
        id = await self.start(name, phase_id=phase_id)
        async with left_with(self._worker, self._sync.leave, id):
            yield id

    @twin(Steps.observe)
    def observe(
        self, phase_id: str | None = None, *, execution_id: str | None = None
    ) -> AsyncObservableQuery[builtins.list[Step]]:
        return AsyncObservableQuery(
            self._worker, lambda: self._sync.observe(phase_id, execution_id=execution_id)
        )
