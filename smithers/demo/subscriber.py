"""The subscriber of the demonstration: prints each change of the phase as it arrives.

Run as `python -m smithers.demo.subscriber PATH`, in as many terminals as you like; Ctrl-C ends.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from datetime import UTC, datetime
from typing import Any

from smithers.db import SmithersDB, create_smithers_db


def main(path: str) -> None:
    """Print the phase now and after every change, until standard input is closed."""
    with create_smithers_db(path, read_only=True) as db:
        db.state.observe("phase").subscribe(lambda phase: _print(db, phase))
        if sys.stdin.isatty():
            threading.Event().wait()
        sys.stdin.read()


def _print(db: SmithersDB, phase: Any) -> None:
    now = datetime.now(UTC)
    if phase is None:
        _say("phase is not set yet")
        return
    newest = reversed(db.state.history("phase", limit=5))
    transition = next(t for t in newest if t.value == phase)
    late = max(0.0, (now - transition.timestamp).total_seconds() * 1000)  # the clock may go back
    cause = transition.trigger or "no trigger: another program"
    _say(f"phase {json.dumps(phase)} ({cause}), {late:.1f} ms after its commit")


def _say(text: str) -> None:
    # In one write, since other programs may speak through the same pipe.
    print(f"subscriber: {text}\n", end="", flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1])
