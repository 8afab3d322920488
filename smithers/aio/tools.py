"""`db.tools`, awaited; observers served on the loop."""

from __future__ import annotations

import builtins

from reactive_sqlite.asyncquery import AsyncObservableQuery
from reactive_sqlite.face import AsyncFace, awaited
from smithers.aio.twins import twin
from smithers.records import ToolCall
from smithers.storage.tools import Tools


class AsyncTools(AsyncFace[Tools]):
    """`db.tools` of an asynchronous database. See `Tools`."""

    start = awaited(Tools.start)
    complete = awaited(Tools.complete)
    fail = awaited(Tools.fail)
    cancel = awaited(Tools.cancel)
    get = awaited(Tools.get)
    get_output = awaited(Tools.get_output)
    is_running = awaited(Tools.is_running)
    list = awaited(Tools.list)

    @twin(Tools.observe)
    def observe(self, agent_id: str) -> AsyncObservableQuery[builtins.list[ToolCall]]:
        return AsyncObservableQuery(self._worker, lambda: self._sync.observe(agent_id))
