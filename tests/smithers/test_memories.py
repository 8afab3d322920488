"""Memories: added, found, kept apart by scope, gone when expired, followed while observed."""

from __future__ import annotations

import gc
import multiprocessing
import stat
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import (
    DatabaseClosed,
    DatabaseReplaced,
    NotReady,
    create_effect,
    create_memo,
    create_root,
    sqlite3,
)
from smithers import (
    CannotOpen,
    Memory,
    NotADatabase,
    NotFound,
    OwnershipLost,
    ReadOnly,
    SchemaTooNew,
    SmithersDB,
    create_async_smithers_db,
    create_smithers_db,
)
from smithers.memory.stores import FILE_NAME
from smithers.schema.memories import CATEGORIES, PIECES, SCOPES, WORDS
from smithers.workspace import WorkflowDatabase
from tests.forgotten import forgets
from tests.recorder import Recorder
from tests.smithers.conftest import copied

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
INJECTIONS = (
    "'; DROP TABLE memories; --",
    '" OR 1=1 --',
    "x' UNION SELECT sql FROM sqlite_master --",
    "%_\\",
    "$1 ? :key @key",
    "NEAR(a b) AND NOT *",
    "🚀 éà 東京\n\t",
)


class Hands:
    """A clock whose time is set by hand."""

    def __init__(self) -> None:
        self.time = NOON

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def timed(tmp_path: Path, fresh: Path, clock: Hands) -> Iterator[SmithersDB]:
    """A database whose time is that of `clock`; its file was made by another handle."""
    file = copied(fresh, tmp_path / "timed") / fresh.name
    database = WorkflowDatabase(str(file))
    database.numbering = True
    with SmithersDB(database, path=file, clock=clock) as db:
        yield db


def keys(memories: list[Memory]) -> list[str]:
    return [memory.key for memory in memories]


def kept(memory: Memory | None) -> Memory:
    assert memory is not None
    return memory


# -- adding, getting, changing ---------------------------------------------------------------------


def test_a_memory_comes_back_as_it_was_added(db: SmithersDB) -> None:
    added = db.memories.add(
        "skill", "release", "Run make release", scope="session", source="README", confidence=0.5
    )
    assert db.memories.get("skill", "release") is not None
    assert (added.category, added.scope, added.key) == ("skill", "session", "release")
    assert (added.content, added.source, added.confidence) == ("Run make release", "README", 0.5)
    assert (added.execution_id, added.accessed_at, added.expires_at) == (None, None, None)
    assert added.created_at == added.updated_at and added.created_at.tzinfo is UTC
    got = db.memories.get("skill", "release")
    assert db.memories.list() == [got]


def test_the_calls_named_after_categories_add_to_them(db: SmithersDB) -> None:
    memories = db.memories
    memories.add_fact("fact", "a", "auth.ts")
    memories.add_learning("learning", "a", "package.json", confidence=0.25)
    memories.add_preference("preference", "a", "session")
    memories.add_context("context", "a", expires_at=timedelta(days=1))
    memories.add_skill("skill", "a", scope="global")
    for category in CATEGORIES:
        assert kept(memories.get(category, category)).category == category
    assert kept(memories.get("fact", "fact")).source == "auth.ts"
    assert kept(memories.get("learning", "learning")).confidence == 0.25
    assert kept(memories.get("preference", "preference")).scope == "session"
    assert kept(memories.get("skill", "skill")).scope == "global"


def test_adding_what_is_there_updates_it(timed: SmithersDB, clock: Hands) -> None:
    first = timed.memories.add_fact("key", "old", "here", expires_at=timedelta(days=1))
    clock.time += timedelta(minutes=1)
    second = timed.memories.add("fact", "key", "new", confidence=0.5)
    assert (second.id, second.created_at) == (first.id, first.created_at)
    assert second.updated_at == clock.time
    assert (second.content, second.source, second.confidence) == ("new", None, 0.5)
    assert second.expires_at is None
    assert timed.memories.list() == [second]
    assert timed.memories.search("old") == [] and timed.memories.search("new") == [second]


def test_the_same_key_stands_in_each_category_and_scope_once(db: SmithersDB) -> None:
    for category in CATEGORIES:
        for scope in SCOPES:
            for content in ("first", f"{category} {scope}"):
                db.memories.add(category, "key", content, scope=scope)
    assert db.memories.stats() == {
        "total": 15,
        "by_category": dict.fromkeys(CATEGORIES, 3),
        "by_scope": dict.fromkeys(SCOPES, 5),
    }
    for scope in SCOPES:
        assert kept(db.memories.get("fact", "key", scope)).content == f"fact {scope}"


def test_get_looks_in_the_session_then_the_project_then_globally(db: SmithersDB) -> None:
    assert db.memories.get("fact", "key") is None
    for scope in ("global", "project", "session"):
        db.memories.add_fact("key", scope, scope=scope)
        assert kept(db.memories.get("fact", "key")).content == scope
    for scope in ("session", "project"):
        db.memories.delete(kept(db.memories.get("fact", "key", scope)))
    assert kept(db.memories.get("fact", "key")).content == "global"


def test_update_changes_what_is_named_and_nothing_else(timed: SmithersDB, clock: Hands) -> None:
    for scope in SCOPES:
        added = timed.memories.add_fact(
            "key", "old", "here", scope=scope, expires_at=timedelta(days=1)
        )
        clock.time += timedelta(seconds=1)
        assert timed.memories.update(added.id) == added, "nothing named, nothing written"
        changed = timed.memories.update(added.id, content="new words")
        assert changed.updated_at == clock.time
        assert (changed.content, changed.source) == ("new words", "here")
        assert (changed.created_at, changed.expires_at) == (added.created_at, added.expires_at)
        assert keys(timed.memories.search("words", scope=scope)) == ["key"]
        changed = timed.memories.update(added, source=None, confidence=0, expires_at=None)
        assert (changed.source, changed.confidence, changed.expires_at) == (None, 0.0, None)
        assert timed.memories.get("fact", "key", scope) is not None


def test_a_deleted_memory_is_nowhere(db: SmithersDB) -> None:
    for scope in SCOPES:
        added = db.memories.add_fact("key", "content", scope=scope)
        db.memories.delete(added.id)
        assert db.memories.get("fact", "key") is None
        assert db.memories.search("content") == db.memories.list() == []
        with pytest.raises(NotFound):
            db.memories.delete(added.id)
        with pytest.raises(NotFound):
            db.memories.update(added.id, content="x")


def test_lists_give_first_what_was_changed_last(timed: SmithersDB, clock: Hands) -> None:
    for number, scope in enumerate(("global", "project", "session", "global", "project")):
        clock.time += timedelta(seconds=1)
        timed.memories.add("fact" if number % 2 else "skill", str(number), "x", scope=scope)
    assert keys(timed.memories.list()) == ["4", "3", "2", "1", "0"]
    assert keys(timed.memories.list(limit=3)) == ["4", "3", "2"]
    assert keys(timed.memories.list(limit=None)) == ["4", "3", "2", "1", "0"]
    assert keys(timed.memories.list(limit=0)) == []
    assert keys(timed.memories.list("fact")) == ["3", "1"]
    assert keys(timed.memories.list(scope="global")) == ["3", "0"]
    assert keys(timed.memories.list("skill", "project", 1)) == ["4"]
    clock.time += timedelta(seconds=1)
    timed.memories.update(kept(timed.memories.get("skill", "0")), confidence=0.5)
    assert keys(timed.memories.list(limit=2)) == ["0", "4"]


def test_reading_writes_nothing_until_something_else_is_written(
    timed: SmithersDB, clock: Hands, recorder: Recorder[Any]
) -> None:
    for scope in SCOPES:
        timed.memories.add_fact(scope, "x", scope=scope)
    timed.memories.observe_search("x").subscribe(recorder)
    clock.time += timedelta(hours=1)
    for scope in SCOPES:
        assert kept(timed.memories.get("fact", scope)).accessed_at == clock.time
        assert kept(timed.memories.get("fact", scope)).updated_at == NOON
    assert {memory.accessed_at for memory in timed.memories.list()} == {clock.time}
    count = "SELECT count(*) AS n FROM memories WHERE accessed_at IS NOT NULL"
    assert timed.query(count) == [{"n": 0}]
    assert len(recorder.values) == 1, "an effect that gets what it observes does not run for ever"
    timed.memories.add_fact("other", "y")
    assert timed.query(count) == [{"n": 2}]


def test_the_time_of_access_outlives_the_handle(path: Path) -> None:
    with create_smithers_db(path) as db:
        for scope in ("project", "global"):
            db.memories.add_fact("key", "x", scope=scope)
        db.memories.search("x")
        assert {memory.accessed_at for memory in db.memories.list()} == {None}, "only `get` counts"
        asked = [kept(db.memories.get("fact", "key", scope)) for scope in ("project", "global")]
    with create_smithers_db(path) as db:
        assert [m.accessed_at for m in db.memories.list()] == [
            memory.accessed_at for memory in reversed(asked)
        ]


def test_a_memory_names_the_execution_in_which_it_was_written(db: SmithersDB) -> None:
    assert db.memories.add_fact("before", "x").execution_id is None
    with db.transaction():
        id = db.execution.start("Feature")
        for scope in SCOPES:
            assert db.memories.add_fact("within", "x", scope=scope).execution_id == id
    db.execution.complete(id)
    assert db.memories.add_fact("within", "y").execution_id is None, "as the content, so the source"


# -- scopes ----------------------------------------------------------------------------------------


def seen(db: SmithersDB) -> set[str]:
    """Which contents any of the ways to read gives; each gives the same."""
    listed = {memory.content for memory in db.memories.list(limit=None)}
    assert {memory.content for memory in db.memories.search("seen", limit=None)} == listed
    assert {memory.content for memory in db.memories.observe_search("seen", limit=None)()} == listed
    assert {memory.content for memory in db.memories.observe(limit=None)()} == listed
    assert db.memories.stats()["total"] == len(listed)
    return listed


def test_each_scope_is_seen_where_it_belongs_and_nowhere_else(tmp_path: Path) -> None:
    """Two projects, two sessions in each, all in one shared store."""
    store = tmp_path / "store"
    opened = {
        (project, session): create_smithers_db(
            tmp_path / "workflow", project=project, session=session, memory_path=store
        )
        for project in ("p1", "p2")
        for session in ("s1", "s2")
    }
    try:
        written: dict[tuple[str, str], dict[str, str]] = {}
        for at, db in opened.items():
            written[at] = {scope: f"seen {scope} by {at}" for scope in SCOPES}
            for scope, content in written[at].items():
                db.memories.add_fact(f"{scope} {at}", content, scope=scope)
        for (project, session), db in opened.items():
            assert seen(db) == {
                *(contents["global"] for contents in written.values()),
                *(c["project"] for (p, _), c in written.items() if p == project),
                *(c["session"] for (_, s), c in written.items() if s == session),
            }
    finally:
        for db in opened.values():
            db.close()


def test_a_memory_out_of_sight_can_be_neither_got_nor_changed(tmp_path: Path) -> None:
    path = tmp_path / "workflow"
    with (
        create_smithers_db(path, project="p1") as one,
        create_smithers_db(path, project="p2") as two,
    ):
        for scope in ("project", "session"):
            theirs = one.memories.add_fact("key", "secret", scope=scope)
            assert two.memories.get("fact", "key") is None
            assert two.memories.get("fact", "key", scope) is None
            with pytest.raises(NotFound):
                two.memories.update(theirs.id, content="x")
            with pytest.raises(NotFound):
                two.memories.delete(theirs.id)
            assert kept(one.memories.get("fact", "key", scope)).content == "secret"


def test_each_handle_has_a_session_of_its_own_unless_it_is_named(path: Path) -> None:
    with create_smithers_db(path) as one, create_smithers_db(path) as two:
        assert one.memories.session != two.memories.session
        one.memories.add_context("key", "x", scope="session")
        assert two.memories.get("context", "key") is None
        with create_smithers_db(path, session=one.memories.session) as again:
            assert kept(again.memories.get("context", "key")).content == "x"


def test_databases_under_a_smithers_folder_share_the_projects_memories(tmp_path: Path) -> None:
    with (
        create_smithers_db(tmp_path / ".smithers" / "one") as one,
        create_smithers_db(tmp_path / ".smithers" / "two") as two,
        create_smithers_db(tmp_path / "apart") as apart,
    ):
        one.memories.add_fact("key", "x")
        one.memories.add_fact("mine", "x", scope="session")
        assert kept(two.memories.get("fact", "key")).content == "x"
        assert two.memories.get("fact", "mine") is None
        assert apart.memories.get("fact", "key") is None
        assert one.stats()["memories"] == 1, "the session's own"
        assert one.memories.project == two.memories.project == str(tmp_path)
    store = tmp_path / ".smithers" / "memories"
    assert sorted(file.name for file in store.iterdir()) == [FILE_NAME]
    assert sorted(tmp_path.glob(".smithers/**/db.sqlite")) == [
        tmp_path / ".smithers" / name / "db.sqlite" for name in ("one", "two")
    ]


def test_global_memories_are_seen_in_every_workflow_of_the_user(
    tmp_path: Path, user_home: Path
) -> None:
    with create_smithers_db(tmp_path / "one") as one, create_smithers_db(tmp_path / "two") as two:
        one.memories.add_fact("mine", "x")
        assert two.memories.list() == [] and not user_home.exists(), "made with the first one"
        one.memories.add_fact("key", "x", scope="global")
        assert kept(two.memories.get("fact", "key")).scope == "global"
        assert one.stats()["memories"] == 1, "it is not in the workflow's database"
    assert stat.S_IMODE(user_home.stat().st_mode) == 0o700
    assert stat.S_IMODE((user_home / FILE_NAME).stat().st_mode) == 0o600


def test_the_environment_names_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMITHERS_MEMORY", str(tmp_path / "named"))
    with create_smithers_db(tmp_path / "one", project="p") as one:
        one.memories.add_fact("key", "x")
    with create_smithers_db(":memory:", project="p") as two:
        assert kept(two.memories.get("fact", "key")).content == "x"
    assert (tmp_path / "named" / FILE_NAME).is_file()


def test_one_file_may_be_both_the_projects_and_the_users(tmp_path: Path, user_home: Path) -> None:
    with create_smithers_db(tmp_path / "one", memory_path=user_home) as db:
        for scope in SCOPES:
            db.memories.add_fact("key", f"seen {scope}", scope=scope)
        assert seen(db) == {f"seen {scope}" for scope in SCOPES}


def test_what_stood_in_the_database_before_a_store_was_shared_is_still_seen(tmp_path: Path) -> None:
    path, store = tmp_path / "workflow", tmp_path / "store"
    with create_smithers_db(path) as db:
        db.memories.add_fact("old", "seen old")
        db.memories.add_fact("both", "seen before")
    with create_smithers_db(path, memory_path=store) as db:
        db.memories.add_fact("both", "seen after")
        assert {memory.content for memory in db.memories.list()} == {"seen old", "seen after"}
        assert {memory.content for memory in db.memories.search("seen")} == {
            "seen old",
            "seen after",
        }
        assert kept(db.memories.get("fact", "both")).content == "seen after"
        db.memories.update(kept(db.memories.get("fact", "old")), content="changed")
        assert kept(db.memories.get("fact", "old")).content == "changed"


# -- expiry ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
def test_what_has_expired_is_never_returned(timed: SmithersDB, clock: Hands, scope: str) -> None:
    memories = timed.memories
    lasting = memories.add_fact("lasting", "seen lasting", scope=scope)
    fleeting = memories.add_fact(
        "fleeting", "seen fleeting", scope=scope, expires_at=NOON + timedelta(minutes=1)
    )
    observed = memories.observe_search("seen")
    assert fleeting.expires_at == NOON + timedelta(minutes=1)
    assert seen(timed) == {"seen lasting", "seen fleeting"}
    clock.time += timedelta(minutes=1)
    assert seen(timed) == {"seen lasting"}
    assert memories.get("fact", "fleeting") is None
    assert memories.get("fact", "fleeting", scope) is None
    assert keys(observed()) == ["lasting"]
    with pytest.raises(NotFound):
        memories.update(fleeting.id, expires_at=None)
    with pytest.raises(NotFound):
        memories.delete(fleeting.id)
    clock.time -= timedelta(seconds=1)
    assert seen(timed) == {"seen lasting", "seen fleeting"}, "whatever the clock says"
    memories.delete(lasting)


def test_an_expired_row_takes_no_place_in_a_limited_list(timed: SmithersDB, clock: Hands) -> None:
    for number in range(5):
        timed.memories.add_fact(f"old {number}", "x", expires_at=timedelta(seconds=1))
    timed.memories.add_fact("new", "x")
    clock.time += timedelta(seconds=2)
    assert (
        keys(timed.memories.list(limit=1)) == keys(timed.memories.search("x", limit=1)) == ["new"]
    )


def test_an_observed_search_shows_nothing_expired_when_it_changes(
    timed: SmithersDB, clock: Hands, recorder: Recorder[list[Memory]]
) -> None:
    timed.memories.add_fact("fleeting", "x", expires_at=timedelta(seconds=1))
    timed.memories.observe_search("x").subscribe(recorder)
    clock.time += timedelta(seconds=2)
    timed.memories.add_fact("new", "x")
    assert [keys(memories) for memories in recorder.values] == [["fleeting"], ["new"]]


@pytest.mark.parametrize("scope", SCOPES)
def test_adding_over_what_has_expired_begins_anew(
    timed: SmithersDB, clock: Hands, scope: str
) -> None:
    old = timed.memories.add_fact("key", "old", scope=scope, expires_at=timedelta(seconds=1))
    clock.time += timedelta(seconds=2)
    new = timed.memories.add_fact("key", "new", scope=scope)
    assert new.id != old.id and new.created_at == clock.time


def test_an_expiry_is_a_time_or_an_age(timed: SmithersDB) -> None:
    def expiry(value: Any) -> datetime | None:
        return timed.memories.add("fact", "key", "x", expires_at=value).expires_at

    assert expiry(None) is None
    assert expiry(timedelta(hours=1)) == NOON + timedelta(hours=1)
    assert expiry("2026-03-01T10:00:00+01:00") == datetime(2026, 3, 1, 9, tzinfo=UTC)
    assert expiry(datetime(2026, 3, 1, 10, tzinfo=timezone(timedelta(hours=1)))) == datetime(
        2026, 3, 1, 9, tzinfo=UTC
    )
    assert expiry(datetime(2026, 3, 1, 10)) == datetime(2026, 3, 1, 10).astimezone()
    expiry(NOON - timedelta(days=1))
    assert timed.memories.list() == [], "it may have expired already"


# -- searching -------------------------------------------------------------------------------------


def test_all_words_must_occur_in_any_order_in_key_or_content(db: SmithersDB) -> None:
    db.memories.add_fact("api-endpoint", "It is at /api/v2/users")
    db.memories.add_fact("users", "They are stored in PostgreSQL")
    assert keys(db.memories.search("users api")) == ["api-endpoint"]
    assert keys(db.memories.search("endpoint v2")) == ["api-endpoint"]
    assert keys(db.memories.search("postgres USERS")) == ["users"], "by the beginning of a word"
    assert db.memories.search("api mysql") == []


def test_a_hit_in_the_key_comes_first(db: SmithersDB) -> None:
    db.memories.add_fact("notes", "deploy on Fridays, deploy twice, then deploy again")
    db.memories.add_fact("deploy", "Run the script and wait")
    for number in range(20):
        db.memories.add_fact(f"filler {number}", "Something else entirely")
    assert keys(db.memories.search("deploy")) == ["deploy", "notes"]


def test_a_search_is_narrowed_and_limited(db: SmithersDB) -> None:
    for number in range(6):
        for scope in SCOPES:
            db.memories.add(CATEGORIES[number % 2], f"{scope}{number}", "word", scope=scope)
    assert len(db.memories.search("word")) == 18
    assert len(db.memories.search("word", limit=5)) == 5
    assert db.memories.search("word", limit=0) == []
    assert {m.scope for m in db.memories.search("word", limit=3)} == set(SCOPES), "in turn"
    assert len(db.memories.search("word", limit=None)) == 18
    assert {m.category for m in db.memories.search("word", "fact")} == {"fact"}
    assert len(db.memories.search("word", "learning", "global", 2)) == 2
    assert len(db.memories.search("word", "learning", "global")) == 3


def test_many_memories_are_all_found_without_a_limit(db: SmithersDB) -> None:
    with db.transaction():
        for number in range(1_200):
            db.memories.add_fact(f"key {number}", f"content {number}")
    assert len(db.memories.search("content", limit=None)) == 1_200
    assert keys(db.memories.search("content 777")) == ["key 777"]


# -- other programs --------------------------------------------------------------------------------


def test_the_indexes_follow_what_the_command_line_does(
    db: SmithersDB, shell: Callable[[str], str]
) -> None:
    db.memories.add_fact("one", "alpha")
    shell("INSERT INTO memories (category, key, content) VALUES ('fact', 'two', 'beta 東京都')")
    assert keys(db.memories.search("beta")) == ["two"], "seen by every project: it names none"
    assert keys(db.memories.search("東京")) == ["two"]
    shell("UPDATE memories SET content = 'gamma' WHERE key IN ('one', 'two')")
    assert db.memories.search("alpha") == db.memories.search("beta") == []
    assert db.memories.search("東京") == []
    assert sorted(keys(db.memories.search("gamma"))) == ["one", "two"]
    shell("UPDATE memories SET seq = seq + 100, key = key || ' renamed'")
    assert sorted(keys(db.memories.search("renamed"))) == ["one renamed", "two renamed"]
    shell("DELETE FROM memories WHERE key LIKE 'one%'")
    assert keys(db.memories.search("gamma")) == ["two renamed"]
    assert [finding for finding in db.check() if finding.level == "error"] == []


@pytest.mark.parametrize("recursive", ["ON", "OFF"])
def test_a_replaced_row_leaves_nothing_that_is_found(
    db: SmithersDB, foreign: sqlite3.Connection, recursive: str
) -> None:
    foreign.execute(f"PRAGMA recursive_triggers = {recursive}")
    columns = "seq, id, category, key, content"
    foreign.execute(f"INSERT INTO memories ({columns}) VALUES (7, 'a', 'fact', 'k', 'old 東京都')")
    foreign.execute(f"REPLACE INTO memories ({columns}) VALUES (7, 'a', 'fact', 'k', 'new')")
    assert db.memories.search("old") == db.memories.search("東京都") == []
    assert keys(db.memories.search("new")) == ["k"]
    foreign.execute("REPLACE INTO memories (category, key, content) VALUES ('fact', 'k', 'third')")
    foreign.execute("INSERT INTO memories (category, key, content) VALUES ('fact', 'l', 'fourth')")
    assert db.memories.search("new") == []
    assert keys(db.memories.search("third")) == ["k"]
    assert keys(db.memories.search("fourth")) == ["l"]


@pytest.mark.parametrize(
    "values",
    [
        {"category": "rumour"},
        {"scope": "galaxy"},
        {"scope": "session"},
        {"scope": "global", "belongs_to": "somebody"},
        {"confidence": 1.5},
        {"confidence": -0.1},
        {"confidence": "much"},
        {"key": ""},
        {"key": "a\0b"},
        {"key": "k" * 1025},
        {"content": ""},
        {"content": None},
        {"content": b"bytes"},
        {"expires_at": "soon"},
        {"expires_at": "2026-02-30"},
        {"expires_at": "2026-01-31T24:00:00"},
        {"expires_at": "2026-01-31 10:00 +01:00"},
        {"expires_at": "2026-01-31T10:00:00z"},
        {"expires_at": 12},
    ],
)
def test_the_table_refuses_what_is_no_memory(
    foreign: sqlite3.Connection, values: dict[str, Any]
) -> None:
    row = {"category": "fact", "key": "k", "content": "c", **values}
    marks = ", ".join("?" * len(row))
    with pytest.raises(sqlite3.IntegrityError, match="constraint"):
        foreign.execute(
            f"INSERT INTO memories ({', '.join(row)}) VALUES ({marks})", [*row.values()]
        )


def test_times_as_other_programs_write_them_are_read(
    db: SmithersDB, foreign: sqlite3.Connection
) -> None:
    insert = "INSERT INTO memories (category, key, content, expires_at) VALUES ('fact', ?, 'c', ?)"
    for key, time in (
        ("past", "2001-01-31 10:00:00"),
        ("future", "2999-01-31 10:00:00"),
        ("day", "2999-01-31"),
        ("zone", "2999-01-31T10:00:00.25+01:00"),
    ):
        foreign.execute(insert, (key, time))
    assert sorted(keys(db.memories.list())) == ["day", "future", "zone"]


# -- observing -------------------------------------------------------------------------------------


def test_an_observed_search_follows_every_change(
    db: SmithersDB, recorder: Recorder[list[Memory]]
) -> None:
    db.memories.observe_search("word").subscribe(recorder)
    one = db.memories.add_fact("one", "a word")
    db.memories.add_fact("other", "nothing of it")
    db.memories.update(one, content="another word, changed")
    db.memories.update(one, content="gone")
    two = db.memories.add_fact("two", "word", scope="session")
    db.memories.add_fact("three", "word", scope="global")
    db.memories.delete(two)
    assert [keys(memories) for memories in recorder.values] == [
        *([], ["one"], ["one"], [], ["two"], ["two", "three"], ["three"]),
    ]


def test_an_observed_search_has_the_order_of_a_search_whichever_file_came_first(
    tmp_path: Path, recorder: Recorder[list[Memory]]
) -> None:
    with create_smithers_db(tmp_path / "w", memory_path=tmp_path / "shared") as db:
        db.memories.add_fact("one", "word", scope="global")
        db.memories.observe_search("word").subscribe(recorder)
        for key, scope in (("two", "project"), ("three", "global"), ("four", "session")):
            db.memories.add_fact(key, "word", scope=scope)
            assert keys(recorder.last) == keys(db.memories.search("word"))


@forgets
def test_a_handle_that_was_forgotten_is_collected_though_a_search_was_observed(
    tmp_path: Path, recorder: Recorder[list[Memory]]
) -> None:
    db = create_smithers_db(tmp_path / "w")
    db.memories.add_fact("one", "word", scope="global")
    db.memories.observe_search("word").subscribe(recorder)
    known = weakref.ref(db.database.conn)
    del db
    gc.collect()
    assert known() is None, "it would keep its files and the threads that watch them"


def test_a_rollback_takes_nothing_back_that_another_handle_has_written_since(
    tmp_path: Path,
) -> None:
    with (
        create_smithers_db(tmp_path / "one") as one,
        create_smithers_db(tmp_path / "two") as two,
    ):

        def add(db: SmithersDB, key: str, content: str) -> Memory:
            return db.memories.add_fact(key, content, scope="global")

        changed, deleted, twice = (add(one, key, "old") for key in ("changed", "deleted", "twice"))
        with pytest.raises(KeyError), one.transaction():
            add(one, "added", "of one")
            one.memories.update(changed, content="of one")
            one.memories.delete(deleted)
            one.memories.update(twice, content="of one")
            one.memories.update(twice, content="of one again")
            add(two, "added", "of two")
            two.memories.update(changed, content="of two")
            add(two, "deleted", "of two")
            raise KeyError
        assert {memory.key: memory.content for memory in one.memories.list()} == {
            "added": "of two",
            "changed": "of two",
            "deleted": "of two",
            "twice": "old",
        }


def test_one_commit_is_one_value(db: SmithersDB, recorder: Recorder[list[Memory]]) -> None:
    db.memories.observe_search("word").subscribe(recorder)
    with db.transaction():
        for number in range(3):
            db.memories.add_fact(f"{number}", "word", scope="session")
    with pytest.raises(KeyError), db.transaction():
        db.memories.add_fact("never", "word")
        raise KeyError
    assert [len(memories) for memories in recorder.values] == [0, 3]


def test_effects_and_memos_follow_all_files(db: SmithersDB, recorder: Recorder[list[str]]) -> None:
    found = db.memories.observe_search("word")
    names = create_memo(lambda: keys(found()))
    effect = create_effect(lambda: recorder(names()))
    db.memories.add_fact("global", "word", scope="global")
    db.memories.add_fact("project", "word")
    db.memories.add_fact("other", "else", scope="global")
    assert recorder.values == [[], ["global"], ["project", "global"]]
    assert names() == keys(found()) == keys(found.peek()) == ["project", "global"]
    effect.dispose()
    db.memories.add_fact("late", "word", scope="global")
    assert len(names()) == 3 and len(recorder.values) == 3


def test_a_query_made_in_an_effect_outlives_its_run(db: SmithersDB) -> None:
    queries: list[Any] = []
    dispose = create_root(
        lambda dispose: (
            create_effect(lambda: queries.append(db.memories.observe("fact"))),
            dispose,
        )
    )[1]
    effect = create_effect(lambda: queries[0]())
    dispose()
    db.memories.add_fact("key", "x", scope="global")
    assert keys(queries[0]()) == ["key"]
    effect.dispose()


def test_a_subscription_made_in_a_transaction_begins_at_its_end(
    db: SmithersDB, recorder: Recorder[list[Memory]]
) -> None:
    db.memories.add_fact("global", "word", scope="global")
    with db.transaction():
        db.memories.add_fact("key", "word")
        query = db.memories.observe_search("word")
        query.subscribe(recorder)
        assert recorder.values == []
        with pytest.raises(NotReady):
            query()
    assert [keys(memories) for memories in recorder.values] == [["key", "global"]]


def test_a_list_is_observed_across_files_too(
    db: SmithersDB, recorder: Recorder[list[Memory]]
) -> None:
    db.memories.observe(limit=2).subscribe(recorder)
    for number, scope in enumerate(SCOPES):
        db.memories.add_fact(f"{number}", "x", scope=scope)
    assert [keys(memories) for memories in recorder.values] == [[], ["0"], ["1", "0"], ["2", "1"]]


def test_what_another_handle_and_other_programs_write_arrives(
    db: SmithersDB, elsewhere: SmithersDB, user_home: Path, recorder: Recorder[list[str]]
) -> None:
    query = db.memories.observe_search("word").decoded(keys)
    query.subscribe(recorder)
    elsewhere.memories.add_fact("project", "word")
    recorder.wait_for(lambda names: names == ["project"])
    elsewhere.memories.add_fact("first global", "word", scope="global")
    recorder.wait_for(lambda names: names == ["project", "first global"])
    other = sqlite3.connect(user_home / FILE_NAME, isolation_level=None)
    other.execute("UPDATE memories SET content = 'changed'")
    other.close()
    recorder.wait_for(lambda names: len(recorder.values) > 2 and names == ["project"])
    assert query.wait(lambda names: names == ["project"], timeout=10) == ["project"]


REMEMBER = """
import sys
from smithers import create_smithers_db
with create_smithers_db(sys.argv[1]) as db:
    db.memories.add_fact("theirs", "word", scope=sys.argv[2])
"""


@pytest.mark.parametrize("scope", ["project", "global"])
def test_a_store_that_another_process_makes_is_found(
    tmp_path: Path, scope: str, recorder: Recorder[list[str]]
) -> None:
    path = tmp_path / ".smithers" / "workflow"
    with create_smithers_db(path) as db:
        found = db.memories.observe_search("word")
        effects = Recorder[int]()
        effect = create_effect(lambda: effects(len(found())))
        found.decoded(keys).subscribe(recorder)
        subprocess.run([sys.executable, "-c", REMEMBER, str(path), scope], check=True, timeout=30)
        recorder.wait_for(lambda names: names == ["theirs"])
        effects.wait_for(lambda count: count == 1)
        effect.dispose()


def test_closing_completes_subscribers_once_and_ends_the_lookout(
    path: Path, recorder: Recorder[list[Memory]]
) -> None:
    db = create_smithers_db(path)
    query = db.memories.observe_search("word")
    query.subscribe(recorder.on_next, recorder.on_error, recorder.on_completed)
    db.close()
    assert (recorder.completed, recorder.errors) == (1, [])
    for use in (query, query.peek, lambda: db.memories.list(), lambda: db.memories.search("x")):
        with pytest.raises(DatabaseClosed):
            use()
    with pytest.raises(DatabaseClosed):
        db.memories.add_fact("key", "x", scope="global")
    assert_no_thread("smithers-lookout")


def test_nothing_looks_for_a_store_that_nobody_waits_for(db: SmithersDB) -> None:
    assert_no_thread("smithers-lookout")
    query = db.memories.observe_search("word")
    assert any(thread.name == "smithers-lookout" for thread in threading.enumerate())
    del query
    assert_no_thread("smithers-lookout")


def assert_no_thread(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(10)
            assert not thread.is_alive()


def test_an_error_of_a_subscriber_is_its_own(db: SmithersDB, recorder: Recorder[Any]) -> None:
    def fails(memories: list[Memory]) -> None:
        raise KeyError(len(memories))

    told = Recorder[Any]()
    db.memories.observe_search("word").subscribe(fails, told.on_error)
    db.memories.observe_search("word").subscribe(recorder)
    db.memories.add_fact("key", "word")
    db.memories.add_fact("global", "word", scope="global")
    assert [str(error) for error in told.errors] == ["0", "1", "2"]
    assert [len(memories) for memories in recorder.values] == [0, 1, 2]


def test_a_callback_may_write_and_nothing_nests(db: SmithersDB) -> None:
    depth, seen_counts = [0], list[int]()

    def write_more(memories: list[Memory]) -> None:
        depth[0] += 1
        assert depth[0] == 1, "nested"
        seen_counts.append(len(memories))
        if len(memories) < 6:
            scope = ("project", "global")[len(memories) % 2]
            db.memories.add_fact(f"{len(memories)}", "word", scope=scope)
        depth[0] -= 1

    db.memories.observe_search("word").subscribe(write_more)
    assert seen_counts[-1] == 6 and seen_counts == sorted(seen_counts)


def test_a_query_over_several_files_has_no_commits_to_share(db: SmithersDB) -> None:
    query = db.memories.observe_search("word")
    with pytest.raises(ValueError, match="several databases"):
        db.database.observe_many(query)
    inside = db.memories.observe_search("word", scope="session")
    db.database.observe_many(inside).subscribe(print)


def test_differences_of_a_search_are_given(db: SmithersDB) -> None:
    shown: list[Memory] = []

    def follow(diff: Any) -> None:
        shown[:] = diff.apply(shown)

    db.memories.observe_search("word").diffs().subscribe(follow)
    for scope in SCOPES:
        db.memories.add_fact(scope, "word", scope=scope)
    assert shown == db.memories.search("word")


# -- transactions, ownership, reading only ---------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
def test_a_transaction_that_is_rolled_back_leaves_every_file_as_it_was(
    timed: SmithersDB, clock: Hands, scope: str
) -> None:
    memories = timed.memories
    changed = memories.add_fact("changed", "seen before", "here", scope=scope)
    deleted = memories.add_fact("deleted", "seen before", scope=scope)
    memories.add_fact("expired", "seen before", scope=scope, expires_at=timedelta(seconds=1))
    clock.time += timedelta(seconds=2)
    before = memories.list()
    with pytest.raises(KeyError), timed.transaction():
        memories.add_fact("added", "seen after", scope=scope)
        memories.add_fact("changed", "seen after", scope=scope)
        memories.add_fact("expired", "seen after", scope=scope)
        memories.update(changed, source="there")
        memories.delete(deleted)
        assert sorted(keys(memories.list())) == ["added", "changed", "expired"]
        raise KeyError
    assert memories.list() == before
    assert memories.search("after") == [] and len(memories.search("before")) == 2


def test_a_savepoint_that_is_rolled_back_takes_only_its_own_with_it(db: SmithersDB) -> None:
    with db.transaction():
        db.memories.add_fact("outer", "x", scope="global")
        with pytest.raises(KeyError), db.transaction():
            db.memories.add_fact("inner", "x", scope="global")
            raise KeyError
    assert keys(db.memories.list()) == ["outer"]


def test_a_run_that_was_taken_over_writes_no_memories(
    db: SmithersDB, foreign: sqlite3.Connection
) -> None:
    old = {scope: db.memories.add_fact("old", "x", scope=scope) for scope in SCOPES}
    db.execution.start("Feature")
    foreign.execute("UPDATE _smithers_leases SET token = 'another run'")
    for scope in SCOPES:
        with pytest.raises(OwnershipLost):
            db.memories.add_fact("late", "x", scope=scope)
        with pytest.raises(OwnershipLost):
            db.memories.update(old[scope], content="late")
        with pytest.raises(OwnershipLost):
            db.memories.delete(old[scope])
    assert {(m.key, m.content) for m in db.memories.list()} == {("old", "x")}


def test_a_run_that_was_taken_over_can_be_closed(path: Path, foreign: sqlite3.Connection) -> None:
    with create_smithers_db(path) as db:
        added = db.memories.add_fact("key", "x")
        db.execution.start("Feature")
        db.memories.get("fact", "key")
        foreign.execute("UPDATE _smithers_leases SET token = 'another run'")
    with create_smithers_db(path) as db:
        assert db.memories.list() == [added], "its time of access is given up"


def test_a_replaced_database_takes_its_stores_along(tmp_path: Path) -> None:
    db = create_smithers_db(tmp_path / "workflow", watch=False)
    db.memories.add_fact("key", "x", scope="global")
    db.database.close()
    db.close()
    with pytest.raises(DatabaseClosed):
        db.memories.get("fact", "key", "global")


def test_a_store_that_was_replaced_is_opened_anew(
    db: SmithersDB, user_home: Path, recorder: Recorder[list[Memory]]
) -> None:
    db.memories.add_fact("key", "x", scope="global")
    db.memories.observe(scope="global").subscribe(recorder.on_next, recorder.on_error)
    file = user_home / FILE_NAME
    file.rename(user_home / "moved")
    assert isinstance(recorder.wait_for_error(), DatabaseReplaced)
    assert db.memories.list() == []
    db.memories.add_fact("again", "x", scope="global")
    assert keys(db.memories.list()) == ["again"]


def test_a_reader_makes_and_changes_nothing(tmp_path: Path, user_home: Path) -> None:
    path = tmp_path / ".smithers" / "workflow"
    create_smithers_db(path).close()
    with create_smithers_db(path, read_only=True) as reader:
        assert reader.memories.search("word") == reader.memories.list() == []
        assert reader.memories.observe_search("word")() == []
        assert reader.memories.get("fact", "key") is None
        assert reader.memories.stats()["total"] == 0
        for scope in SCOPES:
            with pytest.raises(ReadOnly):
                reader.memories.add_fact("key", "x", scope=scope)
    assert not user_home.exists() and not (tmp_path / ".smithers" / "memories").exists()
    with create_smithers_db(path) as db:
        for scope in ("project", "global"):
            id = db.memories.add_fact("key", "word", scope=scope).id
    files = [user_home / FILE_NAME, tmp_path / ".smithers" / "memories" / FILE_NAME]
    before = [file.read_bytes() for file in files]
    with create_smithers_db(path, read_only=True) as reader:
        assert len(reader.memories.search("word")) == 2
        assert kept(reader.memories.get("fact", "key")).accessed_at is None
        with pytest.raises(ReadOnly):
            reader.memories.update(id, content="x")
        with pytest.raises(ReadOnly):
            reader.memories.delete(id)
    assert [file.read_bytes() for file in files] == before


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of another kind")
def test_a_store_that_may_only_be_read_is_read(tmp_path: Path, user_home: Path) -> None:
    with create_smithers_db(tmp_path / "one") as db:
        db.memories.add_fact("key", "x", scope="global")
    file = user_home / FILE_NAME
    before = file.read_bytes()
    file.chmod(0o400)
    user_home.chmod(0o500)
    try:
        with create_smithers_db(tmp_path / "two") as db:
            assert keys(db.memories.list()) == ["key"]
    finally:
        user_home.chmod(0o700)
        file.chmod(0o600)
    assert file.read_bytes() == before


def test_a_store_of_another_kind_is_refused_and_left_alone(tmp_path: Path, user_home: Path) -> None:
    file = user_home / FILE_NAME
    user_home.mkdir()
    file.write_bytes(b"no database at all " * 100)
    with create_smithers_db(tmp_path / "one") as db:
        db.memories.add_fact("key", "x")
        assert keys(db.memories.list(scope="project")) == ["key"], "what is not in it is there"
        for use in (
            lambda: db.memories.search("x"),
            lambda: db.memories.observe()(),
            lambda: db.memories.add_fact("key", "x", scope="global"),
        ):
            with pytest.raises(NotADatabase):
                use()
    assert file.read_bytes() == b"no database at all " * 100


def test_a_store_of_a_newer_version_is_refused_and_left_alone(
    tmp_path: Path, user_home: Path
) -> None:
    with create_smithers_db(tmp_path / "one") as db:
        db.memories.add_fact("key", "x", scope="global")
    connection = sqlite3.connect(user_home / FILE_NAME)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with create_smithers_db(tmp_path / "one") as db:
        with pytest.raises(SchemaTooNew, match="99"):
            db.memories.search("x")
        with pytest.raises(SchemaTooNew, match="99"):
            db.memories.add_fact("key", "x", scope="global")


def test_a_store_cannot_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with create_smithers_db(tmp_path / "one", memory_path=tmp_path / "file") as db:
        assert db.memories.list() == []
        with pytest.raises(CannotOpen):
            db.memories.add_fact("key", "x")


def remember(path: str, number: int) -> None:
    with create_smithers_db(path) as db:
        for step in range(5):
            db.memories.add_fact(f"{number} {step}", "word", scope="global")


def test_several_processes_make_the_users_store_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "workflow")
    create_smithers_db(path).close()
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=remember, args=(path, number)) for number in range(5)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 5
    with create_smithers_db(path) as db:
        assert len(db.memories.search("word", limit=None)) == 25


def test_threads_remember_and_search_at_once(db: SmithersDB) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(20):
                db.memories.add_fact(f"{number} {step}", "word", scope=SCOPES[step % 3])
                assert db.memories.search("word")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(db.memories.search("word", limit=None)) == 160


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"category": "rumour"}, ValueError),
        ({"category": None}, ValueError),
        ({"scope": "galaxy"}, ValueError),
        ({"scope": None}, ValueError),
        ({"key": ""}, ValueError),
        ({"key": "k" * 1025}, ValueError),
        ({"key": "a\0b"}, ValueError),
        ({"key": 7}, TypeError),
        ({"content": ""}, ValueError),
        ({"content": "\ud800"}, ValueError),
        ({"content": None}, TypeError),
        ({"source": 7}, TypeError),
        ({"source": "a\0b"}, ValueError),
        ({"confidence": 1.1}, ValueError),
        ({"confidence": -1}, ValueError),
        ({"confidence": float("nan")}, ValueError),
        ({"confidence": "much"}, TypeError),
        ({"confidence": True}, TypeError),
        ({"expires_at": 12.5}, TypeError),
        ({"expires_at": "soon"}, ValueError),
        ({"expires_at": timedelta.max}, ValueError),
        ({"expires_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))}, ValueError),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_written(
    db: SmithersDB, user_home: Path, wrong: dict[str, Any], error: type[Exception]
) -> None:
    there = db.memories.add_fact("there", "x")
    before = db.stats()
    for scope in SCOPES:
        values: dict[str, Any] = {"category": "fact", "key": "k", "content": "c", "scope": scope}
        values.update(wrong)
        with pytest.raises(error):
            db.memories.add(**values)
    changes = {name: value for name, value in wrong.items() if name not in _FIXED}
    if changes:
        with pytest.raises(error):
            db.memories.update(there.id, **changes)
    assert db.stats() == before and db.memories.list() == [there]
    assert not user_home.exists()


_FIXED = ("category", "scope", "key")


def test_reading_refuses_what_makes_no_sense(db: SmithersDB) -> None:
    wrong: list[Callable[[], object]] = [
        lambda: db.memories.get("rumour", "k"),
        lambda: db.memories.get("fact", ""),
        lambda: db.memories.get("fact", "k", "galaxy"),
        lambda: db.memories.list("rumour"),
        lambda: db.memories.list(scope="galaxy"),
        lambda: db.memories.list(limit=-1),
        lambda: db.memories.list(limit=True),
        lambda: db.memories.search("x", limit=2**63),
        lambda: db.memories.search("", "rumour"),
        lambda: db.memories.search("x", scope="galaxy"),
        lambda: db.memories.observe(scope="galaxy"),
        lambda: db.memories.observe_search("x", limit=-1),
        lambda: db.memories.delete(""),
    ]
    for use in wrong:
        with pytest.raises(ValueError):
            use()
    not_text: Any = 7
    for ask in (db.memories.search, db.memories.observe_search, db.memories.delete):
        with pytest.raises(TypeError):
            ask(not_text)


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_names_that_cannot_be_written_open_nothing(path: Path, name: str) -> None:
    with pytest.raises(ValueError):
        create_smithers_db(path, project=name)
    with pytest.raises(ValueError):
        create_smithers_db(path, session=name)
    assert not path.exists()


@pytest.mark.parametrize("text", INJECTIONS)
def test_nothing_in_a_text_is_taken_for_more(path: Path, text: str) -> None:
    with create_smithers_db(path, project=text, session=text) as db:
        for scope in SCOPES:
            added = db.memories.add("fact", text, text, scope=scope, source=text)
            assert (added.key, added.content, added.source) == (text, text, text)
            assert kept(db.memories.get("fact", text, scope)).id == added.id
            assert db.memories.update(added.id, content=text + "!", source=text).source == text
        assert len(db.memories.list()) == 3
        db.memories.search(text)
        assert db.memories.observe_search(text)() == db.memories.search(text)
        with pytest.raises(NotFound):
            db.memories.delete(text)
        with pytest.raises(NotFound):
            db.memories.update(text, content="x")
        for category_or_scope in (text,):
            with pytest.raises(ValueError):
                db.memories.list(category_or_scope)
        assert db.query("SELECT count(*) AS n FROM memories") == [{"n": 2}]
        assert db.query(f"SELECT count(*) AS n FROM {WORDS}") == [{"n": 2}]
        assert db.query(f"SELECT count(*) AS n FROM {PIECES}")[0]["n"] in (0, 2)


# -- awaited ---------------------------------------------------------------------------------------


async def test_the_same_awaited(path: Path) -> None:
    async with create_async_smithers_db(path, session="s", project="p") as db:
        memories = db.memories
        assert (memories.session, memories.project) == ("s", "p")
        fact = await memories.add_fact("fact", "word one", "auth.ts")
        await memories.add_learning("learning", "word", confidence=0.5)
        await memories.add_preference("preference", "word", "session")
        await memories.add_context("context", "word", expires_at=timedelta(seconds=-1))
        await memories.add_skill("skill", "word", scope="global")
        await memories.add("fact", "other", "else")
        assert kept(await memories.get("fact", "fact")).content == "word one"
        assert (await memories.update(fact.id, content="word two")).content == "word two"
        found = await memories.search("word")
        assert set(keys(found)) == {"fact", "learning", "preference", "skill"}
        assert (await memories.stats())["total"] == len(await memories.list()) == 5
        await memories.delete(fact)
        with pytest.raises(NotFound):
            await memories.delete(fact)
        with pytest.raises(ValueError, match="scope"):
            await memories.list(scope="galaxy")
        with pytest.raises(ValueError, match="scope"):
            await memories.observe_search("word", scope="galaxy")


async def test_an_observed_search_is_told_on_the_loop_before_the_write_returns(
    path: Path,
) -> None:
    told, effects = Recorder[list[Memory]](), Recorder[int]()
    async with create_async_smithers_db(path) as db:
        found = db.memories.observe_search("word")
        assert await found == []
        found.subscribe(told)
        effect = create_effect(lambda: effects(len(found())))
        for number, scope in enumerate(SCOPES, start=1):
            await db.memories.add_fact(f"{number}", "word", scope=scope)
            assert len(told.last) == effects.last == len(found()) == len(found.peek()) == number
        effect.dispose()
        assert len(await found.first(lambda memories: len(memories) == 3, timeout=5)) == 3
        async for memories in db.memories.observe("fact"):
            assert len(memories) == 3
            break
    assert {*told.threads, *effects.threads} == {threading.main_thread()}


async def test_a_transaction_on_the_worker_writes_to_all_files(path: Path) -> None:
    async with create_async_smithers_db(path) as db:

        def remember_and_fail(sync: SmithersDB) -> None:
            for scope in SCOPES:
                sync.memories.add_fact(scope, "word", scope=scope)
            raise KeyError

        with pytest.raises(KeyError):
            await db.transact(remember_and_fail)
        assert await db.memories.list() == []
