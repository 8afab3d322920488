"""Load persisted state into a signal, keep both in sync, and loop until the work is done.

Run it twice with the same directory: the second run finds that nothing is left to do.

    python examples/solid_signals.py [DIRECTORY]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

from reactive_sqlite import create_effect, create_signal
from smithers import SmithersDB, create_smithers_db

MAX_ITERATIONS = 10


def workflow(db: SmithersDB) -> None:
    # Load persisted state.
    saved_phase = db.state.get("phase")
    phase, set_phase = create_signal(saved_phase if saved_phase is not None else "start")

    # Sync updates to the database.
    def update_phase(new_phase: str) -> None:
        set_phase(new_phase)
        db.state.set("phase", new_phase, trigger="agent_finished")

    create_effect(lambda: print(f"phase: {phase()}"))

    for _ in range(MAX_ITERATIONS):
        if phase() != "start":
            break
        agent("Complete the task.")
        update_phase("done")


def agent(prompt: str) -> None:
    """Do the work in a process of its own."""
    program = "import sys; print(f'agent: {sys.argv[1]}')"
    subprocess.run([sys.executable, "-c", program, prompt], check=True)


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with create_smithers_db(path) as db:
        workflow(db)
        # The shorter way: `state.signal` is the signal and the row in one.
        saved, _ = db.state.signal("phase", "start")
        print(f"saved: {saved()}")


if __name__ == "__main__":
    main()
