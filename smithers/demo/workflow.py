"""The workflow of the demonstration: a loop over a signal that lives in the database.

Run as `python -m smithers.demo.workflow PATH`. It can be stopped at any point and started again:
it goes on from the phase it finds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from smithers.db import create_smithers_db

# For each phase: the agent's task and the phase that follows when the agent has finished.
STEPS = {
    "start": ("compile", "review"),
    "review": ("review", "approval"),
    "approved": ("digest", "done"),
}
APPROVAL_SECONDS = 30.0


def main(path: str) -> None:
    """Run the workflow until its phase is "done"."""
    with create_smithers_db(path) as db:
        phase, set_phase = db.state.signal("phase", "start")
        if not db.state.has("phase"):
            set_phase("start", trigger="workflow_begins")
        while phase() != "done":
            if phase() in STEPS:
                task, following = STEPS[phase()]
                _say(f'phase is "{phase()}": starting the agent, task {task!r}')
                report = _run_agent(task)
                _say(f"the agent found {json.dumps(report)}")
                with db.transaction():
                    db.state.set(f"{task}_report", report, trigger=f"{task}_finished")
                    set_phase(following, trigger=f"{task}_finished")
            elif phase() == "approval":
                _say('phase is "approval": waiting for somebody to write another one')
                phase.wait(lambda now: now != "approval", APPROVAL_SECONDS)
            else:
                raise SystemExit(f"there is no phase {phase()!r}")
        _say('phase is "done": the loop ends')


def _run_agent(task: str) -> Any:
    command = [sys.executable, "-m", "smithers.demo.agent", task]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def _say(text: str) -> None:
    # In one write, since other programs may speak through the same pipe.
    print(f"workflow: {text}\n", end="", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
