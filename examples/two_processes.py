"""Two processes on one database: what one writes, the other sees at once.

python examples/two_processes.py [DIRECTORY]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

from smithers import Transition, create_smithers_db


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    with create_smithers_db(path) as db:
        # Every transition, in order, whoever wrote it.
        db.state.transitions().subscribe(tell)

        phase, set_phase = db.state.signal("phase", "start")
        child = subprocess.Popen([sys.executable, __file__, path, "--child"])

        # The child is waiting for this, and answers.
        phase.wait(lambda now: now == "child is ready", timeout=30)
        set_phase("go", trigger="parent")
        phase.wait(lambda now: now == "child is done", timeout=30)
        child.wait(timeout=30)
        print("answer:", db.state.get("answer"))


def work(path: str) -> None:
    with create_smithers_db(path) as db:
        phase, set_phase = db.state.signal("phase")
        set_phase("child is ready", trigger="child")
        phase.wait(lambda now: now == "go", timeout=30)
        db.state.set_many({"answer": 42, "phase": "child is done"}, trigger="child")


def tell(transition: Transition) -> None:
    print(f"{transition.trigger}: {transition.key} = {transition.value}", flush=True)


if __name__ == "__main__":
    if "--child" in sys.argv:
        work(sys.argv[1])
    else:
        main()
