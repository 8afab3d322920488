"""What one run of a script knows of itself: its execution, and what stands in its places."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from smithers.context import Frame
from smithers.db import SmithersDB
from smithers.runtime.groups import to_the_end
from smithers.runtime.host import Host
from smithers.runtime.place import Place, Places
from smithers.storage.standings import Standing

Left = tuple[Frame, BaseException]


class Script:
    """The script that runs in an execution.

    Attributes:
        host: its database.
        id: the id of the execution.
        places: where its tasks stand.
    """

    def __init__(self, host: Host, id: str, standings: dict[str, Standing]) -> None:
        self.host = host
        self.id = id
        self.places = Places()
        self._standings = standings
        self._left: list[Left] = []
        self._stopping: str | None = None
        self._stop = asyncio.Event()

    @property
    def stopping(self) -> str | None:
        """Why the loop under way is to end, None while it is not."""
        return self._stopping

    def stop(self, reason: str) -> None:
        """Have the loop under way end after this iteration."""
        self._stopping = reason
        self._stop.set()

    def stopped(self) -> None:
        """Take note that the loop has ended."""
        self._stopping = None
        self._stop.clear()

    async def wait_stopping(self) -> None:
        """Wait until the loop under way is to end."""
        await self._stop.wait()

    def standing(self, place: Place) -> Standing | None:
        """Return what an earlier run, or this one, has left in a place."""
        return self._standings.get(str(place))

    def note(self, place: Place, standing: Standing) -> None:
        """Remember what now stands in a place, once it is written."""
        self._standings[str(place)] = standing

    async def begin(self, begin: Callable[[SmithersDB], Frame]) -> Frame:
        """Begin a row, as one transaction, and return its frame, to be entered.

        Where the script is cancelled meanwhile, the row is left as if it had been entered.
        """
        frames: list[Frame] = []
        try:
            await to_the_end(self.host.transact(lambda db: frames.append(begin(db))))
        except asyncio.CancelledError as error:
            for frame in frames:
                self.leave(frame, error)
            raise
        return frames[0]

    async def end(self, end: Callable[[SmithersDB], Any]) -> None:
        """Have the end of a row recorded, also where the script is cancelled meanwhile."""
        await to_the_end(self.host.call(end))

    def leave(self, frame: Frame, error: BaseException) -> None:
        """Leave a row that a cancellation takes the script out of.

        Whether it has failed is not known yet: when the whole run is interrupted it goes on there
        later, otherwise the script goes on elsewhere now, and `settle` has it failed.
        """
        frame.context.leave(frame.id)
        self._left.append((frame, error))

    async def settle(self) -> None:
        """Have what a cancellation took the script out of failed."""
        if self._left:
            left, self._left = self._left, []
            await to_the_end(self.host.transact(lambda db: _fail_all(db, left)))

    async def put(self, place: Place, standing: Standing) -> None:
        """Write what now stands in a place."""
        await self.host.call(lambda db: db.standings.put(self.id, str(place), standing))
        self.note(place, standing)


def _fail_all(db: SmithersDB, left: list[Left]) -> None:
    for frame, error in left:
        leave = {
            "agent": db.agents.leave,
            "phase": db.phases.leave,
            "step": db.steps.leave,
        }[frame.kind]
        leave(frame.id, error)
