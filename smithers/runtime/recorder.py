"""The recorder of an agent: what it does, as it tells it, written in batches, in order.

Telling costs next to nothing and never fails. One job on the database's worker writes what has
been told since the last one, in one transaction; the pause before the next grows with what the
last one took, so that recording takes a bounded part of a core however much there is to record.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from reactive_sqlite.arguments import shown
from reactive_sqlite.dialect import sqlite3
from reactive_sqlite.errors import ReactiveError
from smithers.clock import utc_now
from smithers.context import Frame
from smithers.db import SmithersDB
from smithers.errors import InvalidStatus, OwnershipLost
from smithers.failure import writable
from smithers.records import ToolCall
from smithers.runtime.book import Book
from smithers.runtime.host import Host
from smithers.runtime.usage import Usage

OnTool = Callable[[ToolCall], Any | Awaitable[Any]]

# Seconds from what is told to its commit, at least; and how much longer than it took is rested.
PAUSE = 0.15
_REST = 30
# So many times in a row may writing fail before somebody is told; it goes on being tried.
_PATIENCE = 5
_LONGEST_PAUSE = 5.0
_SHOWN = 1_000


class EndedElsewhere(Exception):
    """Somebody else has ended the agent's row, so it is to stop."""


class AgentRecorder:
    """Writes what one agent does, told by its runner, into its row and those of its tools.

    What an agent started by this one does is told under the id of the tool call that started it,
    as `agent`. Nothing raises and nothing waits; what cannot be written goes to the event loop's
    exception handler, and into `errors`.

    >>> recorder.tool_started("call-1", "Bash", {"command": "pytest"})
    >>> recorder.tool_ended("call-1", "12 passed")
    >>> recorder.text("All tests pass.")

    Attributes:
        stopped: done when the agent has to stop, with the exception that says why.
        errors: what could not be recorded.
        session_id: the session of the model, as far as it was told.
    """

    def __init__(self, host: Host, frame: Frame, on_tool: OnTool | None = None) -> None:
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.errors: list[Exception] = []
        self.session_id: str | None = None
        self._host = host
        self._id = frame.id
        self._book = Book(frame)
        self._on_tool = on_tool
        self._events: deque[_Event] = deque()
        self._agents: dict[str | None, _Told] = {None: _Told()}
        self._calls: set[str] = set()
        self._something = asyncio.Event()
        self._urgent = asyncio.Event()
        self._failures = 0
        self._took = 0.0
        self._writing = asyncio.Lock()
        self._handled: asyncio.Queue[ToolCall] = asyncio.Queue()
        self._tasks = [asyncio.create_task(self._write_on())]
        if on_tool is not None:
            self._tasks.append(asyncio.create_task(self._hand_on(on_tool)))

    # -- what a runner tells ---------------------------------------------------------------------

    def text(self, text: str, *, agent: str | None = None) -> None:
        """Tell more of what the agent says."""
        told = self._told(agent)
        told.text.append(writable(text))
        told.changed.add("output")
        self._something.set()

    def session(self, session_id: str) -> None:
        """Tell the session of the model, with which a later run goes on; written at once."""
        if session_id and session_id != self.session_id:
            self.session_id = writable(session_id)
            self._told(None).changed.add("session_id")
            self._something.set()
            self._urgent.set()

    def turns(self, turns: int, *, agent: str | None = None) -> None:
        """Tell how many turns it has taken so far."""
        told = self._told(agent)
        told.turns = turns
        told.changed.add("turns")
        self._something.set()

    def tokens(
        self, message_id: str, tokens: Mapping[str, int], *, agent: str | None = None
    ) -> None:
        """Tell the tokens of one message: input, output, cache_read, cache_write.

        A message may be told again, and counts once.
        """
        told = self._told(agent)
        told.usage.add(message_id, tokens)
        told.changed.add("tokens")
        self._something.set()

    def settle(self, tokens: Mapping[str, int]) -> None:
        """Tell the tokens of all messages since this was last told."""
        told = self._told(None)
        told.usage.settle(tokens)
        told.changed.add("tokens")
        self._something.set()

    def cost(self, cost_usd: float, *, session: tuple[str, float] | None = None) -> None:
        """Tell what it has cost so far, in US dollars.

        `session` is a session of the model and its running total, from which the next agent in
        it is counted.
        """
        told = self._told(None)
        told.cost = cost_usd
        told.changed.add("cost_usd")
        if session is not None:
            self._tell(lambda book: book.rows.sessions.note_cost(*session))
        self._something.set()

    def tool_started(
        self, call: str, name: str, input: Any = None, *, agent: str | None = None
    ) -> None:
        """Tell that a tool is called, under an id of the caller's choice."""
        if call in self._calls:
            return
        self._calls.add(call)
        name = writable(name) or "?"
        self._tell(
            lambda book: book.start_tool(call, name, input, agent),
            lambda book, _: book.start_tool(call, name, repr(input)[:_SHOWN], agent),
        )

    def tool_ended(
        self,
        call: str,
        output: Any = None,
        *,
        error: str | None = None,
        summary: str | None = None,
    ) -> None:
        """Tell that a tool has ended, with its output or with an error."""
        if call not in self._calls:
            return  # of a turn before this run
        self._calls.discard(call)
        if error is not None:
            self._tell(lambda book: book.fail_tool(call, error))
        else:
            self._tell(
                lambda book: book.complete_tool(
                    call,
                    "" if output is None else output,
                    None if summary is None else writable(summary),
                ),
                lambda book, failed: book.fail_tool(
                    call, f"its output could not be recorded: {type(failed).__name__}: {failed}"
                ),
            )

    def agent_started(
        self, agent: str, prompt: str, *, model: str, parent: str | None = None
    ) -> None:
        """Tell that this agent has started another one, by the tool call `agent`."""
        if agent in self._agents:
            return
        self._agents[agent] = _Told()
        text = writable(prompt)
        self._tell(lambda book: book.start_agent(agent, text, model, parent))

    def agent_ended(
        self,
        agent: str,
        output: str | None = None,
        *,
        error: str | None = None,
        cancelled: bool = False,
    ) -> None:
        """Tell that an agent started by this one has ended; without `output`, with its text."""
        told = self._agents.get(agent)
        if told is None or told.ended:
            return
        told.ended = True
        told.changed.clear()
        values = told.values({"turns", "output"})
        final = values.pop("output") if output is None else writable(output)
        spent = dict(told.usage.total)

        def end(book: Book) -> None:
            book.note(agent, {**values, "tokens": spent})
            book.end_agent(agent, final, error=error, cancelled=cancelled)

        self._tell(end)

    # -- what the caller of a runner does --------------------------------------------------------

    def report(self, error: Exception) -> None:
        """Tell of an error that must not stop the agent."""
        self.errors.append(error)
        context = {
            "message": f"not all of what agent {shown(self._id)} does could be recorded",
            "exception": error,
        }
        asyncio.get_running_loop().call_exception_handler(context)

    async def session_cost(self, *sessions: str | None) -> float:
        """Return the running total of the first of these sessions that has one, else 0."""
        named = [session for session in sessions if session]

        def look(db: SmithersDB) -> float:
            costs = (db.sessions.cost(session) for session in named)
            return next((cost for cost in costs if cost is not None), 0.0)

        try:
            return await self._host.call(look)
        except Exception as error:
            self.report(error)
            return 0.0

    async def flush(self) -> None:
        """Write all that was told, as often as it takes and is sensible."""
        for attempt in range(_PATIENCE + 1):
            if await self._write() or self.stopped.done():
                return
            if attempt < _PATIENCE:
                await asyncio.sleep(min(PAUSE * 2**attempt, 1.0))
        self.report(RuntimeError(f"{len(self._events)} events were given up"))

    async def end(self, how: Callable[[SmithersDB], None], *, handing_on: bool = True) -> None:
        """Write what is left, end what is open below the agent, and the agent itself as `how` does.

        With `handing_on`, what `on_tool` is still to be told is told before.
        """
        await self._stop(0)
        await self.flush()
        if handing_on and self._on_tool is not None and not self.stopped.done():
            waiting = asyncio.ensure_future(self._handled.join())
            await asyncio.wait({waiting, self.stopped}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        await self._stop(-1)
        if handing_on and self.stopped.done():
            self.stopped.result()

        def whole(db: SmithersDB) -> None:
            self._book.open(db)
            self._book.end_open()
            how(db)

        await self._host.transact(whole)

    async def close(self) -> None:
        """Let go of everything, written or not."""
        for number in range(len(self._tasks)):
            await self._stop(number)
        if self.stopped.done():
            self.stopped.exception()  # whoever had to know it knows it
        else:
            self.stopped.cancel()

    # -- private ---------------------------------------------------------------------------------

    def _told(self, agent: str | None) -> _Told:
        return self._agents.get(agent) or self._agents[None]

    def _tell(
        self,
        write: Callable[[Book], None],
        instead: Callable[[Book, Exception], None] | None = None,
    ) -> None:
        self._events.append(_Event(utc_now(), write, instead))
        self._something.set()

    def _stop_agent(self, error: Exception) -> None:
        if not self.stopped.done():
            self.stopped.set_exception(error)

    async def _stop(self, number: int) -> None:
        task = self._tasks[number]
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _write_on(self) -> None:
        """Write what is told, after a pause in which more of it may come."""
        while True:
            await self._something.wait()
            pause = max(PAUSE, _REST * self._took, PAUSE * 2**self._failures)
            try:
                async with asyncio.timeout(min(pause, _LONGEST_PAUSE)):
                    await self._urgent.wait()
            except TimeoutError:
                pass
            self._urgent.clear()
            await asyncio.shield(asyncio.ensure_future(self._write()))

    async def _write(self) -> bool:
        """Write what was told so far; tell whether that is done."""
        async with self._writing:
            return await self._write_once()

    async def _write_once(self) -> bool:
        self._something.clear()
        events, changes = list(self._events), self._changes()
        if not events and not changes:
            return True
        try:
            ended = await self._host.call(lambda db: self._commit(db, events, changes))
        except OwnershipLost as lost:
            self._stop_agent(lost)
            return False
        except (sqlite3.OperationalError, ReactiveError) as error:
            self._again(changes)
            self._failures += 1
            if self._failures == _PATIENCE:
                self.report(error)
            return False
        except Exception:
            ended = await self._write_singly(events, changes)
        self._failures = 0
        for _ in events:
            self._events.popleft()
        for call in ended:
            self._handled.put_nowait(call)
        return True

    async def _write_singly(
        self, events: list[_Event], changes: dict[str | None, dict[str, Any]]
    ) -> list[ToolCall]:
        """Write each by itself, because one of them is refused; report that one."""
        ended: list[ToolCall] = []
        for event in events:
            if not self.stopped.done():
                ended += await self._write_one([event], {})
        for agent, values in changes.items():
            if not self.stopped.done():
                ended += await self._write_one([], {agent: values})
        return ended

    async def _write_one(
        self, events: list[_Event], changes: dict[str | None, dict[str, Any]]
    ) -> list[ToolCall]:
        try:
            return await self._host.call(lambda db: self._commit(db, events, changes))
        except OwnershipLost as lost:
            self._stop_agent(lost)
            return []
        except Exception as error:
            if isinstance(error, InvalidStatus) and error.id == self._id:
                self._stop_agent(EndedElsewhere(error.status))
                return []
            self.report(error)
            instead = [event.instead_of(error) for event in events if event.instead is not None]
        return await self._write_one(instead, {}) if instead else []

    def _commit(
        self, db: SmithersDB, events: list[_Event], changes: dict[str | None, dict[str, Any]]
    ) -> list[ToolCall]:
        """Write events and changes as one transaction, on the worker; return the tools ended."""
        began = time.thread_time()
        book = self._book
        book.open(db)
        saved = book.saved()
        try:
            with db.transaction():
                for event in events:
                    book.now = event.at
                    event.write(book)
                book.now = utc_now()
                for agent, values in changes.items():
                    book.note(agent, values)
            ended = book.take_ended()
            if self._on_tool is None:
                return []
            return [call for id in ended if (call := book.rows.tools.get(id)) is not None]
        except BaseException:
            book.restore(saved)
            raise
        finally:
            self._took = time.thread_time() - began

    def _changes(self) -> dict[str | None, dict[str, Any]]:
        found: dict[str | None, dict[str, Any]] = {}
        for agent, told in self._agents.items():
            if told.changed:
                found[agent] = told.values(told.changed)
                if "session_id" in told.changed:
                    found[agent]["session_id"] = self.session_id
                told.changed = set()
        return found

    def _again(self, changes: dict[str | None, dict[str, Any]]) -> None:
        for agent, values in changes.items():
            told = self._agents[agent]
            if not told.ended:
                told.changed |= {"cost_usd" if name == "cost" else name for name in values}
        self._something.set()

    async def _hand_on(self, on_tool: OnTool) -> None:
        """Tell `on_tool` of every tool call that has ended, one after the other."""
        while True:
            call = await self._handled.get()
            try:
                told = on_tool(call)
                if inspect.isawaitable(told):
                    await told
            except Exception as error:
                self._stop_agent(error)
                return
            finally:
                self._handled.task_done()


@dataclass(slots=True)
class _Told:
    """What was told of one agent and is noted in its row, the last of it."""

    text: list[str] = field(default_factory=list[str])
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    cost: float = 0.0
    changed: set[str] = field(default_factory=set[str])
    ended: bool = False

    def values(self, names: set[str]) -> dict[str, Any]:
        """Return what `Book.note` takes, of these names."""
        found: dict[str, Any] = {}
        if "output" in names:
            self.text = ["".join(self.text)]
            found["output"] = self.text[0]
        if "turns" in names:
            found["turns"] = self.turns
        if "tokens" in names:
            found["tokens"] = dict(self.usage.total)
        if "cost_usd" in names:
            found["cost"] = self.cost
        return found


@dataclass(frozen=True, slots=True)
class _Event:
    """Something that has happened, how it is written, and what instead where that is refused."""

    at: datetime
    write: Callable[[Book], None]
    instead: Callable[[Book, Exception], None] | None = None

    def instead_of(self, error: Exception) -> _Event:
        instead = self.instead
        assert instead is not None
        return _Event(self.at, lambda book: instead(book, error))
