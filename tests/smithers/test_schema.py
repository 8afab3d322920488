"""The tables themselves: what they refuse, and what their triggers record of other programs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlite_utils

from reactive_sqlite import sqlite3
from smithers.schema import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    TABLES,
    migrate,
    migrations,
    version,
)
from smithers.schema.history import NEXT_COMMIT

OWN = f"""
    INSERT INTO transitions
        (key, previous_value, value, "trigger", timestamp, deleted, "commit", apply)
    VALUES (:key, (SELECT value FROM state WHERE key = :key), :value, 'own',
        '2026-01-31T10:00:00.000000Z', :value IS NULL, {NEXT_COMMIT}, 1)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "db.sqlite"
    database = sqlite_utils.Database(str(file))
    with database.atomic():
        migrate(database)
    database.close()
    return file


@pytest.fixture(params=["recursive triggers on", "recursive triggers off"])
def plain(request: pytest.FixtureRequest, path: Path) -> Iterator[sqlite3.Connection]:
    """Some other program's connection: nothing set but, in half of the runs, recursive_triggers."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA recursive_triggers = {request.param.endswith('on')}")
    yield connection
    assert_history_is_the_state(connection)
    connection.close()


def assert_history_is_the_state(connection: sqlite3.Connection) -> None:
    """Replay all of history and compare it, step by step and at its end."""
    state: dict[str, str] = {}
    newest: dict[str, int] = {}
    columns = 'seq, key, previous_value, value, deleted, "commit"'
    commits: list[int] = []
    for seq, key, previous, value, deleted, commit in connection.execute(
        f"SELECT {columns} FROM transitions ORDER BY seq"
    ):
        assert previous == state.get(key), f"t{seq} has the wrong previous value"
        assert (value is None) == bool(deleted)
        if deleted:
            del state[key]
        else:
            state[key] = value
        newest[key] = seq
        commits.append(commit)
    assert state == dict(connection.execute("SELECT key, value FROM state"))
    assert commits == sorted(commits), "the rows of a commit stand together"
    for key, seq in connection.execute("SELECT key, seq FROM state"):
        assert seq == newest[key], f"the row of {key!r} does not point at its transition"


def own(connection: sqlite3.Connection, key: Any, value: Any) -> None:
    """Change the state as this package does."""
    connection.execute(OWN, {"key": key, "value": value})


def rows(connection: sqlite3.Connection, since: int = 0) -> list[tuple[Any, ...]]:
    sql = 'SELECT key, previous_value, value, "trigger" FROM transitions WHERE seq > ? ORDER BY seq'
    return connection.execute(sql, (since,)).fetchall()


def test_our_insert_changes_value_and_history_in_one_statement(plain: sqlite3.Connection) -> None:
    own(plain, "a", "1")
    own(plain, "a", "1")
    own(plain, "a", None)
    assert rows(plain) == [
        ("a", None, "1", "own"),
        ("a", "1", "1", "own"),
        ("a", "1", None, "own"),
    ], "recorded once each, the equal value too"


@pytest.mark.parametrize(
    ("statement", "recorded"),
    [
        ("INSERT INTO state (key, value) VALUES ('c', '3')", [("c", None, "3")]),
        (
            "INSERT INTO state (key, value) VALUES ('c', '3'), ('d', '4')",
            [("c", None, "3"), ("d", None, "4")],
        ),
        ("UPDATE state SET value = '9' WHERE key = 'a'", [("a", "1", "9")]),
        ("UPDATE state SET value = value WHERE key = 'a'", [("a", "1", "1")]),
        ("UPDATE state SET value = value || '0'", [("a", "1", "10"), ("b", "2", "20")]),
        ("UPDATE state SET value = '9', seq = 2 WHERE key = 'a'", [("a", "1", "9")]),
        ("UPDATE state SET updated_at = '2026-01-31'", []),
        ("UPDATE state SET value = '9' WHERE key = 'absent'", []),
        ("DELETE FROM state WHERE key = 'a'", [("a", "1", None)]),
        ("DELETE FROM state", [("a", "1", None), ("b", "2", None)]),
        ("UPDATE state SET key = 'z' WHERE key = 'a'", [("a", "1", None), ("z", None, "1")]),
        (
            "UPDATE state SET key = 'z', value = '7' WHERE key = 'a'",
            [("a", "1", None), ("z", None, "7")],
        ),
        (
            "INSERT INTO state (key, value) VALUES ('a', '5')"
            " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            [("a", "1", "5")],
        ),
        ("INSERT OR IGNORE INTO state (key, value) VALUES ('a', '5')", []),
    ],
)
def test_what_another_program_does_is_recorded_without_a_cause(
    plain: sqlite3.Connection, statement: str, recorded: list[tuple[Any, ...]]
) -> None:
    own(plain, "a", "1")
    own(plain, "b", "2")
    plain.execute(statement)
    assert rows(plain, since=2) == [(*row, None) for row in recorded]


@pytest.mark.parametrize(
    "statement",
    [
        "REPLACE INTO state (key, value) VALUES ('a', '5')",
        "UPDATE OR REPLACE state SET key = 'a' WHERE key = 'b'",
        "REPLACE INTO state (key, value) SELECT 'a', value FROM state",
        "REPLACE INTO state SELECT key, '7', updated_at, seq FROM state",
        "INSERT INTO state SELECT 'c', '7', updated_at, seq FROM state WHERE key = 'b'",
    ],
)
def test_history_stays_true_under_every_way_to_replace_a_row(
    plain: sqlite3.Connection, statement: str
) -> None:
    own(plain, "a", "1")
    own(plain, "b", "2")
    plain.execute(statement)
    assert rows(plain, since=2), "the fixture compares history and state afterwards"


def test_a_change_after_a_foreign_one_is_ours_again(plain: sqlite3.Connection) -> None:
    plain.execute("INSERT INTO state (key, value) VALUES ('a', '1')")
    own(plain, "a", "2")
    plain.execute("UPDATE state SET value = '3'")
    own(plain, "a", None)
    plain.execute("INSERT INTO state (key, value) VALUES ('a', '4')")
    assert rows(plain) == [
        ("a", None, "1", None),
        ("a", "1", "2", "own"),
        ("a", "2", "3", None),
        ("a", "3", None, "own"),
        ("a", None, "4", None),
    ]


def test_a_row_gets_the_time_of_its_transition(plain: sqlite3.Connection) -> None:
    plain.execute("INSERT INTO state (key, value, updated_at) VALUES ('a', '1', 'long ago')")
    plain.execute("UPDATE state SET value = '2'")
    (updated,) = plain.execute("SELECT updated_at FROM state").fetchone()
    (recorded,) = plain.execute("SELECT max(timestamp) FROM transitions").fetchone()
    assert updated == recorded


def test_rows_imported_without_the_flag_leave_the_state_alone(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(
        """INSERT INTO transitions (key, value, timestamp, "commit") VALUES ('a', '1', 'then', 1)"""
    )
    assert connection.execute("SELECT count(*) FROM state").fetchone() == (0,)
    connection.close()


def test_every_foreign_statement_is_a_commit_and_its_rows_share_it(
    plain: sqlite3.Connection,
) -> None:
    plain.execute("BEGIN")
    plain.execute("INSERT INTO state (key, value) VALUES ('a', '1'), ('b', '2')")
    plain.execute("UPDATE state SET value = '3'")
    plain.execute("UPDATE state SET key = 'c' WHERE key = 'a'")
    plain.execute("COMMIT")
    found = plain.execute('SELECT seq, "commit" FROM transitions').fetchall()
    assert found == [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5)]


def test_an_id_is_never_given_twice(plain: sqlite3.Connection) -> None:
    own(plain, "a", "1")
    own(plain, "b", "2")
    plain.execute("DELETE FROM transitions WHERE seq = 2")
    plain.execute("DELETE FROM state WHERE key = 'b'")
    plain.execute("DELETE FROM transitions")
    plain.execute("DELETE FROM state")
    ids = plain.execute("SELECT id FROM transitions").fetchall()
    assert ids == [("t4",)], "t2 is gone with its row; t3 and t4 are the deletions of b and a"
    plain.execute("DELETE FROM transitions")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "{",
        "nul",
        "NaN",
        "Infinity",
        "'x'",
        "{a:1}",
        "[1,]",
        "01",
        "1\0x",
        '"a\0"',
        '"\x01"',
        b"1",
    ],
)
def test_text_that_is_no_json_is_refused_by_the_table(
    plain: sqlite3.Connection, value: str | bytes
) -> None:
    own(plain, "a", "1")
    for statement in (
        "INSERT INTO state (key, value) VALUES ('b', :value)",
        "UPDATE state SET value = :value",
        OWN,
    ):
        with pytest.raises(sqlite3.IntegrityError, match="CHECK constraint failed"):
            plain.execute(statement, {"key": "a", "value": value})
    assert len(rows(plain)) == 1


@pytest.mark.parametrize("key", ["", "a" * 1025, "a\0b", b"a", None])
def test_a_key_outside_the_rule_is_refused_by_the_table(
    plain: sqlite3.Connection, key: str | bytes | None
) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        plain.execute("INSERT INTO state (key, value) VALUES (?, '1')", (key,))
    with pytest.raises(sqlite3.IntegrityError):
        own(plain, key, "1")
    assert rows(plain) == []


def test_the_longest_key_is_taken(plain: sqlite3.Connection) -> None:
    plain.execute("INSERT INTO state (key, value) VALUES (?, '1')", ("é" * 1024,))
    assert len(rows(plain)) == 1


def test_the_sqlite3_command_line_is_recorded_like_any_other_program(
    path: Path, sqlite3_cli: str
) -> None:
    script = """
        INSERT INTO state (key, value) VALUES ('phase', '"start"');
        REPLACE INTO state (key, value) VALUES ('phase', '"review"');
        DELETE FROM state;
    """
    subprocess.run([sqlite3_cli, path, script], check=True)
    connection = sqlite3.connect(path)
    assert rows(connection) == [
        ("phase", None, '"start"', None),
        ("phase", '"start"', '"review"', None),
        ("phase", '"review"', None, None),
    ]
    assert_history_is_the_state(connection)
    connection.close()


def test_a_fresh_file_carries_our_marks_and_version(path: Path) -> None:
    database = sqlite_utils.Database(str(path))
    assert version(database) == SCHEMA_VERSION == len(migrations().applied(database))
    assert database.conn.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert database.conn.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    assert set(TABLES) <= set(database.table_names())
    database.close()


def test_the_marks_of_another_program_are_left_alone() -> None:
    database = sqlite_utils.Database(memory=True)
    database.conn.execute("PRAGMA user_version = 7")
    assert version(database) == 0, "the 7 is not a version of ours"
    with database.atomic():
        migrate(database)
    assert database.conn.execute("PRAGMA user_version").fetchone() == (7,)
    assert database.conn.execute("PRAGMA application_id").fetchone() == (0,)
    assert version(database) == SCHEMA_VERSION
    database.close()


def test_migrating_twice_changes_nothing(path: Path) -> None:
    database = sqlite_utils.Database(str(path))
    before = database.schema, list(database["_sqlite_migrations"].rows)
    with database.atomic():
        migrate(database)
    assert (database.schema, list(database["_sqlite_migrations"].rows)) == before
    database.close()
