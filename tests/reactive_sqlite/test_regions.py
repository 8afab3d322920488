"""What a query reads, as the compiler says it, and which commits therefore leave it alone."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Any

import pytest

from reactive_sqlite import Database
from tests.recorder import Recorder

# Some releases of Python 3.12 warn of `?1` with a sequence; it is the user's own SQL here.
pytestmark = pytest.mark.filterwarnings("ignore:Binding \\d+ :DeprecationWarning")

SETUP = """
    CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INT, c, d TEXT COLLATE NOCASE, r REAL,
        g GENERATED ALWAYS AS (b + 1), "Odd name");
    CREATE TABLE u(id INTEGER PRIMARY KEY, t INT REFERENCES t ON DELETE CASCADE, x);
    CREATE TABLE w(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
    CREATE TABLE pair(a TEXT, b INT, v, PRIMARY KEY (a, b));
    CREATE TABLE plain(v);
    CREATE TABLE s(id INTEGER PRIMARY KEY, n ANY, t TEXT) STRICT;
    CREATE INDEX t_by_b ON t(b);
    CREATE VIEW v AS SELECT t.a, u.x FROM t JOIN u ON u.t = t.id;
    CREATE VIEW vv AS SELECT a FROM v;
    CREATE VIEW some AS SELECT id, a FROM t WHERE b = 1;
    CREATE VIRTUAL TABLE ft USING fts5(body);
    CREATE VIRTUAL TABLE ext USING fts5(a, content='t', content_rowid='id');
    ATTACH ':memory:' AS side;
    CREATE TABLE side.far(id INTEGER PRIMARY KEY, a);
    CREATE TEMP TABLE tmp(v);
    INSERT INTO t(id, a, b, c, d) VALUES (1, 'one', 1, 'x', 'D'), (2, 'two', 2, 'y', 'E');
    INSERT INTO u VALUES (1, 1, 'u1'), (2, 2, 'u2');
    INSERT INTO w VALUES ('k', 1), ('l', 2);
    INSERT INTO pair VALUES ('p', 1, 'v'), ('q', 2, 'v');
"""


@pytest.fixture
def db() -> Iterator[Database]:
    with Database(memory=True) as db:
        db.conn.executescript(SETUP)
        yield db


def region(db: Database, sql: str, params: Any = ()) -> str:
    return str(db.broker.region(db.broker.source(sql, params)))


# -- tables and columns ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a FROM t", "t(a)"),
        ("SELECT A FROM T", "t(a)"),
        ('SELECT "Odd name" FROM t', "t(odd name)"),
        ("SELECT a AS x FROM t ORDER BY c", "t(a,c)"),
        ("SELECT a FROM t WHERE c > 1 AND id > 3", "t(a,c,id)"),
        ("SELECT rowid, a FROM t", "t(a,id)"),
        ("SELECT count(*) FROM u", "u()"),
        ("SELECT EXISTS(SELECT 1 FROM w)", "w()"),
        ("SELECT 1", ""),
        ("VALUES (1), (2)", ""),
        ("SELECT x FROM u, t WHERE u.t = t.id", "t(id), u(t,x)"),
        ("SELECT a FROM t WHERE id IN (SELECT t FROM u)", "t(a,id), u(t)"),
        ("SELECT (SELECT max(x) FROM u)", "u(x)"),
        ("WITH q AS (SELECT v FROM plain) SELECT v FROM q", "plain(v)"),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n, u WHERE i < 3)"
         " SELECT i FROM n", "u()"),
        ("SELECT a FROM t UNION SELECT v FROM plain", "plain(v), t(a)"),
        ("SELECT * FROM v", "t(a,id), u(t,x)"),
        ("SELECT a FROM vv", "t(a,id), u(t,x)"),
        ("SELECT v FROM w", "w(v)"),
        ("SELECT v FROM main.plain", "plain(v)"),
        ("SELECT a FROM side.far", "side.far(a)"),
        ("SELECT a FROM far", "side.far(a)"),
        ("SELECT v FROM tmp", "temp.tmp(v)"),
        ("SELECT sum(b) OVER (ORDER BY c) FROM t", "t(b,c)"),
        ("SELECT max(a) FILTER (WHERE c) FROM t GROUP BY r HAVING min(d)", "t(a,c,d,r)"),
        ("SELECT value FROM t, json_each(t.c)", "t(c)"),
    ],
)  # fmt: skip
def test_a_region_names_the_tables_and_columns_that_are_read(
    db: Database, sql: str, expected: str
) -> None:
    assert region(db, sql) == expected


def test_the_sources_of_a_generated_column_need_not_be_named(db: Database) -> None:
    assert region(db, "SELECT g FROM t") == "t(g)"
    seen: Recorder[Any] = Recorder()
    db.observe("SELECT g FROM t").subscribe(seen.on_next)
    db.execute("UPDATE t SET b = 10 WHERE id = 1")
    assert seen.last == [{"g": 11}, {"g": 3}]


def test_the_order_of_an_index_is_part_of_what_is_read(db: Database) -> None:
    seen: Recorder[Any] = Recorder()
    db.observe("SELECT id FROM t INDEXED BY t_by_b WHERE b > 0").subscribe(seen.on_next)
    db.execute("UPDATE t SET b = 9 WHERE id = 1")
    assert [row["id"] for row in seen.last] == [2, 1]


def test_full_text_reads_the_tables_behind_it(db: Database) -> None:
    assert "ft_content()" in region(db, "SELECT body FROM ft WHERE ft MATCH 'x'")
    external = region(db, "SELECT a FROM ext WHERE ext MATCH 'x'")
    assert "ext_data()" in external
    assert " t(" in external, "the content table is read as well"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM plain JOIN w USING (v)",
        "SELECT v FROM plain JOIN w USING (v)",
        "SELECT v FROM plain NATURAL JOIN w",
        "SELECT count(*) FROM plain JOIN w USING (v)",
        "SELECT v FROM joined",
        "SELECT 1 FROM plain WHERE EXISTS (SELECT * FROM joined)",
        "WITH q AS (SELECT v FROM plain NATURAL JOIN w) SELECT count(*) FROM q",
    ],
)
def test_what_a_join_compares_by_name_is_read(db: Database, sql: str) -> None:
    db.conn.executescript(
        "CREATE VIEW inner_joined AS SELECT v FROM plain NATURAL JOIN w;"
        "CREATE VIEW joined AS SELECT v FROM inner_joined; INSERT INTO plain VALUES (7)"
    )
    seen: Recorder[Any] = Recorder()
    db.observe(sql).subscribe(seen.on_next)
    before = seen.last
    db.execute("UPDATE w SET v = 7 WHERE k = 'k'")
    assert seen.last != before, "the compiler does not report the columns that USING compares"
    db.execute("DELETE FROM plain")
    assert seen.last == before


def test_a_virtual_table_joined_by_name_is_run_after_every_write(db: Database) -> None:
    db.execute("CREATE TABLE texts(body)")
    assert region(db, "SELECT texts.rowid FROM texts NATURAL JOIN ft") == "*"


def test_the_schema_is_read_again_whenever_it_changes(db: Database) -> None:
    assert region(db, "SELECT a FROM vv") == "t(a,id), u(t,x)"
    db.conn.executescript("DROP VIEW v; CREATE VIEW v AS SELECT v AS a FROM plain")
    assert region(db, "SELECT a FROM vv") == "plain(v)"


# -- pins ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "params", "expected"),
    [
        ("SELECT a FROM t WHERE id = 1", (), "t(a,id)[id=1]"),
        ("SELECT a FROM t WHERE id = ?", (7,), "t(a,id)[id=7]"),
        ("SELECT a FROM t WHERE 7 = id", (), "t(a,id)[id=7]"),
        ("SELECT a FROM t WHERE id = ?2 AND c = ?1", ("x", 5), "t(a,c,id)[c='x'][id=5]"),
        ("SELECT a FROM t WHERE id = :i", {"i": 3}, "t(a,id)[id=3]"),
        ("SELECT a FROM t WHERE a = 'one' AND b > 1", (), "t(a,b)[a='one']"),
        ("SELECT a FROM t WHERE (a = 'one') AND (b = 2)", (), "t(a,b)[a='one'][b=2]"),
        ("SELECT a FROM t WHERE b = 1.0", (), "t(a,b)[b=1.0]"),
        ("SELECT a FROM t WHERE r = 1", (), "t(a,r)[r=1]"),
        ("SELECT a FROM t AS q WHERE q.id = 1", (), "t(a,id)[id=1]"),
        ("SELECT a FROM t WHERE rowid = 1", (), "t(a,id)[id=1]"),
        ("SELECT a FROM t WHERE _rowid_ = 1", (), "t(a,id)[id=1]"),
        ("SELECT a FROM t WHERE oid = 1", (), "t(a,id)[id=1]"),
        ("SELECT a FROM t WHERE oid = 1 AND id = 2", (), "t(a,id)[id=1]"),
        ("SELECT a FROM t WHERE b = 'x' AND a = 'one'", (), "t(a,b)[a='one']"),
        ("SELECT v FROM plain WHERE rowid = 1 AND v = 'x'", (), "plain(rowid,v)[v='x']"),
        ("SELECT v FROM pair WHERE ROWID = 1 AND a = 'p'", (), "pair(a,rowid,v)[a='p']"),
        ("SELECT v FROM w WHERE k = 'k'", (), "w(k,v)[k='k']"),
        ("SELECT v FROM pair WHERE a = 'p' AND b = 1", (), "pair(a,b,v)[a='p'][b=1]"),
        ("SELECT v FROM plain WHERE v = 'x'", (), "plain(v)[v='x']"),
        ("SELECT v FROM plain WHERE v = ?", (b"a",), "plain(v)[v=b'a']"),
        ("SELECT a FROM side.far WHERE id = 1", (), "side.far(a,id)[id=1]"),
        ("SELECT count(*) FROM t WHERE id = 1 ORDER BY 1 LIMIT 5", (), "t(id)[id=1]"),
        ("SELECT max(a) FROM t WHERE b = 1 GROUP BY c HAVING count(*) > 0", (), "t(a,b,c)[b=1]"),
        ("SELECT a FROM t WHERE id = TRUE", (), "t(a,id)"),
        ("SELECT a FROM t WHERE id = ?", (True,), "t(a,id)[id=1]"),
    ],
)
def test_equality_on_columns_of_one_table_is_a_pin(
    db: Database, sql: str, params: Any, expected: str
) -> None:
    assert region(db, sql, params) == expected


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("SELECT a FROM t WHERE id = 1 OR b = 2", ()),
        ("SELECT a FROM t WHERE NOT id = 1", ()),
        ("SELECT a FROM t WHERE id > 1", ()),
        ("SELECT a FROM t WHERE id IN (1)", ()),
        ("SELECT a FROM t WHERE id IS 1", ()),
        ("SELECT a FROM t WHERE id + 0 = 1", ()),
        ("SELECT a FROM t WHERE +id = 1", ()),
        ("SELECT a FROM t WHERE id = 1 + 0", ()),
        ("SELECT a FROM t WHERE id = NULL", ()),
        ("SELECT a FROM t WHERE id = ?", (None,)),
        ("SELECT a FROM t WHERE id = '1'", ()),
        ("SELECT a FROM t WHERE id = ?", ("1",)),
        ("SELECT a FROM t WHERE a = 1", ()),
        ("SELECT a FROM t WHERE a = ?", (b"one",)),
        ("SELECT a FROM t WHERE d = 'd'", ()),
        ("SELECT a FROM t WHERE a = 'one' COLLATE NOCASE", ()),
        ("SELECT a FROM t WHERE a COLLATE NOCASE = 'one'", ()),
        ("SELECT a FROM t WHERE b = 'x' AND 0 OR 1", ()),
        ("SELECT a FROM t, plain WHERE t.id = 1", ()),
        ("SELECT t2.a FROM t t1, t t2 WHERE t1.id = 1", ()),
        ("SELECT t1.a FROM t t1, t t2 WHERE t1.id = 1", ()),
        ("SELECT a FROM t WHERE id = 1 UNION SELECT a FROM t", ()),
        ("SELECT a, (SELECT count(*) FROM t) FROM t WHERE id = 1", ()),
        ("SELECT a FROM t WHERE id = (SELECT max(id) FROM t)", ()),
        ("SELECT id FROM some WHERE id = 1", ()),
        ("WITH q AS (SELECT * FROM t) SELECT a FROM q WHERE id = 1", ()),
        ("SELECT a FROM (SELECT * FROM t) WHERE id = 1", ()),
        ("SELECT a FROM t WHERE CASE WHEN id = 1 THEN 1 END", ()),
        ("SELECT count(*) FILTER (WHERE id = 1) FROM t", ()),
        ("SELECT a FROM t WHERE a = \"one\"", ()),
    ],
)  # fmt: skip
def test_what_is_not_proved_is_no_pin(db: Database, sql: str, params: Any) -> None:
    assert "[" not in region(db, sql, params)


@pytest.mark.parametrize(
    ("declared", "pinning"),
    [
        *((declared, (1, 1.5)) for declared in ("INT", "bigint", "CHARINT", "FLOATING POINT")),
        *((declared, (1, 1.5)) for declared in ("REAL", "float", "DOUBLE", "DECIMAL(9)", "ANY")),
        *((declared, ("x",)) for declared in ("VARCHAR(9)", "clob", "TEXT", "REALTEXT")),
        *((declared, (1, 1.5, "x", b"x")) for declared in ("", "BLOB", "blobreal")),
    ],
)
def test_a_value_pins_a_column_that_compares_it_as_it_is(
    db: Database, declared: str, pinning: tuple[Any, ...]
) -> None:
    db.execute(f"CREATE TABLE typed(c {declared})")
    sql = "SELECT c FROM typed WHERE c = ?"
    values = (1, 1.5, "x", b"x", float("nan"))
    pinned = [value for value in values if "[" in region(db, sql, (value,))]
    assert pinned == list(pinning), "the affinity of the column changes the others first"


def test_a_pin_is_of_the_table_that_is_meant(db: Database) -> None:
    db.conn.executescript("CREATE TABLE one(a); CREATE TEMP TABLE one(a)")
    assert region(db, "SELECT a FROM main.one WHERE a = 1") == "one(a)[a=1]"
    assert region(db, "SELECT a FROM one WHERE a = 1") == "temp.one(a)[a=1]"


def test_the_columns_of_a_temporary_index_are_read_as_well(db: Database) -> None:
    db.conn.executescript("CREATE TEMP TABLE ti(a, b, c); CREATE INDEX temp.by_ab ON ti(a, b)")
    assert region(db, "SELECT a FROM ti INDEXED BY by_ab WHERE a > 1") == "temp.ti(a,b)"


def test_what_is_known_of_a_query_is_kept_until_the_schema_moves(db: Database) -> None:
    regions = db.broker.regions
    source = db.broker.source("SELECT a FROM t WHERE id = ?", (1,))
    other = db.broker.source("SELECT a FROM t WHERE id = ?", (2,))
    known = regions.analyse(source)
    assert regions.known(other) is known is regions.analyse(other), "it is of the text"
    db.execute("CREATE TABLE more(v)")
    db.broker.region(source)
    assert regions.analyse(source) is not known


def test_the_key_of_a_region_is_that_of_its_only_table(db: Database) -> None:
    key_columns = db.broker.regions.key_columns
    assert key_columns(None) == set()
    for sql, key in {
        "SELECT v FROM pair": {"a", "b"},
        "SELECT v FROM plain": set[str](),
        "SELECT v FROM pair, w USING (v)": set[str](),
    }.items():
        assert key_columns(db.broker.region(db.broker.source(sql, ()))) == key, sql


def test_a_dict_and_a_key_pin_their_columns(db: Database) -> None:
    fetches = Fetches(db)
    db["t"].observe({"a": "one"}).subscribe()
    db["t"].observe_row(1).subscribe()
    db["pair"].observe_row(("p", 1)).subscribe()
    db["w"].observe_row("k").subscribe()
    fetches.since()
    db.execute("UPDATE t SET c = 'z' WHERE id = 2")
    db.execute("UPDATE pair SET v = 'z' WHERE a = 'q'")
    db.execute("UPDATE w SET v = 9 WHERE k = 'l'")
    db.execute("INSERT INTO t(a) VALUES ('three')")
    assert fetches.since() == 0
    db.execute("UPDATE t SET c = 'z' WHERE id = 1")
    assert fetches.since() == 2
    db.execute("UPDATE pair SET v = 'z' WHERE a = 'p'")
    db.execute("DELETE FROM w WHERE k = 'k'")
    assert fetches.since() == 2


# Whatever two values SQLite finds equal must not be told apart by a pin, in any column.
VALUES = (
    *(1, 1.0, True, 0, -0.0, "1", "1.0", "a", "A", "a ", b"a", None, 2**53, 2**53 + 1, 1e300),
    *(float("inf"), "", b"", "é", "e\u0301", 2**63 - 1, 9.223372036854775807e18),
)
COLUMNS = ("a", "b", "c", "d", "r")


@pytest.mark.parametrize("column", COLUMNS)
def test_a_pinned_query_misses_no_row_that_sqlite_finds_equal(db: Database, column: str) -> None:
    told: list[tuple[Any, Recorder[Any]]] = []
    for value in VALUES:
        if value is not None:
            in_sql, by_dict = Recorder[Any](), Recorder[Any]()
            sql = f"SELECT id FROM t WHERE {column} = ?"
            db.observe(sql, [value]).subscribe(in_sql.on_next)
            db["t"].observe({column: value}, select="id").subscribe(by_dict.on_next)
            told += [(value, in_sql), (value, by_dict)]
    for written in VALUES:
        db.execute(f"UPDATE t SET {column} = ? WHERE id = 2", [written])
        for value, seen in told:
            fresh = db.execute(f"SELECT id FROM t WHERE {column} = ?", [value]).fetchall()
            assert [(row["id"],) for row in seen.last] == fresh, (value, written)


# -- quiet commits ---------------------------------------------------------------------------------


class Fetches:
    """How many queries were run since last asked."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._before = db.broker.fetches

    def since(self) -> int:
        before, self._before = self._before, self._db.broker.fetches
        return self._before - before


@pytest.mark.parametrize(
    ("query", "write"),
    [
        ("SELECT a FROM t", "UPDATE u SET x = 1"),
        ("SELECT a FROM t", "UPDATE t SET c = 'other'"),
        ("SELECT a FROM t", "UPDATE t SET a = a"),
        ("SELECT a FROM t", "UPDATE t SET a = 'none' WHERE id = 99"),
        ("SELECT a FROM t", "INSERT OR IGNORE INTO t(id, a) VALUES (1, 'x')"),
        ("SELECT a FROM t", "DELETE FROM t WHERE id = 99"),
        ("SELECT a FROM t", "INSERT INTO side.far(a) VALUES ('x')"),
        ("SELECT a FROM t", "INSERT INTO tmp VALUES (1)"),
        ("SELECT count(*) FROM t", "UPDATE t SET a = 'x'"),
        ("SELECT count(*) FROM u", "UPDATE u SET x = 'x'"),
        ("SELECT c FROM t", "UPDATE t SET b = 7"),
        ("SELECT a FROM t WHERE id = 1", "UPDATE t SET a = 'x' WHERE id = 2"),
        ("SELECT a FROM t WHERE id = 1", "DELETE FROM t WHERE id = 2"),
        ("SELECT a FROM t WHERE id = 1", "INSERT INTO t(a) VALUES ('x')"),
        ("SELECT a FROM t WHERE id = 1", "UPDATE t SET c = 'x' WHERE id = 1"),
        ("SELECT b FROM t WHERE a = 'one'", "UPDATE t SET b = 5 WHERE a = 'two'"),
        ("SELECT v FROM w WHERE k = 'k'", "UPDATE w SET v = 5 WHERE k = 'l'"),
        ("SELECT v FROM w WHERE k = 'k'", "REPLACE INTO w VALUES ('l', 7)"),
        ("SELECT x FROM u WHERE t = 1", "DELETE FROM t WHERE id = 2"),
        ("SELECT * FROM t", "SELECT * FROM t"),
        ("SELECT * FROM t", "BEGIN; SELECT * FROM t; COMMIT"),
        ("SELECT * FROM t", "BEGIN; DELETE FROM t; ROLLBACK"),
        ("SELECT * FROM t", "PRAGMA user_version"),
        ("SELECT 1", "DELETE FROM t"),
    ],
)
def test_a_commit_that_cannot_touch_a_query_does_not_run_it(
    db: Database, query: str, write: str
) -> None:
    db.observe(query).subscribe()
    fetches = Fetches(db)
    for statement in write.split(";"):
        db.execute(statement)
    assert fetches.since() == 0


@pytest.mark.parametrize(
    ("query", "write"),
    [
        ("SELECT a FROM t", "UPDATE t SET a = 'x'"),
        ("SELECT count(*) FROM t", "INSERT INTO t(a) VALUES ('x')"),
        ("SELECT a FROM t WHERE id = 1", "UPDATE t SET id = 1 WHERE id = 1; DELETE FROM t"),
        ("SELECT a FROM t WHERE id = 7", "DELETE FROM u; UPDATE t SET id = 7 WHERE id = 2"),
        ("SELECT id FROM t WHERE a = 'x'", "UPDATE t SET a = 'x' WHERE id = 2"),
        ("SELECT c FROM t WHERE a = 'one'", "UPDATE t SET a = 'gone' WHERE id = 1"),
        ("SELECT a FROM t WHERE id = 1", "REPLACE INTO t(id, a) VALUES (1, 'new')"),
        ("SELECT x FROM u WHERE id = 2", "DELETE FROM t WHERE id = 2"),
        ("SELECT d FROM t", "UPDATE t SET d = lower(d)"),
        ("SELECT b FROM t", "UPDATE t SET b = NULL"),
        ("SELECT v FROM w WHERE k = 'z'", "UPDATE w SET k = 'z' WHERE k = 'k'"),
        ("SELECT a FROM some", "UPDATE t SET b = 1 WHERE id = 2"),
    ],
)
def test_a_commit_that_touches_a_query_is_told(
    db: Database, query: str, write: str, recorder: Recorder[Any]
) -> None:
    db.observe(query).subscribe(recorder.on_next)
    db.conn.executescript(write)
    assert len(recorder.values) == 2


def test_rows_moved_by_their_hidden_rowid_are_in_another_order(
    db: Database, recorder: Recorder[Any]
) -> None:
    db.conn.executescript("INSERT INTO plain VALUES ('a'), ('b')")
    db.observe("SELECT v FROM plain").decoded(str).subscribe(recorder.on_next)
    db.execute("UPDATE plain SET rowid = 9 WHERE v = 'a'")
    assert recorder.last == "[{'v': 'b'}, {'v': 'a'}]"


def test_an_update_to_the_value_that_sqlite_finds_equal_is_told(
    db: Database, recorder: Recorder[Any]
) -> None:
    db.execute("UPDATE t SET c = 1 WHERE id = 1")
    db.observe_value("SELECT c FROM t WHERE id = 1").decoded(repr).subscribe(recorder.on_next)
    db.execute("UPDATE t SET c = 1.0 WHERE id = 1")
    db.execute("UPDATE t SET c = '1.0' WHERE id = 1")
    assert recorder.values == ["1", "1.0", "'1.0'"]


def test_unaffected_observers_cost_nothing(db: Database) -> None:
    for number in range(500):
        db["t"].observe_row(1000 + number).subscribe()
        db.observe("SELECT c, ? FROM t", [number]).subscribe()
        db.observe("SELECT x, ? FROM u", [number]).subscribe()
    fetches = Fetches(db)
    db.execute("UPDATE t SET a = 'x' WHERE id = 1")
    assert fetches.since() == 0


def test_a_table_with_more_columns_than_bits_is_still_right(
    db: Database, recorder: Recorder[Any]
) -> None:
    names = [f"{a}{b}" for a in string.ascii_lowercase[:10] for b in string.ascii_lowercase[:10]]
    db.execute(f"CREATE TABLE wide({', '.join(f'w{name}' for name in names)})")
    db.execute(f"INSERT INTO wide VALUES ({', '.join('0' * len(names))})")
    db.observe("SELECT * FROM wide").subscribe()
    for name in names:
        seen: Recorder[Any] = Recorder()
        db.observe_value(f"SELECT w{name} FROM wide").subscribe(seen.on_next)
        db.execute(f"UPDATE wide SET w{name} = 1")
        assert seen.values == [0, 1], name


def test_what_cannot_be_known_is_run_after_every_write(
    db: Database, recorder: Recorder[Any]
) -> None:
    db.execute("CREATE TABLE auto(id INTEGER PRIMARY KEY AUTOINCREMENT)")
    assert region(db, "SELECT seq FROM sqlite_sequence") == "*"
    db.observe_value("SELECT seq FROM sqlite_sequence").subscribe(recorder.on_next)
    db.execute("INSERT INTO auto DEFAULT VALUES")
    db.execute("INSERT INTO auto DEFAULT VALUES")
    assert recorder.values == [None, 1, 2]


def test_tables_of_one_name_in_several_databases_are_not_mixed_up(
    db: Database, recorder: Recorder[Any]
) -> None:
    db.conn.executescript("CREATE TABLE side.u(id INTEGER PRIMARY KEY, x)")
    db.observe_value("SELECT count(*) FROM u").subscribe(recorder.on_next)
    db.observe("SELECT x FROM side.u WHERE id = 9").decoded(len).subscribe(recorder.on_next)
    db.execute("INSERT INTO side.u VALUES (9, 'far')")
    db.execute("INSERT INTO u VALUES (9, NULL, 'near')")
    assert recorder.values == [2, 0, 1, 3]
