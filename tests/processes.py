"""Whether a process of somebody else runs."""

from __future__ import annotations

import subprocess
from pathlib import Path


def runs(pid: int) -> bool:
    """Tell whether a process runs; one that nobody has waited for yet does not."""
    if Path("/proc/self/stat").exists():
        try:
            stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
        except (FileNotFoundError, ProcessLookupError):
            return False
        state = stat.rpartition(")")[2].split()[0]
    else:
        shown = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True
        )
        state = shown.stdout.strip()
    return bool(state) and state[0] not in "ZX"
