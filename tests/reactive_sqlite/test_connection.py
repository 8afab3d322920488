"""Every road by which a write can be made is noticed; in all else the connection is sqlite3's."""

from __future__ import annotations

import contextlib
import gc
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlite_utils

from reactive_sqlite import Database, sqlite3
from tests.reactive_sqlite.threads import beside, elsewhere, together
from tests.recorder import Recorder

SETUP = """
    CREATE TABLE t(id INTEGER PRIMARY KEY, v, n TEXT UNIQUE);
    INSERT INTO t VALUES (1, 'one', 'a'), (2, 'two', 'b');
    CREATE TABLE child(id INTEGER PRIMARY KEY, t REFERENCES t ON DELETE CASCADE ON UPDATE CASCADE);
    INSERT INTO child VALUES (10, 1), (20, 2);
    CREATE TABLE source(v);
    CREATE TRIGGER copies AFTER INSERT ON source BEGIN
        INSERT INTO t(v) VALUES (new.v); END;
    CREATE VIEW seen AS SELECT id, v FROM t;
    CREATE TRIGGER through INSTEAD OF INSERT ON seen BEGIN
        INSERT INTO t(v) VALUES (new.v); END;
"""


class OwnCursor(sqlite3.Cursor):
    """A cursor class of the user's own."""

    def first(self) -> Any:
        return self.fetchone()


@pytest.fixture(params=["file", "memory"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = tmp_path / "test.db"
    with Database(path, watch=False) if request.param == "file" else Database(memory=True) as db:
        db.conn.executescript(SETUP)
        yield db


def needs(method: str) -> None:
    if not hasattr(sqlite3.Connection, method):
        pytest.skip(f"{sqlite3.__name__} has no {method}")


# -- every road is noticed -------------------------------------------------------------------------


def by_own_cursor(db: Database) -> None:
    db.conn.cursor(OwnCursor).execute("INSERT INTO t(v) VALUES ('x')")


def by_cursor_many(db: Database) -> None:
    db.conn.cursor().executemany("INSERT INTO t(v) VALUES (?)", [("x",), ("y",)])


def by_cursor_script(db: Database) -> None:
    db.conn.cursor().executescript("INSERT INTO t(v) VALUES ('x'); INSERT INTO t(v) VALUES ('y')")


def by_bare_cursor(db: Database) -> None:
    sqlite3.Cursor(db.conn).execute("INSERT INTO t(v) VALUES ('x')")
    db.execute("SELECT 1")  # what goes past the connection shows at the next call


def by_transform(db: Database) -> None:
    db["t"].transform(rename={"v": "w"})
    db["t"].transform(rename={"w": "v"})
    db["t"].insert({"v": "after"})


def by_python_function(db: Database) -> None:
    db.conn.create_function(
        "write", 0, lambda: db.conn.execute("INSERT INTO t(v) VALUES ('x')").rowcount
    )
    db.execute("SELECT write()").fetchall()


def by_unread_returning(db: Database) -> None:
    db.execute("INSERT INTO t(v) VALUES ('x') RETURNING id")  # nobody fetches


def by_with(db: Database) -> None:
    with db.conn:
        db.conn.execute("INSERT INTO t(v) VALUES ('x')")


def by_temp_trigger(db: Database) -> None:
    db.execute("CREATE TEMP TABLE aside(v)")
    db.execute(
        "CREATE TEMP TRIGGER onward AFTER INSERT ON aside BEGIN"
        " INSERT INTO t(v) VALUES (new.v); END"
    )
    db.execute("INSERT INTO aside VALUES ('x')")


def by_attached_select(db: Database) -> None:
    db.execute("ATTACH ':memory:' AS other")
    db.execute("CREATE TABLE other.s AS SELECT 'x' AS v")
    db.execute("INSERT INTO main.t(v) SELECT v FROM other.s")


ROADS: dict[str, Callable[[Database], Any]] = {
    "sqlite-utils insert": lambda db: db["t"].insert({"v": "x"}),
    "sqlite-utils insert_all": lambda db: db["t"].insert_all([{"v": "x"}, {"v": "y"}]),
    "sqlite-utils insert replace": lambda db: db["t"].insert({"id": 1, "v": "x"}, replace=True),
    "sqlite-utils insert alter": lambda db: db["t"].insert({"v": "x", "new": 1}, alter=True),
    "sqlite-utils upsert": lambda db: db["t"].upsert({"id": 1, "v": "x"}, pk="id"),
    "sqlite-utils upsert_all": lambda db: db["t"].upsert_all([{"id": 7, "v": "x"}], pk="id"),
    "sqlite-utils update": lambda db: db["t"].update(1, {"v": "x"}),
    "sqlite-utils delete": lambda db: db["t"].delete(1),
    "sqlite-utils delete_where": lambda db: db["t"].delete_where("v = ?", ["one"]),
    "sqlite-utils delete_where all": lambda db: db["t"].delete_where(),
    "sqlite-utils convert": lambda db: db["t"].convert("v", str.upper),
    "sqlite-utils transform": by_transform,
    "sqlite-utils add_column": lambda db: db["t"].add_column("extra", str),
    "sqlite-utils drop": lambda db: db["child"].drop() or db["t"].insert({"v": "x"}),
    "database execute": lambda db: db.execute("INSERT INTO t(v) VALUES (?)", ["x"]),
    "database query returning": lambda db: list(db.query("DELETE FROM t RETURNING id")),
    "connection execute": lambda db: db.conn.execute("UPDATE t SET v = 'x'"),
    "connection executemany": lambda db: db.conn.executemany(
        "INSERT INTO t(v) VALUES (?)", [("x",)]
    ),
    "connection executescript": lambda db: db.conn.executescript("DELETE FROM t WHERE id = 1;"),
    "cursor execute": lambda db: db.conn.cursor().execute("DELETE FROM t WHERE id = 1"),
    "cursor executemany": by_cursor_many,
    "cursor executescript": by_cursor_script,
    "own cursor class": by_own_cursor,
    "bare cursor": by_bare_cursor,
    "with connection": by_with,
    "returning": lambda db: db.execute("INSERT INTO t(v) VALUES ('x') RETURNING id").fetchall(),
    "unread returning": by_unread_returning,
    "half-read returning": lambda db: db.execute("UPDATE t SET v = 'x' RETURNING id").fetchone(),
    "trigger": lambda db: db.execute("INSERT INTO source VALUES ('x')"),
    "instead of": lambda db: db.execute("INSERT INTO seen(v) VALUES ('x')"),
    "replace": lambda db: db.execute("REPLACE INTO t VALUES (1, 'x', 'a')"),
    "replace evicts another row": lambda db: db.execute("REPLACE INTO t VALUES (9, 'x', 'a')"),
    "update or replace": lambda db: db.execute("UPDATE OR REPLACE t SET n = 'a' WHERE id = 2"),
    "upsert": lambda db: db.execute(
        "INSERT INTO t VALUES (1, 'x', 'a') ON CONFLICT DO UPDATE SET v = excluded.v"
    ),
    "delete without where": lambda db: db.execute("DELETE FROM t"),
    "update from": lambda db: db.execute("UPDATE t SET v = 'x' FROM child WHERE child.t = t.id"),
    "with insert": lambda db: db.execute("WITH n AS (SELECT 9) INSERT INTO t(v) SELECT * FROM n"),
    "python function": by_python_function,
    "temp trigger": by_temp_trigger,
    "attached select": by_attached_select,
    "main spelled": lambda db: db.execute('INSERT INTO "MAIN"."T"(v) VALUES (1)'),
    "rowid": lambda db: db.execute("UPDATE t SET rowid = 77 WHERE id = 1"),
    "bound by name": lambda db: db.execute("INSERT INTO t(v) VALUES (:v)", {"v": "x"}),
    "comment first": lambda db: db.execute("-- c\n/* d */ INSERT INTO t(v) VALUES (1)"),
    "create table as": lambda db: db.conn.executescript(
        "CREATE TABLE u AS SELECT 'x' AS v; INSERT INTO t(v) SELECT v FROM u"
    ),
}  # fmt: skip


@pytest.mark.parametrize("road", ROADS)
def test_every_write_is_noticed_when_the_call_returns(
    db: Database, recorder: Recorder[Any], road: str
) -> None:
    query = db.observe("SELECT * FROM t ORDER BY id")
    query.subscribe(recorder.on_next)
    before = recorder.last

    ROADS[road](db)

    assert recorder.last != before
    plain = [dict(zip(recorder.last[0], row, strict=True)) for row in db.execute(
        "SELECT * FROM t ORDER BY id")] if recorder.last else []  # fmt: skip
    assert recorder.last == plain
    assert query.peek() == plain


def test_foreign_key_actions_are_noticed(db: Database, recorder: Recorder[Any]) -> None:
    db.observe("SELECT id, t FROM child ORDER BY id").subscribe(recorder.on_next)
    db.execute("DELETE FROM t WHERE id = 1")
    db.execute("UPDATE t SET id = 5 WHERE id = 2")
    assert recorder.values[1:] == [[{"id": 20, "t": 2}], [{"id": 20, "t": 5}]]


def test_a_writable_blob_is_noticed_or_refused(db: Database, recorder: Recorder[Any]) -> None:
    db.execute("UPDATE t SET v = zeroblob(3)")
    db.observe_value("SELECT v FROM t WHERE id = 1").subscribe(recorder.on_next)
    needs("blobopen")
    try:
        with db.conn.blobopen("t", "v", 1) as blob:
            blob.write(b"abc")
    except sqlite3.NotSupportedError:
        assert db.observe_value("SELECT v FROM t WHERE id = 1").peek() == b"\0\0\0"
    else:
        assert recorder.last == b"abc"


def test_a_read_only_blob_can_be_read(db: Database) -> None:
    needs("blobopen")
    db.execute("UPDATE t SET v = x'616263'")
    with db.conn.blobopen("t", "v", 1, readonly=True) as blob:
        assert blob.read() == b"abc"


@pytest.mark.parametrize("content", ["", ", content='t', content_rowid='id'"])
def test_full_text_tables_are_noticed(db: Database, recorder: Recorder[Any], content: str) -> None:
    db.execute(f"CREATE VIRTUAL TABLE words USING fts5(v{content})")
    db.observe("SELECT rowid FROM words WHERE words MATCH 'needle'").subscribe(recorder.on_next)
    db.execute("INSERT INTO t(id, v) VALUES (3, 'a needle')")
    db.execute("INSERT INTO words(rowid, v) VALUES (3, 'a needle')")
    assert recorder.last == [{"rowid": 3}]
    delete = (
        "INSERT INTO words(words, rowid, v) VALUES ('delete', 3, 'a needle')"
        if content
        else "DELETE FROM words WHERE rowid = 3"
    )
    db.execute(delete)
    assert recorder.last == []


def test_full_text_by_sqlite_utils_is_noticed(db: Database, recorder: Recorder[Any]) -> None:
    db["t"].enable_fts(["v"], create_triggers=True)
    sql = "SELECT t.id FROM t JOIN t_fts ON t.id = t_fts.rowid WHERE t_fts MATCH 'hay'"
    db.observe(sql).subscribe(recorder.on_next)
    db["t"].insert({"id": 3, "v": "hay"})
    db["t"].update(3, {"v": "straw"})
    assert recorder.values == [[], [{"id": 3}], []]


def test_attached_databases_are_noticed(
    db: Database, recorder: Recorder[Any], tmp_path: Path
) -> None:
    db.execute("ATTACH ? AS side", [str(tmp_path / "side.db")])
    db.execute("CREATE TABLE side.t(v)")
    db.observe("SELECT v FROM side.t").subscribe(recorder.on_next)
    db.execute("INSERT INTO side.t VALUES (1)")
    db.execute("INSERT INTO main.t(v) VALUES (1)")
    with db.transaction():
        db.execute("INSERT INTO side.t VALUES (2)")
        db.execute("INSERT INTO main.t(v) VALUES (2)")
    assert recorder.values == [[], [{"v": 1}], [{"v": 1}, {"v": 2}]]


def test_temporary_tables_are_noticed(db: Database, recorder: Recorder[Any]) -> None:
    db.execute("CREATE TEMP TABLE t(v)")  # hides main.t
    db.observe("SELECT v FROM t").subscribe(recorder.on_next)
    db.execute("INSERT INTO t VALUES (1)")
    db.execute("INSERT INTO main.t(v) VALUES (2)")
    assert recorder.values == [[], [{"v": 1}]]
    db.execute("DROP TABLE temp.t")
    assert [row["v"] for row in recorder.last] == ["one", "two", 2]


def test_a_backup_into_it_is_noticed(db: Database, recorder: Recorder[Any]) -> None:
    db.observe("SELECT v FROM t").subscribe(recorder.on_next)
    source = sqlite3.connect(":memory:")
    source.executescript("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'b')")
    source.backup(db.conn)
    source.close()
    db.broker.check()
    db.execute("SELECT 1")
    assert recorder.last == [{"v": "b"}]
    db.execute("INSERT INTO t VALUES (2, 'c')")
    assert recorder.last == [{"v": "b"}, {"v": "c"}]


def test_deserializing_into_it_is_noticed(recorder: Recorder[Any]) -> None:
    source = sqlite3.connect(":memory:")
    needs("serialize")
    source.executescript("CREATE TABLE t(v); INSERT INTO t VALUES ('b')")
    image = source.serialize()
    source.close()
    with Database(memory=True) as db:
        db.execute("CREATE TABLE t(v)")
        db.observe("SELECT v FROM t").subscribe(recorder.on_next)
        db.conn.deserialize(image)
        assert recorder.values == [[], [{"v": "b"}]]
        db.execute("INSERT INTO t VALUES ('c')")
        assert recorder.last == [{"v": "b"}, {"v": "c"}]


def test_a_very_large_commit_is_noticed_once(db: Database, recorder: Recorder[Any]) -> None:
    db.observe_value("SELECT count(*) FROM t").subscribe(recorder.on_next)
    with db.transaction():
        db["t"].insert_all({"v": number} for number in range(25_000))
    assert recorder.values == [2, 25_002]


# -- an open transaction keeps other threads out ---------------------------------------------------


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT s"])
def test_an_open_transaction_keeps_other_threads_out(tmp_path: Path, begin: str) -> None:
    with Database(tmp_path / "t.db", busy_timeout=0.05, watch=False) as db:
        db.execute("CREATE TABLE t(v)")
        db.execute(begin)
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            elsewhere(lambda: db.execute("INSERT INTO t VALUES ('other')"))
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            elsewhere(lambda: db.execute("ROLLBACK"))
        db.execute("ROLLBACK")
        elsewhere(lambda: db.execute("INSERT INTO t VALUES ('other')"))
        assert db["t"].count == 1


def test_only_the_thread_inside_is_in_the_transaction(db: Database) -> None:
    # sqlite-utils asks after each statement, and would commit what another thread has begun.
    db.execute("BEGIN")
    assert db.conn.in_transaction
    assert not elsewhere(lambda: db.conn.in_transaction)
    elsewhere(db.conn.commit)
    elsewhere(db.conn.rollback)
    assert db.conn.in_transaction
    db.execute("ROLLBACK")


@pytest.mark.parametrize("end", ["ROLLBACK", "COMMIT", "INSERT OR ROLLBACK INTO t(id) VALUES (1)"])
def test_a_transaction_ended_past_the_connection_shows_at_the_next_call(
    db: Database, recorder: Recorder[Any], end: str
) -> None:
    db.observe_value("SELECT count(*) FROM t").subscribe(recorder.on_next)
    db.execute("BEGIN")
    db.execute("INSERT INTO t(v) VALUES (1)")
    with contextlib.suppress(sqlite3.IntegrityError):
        sqlite3.Cursor(db.conn).execute(end)
    db.execute("SELECT 1")
    assert not db.conn.in_transaction
    elsewhere(lambda: db.execute("INSERT INTO t(v) VALUES (2)"))
    assert recorder.last == db["t"].count


def test_writes_and_transactions_of_many_threads_do_not_meet(db: Database) -> None:
    def write() -> None:
        for _ in range(200):
            db.execute("INSERT INTO t(v) VALUES ('single')")

    def group() -> None:
        for number in range(200):
            with contextlib.suppress(InterruptedError), db.transaction():
                db.execute("INSERT INTO t(v) VALUES ('grouped')")
                if number % 2:
                    raise InterruptedError

    together(write, group, write, group)
    counts = dict(db.execute("SELECT v, count(*) FROM t GROUP BY v"))
    assert (counts["single"], counts["grouped"]) == (400, 200)


def test_another_thread_goes_on_when_the_transaction_ends(db: Database) -> None:
    started = threading.Event()

    def insert() -> None:
        started.set()
        db.execute("INSERT INTO t(v) VALUES ('other')")

    db.execute("BEGIN")
    with beside(insert) as inserting:
        assert started.wait(10)
        assert not inserting.done()
        db.execute("INSERT INTO t(v) VALUES ('mine')")
        db.execute("ROLLBACK")
    assert [row["v"] for row in db["t"].rows] == ["one", "two", "other"]


def test_with_the_connection_begins_a_transaction_of_its_own(db: Database) -> None:
    with db.conn:
        db.execute("INSERT INTO t(v) VALUES (3)")
        assert db.conn.in_transaction
    with db.conn as connection:
        assert connection is db.conn


# -- in all else it is sqlite3 ---------------------------------------------------------------------


@pytest.fixture
def plain() -> Any:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(SETUP)
    yield connection
    connection.close()


CURSOR_USES: dict[str, Callable[[Any], Any]] = {
    "fetchone": lambda c: [c.execute("SELECT id FROM t").fetchone() for _ in range(2)],
    "fetchone to the end": lambda c: [
        (cur := c.execute("SELECT id FROM t")).fetchone(), cur.fetchone(), cur.fetchone(),
        cur.fetchone(), cur.fetchall(),
    ],
    "fetchmany": lambda c: [(cur := c.execute("SELECT id FROM t")).fetchmany(), cur.fetchmany(5)],
    "fetchmany size": lambda c: c.execute("SELECT id FROM t").fetchmany(size=1),
    "fetchall twice": lambda c: [(cur := c.execute("SELECT id FROM t")).fetchall(), cur.fetchall()],
    "iteration": lambda c: [row[0] for row in c.execute("SELECT v FROM t ORDER BY id DESC")],
    "next": lambda c: next(c.execute("SELECT v FROM t")),
    "iter": lambda c: (cur := c.execute("SELECT 1")) is iter(cur),
    "description": lambda c: c.execute("SELECT id, v AS w FROM t").description,
    "no description": lambda c: c.execute("DELETE FROM t WHERE id = 99").description,
    "rowcount of select": lambda c: c.execute("SELECT 1").rowcount,
    "rowcount of update": lambda c: c.execute("UPDATE t SET v = 1").rowcount,
    "rowcount of delete": lambda c: c.execute("DELETE FROM t").rowcount,
    "rowcount of many": lambda c: c.executemany("UPDATE t SET v = ?", [(1,), (2,)]).rowcount,
    "lastrowid": lambda c: c.execute("INSERT INTO t(v) VALUES (1)").lastrowid,
    "fetch after a write": lambda c: c.execute("DELETE FROM t").fetchall(),
    "fetchone after a write": lambda c: c.execute("DELETE FROM t").fetchone(),
    "fetch before execute": lambda c: c.cursor().fetchone(),
    "returning": lambda c: c.execute("DELETE FROM t RETURNING id").fetchall(),
    "cursor returned": lambda c: (cur := c.cursor()) is cur.execute("SELECT 1"),
    "a write while a select is read": lambda c: [
        c.execute("SELECT id FROM t").fetchone(),
        c.execute("INSERT INTO source VALUES (1)").rowcount,
    ],
    "cursor reused": lambda c: [
        (cur := c.cursor()).execute("SELECT 1").fetchone(), cur.execute("SELECT 2").fetchall(),
    ],
    "no such table": lambda c: c.execute("SELECT * FROM nowhere"),
    "syntax": lambda c: c.execute("SELEKT 1"),
    "two statements": lambda c: c.execute("SELECT 1; SELECT 2"),
    "too few parameters": lambda c: c.execute("SELECT ?, ?", (1,)),
    "missing name": lambda c: c.execute("SELECT :a", {}),
    "unique": lambda c: c.execute("INSERT INTO t(id) VALUES (1)"),
    "wrong type": lambda c: c.execute("SELECT ?", (object(),)),
    "closed cursor": lambda c: [(cur := c.cursor()).close(), cur.execute("SELECT 1")],
    "fetch after close": lambda c: [(cur := c.execute("SELECT 1")).close(), cur.fetchone()],
    "script error": lambda c: c.executescript("SELECT 1; SELEKT 2; DELETE FROM t"),
    "script syntax": lambda c: c.executescript(
        "CREATE TRIGGER z AFTER INSERT ON t BEGIN SELECT 1; END; SELECT ';'"
    ),
    "empty": lambda c: c.execute("").fetchall(),
    "comment": lambda c: c.execute("-- nothing").fetchall(),
    "many select": lambda c: c.executemany("SELECT ?", [(1,)]),
    "nul": lambda c: c.execute("SELECT 1\0"),
    "not text": lambda c: c.execute(1),
    "in_transaction": lambda c: c.in_transaction,
    "commit outside": lambda c: c.commit(),
    "commit text outside": lambda c: c.execute("COMMIT"),
    "begin twice": lambda c: [c.execute("BEGIN").rowcount, c.execute("BEGIN")],
    "arraysize": lambda c: c.cursor().arraysize,
    "connection": lambda c: c.cursor().connection is c,
    "iterdump": lambda c: list(c.iterdump()),
    "detect closed row": lambda c: [tuple(r) for r in c.execute("SELECT 1 AS a, 2 AS b")],
}  # fmt: skip


@pytest.mark.parametrize("use", CURSOR_USES)
def test_a_cursor_behaves_as_plain_sqlite3s(db: Database, plain: Any, use: str) -> None:
    def outcome(connection: Any) -> Any:
        try:
            result = CURSOR_USES[use](connection)
        except Exception as error:
            return type(error), str(error)
        return "a cursor" if isinstance(result, sqlite3.Cursor) else result

    if use == "iterdump":
        needs(use)
    assert outcome(db.conn) == outcome(plain)


def as_list(_: Any, values: Any) -> list[Any]:
    return list(values)


def test_row_factories_are_respected(db: Database) -> None:
    db.conn.row_factory = sqlite3.Row
    row = db.conn.execute("SELECT id, v FROM t").fetchone()
    assert (row["v"], row.keys()) == ("one", ["id", "v"])
    cursor = db.conn.cursor()
    cursor.row_factory = as_list
    assert cursor.execute("SELECT id FROM t").fetchall() == [[1], [2]]


def test_a_row_factory_does_not_change_what_is_observed(
    db: Database, recorder: Recorder[Any]
) -> None:
    db.conn.row_factory = as_list
    db.conn.text_factory = bytes
    db.observe("SELECT id FROM t ORDER BY id").subscribe(recorder.on_next)
    db.execute("INSERT INTO t(v) VALUES (3)")
    assert recorder.values == [[{"id": 1}, {"id": 2}], [{"id": 1}, {"id": 2}, {"id": 3}]]


def test_an_own_cursor_class_keeps_its_methods(db: Database) -> None:
    cursor = db.conn.cursor(OwnCursor)
    assert isinstance(cursor, OwnCursor)
    assert cursor.execute("SELECT v FROM t").first() == ("one",)


def test_executemany_is_all_or_nothing(db: Database, recorder: Recorder[Any]) -> None:
    db.observe_value("SELECT count(*) FROM t").subscribe(recorder.on_next)
    with pytest.raises(sqlite3.IntegrityError):
        db.conn.executemany("INSERT INTO t(id) VALUES (?)", [(3,), (4,), (1,)])
    assert recorder.values == [2]
    db.conn.executemany("INSERT INTO t(id) VALUES (?)", [(3,), (4,)])
    assert recorder.values == [2, 4], "one commit, one emission"


def test_executemany_takes_a_generator_that_raises(db: Database) -> None:
    def rows() -> Any:
        yield (3,)
        raise LookupError("no more")

    with pytest.raises(LookupError):
        db.conn.executemany("INSERT INTO t(id) VALUES (?)", rows())
    assert not db.conn.in_transaction
    assert db["t"].count == 2


def test_a_script_is_told_once_at_its_end(db: Database, recorder: Recorder[Any]) -> None:
    db.observe_value("SELECT count(*) FROM t").subscribe(recorder.on_next)
    db.conn.executescript("INSERT INTO t(id) VALUES (3); INSERT INTO t(id) VALUES (4);")
    assert recorder.values == [2, 4]


def test_a_script_commits_the_open_transaction_first(db: Database, recorder: Recorder[Any]) -> None:
    db.observe_value("SELECT count(*) FROM t").subscribe(recorder.on_next)
    db.execute("BEGIN")
    db.execute("INSERT INTO t(id) VALUES (3)")
    db.conn.executescript("SELECT 1")
    assert not db.conn.in_transaction
    assert recorder.values == [2, 3]


def test_a_script_that_fails_keeps_and_tells_what_it_did(
    db: Database, recorder: Recorder[Any]
) -> None:
    db.observe_value("SELECT count(*) FROM t").subscribe(recorder.on_next)
    with pytest.raises(sqlite3.OperationalError):
        db.conn.executescript("INSERT INTO t(id) VALUES (3); SELEKT;")
    assert recorder.values == [2, 3]


def test_autocommit_is_the_only_mode(db: Database) -> None:
    assert db.conn.isolation_level is None
    db.conn.isolation_level = None
    with pytest.raises(ValueError, match="autocommit"):
        db.conn.isolation_level = "DEFERRED"
    db.execute("INSERT INTO t(v) VALUES (1)")
    assert not db.conn.in_transaction


def test_sqlite_utils_can_ask_for_autocommit_in_a_transaction(db: Database) -> None:
    with db.ensure_autocommit_on():
        db.execute("INSERT INTO t(v) VALUES (1)")
    assert db["t"].count == 3


def test_the_users_authorizer_is_asked_as_well(db: Database, recorder: Recorder[Any]) -> None:
    db.observe_value("SELECT count(*) FROM t").subscribe(recorder.on_next)

    def guard(action: int, first: str | None, *_: Any) -> int:
        denied = (action, first) == (sqlite3.SQLITE_INSERT, "source")
        return sqlite3.SQLITE_DENY if denied else sqlite3.SQLITE_OK

    db.conn.set_authorizer(guard)
    with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
        db.execute("INSERT INTO source VALUES (1)")
    db.execute("INSERT INTO t(v) VALUES (1)")
    assert recorder.values == [2, 3]
    db.conn.set_authorizer(None)
    db.execute("INSERT INTO source VALUES (1)")
    assert recorder.values == [2, 3, 4]


def test_total_and_last_changes_are_those_of_the_user(db: Database) -> None:
    db.observe("SELECT * FROM t").subscribe(lambda _: None)
    db.execute("UPDATE t SET v = 'x'")
    assert db.execute("SELECT changes(), last_insert_rowid()").fetchone()[0] == 2
    cursor = db.execute("INSERT INTO t(v) VALUES ('y')")
    assert (cursor.lastrowid, db.execute("SELECT last_insert_rowid()").fetchone()) == (3, (3,))


def test_it_is_a_sqlite_utils_database(db: Database) -> None:
    assert isinstance(db, sqlite_utils.Database)
    assert sorted(db.table_names()) == ["child", "source", "t"]
    assert db.view_names() == ["seen"]
    db.create_table("made", {"id": int, "name": str}, pk="id")
    db["made"].insert_all([{"id": 1, "name": "n"}]).create_index(["name"])
    assert list(db["made"].rows) == [{"id": 1, "name": "n"}]
    assert list(db.query("SELECT name FROM made")) == [{"name": "n"}]


def test_new_files_get_a_write_ahead_log_and_old_ones_keep_their_mode(tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / "old.db")
    old.executescript("CREATE TABLE t(v)")
    old.close()
    for name, mode in (("new.db", "wal"), ("old.db", "delete")):
        with Database(tmp_path / name, watch=False) as db:
            assert db.execute("PRAGMA journal_mode").fetchone() == (mode,)
            assert db.execute("PRAGMA foreign_keys").fetchone() == (1,)
            assert db.execute("PRAGMA recursive_triggers").fetchone() == (1,)


def test_switching_recursive_triggers_off_loses_no_eviction(
    db: Database, recorder: Recorder[Any]
) -> None:
    db["t"].observe({"id": 1}).subscribe(recorder.on_next)
    db.execute("PRAGMA recursive_triggers = OFF")
    db.execute("REPLACE INTO t VALUES (9, 'x', 'a')")
    assert recorder.last == [], "the row of that key was evicted"


@pytest.mark.parametrize(
    "sql", ["SELEKT 1", "INSERT INTO absent VALUES (?)", "SELECT 1 FROM t WHERE ?"]
)
def test_errors_of_sqlite_carry_the_sql_as_a_note(db: Database, sql: str) -> None:
    with pytest.raises(sqlite3.Error) as caught:
        db.execute(sql, [] if sql.startswith("SELECT 1") else ["secret"])
    assert caught.value.__notes__ == [f"in the SQL: {sql}"]
    with pytest.raises(sqlite3.Error) as caught:
        db.executescript(f"SELECT 1; {sql};")
    assert sql in caught.value.__notes__[0]


def test_thousands_of_foreign_commits_leave_nothing_in_memory(
    tmp_path: Path, recorder: Recorder[Any]
) -> None:
    path = tmp_path / "long.db"
    with Database(path, watch=False) as db, contextlib.closing(sqlite3.connect(path)) as other:
        other.isolation_level = None
        db.execute("CREATE TABLE n (i)")
        count = db.observe_value("SELECT max(i) FROM n")
        count.subscribe(lambda _: None)

        def commits(numbers: range) -> int:
            for number in numbers:
                other.execute("INSERT INTO n VALUES (?)", (number,))
                assert db.broker.check()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before = commits(range(200))
            after = commits(range(200, 2200))
        finally:
            tracemalloc.stop()
    assert after - before < 2000 * 20, "far less than one small object for each commit"


def test_a_blob_in_the_sql_need_not_be_text(db: Database, recorder: Recorder[Any]) -> None:
    asked = "SELECT id, v FROM t WHERE v = x'ff00fe' OR v = x'c3'"
    db.observe(asked).subscribe(recorder.on_next)
    assert db.reads_only(asked) and not db.reads_only("UPDATE t SET v = x'ff'")
    db.execute("UPDATE t SET v = x'ff00fe' WHERE id = 1")
    assert recorder.values == [[], [{"id": 1, "v": b"\xff\x00\xfe"}]]


def test_a_key_that_is_no_utf_8_is_written_under_observers(
    db: Database, recorder: Recorder[Any]
) -> None:
    """No Python function can be given it, and those that capture rows are of Python."""
    db.execute("INSERT INTO t(v, n) VALUES ('three', CAST(x'ff' AS TEXT))")
    db["t"].observe({"n": "a"}, select="v").subscribe(recorder.on_next)
    length = Recorder[Any]()
    db.observe_value("SELECT sum(length(v)) FROM t").subscribe(length.on_next)
    db.execute("INSERT INTO t(v, n) VALUES ('four', CAST(x'fe' AS TEXT))")
    db.execute("UPDATE t SET v = v || '!'")
    assert recorder.values == [[{"v": "one"}], [{"v": "one!"}]]
    with db.transaction():
        db.execute("UPDATE t SET n = CAST(x'f1' AS TEXT) WHERE n = 'b'")
        db.execute("UPDATE t SET v = '1' WHERE n = 'a'")
        with contextlib.suppress(LookupError), db.transaction():
            db.execute("DELETE FROM t WHERE typeof(n) = 'text'")
            raise LookupError
    assert recorder.values[2:] == [[{"v": "1"}]], "and in a transaction"
    db.execute("UPDATE t SET v = '2' WHERE n = 'a'")
    assert recorder.values[3:] == [[{"v": "2"}]]
    db.execute("DELETE FROM t")
    assert recorder.values[4:] == [[]]
    assert length.values == [11, 15, 19, 16, None]
