"""`db.agents`, awaited; what is started runs in the context of the caller."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from reactive_sqlite.asyncquery import AsyncObservableQuery
from reactive_sqlite.face import AsyncFace, awaited
from smithers.aio.twins import begun, left_with, twin
from smithers.records import Agent
from smithers.storage.agents import Agents


class AsyncAgents(AsyncFace[Agents]):
    """`db.agents` of an asynchronous database. See `Agents`."""

    begin = awaited(Agents.begin)
    leave = awaited(Agents.leave)
    progress = awaited(Agents.progress)
    complete = awaited(Agents.complete)
    fail = awaited(Agents.fail)
    cancel = awaited(Agents.cancel)
    get = awaited(Agents.get)
    current = awaited(Agents.current)
    is_running = awaited(Agents.is_running)
    list = awaited(Agents.list)

    @twin(Agents.start)
    async def start(
        self,
        prompt: str,
        model: str = "sonnet",
        system_prompt: str | None = None,
        *,
        execution_id: str | None = None,
        phase_id: str | None = None,
        step_id: str | None = None,
    ) -> str:
        sync = self._sync
        frame = await begun(
            self._worker,
            lambda: sync.begin(
                prompt,
                model,
                system_prompt,
                execution_id=execution_id,
                phase_id=phase_id,
                step_id=step_id,
            ),
            sync.leave,
        )
        return frame.enter()

    @twin(Agents.open)
    @asynccontextmanager
    async def open(
        self,
        prompt: str,
        model: str = "sonnet",
        system_prompt: str | None = None,
        *,
        execution_id: str | None = None,
        phase_id: str | None = None,
        step_id: str | None = None,
    ) -> AsyncGenerator[str]:
        id = await self.start(
            prompt,
            model,
            system_prompt,
            execution_id=execution_id,
            phase_id=phase_id,
            step_id=step_id,
        )
        async with left_with(self._worker, self._sync.leave, id):
            yield id

    @twin(Agents.observe)
    def observe(
        self, execution_id: str | None = None
    ) -> AsyncObservableQuery[builtins.list[Agent]]:
        return AsyncObservableQuery(self._worker, lambda: self._sync.observe(execution_id))

    @twin(Agents.observe_one)
    def observe_one(self, id: str) -> AsyncObservableQuery[Agent | None]:
        return AsyncObservableQuery(self._worker, lambda: self._sync.observe_one(id))
