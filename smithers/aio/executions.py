"""`db.execution`, awaited; what is started runs in the context of the caller."""

from __future__ import annotations

import builtins
import os
from typing import Any, overload

from reactive_sqlite.asyncquery import AsyncObservableQuery
from reactive_sqlite.face import AsyncFace, awaited
from smithers.aio.twins import begun, twin
from smithers.records import Execution
from smithers.storage.executions import Executions


class AsyncExecutions(AsyncFace[Executions]):
    """`db.execution` of an asynchronous database. See `Executions`."""

    begin = awaited(Executions.begin)
    take_incomplete = awaited(Executions.take_incomplete)
    interrupt = awaited(Executions.interrupt)
    complete = awaited(Executions.complete)
    fail = awaited(Executions.fail)
    finish = awaited(Executions.finish)
    cancel = awaited(Executions.cancel)
    current = awaited(Executions.current)
    get = awaited(Executions.get)
    list = awaited(Executions.list)
    find_incomplete = awaited(Executions.find_incomplete)
    retake = awaited(Executions.retake)
    let_go = awaited(Executions.let_go)

    @twin(Executions.start)
    async def start(
        self, name: str, file_path: str | os.PathLike[str] | None = None, config: Any = None
    ) -> str:
        sync = self._sync
        frame = await begun(
            self._worker,
            lambda: sync.begin(name, file_path, config),
            lambda id, _: sync.cancel(id, "its start was cancelled"),
        )
        return frame.enter()

    @twin(Executions.resume)
    async def resume(self, id: str) -> Execution:
        (await self.retake(id)).enter()
        found = await self.get(id)
        assert found is not None
        return found

    @overload
    def observe(self, id: str) -> AsyncObservableQuery[Execution | None]: ...
    @overload
    def observe(
        self, id: None = None, *, limit: int | None = 20
    ) -> AsyncObservableQuery[builtins.list[Execution]]: ...
    @twin(Executions.observe)
    def observe(
        self, id: str | None = None, *, limit: int | None = 20
    ) -> AsyncObservableQuery[Any]:
        if id is not None:
            return AsyncObservableQuery(self._worker, lambda: self._sync.observe(id))
        return AsyncObservableQuery(self._worker, lambda: self._sync.observe(limit=limit))
