"""The rows of one agent, its tool calls and the agents below it, as the worker writes them."""

from __future__ import annotations

import contextvars
from typing import Any

from smithers.clock import utc_now
from smithers.context import Frame
from smithers.db import Recording, SmithersDB


class Book:
    """The rows of one agent and those below it.

    Rows are known by the ids that a runner gives: those of tool calls, and for an agent that of the
    call that has started it. None is the agent itself.

    Attributes:
        now: when what is written next has happened.
    """

    def __init__(self, frame: Frame) -> None:
        self.now = utc_now()
        self._frames: dict[str | None, Frame] = {None: frame}
        self._open_calls: dict[str, str] = {}
        self._ended: list[str] = []
        self._rows: Recording | None = None

    def open(self, db: SmithersDB) -> None:
        """Write through a database from now on."""
        if self._rows is None:
            self._rows = db.recordings.by(lambda: self.now)

    @property
    def rows(self) -> Recording:
        """What it writes through."""
        assert self._rows is not None
        return self._rows

    def saved(self) -> tuple[dict[str | None, Frame], dict[str, str]]:
        """Return what `restore` takes, should the transaction be rolled back."""
        return dict(self._frames), dict(self._open_calls)

    def restore(self, saved: tuple[dict[str | None, Frame], dict[str, str]]) -> None:
        """Forget what was never written after all."""
        self._frames, self._open_calls = saved
        self._ended = []

    def take_ended(self) -> list[str]:
        """Return the ids of the rows of the tool calls that have ended since this was asked."""
        ended, self._ended = self._ended, []
        return ended

    def start_tool(self, call: str, name: str, input: Any, agent: str | None) -> None:
        """Start a tool call of an agent."""
        self._open_calls[call] = self.rows.tools.start(self._frame(agent).id, name, input)

    def complete_tool(self, call: str, output: Any, summary: str | None) -> None:
        """End a tool call with its output."""
        id = self._open_calls.pop(call)
        self.rows.tools.complete(id, output, summary)
        self._ended.append(id)

    def fail_tool(self, call: str, error: str) -> None:
        """End a tool call with an error."""
        id = self._open_calls.pop(call)
        self.rows.tools.fail(id, error)
        self._ended.append(id)

    def start_agent(self, agent: str, prompt: str, model: str, parent: str | None) -> None:
        """Start an agent below another one."""

        def begin() -> Frame:
            self._frame(parent).enter()
            return self.rows.agents.begin(prompt, model)

        # It stands below what runs in the context, and this one must not be changed.
        self._frames[agent] = contextvars.copy_context().run(begin)

    def end_agent(self, agent: str, output: str, *, error: str | None, cancelled: bool) -> None:
        """End an agent below: completed, unless there is an error or it was cancelled."""
        frame = self._frames.pop(agent)
        if cancelled:
            self.rows.agents.cancel(frame.id)
        elif error is not None:
            self.rows.agents.fail(frame.id, error)
        else:
            self.rows.agents.complete(frame.id, output)

    def note(self, agent: str | None, values: dict[str, Any]) -> None:
        """Note what is known of an agent so far: `cost`, and what `Agents.progress` takes."""
        frame = self._frames.get(agent)
        if frame is None:
            return  # ended before it could be noted
        known = dict(values)  # it may be written again
        if "cost" in known:
            known["tokens"] = {**known.get("tokens", {}), "cost_usd": known.pop("cost")}
        self.rows.agents.progress(frame.id, **known)

    def end_open(self) -> None:
        """Cancel what nobody has said the end of."""
        self.now = utc_now()
        for id in self._open_calls.values():
            if self.rows.tools.is_running(id):
                self.rows.tools.cancel(id)
        for agent, frame in list(self._frames.items()):
            if agent is not None and self.rows.agents.is_running(frame.id):
                self.rows.agents.cancel(frame.id)
        self._open_calls.clear()

    def _frame(self, agent: str | None) -> Frame:
        return self._frames.get(agent) or self._frames[None]
