"""Any text searched for, bound or run as a query: its rows, or an error, and nothing injected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reactive_sqlite import sqlite3
from smithers import SmithersDB, create_smithers_db
from tests.faults.test_arguments import Witness
from tests.smithers.hostile import HOSTILE, UNWRITABLE, contents

# Words and marks of FTS5, of SQL, and what no parser likes.
PIECES = (
    *('"', "'", "*", "^", "(", ")", "{", "}", "[", "]", ":", "+", "-", "--", "/*", "*/", ";", "\\"),
    *("AND", "OR", "NOT", "NEAR", "NEAR(a b, 5)", "key:", "content :", "rank", "memories_fts", "%"),
    *("$1", "$2", "$10", "?1", "?", ":name", "@x", "$", "SELECT", "DROP TABLE state", "FROM state"),
    *("\0", "\ud800", "\u202e", "\ufeff", "漢字", "é", "🙂", "e\u0301", " ", "a", "api", "1e999"),
)
ANY_TEXT = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.sampled_from([*HOSTILE, *UNWRITABLE]),
)
BOUND = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    ANY_TEXT,
    st.binary(max_size=20),
    st.lists(st.integers(), max_size=2),
)
IN_A_STRING = "SELECT '$3 ?7 $', $2 AS b, \"key\", [value], $1 AS a, $2 AS c FROM state -- $9"
LARGEST = 2**63
Opened = tuple[SmithersDB, Witness]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    path: Path = tmp_path_factory.mktemp("searched")
    with create_smithers_db(path, watch=False) as db:
        for number, text in enumerate(HOSTILE):
            db.memories.add("fact", f"key {number}", text)
        db.memories.add_fact("api", "the api is at /v2 漢字")
        db.state.set("phase", "plan")
        assert db.path is not None
        before = contents(db)
        with closing(Witness(db.path)) as witness:
            yield db, witness
        assert contents(db) == before
        assert [finding for finding in db.check() if finding.level == "error"] == []


@settings(max_examples=100)
@given(ANY_TEXT)
@example('" OR 1=1 --')
@example("NEAR(")
@example("key : api")
def test_a_search_for_any_text_finds_or_finds_nothing_and_writes_nothing(
    opened: Opened, text: str
) -> None:
    db, witness = opened
    before = witness.version()
    try:
        found = db.memories.search(text)
    except ValueError as error:
        pytest.fail(f"{text!r} is text, and so is to be searched for: {error}")
    assert len(found) <= 20
    assert db.memories.observe_search(text).peek() == found
    assert witness.version() == before


def fits(value: Any) -> bool:
    """Whether a column can hold it."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace") == value.encode("utf-8", "surrogatepass")
    if isinstance(value, int):
        return -LARGEST <= value < LARGEST
    return not isinstance(value, list)


@settings(max_examples=100)
@given(BOUND, BOUND)
def test_what_is_bound_is_a_value_and_never_sql(opened: Opened, one: Any, other: Any) -> None:
    db, witness = opened
    before = witness.version()
    if fits(one) and fits(other):
        (row,) = db.query(IN_A_STRING, [one, other])
        assert row["b"] == row["c"]
        expected = (None if one != one else one, None if other != other else other)
        assert (row["a"], row["b"]) == expected, "SQLite has no NaN, and takes it for NULL"
    else:
        with pytest.raises((ValueError, sqlite3.ProgrammingError, sqlite3.InterfaceError)):
            db.query(IN_A_STRING, [one, other])
    assert witness.version() == before


@settings(max_examples=100)
@given(ANY_TEXT, st.lists(BOUND, max_size=3))
def test_any_text_as_a_query_reads_or_is_refused(
    opened: Opened, sql: str, params: list[Any]
) -> None:
    db, witness = opened
    before = witness.version()
    with suppress(ValueError, sqlite3.Error, sqlite3.Warning):
        db.query(sql, params)
    with suppress(ValueError, sqlite3.Error, sqlite3.Warning):
        db.observe(sql, params).peek()
    assert not db.database.conn.in_transaction
    assert witness.version() == before


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM state",
        "SELECT 1; DELETE FROM state",
        "WITH x AS (SELECT 1) DELETE FROM state",
        "EXPLAIN SELECT 1; DELETE FROM state",
        "explain/**/delete from state; drop table state",
        "PRAGMA writable_schema = 1",
        "PRAGMA journal_mode = DELETE",
        "ATTACH ':memory:' AS other",
        "VACUUM INTO 'stolen.db'",
        "SELECT load_extension('evil')",
        "SELECT writefile('evil', 'x')",
        "BEGIN",
        "\ufeffDELETE FROM state",
        "/* SELECT */ DELETE FROM state RETURNING value",
        "INSERT INTO memories_fts (memories_fts) VALUES ('delete-all')",
        "CREATE TABLE x (y)",
    ],
)
def test_what_would_write_is_refused_however_it_is_put(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.chdir(tmp_path)
    db, witness = opened
    before = witness.version()
    with pytest.raises((ValueError, sqlite3.Error, sqlite3.Warning)):
        db.query(sql)
    assert witness.version() == before
    assert list(tmp_path.iterdir()) == []
    assert not db.database.conn.in_transaction
