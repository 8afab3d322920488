"""What runs an agent: the protocol of a runner, and the one that runs any command."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Protocol, cast

from reactive_sqlite.arguments import shown
from reactive_sqlite.opening import path_text
from smithers.codec import check_text
from smithers.runtime.groups import end_group, to_the_end
from smithers.runtime.recorder import AgentRecorder

PROMPT = "{prompt}"
# Of what a failing program said, characters that its error keeps.
TAIL = 4_000
# Seconds for its output to end after the program has: somebody else may hold the pipe.
_LAST_WORDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTask:
    """What an agent is to do.

    Attributes:
        prompt: what it is asked.
        system_prompt: how it is to be, None for its own way.
        session_id: the session of a model to go on with, None to begin one.
        trouble: how the earlier attempt in that session ended.
    """

    prompt: str
    system_prompt: str | None = None
    session_id: str | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOutcome:
    """What an agent has come to: the text of its result, and any JSON where it gives that."""

    output: str
    structured: Any = None


class RunnerError(Exception):
    """An agent has not come to a result.

    Attributes:
        reason: what went wrong, one line.
        transient: whether another attempt may go better.
        details: what else there is to know, lines below the reason.
    """

    def __init__(self, reason: str, *, transient: bool = False, details: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.transient = transient
        self.details = details


class AgentRunner(Protocol):
    """Anything that runs agents: `await run.agent(runner, prompt)`.

    Attributes:
        model: what the agent's row is to say of who ran it.
    """

    @property
    def model(self) -> str: ...

    async def run(self, task: AgentTask, recorder: AgentRecorder) -> AgentOutcome:
        """Do a task, telling `recorder` what happens as it happens; return the outcome.

        Any exception fails the agent; RunnerError says whether it is worth another attempt. When
        it is cancelled, nothing that it has started may go on.
        """
        ...


class CommandRunner:
    """Runs a command as an agent: its output is the answer, as it comes.

    The prompt is put in the place of `{prompt}` where an argument has that, else written to the
    command's standard input. Another exit code than 0 fails the agent. The command has a process
    group of its own, and whatever of it is left when it ends or is to end is ended.

    Args:
        argv: the program and its arguments; no shell sees them.
        cwd: the directory it runs in.
        env: variables in addition to those of this process.
        model: what the agent's row says of who ran it, by default the program's name.

    >>> await run.agent(CommandRunner(["llm", "-m", "4o", "{prompt}"]), "Say hello.")
    AgentResult(id=..., output='Hello!', ...)
    """

    def __init__(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        model: str | None = None,
    ) -> None:
        self._argv = _words(argv)
        self._cwd = None if cwd is None else path_text(cwd, "cwd")
        self._env = {} if env is None else _variables(env)
        if model is not None:
            check_text(model, "model")
        self._model = PurePath(self._argv[0]).name if model is None else model

    @property
    def model(self) -> str:
        """What the agent's row says of who ran it."""
        return self._model

    async def run(self, task: AgentTask, recorder: AgentRecorder) -> AgentOutcome:
        """Run the command once, whatever came before."""
        argv = [self._argv[0], *(w.replace(PROMPT, task.prompt) for w in self._argv[1:])]
        given = argv != self._argv or any(PROMPT in word for word in self._argv)
        loop = asyncio.get_running_loop()
        try:
            transport, program = await loop.subprocess_exec(
                lambda: _Program(recorder),
                *argv,
                cwd=self._cwd,
                env={**os.environ, **self._env},
                start_new_session=True,
            )
        except OSError as error:
            raise RunnerError(
                f"cannot start {shown(argv[0])}: {error.strerror or error}"
            ) from error
        try:
            program.feed(transport, None if given else task.prompt.encode())
            await program.exited
            await asyncio.wait({program.silent}, timeout=_LAST_WORDS)
        finally:
            if os.name == "posix":
                await to_the_end(end_group(transport.get_pid()))
            transport.close()
        code = transport.get_returncode()
        if code:
            how = f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
            raise RunnerError(
                f"{self._model} {how}", transient=True, details=program.errors[-TAIL:].strip()
            )
        return AgentOutcome(output=program.output.rstrip("\n"))


def _words(argv: object) -> list[str]:
    given = argv
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise TypeError(f"argv is a list of a program and its arguments, not {shown(argv)}")
    words: list[str] = []
    for number, word in enumerate(cast("Sequence[object]", given)):
        name = f"argv[{number}]"
        # What is empty is an argument as well, and no path.
        empty = isinstance(word, str) and not str.__len__(word)
        words.append("" if number and empty else path_text(word, name))
    return words


def _variables(env: object) -> dict[str, str]:
    if not isinstance(env, Mapping):
        raise TypeError(f"env is a dict of variables, not {type(env).__name__}: {shown(env)}")
    for name, value in cast("Mapping[object, object]", env).items():
        check_text(name, "the name of a variable in env")
        check_text(value, f"env[{shown(name)}]", empty=True)
        if "=" in cast("str", name):
            raise ValueError(f"the name of a variable in env has no '=': {shown(name)}")
    return dict(cast("Mapping[str, str]", env))


class _Program(asyncio.SubprocessProtocol):
    """A running command, and what it has said."""

    def __init__(self, recorder: AgentRecorder) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.silent: asyncio.Future[None] = loop.create_future()
        self._recorder = recorder
        self._readers = {n: codecs.getincrementaldecoder("utf-8")("replace") for n in (1, 2)}
        self._open = {1, 2}
        self._said: list[str] = []
        self.errors = ""

    @property
    def output(self) -> str:
        """All that it has printed."""
        return "".join(self._said)

    def feed(self, transport: asyncio.SubprocessTransport, text: bytes | None) -> None:
        """Write to its standard input, and end that."""
        pipe = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        if text is not None:
            pipe.write(text)
        pipe.close()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._take(fd, self._readers[fd].decode(data))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd in self._open:
            self._open.remove(fd)
            self._take(fd, self._readers[fd].decode(b"", final=True))
        if not self._open and not self.silent.done():
            self.silent.set_result(None)

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)

    def _take(self, fd: int, text: str) -> None:
        if fd == 2:
            self.errors = (self.errors + text)[-2 * TAIL :]
        elif text:
            self._said.append(text)
            self._recorder.text(text)
