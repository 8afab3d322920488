"""A table made with sqlite-utils and a query over it that stays current.

python examples/live_todo.py [FILE]
"""

from __future__ import annotations

import sys
from typing import Any

from reactive_sqlite import Database, create_effect


def main() -> None:
    with Database(sys.argv[1] if len(sys.argv) > 1 else ":memory:") as db:
        todos = db["todos"]
        todos.create({"id": int, "title": str, "done": int}, pk="id", if_not_exists=True)

        # Rows, each time they differ.
        still_open = todos.observe({"done": 0}, order_by="id")
        still_open.subscribe(show)

        # The same query in an effect, and one over plain SQL.
        finished = db.observe_value("SELECT count(*) FROM todos WHERE done = 1")
        create_effect(lambda: print(f"  {len(still_open())} open, {finished()} done"))

        todos.insert_all({"title": title, "done": 0} for title in ("write", "test", "ship"))
        todos.update(1, {"done": 1})
        with db.transaction():  # one commit, one notification
            todos.update(2, {"done": 1})
            todos.update(3, {"done": 1})
        todos.update(1, {"title": "wrote"})  # touches nothing that is shown: silence


def show(rows: list[dict[str, Any]]) -> None:
    print("open:", ", ".join(row["title"] for row in rows) or "nothing")


if __name__ == "__main__":
    main()
