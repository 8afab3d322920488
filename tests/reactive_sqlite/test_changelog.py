"""The change log: every change of a tracked table, by whatever program, is in it once, in order."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import Database, NotTracked, Untrackable, sqlite3
from reactive_sqlite.changelog import KEPT, PORTION
from tests.reactive_sqlite.threads import together
from tests.recorder import Recorder

SCHEMA = """
    CREATE TABLE t(id INTEGER PRIMARY KEY, a, b TEXT COLLATE NOCASE, hb);
    CREATE TABLE pair(a TEXT, b INT, v, PRIMARY KEY (b, a));
    CREATE TABLE word(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
    CREATE TABLE bare(v);
    CREATE TABLE named(n TEXT UNIQUE, v);
    CREATE TABLE child(id INTEGER PRIMARY KEY,
        t REFERENCES t ON DELETE CASCADE ON UPDATE CASCADE);
    INSERT INTO t VALUES (1, 'one', 'x', 0), (2, 'two', 'y', 0);
    INSERT INTO child VALUES (10, 1);
    INSERT INTO bare VALUES ('first');
"""
TABLES = ("t", "pair", "word", "bare", "named", "child")
Told = list[tuple[Any, ...]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tracked.db"


@pytest.fixture
def db(path: Path) -> Iterator[Database]:
    # Unwatched: the tests say when to look.
    with Database(path, watch=False) as db:
        db.executescript(SCHEMA)
        for table in TABLES:
            db[table].track()
        yield db


@pytest.fixture
def other(db: Database, path: Path) -> Iterator[sqlite3.Connection]:
    """A program that has nothing of ours loaded."""
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def logged(db: Database) -> Told:
    """What the log says: table, operation, key, old key of updates, changed columns of updates."""
    told: Told = []
    for change in db.feed("reader of the whole log", start="beginning").due(10_000):
        told.append((change.table, change.op, change.key))
        if change.op == "update":
            told[-1] += (change.old_key, change.columns and set(change.columns))
    return told


def fetches(db: Database) -> int:
    """How many queries one look for foreign commits runs."""
    before = db.broker.fetches
    assert db.broker.check(), "something was committed elsewhere"
    return db.broker.fetches - before


# -- what is in the log ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("INSERT INTO t(id, a) VALUES (7, 'x')", [("t", "insert", 7)]),
        ("UPDATE t SET a = 'x' WHERE id = 1", [("t", "update", 1, 1, {"a"})]),
        ("UPDATE t SET a = 5, hb = 6 WHERE id = 1", [("t", "update", 1, 1, {"a", "hb"})]),
        ("UPDATE t SET a = a", []),
        ("UPDATE t SET b = 'X' WHERE id = 1", [("t", "update", 1, 1, {"b"})]),
        ("UPDATE t SET hb = 0.0 WHERE id = 1", [("t", "update", 1, 1, {"hb"})]),
        ("UPDATE t SET id = 5 WHERE id = 2", [("t", "update", 5, 2, {"id"})]),
        ("UPDATE t SET rowid = 5, hb = 1 WHERE id = 2", [("t", "update", 5, 2, {"id", "hb"})]),
        ("DELETE FROM t WHERE id = 2", [("t", "delete", 2)]),
        ("DELETE FROM t WHERE id = 99", []),
        ("DELETE FROM bare", [("bare", "delete", 1)]),
        (
            "INSERT INTO t(id) SELECT id + 10 FROM t",
            [("t", "insert", 11), ("t", "insert", 12)],
        ),
        ("REPLACE INTO t(id, a) VALUES (9, 'new')", [("t", "insert", 9)]),
        (
            "INSERT INTO t(id, a) VALUES (1, 'n') ON CONFLICT(id) DO UPDATE SET a = excluded.a",
            [("t", "update", 1, 1, {"a"})],
        ),
        ("INSERT OR IGNORE INTO t(id) VALUES (1), (8)", [("t", "insert", 8)]),
        ("INSERT INTO t(id) VALUES (4) RETURNING id", [("t", "insert", 4)]),
        ("INSERT INTO pair VALUES ('p', 1, 0)", [("pair", "insert", (1, "p"))]),
        ("INSERT INTO word VALUES ('k', 0)", [("word", "insert", "k")]),
        ("INSERT INTO bare VALUES ('x')", [("bare", "insert", 2)]),
        ("UPDATE bare SET rowid = 7", [("bare", "update", 7, 1, {"rowid"})]),
    ],
)
def test_what_any_program_writes_is_logged_row_by_row(
    db: Database, other: sqlite3.Connection, sql: str, expected: Told
) -> None:
    other.execute(sql).fetchall()
    assert logged(db) == expected


def test_a_replaced_row_is_logged_where_recursive_triggers_are_on(
    db: Database, other: sqlite3.Connection
) -> None:
    other.execute("REPLACE INTO t(id) VALUES (1)")
    assert logged(db) == [("t", "insert", 1)], "else only what replaced it"
    other.execute("PRAGMA recursive_triggers = ON")
    other.execute("REPLACE INTO t(id) VALUES (1)")
    assert logged(db)[1:] == [("t", "delete", 1), ("t", "insert", 1)]


def test_cascades_and_the_writes_of_triggers_are_logged(
    db: Database, other: sqlite3.Connection
) -> None:
    other.executescript("""
        PRAGMA foreign_keys = ON;
        CREATE TRIGGER echo AFTER DELETE ON child BEGIN INSERT INTO word VALUES ('echo', 1); END;
        UPDATE t SET id = 3 WHERE id = 1;
        DELETE FROM t WHERE id = 3;
    """)
    told = logged(db)
    assert ("child", "update", 10, 10, {"t"}) in told
    last = sorted(row[:3] for row in told[-3:])
    assert last == [("child", "delete", 10), ("t", "delete", 3), ("word", "insert", "echo")]


@pytest.mark.parametrize(
    "key", [1, 1.5, "1", b"1", -(2**63), 2**63 - 1, "ünï", "with \0 in it", "", b"", 1e300]
)
def test_keys_keep_their_value_and_type(db: Database, key: Any) -> None:
    db.execute("CREATE TABLE any(k PRIMARY KEY, v)")
    db["any"].track()
    db.execute("INSERT INTO any VALUES (?, 0)", [key])
    db.execute("UPDATE any SET v = 1")
    (inserted, updated) = db.feed("c", "any", start="beginning").due()
    for found in (inserted.key, updated.key, updated.old_key):
        assert (type(found), found) == (type(key), key)


def test_a_key_that_is_no_utf8_blocks_nothing(db: Database, other: sqlite3.Connection) -> None:
    seen = Recorder[Any]()
    db.observe_value("SELECT count(*) FROM word").subscribe(seen)
    other.execute("INSERT INTO word VALUES (CAST(x'ff41' AS TEXT), 1), ('good', 2)")
    assert db.broker.check()
    assert seen.last == 2
    bad, good = db.feed("c", "word", start="beginning").due()
    assert bad.key.encode(errors="surrogateescape") == b"\xffA"
    assert good.key == "good"


def test_the_sqlite3_command_line_is_logged_like_any_program(
    db: Database, path: Path, sqlite3_cli: str
) -> None:
    script = """
        PRAGMA trusted_schema = OFF;
        INSERT INTO t(id, a) VALUES (3, 'cli');
        BEGIN; DELETE FROM t WHERE id = 3; ROLLBACK;
        UPDATE t SET hb = 1 WHERE id = 3;
    """
    subprocess.run([sqlite3_cli, str(path)], input=script, text=True, check=True, timeout=30)
    assert logged(db) == [("t", "insert", 3), ("t", "update", 3, 3, {"hb"})]


def test_a_program_that_attaches_the_file_is_logged_too(
    db: Database, path: Path, tmp_path: Path
) -> None:
    with Database(tmp_path / "main.db", watch=False) as attaching:
        attaching["t"].insert({"id": 1}, pk="id")
        attaching["t"].track()
        attaching.execute("ATTACH ? AS shop", [str(path)])
        seen = told_of(attaching)
        attaching.execute("INSERT INTO shop.t(id) VALUES (3)")
        attaching.execute("INSERT INTO t(id) VALUES (2)")
        assert [row.table for changes in seen.values for row in changes.rows] == ["shop.t", "t"]
        assert logged(attaching) == [("t", "insert", 2)], "each file has its own log"
    assert logged(db) == [("t", "insert", 3)]


def test_what_is_rolled_back_is_not_in_the_log(db: Database, other: sqlite3.Connection) -> None:
    other.executescript("""
        BEGIN; INSERT INTO t(id) VALUES (3); ROLLBACK;
        BEGIN; INSERT INTO t(id) VALUES (4); SAVEPOINT s; INSERT INTO t(id) VALUES (5);
        ROLLBACK TO s; INSERT INTO t(id) VALUES (6); COMMIT;
    """)
    with pytest.raises(ZeroDivisionError), db.transaction():
        db["t"].insert({"id": 7})
        raise ZeroDivisionError
    assert logged(db) == [("t", "insert", 4), ("t", "insert", 6)]


@pytest.mark.parametrize("policy", ["ABORT", "FAIL", "ROLLBACK", "IGNORE", "REPLACE"])
def test_logging_never_makes_a_statement_fail_that_would_not(
    db: Database, other: sqlite3.Connection, policy: str
) -> None:
    for id in (21, 22):
        other.execute(f"INSERT OR {policy} INTO t(id, a) VALUES (?, 0)", [id])
        other.execute(f"UPDATE OR {policy} t SET a = 1 WHERE id = ?", [id])
    assert len(logged(db)) == 4


def test_rows_kept_by_a_failing_statement_are_logged(
    db: Database, other: sqlite3.Connection
) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        other.execute("INSERT OR FAIL INTO t(id) VALUES (5), (1), (6)")
    assert logged(db) == [("t", "insert", 5)]


def test_a_row_whose_generated_column_cannot_be_computed_can_be_mended(
    db: Database, other: sqlite3.Connection
) -> None:
    db.execute("CREATE TABLE g(id INTEGER PRIMARY KEY, j)")
    db.execute("INSERT INTO g(j) VALUES ('no json')")
    db.execute("ALTER TABLE g ADD COLUMN x AS (json_extract(j, '$.x'))")
    db["g"].track()
    seen = Recorder[Any]()
    db.execute("UPDATE g SET j = '{}'")
    db.observe("SELECT x FROM g").subscribe(seen)
    other.execute("""UPDATE g SET j = '{"x": 1}'""")
    db.broker.check()
    assert seen.last == [{"x": 1}]
    assert logged(db) == [("g", "update", 1, 1, {"j"})] * 2


def test_more_columns_than_an_entry_has_bits(db: Database, other: sqlite3.Connection) -> None:
    columns = ", ".join(f"c{n}" for n in range(100))
    db.execute(f"CREATE TABLE wide(id INTEGER PRIMARY KEY, {columns})")
    db["wide"].track()
    db.execute("INSERT INTO wide(id) VALUES (1)")
    seen = Recorder[Any]()
    db.observe("SELECT c1, c99 FROM wide WHERE id = 1").subscribe(seen)
    for column in ("c0", "c59", "c98"):
        other.execute(f"UPDATE wide SET {column} = 1")
    assert fetches(db) == 1, "one of those without a bit: any may be meant"
    told = [row[2:] for row in logged(db)[1:]]
    assert told == [(1, 1, {"c0"}), (1, 1, {"c59"}), (1, 1, None)]
    other.execute("UPDATE wide SET c99 = 5")
    assert fetches(db) == 1
    assert seen.last == [{"c1": None, "c99": 5}]


def test_the_time_of_a_change_is_that_of_its_statement(db: Database) -> None:
    before = datetime.now(UTC)
    db["t"].insert({"id": 3})
    (change,) = db.feed("c", start="beginning").due()
    assert before - timedelta(seconds=1) < change.at < datetime.now(UTC) + timedelta(seconds=1)


# -- tracking --------------------------------------------------------------------------------------


def test_tracking_twice_changes_nothing(db: Database) -> None:
    before = db.schema
    assert db["t"].track() is not None
    assert db.schema == before
    assert db.tracked() == sorted(TABLES)


def test_tracking_holds_for_the_file_not_for_the_handle(db: Database, path: Path) -> None:
    with Database(path, watch=False) as again:
        assert again.tracked() == sorted(TABLES)
        again["t"].insert({"id": 3})
    assert logged(db) == [("t", "insert", 3)]


def test_untracking_stops_the_log_and_keeps_what_is_in_it(db: Database) -> None:
    db["t"].insert({"id": 3})
    db["t"].untrack()
    db["t"].insert({"id": 4})
    assert "t" not in db.tracked()
    assert logged(db) == [("t", "insert", 3)]
    db["t"].track()
    db["t"].insert({"id": 5})
    assert logged(db) == [("t", "insert", 3), ("t", "insert", 5)]
    db["word"].untrack()
    db["word"].untrack()


def test_tracking_in_a_transaction_is_undone_with_it(db: Database) -> None:
    db.execute("CREATE TABLE fresh(v)")
    with pytest.raises(ZeroDivisionError), db.transaction():
        db["fresh"].track()
        raise ZeroDivisionError
    assert "fresh" not in db.tracked()
    with db.transaction():
        db["fresh"].track()
        db["fresh"].insert({"v": 1})
    assert logged(db) == [("fresh", "insert", 1)]


@pytest.mark.parametrize(
    ("make", "name", "reason"),
    [
        ("CREATE VIEW v AS SELECT 1", "v", "a view"),
        ("CREATE VIRTUAL TABLE f USING fts5(x)", "f", "a virtual table"),
        ("CREATE VIRTUAL TABLE f USING fts5(x)", "f_content", "a part of a virtual table"),
        ("CREATE TEMP TABLE mine(x)", "mine", "temporary"),
        ("ATTACH ':memory:' AS more; CREATE TABLE more.far(x)", "far", "attached database more"),
        ("SELECT 1", "_reactive_log", "belongs to the database itself"),
        ("SELECT 1", "sqlite_sequence", "belongs to the database itself"),
    ],
)
def test_what_cannot_be_tracked_is_refused_by_name(
    db: Database, make: str, name: str, reason: str
) -> None:
    db.executescript(make)
    before = db.tracked()
    with pytest.raises(Untrackable, match=reason) as caught:
        db[name].track()
    assert caught.value.table == name
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert db.tracked() == before


def test_tracking_a_table_that_does_not_exist_is_sqlites_error(db: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table: nowhere"):
        db["nowhere"].track()


def test_a_read_only_database_can_track_nothing(db: Database, path: Path) -> None:
    db.execute("CREATE TABLE fresh(v)")
    with Database(path, read_only=True, watch=False) as reader:
        assert reader.tracked() == sorted(TABLES)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader["fresh"].track()


def test_our_triggers_for_observers_are_not_taken_for_those_of_the_log(db: Database) -> None:
    seen = Recorder[Any]()
    db["t"].observe_row(1).subscribe(seen)
    db.execute("ALTER TABLE t ADD COLUMN more")  # takes the others away for a moment
    db["t"].update(1, {"more": 1})
    assert seen.last["more"] == 1
    assert logged(db) == [("t", "update", 1, 1, {"more"})]


def test_many_may_begin_to_track_at_once(db: Database, path: Path) -> None:
    def track() -> None:
        with Database(path, watch=False) as own:
            for name in ("one", "two"):
                own[name].track()
                own[name].insert({"v": 1})
            own.feed("c")

    db.executescript("CREATE TABLE one(v); CREATE TABLE two(v)")
    together(*[track] * 8)
    made = db.execute("SELECT count(*) FROM sqlite_master WHERE tbl_name = 'one'").fetchone()
    assert made == (4,), "the table and one set of triggers"
    assert len(logged(db)) == 16
    assert [status.consumer for status in db.feeds()] == ["c", "reader of the whole log"]


# -- schema changes --------------------------------------------------------------------------------


def test_another_programs_drop_column_works_and_the_rest_is_logged(
    db: Database, other: sqlite3.Connection
) -> None:
    seen = Recorder[Any]()
    db.observe("SELECT hb FROM t WHERE id = 1").subscribe(seen)
    other.execute("ALTER TABLE t DROP COLUMN a")
    other.execute("UPDATE t SET hb = 5 WHERE id = 1")
    db.broker.check()
    assert seen.last == [{"hb": 5}]
    assert logged(db) == [("t", "update", 1, 1, {"hb"})]


def test_a_column_that_another_program_adds_counts_as_any_until_the_next_opening(
    db: Database, path: Path, other: sqlite3.Connection
) -> None:
    seen = Recorder[Any]()
    db.observe("SELECT * FROM t WHERE id = 1").subscribe(seen)
    other.execute("ALTER TABLE t ADD COLUMN late")
    other.execute("UPDATE t SET late = 1 WHERE id = 1")
    db.broker.check()
    other.execute("UPDATE t SET late = 2 WHERE id = 1")
    db.broker.check()
    assert seen.last[0]["late"] == 2
    assert logged(db) == [("t", "update", 1, 1, None)] * 2
    Database(path, watch=False).close()
    other.execute("UPDATE t SET late = 3 WHERE id = 1")
    assert logged(db)[2:] == [("t", "update", 1, 1, {"late"})]
    db.broker.check()
    assert seen.last[0]["late"] == 3


def test_a_column_that_another_program_renames_keeps_its_observers_current(
    db: Database, path: Path, other: sqlite3.Connection
) -> None:
    seen = Recorder[Any]()
    db.observe("SELECT * FROM t WHERE id = 1").subscribe(seen)
    other.executescript("ALTER TABLE t RENAME COLUMN a TO z; UPDATE t SET z = 5 WHERE id = 1")
    db.broker.check()
    other.execute("UPDATE t SET z = 6 WHERE id = 1")
    db.broker.check()
    assert seen.last[0]["z"] == 6
    Database(path, watch=False).close()
    other.execute("UPDATE t SET z = 7 WHERE id = 1")
    assert logged(db)[-1] == ("t", "update", 1, 1, {"z"})


def test_the_log_follows_a_table_that_another_program_renames(
    db: Database, path: Path, other: sqlite3.Connection
) -> None:
    db.feed("c", "t")
    other.executescript("INSERT INTO t(id) VALUES (3); ALTER TABLE t RENAME TO u")
    other.execute("INSERT INTO u(id) VALUES (4)")
    assert "u" in db.tracked() and "t" not in db.tracked()
    Database(path, watch=False).close()
    assert [(c.table, c.key) for c in db.feed("c", "u").due()] == [("u", 3), ("u", 4)]
    with pytest.raises(NotTracked):
        db.feed("d", "t")


def test_our_own_schema_changes_are_tracked_at_once(db: Database) -> None:
    db.execute("ALTER TABLE t RENAME COLUMN a TO z")
    db.execute("ALTER TABLE t ADD COLUMN late")
    db.execute("ALTER TABLE t DROP COLUMN z")
    db["t"].update(1, {"late": 5})
    assert logged(db) == [("t", "update", 1, 1, {"late"})]


def test_a_transformed_table_is_tracked_before_the_commit(
    db: Database, other: sqlite3.Connection
) -> None:
    db["t"].transform(rename={"a": "z"}, pk="id")
    other.execute("UPDATE t SET z = 'new' WHERE id = 1")
    assert logged(db) == [("t", "update", 1, 1, {"z"})]
    assert "t" in db.tracked()


def test_a_table_that_another_program_makes_anew_is_tracked_at_the_next_opening(
    db: Database, path: Path, other: sqlite3.Connection
) -> None:
    seen = Recorder[Any]()
    db.observe_value("SELECT count(*) FROM word").subscribe(seen)
    other.executescript("DROP TABLE word; CREATE TABLE word(k TEXT PRIMARY KEY, more)")
    assert "word" not in db.tracked()
    other.execute("INSERT INTO word VALUES ('unlogged', 1)")
    db.broker.check()
    assert seen.last == 1, "what is not logged is found as before"
    Database(path, watch=False).close()
    other.execute("INSERT INTO word VALUES ('logged', 1)")
    assert logged(db) == [("word", "insert", "logged")]


def test_what_a_later_trigger_of_the_user_writes_is_logged_after_its_cause(
    db: Database,
) -> None:
    db.execute(
        "CREATE TRIGGER doubles AFTER INSERT ON t BEGIN UPDATE t SET hb = 2 WHERE id = NEW.id; END"
    )
    db["t"].insert({"id": 3})
    assert logged(db) == [("t", "insert", 3), ("t", "update", 3, 3, {"hb"})]


# -- what foreign commits run again ----------------------------------------------------------------


def test_a_foreign_commit_runs_only_the_queries_it_touched(
    db: Database, other: sqlite3.Connection
) -> None:
    for id in range(100):
        db["t"].observe_row(id).subscribe()
        db["t"].observe({"a": f"v{id}"}, select="a").subscribe()
    db.observe("SELECT a FROM t").subscribe()
    db.observe("SELECT b FROM t").subscribe()
    db.observe_value("SELECT count(*) FROM t").subscribe()
    db.observe("SELECT * FROM word").subscribe()
    other.execute("UPDATE t SET b = 'new' WHERE id = 1")
    assert fetches(db) == 2, "the row, and the column b"
    other.execute("UPDATE t SET id = 50 WHERE id = 2")
    assert fetches(db) >= 2 + 3, "the key that it left, the one that it came to, and every scan"
    other.execute("INSERT INTO word VALUES ('k', 1)")
    assert fetches(db) == 1
    other.execute("INSERT INTO pair VALUES ('k', 1, 1)")
    assert fetches(db) == 0


def test_foreign_heartbeats_run_nothing(db: Database, other: sqlite3.Connection) -> None:
    db.observe("SELECT id, a, b FROM t").subscribe()
    db.observe("SELECT t.a, child.id FROM t JOIN child ON child.t = t.id").subscribe()
    for beat in range(1, 50):
        other.execute("UPDATE t SET hb = ? WHERE id = 1", [beat])
        assert fetches(db) == 0


def test_a_query_that_also_reads_a_table_without_a_log_runs_as_ever(
    db: Database, other: sqlite3.Connection
) -> None:
    db.executescript("CREATE TABLE loose(v); CREATE TABLE loose2(v)")
    db.observe("SELECT a FROM t, loose").subscribe()
    db.observe("SELECT a FROM t").subscribe()
    other.execute("INSERT INTO loose2 VALUES (1)")
    assert fetches(db) == 1


def test_own_commits_in_between_run_nothing_again(db: Database, other: sqlite3.Connection) -> None:
    db.observe("SELECT a FROM t").subscribe()
    db["t"].update(1, {"a": "own"})
    assert not db.broker.check(), "and now they are known to be our own"
    other.execute("UPDATE t SET hb = 1")
    assert fetches(db) == 0


def test_own_commits_before_a_query_was_followed_run_nothing_again(
    db: Database, other: sqlite3.Connection
) -> None:
    db["t"].update(1, {"a": "own"})
    following = [db.observe("SELECT a FROM t").subscribe()]
    other.execute("UPDATE t SET hb = 1")
    assert fetches(db) == 0, "the first query has seen what this connection wrote before"
    db["t"].insert({"id": 77, "a": "own"})
    following.append(db["t"].observe_row(77).subscribe())
    other.execute("UPDATE t SET hb = 2 WHERE id = 1")
    assert fetches(db) == 0, "and so has one that joins others"
    other.execute("UPDATE t SET a = 'foreign' WHERE id = 77")
    assert fetches(db) == 2
    seen = Recorder[Any]()
    db["t"].update(77, {"a": "own again"})
    other.execute("UPDATE t SET a = 'foreign again' WHERE id = 77")
    db["t"].observe_row(1).subscribe()
    db["t"].observe_row(77).subscribe(seen)
    assert seen.last["a"] == "foreign again", "what came in between is not taken for our own"
    for query in following:
        query.dispose()


def test_own_commits_never_hide_a_foreign_one(db: Database, other: sqlite3.Connection) -> None:
    seen = Recorder[Any]()
    db["t"].observe_row(1).subscribe(seen)
    db["t"].update(2, {"a": "own"})
    other.execute("UPDATE t SET a = 'foreign' WHERE id = 1")
    db["t"].update(2, {"a": "own again"})
    db.broker.check()
    assert seen.last["a"] == "foreign"


def test_more_entries_than_are_worth_reading_run_everything(
    db: Database, other: sqlite3.Connection
) -> None:
    seen = Recorder[Any]()
    db["word"].observe().subscribe()
    db["t"].observe_row(5000).subscribe(seen)
    other.execute(
        "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)"
        " INSERT INTO t(id) SELECT i FROM n"
    )
    assert fetches(db) == 2
    assert seen.last["id"] == 5000
    other.execute("UPDATE t SET hb = 1 WHERE id = 5001")
    assert fetches(db) == 0, "it goes on from there"


def test_a_log_that_was_trimmed_before_it_was_read_runs_everything(
    db: Database, other: sqlite3.Connection
) -> None:
    seen = Recorder[Any]()
    db["t"].observe_row(1).subscribe(seen)
    other.executescript(
        "UPDATE t SET a = 'new' WHERE id = 1; UPDATE t SET a = 'new' WHERE id = 2;"
        "DELETE FROM _reactive_log"
    )
    db.broker.check()
    assert seen.last["a"] == "new"


def test_a_row_that_a_replace_removes_unseen_leaves_no_observer_behind(
    db: Database, other: sqlite3.Connection
) -> None:
    other.execute("INSERT INTO named VALUES ('n', 1)")
    db.broker.check()
    seen = Recorder[Any]()
    db.observe("SELECT v FROM named WHERE rowid = 1").subscribe(seen)
    other.execute("INSERT INTO named(rowid, n, v) VALUES (2, 'm', 2)")
    other.execute("REPLACE INTO named(rowid, n, v) VALUES (3, 'n', 3)")
    db.broker.check()
    assert seen.last == [], "another unique column took the row away, and no trigger said so"
    other.execute("UPDATE OR REPLACE named SET n = 'm' WHERE n = 'n'")
    db.broker.check()
    assert other.execute("SELECT count(*) FROM named").fetchone() == (1,)


def has_beat(beat: int, row: dict[str, Any]) -> bool:
    return bool(row["hb"] == beat)


def test_foreign_commits_take_the_log_under_the_watcher(path: Path) -> None:
    with Database(path) as db:
        db.executescript(SCHEMA)
        db["t"].track()
        seen, unread = Recorder[Any](), Recorder[Any]()
        db["t"].observe_row(1).subscribe(seen)
        db.observe("SELECT b FROM t").subscribe(unread)
        other = sqlite3.connect(path, isolation_level=None)
        for beat in range(1, 20):
            other.execute("UPDATE t SET hb = ? WHERE id = 1", [beat])
            seen.wait_for(partial(has_beat, beat))
        other.close()
        assert len(unread.values) == 1
        assert db.broker.fetches <= 2 + 19, "the column that nobody wrote was read once"


# -- change sets -----------------------------------------------------------------------------------


def told_of(db: Database, *tables: str) -> Recorder[Any]:
    seen = Recorder[Any]()
    db.changes(*tables).subscribe(seen)
    return seen


def test_change_sets_of_foreign_commits_name_the_rows_of_tracked_tables(
    db: Database, other: sqlite3.Connection
) -> None:
    seen, all_of_it = told_of(db, "t"), told_of(db)
    other.execute("UPDATE t SET id = 9, a = 0 WHERE id = 2")
    other.execute("INSERT INTO word VALUES ('k', 1)")
    db.broker.check()
    (changes,) = seen.values
    assert changes.external
    assert changes.tables == {"t"}
    assert [(r.table, r.op, r.key, r.old_key) for r in changes.rows] == [("t", "update", 9, 2)]
    (everything,) = all_of_it.values
    assert everything.tables == {"t", "word"}, "every table is tracked: nothing else has changed"
    assert [row.key for row in everything.rows] == [9, "k"]
    other.execute("INSERT INTO pair VALUES ('p', 1, 1)")
    db.broker.check()
    assert len(seen.values) == 1


def test_change_sets_say_what_is_unknown(db: Database, other: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE loose(v)")
    seen, both = told_of(db, "loose"), told_of(db)
    other.execute("INSERT INTO loose VALUES (1)")
    db.broker.check()
    assert [(s.tables, s.rows, s.external) for s in seen.values] == [(None, None, True)]
    other.execute("INSERT INTO word VALUES ('k', 1)")
    db.broker.check()
    assert both.last.tables is None
    assert [row.key for row in both.last.rows] == ["k"]


def test_own_commits_are_never_told_again_as_foreign(
    db: Database, other: sqlite3.Connection
) -> None:
    db["t"].update(1, {"a": "before"})
    seen = told_of(db, "t")
    other.execute("INSERT INTO t(id) VALUES (20)")
    with db.transaction():
        db["t"].insert({"id": 21})
        db.execute("SAVEPOINT s")
        db["t"].insert({"id": 99})
        db.execute("ROLLBACK TO s")
    other.execute("INSERT INTO t(id) VALUES (22)")
    db["t"].insert({"id": 23})
    other.execute("INSERT INTO t(id) VALUES (24)")
    db.broker.check()
    told = [(row.key, changes.external) for changes in seen.values for row in changes.rows]
    assert sorted(told) == [(20, True), (21, False), (22, True), (23, False), (24, True)]


def test_a_bulk_write_of_our_own_leaves_the_next_foreign_rows_unknown(
    db: Database, other: sqlite3.Connection
) -> None:
    seen = told_of(db, "word")
    with db.transaction():
        db["word"].insert_all({"k": f"k{n}", "v": 0} for n in range(12_000))
    other.execute("INSERT INTO word VALUES ('foreign', 1)")
    db.broker.check()
    assert (seen.last.tables, seen.last.rows) == (None, None)
    other.execute("INSERT INTO word VALUES ('more', 1)")
    db.broker.check()
    assert [row.key for row in seen.last.rows] == ["more"]


def test_the_logs_own_tables_are_in_no_change_set(db: Database) -> None:
    seen = told_of(db)
    feed = db.feed("c", start="beginning")
    db["t"].insert({"id": 3})
    feed.ack(feed.due()[0])
    assert [row.table for changes in seen.values for row in changes.rows] == ["t"]


# -- its size --------------------------------------------------------------------------------------


def entries(other: sqlite3.Connection) -> tuple[int, int]:
    count, newest = other.execute("SELECT count(*), max(seq) FROM _reactive_log").fetchone()
    return count, newest


def write(other: sqlite3.Connection, table: str, rows: int) -> None:
    other.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
        f" INSERT INTO {table}(v) SELECT i FROM n",
        [rows],
    )


def test_the_log_stays_small_although_only_foreign_programs_write(
    db: Database, other: sqlite3.Connection
) -> None:
    for _ in range(5):
        write(other, "bare", 10_000)
    count, newest = entries(other)
    assert newest == 50_000
    assert KEPT <= count <= KEPT + PORTION


def test_what_a_consumer_needs_is_kept_and_nothing_else(
    db: Database, other: sqlite3.Connection
) -> None:
    feed = db.feed("slow", "bare")
    write(other, "bare", 3_000)
    write(other, "named", 30_000)
    assert entries(other)[0] <= 3_000 + KEPT + PORTION, "the other table's entries are trimmed"
    told = feed.due(5_000)
    assert [change.key for change in told] == list(range(2, 3_002))
    feed.ack(told[-1])
    write(other, "named", PORTION)
    assert entries(other)[0] <= KEPT + PORTION


def test_a_backlog_is_trimmed_in_portions(db: Database, other: sqlite3.Connection) -> None:
    feed = db.feed("slow", "bare")
    write(other, "bare", 40_000)
    feed.ack(feed.due(40_000)[-1])
    before = entries(other)[0]
    write(other, "bare", PORTION)
    assert before + PORTION - entries(other)[0] <= 6 * PORTION, "a user's statement waits for it"
    for _ in range(10):
        write(other, "bare", PORTION)
    assert entries(other)[0] <= KEPT + PORTION


def test_trimming_by_hand_spares_what_is_needed_and_the_newest(
    db: Database, other: sqlite3.Connection
) -> None:
    write(other, "bare", 100)
    write(other, "named", 100)
    feed = db.feed("c", "bare", start="beginning")
    feed.ack(feed.due()[59])
    assert db.trim_feed(timedelta(hours=1)) == 0
    assert db.trim_feed(datetime.now(UTC) - timedelta(hours=1)) == 0
    assert db.trim_feed() == 60 + 99
    assert [change.key for change in feed.due()] == list(range(62, 102))
    assert db.drop_consumer("c")
    assert not db.drop_consumer("c")
    assert db.trim_feed() == 40
    assert entries(other) == (1, 200), "no number is ever given twice"
    other.execute("DELETE FROM _reactive_log")
    write(other, "bare", 1)
    assert entries(other) == (2, 201)
    with pytest.raises(TypeError, match="older_than"):
        db.trim_feed(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    for outside in (datetime.min, datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))):
        with pytest.raises(ValueError, match="older_than is no time that there is"):
            db.trim_feed(outside)


def test_a_database_without_a_log_has_nothing_to_say(tmp_path: Path) -> None:
    with Database(tmp_path / "plain.db", watch=False) as db:
        assert (db.tracked(), db.feeds(), db.trim_feed(), db.drop_consumer("c")) == (
            [],
            [],
            0,
            False,
        )
        db["t"].insert({"id": 1}, pk="id")
        db["t"].untrack()
        assert db.table_names() == ["t"]
