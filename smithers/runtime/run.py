"""A run of a workflow script: takes its execution, records what it does, and ends it."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from reactive_sqlite.arguments import shown
from smithers.codec import check_text
from smithers.context import Frame
from smithers.db import SmithersDB
from smithers.errors import ExecutionBusy, ExecutionCancelled, OwnershipLost
from smithers.process import this_process
from smithers.records import AgentResult, Approval, Execution, RalphResult
from smithers.runtime.agents import AgentCall, OnFinished, agent
from smithers.runtime.claude import DEFAULT_MODEL, claude
from smithers.runtime.groups import to_the_end
from smithers.runtime.host import Host
from smithers.runtime.human import human
from smithers.runtime.parallel import parallel
from smithers.runtime.ralph import Body, ralph
from smithers.runtime.recorder import OnTool
from smithers.runtime.runners import AgentRunner
from smithers.runtime.script import Script
from smithers.runtime.steps import phase, step
from smithers.schema.executions import ENDED
from smithers.storage.standings import Standing

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions

D = TypeVar("D")
_CUT_OFF = "cut off: the run that began it has ended"
_INITIAL = "initial_state"
Resume = bool | Literal["failed"] | str


class Run(Generic[D]):
    """One run of a workflow, to be entered: `async with db.run("Feature") as run`.

    Leaving it completes the execution, an exception fails it, the cancellation of its task, SIGINT
    and SIGTERM leave it `interrupted`, to be resumed by the next run of its name. When somebody
    cancels the execution, the task that entered the run is cancelled, and ExecutionCancelled leaves
    the block.

    Attributes:
        db: the database.
    """

    def __init__(
        self,
        db: D,
        host: Callable[[], Host],
        name: str,
        file_path: str | os.PathLike[str] | None = None,
        *,
        resume: Resume = True,
        initial_state: Mapping[str, Any] | None = None,
    ) -> None:
        check_text(name, "the name of a run")
        if not isinstance(resume, bool | str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"resume is True, False, 'failed' or an id, not {shown(resume)}")
        if isinstance(resume, str):
            check_text(resume, "resume, where it is an id,")
        if initial_state is not None and not isinstance(initial_state, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            kind = type(initial_state).__name__
            raise TypeError(f"initial_state is a dict of keys and values, not {kind}")
        self.db = db
        self._host_of = host
        self._name = name
        self._file_path = file_path
        self._resume = resume
        self._initial = initial_state
        self._script: Script | None = None
        self._resumed = False
        self._begun = self._over = False
        self._frame: Frame | None = None
        self._watch: Watch | None = None

    # -- life ------------------------------------------------------------------------------------

    async def __aenter__(self) -> Run[D]:
        if self._begun:
            raise RuntimeError("a run is entered once: call `db.run` again")
        host = self._host_of()
        self._begun = True
        taken: list[tuple[Frame, dict[str, Standing]]] = []
        try:
            await to_the_end(host.call(lambda db: taken.append(self._take(db))))
        except asyncio.CancelledError:
            if taken:
                await to_the_end(host.call(lambda db: _interrupt(db, taken[0][0].id)))
            raise
        ((frame, standings),) = taken
        frame.enter()
        self._frame = frame
        self._script = Script(host, frame.id, standings)
        self._watch = Watch(host, frame.id)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        watch, frame = self._watch, self._frame
        assert watch is not None and frame is not None
        watch.close()
        script = self._entered

        async def end() -> None:
            if not _interrupts(error):
                await script.settle()
            await script.host.call(lambda db: _end(db, frame.id, error, watch.cancelled))

        try:
            await to_the_end(end())
        except OwnershipLost as lost:
            if error is None:
                raise
            error.add_note(str(lost))
        except Exception as further:
            if error is None:
                raise
            error.add_note(f"its end was not recorded: {type(further).__name__}: {further}")
        finally:
            frame.context.leave(frame.id)
            self._over = True
        if isinstance(error, asyncio.CancelledError):
            if watch.terminated:
                raise SystemExit(128 + signal.SIGTERM) from error
            if watch.cancelled and watch.taken_back():
                raise ExecutionCancelled(frame.id, watch.reason) from error

    @property
    def id(self) -> str:
        """The id of the execution."""
        if self._frame is None:
            return self._entered.id
        return self._frame.id

    @property
    def resumed(self) -> bool:
        """Whether an earlier run is gone on with."""
        return self._resumed

    # -- what a script does ----------------------------------------------------------------------

    def phase(self, name: str) -> AbstractAsyncContextManager[str]:
        """Run a block as a phase, recorded with its iteration of the loop around it.

        >>> async with run.phase("implement"):
        ...     await run.step("write", write)
        """
        return phase(self._entered, name)

    async def step(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        key: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call `fn(*args, **kwargs)` once, also if the run is resumed; return its result.

        The result, any JSON, is recorded with the end of the step in one commit; what comes back
        is what JSON makes of it, so it is the same in a resumed run. `fn` may be async. A step
        that was cut off runs again. `key` tells steps of one name apart; without it they are told
        apart by their order. Raises StepFailed from what `fn` raises.

        >>> await run.step("install", install, "requests")
        {'installed': 'requests'}
        """
        if not callable(fn):
            if inspect.iscoroutine(fn):
                fn.close()
            raise TypeError(
                f"step {shown(name)} takes a function and calls it with the arguments that follow, "
                f"not {type(fn).__name__}"
            )
        return await step(self._entered, name, lambda: fn(*args, **kwargs), key=key)

    async def ralph(
        self,
        body: Body,
        *,
        max_iterations: int = 10,
        until: Callable[[], Any] | None = None,
        wait: bool | float = False,
    ) -> RalphResult:
        """Run `body`, and again while a signal that it read has changed since it read it.

        It ends when an iteration leaves all of them unchanged (settled), `until()` is true after
        an iteration (until), `stop` was called (stopped), or after `max_iterations`. With `wait`
        it waits for a change instead of settling, for so many seconds or, with True, for ever;
        changes of other processes count. Iterations are counted in the database: a resumed run
        goes on with the one that was cut off, and a loop that has ended returns its result.

        >>> await run.ralph(body, max_iterations=5)
        RalphResult(iterations=2, reason='settled')
        """
        return await ralph(
            self._entered, body, max_iterations=max_iterations, until=until, wait=wait
        )

    async def claude(
        self,
        prompt: str,
        *,
        model: str = DEFAULT_MODEL,
        system_prompt: str | None = None,
        output_type: Any = None,
        on_finished: OnFinished | None = None,
        on_tool: OnTool | None = None,
        key: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  (the contract's)
        max_turns: int | None = None,
        max_cost_usd: float | None = None,
        retries: int = 0,
        options: ClaudeAgentOptions | None = None,
    ) -> AgentResult:
        """Run Claude Code on a prompt once, also if the run is resumed; return what it came to.

        Needs the extra `claude`. What it says and does, tools and agents of its own included, is
        recorded as it happens. `output_type`, a pydantic model or any type that has a schema,
        makes `structured` one of that type. `on_tool(call)` is told each tool call that has ended,
        `on_finished(result)` the result; both may be async. `timeout`, in seconds, is for all
        attempts together; `retries` more of them follow a failure that may pass, each with a row
        of its own in the session of the last. What passes `max_cost_usd` is stopped. `options` is
        a ClaudeAgentOptions, for all else; what is said here comes first.

        A resumed run gets the recorded result, and tells `on_finished` unless that is known to
        have come to its end; an agent that was cut off goes on with its session. `key` tells it
        apart, else its prompt, model and system prompt do.

        Raises AgentFailed for a failure, a limit, a time-out or an answer of another type;
        ClaudeMissing where it cannot be run, with nothing recorded.

        >>> (await run.claude("Fix the failing test.", max_turns=20)).output
        'Fixed: the fixture was stale.'
        """
        call = AgentCall(
            prompt=prompt,
            model=model,
            system_prompt=system_prompt,
            output_type=output_type,
            on_finished=on_finished,
            on_tool=on_tool,
            key=key,
            timeout=timeout,
            retries=retries,
        )
        return await claude(
            self._entered,
            call,
            cwd=cwd,
            max_turns=max_turns,
            max_cost_usd=max_cost_usd,
            options=options,
        )

    async def agent(
        self,
        runner: AgentRunner,
        prompt: str,
        *,
        model: str | None = None,
        system_prompt: str | None = None,
        output_type: Any = None,
        on_finished: OnFinished | None = None,
        on_tool: OnTool | None = None,
        key: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  (the contract's)
        retries: int = 0,
    ) -> AgentResult:
        """Run any other agent on a prompt, recorded, limited and found again as `claude` is.

        `runner` does the work, a CommandRunner for instance; `model` is what the row says of it,
        by default what the runner says. With `output_type` an answer that is text is read as JSON.

        >>> (await run.agent(CommandRunner(["llm"]), "Say hello.")).output
        'Hello!'
        """
        call = AgentCall(
            prompt=prompt,
            model=runner.model if model is None else model,
            system_prompt=system_prompt,
            output_type=output_type,
            on_finished=on_finished,
            on_tool=on_tool,
            key=key,
            timeout=timeout,
            retries=retries,
        )
        return await agent(self._entered, runner, call)

    async def parallel(self, *awaitables: Awaitable[Any]) -> list[Any]:
        """Await coroutines at once; return their results in the order of the arguments.

        All are awaited to their end; their errors are raised together, as an ExceptionGroup.

        >>> await run.parallel(review("security"), review("style"))
        ['fine', 'fine']
        """
        return await parallel(self._entered, awaitables)

    async def human(
        self,
        key: str,
        prompt: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109  (the contract's)
    ) -> Approval:
        """Wait until a person has answered, by `smithers db approve KEY` or `deny KEY`.

        The question stands for this execution and this place: an old answer passes no new gate,
        and a resumed run does not ask again. Raises TimeoutError after `timeout` seconds; the
        question stays.

        >>> (await run.human("deploy", "Deploy to production?")).approved
        True
        """
        return await human(self._entered, key, prompt, timeout=timeout)

    def stop(self, reason: str = "stopped") -> None:
        """Have the loop under way end after this iteration; with none under way, the next one.

        >>> run.stop("the budget is spent")
        """
        check_text(reason, "the reason of a stop")
        self._entered.stop(reason)

    # -- private ---------------------------------------------------------------------------------

    @property
    def _entered(self) -> Script:
        if self._script is None:
            raise RuntimeError("enter the run first: `async with db.run(name) as run`")
        if self._over:
            raise RuntimeError("the run is over: its block has been left")
        return self._script

    def _take(self, db: SmithersDB) -> tuple[Frame, dict[str, Standing]]:
        """Resume the execution that is to be, else start one; on the worker."""
        with db.transaction():
            frame = self._retake(db)
            if frame is not None:
                db.standings.cut_off(frame.id, _CUT_OFF)
                standings = db.standings.all(frame.id)
            else:
                frame = db.executions.begin(self._name, self._file_path)
                standings = {}
                if self._initial:
                    frame.enter()  # in this call only: the worker has a copy of the context
                    db.state.set_many(self._initial, _INITIAL)
        db.standings.scripts.add(frame.id)
        return frame, standings

    def _retake(self, db: SmithersDB) -> Frame | None:
        frame: Frame | None = None
        if isinstance(self._resume, str) and self._resume != "failed":
            if self._resume in db.standings.scripts:
                raise ExecutionBusy(self._resume, f"{this_process()}, in this very process")
            frame = db.executions.retake(self._resume, failed=True)
        elif self._resume:
            frame = db.executions.take_incomplete(self._name, failed=self._resume == "failed")
        self._resumed = frame is not None
        return frame


class Watch:
    """Cancels the task of a run when the execution is to be cancelled, or the process to end."""

    def __init__(self, host: Host, id: str) -> None:
        self.cancelled = False
        self.reason: str | None = None
        self.terminated = False
        self._task = asyncio.current_task()
        self._before = 0 if self._task is None else self._task.cancelling()
        self._loop = asyncio.get_running_loop()
        query = host.observe(lambda db: db.executions.observe(id))
        self._subscription = query.subscribe(self._look)
        self._handles_term = self._take_term()

    def close(self) -> None:
        """Watch no more."""
        self._subscription.dispose()
        if self._handles_term:
            self._loop.remove_signal_handler(signal.SIGTERM)

    def taken_back(self) -> bool:
        """Take the cancellation of the task back; False when it was cancelled otherwise as well."""
        task = asyncio.current_task()
        return task is not None and task is self._task and task.uncancel() <= self._before

    def _look(self, execution: Execution | None) -> None:
        if execution is None or execution.cancel_requested_at is None or self.cancelled:
            return
        self.cancelled, self.reason = True, execution.cancel_reason
        if self._task is not None:
            self._task.cancel(f"execution {shown(execution.id)} is to be cancelled")

    def _take_term(self) -> bool:
        # A program that has said what SIGTERM means to it is left alone.
        if threading.current_thread() is not threading.main_thread():
            return False
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return False
        try:
            self._loop.add_signal_handler(signal.SIGTERM, self._terminate)
        except NotImplementedError:
            return False  # a loop of Windows has none
        return True

    def _terminate(self) -> None:
        self.terminated = True
        if self._task is not None:
            self._task.cancel("SIGTERM")


def _end(db: SmithersDB, id: str, error: BaseException | None, cancelled: bool) -> None:
    """Record how a run has ended; on the worker."""
    db.standings.scripts.discard(id)
    if error is None or (isinstance(error, SystemExit) and not error.code):
        db.executions.finish(id)
    elif isinstance(error, asyncio.CancelledError) and cancelled:
        found = db.executions.get(id)
        if found is not None and found.status not in ENDED:
            db.executions.cancel(id)
    elif _interrupts(error):
        _interrupt(db, id)
    else:
        db.executions.fail(id, error)


def _interrupt(db: SmithersDB, id: str) -> None:
    """Leave a run to be resumed; on the worker."""
    db.standings.scripts.discard(id)
    with db.transaction():
        db.standings.cut_off(id, "cut off: the run was interrupted")
        db.executions.interrupt(id)


def _interrupts(error: BaseException | None) -> bool:
    return isinstance(error, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit)
