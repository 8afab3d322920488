"""The change log knows what other programs write to the tables: feeds, and needless fetches."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from reactive_sqlite import sqlite3
from smithers import Execution, SmithersDB, create_smithers_db
from smithers.schema import TRACKED_TABLES
from tests.recorder import Recorder

RELEASED = Path(__file__).parent / "schemas" / "1.sqlite"


def caught_up(db: SmithersDB) -> int:
    """Look for what others have committed, as the watcher does, and return the fetches so far."""
    db.database.broker.check()
    return db.database.broker.fetches


def test_every_table_is_tracked_in_new_files_and_in_old_ones(tmp_path: Path) -> None:
    old = tmp_path / "db.sqlite"
    shutil.copy(RELEASED, old)
    for path in (tmp_path, tmp_path / "new"):
        with create_smithers_db(path) as db:
            assert set(db.database.tracked()) == set(TRACKED_TABLES)


def test_a_feed_has_what_any_program_writes(db: SmithersDB, foreign: sqlite3.Connection) -> None:
    feed = db.database.feed("mine", "state", "agents")
    db.state.set("phase", "start")
    foreign.execute("UPDATE state SET value = '\"done\"'")
    foreign.execute("INSERT INTO agents (id, model, prompt) VALUES ('a', 'sonnet', 'do it')")
    seen = [(change.table, change.op, change.key) for change in feed.due()]
    # Who writes the state past the library is recorded, which writes the row once more.
    assert seen[0] == ("state", "insert", "phase")
    assert ("state", "update", "phase") in seen
    assert len([change for change in seen if change[0] == "agents"]) == 1


def test_what_others_write_runs_only_what_it_touches(path: Path) -> None:
    with create_smithers_db(path, watch=False) as db, create_smithers_db(path) as other:
        execution = db.execution.start("w")
        other.database["notes"].create({"id": int}, pk="id")
        phases, agents, state = Recorder[Any](), Recorder[Any](), Recorder[Any]()
        db.phases.observe(execution).subscribe(phases)
        db.agents.observe(execution).subscribe(agents)
        db.state.observe("mine").subscribe(state)
        before = caught_up(db)
        other.state.set("theirs", 1)
        other.vcs.log_commit(hash="abc", message="m")
        other.database["notes"].insert({"id": 1})
        assert caught_up(db) == before, "nothing that is observed was touched"
        other.agents.start("do it", execution_id=execution)
        assert caught_up(db) == before + 1, "the agents, and nothing else"
        assert [len(rows) for rows in agents.values] == [0, 1]
        other.state.set("mine", 1)
        assert caught_up(db) == before + 2
        assert (phases.values, state.values) == ([[]], [None, 1])


def test_heartbeats_of_other_handles_run_nothing(path: Path) -> None:
    with create_smithers_db(path, watch=False) as db, create_smithers_db(path) as other:
        execution = other.execution.start("w")
        one, every = Recorder[Execution | None](), Recorder[list[Execution]]()
        db.executions.observe(execution).subscribe(one)
        db.executions.observe().subscribe(every)
        db.phases.observe().subscribe(Recorder[Any]())
        before = caught_up(db)
        for _ in range(3):
            other.executions._ownership.beat()  # pyright: ignore[reportPrivateUsage]
        assert caught_up(db) == before
        assert (len(one.values), len(every.values)) == (1, 1)
