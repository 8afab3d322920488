"""Real git repositories for tests, made as a person or a script makes them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.conftest import require_tool

# Nothing of the machine that runs the tests takes part: no configuration, no hooks, no variables.
ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2026-01-30T08:00:00+00:00",
    "GIT_COMMITTER_NAME": "Bot",
    "GIT_COMMITTER_EMAIL": "bot@example.org",
    "GIT_COMMITTER_DATE": "2026-01-31T14:00:00+02:00",
}


class Repository:
    """A git repository in a directory."""

    def __init__(self, place: Path, *, init: bool = True) -> None:
        require_tool("git")
        self.place = place
        if init:
            place.mkdir(parents=True, exist_ok=True)
            self.git("init", "-q", "-b", "main")

    def git(self, *words: str, stdin: bytes = b"", **variables: str) -> bytes:
        """Run git in it and return what it printed."""
        done = subprocess.run(
            ("git", *words),
            cwd=self.place,
            input=stdin,
            capture_output=True,
            env={**ENVIRONMENT, **variables},
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, name: str | bytes, content: bytes) -> None:
        """Write a file, with its directories."""
        file = os.path.join(os.fsencode(self.place), os.fsencode(name))
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "wb") as opened:
            opened.write(content)

    def commit(self, message: str | bytes = "change", **variables: str) -> str:
        """Commit everything and return the hash."""
        text = message if isinstance(message, bytes) else message.encode()
        self.git("add", "-A")
        options = ("--allow-empty", "--allow-empty-message", "--cleanup=verbatim", "-F", "-")
        self.git("commit", "-q", *options, stdin=text, **variables)
        return self.head()

    def head(self) -> str:
        """Return the hash of the current commit."""
        return self.git("rev-parse", "HEAD").decode().strip()


def lines(count: int, word: str = "line") -> bytes:
    """Make a text of so many lines."""
    return b"".join(f"{word} {number}\n".encode() for number in range(count))
