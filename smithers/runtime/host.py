"""The asynchronous database as workflow scripts see it: the synchronous one, on its worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reactive_sqlite.asyncquery import AsyncObservableQuery
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.worker import Worker
from smithers.db import SmithersDB

R = TypeVar("R")


class Host:
    """Runs functions of the synchronous database on its worker, in the context of the caller.

    Nothing that they start runs in that context afterwards: enter the frame that they return.
    """

    def __init__(self, db: SmithersDB, worker: Worker) -> None:
        self._db = db
        self._worker = worker

    async def call(self, fn: Callable[[SmithersDB], R]) -> R:
        """Return what `fn(db)` returns."""
        return await self._worker.run(fn, self._db)

    async def transact(self, fn: Callable[[SmithersDB], R]) -> R:
        """Return what `fn(db)` returns, as one transaction."""

        def whole(db: SmithersDB) -> R:
            with db.transaction():
                return fn(db)

        return await self._worker.run(whole, self._db)

    def observe(self, make: Callable[[SmithersDB], ObservableQuery[R]]) -> AsyncObservableQuery[R]:
        """Observe a query of the synchronous database on the event loop."""
        return AsyncObservableQuery(self._worker, lambda: make(self._db))
