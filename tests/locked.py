"""Programs that may read a directory and write nothing in it, also where the tests run as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import IO, Any

import pytest

WAYS = ("directory", "directory and files", "file system")

# Root may write everywhere, unless that capability is taken from it.
_WITHOUT_POWER = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--")
_MOUNTED = (
    *("unshare", "--mount", "--propagation=private", "sh", "-c"),
    'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"',
)


class Reader:
    """A Python program for which a directory is read-only; it talks by lines."""

    def __init__(self, way: str, directory: Path, program: str, *args: str | Path) -> None:
        self._directory = directory
        command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *map(str, args)]
        self.process = subprocess.Popen(
            [*self._lock(way), *command],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def line(self) -> str:
        """Read one line that it prints; at its end, say why it ended."""
        said: str = _pipe(self.process.stdout).readline()
        assert said, _pipe(self.process.stderr).read()
        return said.rstrip("\n")

    def tell(self, line: str = "") -> None:
        """Send it a line."""
        stdin = _pipe(self.process.stdin)
        stdin.write(f"{line}\n")
        stdin.flush()

    def end(self) -> list[str]:
        """Wait for its end and return the lines that it still printed."""
        said, errors = self.process.communicate(timeout=60)
        assert (self.process.returncode, errors) == (0, ""), errors
        return said.splitlines()

    def _lock(self, way: str) -> tuple[str, ...]:
        root = os.geteuid() == 0
        if way == "file system":
            if not root or shutil.which("unshare") is None or not _works(*_MOUNTED, "/tmp"):
                pytest.skip("only root can mount a directory anew, where containers let it")
            return *_MOUNTED, str(self._directory)
        if root and (shutil.which("setpriv") is None or not _works(*_WITHOUT_POWER)):
            pytest.skip("root may write everywhere, and nothing takes that from it here")
        if way == "directory and files":
            for file in self._directory.iterdir():
                file.chmod(0o444)
        self._directory.chmod(0o555)
        return _WITHOUT_POWER if root else ()


def unlock(directory: Path) -> None:
    """Let everything in a directory be written again."""
    directory.chmod(0o755)
    for file in directory.iterdir():
        file.chmod(0o644)


@cache
def _works(*command: str) -> bool:
    return subprocess.run((*command, "true"), capture_output=True, timeout=60).returncode == 0


def _pipe(pipe: IO[Any] | None) -> IO[Any]:
    assert pipe is not None
    return pipe
