"""Tests of `reactive_sqlite.pins`: a table of texts, and SQLite itself as the judge."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from reactive_sqlite import sqlite3
from reactive_sqlite.pins import Literal, Parameter, Shape, prove

PROVED = {
    "select * from t where a = 1": "t[a=1]",
    "SELECT * FROM t WHERE a = ?": "t[a=?1]",
    "select * from t where a == 'x' and b = 2;": "t[a='x', b=2]",
    "select * from t where a=?2 and b=? and c=?1": "t[a=?2, b=?3, c=?1]",
    "select ?, ? from t where a = ? limit ?": "t[a=?3]",
    "select * from t where a = :a and b = @b and c = $c and d = :a": "t[a=:a, b=:b, c=:c, d=:a]",
    "select * from t where a = $1": "t[a=:1]",
    "select * from t where ? = a and 5 = t.b": "t[a=?1, b=5]",
    "select * from t where (a = 1) and ((b = 2 and (c = 3)))": "t[a=1, b=2, c=3]",
    "select * from t where a = -1 and b = -2.5 and -3 = c": "t[a=-1, b=-2.5, c=-3]",
    "select * from t where a = 1.0 and b = 0.25 and c = 1e3": "t[a=1.0, b=0.25, c=1000.0]",
    "select * from t where a = 'it''s' and b = ''": "t[a='it''s', b='']",
    "select * from t where a = 'x -- /*' -- b = 1\n and /* or */ c = 2": "t[a='x -- /*', c=2]",
    "select * from t where a = 'where b = ?' and c = ?": "t[a='where b = ?', c=?1]",
    "select * from t where a = 1 and b > 2 and c in (1, 2) and d like 'x%'": "t[a=1]",
    "select * from t where a = 1 and (b = 2 or c = 3)": "t[a=1]",
    "select * from t where b between 1 and 2 and a = 1": "t[a=1]",
    "select * from t where a = 1 and b between 1 and 2": "t[a=1]",
    "select * from t where a = 1 and b is not null and not c = 2": "t[a=1]",
    "select * from t where a = 1 and b = c and d = upper(e)": "t[a=1]",
    "select * from t where a = 1 and b = 'x' collate nocase": "t[a=1]",
    "select x.* from t as x where x.a = 1": "t[a=1]",
    "select X.* from t x where x.a = 1": "t[a=1]",
    "select * from T where t.A = 1": "T[A=1]",
    "select * from main.t where a = 1": "main.t[a=1]",
    "select * from main.t where t.a = 1": "main.t[a=1]",
    'select * from "order items" where "the id" = 1': "order items[the id=1]",
    "select * from [order items] where `the id` = 1": "order items[the id=1]",
    "select * from größe where größe.länge = 1": "größe[länge=1]",
    "select count(*), max(b) from t where a = 1 group by c having count(*) > 1": "t[a=1]",
    "select distinct b from t where a = 1 order by c collate nocase limit 3 offset 1": "t[a=1]",
    "select rank() over (partition by b order by c) from t where a = 1": "t[a=1]",
    "select sum(b) over w from t where a = 1 window w as (order by c)": "t[a=1]",
    "select case when b = 2 or c = 3 then 1 else 0 end from t where a = 1": "t[a=1]",
    "select json_extract(b, '$.x') from t where a = 1 order by abs(c)": "t[a=1]",
    "select * from t where a = 1 and lower(b) = 'x' and cast(c as integer) > 1": "t[a=1]",
    "select * from t where rowid = 1": "t[rowid=1]",
    "select 5 as a from t where a = 5": "t[a=5]",
    "select * from t where a = 1 and a = 2": "t[a=1, a=2]",
    "select * from t where a = 9223372036854775807": "t[a=9223372036854775807]",
}

REFUSED = [
    # More than one table, or the same one twice.
    "select * from t, u where t.a = 1",
    "select * from t join u on u.b = t.b where t.a = 1",
    "select * from t cross join u where t.a = 1",
    "select * from t natural join u where a = 1",
    "select * from (select * from t) where a = 1",
    "select * from t where a = 1 and b in (select b from t)",
    "select * from t where a = 1 and b in u",
    "select * from t where a = 1 and exists (select 1 from u)",
    "select (select max(b) from t) from t where a = 1",
    "select * from t where a = 1 order by (select 1)",
    "with t as (select * from u) select * from t where a = 1",
    "select * from t where a = 1 union all select * from t",
    "select * from t where a = 1 except values (1)",
    "select * from json_each(?) where key = 1",
    "select * from t indexed by i where a = 1",
    "select * from t not indexed where a = 1",
    "select * from main.json_each('[]') where a = 1",
    # Not a conjunct of the WHERE.
    "select * from t",
    "select a = 1 from t",
    "select * from t where a = 1 or b = 2",
    "select * from t where a = 1 and b = 2 or c = 3",
    "select * from t where not a = 1",
    "select * from t where not (a = 1 and b = 2)",
    "select * from t where (a = 1 and b = 2) is null",
    "select * from t where (a = 1) = 0",
    "select * from t where case when b and a = 1 and c then 0 else 1 end",
    "select * from t where coalesce((a = 1), 1)",
    "select * from t where b between 0 and a = 1",
    "select * from t where b > 1 group by c having a = 1",
    "select count(*) filter (where a = 1) from t",
    "select count(*) filter (where a = 1) from t where b = 2",
    # Not a bare column compared with a plain value.
    "select * from t where +a = 1",
    "select * from t where +a = 1 and (a = 1 or b = 2)",
    "select * from t where -a = 1",
    "select * from t where a + 0 = 1",
    "select * from t where b - 5 = a",
    "select * from t where a = 1 + 1",
    "select * from t where a = 1 || 'x'",
    "select * from t where a = 'x' collate nocase",
    "select * from t where a collate nocase = 'x'",
    "select * from t where (a) = 1",
    "select * from t where a = (1)",
    "select * from t where a = 1 = 1",
    "select * from t where a = 1 is null",
    "select * from t where a = 1 isnull",
    "select * from t where a = 1 in (0)",
    "select * from t where a = b",
    'select * from t where a = "x"',
    "select * from t where 'a' = 1",
    "select * from t where a = null",
    "select * from t where a is 1",
    "select * from t where a = true",
    "select * from t where a = x'00'",
    "select * from t where a = 0x10",
    "select * from t where a = - ?",
    "select * from t where lower(a) = 'x'",
    "select * from t where (a, b) = (1, 2)",
    "select * from t where a <> 1",
    "select * from t where a in (1)",
    # A number that SQLite and Python may read as different ones.
    "select * from t where a = 9223372036854775808",
    "select * from t where a = 0.1",
    "select * from t where a = 1e300",
    "select * from t where a = 1_000",
    "select * from t where a = 1e99999999999999999999",
    f"select * from t where a = {'9' * 5000}",
    # Somebody else's column.
    "select * from t where u.a = 1",
    "select * from t x where t.a = 1",
    "select * from main.t where main.t.a = 1",
    # Which parameter it is, is not certain.
    "select * from t where a = ? and b = :b",
    "select * from t where a = :b and b = ?1",
    "select * from t where a = ?0",
    "select * from t where a = ?99999",
    f"select * from t where a = ?{'9' * 5000}",
    "select * from t where a = $a::b",
    "select * from t where a = $a(b)",
    "select * from t where a = #1",
    # A row outside may make these raise.
    "select * from t where a = 1 and json_extract(b, '$.x') = 2",
    "select * from t where a = 1 and b ->> 'x' = 2",
    "select * from t where a = 1 and b -> 'x' = 2",
    "select * from t where a = 1 and abs(b) = 2",
    "select * from t where a = 1 and b regexp 'x'",
    "select * from t where a = 1 and t match 'x'",
    'select * from t where a = 1 and "abs"(b) = 2',
    "select b from t where a = 1 group by b having json_extract(b, '$.x') = 2",
    # Not one SELECT, or not SQL at all.
    "",
    ";",
    "select",
    "-- only a comment",
    "select * from t where a = 1; select 2 = 2",
    "explain select * from t where a = 1",
    "update t set a = 1 where b = 2",
    "delete from t where a = 1",
    "select * from t where a = 'open",
    "select * from t where a = 1 \x00",
    "select * from t where\xa0a = 1",
    "select * from 't' where a = 1",
    "select * from t 'x' where a = 1",
    "select * from t where where a = 1",
    "select * from t where a = 1 2",
    "select * from t where = 1",
    "select * from t where a =",
]

FRAGMENTS = [
    *["a", "=", "==", "1", "'x'", "?", ":n", "and", "or", "not", "(", ")", "between", "null"],
    *["select", "from", "t", "in", "is", "order by", "limit", "case", "when", "end", "like"],
]


@pytest.mark.parametrize(("sql", "shape"), PROVED.items(), ids=PROVED.keys())
def test_a_pin_is_proved(sql: str, shape: str) -> None:
    assert str(prove(sql)) == shape


@pytest.mark.parametrize("sql", REFUSED, ids=[sql[:80] for sql in REFUSED])
def test_what_is_in_doubt_is_no_pin(sql: str) -> None:
    assert prove(sql) is None


def test_a_shape_holds_its_parts() -> None:
    assert prove("select * from main.t where a = 1 and b = ? and c = 'x'") == Shape(
        "t", "main", (("a", Literal(1)), ("b", Parameter(0)), ("c", Literal("x")))
    )
    assert prove("select * from t where a = @name") == Shape("t", None, (("a", Parameter("name")),))


def test_nested_brackets_beyond_the_parsers_depth_prove_nothing() -> None:
    deep = 5000
    assert prove(f"select * from t where a = 1 and {'(' * deep}b{')' * deep} > 1") is None


def test_a_condition_may_have_thousands_of_conjuncts() -> None:
    many = " and ".join(f"c{number} = {number}" for number in range(3000))
    shape = prove(f"select * from t where {many}")
    assert shape is not None
    assert len(shape.equalities) == 3000


@given(st.lists(st.sampled_from([*FRAGMENTS, *map(chr, range(128)), "\xa0", "é", "\ud800"])))
def test_no_text_makes_it_raise(pieces: list[str]) -> None:
    prove(" ".join(["select * from t where", *pieces]))
    prove("".join(["select * from t where a = 1 ", *pieces]))


def test_the_parser_is_loaded_only_for_a_query_that_may_have_a_pin() -> None:
    program = (
        "import sys; from reactive_sqlite.pins import prove\n"
        "prove('select * from t'); prove('select * from t where a > 1 or b = 2 + 3')\n"
        "assert 'sqlglot' not in sys.modules\n"
        "prove('select * from t where a = 1')\n"
        "assert 'sqlglot' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


SCHEMA = "create table t (id integer primary key, a integer, b text, c, d real)"
VALUES = st.sampled_from([None, 0, 1, 2, -1, 1.0, 0.5, "x", "X", "1", "it's", ""])
ROW = st.tuples(VALUES, VALUES, VALUES, VALUES)


LITERALS = st.sampled_from(["1", "0", "-1", "2.0", "0.5", "'x'", "'X'", "'1'", "''", "'it''s'"])
NO_LITERALS = st.sampled_from(["c", "null", "(1)", "+1", "1 + 0", "'x' collate nocase"])
COLUMNS = st.sampled_from(
    [
        *["a", "b", "c", "d", "id", "t.a", '"b"', "[c]", "`a`", "B"],
        *["+a", "-a", "not a", "(b)", "a || b", "lower(b)", "b collate nocase", "main.t.a", "'b'"],
    ]
)
OTHER_TERMS = st.sampled_from(
    [
        *["a between 0 and b = 1", "a between 0 and 2", "b is null", "c in (1, 'x')", "a"],
        *["case when b = 'x' and a = 1 then 1 end", "a = 1 is null", "b like 'x%'"],
    ]
)
RESULTS = st.sampled_from(
    [
        *["*", "count(*)", "a, b", "max(c), min(a), count(distinct b)", "group_concat(b), a"],
        *["distinct c", "row_number() over (order by b, id), id", "count(*) over (), id"],
    ]
)
TAILS = st.sampled_from(
    [
        *["", " order by c, id", " group by b", " group by a having a = 1 or count(*) > 1"],
        *[" order by id desc limit 2", " order by id limit 1 offset 1", ";"],
    ]
)


@dataclass(frozen=True)
class Query:
    """A random query with its parameters."""

    sql: str
    params: tuple[Any, ...] | dict[str, Any]


@st.composite
def queries(draw: st.DrawFn) -> Query:
    style = draw(st.sampled_from(["?", "?N", ":", "$", "none"]))
    bound: list[Any] = []

    def value() -> str:
        kind = draw(st.sampled_from(["literal", "literal", "bound", "other"]))
        if kind == "bound" and style != "none":
            bound.append(draw(VALUES))
            number = len(bound)
            return {"?": "?", "?N": f"?{number}", ":": f":p{number}", "$": f"${number}"}[style]
        return draw(NO_LITERALS if kind == "other" else LITERALS)

    def term(depth: int) -> str:
        kind = draw(st.sampled_from(["=", "=", "=", "==", "mirrored", "other", "and", "or", "("]))
        if depth > 2 or kind in {"=", "=="}:
            return f"{draw(COLUMNS)} {kind if kind == '==' else '='} {value()}"
        if kind == "mirrored":
            return f"{value()}={draw(COLUMNS)}"
        if kind == "other":
            return draw(OTHER_TERMS)
        if kind == "(":
            return f"({term(depth + 1)})"
        glue = draw(
            st.sampled_from([f" {kind} ", f"\n{kind.upper()} ", f" /* = */ {kind} -- or\n "])
        )
        return f"{term(depth + 1)}{glue}{term(depth + 1)}"

    sql = f"select {draw(RESULTS)} from t where {term(0)} and {term(0)}{draw(TAILS)}"
    if style in {":", "$"}:
        prefix = "p" if style == ":" else ""
        return Query(sql, {f"{prefix}{number}": v for number, v in enumerate(bound, 1)})
    return Query(sql, tuple(bound))


# CPython 3.12 before 3.12.4 takes `?1` for a name.
@pytest.mark.filterwarnings("ignore:Binding .* is a named parameter:DeprecationWarning")
@settings(max_examples=400)
@given(queries(), st.lists(ROW, max_size=8), st.lists(ROW, max_size=8))
def test_rows_outside_the_pins_cannot_change_an_answer(
    query: Query, rows: list[tuple[Any, ...]], others: list[tuple[Any, ...]]
) -> None:
    shape = prove(query.sql)
    event("proved" if shape else "not proved")
    assume(shape is not None)
    assert shape is not None
    matches = " and ".join(f'"{column}" = ?' for column, _ in shape.equalities)
    values = [_resolved(value, query.params) for _, value in shape.equalities]

    before = _table(enumerate(rows))
    try:
        answer = before.execute(query.sql, query.params).fetchall()
    except sqlite3.Error:
        before.close()
        assume(False)
        raise
    seen = before.execute(f"select * from t where {matches}", values).fetchall()
    after = _table((row[0], row[1:]) for row in seen)
    after.executemany("insert into t values (?, ?, ?, ?, ?)", _numbered(others, 100))
    after.execute(f"delete from t where id >= 100 and ifnull({matches}, 0)", values)

    assert after.execute(query.sql, query.params).fetchall() == answer, (
        f"{shape} was proved, yet rows outside changed the answer"
    )
    before.close()
    after.close()


def _table(rows: Any) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(SCHEMA)
    connection.executemany(
        "insert into t values (?, ?, ?, ?, ?)", ((key, *row) for key, row in rows)
    )
    return connection


def _numbered(rows: list[tuple[Any, ...]], first: int) -> list[tuple[Any, ...]]:
    return [(number, *row) for number, row in enumerate(rows, first)]


def _resolved(value: Literal | Parameter, params: tuple[Any, ...] | dict[str, Any]) -> Any:
    if isinstance(value, Literal):
        return value.value
    if isinstance(params, dict):
        assert isinstance(value.key, str)
        return params[value.key]
    assert isinstance(value.key, int)
    return params[value.key]
