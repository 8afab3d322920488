"""Take a checkpoint, try something risky, roll back when it fails, and see it all in history.

python examples/checkpoint_rollback.py [DIRECTORY]
"""

from __future__ import annotations

import sys
import tempfile

from smithers import SmithersDB, create_smithers_db


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    with create_smithers_db(path) as db:
        db.state.set_many({"status": "ready", "attempts": 0}, trigger="init")
        db.state.observe_all().subscribe(lambda state: print("state:", state))

        checkpoint = db.state.snapshot()
        try:
            risky_operation(db)
            db.state.set("status", "success")
        except RuntimeError as error:
            print("failed:", error)
            db.state.restore(checkpoint, "error_rollback")

        for transition in db.state.history():
            value = "deleted" if transition.deleted else repr(transition.value)
            print(f"{transition.id:>3} {transition.key} = {value} ({transition.trigger})")

        # History only grows: even what was rolled back can be looked at again.
        failed = db.state.history("half_done")[0]
        print("then:", db.state.state_at(failed.id))


def risky_operation(db: SmithersDB) -> None:
    db.state.update("attempts", lambda n: n + 1, trigger="risky")
    db.state.set("half_done", True, trigger="risky")
    raise RuntimeError("the disk is on fire")


if __name__ == "__main__":
    main()
