"""Another process that runs the statements it is told, and says when each is done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
for line in sys.stdin:
    if line == "close\\n":
        connection.close()
    else:
        connection.execute(line).fetchall()
    print("done", flush=True)
"""


class Elsewhere:
    """A process with a plain connection of its own; to be used in a `with` block."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)
        assert self._process.returncode == 0

    def run(self, *statements: str) -> None:
        """Run statements, one after the other, and return when the last is done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for statement in statements:
            self._process.stdin.write(statement + "\n")
            self._process.stdin.flush()
            assert self._process.stdout.readline() == "done\n", f"{statement!r} failed"

    def close(self) -> None:
        """Close its connection; nothing more can be run."""
        self.run("close")
