"""Three comparisons: signals and attributes, observed and plain writes, state and SQL."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.timing import Timed, compare
from reactive_sqlite import Database, create_effect, create_memo, create_signal
from smithers import create_smithers_db

UPSERT = "insert into t values (?, ?) on conflict (key) do update set value = excluded.value"
SCHEMA = "create table t (key text primary key, value integer) without rowid"
NUMBERS = itertools.count()


def signals() -> list[Timed]:
    """Reading and writing a signal, beside an attribute."""

    class Plain:
        value = 0

    plain = Plain()
    get, put = create_signal(0)
    doubled = create_memo(lambda: get() * 2)
    watched, put_watched = create_signal(0)
    effect = create_effect(lambda: watched())

    def assign() -> None:
        plain.value = next(NUMBERS)

    results = compare(
        {
            "assign an attribute": assign,
            "read a signal": get,
            "read a memo that is up to date": doubled,
            "write a signal that nobody reads": lambda: put(next(NUMBERS)),
            "write a signal with an effect": lambda: put_watched(next(NUMBERS)),
        },
        calls=20_000,
    )
    effect.dispose()
    return results


def writes(folder: Path) -> list[Timed]:
    """One upsert and commit by hand, and through a `Database` with various observers."""
    with ExitStack() as stack:
        connection = sqlite3.connect(folder / "plain.sqlite", isolation_level=None)
        stack.callback(connection.close)
        connection.execute("pragma journal_mode=wal")
        connection.execute("pragma synchronous=normal")
        connection.execute(SCHEMA)

        def database(name: str) -> Database:
            opened = Database(folder / f"{name}.sqlite")
            stack.callback(opened.close)
            opened.execute(SCHEMA)
            return opened

        def upsert(into: Database) -> Callable[[], object]:
            return lambda: into.execute(UPSERT, ("watched", next(NUMBERS)))

        bare, one, others = database("bare"), database("one"), database("others")
        one["t"].observe(where={"key": "watched"}).subscribe(_ignore)
        for number in range(1000):
            others["t"].observe(where={"key": f"other {number}"}).subscribe(_ignore)

        def by_hand() -> None:
            connection.execute(UPSERT, ("watched", next(NUMBERS)))

        def by_hand_and_read() -> None:
            by_hand()
            connection.execute("select * from t where key = ?", ("watched",)).fetchall()

        return compare(
            {
                "sqlite3: upsert, commit": by_hand,
                "sqlite3: upsert, commit, read the row again": by_hand_and_read,
                "Database, nobody observes": upsert(bare),
                "Database, 1,000 observers of other rows": upsert(others),
                "Database, an observer of this row (reads it again)": upsert(one),
            },
            calls=2_000,
        )


def state(folder: Path) -> list[Timed]:
    """One state change with its history by hand, and by `db.state.set`."""
    connection = sqlite3.connect(folder / "state.sqlite", isolation_level=None)
    connection.executescript(
        """
        pragma journal_mode=wal;
        pragma synchronous=normal;
        create table state (key text primary key, value text, updated_at text) without rowid;
        create table history (id integer primary key, key text, old text, new text, cause text);
        """
    )

    def by_hand() -> None:
        value = json.dumps(next(NUMBERS))
        connection.execute("begin immediate")
        old = connection.execute("select value from state where key = 'phase'").fetchone()
        connection.execute(
            "insert into state values ('phase', ?, datetime()) on conflict (key) do update "
            "set value = excluded.value, updated_at = excluded.updated_at",
            (value,),
        )
        connection.execute(
            "insert into history (key, old, new, cause) values ('phase', ?, ?, 'bench')",
            (old and old[0], value),
        )
        connection.execute("commit")

    with (
        create_smithers_db(folder / "workflow") as quiet,
        create_smithers_db(folder / "observed") as observed,
    ):
        observed.state.observe("phase").subscribe(_ignore)
        results = compare(
            {
                "sqlite3: begin, read, upsert, history row, commit": by_hand,
                "db.state.set": lambda: quiet.state.set("phase", next(NUMBERS), trigger="bench"),
                "db.state.set with one observer": lambda: observed.state.set(
                    "phase", next(NUMBERS), trigger="bench"
                ),
            },
            calls=1_000,
        )
    connection.close()
    return results


def _ignore(value: object) -> None:
    """A subscriber whose own work costs nothing."""
