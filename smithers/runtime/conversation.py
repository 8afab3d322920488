"""What Claude Code says in one run, message by message, told to the recorder of its agent.

Only what runs Claude Code imports this module, because the library takes its time to load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

from claude_agent_sdk import (
    AssistantMessage,
    ContentBlock,
    Message,
    ResultError,
    ResultMessage,
    ServerToolResultBlock,
    ServerToolUseBlock,
    StreamEvent,
    SystemMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from smithers.runtime.recorder import AgentRecorder
from smithers.runtime.runners import RunnerError

# Messages of this model are made up by Claude Code itself, to tell of errors; nobody bills them.
_MADE_UP = "<synthetic>"
_TOKENS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}
# Work in the background after which Claude Code takes another turn.
_AGENT_TASKS = frozenset({None, "local_agent", "local_workflow"})
_ENDED = {"completed": False, "failed": False, "stopped": True, "killed": True}
_PASSING = frozenset({408, 409, 425, 429})
# By what names agents are started, today and in older versions.
_AGENT_TOOLS = frozenset({"Agent", "Task"})
_BETWEEN = "\n\n"


class Conversation:
    """Follows one run of Claude Code.

    Attributes:
        result: the last message that ended a turn, None before the first.
        refusal: why the agent has to be stopped, None while it has not.
        has_begun: whether the session was heard of.
        settled_at: since when nothing more is to be expected, in the loop's time; None while it is.
        had_background: whether an agent has worked in the background, so that a turn may follow.
    """

    def __init__(
        self,
        recorder: AgentRecorder,
        model: str,
        *,
        resumed: str | None,
        max_cost_usd: float | None,
    ) -> None:
        self.result: ResultMessage | None = None
        self.refusal: RunnerError | None = None
        self.has_begun = False
        self.settled_at: float | None = None
        self.had_background = False
        self._recorder = recorder
        self._model = model
        self._resumed = resumed
        self._max_cost_usd = max_cost_usd
        self._base: float | None = None
        self._turns = 0
        self._messages: dict[str | None, set[str]] = {None: set()}
        # The tool calls by which agents were started, and whose calls those were.
        self._agents: dict[str, tuple[dict[str, Any], str | None]] = {}
        self._tasks: dict[str, str | None] = {}
        self._under_way: set[str] = set()
        self._statuses: dict[str, str] = {}
        self._streamed = ""
        self._said = False

    async def take(self, message: Message) -> None:
        """Take the next message."""
        match message:
            case ResultMessage():
                await self._end_turn(message)
                return
            case AssistantMessage():
                self._assistant(message)
            case UserMessage():
                self._user(message)
            case StreamEvent():
                self._stream(message)
            case TaskStartedMessage():
                self._start_task(message)
            case TaskNotificationMessage():
                self._end_task(message.task_id, message.status, message.summary)
            case TaskUpdatedMessage():
                self._end_task(message.task_id, message.status, None)
            case SystemMessage(subtype="init"):
                self.has_begun = True
                self._recorder.session(message.data.get("session_id") or "")
                self.settled_at = None
                return
            case _:
                pass
        self._settle()

    def _assistant(self, message: AssistantMessage) -> None:
        agent = self._agent(message.parent_tool_use_id, message.model)
        if agent is None:
            self.has_begun = True
            self._recorder.session(message.session_id or "")
            self.settled_at = None
        self._count(message, agent)
        for block in message.content:
            match block:
                case TextBlock():
                    self._text(block.text, agent)
                case ToolUseBlock() | ServerToolUseBlock():
                    if block.name in _AGENT_TOOLS:
                        self._agents[block.id] = (block.input, agent)
                    self._recorder.tool_started(block.id, block.name, block.input, agent=agent)
                case _:
                    self._end_tool(block, None)

    def _user(self, message: UserMessage) -> None:
        if not isinstance(message.content, str):
            for block in message.content:
                self._end_tool(block, message.tool_use_result)

    def _end_tool(self, block: ContentBlock, meta: object) -> None:
        if not isinstance(block, ToolResultBlock | ServerToolResultBlock):
            return
        id, content = block.tool_use_id, _plain(block.content)
        text = content if isinstance(content, str) else None
        error = None
        if isinstance(block, ToolResultBlock) and block.is_error:
            error = repr(content) if text is None else text
        self._recorder.tool_ended(id, content, error=error)
        status = cast("dict[str, Any]", meta).get("status") if isinstance(meta, dict) else None
        if id in self._agents and status != "async_launched":
            self._end_agent(id, text, error=error)

    def _count(self, message: AssistantMessage, agent: str | None) -> None:
        if message.model == _MADE_UP or not message.message_id:
            return
        self._recorder.tokens(message.message_id, _tokens(message.usage), agent=agent)
        seen = self._messages.setdefault(agent, set())
        if message.message_id not in seen:
            seen.add(message.message_id)
            self._recorder.turns(len(seen) + (0 if agent else self._turns), agent=agent)

    def _text(self, text: str, agent: str | None) -> None:
        if agent is None and self._streamed:
            self._streamed = ""  # it was told piece by piece
            return
        self._say(text, agent)

    def _say(self, text: str, agent: str | None) -> None:
        if agent is None:
            text, self._said = f"{_BETWEEN if self._said else ''}{text}", True
        self._recorder.text(text, agent=agent)

    def _stream(self, message: StreamEvent) -> None:
        """Take a piece of a message, of which the whole comes later."""
        delta: dict[str, Any] = message.event.get("delta") or {}
        if message.parent_tool_use_id is None and delta.get("type") == "text_delta":
            piece = str(delta["text"])
            if self._streamed:
                self._recorder.text(piece)
            else:
                self._say(piece, None)
            self._streamed += piece

    # -- agents that it starts -------------------------------------------------------------------

    def _agent(self, call: str | None, model: str | None = None) -> str | None:
        """Tell of the agent behind a tool call, when it is heard of for the first time."""
        if call is None:
            return None
        asked, parent = self._agents.setdefault(call, ({}, None))
        model = model or str(asked.get("model") or self._model)
        prompt = str(asked.get("prompt") or asked.get("description") or "")
        self._recorder.agent_started(call, prompt, model=model, parent=parent)
        return call

    def _start_task(self, message: TaskStartedMessage) -> None:
        if message.task_type not in _AGENT_TASKS:
            return
        call = message.tool_use_id
        self._tasks[message.task_id] = call
        self._under_way.add(message.task_id)
        if message.data.get("is_backgrounded"):
            self.had_background = True
        if call is not None and call not in self._agents:
            self._agents[call] = ({"prompt": message.data.get("prompt")}, None)

    def _end_task(self, task: str, status: str | None, summary: str | None) -> None:
        if task not in self._tasks or status not in _ENDED:
            return
        self._under_way.discard(task)
        if self.result is not None:
            self.had_background = True
        call = self._tasks[task]
        if call is None:
            return
        if summary is None:
            # What it has come to follows, in most cases.
            self._statuses[call] = status
            return
        error = summary if status == "failed" else None
        self._end_agent(call, summary, error=error, cancelled=_ENDED[status])

    def _end_agent(
        self,
        call: str,
        output: str | None,
        *,
        error: str | None = None,
        cancelled: bool = False,
    ) -> None:
        self._statuses.pop(call, None)
        self._agent(call)
        self._recorder.agent_ended(call, output, error=error, cancelled=cancelled)

    # -- turns -----------------------------------------------------------------------------------

    async def _end_turn(self, message: ResultMessage) -> None:
        recorder = self._recorder
        recorder.session(message.session_id or "")
        self.result = message
        self._turns += message.num_turns
        self._messages[None] = set()
        recorder.turns(self._turns)
        recorder.settle(_tokens(message.usage))
        self._settle()
        if message.total_cost_usd is None:
            return
        if self._base is None:
            known = (message.session_id, self._resumed) if self._resumed else ()
            self._base = await recorder.session_cost(*known)
        cost = max(message.total_cost_usd - self._base, 0.0)
        recorder.cost(cost, session=(message.session_id, message.total_cost_usd))
        if self._max_cost_usd is not None and cost > self._max_cost_usd:
            self.refusal = RunnerError(
                f"its cost, {cost:.6g} USD, has passed max_cost_usd={self._max_cost_usd:g}"
            )

    def _settle(self) -> None:
        """Note whether anything more is to be expected."""
        if self.result is None or self._under_way:
            self.settled_at = None
        elif self.settled_at is None:
            self.settled_at = asyncio.get_running_loop().time()

    def close(self) -> None:
        """Take for ended what has ended without a word of what it has come to."""
        for call, status in list(self._statuses.items()):
            error = "failed" if status == "failed" else None
            self._end_agent(call, None, error=error, cancelled=_ENDED[status])


def failure_of(result: ResultMessage | ResultError) -> RunnerError | None:
    """Tell how a run has failed, by the message or the exception that ends it; None if not."""
    if isinstance(result, ResultMessage) and not result.is_error and result.subtype == "success":
        return None
    status, terminal = result.api_error_status, result.terminal_reason
    errors = [error for error in result.errors or () if error]
    reason = "; ".join(errors) or (result.result or "").strip()
    if result.subtype not in (None, "success") and result.subtype not in reason:
        reason = f"{result.subtype}: {reason}" if reason else str(result.subtype)
    said = terminal == "api_error" if status is None else status in _PASSING or status >= 500
    return RunnerError(" ".join((reason or "an error without a word").split()), transient=said)


def _tokens(usage: Mapping[str, Any] | None) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, theirs in _TOKENS.items():
        count = (usage or {}).get(theirs)
        counts[name] = count if type(count) is int and count > 0 else 0
    return counts


def _plain(content: Any) -> Any:
    """Return the text of blocks that are all text; anything else stays as it is."""
    if not isinstance(content, list):
        return content
    blocks = cast("Sequence[Any]", content)
    texts = [block.get("text") for block in blocks if _is_text(block)]
    if texts and len(texts) == len(blocks):
        return "\n".join(map(str, texts))
    return blocks


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and cast("dict[str, Any]", block).get("type") == "text"
