"""Claude Code as a script has it: what it is to say, and what it was told."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("fake_claude.py")
Step = dict[str, Any]


class Scripted:
    """The scripted program, for this process and those that it starts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self.cli = installed(folder)
        self._script = folder / "script.json"
        self._log = folder / "log.jsonl"
        for name, value in self.environment(folder).items():
            monkeypatch.setenv(name, value)
        self.says([{"text": "You said: $PROMPT"}])

    def environment(self, folder: Path) -> dict[str, str]:
        """The variables that make it the program, with its script and its log in a folder."""
        return {
            "SMITHERS_CLAUDE_CLI": str(self.cli),
            "FAKE_CLAUDE_SCRIPT": str(self._script),
            "FAKE_CLAUDE_LOG": str(self._log),
            "FAKE_CLAUDE_HOME": str(folder / "home"),
        }

    def says(self, *turns: list[Step], **besides: Any) -> None:
        """Say so in the turns of each session from now on."""
        self._script.write_text(json.dumps({"turns": turns, **besides}), encoding="utf-8")

    def answers(self, *answers: tuple[str, list[list[Step]]]) -> None:
        """Answer so to prompts in which a regular expression occurs, the nth of them by the nth."""
        told = [{"to": pattern, "turns": turns} for pattern, turns in answers]
        self._script.write_text(json.dumps({"answers": told}), encoding="utf-8")

    @property
    def log(self) -> list[dict[str, Any]]:
        """The arguments of every run, and all frames to it (`>>`) and from it (`<<`)."""
        if not self._log.exists():
            return []
        return [json.loads(line) for line in self._log.read_text("utf-8").splitlines()]

    @property
    def runs(self) -> list[list[str]]:
        """The arguments of every run."""
        return [line["argv"] for line in self.log if "argv" in line]

    @property
    def prompts(self) -> list[str]:
        """What it was asked, in all runs."""
        told = [line[">>"] for line in self.log if isinstance(line.get(">>"), dict)]
        return [one["message"]["content"] for one in told if one["type"] == "user"]


def installed(folder: Path) -> Path:
    """Make the program an executable in a folder, run by the Python that runs this."""
    executable = folder / "claude"
    words = " ".join(map(shlex.quote, (sys.executable, str(PROGRAM))))
    executable.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    executable.chmod(0o755)
    return executable
