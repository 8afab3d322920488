"""What a child does with very large values, under a limit of memory: run as a program.

Prints one line of JSON: what came of each call, and the most memory that was in use.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

from smithers import SmithersDB, create_smithers_db

MEGABYTE = 1 << 20
LENGTH = 0  # SQLITE_LIMIT_LENGTH


def peak() -> int:
    """Return the most memory this process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def whole(path: str, megabytes: int) -> dict[str, Any]:
    """Store values of a size, and see them come back whole."""
    before = peak()
    text = "x" * (megabytes * MEGABYTE)
    with create_smithers_db(path, watch=False) as db:
        db.state.set("large", text)
        same = db.state.get("large") == text
        agent = db.agents.start("why")
        tool = db.tools.start(agent, "Read", None)
        db.tools.complete(tool, text)
        same = same and db.tools.get_output(tool) == text
        listed = db.tools.list(agent)[0].output
    return {"same": same, "listed": listed, "megabytes": peak() - before}


def beyond(path: str, megabytes: int, limit: int) -> dict[str, Any]:
    """Store values beyond SQLite's limit; say what that raised, and what is left."""
    before = peak()
    text = "x" * (megabytes * MEGABYTE)
    raised: list[str] = []
    with create_smithers_db(path, watch=False) as db:
        if limit:
            db.database.conn.setlimit(LENGTH, limit * MEGABYTE)
        db.state.set("small", 1)
        stats = db.stats()
        tool = db.tools.start(db.agents.start("why"), "Read", None)
        for call in _calls(db, tool, text):
            try:
                call()
                raised.append("nothing")
            except Exception as error:
                names = [kind.__name__ for kind in type(error).__mro__]
                raised.append(f"{names[0]}: {str(error)[:100]}")
        unchanged = db.state.get_all() == {"small": 1} and db.stats() == {
            **stats,
            "agents": 1,
            "tool_calls": 1,
        }
        running = db.tools.is_running(tool)
        db.state.set("small", 2)
        works = db.state.get("small") == 2
    return {
        "raised": raised,
        "unchanged": unchanged and running,
        "works": works,
        "megabytes": peak() - before,
    }


def _calls(db: SmithersDB, tool: str, text: str) -> list[Any]:
    return [
        lambda: db.state.set("large", text),
        lambda: db.state.set_many({"a": 1, "large": text}),
        lambda: db.tools.complete(tool, text),
        lambda: db.memories.add_fact("large", text),
        lambda: db.query("SELECT length($1) AS n", [text]),
    ]


if __name__ == "__main__":
    kind, place, *numbers = sys.argv[1:]
    work: Any = {"whole": whole, "beyond": beyond}[kind]
    print(json.dumps(work(place, *map(int, numbers))))
