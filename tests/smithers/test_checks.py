"""`db.check`: what is wrong with a file is found, what is right is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reactive_sqlite import sqlite3
from smithers import Finding, NotADatabase, SmithersDB, create_async_smithers_db, create_smithers_db
from smithers.storage.checks import MOST_NAMED, can_damage_log
from tests.smithers.commandline import environment


@pytest.fixture
def sound(db: SmithersDB) -> SmithersDB:
    """A database with a row in every table, and nothing wrong with it."""
    id = db.execution.start("Feature")
    with db.phases.open("plan"), db.steps.open("write"):
        agent = db.agents.start("prompt")
        db.tools.complete(db.tools.start(agent, "Read", {}), "text")
        db.agents.complete(agent, "done", tokens={"input": 10, "output": 5, "cost_usd": 0.1})
        db.agents.complete(db.agents.start("prompt"), "done", tokens={"cost_usd": 0.2})
    db.state.set_many({"a": 1, "b": {"c": [1.5, None]}, "gone": 1})
    db.state.delete("gone")
    db.state.replay_to("t1")
    db.vcs.log_commit(hash="abc", message="m")
    db.vcs.log_review(review_id="r", target="abc", approved=True, summary="s")
    for key, content in (("api", "the endpoint"), ("言語", "日本語です")):
        db.query(
            "INSERT INTO memories (category, key, content) VALUES ('fact', $1, $2)",
            [key, content],
            write=True,
        )
    db.execution.complete(id)
    db.execution.start("Other")
    return db


def errors(db: SmithersDB) -> list[tuple[str, str]]:
    return [(found.check, found.message) for found in db.check() if found.level == "error"]


def told(db: SmithersDB, check: str) -> list[Finding]:
    return [found for found in db.check() if found.check == check]


@pytest.fixture
def careless(foreign: sqlite3.Connection) -> sqlite3.Connection:
    """A program that minds neither foreign keys nor our triggers."""
    foreign.execute("PRAGMA foreign_keys = OFF")
    triggers = foreign.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    foreign.execute("CREATE TABLE scratch (sql TEXT)")
    foreign.execute("INSERT INTO scratch SELECT sql FROM sqlite_master WHERE type = 'trigger'")
    for (name,) in triggers:
        foreign.execute(f"DROP TRIGGER {name}")
    return foreign


def restored(careless: sqlite3.Connection) -> None:
    """Put the triggers back, so that only what was written is wrong."""
    for (sql,) in careless.execute("SELECT sql FROM scratch").fetchall():
        careless.execute(sql)
    careless.execute("DROP TABLE scratch")


def test_a_sound_database_has_no_errors(sound: SmithersDB, path: Path) -> None:
    assert errors(sound) == []
    assert {found.check for found in sound.check()} <= {"sqlite"}
    with create_smithers_db(path, read_only=True) as reading:
        assert errors(reading) == []
    with create_smithers_db(":memory:") as memory:
        assert memory.check() == [], "no log that could be damaged, no file that could be read"


async def test_the_asynchronous_database_finds_the_same(sound: SmithersDB, path: Path) -> None:
    sound.query("UPDATE executions SET total_agents = 7", write=True)
    async with create_async_smithers_db(path) as db:
        assert await db.check() == sound.check() != []
        assert await db.check(quick=True) == sound.check(quick=True)


@pytest.mark.parametrize(
    ("sql", "check", "message"),
    [
        ("DELETE FROM executions", "orphans", "1 row of phases without a row of executions"),
        ("DELETE FROM phases", "orphans", "1 row of steps without a row of phases"),
        ("DELETE FROM agents", "orphans", "1 row of tool_calls without a row of agents"),
        ("DELETE FROM phases", "totals", "1 execution with totals other than those of the rows: "),
        ("DELETE FROM tool_calls", "totals", "1 execution with totals other than"),
        (
            "UPDATE agents SET tokens_input = 11 WHERE tokens_input > 0",
            "totals",
            "1 execution with",
        ),
        ("UPDATE agents SET cost_usd = cost_usd + 1e-9", "totals", "1 execution with totals"),
        ("UPDATE executions SET total_iterations = 9", "totals", "2 executions with totals other"),
        (
            "UPDATE agents SET started_at = 1796005604",
            "times",
            "2 rows of agents with a started_at",
        ),
        ("UPDATE commits SET timestamp = 'now'", "times", "timestamp that is no time: 'now'"),
        ("UPDATE phases SET completed_at = '2026-02-30T00:00:00Z'", "times", "of phases with a"),
        ("UPDATE state SET value = '2'", "history", "3 keys in the state with another value than"),
        ("INSERT INTO state (key, value) VALUES ('x', '1')", "history", "1 key in the state that"),
        ("DELETE FROM state", "history", "3 keys that history knows and the state has not: 'a'"),
        ("UPDATE memories SET content = 'other'", "search", "2 memories not as they are in "),
        ("DELETE FROM _smithers_memories_words", "search", "2 memories not as they are in "),
        ("DELETE FROM _smithers_memories_pieces", "search", "1 memory not as they are in "),
        ("UPDATE _smithers_memories_words_content SET c1 = 'x'", "search", "malformed"),
        (
            "UPDATE phases SET execution_id = (SELECT id FROM executions WHERE name = 'Other')",
            *("parents", "1 row of steps below another execution's row: "),
        ),
    ],
)
def test_what_a_careless_program_has_done_is_found(
    sound: SmithersDB, careless: sqlite3.Connection, sql: str, check: str, message: str
) -> None:
    careless.execute(sql)
    restored(careless)
    found = errors(sound)
    assert any(name == check and message in text for name, text in found), found


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DROP TRIGGER agents_spent", "missing: trigger agents_spent"),
        ("DROP INDEX agents_by_phase", "missing: index agents_by_phase"),
        ("DROP TABLE snapshots", "missing: index snapshots_by_execution, table snapshots"),
        ("ALTER TABLE reviews ADD COLUMN mine", "not as this version makes it: table reviews"),
    ],
)
def test_a_schema_that_was_changed_is_found(
    sound: SmithersDB, foreign: sqlite3.Connection, sql: str, message: str
) -> None:
    foreign.execute("CREATE TABLE mine (n)")
    foreign.execute("CREATE TRIGGER mine_too AFTER INSERT ON mine BEGIN SELECT 1; END")
    assert errors(sound) == [], "what the user has added is no fault"
    foreign.execute(sql)
    assert ("schema", message) in errors(sound)


def test_a_table_of_the_users_own_is_checked_for_orphans_too(sound: SmithersDB) -> None:
    sound.query("CREATE TABLE mine (id REFERENCES executions (id))", write=True)
    assert sound.database.conn.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert sound.path is not None
    other = sqlite3.connect(sound.path, isolation_level=None)
    other.execute("INSERT INTO mine VALUES ('nobody')")
    other.close()
    assert errors(sound) == [("orphans", "1 row of mine without a row of executions")]


def test_many_of_the_same_are_counted_and_a_few_are_named(
    sound: SmithersDB, careless: sqlite3.Connection
) -> None:
    careless.executemany(
        "INSERT INTO state (key, value) VALUES (?, '1')", [(f"k{n}",) for n in range(9)]
    )
    restored(careless)
    (found,) = told(sound, "history")
    assert (found.count, found.level) == (9, "error")
    assert found.message.endswith(f"and {9 - MOST_NAMED} more")


def test_an_owner_that_has_gone_is_a_warning(sound: SmithersDB, path: Path) -> None:
    assert told(sound, "owners") == [], "this process runs it"
    with create_smithers_db(path) as other:
        left = other.execution.start("Left")
    (found,) = told(sound, "owners")
    assert found.level == "warning"
    assert f"execution 'Left' ({left}) can be resumed" in found.message
    sound.execution.complete(left)
    assert told(sound, "owners") == []


def test_what_runs_below_an_ended_execution_is_a_warning(
    sound: SmithersDB, foreign: sqlite3.Connection
) -> None:
    ended = sound.execution.list("completed")[0].id
    foreign.execute(
        "INSERT INTO agents (id, execution_id, model, prompt) VALUES ('x', ?, 'm', 'p')", [ended]
    )
    (found,) = told(sound, "parents")
    assert (found.level, found.count) == ("warning", 1)
    assert found.message == "1 row of agents running below an ended execution: x"


def test_files_that_others_may_read_or_write_are_warnings(sound: SmithersDB) -> None:
    assert told(sound, "permissions") == []
    assert sound.path is not None
    for mode, may in ((0o644, "read"), (0o622, "write"), (0o666, "read and write")):
        sound.path.chmod(mode)
        (found,) = told(sound, "permissions")
        assert found.message == f"others may {may} db.sqlite (mode {mode:04o})"
    sound.path.chmod(0o600)
    log = sound.path.with_name("db.sqlite-wal")
    log.chmod(0o640)
    assert [found.message for found in told(sound, "permissions")] == [
        "others may read db.sqlite-wal (mode 0640)"
    ]


@pytest.mark.parametrize(
    ("version", "damages"),
    [
        *(((3, 6, 23), False), ((3, 7, 0), True), ((3, 40, 1), True), ((3, 44, 5), True)),
        *(((3, 44, 6), False), ((3, 44, 9), False), ((3, 45, 0), True), ((3, 50, 6), True)),
        *(((3, 50, 7), False), ((3, 51, 0), True), ((3, 51, 2), True), ((3, 51, 3), False)),
        *(((3, 53, 4), False), ((4, 0, 0), False)),
    ],
)
def test_versions_of_sqlite_that_can_damage_a_log_are_known(
    version: tuple[int, int, int], damages: bool
) -> None:
    assert can_damage_log(version) is damages


def test_such_a_version_is_a_warning_where_there_is_a_log(
    sound: SmithersDB, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 2))
    (found,) = told(sound, "sqlite")
    assert found.level == "warning" and "3.51.3" in found.message
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))
    assert told(sound, "sqlite") == []


@pytest.mark.parametrize("quick", [False, True])
def test_a_damaged_page_is_found_and_the_other_checks_are_made_all_the_same(
    sound: SmithersDB, path: Path, quick: bool
) -> None:
    for number in range(300):
        sound.state.set(f"key{number}", "x" * 500)
    file = sound.path
    assert file is not None
    sound.close()
    root, size = _pages(file, "agents")
    damaged = bytearray(file.read_bytes())
    damaged[(root - 1) * size : root * size] = b"\xff" * size
    file.write_bytes(damaged)
    with create_smithers_db(path, read_only=True, watch=False) as db:
        found = db.check(quick=quick)
    checks = {finding.check for finding in found if finding.level == "error"}
    assert "integrity" in checks
    assert any("cannot be checked" in finding.message for finding in found), found
    assert not {"history", "schema"} & checks, "what can still be checked is"


def test_an_index_that_disagrees_with_its_table_is_found_unless_quick(
    sound: SmithersDB, path: Path
) -> None:
    file = sound.path
    assert file is not None
    sound.close()
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("PRAGMA writable_schema = ON")
    # The index of a table that is another one while a row is written.
    other.execute(
        "UPDATE sqlite_master SET sql = replace(sql, 'name)', 'status)') "
        "WHERE name = 'executions_by_name'"
    )
    other.close()
    with create_smithers_db(path, read_only=True, watch=False) as db:
        assert any(found.check == "integrity" for found in db.check())
        assert not any(found.check == "integrity" for found in db.check(quick=True))


def test_a_file_that_is_no_database_cannot_be_checked(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("notes" * 1000)
    with pytest.raises(NotADatabase):
        create_smithers_db(tmp_path / "notes", read_only=True)


def test_checking_changes_nothing_and_holds_no_writer_up(
    sound: SmithersDB, foreign: sqlite3.Connection, path: Path
) -> None:
    assert sound.path is not None
    files = [sound.path, sound.path.with_name("db.sqlite-wal")]
    before = [file.read_bytes() for file in files]
    seen: list[object] = []
    sound.state.observe_all().subscribe(seen.append)
    sound.check()
    assert [file.read_bytes() for file in files] == before
    assert not sound.database.conn.in_transaction
    foreign.execute("INSERT INTO state (key, value) VALUES ('x', '1')")
    assert errors(sound) == []
    with sound.transaction():
        sound.state.set("inside", 1)
        assert errors(sound) == [], "also in a transaction under way"
    assert sound.state.get("inside") == 1
    assert len(os.listdir(path)) == 3


@pytest.mark.parametrize("quick", [False, True])
def test_an_index_that_another_program_writes_to_is_looked_at_anew(
    sound: SmithersDB, foreign: sqlite3.Connection, quick: bool
) -> None:
    sound.query("CREATE VIRTUAL TABLE mine USING fts5 (words)", write=True)
    assert errors(sound) == [], "from here on SQLite remembers how the indexes are built"
    for number in range(100):
        foreign.execute("INSERT INTO mine VALUES (?)", [f"word{number} and more"])
        foreign.execute(
            "INSERT INTO memories (category, key, content) VALUES ('fact', ?, ?)",
            [f"key {number}", f"word{number} and more"],
        )
    assert [found for found in sound.check(quick=quick) if found.level == "error"] == []


WRITER = """
import sys
from smithers import create_smithers_db

with create_smithers_db(sys.argv[1]) as db:
    print("writing", flush=True)
    for number in range(100_000):
        id = db.execution.start("Busy")
        agent = db.agents.start("prompt")
        tokens = {"input": 1, "output": 1, "cost_usd": 0.1}
        db.agents.complete(agent, "done", tokens=tokens)
        db.state.set(f"key {number % 50}", number)
        db.memories.add_fact(f"key {number % 50}", f"number {number}")
        db.execution.complete(id)
"""


def test_a_live_writer_makes_no_false_findings(sound: SmithersDB, path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    try:
        assert writer.stdout is not None and writer.stdout.readline() == "writing\n"
        with create_smithers_db(path, read_only=True) as reading:
            for _ in range(15):
                before = sound.stats()["executions"]
                assert errors(reading) == errors(sound) == []
                while sound.stats()["executions"] == before:
                    assert writer.poll() is None
    finally:
        writer.kill()
        writer.communicate()


def _pages(file: Path, table: str) -> tuple[int, int]:
    """The first page of a table, and the size of a page."""
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (root,) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = ?", [table]
    ).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    return root, size
