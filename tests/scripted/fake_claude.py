"""A scripted Claude Code: the program's side of the protocol, for the real claude-agent-sdk.

It is a program of its own, in one file and on the standard library alone: no network and no model.
NDJSON goes both ways: `initialize`, hooks,
permissions, servers of the host (MCP), agents below the agent, partial messages, sessions that are
resumed and forked, states of the session, errors, interruption, crashes.

Environment:
    FAKE_CLAUDE_SCRIPT  a script, as JSON or as the path of a file of it
    FAKE_CLAUDE_LOG     a file that gets the arguments and every frame, one JSON a line
    FAKE_CLAUDE_HOME    where sessions are kept, by default a directory of the user's temporary ones

A script is `{"turns": [[step, ...], ...]}`. Turn n answers the nth message of the *session*, so
that one that is resumed goes on where it was; beyond the last, that one is repeated. With
`"structured_output"` a run that has a schema ends with it. Under `"answers"`, a list of
`{"to": "a regular expression", "turns": [...]}`, stand those to prompts in which it occurs: there,
turn n answers the nth of them, whatever its session. The steps:
    {"text": "..."} {"thinking": "..."}   what the model says; $PROMPT stands for the prompt
    {"tool": "Bash", "input": {}, "output": "...", "error": false, "ask": false,
     "duration_ms": 5, "result": {...}}   a tool, with its hooks, and the permission with "ask"
    {"mcp": "server", "tool": "add", "args": {}}   a tool of the host
    {"agent": "general-purpose", "prompt": "...", "steps": [...], "background": false}
    {"group": [step, ...]}                parts of one message, with one id and one usage
    {"sleep": 0.1} {"stderr": "line"} {"raw": "written as it is"} {"frame": {...}}
    {"big": 2000000}                      a text of so many characters
    {"exit": 3} {"kill": true}            the end, before there is a result
    {"linger": 30, "ignore_term": true}   stay after the end of input; do not listen to SIGTERM
    {"spawn": "seconds", "ignore_term": true}   start a process that sleeps, and tell its number
    {"usage": {...}}                      the usage of the messages that follow
    {"result": {...}}                     fields of the result
    {"fail": "error_max_turns", "errors": ["..."], "terminal_reason": "max_turns"}
    {"api_error": 529, "message": "Overloaded"}
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Agent = tuple[str, str]
# What a tool gives: its content, whether that is an error, and what the host is told besides.
Given = tuple[Any, bool, Any]

VERSION = "2.1.332"
PRICE_IN, PRICE_OUT = 5e-6, 25e-6
USAGE = {
    "input_tokens": 100,
    "output_tokens": 20,
    "cache_creation_input_tokens": 5,
    "cache_read_input_tokens": 7,
}
# Options that stand alone; all others have a value.
FLAGS = {
    *("-p", "--print", "-v", "--version", "--verbose", "--continue", "--fork-session"),
    *("--include-partial-messages", "--include-hook-events", "--strict-mcp-config"),
    *("--session-mirror", "--replay-user-messages"),
}
PARTIAL = 8


class Interrupted(Exception):
    """The host has asked for the turn to end."""


def main() -> None:
    code = Claude(sys.argv[1:]).run()
    sys.stdout.flush()
    os._exit(code)  # the thread that reads may be waiting still


class Claude:
    """One run of the program."""

    def __init__(self, argv: list[str]) -> None:
        self.options, self.words = parsed(argv)
        self.wire = Wire()
        self.wire.log({"argv": argv, "env": {k: v for k, v in os.environ.items() if "CLAUDE" in k}})
        self.script = read_script()
        self.sessions = Sessions(self.options)
        self.model = str(self.options.get("--model") or "claude-fake-1")
        self.mode = str(self.options.get("--permission-mode") or "default")
        self.tells_state = bool(os.environ.get("CLAUDE_CODE_SDK_READS_SESSION_STATE"))
        self.hooks: dict[str, list[Json]] = {}
        self.prompts: queue.Queue[Json | None] = queue.Queue()
        self.turn: Turn | None = None
        self.linger = 0.0

    def run(self) -> int:
        if {"-v", "--version"} & self.options.keys():
            self.wire.write(f"{VERSION} (Claude Code)\n")
            return 0
        if self.options.get("--input-format") != "stream-json":
            if not self.begin():
                return 1
            text = " ".join(self.words) or sys.stdin.read()
            return int(self.answer({"message": {"content": text}}))
        threading.Thread(target=self.listen, daemon=True).start()
        if not self.begin():
            # A host that cannot write its prompt any more would not read why.
            self.prompts.get()
            return 1
        failed = False
        while (prompt := self.prompts.get()) is not None:
            failed = self.answer(prompt)
        time.sleep(self.linger)
        return int(failed)

    def begin(self) -> bool:
        """Open the session; tell the host when there is none of that id."""
        if self.sessions.open():
            return True
        text = f"No conversation found with session ID: {self.sessions.id}"
        print(text, file=sys.stderr, flush=True)
        subtype = "error_during_execution"
        Turn(self, "").result(errors=[text], subtype=subtype, is_error=True, result=None)
        return False

    def answer(self, prompt: Json) -> bool:
        """Take one turn; tell whether it has failed."""
        content = prompt.get("message", {}).get("content", "")
        if not isinstance(content, str):
            content = "".join(block.get("text", "") for block in content)
        turns, number = self.script.get("turns", []), self.sessions.turn
        answers: list[Json] = self.script.get("answers", [])
        for place, answer in enumerate(answers):
            if re.search(answer["to"], content):
                turns, number = answer["turns"], self.sessions.count(f"answer-{place}")
                break
        steps = turns[min(number, len(turns) - 1)]
        self.turn = turn = Turn(self, content)
        failed = turn.run(steps)
        for job in turn.background:
            job()  # agents in the background end after the result of the turn
        self.turn = None
        self.state("idle")
        return failed

    # -- what the host says ----------------------------------------------------------------------

    def listen(self) -> None:
        for line in sys.stdin:
            if not line.strip():
                continue
            message: Json = json.loads(line)
            self.wire.log({">>": message})
            match message.get("type"):
                case "user":
                    self.prompts.put(message)
                case "control_response":
                    self.wire.answered(message["response"])
                case "control_request":
                    self.control(message["request_id"], message["request"])
                case _:
                    pass
        self.wire.log({">>": "EOF"})
        self.wire.end()
        self.prompts.put(None)

    def control(self, request_id: str, request: Json) -> None:
        response: Json = {}
        error: str | None = None
        match request.get("subtype"):
            case "initialize":
                self.hooks = request.get("hooks") or {}
                response = {
                    **{"commands": [], "output_style": "default", "models": [], "agents": []},
                    **{"available_output_styles": ["default"], "pid": os.getpid(), "account": {}},
                    **{"hook_on_failure_supported": True, "hooks_applied": True},
                }
            case "interrupt":
                if self.turn is not None:
                    self.wire.cancel.set()
            case "set_permission_mode":
                self.mode = request["mode"]
                response = {"mode": self.mode}
            case "set_model":
                self.model = request.get("model") or "claude-fake-1"
            case "mcp_status":
                servers = [{"name": name, "status": "connected"} for name in self.servers()]
                response = {"mcpServers": servers}
            case other:
                error = f"Unsupported control request subtype: {other}"
        body: Json = {"subtype": "success", "response": response}
        if error is not None:
            body = {"subtype": "error", "error": error}
        answer = {**body, "request_id": request_id}
        self.wire.send({"type": "control_response", "response": answer})

    def servers(self) -> list[str]:
        """The servers that the host itself offers."""
        try:
            config = json.loads(str(self.options.get("--mcp-config") or "{}"))
        except ValueError:
            return []  # the path of a file
        known: dict[str, Json] = config.get("mcpServers", {})
        return [name for name, server in known.items() if server.get("type") == "sdk"]

    # -- what the host is told -------------------------------------------------------------------

    def frame(self, kind: str, **fields: Any) -> None:
        common = {"session_id": self.sessions.id, "uuid": str(uuid.uuid4())}
        self.wire.send({"type": kind, **fields, **common})

    def state(self, state: str) -> None:
        if self.tells_state:
            kind = "session_state_changed"
            self.frame("system", subtype=kind, state=state, sdk_host_only=True)

    def init(self) -> None:
        servers = [{"name": n, "status": "connected", "source": "sdk"} for n in self.servers()]
        self.frame(
            "system",
            subtype="init",
            cwd=os.getcwd(),
            model=self.model,
            permissionMode=self.mode,
            tools=["Task", "Bash", "Edit", "Read", "Write"],
            apiKeySource="none",
            mcp_servers=servers,
            slash_commands=[],
            output_style="default",
            agents=["general-purpose"],
            skills=[],
            plugins=[],
            claude_code_version=VERSION,
        )


class Wire:
    """Frames to the host, and the answers of the host."""

    def __init__(self) -> None:
        self.cancel = threading.Event()
        self._log = os.environ.get("FAKE_CLAUDE_LOG")
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._answers: dict[str, Json] = {}
        self._ended = False

    def log(self, entry: Json) -> None:
        if self._log:
            with open(self._log, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

    def write(self, text: str) -> None:
        with self._lock:
            sys.stdout.write(text)
            sys.stdout.flush()

    def send(self, frame: Json) -> None:
        self.log({"<<": frame})
        self.write(json.dumps(frame, separators=(",", ":")) + "\n")

    def ask(self, request: Json) -> Json:
        """Ask the host; return its answer, or raise RuntimeError for its error."""
        id = str(uuid.uuid4())
        self.send({"type": "control_request", "request_id": id, "request": request})
        with self._changed:
            while id not in self._answers:
                if self._ended:
                    raise RuntimeError("Stream closed")
                if self.cancel.is_set():
                    self.send({"type": "control_cancel_request", "request_id": id})
                    raise Interrupted
                self._changed.wait(0.05)
            answer = self._answers.pop(id)
        if answer.get("subtype") == "error":
            raise RuntimeError(answer.get("error") or "an error of the host")
        return answer.get("response") or {}

    def answered(self, answer: Json) -> None:
        with self._changed:
            self._answers[answer["request_id"]] = answer
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class Sessions:
    """The session of this run, kept in a file so that another run can go on with it."""

    def __init__(self, options: dict[str, str | bool]) -> None:
        home = os.environ.get("FAKE_CLAUDE_HOME")
        user = getattr(os, "getuid", lambda: 0)()
        self.home = Path(home or Path(tempfile.gettempdir()) / f"fake-claude-{user}")
        self.id = str(options.get("--session-id") or uuid.uuid4())
        self.turn = 0
        self.cost = 0.0
        self.models: dict[str, Json] = {}
        self._resumed = options.get("--resume")
        self._forked = bool(options.get("--fork-session"))

    @property
    def file(self) -> Path:
        return self.home / f"{self.id}.json"

    def open(self) -> bool:
        if not self._resumed:
            return True
        own, self.id = self.id, str(self._resumed)
        if not self.file.exists():
            return False
        kept: Json = json.loads(self.file.read_text("utf-8"))
        self.turn, self.cost, self.models = kept["turn"], kept["cost"], kept["models"]
        if self._forked:
            self.id = own
        return True

    def save(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        part = self.file.with_suffix(".part")
        kept = {"turn": self.turn, "cost": self.cost, "models": self.models}
        part.write_text(json.dumps(kept), "utf-8")
        os.replace(part, self.file)

    def count(self, what: str) -> int:
        """Tell how often this was counted before, in any run."""
        self.home.mkdir(parents=True, exist_ok=True)
        with open(self.home / what, "a", encoding="ascii") as file:
            file.write(".")
            file.flush()
            return file.tell() - 1

    def charge(self, model: str, usage: Json) -> None:
        """Count a message: these totals go on in every run of the session."""
        cost = usage["input_tokens"] * PRICE_IN + usage["output_tokens"] * PRICE_OUT
        self.cost = round(self.cost + cost, 10)
        total = self.models.setdefault(model, {"inputTokens": 0, "outputTokens": 0, "costUSD": 0.0})
        total["inputTokens"] += usage["input_tokens"]
        total["outputTokens"] += usage["output_tokens"]
        total["costUSD"] = round(total["costUSD"] + cost, 10)


class Turn:
    """One turn: the steps of the script, as frames."""

    def __init__(self, claude: Claude, prompt: str) -> None:
        self.claude = claude
        self.prompt = prompt
        self.usage: Json = dict(USAGE)
        self.background: list[Callable[[], None]] = []
        self._began = time.monotonic()
        self._spent: dict[str, int] = {}
        self._fields: Json = {}
        self._denials: list[Json] = []
        self._numbers: dict[str, int] = {}
        self._messages = 0
        self._last = ""
        self._servers: set[str] = set()

    def run(self, steps: list[Json]) -> bool:
        claude, sessions = self.claude, self.claude.sessions
        claude.wire.cancel.clear()
        claude.state("running")
        self.fire("UserPromptSubmit", prompt=self.prompt)
        claude.init()
        try:
            for step in steps:
                self.step(step)
            self.fire("Stop", stop_hook_active=False, last_assistant_message=self._last)
        except Interrupted:
            claude.wire.cancel.clear()
            reason = "aborted_streaming"
            self.fail("error_during_execution", terminal_reason=reason, errors=[])
            text = {"type": "text", "text": "[Request interrupted by user]"}
            message = {"role": "user", "content": [text]}
            claude.frame("user", message=message, parent_tool_use_id=None)
        sessions.turn += 1
        sessions.save()  # before the result, so that a turn whose end is known can be resumed
        structured = claude.script.get("structured_output")
        if structured is not None and claude.options.get("--json-schema"):
            self._fields.setdefault("structured_output", structured)
        return self.result(**self._fields)

    def result(self, **fields: Any) -> bool:
        ms = int((time.monotonic() - self._began) * 1000)
        frame: Json = {
            **{"subtype": "success", "is_error": False, "duration_ms": ms, "duration_api_ms": 1},
            **{"num_turns": max(self._messages, 1), "stop_reason": "end_turn"},
            **{"total_cost_usd": self.claude.sessions.cost, "usage": self._spent},
            **{"modelUsage": self.claude.sessions.models, "permission_denials": self._denials},
            **{"terminal_reason": "completed", "result": self._last},
            **fields,
        }
        self.claude.frame("result", **frame)
        return bool(frame["is_error"])

    def fail(self, subtype: str, *, errors: list[str], terminal_reason: str) -> None:
        self._fields |= {"subtype": subtype, "is_error": True, "errors": errors, "result": None}
        self._fields["terminal_reason"] = terminal_reason

    # -- steps -----------------------------------------------------------------------------------

    def step(
        self, step: Json, parent: str | None = None, agent: Agent | None = None, told: str = ""
    ) -> None:
        """Take a step; `told` is the id of a tool call that the host knows of already."""
        if self.claude.wire.cancel.is_set():
            raise Interrupted
        if {"text", "thinking", "big"} & step.keys():
            self.say([self.block(step)], parent)
        elif "group" in step:
            parts = [dict(part) for part in step["group"]]
            self.say([self.block(part) for part in parts], parent)
            for part in parts:
                if "tool" in part:
                    self.step(part, parent, agent, part["id"])
        elif "mcp" in step:
            name = f"mcp__{step['mcp']}__{step['tool']}"
            self.tool(name, step.get("args") or {}, self.of_host(step), step, parent, agent)
        elif "tool" in step:
            arguments: Json = step.get("input") or {}
            self.tool(step["tool"], arguments, self.as_written(step), step, parent, agent, told)
        elif "agent" in step:
            self.delegate(step, parent)
        elif not self.odd(step, parent):
            raise SystemExit(f"no such step: {step!r}")

    def odd(self, step: Json, parent: str | None) -> bool:
        """Take a step that is no part of a conversation that goes well."""
        kind = next(iter(step))
        value = step[kind]
        match kind:
            case "sleep":
                self.nap(value)
            case "stderr":
                print(value, file=sys.stderr, flush=True)
            case "raw":
                self.claude.wire.write(value)
            case "frame":
                self.claude.wire.send(value)
            case "usage":
                self.usage = {**USAGE, **value}
            case "result":
                self._fields |= value
            case "fail":
                reason = str(step.get("terminal_reason", value))
                self.fail(value, errors=step.get("errors", [value]), terminal_reason=reason)
            case "api_error":
                self.api_error(value, step.get("message", "error"), parent)
            case "exit":
                os._exit(value)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "linger":
                self.claude.linger = value
                ignore_term(step)
            case "spawn":
                ignore_term(step)
                child = subprocess.Popen(["sleep", str(value)], stdin=subprocess.DEVNULL)
                self.say([{"type": "text", "text": f"started {child.pid}"}], parent)
            case _:
                return False
        return True

    def api_error(self, status: int, message: str, parent: str | None) -> None:
        text = f"API Error: {status} {message}"
        block = {"type": "text", "text": text}
        self.message([block], parent, str(uuid.uuid4()), "<synthetic>", error="server_error")
        self._fields |= {"is_error": True, "api_error_status": status, "result": text}
        self._fields |= {"terminal_reason": "api_error", "stop_reason": "stop_sequence"}

    def nap(self, seconds: float) -> None:
        if seconds and self.claude.wire.cancel.wait(seconds):
            raise Interrupted

    # -- messages --------------------------------------------------------------------------------

    def block(self, step: Json) -> Json:
        if "text" in step:
            return {"type": "text", "text": step["text"].replace("$PROMPT", self.prompt)}
        if "big" in step:
            return {"type": "text", "text": "x" * step["big"]}
        if "thinking" in step:
            return {"type": "thinking", "thinking": step["thinking"], "signature": "sig"}
        id = step.setdefault("id", self.number("toolu"))
        return {"type": "tool_use", "id": id, "name": step["tool"], "input": step.get("input", {})}

    def say(self, blocks: list[Json], parent: str | None) -> None:
        """Send a message of the model, which is billed: one frame for each block, one id."""
        if parent is None:
            self._messages += 1
            for name, count in self.usage.items():
                if isinstance(count, int):
                    self._spent[name] = self._spent.get(name, 0) + count
        self.claude.sessions.charge(self.claude.model, self.usage)
        id = self.number("msg")
        if parent is None and self.claude.options.get("--include-partial-messages"):
            self.stream(blocks, id)
        self.message(blocks, parent, id, self.claude.model)

    def message(
        self, blocks: list[Json], parent: str | None, id: str, model: str, **fields: Any
    ) -> None:
        for block in blocks:
            message: Json = {
                **{"id": id, "type": "message", "role": "assistant", "model": model},
                **{"content": [block], "stop_reason": None, "usage": dict(self.usage)},
            }
            self.claude.frame("assistant", message=message, parent_tool_use_id=parent, **fields)
            if block["type"] == "text" and parent is None:
                self._last = block["text"]

    def stream(self, blocks: list[Json], id: str) -> None:
        usage = dict(self.usage)
        events: list[Json] = [{"type": "message_start", "message": {"id": id, "usage": usage}}]
        for index, block in enumerate(blocks):
            start = {"index": index, "content_block": {"type": block["type"]}}
            events.append({"type": "content_block_start", **start})
            text = block.get("text", "")
            for at in range(0, len(text), PARTIAL):
                delta = {"type": "text_delta", "text": text[at : at + PARTIAL]}
                events.append({"type": "content_block_delta", "index": index, "delta": delta})
            events.append({"type": "content_block_stop", "index": index})
        events.append({"type": "message_stop"})
        for event in events:
            self.claude.frame("stream_event", event=event, parent_tool_use_id=None)

    def number(self, kind: str) -> str:
        self._numbers[kind] = self._numbers.get(kind, 0) + 1
        sessions = self.claude.sessions
        return f"{kind}_{sessions.id[:8]}_{sessions.turn:03d}_{self._numbers[kind]:04d}"

    # -- tools -----------------------------------------------------------------------------------

    def tool(
        self,
        name: str,
        arguments: Json,
        work: Callable[[Json, str], Given],
        step: Json,
        parent: str | None,
        agent: Agent | None,
        told: str = "",
    ) -> None:
        """Call a tool: hook, permission, the work, hook, result."""
        id = told or self.number("toolu")
        if not told:
            block = {"type": "tool_use", "id": id, "name": name, "input": arguments}
            self.say([block], parent)
        who = {} if agent is None else {"agent_id": agent[0], "agent_type": agent[1]}
        arguments, denied = self.allowed(name, arguments, id, bool(step.get("ask")), who)
        if denied is not None:
            denial = {"tool_name": name, "tool_use_id": id, "tool_input": arguments}
            self._denials.append(denial)
            self.tool_result(id, (denied, True, f"Error: {denied}"), parent)
            return
        began = time.monotonic()
        given = work(arguments, id)
        ms = int((time.monotonic() - began) * 1000)
        common: Json = {"tool_name": name, "tool_input": arguments, "duration_ms": ms, **who}
        content, is_error, meta = given
        if is_error:
            self.fire("PostToolUseFailure", id, name, error=str(content), **common)
        else:
            self.fire("PostToolUse", id, name, tool_response=meta, **common)
        self.tool_result(id, given, parent)

    def allowed(
        self, name: str, arguments: Json, id: str, ask: bool, who: Json
    ) -> tuple[Json, str | None]:
        """Ask hooks and host; return the arguments that are to be, and why not if not."""
        denied: str | None = None
        outputs = self.fire("PreToolUse", id, name, tool_name=name, tool_input=arguments, **who)
        for output in outputs:
            specific: Json = output.get("hookSpecificOutput") or {}
            arguments = specific.get("updatedInput") or arguments
            decision = specific.get("permissionDecision")
            if decision == "deny" or output.get("decision") == "block":
                denied = specific.get("permissionDecisionReason") or output.get("reason") or "no"
            ask = ask and decision != "allow"
        if denied is not None or not ask or self.claude.mode == "bypassPermissions":
            return arguments, denied
        if self.claude.options.get("--permission-prompt-tool") != "stdio":
            return arguments, f"Permission to use {name} has been denied."
        self.claude.state("requires_action")
        request: Json = {"subtype": "can_use_tool", "tool_name": name, "display_name": name}
        request |= {"input": arguments, "permission_suggestions": [], "tool_use_id": id, **who}
        try:
            answer: Json = self.claude.wire.ask(request)
        except RuntimeError as error:
            answer = {"behavior": "deny", "message": str(error)}
        self.claude.state("running")
        if answer.get("behavior") == "allow":
            updated: Json | None = answer.get("updatedInput")
            return updated or arguments, None
        if answer.get("interrupt"):
            self.claude.wire.cancel.set()
        return arguments, answer.get("message") or "denied"

    def tool_result(self, id: str, given: Given, parent: str | None) -> None:
        content, is_error, meta = given
        block = {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error}
        message = {"role": "user", "content": [block]}
        self.claude.frame("user", message=message, parent_tool_use_id=parent, tool_use_result=meta)

    def as_written(self, step: Json) -> Callable[[Json, str], Given]:
        def work(arguments: Json, id: str) -> Given:
            self.nap(step.get("duration_ms", 0) / 1000)
            output = step.get("output", "")
            meta = step.get("result", {"stdout": output, "stderr": "", "interrupted": False})
            return output, bool(step.get("error")), meta

        return work

    def of_host(self, step: Json) -> Callable[[Json, str], Given]:
        def work(arguments: Json, id: str) -> Given:
            server = step["mcp"]
            if server not in self._servers:
                client = {"name": "claude-code", "version": VERSION}
                hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
                self.mcp(server, "initialize", hello)
                self.mcp(server, "notifications/initialized", None)
                self.mcp(server, "tools/list")
                self._servers.add(server)
            call = {"name": step["tool"], "arguments": arguments}
            answer = self.mcp(server, "tools/call", call)
            if "error" in answer:
                return answer["error"].get("message", "error"), True, None
            result: Json = answer.get("result") or {}
            content: list[Json] = result.get("content") or []
            return content, bool(result.get("isError")), content

        return work

    def mcp(self, server: str, method: str, params: Json | None = None) -> Json:
        message: Json = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        if not method.startswith("notifications/"):
            message["id"] = self._numbers["mcp"] = self._numbers.get("mcp", 0) + 1
        request = {"subtype": "mcp_message", "server_name": server, "message": message}
        return self.claude.wire.ask(request).get("mcp_response") or {}

    def fire(
        self, event: str, tool_use_id: str | None = None, name: str | None = None, **fields: Any
    ) -> list[Json]:
        """Call the hooks of an event that match a name; return what they say."""
        sessions = self.claude.sessions
        asked: Json = {
            **{"session_id": sessions.id, "transcript_path": str(sessions.file)},
            **{"cwd": os.getcwd(), "permission_mode": self.claude.mode, "hook_event_name": event},
            **fields,
        }
        id = tool_use_id or str(uuid.uuid4())
        if tool_use_id is not None:
            asked["tool_use_id"] = id
        said: list[Json] = []
        for hook in self.claude.hooks.get(event) or []:
            pattern = hook.get("matcher")
            if pattern and pattern != "*" and name and not re.fullmatch(pattern, name):
                continue
            callbacks: list[str] = hook.get("hookCallbackIds") or []
            for callback in callbacks:
                request: Json = {"subtype": "hook_callback", "callback_id": callback}
                request |= {"input": asked, "tool_use_id": id}
                try:
                    said.append(self.claude.wire.ask(request))
                except RuntimeError as error:
                    if hook.get("onFailure") == "block":
                        said.append({"decision": "block", "reason": str(error)})
        return said

    # -- agents below ----------------------------------------------------------------------------

    def delegate(self, step: Json, parent: str | None) -> None:
        """Start an agent, in the foreground or in the background."""
        task, kind = self.number("task"), step["agent"]
        background = bool(step.get("background"))
        description = step.get("description", "sub task")
        prompt = step.get("prompt", "")
        arguments = {"description": description, "prompt": prompt, "subagent_type": kind}

        def system(subtype: str, **fields: Any) -> None:
            self.claude.frame("system", subtype=subtype, task_id=task, **fields)

        def live(id: str) -> None:
            used = 0
            steps: list[Json] = step.get("steps") or []
            for inner in steps:
                self.step(inner, id, (task, kind))
                if {"tool", "mcp"} & inner.keys():
                    used += 1
                    usage = {"total_tokens": 120, "tool_uses": used, "duration_ms": 1}
                    about = {"description": description, "last_tool_name": inner.get("tool")}
                    system("task_progress", tool_use_id=id, usage=usage, **about)
            self.fire("SubagentStop", agent_id=task, agent_type=kind, stop_hook_active=False)
            status = step.get("status", "completed")
            system("task_updated", patch={"status": status})
            if step.get("notify", True):
                output = {"output_file": "", "summary": step.get("output", "done")}
                ended = {"completed": "completed", "failed": "failed"}.get(status, "stopped")
                system("task_notification", tool_use_id=id, status=ended, **output)

        def work(arguments: Json, id: str) -> Given:
            about = {"task_type": "local_agent", "subagent_type": kind, "prompt": prompt}
            about |= {"is_backgrounded": background, "description": description}
            system("task_started", tool_use_id=id, **about)
            self.fire("SubagentStart", agent_id=task, agent_type=kind)
            if background:
                self.background.append(lambda: live(id))
                launched = {"type": "text", "text": "Async agent launched."}
                return [launched], False, {"status": "async_launched", "agentId": task}
            live(id)
            text = {"type": "text", "text": step.get("output", "done")}
            return [text], False, {"status": "completed", "agentId": task}

        self.tool("Agent", arguments, work, {}, parent, None)


def parsed(argv: list[str]) -> tuple[dict[str, str | bool], list[str]]:
    """Split arguments into options and words."""
    options: dict[str, str | bool] = {}
    words: list[str] = []
    rest = iter(argv)
    for word in rest:
        if not word.startswith("-"):
            words.append(word)
        elif "=" in word:
            name, _, value = word.partition("=")
            options[name] = value
        elif word in FLAGS:
            options[word] = True
        else:
            options[word] = next(rest, "")
    return options, words


def read_script() -> Json:
    text = os.environ.get("FAKE_CLAUDE_SCRIPT", "")
    if text and not text.lstrip().startswith("{"):
        text = Path(text).read_text("utf-8")
    return json.loads(text) if text else {"turns": [[{"text": "You said: $PROMPT"}]]}


def ignore_term(step: Json) -> None:
    if step.get("ignore_term"):
        # Inherited by what is started from here, too.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


if __name__ == "__main__":
    main()
