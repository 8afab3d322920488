"""Agents of a script: each runs once, is recorded while it runs, and is found by a resumed run.

An attempt is a row: one that fails stays as it failed, and the next one, of this run or of a
resumed one, has a row of its own in the same place and goes on with the session of the last.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from reactive_sqlite.arguments import check_callable, seconds, shown
from smithers.codec import check_text, decode, encode, encoded
from smithers.context import Frame
from smithers.db import SmithersDB
from smithers.errors import AgentFailed, InvalidStatus, OwnershipLost, StateTypeError
from smithers.failure import writable
from smithers.records import Agent, AgentResult
from smithers.runtime.groups import to_the_end
from smithers.runtime.place import Place
from smithers.runtime.recorder import AgentRecorder, EndedElsewhere, OnTool
from smithers.runtime.runners import AgentOutcome, AgentRunner, AgentTask, RunnerError
from smithers.runtime.script import Script
from smithers.shapes import Misfit, Shape, shape_of, type_name
from smithers.storage.standings import Standing

OnFinished = Callable[[AgentResult], Any | Awaitable[Any]]

# Seconds before the second attempt; each further one waits twice as long, up to the longest.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
_STRUCTURED = "the structured output of an agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCall:
    """One call of an agent in a script, as `Run.agent` and `Run.claude` take it."""

    prompt: str
    model: str
    system_prompt: str | None = None
    output_type: Any = None
    on_finished: OnFinished | None = None
    on_tool: OnTool | None = None
    key: str | None = None
    timeout: float | None = None
    retries: int = 0

    def check(self) -> None:
        """Raise TypeError or ValueError for what cannot be, before anything is written."""
        check_text(self.prompt, "the prompt of an agent")
        check_text(self.model, "the model of an agent")
        if self.system_prompt is not None:
            check_text(self.system_prompt, "the system prompt of an agent", empty=True)
        if self.key is not None:
            check_text(self.key, "the key of an agent")
        for name, function in (("on_finished", self.on_finished), ("on_tool", self.on_tool)):
            if function is not None:
                check_callable(function, name)
        if self.timeout is not None and not seconds(self.timeout, "timeout"):
            raise ValueError(f"timeout is a number of seconds above 0, not {shown(self.timeout)}")
        if type(self.retries) is not int or self.retries < 0:
            raise ValueError(f"retries is a whole number from 0 on, not {shown(self.retries)}")

    @property
    def name(self) -> str:
        """What tells it apart from others in its place."""
        if self.key is not None:
            return self.key
        asked = json.dumps([self.prompt, self.model, self.system_prompt])
        return hashlib.sha256(asked.encode()).hexdigest()[:32]


async def agent(
    script: Script,
    runner: AgentRunner,
    call: AgentCall,
    *,
    ready: Callable[[], object] = lambda: None,
) -> AgentResult:
    """Run an agent unless it has been run; see `Run.agent`.

    `ready` is called before anything is written, where the agent is to run.
    """
    call.check()
    shape = None if call.output_type is None else _shape_of(call.output_type)
    place = script.places.next("agent", call.name)
    standing = script.standing(place)
    last: Agent | None = None
    if standing is not None and (id := standing.row_id) is not None:
        last = await script.host.call(lambda db: db.agents.get(id))
    if last is None or last.status != "completed":
        ready()
        standing = None
        last = await _Calling(script, runner, call, shape, place).run(last)
    result = _result(last, call, shape)
    if call.on_finished is not None and (standing is None or not standing.done):
        told = call.on_finished(result)
        if inspect.isawaitable(told):
            await told
        await script.put(place, Standing("agent", result.id, done=1))
    return result


class _Calling:
    """A call on its way through its attempts."""

    def __init__(
        self,
        script: Script,
        runner: AgentRunner,
        call: AgentCall,
        shape: Shape | None,
        place: Place,
    ) -> None:
        self._script = script
        self._runner = runner
        self._call = call
        self._shape = shape
        self._place = place
        loop = asyncio.get_running_loop()
        self._time = loop.time
        self._until = (
            None if call.timeout is None else loop.time() + seconds(call.timeout, "timeout")
        )

    async def run(self, last: Agent | None) -> Agent:
        """Attempt it until it succeeds or is not worth another attempt."""
        session_id = None if last is None else last.session_id
        trouble = None if last is None else last.error
        for number in range(self._call.retries + 1):
            try:
                return await self._attempt(session_id, trouble)
            except AgentFailed as failed:
                pause = min(FIRST_PAUSE * 2**number, LONGEST_PAUSE)
                if not self._is_worth_another(failed, number, pause):
                    raise
                session_id = await self._session_of(failed.id) or session_id
                trouble = failed.reason
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _session_of(self, id: str) -> str | None:
        row = await self._script.host.call(lambda db: db.agents.get(id))
        return None if row is None else row.session_id

    def _is_worth_another(self, failed: AgentFailed, number: int, pause: float) -> bool:
        cause = failed.__cause__
        return (
            number < self._call.retries
            and isinstance(cause, RunnerError)
            and cause.transient
            and (self._until is None or self._time() + pause < self._until)
        )

    async def _attempt(self, session_id: str | None, trouble: str | None) -> Agent:
        """Run it once, in a row of its own; return the row when it is completed."""
        script, call = self._script, self._call
        frame = await script.begin(self._begin)
        standing = Standing("agent", frame.id)
        script.note(self._place, standing)
        recorder = AgentRecorder(script.host, frame, call.on_tool)
        task = AgentTask(
            prompt=call.prompt,
            system_prompt=call.system_prompt,
            session_id=session_id,
            trouble=trouble,
        )
        try:
            outcome = await self._outcome(task, recorder, frame)
            plain = self._plain(outcome)
            await recorder.end(
                lambda db: db.agents.complete(frame.id, writable(outcome.output), plain)
            )
        except BaseException as error:
            await to_the_end(_fail(recorder, frame, error))
            if isinstance(error, EndedElsewhere):
                reason = f"its row was ended by somebody else: {error}"
                raise AgentFailed(frame.id, reason) from None
            if isinstance(error, RunnerError):
                failed = AgentFailed(frame.id, error.reason)
                _note_losses(failed, recorder)
                raise failed from error
            _note_losses(error, recorder)
            raise
        finally:
            await to_the_end(recorder.close())
        row = await script.host.call(lambda db: db.agents.get(frame.id))
        assert row is not None
        return row

    def _begin(self, db: SmithersDB) -> Frame:
        call = self._call
        id = self._script.id
        frame = db.agents.begin(call.prompt, call.model, call.system_prompt, execution_id=id)
        db.standings.put(id, str(self._place), Standing("agent", frame.id))
        return frame

    async def _outcome(
        self, task: AgentTask, recorder: AgentRecorder, frame: Frame
    ) -> AgentOutcome:
        """Let the runner do the task, in a task of its own, until it has to stop."""

        async def work() -> AgentOutcome:
            frame.enter()
            with self._script.places.at(self._place):
                return await self._runner.run(task, recorder)

        working = asyncio.create_task(work(), name=f"agent {frame.id}")
        remaining = None if self._until is None else max(self._until - self._time(), 0)
        try:
            either: tuple[asyncio.Future[Any], ...] = (working, recorder.stopped)
            await asyncio.wait(either, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
        finally:
            late = not working.done()
            if late:
                working.cancel()
                await to_the_end(_quiet(working))
        if recorder.stopped.done():
            await _quiet(working)
            recorder.stopped.result()
        if late:
            raise RunnerError(f"no result within {self._call.timeout:g} s")
        try:
            return working.result()
        except asyncio.CancelledError:
            raise RunnerError("its runner has cancelled itself") from None
        except RunnerError:
            raise
        except Exception as error:
            raise RunnerError(f"{type(error).__name__}: {error}") from error

    def _plain(self, outcome: AgentOutcome) -> Any:
        """Return the structured output as JSON; RunnerError when it is not of the type."""
        if not isinstance(outcome, AgentOutcome):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RunnerError(f"its runner has returned no AgentOutcome, but {shown(outcome)}")
        if not isinstance(outcome.output, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RunnerError(f"its output is no text, but {shown(outcome.output)}")
        if self._shape is None:
            try:
                return (
                    None
                    if outcome.structured is None
                    else encoded(outcome.structured, name=_STRUCTURED)[1]
                )
            except (TypeError, ValueError) as error:
                raise RunnerError(str(error)) from error
        name = type_name(self._call.output_type)
        try:
            value = outcome.structured
            if value is None:
                value = decode(outcome.output, name="the answer")
            self._shape.read(encode(value, name="the answer"), "the answer")
        except (Misfit, StateTypeError, TypeError, ValueError) as error:
            raise RunnerError(f"its answer is no {name}: {error}", transient=True) from error
        return value


def _shape_of(output_type: Any) -> Shape:
    try:
        return shape_of(output_type)
    except TypeError as error:
        raise TypeError(f"output_type: {error}") from None


async def _fail(recorder: AgentRecorder, frame: Frame, error: BaseException) -> None:
    """End the row of an agent that did not complete; a note on the error where that fails."""

    def how(db: SmithersDB) -> None:
        if isinstance(error, RunnerError):
            lines = (error.reason, error.details, *getattr(error, "__notes__", ()))
            db.agents.fail(frame.id, "\n".join(filter(None, lines)))
        elif isinstance(error, Exception):
            db.agents.fail(frame.id, error)
        else:
            db.agents.cancel(frame.id)

    try:
        await recorder.end(how, handing_on=False)
    except (OwnershipLost, InvalidStatus) as further:
        if not isinstance(error, OwnershipLost | EndedElsewhere):
            error.add_note(f"the agent could not be ended: {further}")
    except Exception as further:
        error.add_note(f"the agent could not be ended: {type(further).__name__}: {further}")


def _note_losses(error: BaseException, recorder: AgentRecorder) -> None:
    for lost in recorder.errors:
        error.add_note(f"not recorded: {type(lost).__name__}: {lost}")


async def _quiet(task: asyncio.Task[Any]) -> None:
    """Wait for the end of what had to stop; how it came to it is of no interest."""
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


def _result(row: Agent, call: AgentCall, shape: Shape | None) -> AgentResult:
    structured = row.structured
    if shape is not None:
        try:
            structured = shape.read(encode(structured, name=_STRUCTURED), _STRUCTURED)
        except Misfit as error:
            reason = f"its recorded answer is no {type_name(call.output_type)}: {error}"
            raise AgentFailed(row.id, reason) from error
    return AgentResult(
        id=row.id,
        output=row.output or "",
        structured=structured,
        tokens={
            "input": row.tokens_input,
            "output": row.tokens_output,
            "cache_read": row.tokens_cache_read,
            "cache_write": row.tokens_cache_write,
        },
        cost_usd=row.cost_usd,
        session_id=row.session_id,
        turns=row.turns,
        duration_ms=row.duration_ms or 0,
    )
