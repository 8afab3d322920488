"""Definitions may change under observation, and what we add never stands in their way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import Database, RowChange, sqlite3
from tests.recorder import Recorder

SETUP = """
    CREATE TABLE t(id INTEGER PRIMARY KEY, a, b DEFAULT 0, c DEFAULT 0);
    CREATE TABLE u(id INTEGER PRIMARY KEY, t REFERENCES t, x);
    CREATE TABLE aside(x);
    CREATE VIEW v AS SELECT id, a FROM t;
    INSERT INTO t(id, a) VALUES (1, 'one'), (2, 'two');
"""


@pytest.fixture(autouse=True)
def schema(db: Database) -> None:
    db.conn.executescript(SETUP)


@pytest.fixture
def here_or_elsewhere(db: Database, request: pytest.FixtureRequest) -> Any:
    """A way to run a script: by this connection, or by another one that is then noticed."""
    if request.param == "here":
        yield db.conn.executescript
        return
    other = sqlite3.connect(str(db.path), isolation_level=None)

    def run(script: str) -> None:
        other.executescript(script)
        db.broker.check()

    yield run
    other.close()


both = pytest.mark.parametrize("here_or_elsewhere", ["here", "elsewhere"], indirect=True)
Run = Callable[[str], Any]


def values(db: Database, recorder: Recorder[Any], sql: str = "SELECT a FROM t") -> None:
    db.observe(sql).decoded(lambda rows: [next(iter(row.values())) for row in rows]).subscribe(
        recorder.on_next, recorder.on_error
    )


# -- what is observed changes ----------------------------------------------------------------------


@both
def test_a_redefined_view_is_followed(
    db: Database, recorder: Recorder[Any], here_or_elsewhere: Run
) -> None:
    values(db, recorder, "SELECT a FROM v")
    here_or_elsewhere("DROP VIEW v; CREATE VIEW v AS SELECT id, x AS a FROM u")
    assert recorder.last == []
    db.execute("INSERT INTO u(x) VALUES ('from u')")
    assert recorder.last == ["from u"]
    fetches = db.broker.fetches
    db.execute("INSERT INTO t(a) VALUES ('three')")
    assert db.broker.fetches == fetches, "the view reads that table no more"
    assert recorder.errors == []


@both
def test_a_dropped_and_recreated_table_is_followed(
    db: Database, recorder: Recorder[Any], here_or_elsewhere: Run
) -> None:
    values(db, recorder)
    here_or_elsewhere("DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
    assert recorder.last == []
    db.execute("INSERT INTO t(a) VALUES ('new')")
    assert recorder.last == ["new"]


@both
def test_a_dropped_table_is_missed_until_it_comes_back(
    db: Database,
    recorder: Recorder[Any],
    here_or_elsewhere: Run,
    observer_errors: list[BaseException],
) -> None:
    values(db, recorder)
    here_or_elsewhere("DROP TABLE t")
    assert [str(error) for error in observer_errors] == ["no such table: t"]
    db.execute("INSERT INTO aside VALUES (1)")
    here_or_elsewhere("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
    assert recorder.last == []
    db.execute("INSERT INTO t(a) VALUES ('new')")
    assert recorder.last == ["new"]
    assert recorder.errors == [], "the observable lived on"


@both
def test_a_renamed_table_is_lost_and_the_new_name_works(
    db: Database,
    recorder: Recorder[Any],
    here_or_elsewhere: Run,
    observer_errors: list[BaseException],
) -> None:
    values(db, recorder)
    here_or_elsewhere("ALTER TABLE t RENAME TO z")
    assert len(observer_errors) == 1
    after: Recorder[Any] = Recorder()
    values(db, after, "SELECT a FROM z")
    db.execute("UPDATE z SET a = 'x' WHERE id = 1")
    assert after.last == ["x", "two"]
    here_or_elsewhere("ALTER TABLE z RENAME TO t")
    assert recorder.last == ["x", "two"]


@both
def test_a_renamed_column_keeps_what_does_not_name_it(
    db: Database, recorder: Recorder[Any], here_or_elsewhere: Run
) -> None:
    values(db, recorder)
    here_or_elsewhere("ALTER TABLE t RENAME COLUMN b TO bb")
    db.execute("UPDATE t SET a = 'x', bb = 1 WHERE id = 1")
    assert recorder.last == ["x", "two"]


@both
def test_a_renamed_column_that_is_read_comes_back_under_its_name(
    db: Database, recorder: Recorder[Any], here_or_elsewhere: Run
) -> None:
    values(db, recorder, "SELECT a FROM t WHERE id = 1")
    here_or_elsewhere("ALTER TABLE t RENAME COLUMN a TO aa")
    db.execute("UPDATE t SET aa = 'x'")
    here_or_elsewhere("ALTER TABLE t RENAME COLUMN aa TO a")
    assert recorder.last == ["x"]
    db.execute("UPDATE t SET a = 'y'")
    assert recorder.last == ["y"]


@both
def test_an_added_column_appears(
    db: Database, recorder: Recorder[Any], here_or_elsewhere: Run
) -> None:
    db.observe_one("SELECT * FROM t").subscribe(recorder.on_next)
    here_or_elsewhere("ALTER TABLE t ADD COLUMN d DEFAULT 'd'")
    assert recorder.last["d"] == "d"
    db.execute("UPDATE t SET d = 'dd'")
    assert recorder.last["d"] == "dd"


@both
def test_a_dropped_column_disappears(
    db: Database, recorder: Recorder[Any], here_or_elsewhere: Run
) -> None:
    db.observe_one("SELECT * FROM t").subscribe(recorder.on_next)
    here_or_elsewhere("ALTER TABLE t DROP COLUMN b")
    assert "b" not in recorder.last
    db.execute("UPDATE t SET c = 'x'")
    assert recorder.last["c"] == "x"


@both
def test_a_new_trigger_counts_from_then_on(
    db: Database, recorder: Recorder[Any], here_or_elsewhere: Run
) -> None:
    values(db, recorder)
    here_or_elsewhere(
        "CREATE TRIGGER copies AFTER INSERT ON u BEGIN INSERT INTO t(a) VALUES (new.x); END"
    )
    db.execute("INSERT INTO u(x) VALUES ('copied')")
    assert recorder.last == ["one", "two", "copied"]


@both
def test_a_temp_table_that_hides_one_is_followed(
    db: Database, recorder: Recorder[Any], here_or_elsewhere: Run
) -> None:
    values(db, recorder)
    db.execute("CREATE TEMP TABLE t(a)")
    assert recorder.last == []
    db.execute("INSERT INTO t VALUES ('hiding')")
    assert recorder.last == ["hiding"]
    here_or_elsewhere("INSERT INTO main.t(a) VALUES ('three')")
    db.execute("DROP TABLE temp.t")
    assert recorder.last == ["one", "two", "three"]


@both
def test_a_script_is_told_only_as_a_whole(
    db: Database,
    recorder: Recorder[Any],
    here_or_elsewhere: Run,
    observer_errors: list[BaseException],
) -> None:
    values(db, recorder, "SELECT a FROM v")
    here_or_elsewhere(
        "DROP VIEW v; DROP TABLE t; CREATE TABLE t(id, a); INSERT INTO t VALUES (1, 'x');"
        "CREATE VIEW v AS SELECT a || '!' AS a FROM t"
    )
    assert recorder.values == [["one", "two"], ["x!"]]
    assert observer_errors == []


@pytest.mark.parametrize("end", ["ROLLBACK", "ROLLBACK TO s; RELEASE s"])
@pytest.mark.parametrize(
    "definition",
    [
        "ALTER TABLE t RENAME COLUMN a TO aa",
        "ALTER TABLE t RENAME TO tt",
        "DROP VIEW v; DROP TABLE u; DROP TABLE t",
        "ALTER TABLE t ADD COLUMN d",
        "ALTER TABLE t DROP COLUMN b",
        "DROP VIEW v; CREATE VIEW v AS SELECT x AS a FROM u",
        "CREATE TABLE more(x)",
        "CREATE TEMP TABLE t(a)",
    ],
)
@pytest.mark.parametrize("query", ["SELECT a FROM t", "SELECT a FROM t WHERE a = 'x'"])
def test_a_rolled_back_definition_leaves_all_as_it_was(
    db: Database, recorder: Recorder[Any], definition: str, end: str, query: str
) -> None:
    values(db, recorder, query)
    before = recorder.take()
    db.execute("SAVEPOINT s")
    for statement in [*definition.split(";"), *end.split(";")]:
        db.execute(statement)
    assert recorder.values in ([], before), "nothing new was committed"
    db.execute("UPDATE t SET a = 'x'")
    assert recorder.last == ["x", "x"]


# -- what we add never stands in the way -----------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [
        "ALTER TABLE t RENAME COLUMN a TO aa",
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t ADD COLUMN d; ALTER TABLE t DROP COLUMN d",
        "alter table T rename to tt; ALTER TABLE tt RENAME TO t",
        "DROP VIEW v; DROP TABLE u; DROP TABLE t",
        "/* c */ ALTER TABLE t RENAME COLUMN a TO aa",
        "BEGIN; ALTER TABLE t DROP COLUMN b; ALTER TABLE t DROP COLUMN c; COMMIT",
        "CREATE TEMP TABLE x AS SELECT * FROM t; DROP TABLE u; ALTER TABLE t RENAME TO uu",
        "VACUUM",
        "REINDEX; ANALYZE",
        "PRAGMA foreign_keys = OFF; DROP TABLE t",
        "CREATE TEMP VIEW tv AS SELECT a FROM t; ALTER TABLE t RENAME COLUMN a TO aa",
        "CREATE TABLE z(v); DROP TABLE z",
    ],
)
def test_our_triggers_never_break_a_definition(
    db: Database, script: str, recorder: Recorder[Any]
) -> None:
    plain = sqlite3.connect(":memory:", isolation_level=None)
    plain.executescript(SETUP)
    plain.executescript(script)
    for query in ("SELECT a, b, c FROM t", "SELECT * FROM v", "SELECT a FROM t WHERE b = 0"):
        db.observe(query).subscribe()
    db["t"].observe_row(1).subscribe()
    db.changes().subscribe(recorder.on_next)

    for statement in script.split(";"):
        db.execute(statement)

    schema = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
    assert db.conn.execute(schema).fetchall() == plain.execute(schema).fetchall()
    plain.close()


def test_a_definition_that_fails_leaves_observation_working(
    db: Database, recorder: Recorder[Any]
) -> None:
    values(db, recorder)
    for wrong in (
        "ALTER TABLE t DROP COLUMN id",
        "ALTER TABLE t RENAME COLUMN nope TO x",
        "ALTER TABLE nowhere RENAME TO x",
        "DROP TABLE nowhere",
        "CREATE TABLE t(x)",
        "ALTER TABLE t RENAME TO u",
    ):
        with pytest.raises(sqlite3.OperationalError):
            db.execute(wrong)
    db.execute("UPDATE t SET a = 'x' WHERE id = 1")
    assert recorder.last == ["x", "two"]


def test_a_full_text_query_can_be_observed_after_a_definition_failed(db: Database) -> None:
    # SQLite forgets the schema then, and connects the table anew while it compiles the query.
    db.conn.executescript("""
        CREATE VIRTUAL TABLE words USING fts5(a);
        CREATE TRIGGER wrong BEFORE DELETE ON t WHEN old.nowhere BEGIN SELECT 1; END;
    """)
    db["t"].observe().subscribe()
    with db.transaction():
        with pytest.raises(sqlite3.OperationalError, match="error in trigger wrong"):
            db.execute("ALTER TABLE u RENAME COLUMN x TO y")
        with pytest.raises(InterruptedError), db.transaction():
            raise InterruptedError
        db.execute("SELECT * FROM t")
        words = db.observe("SELECT rowid FROM words WHERE words MATCH 'a'")
    assert words.peek() == []


def test_our_triggers_are_invisible_to_sqlite_utils(db: Database) -> None:
    db["t"].observe().subscribe()
    assert db.triggers == []
    assert db["t"].triggers == []
    names = db.execute("SELECT group_concat(name) FROM sqlite_master").fetchone()[0]
    assert "_reactive" not in names
    db["t"].transform(rename={"a": "aa"})
    assert [column.name for column in db["t"].columns] == ["id", "aa", "b", "c"]


def test_a_foreign_rename_does_not_break_our_next_write(
    db: Database, recorder: Recorder[Any]
) -> None:
    db.observe("SELECT b FROM t").subscribe()
    db.changes("t").subscribe(recorder.on_next)
    other = sqlite3.connect(str(db.path), isolation_level=None)
    other.execute("ALTER TABLE t RENAME COLUMN b TO bb")
    db.execute("INSERT INTO t(a) VALUES ('three')")
    other.execute("ALTER TABLE t DROP COLUMN c")
    db.execute("UPDATE t SET a = 'x' WHERE id = 1")
    other.close()
    changed = [changes.rows for changes in recorder.values]
    assert (RowChange("t", "insert", 3),) in changed
    assert (RowChange("t", "update", 1, 1),) in changed


def test_a_foreign_drop_does_not_break_our_later_definitions(
    db: Database, recorder: Recorder[Any]
) -> None:
    db.observe("SELECT b FROM t").subscribe()
    other = sqlite3.connect(str(db.path), isolation_level=None)
    other.executescript("DROP VIEW v; DROP TABLE u; DROP TABLE t;")
    other.close()
    db.execute("CREATE TABLE z(v)")
    db.execute("ALTER TABLE z RENAME TO t")
    values(db, recorder, "SELECT v FROM t")
    db.execute("INSERT INTO t VALUES (1)")
    assert recorder.last == [1]


def test_vacuum_and_checkpoints_change_nothing(db: Database, recorder: Recorder[Any]) -> None:
    values(db, recorder)
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other = sqlite3.connect(str(db.path), isolation_level=None)
    other.execute("VACUUM")
    other.close()
    db.broker.check()
    db.execute("UPDATE t SET a = 'x' WHERE id = 1")
    assert recorder.values == [["one", "two"], ["x", "two"]]


def test_attaching_and_detaching_is_followed(
    db: Database, recorder: Recorder[Any], tmp_path: Path, observer_errors: list[BaseException]
) -> None:
    path = str(tmp_path / "side.db")
    db.execute("ATTACH ? AS side", [path])
    db.execute("CREATE TABLE side.far(a)")
    values(db, recorder, "SELECT a FROM side.far")
    db.execute("INSERT INTO side.far VALUES (1)")
    db.execute("DETACH side")
    assert len(observer_errors) == 1
    db.execute("ATTACH ? AS side", [path])
    db.execute("INSERT INTO side.far VALUES (2)")
    assert recorder.last == [1, 2]
    assert recorder.errors == []


def test_a_write_to_an_attached_file_from_elsewhere_is_found(
    db: Database, recorder: Recorder[Any], tmp_path: Path
) -> None:
    db.execute("ATTACH ? AS side", [str(tmp_path / "side.db")])
    db.execute("CREATE TABLE side.far(a)")
    values(db, recorder, "SELECT a FROM side.far")
    other = sqlite3.connect(tmp_path / "side.db", isolation_level=None)
    other.execute("INSERT INTO far VALUES (1)")
    other.close()
    db.broker.check()
    assert recorder.last == [1]


def test_a_collation_or_function_of_ones_own_may_be_used(
    db: Database, recorder: Recorder[Any]
) -> None:
    db.conn.create_collation("backwards", lambda a, b: (a < b) - (a > b))
    db.conn.create_function("shout", 1, str.upper)
    values(db, recorder, "SELECT shout(a) FROM t ORDER BY a COLLATE backwards")
    db.execute("INSERT INTO t(a) VALUES ('zero')")
    assert recorder.values == [["TWO", "ONE"], ["ZERO", "TWO", "ONE"]]


def test_what_was_observed_of_a_table_that_others_drop_and_make_anew_disturbs_no_write(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "own.db")
    seen = Recorder[Any]()
    with Database(path, watch=False) as db:
        db.conn.executescript("CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE u(x)")
        db.observe("SELECT x FROM u").subscribe(seen)
        subscription = db["t"].observe_row(1).subscribe()
        db["t"].insert({"id": 1, "a": "old"})
        subscription.dispose()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("DROP TABLE t")
        db.conn.raw("SELECT * FROM u")  # which has SQLite read the schema again, unnoticed by us
        # What the end of a commit does that touched t just before the other one dropped it.
        db.broker.capture.triggers.unwatch(("main", "t"))
        other.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        other.close()
        for id in (1, 2):
            db.conn.execute("INSERT INTO t VALUES (?, 'new')", [id])
        db.conn.execute("INSERT INTO u VALUES (7)")
        assert seen.last == [{"x": 7}]
