"""Claude Code as an agent, through `claude-agent-sdk` (the extra `claude`), loaded when it runs."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import traceback
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from reactive_sqlite.arguments import shown
from reactive_sqlite.opening import path_text
from smithers.errors import ClaudeMissing
from smithers.runtime.agents import AgentCall, agent
from smithers.runtime.groups import Launched, end_group, to_the_end
from smithers.runtime.host import Host
from smithers.runtime.mcp import offer
from smithers.runtime.recorder import AgentRecorder
from smithers.runtime.runners import TAIL, AgentOutcome, AgentTask, RunnerError
from smithers.runtime.script import Script

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions

    from smithers.records import AgentResult
    from smithers.runtime.conversation import Conversation

CLI_VARIABLE = "SMITHERS_CLAUDE_CLI"
# Characters of one line of the program: a tool may put a whole file into one.
LONGEST_LINE = 64 << 20

# Seconds after the result for the program to end; where agents have worked in the background,
# another turn may follow, and its first word takes a while.
GRACE = 5.0
BACKGROUND_GRACE = 60.0
# Seconds for what a program that has ended has said to arrive.
_LAST_WORDS = 2.0
_LOOK = 0.25
# More than anybody has; an int may have more digits than a float takes.
_DEAREST = 1e15
_PLACES = (
    ".npm-global/bin/claude",
    "/usr/local/bin/claude",
    ".local/bin/claude",
    "node_modules/.bin/claude",
    ".yarn/bin/claude",
    ".claude/local/claude",
)
_GO_ON = """The work on the task below was interrupted{trouble}. Go on with it where it stopped. \
What is done already need not be done again; at the end give the whole answer.

{prompt}"""


_SILENT = logging.NullHandler()


class _SessionLost(RunnerError):
    """A session was to be gone on with, and nothing was heard of it."""


class _Default(str):
    """A default, told apart from the same text given by the caller."""

    __slots__ = ()


DEFAULT_MODEL: str = _Default("sonnet")


async def claude(
    script: Script,
    call: AgentCall,
    *,
    cwd: str | os.PathLike[str] | None,
    max_turns: int | None,
    max_cost_usd: float | None,
    options: ClaudeAgentOptions | None,
) -> AgentResult:
    """Run Claude Code in a script; see `Run.claude`."""
    if max_turns is not None and (type(max_turns) is not int or max_turns < 1):
        raise ValueError(f"max_turns is a whole number from 1 on, not {shown(max_turns)}")
    dollars = cast("object", max_cost_usd)
    known = dollars is None or (isinstance(dollars, int | float) and 0 <= dollars <= _DEAREST)
    if not known:
        raise ValueError(f"max_cost_usd is a number of dollars from 0 up, not {shown(dollars)}")
    if cwd is not None:
        cwd = path_text(cwd, "cwd")
    call.check()
    if options is not None and not hasattr(options, "cli_path"):
        raise TypeError(f"options is a ClaudeAgentOptions, not {type(options).__name__}")
    system_prompt = call.system_prompt
    call = _completed(call, options)
    runner = ClaudeRunner(
        call.model,
        script.host,
        system_prompt=system_prompt,
        output_type=call.output_type,
        cwd=cwd,
        max_turns=max_turns,
        max_cost_usd=max_cost_usd,
        options=options,
    )
    return await agent(script, runner, call, ready=runner.find)


class ClaudeRunner:
    """Runs Claude Code, once for each task, in a process group of its own."""

    def __init__(
        self,
        model: str,
        host: Host,
        *,
        system_prompt: str | None = None,
        output_type: Any = None,
        cwd: str | os.PathLike[str] | None = None,
        max_turns: int | None = None,
        max_cost_usd: float | None = None,
        options: ClaudeAgentOptions | None = None,
    ) -> None:
        self._model = model
        self._host = host
        self._system_prompt = system_prompt
        self._output_type = output_type
        self._cwd = cwd
        self._max_turns = max_turns
        self._max_cost_usd = max_cost_usd
        self._options = options

    @property
    def model(self) -> str:
        """The model that is asked for."""
        return self._model

    def find(self) -> str:
        """Return the path of the program; ClaudeMissing where it or the library is missing."""
        if find_spec("claude_agent_sdk") is None:
            raise ClaudeMissing("the library claude-agent-sdk is not installed")
        named = None if self._options is None else self._options.cli_path
        named = named or os.environ.get(CLI_VARIABLE)
        found = _bundled_or_installed() if named is None else shutil.which(os.fspath(named))
        if found is None:
            what = "was not found" if named is None else f"is not at {os.fspath(named)!r}"
            raise ClaudeMissing(
                f"Claude Code {what}",
                f", or name the program in {CLI_VARIABLE} or in options.cli_path",
            )
        return found

    async def run(self, task: AgentTask, recorder: AgentRecorder) -> AgentOutcome:
        """Do a task in a new session, or go on with it in the one of an earlier attempt."""
        # It takes most of a second, in which nothing else on the loop could run.
        await asyncio.to_thread(import_module, "claude_agent_sdk")
        # What it logs of a failure is in the error as well. Where nobody has said what is to become
        # of logs, Python would print it into whatever the script shows.
        logging.getLogger("claude_agent_sdk").addHandler(_SILENT)
        if task.session_id is None:
            return await self._run(task.prompt, task, recorder, None)
        trouble = (task.trouble or "").partition("\n")[0]
        again = _GO_ON.format(trouble=f" ({trouble})" if trouble else "", prompt=task.prompt)
        try:
            return await self._run(again, task, recorder, task.session_id)
        except _SessionLost:
            return await self._run(task.prompt, task, recorder, None)

    async def _run(
        self, prompt: str, task: AgentTask, recorder: AgentRecorder, session_id: str | None
    ) -> AgentOutcome:
        from smithers.runtime.conversation import Conversation, failure_of

        options = self._made(session_id)
        limit = self._max_cost_usd
        resumed = options.resume
        if limit is not None:
            # The program counts what the session has cost before as well.
            options.max_budget_usd = limit + await recorder.session_cost(resumed)
        conversation = Conversation(
            recorder,
            self._model,
            # A session goes on under an id that only its first message tells.
            resumed=resumed or ("continued" if options.continue_conversation else None),
            max_cost_usd=limit,
        )
        said: deque[str] = deque(maxlen=50)
        options.stderr = _both(said.append, options.stderr)
        launched: Launched | None = None
        # A process of another user could neither read what is written for it nor be ended.
        if os.name == "posix" and options.user is None:
            launched = Launched(cast("str", options.cli_path))
            options.cli_path = launched.path
        reading = asyncio.create_task(_read(prompt, options, conversation))
        try:
            await _until_over(reading, conversation, launched)
            ended_itself = reading.done()
        finally:
            await to_the_end(_leave(reading, launched))
        conversation.close()
        details = "\n".join(said)[-TAIL:]
        error = reading.exception() if ended_itself else None
        result = conversation.result
        failure: RunnerError | None
        if conversation.refusal is not None:
            failure = conversation.refusal
        elif error is not None:
            # The frames of the library hold its pipes, and whoever keeps the error would keep them.
            traceback.clear_frames(error.__traceback__)
            failure = _failure(error, conversation, launched)
        elif result is None:
            failure = RunnerError("Claude Code ended without a result", transient=True)
        else:
            failure = failure_of(result)
        if failure is not None:
            failure.details = details
            if session_id is not None and not conversation.has_begun:
                raise _SessionLost(failure.reason) from failure
            raise failure from error
        assert result is not None
        return AgentOutcome(output=result.result or "", structured=result.structured_output)

    def _made(self, session_id: str | None) -> ClaudeAgentOptions:
        """Return the options of one run: those of the caller, and what was said beside them."""
        from claude_agent_sdk import ClaudeAgentOptions

        options = ClaudeAgentOptions() if self._options is None else self._options
        options = replace(options, model=self._model, cli_path=self.find())
        if self._system_prompt is not None:
            options.system_prompt = self._system_prompt
        if self._cwd is not None:
            options.cwd = Path(self._cwd)
        if self._max_turns is not None:
            options.max_turns = self._max_turns
        options.forward_subagent_text = True  # else nothing is heard of what they say and use
        if options.max_buffer_size is None:
            options.max_buffer_size = LONGEST_LINE
        if self._output_type is not None:
            options.output_format = {"type": "json_schema", "schema": _schema(self._output_type)}
        if session_id is not None:
            options.resume = session_id
            options.fork_session = options.continue_conversation = False
            options.session_id = options.resume_session_at = options.resume_drops_turn = None
        offer(options, self._host)
        return options


async def _read(prompt: str, options: ClaudeAgentOptions, conversation: Conversation) -> None:
    """Follow a run to its end."""
    from claude_agent_sdk import Message, query

    messages = cast("AsyncGenerator[Message]", query(prompt=prompt, options=options))
    async with aclosing(messages):
        async for message in messages:
            await conversation.take(message)
            if conversation.refusal is not None:
                return


async def _until_over(
    reading: asyncio.Task[None], conversation: Conversation, launched: Launched | None
) -> None:
    """Wait until a run has ended, or has given its result and does not end."""
    loop = asyncio.get_running_loop()
    gone_at: float | None = None
    while not reading.done():
        await asyncio.wait({reading}, timeout=_LOOK)
        if conversation.refusal is not None:
            return
        now = loop.time()
        grace = BACKGROUND_GRACE if conversation.had_background else GRACE
        if conversation.settled_at is not None and now - conversation.settled_at > grace:
            return
        # The library waits on for an answer of a program that has ended well, or for the end of a
        # pipe that another process has inherited.
        if gone_at is None and launched is not None and launched.has_ended:
            gone_at = now
        if gone_at is not None and now - gone_at > _LAST_WORDS:
            return


async def _leave(reading: asyncio.Task[None], launched: Launched | None) -> None:
    """End what is left of a run: first its processes, for which the library would wait."""
    if launched is not None and (group := launched.group) is not None:
        await end_group(group)
    if not reading.done():
        await asyncio.wait({reading}, timeout=_LAST_WORDS / 2)
        reading.cancel()
        await asyncio.wait({reading})
    if not reading.cancelled():
        reading.exception()  # seen: whoever asks for it has it, and nobody has to
    if launched is not None:
        if (group := launched.group) is not None:
            await end_group(group)
        launched.remove()


def _failure(
    error: BaseException, conversation: Conversation, launched: Launched | None
) -> RunnerError:
    """Say how a run has failed that an exception has ended."""
    from claude_agent_sdk import CLIConnectionError, ProcessError, ResultError

    from smithers.runtime.conversation import failure_of

    if isinstance(error, ResultError):
        known = conversation.result
        failure = failure_of(error if known is None or not known.is_error else known)
        return failure or RunnerError(str(error))
    if isinstance(error, ProcessError):
        code = error.exit_code or 0
        how = f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
        return RunnerError(f"Claude Code {how}", transient=True)
    said = " ".join(str(error).split())
    if not isinstance(error, CLIConnectionError):
        return RunnerError(f"{type(error).__name__}: {said}", transient=True)
    if launched is None or launched.group is None:
        return RunnerError(said)  # it could not be started, and will not be the next time
    return RunnerError(f"Claude Code ended at once: {said}", transient=True)


def _completed(call: AgentCall, options: ClaudeAgentOptions | None) -> AgentCall:
    """Take from the options what the call leaves unsaid, so that the row and its key have it."""
    model, system_prompt = str(call.model), call.system_prompt
    if options is not None:
        if call.model is DEFAULT_MODEL and options.model:
            model = options.model
        if system_prompt is None:
            system_prompt = _text_of(options.system_prompt)
    return replace(call, model=model, system_prompt=system_prompt)


def _text_of(system_prompt: Any) -> str | None:
    if isinstance(system_prompt, dict):
        known = cast("dict[str, str | None]", system_prompt)
        return known.get("prompt") or known.get("append")
    return cast("str | None", system_prompt)


def _both(
    first: Callable[[str], Any], second: Callable[[str], Any] | None
) -> Callable[[str], None]:
    def both(line: str) -> None:
        first(line)
        if second is not None:
            second(line)

    return both


def _schema(output_type: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(output_type)
    return adapter.json_schema()


def _bundled_or_installed() -> str | None:
    """Find the program where the library looks for it."""
    spec = find_spec("claude_agent_sdk")
    names = [Path.home() / place for place in _PLACES]  # an absolute one stays as it is
    if spec is not None and spec.origin is not None:
        bundled = Path(spec.origin).parent / "_bundled" / "claude"
        if os.access(bundled, os.X_OK):
            return str(bundled)
    return shutil.which("claude") or next(
        (str(path) for path in names if path.is_file() and os.access(path, os.X_OK)), None
    )
