"""`db.approvals`, awaited."""

from __future__ import annotations

import builtins

from reactive_sqlite.asyncquery import AsyncObservableQuery
from reactive_sqlite.face import AsyncFace, awaited
from smithers.aio.twins import twin
from smithers.records import Approval
from smithers.storage.approvals import Approvals


class AsyncApprovals(AsyncFace[Approvals]):
    """`db.approvals` of an asynchronous database. See `Approvals`."""

    request = awaited(Approvals.request)
    approve = awaited(Approvals.approve)
    deny = awaited(Approvals.deny)
    get = awaited(Approvals.get)
    list = awaited(Approvals.list)

    @twin(Approvals.observe)
    def observe(self, status: str | None = None) -> AsyncObservableQuery[builtins.list[Approval]]:
        return AsyncObservableQuery(self._worker, lambda: self._sync.observe(status))

    @twin(Approvals.observe_one)
    def observe_one(self, id: str) -> AsyncObservableQuery[Approval | None]:
        return AsyncObservableQuery(self._worker, lambda: self._sync.observe_one(id))
