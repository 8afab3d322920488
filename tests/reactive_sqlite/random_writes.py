"""Random schema pieces, statements and queries for the state machine, over very few values each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

# Few values, so that keys collide, rows are evicted and columns get the value they already have.
IDS = st.sampled_from([1, 2, 3])
NAMES = st.sampled_from(["a", "A", "b", None])
QUANTITIES = st.sampled_from([0, 1, 1.0, "1", -0.0, 2, None])
GROUPS = st.sampled_from(["g", "h", None])

TABLES = ("items", "children", "grps", "log", "pairs")
SETUP = """
    CREATE TABLE grps(name TEXT PRIMARY KEY, note) WITHOUT ROWID;
    CREATE TABLE items(
        id INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE, qty,
        grp TEXT REFERENCES grps ON DELETE SET NULL ON UPDATE CASCADE,
        twice GENERATED ALWAYS AS (qty * 2) VIRTUAL);
    CREATE TABLE children(
        item INT REFERENCES items ON DELETE CASCADE ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED,
        v);
    CREATE TABLE log(n INTEGER PRIMARY KEY, what, item);
    CREATE TABLE pairs(a TEXT, b INT, c, PRIMARY KEY (a, b));
    INSERT INTO grps VALUES ('g', 'first'), ('h', 'second');
    INSERT INTO items(id, name, qty, grp) VALUES (1, 'a', 1, 'g'), (2, 'b', 2, 'h');
    INSERT INTO children VALUES (1, 'x'), (2, 'y');
    INSERT INTO pairs VALUES ('p', 1, 'one');
"""

# Each can be made and dropped at any time: (name, how to make it, how to drop it).
PIECES: tuple[tuple[str, str], ...] = (
    (
        "CREATE TRIGGER logs AFTER UPDATE ON items BEGIN"
        " INSERT INTO log(what, item) VALUES ('up', new.id); END",
        "DROP TRIGGER logs",
    ),
    (
        "CREATE TRIGGER births AFTER INSERT ON items BEGIN"
        " UPDATE grps SET note = new.name WHERE name = new.grp; END",
        "DROP TRIGGER births",
    ),
    (
        "CREATE TRIGGER deaths BEFORE DELETE ON items WHEN old.qty = 2 BEGIN"
        " SELECT RAISE(ROLLBACK, 'two must live'); END",
        "DROP TRIGGER deaths",
    ),
    (
        "CREATE TRIGGER scruples BEFORE INSERT ON children WHEN new.v = 'z' BEGIN"
        " SELECT RAISE(IGNORE); END",
        "DROP TRIGGER scruples",
    ),
    ("CREATE VIEW v AS SELECT id, upper(name) AS name, twice FROM items", "DROP VIEW v"),
    ("CREATE VIEW v AS SELECT item AS id, v AS name, 0 AS twice FROM children", "DROP VIEW v"),
    (
        "CREATE TRIGGER into_v INSTEAD OF INSERT ON v BEGIN"
        " INSERT INTO items(id, name) VALUES (new.id, new.name); END",
        "DROP TRIGGER into_v",
    ),
    ("CREATE INDEX by_qty ON items(qty)", "DROP INDEX by_qty"),
    ("CREATE INDEX by_expression ON items(qty + 0, grp)", "DROP INDEX by_expression"),
    ("ALTER TABLE items ADD COLUMN extra DEFAULT 'e'", "ALTER TABLE items DROP COLUMN extra"),
    (
        "ALTER TABLE items RENAME COLUMN qty TO amount",
        "ALTER TABLE items RENAME COLUMN amount TO qty",
    ),
    ("ALTER TABLE log RENAME TO journal", "ALTER TABLE journal RENAME TO log"),
    ("ALTER TABLE children RENAME COLUMN v TO w", "ALTER TABLE children RENAME COLUMN w TO v"),
    ("CREATE TABLE more(x, y)", "DROP TABLE more"),
    ("DROP TABLE pairs", "CREATE TABLE pairs(a TEXT, b INT, c, PRIMARY KEY (a, b))"),
    ("DROP TABLE children", "CREATE TABLE children(item INT REFERENCES items, v)"),
    (
        "CREATE VIRTUAL TABLE texts USING fts5(name, content='items', content_rowid='id')",
        "DROP TABLE texts",
    ),
    ("CREATE VIRTUAL TABLE notes USING fts5(body)", "DROP TABLE notes"),
)

# (sql, parameters): every shape that regions and pins know, and some that they cannot prove.
QUERIES: tuple[tuple[str, Any], ...] = (
    ("SELECT * FROM items", ()),
    ("SELECT id, name FROM items ORDER BY name, id", ()),
    ("SELECT qty FROM items WHERE id = ?", (1,)),
    ("SELECT name FROM items WHERE id = 2 AND grp = :g", {"g": "h"}),
    ("SELECT id FROM items WHERE name = ?", ("a",)),
    ("SELECT id FROM items WHERE qty = ?", (1,)),
    ("SELECT id FROM items WHERE qty = '1'", ()),
    ("SELECT rowid, grp FROM items WHERE rowid = 3", ()),
    ("SELECT count(*) FROM items", ()),
    ("SELECT EXISTS(SELECT 1 FROM log)", ()),
    ("SELECT max(twice) AS top FROM items", ()),
    ("SELECT twice FROM items WHERE id = 1", ()),
    ("SELECT id FROM items WHERE twice = 2", ()),
    ("SELECT i.name, c.v FROM items i LEFT JOIN children c ON c.item = i.id", ()),
    ("SELECT a.id, b.id FROM items a, items b WHERE a.id = 1", ()),
    ("SELECT * FROM children WHERE item = 1", ()),
    ("SELECT rowid, * FROM children", ()),
    ("SELECT v FROM children ORDER BY v", ()),
    ("SELECT v FROM children LIMIT 1", ()),
    ("SELECT grp, count(*) AS n, total(qty) AS t FROM items GROUP BY grp", ()),
    ("WITH big AS (SELECT id FROM items WHERE qty > 0) SELECT group_concat(id) FROM big", ()),
    ("SELECT name FROM grps WHERE name IN (SELECT grp FROM items)", ()),
    ("SELECT note FROM grps WHERE name = 'g'", ()),
    ("SELECT what, item FROM log ORDER BY n DESC LIMIT 2", ()),
    ("SELECT c FROM pairs WHERE a = 'p' AND b = 1", ()),
    ("SELECT a FROM pairs WHERE b = 1 UNION ALL SELECT name FROM grps", ()),
    ("SELECT * FROM v", ()),
    ("SELECT name FROM v WHERE id = 1", ()),
    ("SELECT name FROM texts", ()),
    ("SELECT rowid FROM texts WHERE texts MATCH 'a'", ()),
    ("SELECT rowid, body FROM notes WHERE notes MATCH 'a OR b'", ()),
    ("SELECT x FROM more", ()),
    ("SELECT name FROM sqlite_master ORDER BY name", ()),
)


@dataclass(frozen=True, slots=True)
class Write:
    """One statement with positional parameters."""

    sql: str
    values: tuple[Any, ...]

    @property
    def inlined(self) -> str:
        """The statement with its values spelled as literals, for scripts."""
        sql = self.sql
        for value in self.values:
            sql = sql.replace("?", spelled(value), 1)
        return sql


def spelled(value: Any) -> str:
    """Spell a value as an SQL literal."""
    if value is None:
        return "NULL"
    return "'" + value + "'" if isinstance(value, str) else repr(value)


def _write(sql: str, *values: st.SearchStrategy[Any]) -> st.SearchStrategy[Write]:
    return st.builds(Write, sql=st.just(sql), values=st.tuples(*values))


_BODIES = st.sampled_from(["a", "b", "a b"])
_VALUES = st.sampled_from(["x", "z", None])
_ITEM = "INTO items(id, name, qty, grp) VALUES (?, ?, ?, ?)"
_ITEM_VALUES = (IDS, NAMES, QUANTITIES, GROUPS)
_WRITES: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    f"INSERT {_ITEM}": _ITEM_VALUES,
    f"INSERT OR IGNORE {_ITEM}": _ITEM_VALUES,
    f"REPLACE {_ITEM}": _ITEM_VALUES,
    f"INSERT OR ROLLBACK {_ITEM}": _ITEM_VALUES,
    f"INSERT OR FAIL {_ITEM}, (?, 'b', 7, NULL)": (*_ITEM_VALUES, IDS),
    f"INSERT {_ITEM} ON CONFLICT(id) DO UPDATE SET qty = excluded.qty": _ITEM_VALUES,
    f"INSERT {_ITEM} RETURNING id, name": _ITEM_VALUES,
    "WITH n(i) AS (VALUES (?)) INSERT OR IGNORE INTO items(id, qty) SELECT i, ? FROM n": (
        IDS,
        QUANTITIES,
    ),
    "UPDATE items SET qty = ? WHERE id = ?": (QUANTITIES, IDS),
    "UPDATE items SET name = ? WHERE id = ?": (NAMES, IDS),
    "UPDATE items SET grp = ?": (GROUPS,),
    "UPDATE items SET id = ? WHERE id = ?": (IDS, IDS),
    "UPDATE items SET rowid = ? WHERE name = ?": (IDS, NAMES),
    "UPDATE OR REPLACE items SET name = ? WHERE id = ? RETURNING *": (NAMES, IDS),
    "UPDATE items SET qty = c.v FROM (SELECT item, v FROM children) AS c WHERE c.item = id": (),
    "DELETE FROM items WHERE id = ?": (IDS,),
    "DELETE FROM items": (),
    "INSERT INTO children VALUES (?, ?)": (IDS, _VALUES),
    "UPDATE children SET item = ? WHERE item = ?": (IDS, IDS),
    "UPDATE children SET v = ?": (_VALUES,),
    "UPDATE children SET rowid = rowid + 10": (),
    "DELETE FROM children": (),
    "REPLACE INTO grps VALUES (?, ?)": (st.sampled_from(["g", "h"]), NAMES),
    "UPDATE grps SET name = ? WHERE name = ?": (st.sampled_from(["g", "h", "i"]), GROUPS),
    "DELETE FROM grps WHERE name = ?": (GROUPS,),
    "DELETE FROM log": (),
    "REPLACE INTO pairs VALUES (?, ?, ?)": (st.sampled_from(["p", "q"]), IDS, QUANTITIES),
    "UPDATE OR REPLACE pairs SET b = ?": (IDS,),
    "DELETE FROM pairs": (),
    "INSERT INTO v(id, name) VALUES (?, ?)": (IDS, NAMES),
    "INSERT INTO more VALUES (?, ?)": (IDS, NAMES),
    "INSERT INTO texts(texts) VALUES ('rebuild')": (),
    "INSERT INTO notes(rowid, body) VALUES (?, ?)": (IDS, _BODIES),
    "UPDATE notes SET body = ? WHERE rowid = ?": (_BODIES, IDS),
    "DELETE FROM notes WHERE rowid = ?": (IDS,),
    "SELECT * FROM items": (),
    "INSERT INTO nowhere VALUES (?)": (IDS,),
}
WRITES: st.SearchStrategy[Write] = st.one_of(
    [_write(sql, *values) for sql, values in _WRITES.items()]
)
# A text that the connection knows already takes another road than a new one.
REPEATED: st.SearchStrategy[list[Write]] = st.sampled_from(list(_WRITES.items())).flatmap(
    lambda item: st.lists(_write(item[0], *item[1]), min_size=2, max_size=4)
)
DEFINITIONS: st.SearchStrategy[Write] = st.sampled_from(
    [Write(sql, ()) for piece in PIECES for sql in piece]
)
