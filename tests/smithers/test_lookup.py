"""Rows found by an end of their id, and the newest ones."""

from __future__ import annotations

import pytest

from reactive_sqlite import sqlite3
from smithers import SmithersDB
from smithers.storage.lookup import Lookup


@pytest.fixture
def lookup(db: SmithersDB, foreign: sqlite3.Connection) -> Lookup:
    """Executions of these ids, in this order."""
    for id in ("abcdef", "abcxyz", "xyzabc", "abc", "%%%%", "日本語です", "a'b;c"):
        foreign.execute("INSERT INTO executions (id, name) VALUES (?, 'x')", [id])
    return Lookup(db.database)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("abcdef", ["abcdef"]),
        ("abcd", ["abcdef"]),
        ("zabc", ["xyzabc"]),
        ("abc", ["abc"]),
        ("ab", []),
        ("", []),
        ("%%%%", ["%%%%"]),
        ("____", []),
        ("日本語で", ["日本語です"]),
        ("本語です", ["日本語です"]),
        ("a'b;", ["a'b;c"]),
        ("abcdefg", []),
        ("ABCD", []),
        ("'; DROP TABLE executions", []),
    ],
)
def test_an_id_is_found_whole_or_by_an_end_of_four_characters(
    lookup: Lookup, text: str, ids: list[str]
) -> None:
    assert lookup.matching("execution", text) == ids
    assert lookup.matching("phase", text) == []


def test_several_are_given_newest_first(db: SmithersDB) -> None:
    ids = [db.execution.start("x") for _ in range(3)]
    assert Lookup(db.database).matching("execution", ids[0][:4]) == ids[::-1]
