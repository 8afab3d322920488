"""`smithers db memories`: memories listed and searched, each scope as it is to be seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from smithers import SmithersDB, create_smithers_db
from tests.smithers.commandline import Run, cells, in_process


@pytest.fixture
def filled(db: SmithersDB) -> SmithersDB:
    """A database with a memory of each kind, and one that has expired."""
    db.memories.add_fact("api-endpoint", "The API is at /api/v2\nsince May", "auth.ts")
    db.memories.add_preference("commits", "Conventional commits", "global")
    db.memories.add_skill("release", "Run make release", confidence=0.5)
    db.memories.add_context("deadline", "The release is on Friday", scope="session")
    db.memories.add_learning("言語", "日本語のテスト 🎉")
    soon = datetime.now(UTC) + timedelta(milliseconds=1)
    db.memories.add_fact("old", "release", expires_at=soon)
    return db


def keys(run: Run, *args: str) -> list[str]:
    return [row["key"] for row in run("memories", *args, "--json").json]


def test_memories_are_listed_those_changed_last_first(cli: Run, filled: SmithersDB) -> None:
    table = cells(cli("memories"))
    assert table[0] == [
        *("category", "key", "content", "scope", "updated (UTC)", "source", "confidence", "id"),
    ]
    assert [row[:4] for row in table[1:]] == [
        ["learning", "言語", "日本語のテスト 🎉", "project"],
        ["skill", "release", "Run make release", "project"],
        ["preference", "commits", "Conventional commits", "global"],
        ["fact", "api-endpoint", r'"The API is at /api/v2\nsince May"', "project"],
    ], "none of another session, none that has expired"
    assert table[2][6] == "0.5" and table[4][5] == "auth.ts"
    assert keys(cli, "--category", "fact") == ["api-endpoint"]
    assert keys(cli, "--scope", "global") == ["commits"]
    assert keys(cli, "--limit", "2") == ["言語", "release"]
    assert cli("memories", "--category", "nonsense").code == 2


def test_memories_are_searched_for_all_words_best_first(
    cli: Run, filled: SmithersDB, path: Path
) -> None:
    assert (
        keys(cli, "api") == keys(cli, "END", "api") == keys(cli, "api endpoint") == ["api-endpoint"]
    )
    assert keys(cli, "release") == ["release"]
    assert keys(cli, "release", "--category", "fact") == []
    assert keys(cli, "本語") == ["言語"]
    for text in ("it's", "C++", '"', "...", "a AND", "NEAR(", "'; DROP TABLE memories"):
        assert cli("memories", "--json", text).code == 0
    done = in_process("db", "memories", "make", "--json", "--path", str(path))
    assert [row["content"] for row in done.json] == ["Run make release"]


def test_a_session_and_a_project_are_seen_when_they_are_named(
    cli: Run, filled: SmithersDB, path: Path
) -> None:
    session = filled.memories.session
    assert keys(cli, "--scope", "session", "--session", session) == ["deadline"]
    assert keys(cli, "Friday") == [] and keys(cli, "Friday", "--session", session) == ["deadline"]
    with create_smithers_db(path, project="other") as other:
        other.memories.add_fact("theirs", "of another project")
    assert "theirs" not in keys(cli)
    assert keys(cli, "--project", "other") == ["theirs", "commits"]


def test_why_nothing_is_shown_is_said_as_it_is(cli: Run, db: SmithersDB) -> None:
    assert cli("memories", columns=80).out == "There are no memories.\n"
    assert (cli("memories").out, cli("memories", "--json").json) == ("", [])
    db.memories.add_fact("a", "b")
    assert cli("memories", "absent", columns=80).out == "No memory matches.\n"
    assert cli("memories", "--limit", "0", columns=80).out == "No memory matches.\n"


def test_looking_makes_no_file(cli: Run, db: SmithersDB, tmp_path: Path) -> None:
    db.memories.add_fact("a", "b")
    before = sorted(tmp_path.rglob("*"))
    assert keys(cli) == keys(cli, "b") == ["a"]
    assert sorted(tmp_path.rglob("*")) == before


def test_hostile_text_in_every_column_reaches_no_terminal(cli: Run, db: SmithersDB) -> None:
    hostile = "\x1b[2J\x1b]0;title\x07\r\n\t\u2028\u202e日本語 🎉"
    db.memories.add_fact(hostile, hostile, hostile)
    for columns in (0, 30, 80, 250):
        for args in ((), ("title",)):
            done = cli("memories", *args, columns=columns)
            assert done.code == 0 and "title" in done.out
            for line in done.out.split("\n"):
                assert all(mark.isprintable() or mark == "\t" for mark in line), line
