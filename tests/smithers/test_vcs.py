"""Commits, snapshots and reviews that were logged, below what ran and by nobody else."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from smithers import (
    AsyncSmithersDB,
    Commit,
    InvalidStatus,
    NotFound,
    OwnershipLost,
    ReadOnly,
    RepositoryError,
    Review,
    SmithersDB,
    Snapshot,
    StateTypeError,
    create_async_smithers_db,
    create_smithers_db,
)
from tests.recorder import Recorder
from tests.smithers.repositories import Repository, lines

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOSTILE = (
    "'; DROP TABLE commits; --",
    '"; DELETE FROM reviews; --',
    "' OR '1'='1",
    "$1 ?1 :name @x %s {} {0}",
    "line\nbreak\r\n\ttab",
    "\x01\x1b[31m\x7f",
    "grüße 日本語 🚀 \u202e \ufeff",
    "../../etc/passwd",
    "a" * 100_000,
)


@pytest.fixture
async def adb(path: Path) -> AsyncIterator[AsyncSmithersDB]:
    async with create_async_smithers_db(path) as opened:
        yield opened


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


def review(id: str = "r1", **changed: Any) -> dict[str, Any]:
    facts = {"review_id": id, "target": "abc", "approved": False, "summary": "no", "blocking": True}
    return {**facts, **changed}


# -- commits ---------------------------------------------------------------------------------------


def test_a_logged_commit_is_returned_and_listed(db: SmithersDB) -> None:
    logged = db.vcs.log_commit(
        hash="abc123",
        message="feat: Add user auth",
        author="claude",
        timestamp=NOON,
        files_changed=3,
        insertions=150,
        deletions=20,
        vcs_type="git",
    )
    assert db.vcs.commits() == [logged]
    assert logged == Commit(
        id=logged.id,
        execution_id=None,
        agent_id=None,
        vcs_type="git",
        hash="abc123",
        change_id=None,
        message="feat: Add user auth",
        author="claude",
        timestamp=NOON,
        files_changed=3,
        insertions=150,
        deletions=20,
    )


def test_one_dict_says_the_same_as_keywords(db: SmithersDB) -> None:
    facts = {"hash": "a", "message": "", "vcs_type": "jj", "change_id": "zw", "insertions": 0}
    logged = db.vcs.log_commit(facts)
    assert (logged.vcs_type, logged.change_id, logged.insertions) == ("jj", "zw", 0)
    assert logged.files_changed is None, "what is not said is not known"


def test_a_commit_without_a_time_is_of_now(db: SmithersDB) -> None:
    before = datetime.now(UTC)
    assert before <= db.vcs.log_commit(hash="a", message="x").timestamp <= datetime.now(UTC)


@pytest.mark.parametrize(
    "given",
    [
        NOON,
        datetime(2026, 1, 31, 14, tzinfo=timezone(timedelta(hours=2))),
        NOON.astimezone().replace(tzinfo=None),
        "2026-01-31T12:00:00Z",
        "2026-01-31T13:00:00.000+01:00",
    ],
)
def test_a_time_may_be_given_in_several_ways(db: SmithersDB, given: Any) -> None:
    assert db.vcs.log_commit(hash="a", message="x", timestamp=given).timestamp == NOON


def test_the_same_hash_again_updates_the_commit(db: SmithersDB) -> None:
    first = db.vcs.log_commit(hash="a", message="old", author="ada", timestamp=NOON, insertions=1)
    again = db.vcs.log_commit(hash="a", message="new", insertions=2, deletions=3)
    assert db.vcs.commits() == [again]
    assert again.id == first.id
    assert (again.message, again.insertions, again.deletions) == ("new", 2, 3)
    assert (again.author, again.timestamp) == ("ada", NOON), "what is not said again stays"


def test_the_same_hash_in_another_system_is_another_commit(db: SmithersDB) -> None:
    db.vcs.log_commit(hash="a", message="x", vcs_type="git")
    db.vcs.log_commit(hash="a", message="x", vcs_type="jj")
    assert [commit.vcs_type for commit in db.vcs.commits()] == ["git", "jj"]


def test_a_commit_stays_below_the_execution_and_agent_that_logged_it_first(db: SmithersDB) -> None:
    one = db.execution.start("one")
    with db.agents.open("commit it") as agent:
        logged = db.vcs.log_commit(hash="a", message="x")
    assert (logged.execution_id, logged.agent_id) == (one, agent)
    db.execution.complete(one)
    two = db.execution.start("two")
    again = db.vcs.log_commit(hash="a", message="y")
    assert (again.execution_id, again.agent_id, again.message) == (one, agent, "y")
    own = db.vcs.log_commit(hash="b", message="z")
    assert db.vcs.commits(one) == [again]
    assert db.vcs.commits(two) == [own]
    assert db.vcs.commits() == [again, own]
    assert db.vcs.commits("unknown") == []


def test_a_commit_logged_before_any_execution_stays_below_none(db: SmithersDB) -> None:
    db.vcs.log_commit(hash="a", message="x")
    id = db.execution.start("later")
    assert db.vcs.log_commit(hash="a", message="x").execution_id is None
    assert db.vcs.commits(id) == []


def test_lists_are_in_the_order_of_the_first_logging(db: SmithersDB) -> None:
    for hash in ("c", "a", "b", "c"):
        db.vcs.log_commit(hash=hash, message="x")
    assert [commit.hash for commit in db.vcs.commits()] == ["c", "a", "b"]
    assert [commit.hash for commit in db.vcs.commits(limit=2)] == ["a", "b"], "the newest two"
    assert db.vcs.commits(limit=0) == []


def test_a_run_that_lost_the_execution_logs_nothing(db: SmithersDB, elsewhere: SmithersDB) -> None:
    id = db.execution.start("taken over")
    db.vcs.log_commit(hash="a", message="x")
    db.vcs.log_review(review())
    before = db.stats()
    with db.database.transaction():
        db.database.conn.execute("UPDATE _smithers_leases SET expires = 0")
    elsewhere.execution.resume(id)
    for late in (
        lambda: db.vcs.log_commit(hash="a", message="late"),
        lambda: db.vcs.log_commit(hash="b", message="late"),
        lambda: db.vcs.log_snapshot(snapshot_id="s"),
        lambda: db.vcs.log_review(review("r2")),
        lambda: db.vcs.log_review(review(summary="late")),
        lambda: db.vcs.resolve_review("r1"),
    ):
        with pytest.raises(OwnershipLost):
            late()
    assert db.stats() == before
    assert db.vcs.commits()[0].message == "x"
    assert elsewhere.vcs.blocking_reviews()[0].summary == "no"


# -- snapshots -------------------------------------------------------------------------------------


def test_a_logged_snapshot_is_returned_and_listed(db: SmithersDB) -> None:
    id = db.execution.start("run")
    logged = db.vcs.log_snapshot(
        snapshot_id="xyz789", description="Before refactoring", timestamp=NOON
    )
    assert db.vcs.snapshots() == db.vcs.snapshots(id) == [logged]
    assert logged == Snapshot(
        id=logged.id,
        execution_id=id,
        snapshot_id="xyz789",
        description="Before refactoring",
        timestamp=NOON,
    )


def test_the_same_snapshot_again_updates_it(db: SmithersDB) -> None:
    first = db.vcs.log_snapshot({"snapshot_id": "s", "timestamp": NOON})
    db.execution.start("later")
    again = db.vcs.log_snapshot({"snapshot_id": "s", "description": "why"})
    assert again == Snapshot(
        id=first.id, execution_id=None, snapshot_id="s", description="why", timestamp=NOON
    )
    assert db.vcs.snapshots() == [again]


# -- reviews ---------------------------------------------------------------------------------------


def test_a_logged_review_is_returned_and_listed(db: SmithersDB) -> None:
    id = db.execution.start("run")
    issues = [{"severity": "high", "file": "auth.py", "description": "…"}]
    with db.agents.open("review it") as agent:
        logged = db.vcs.log_review(
            review_id="r1",
            target="abc123",
            approved=False,
            summary="Security issues found",
            issues=issues,
        )
    assert db.vcs.reviews() == db.vcs.reviews(id) == [logged]
    assert logged == Review(
        id=logged.id,
        execution_id=id,
        agent_id=agent,
        review_id="r1",
        target="abc123",
        approved=False,
        blocking=False,
        resolved_at=None,
        summary="Security issues found",
        issues=issues,
        timestamp=logged.timestamp,
    )
    assert db.vcs.blocking_reviews() == [], "it does not block unless it says so"


def test_a_review_blocks_until_it_is_approved_or_resolved(db: SmithersDB) -> None:
    id = db.execution.start("run")
    for name, approved, blocking in (
        ("blocks", False, True),
        ("approved", True, True),
        ("mere advice", False, False),
        ("blocks too", False, True),
    ):
        db.vcs.log_review(review(name, approved=approved, blocking=blocking))

    def blocking_now() -> list[str]:
        return [review.review_id for review in db.vcs.blocking_reviews()]

    assert blocking_now() == ["blocks", "blocks too"]
    assert db.vcs.blocking_reviews(id) == db.vcs.blocking_reviews()
    assert db.vcs.blocking_reviews("unknown") == []
    assert [one.review_id for one in db.vcs.blocking_reviews(limit=1)] == ["blocks too"]
    resolved = db.vcs.resolve_review("blocks")
    assert resolved.resolved_at is not None and not resolved.approved
    assert blocking_now() == ["blocks too"]
    db.vcs.log_review(review("blocks too", approved=True))
    assert blocking_now() == []


def test_the_same_review_again_changes_nothing(db: SmithersDB) -> None:
    db.vcs.log_review(review(issues=[1]))
    resolved = db.vcs.resolve_review("r1")
    assert db.vcs.log_review(review(issues=[1])) == resolved, "a workflow that runs again"


@pytest.mark.parametrize(
    "changed",
    [{"target": "def"}, {"summary": "still no"}, {"issues": [2]}, {"blocking": False}],
)
def test_a_review_that_says_something_else_is_open_again(
    db: SmithersDB, changed: dict[str, Any]
) -> None:
    first = db.vcs.log_review(review(issues=[1]))
    db.vcs.resolve_review("r1")
    again = db.vcs.log_review({**review(issues=[1]), **changed})
    assert again.resolved_at is None
    assert again.id == first.id and again.timestamp > first.timestamp
    assert len(db.vcs.reviews()) == 1


def test_a_review_is_resolved_once(db: SmithersDB) -> None:
    with pytest.raises(NotFound) as unknown:
        db.vcs.resolve_review("r1")
    assert unknown.value.id == "r1"
    db.vcs.log_review(review())
    resolved = db.vcs.resolve_review("r1")
    with pytest.raises(InvalidStatus) as ended:
        db.vcs.resolve_review("r1")
    assert ended.value.status == "resolved"
    assert db.vcs.reviews() == [resolved]


# -- what is refused -------------------------------------------------------------------------------

OLDEST = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))


@pytest.mark.parametrize(
    ("facts", "error", "said"),
    [
        ({}, TypeError, "hash and message"),
        ({"hash": "a"}, TypeError, "message"),
        ({"hash": "a", "mesage": "x"}, TypeError, "'mesage'"),
        ({"hash": "a", "message": "x", "filesChanged": 3}, TypeError, "not 'filesChanged'"),
        ({"hash": "", "message": "x"}, ValueError, "hash"),
        ({"hash": None, "message": "x"}, TypeError, "hash"),
        ({"hash": b"a", "message": "x"}, TypeError, "hash"),
        ({"hash": "a\0", "message": "x"}, ValueError, "NUL"),
        ({"hash": "a", "message": "\ud800"}, ValueError, "surrogate"),
        ({"hash": "a", "message": None}, TypeError, "message"),
        ({"hash": "a", "message": "x", "author": 1}, TypeError, "author"),
        ({"hash": "a", "message": "x", "change_id": 1}, TypeError, "change"),
        ({"hash": "a", "message": "x", "vcs_type": "hg"}, ValueError, "'hg'"),
        ({"hash": "a", "message": "x", "vcs_type": None}, ValueError, "None"),
        ({"hash": "a", "message": "x", "vcs_type": ["git"]}, ValueError, "git"),
        ({"hash": "a", "message": "x", "insertions": -1}, ValueError, "-1"),
        ({"hash": "a", "message": "x", "deletions": 2**63}, ValueError, "deletions"),
        ({"hash": "a", "message": "x", "deletions": True}, TypeError, "True"),
        ({"hash": "a", "message": "x", "insertions": 1.0}, TypeError, "1.0"),
        ({"hash": "a", "message": "x", "files_changed": "3"}, TypeError, "'3'"),
        ({"hash": "a", "message": "x", "timestamp": 1}, TypeError, "datetime"),
        ({"hash": "a", "message": "x", "timestamp": "now"}, ValueError, "'now'"),
        ({"hash": "a", "message": "x", "timestamp": "2026-01-31T12:00"}, ValueError, "zone"),
        ({"hash": "a", "message": "x", "timestamp": OLDEST}, ValueError, "calendar"),
    ],
)
def test_a_malformed_commit_is_refused(
    db: SmithersDB, facts: dict[str, Any], error: type[Exception], said: str
) -> None:
    assert_refused(db, "log_commit", facts, error, said)


@pytest.mark.parametrize(
    ("facts", "error", "said"),
    [
        ({}, TypeError, "snapshot_id"),
        ({"snapshot_id": ""}, ValueError, "snapshot"),
        ({"snapshot_id": "s", "hash": "a"}, TypeError, "'hash'"),
        ({"snapshot_id": "s", "description": 1}, TypeError, "description"),
        ({"snapshot_id": "s", "timestamp": "yesterday"}, ValueError, "yesterday"),
    ],
)
def test_a_malformed_snapshot_is_refused(
    db: SmithersDB, facts: dict[str, Any], error: type[Exception], said: str
) -> None:
    assert_refused(db, "log_snapshot", facts, error, said)


@pytest.mark.parametrize(
    ("facts", "error", "said"),
    [
        ({"review_id": "r"}, TypeError, "target and approved and summary"),
        (review(approved="yes"), TypeError, "approved"),
        (review(approved=1), TypeError, "approved"),
        (review(approved=None), TypeError, "approved"),
        (review(blocking="no"), TypeError, "blocking"),
        (review(blocking=None), TypeError, "blocking"),
        (review(reviewer="x"), TypeError, "'reviewer'"),
        (review(""), ValueError, "review"),
        (review(target=""), ValueError, "target"),
        (review(summary=None), TypeError, "summary"),
        (review(issues="bad"), TypeError, "a list"),
        (review(issues=None), TypeError, "a list"),
        (review(issues={"a": 1}), TypeError, "a list"),
        (review(issues=[object()]), TypeError, "issues"),
        (review(issues=[float("nan")]), ValueError, "nan"),
        (review(issues=[{1: 2}]), TypeError, "issues"),
    ],
)
def test_a_malformed_review_is_refused(
    db: SmithersDB, facts: dict[str, Any], error: type[Exception], said: str
) -> None:
    assert_refused(db, "log_review", facts, error, said)


def assert_refused(
    db: SmithersDB, call: str, facts: dict[str, Any], error: type[Exception], said: str
) -> None:
    """Log facts as keywords and as one dict: both are refused, and nothing is written."""
    before = db.stats()
    log: Callable[..., Any] = getattr(db.vcs, call)
    with pytest.raises(error, match=said):
        log(**facts)
    with pytest.raises(error, match=said):
        log(facts)
    assert db.stats() == before


@pytest.mark.parametrize("call", ["log_commit", "log_snapshot", "log_review"])
def test_only_keywords_or_one_dict_are_taken(db: SmithersDB, call: str) -> None:
    log: Callable[..., Any] = getattr(db.vcs, call)
    calls: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
        ((["a", "x"],), {}),
        (("abc",), {}),
        (("abc", "x"), {}),
        (({1: 2},), {}),
        (({"hash": "a", "snapshot_id": "s"},), {"message": "x"}),
        (({},), {"message": "x"}),
    )
    for args, named in calls:
        with pytest.raises(TypeError):
            log(*args, **named)
    stats = db.stats()
    assert (stats["commits"], stats["snapshots"], stats["reviews"]) == (0, 0, 0)


@pytest.mark.parametrize("limit", [-1, "1", True, 1.5, 2**63])
@pytest.mark.parametrize("call", ["commits", "snapshots", "reviews", "blocking_reviews"])
def test_an_absurd_limit_is_refused(db: SmithersDB, call: str, limit: Any) -> None:
    with pytest.raises(ValueError, match="limit"):
        getattr(db.vcs, call)(limit=limit)


@pytest.mark.parametrize(("id", "error"), [("", ValueError), (1, TypeError), ("a\0", ValueError)])
def test_an_id_that_can_be_none_is_refused(db: SmithersDB, id: Any, error: type[Exception]) -> None:
    for call in ("commits", "snapshots", "reviews", "blocking_reviews"):
        with pytest.raises(error, match="execution"):
            getattr(db.vcs, call)(id)
        with pytest.raises(error, match="execution"):
            getattr(db.vcs, f"observe_{call}")(id)
    with pytest.raises(error, match="review"):
        db.vcs.resolve_review(id)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_any_kind_is_data(db: SmithersDB, text: str) -> None:
    commit = db.vcs.log_commit(hash=text, message=text, author=text, change_id=text)
    assert (commit.hash, commit.message, commit.author, commit.change_id) == (text,) * 4
    snapshot = db.vcs.log_snapshot(snapshot_id=text, description=text)
    assert (snapshot.snapshot_id, snapshot.description) == (text, text)
    facts = review(text, target=text, summary=text, issues=[text, {text: text}])
    assert db.vcs.log_review(facts).issues == [text, {text: text}]
    assert [one.review_id for one in db.vcs.blocking_reviews()] == [text]
    assert [*db.vcs.commits(text), *db.vcs.snapshots(text), *db.vcs.reviews(text)] == []
    assert db.vcs.resolve_review(text).summary == text
    stats = db.stats()
    assert (stats["commits"], stats["snapshots"], stats["reviews"]) == (1, 1, 1)


def test_a_read_only_database_logs_nothing(db: SmithersDB, path: Path) -> None:
    db.vcs.log_review(review())
    with create_smithers_db(path, read_only=True) as reading:
        for log in (
            lambda: reading.vcs.log_commit(hash="a", message="x"),
            lambda: reading.vcs.log_snapshot(snapshot_id="s"),
            lambda: reading.vcs.log_review(review("r2")),
            lambda: reading.vcs.resolve_review("r1"),
            lambda: reading.vcs.log_head("nowhere"),
        ):
            with pytest.raises(ReadOnly):
                log()
        assert [one.review_id for one in reading.vcs.reviews()] == ["r1"]


def test_what_is_logged_in_a_transaction_goes_with_it(db: SmithersDB) -> None:
    with pytest.raises(RuntimeError), db.transaction():
        db.vcs.log_commit(hash="a", message="x")
        db.vcs.log_review(review())
        raise RuntimeError
    assert [*db.vcs.commits(), *db.vcs.reviews()] == []


# -- the current commit ----------------------------------------------------------------------------


def test_the_current_commit_is_logged_with_its_facts(db: SmithersDB, repo: Repository) -> None:
    repo.write("a.txt", lines(3))
    hash = repo.commit("feat: begin")
    id = db.execution.start("run")
    logged = db.vcs.log_head(repo.place)
    assert db.vcs.commits(id) == [logged]
    assert logged == Commit(
        id=logged.id,
        execution_id=id,
        agent_id=None,
        vcs_type="git",
        hash=hash,
        change_id=None,
        message="feat: begin",
        author="Ada <ada@example.org>",
        timestamp=NOON,
        files_changed=1,
        insertions=3,
        deletions=0,
    )
    assert db.vcs.log_head(str(repo.place)) == logged
    assert len(db.vcs.commits()) == 1


def test_a_commit_logged_by_hand_is_completed_by_the_tool(db: SmithersDB, repo: Repository) -> None:
    repo.write("a.txt", lines(3))
    hash = repo.commit("feat: begin")
    first = db.vcs.log_commit(hash=hash, message="begin", author="claude")
    logged = db.vcs.log_head(repo.place)
    assert logged.id == first.id and logged.insertions == 3
    assert (logged.message, logged.author) == ("feat: begin", "Ada <ada@example.org>")


def test_a_commit_that_cannot_be_read_logs_nothing(db: SmithersDB, repo: Repository) -> None:
    with pytest.raises(RepositoryError):
        db.vcs.log_head(repo.place)
    assert db.vcs.commits() == []


# -- observing -------------------------------------------------------------------------------------


def test_observers_follow_what_is_logged(db: SmithersDB) -> None:
    id = db.execution.start("run")
    commits: Recorder[list[Commit]] = Recorder()
    snapshots: Recorder[list[Snapshot]] = Recorder()
    reviews: Recorder[list[Review]] = Recorder()
    blocking: Recorder[list[Review]] = Recorder()
    other: Recorder[list[Commit]] = Recorder()
    db.vcs.observe_commits(id).subscribe(commits)
    db.vcs.observe_snapshots().subscribe(snapshots)
    db.vcs.observe_reviews(id).subscribe(reviews)
    db.vcs.observe_blocking_reviews().subscribe(blocking)
    db.vcs.observe_commits("another").subscribe(other)
    commit = db.vcs.log_commit(hash="a", message="x")
    snapshot = db.vcs.log_snapshot(snapshot_id="s")
    first = db.vcs.log_review(review())
    db.vcs.log_review(review())
    resolved = db.vcs.resolve_review("r1")
    assert commits.values == [[], [commit]]
    assert snapshots.values == [[], [snapshot]]
    assert reviews.values == [[], [first], [resolved]], "what says nothing new tells nobody"
    assert blocking.values == [[], [first], []]
    assert other.values == [[]]


def test_an_observer_sees_what_another_handle_logs(
    db: SmithersDB, elsewhere: SmithersDB, recorder: Recorder[list[Review]]
) -> None:
    db.vcs.observe_blocking_reviews().subscribe(recorder)
    logged = elsewhere.vcs.log_review(review())
    recorder.wait_for(lambda value: value == [logged])


# -- asyncio ---------------------------------------------------------------------------------------


async def test_every_call_can_be_awaited(adb: AsyncSmithersDB, repo: Repository) -> None:
    id = await adb.execution.start("run")
    commit = await adb.vcs.log_commit(hash="a", message="x", timestamp=NOON)
    assert commit == await adb.vcs.log_commit({"hash": "a", "message": "x"})
    snapshot = await adb.vcs.log_snapshot({"snapshot_id": "s"})
    blocking = await adb.vcs.log_review(review())
    assert {commit.execution_id, snapshot.execution_id, blocking.execution_id} == {id}
    assert await adb.vcs.snapshots() == [snapshot]
    assert await adb.vcs.blocking_reviews(id, limit=1) == [blocking]
    resolved = await adb.vcs.resolve_review("r1")
    assert await adb.vcs.reviews() == [resolved]
    repo.commit("feat: begin")
    head = await adb.vcs.log_head(repo.place)
    assert (head.message, head.execution_id) == ("feat: begin", id)
    assert await adb.vcs.commits() == [commit, head]


async def test_awaited_mistakes_are_the_same_mistakes(adb: AsyncSmithersDB, tmp_path: Path) -> None:
    call: Any = adb.vcs.log_commit
    for wrong in (call(hash="a"), call({"hash": "a"}, message="x"), call(), call({"x": 1})):
        with pytest.raises(TypeError):
            await wrong
    with pytest.raises(ValueError):
        await adb.vcs.log_review(review(""))
    with pytest.raises(NotFound):
        await adb.vcs.resolve_review("r1")
    with pytest.raises(RepositoryError):
        await adb.vcs.log_head(tmp_path / "nowhere")
    assert [*await adb.vcs.commits(), *await adb.vcs.reviews()] == []


async def test_each_task_logs_below_its_own_agent(adb: AsyncSmithersDB) -> None:
    await adb.execution.start("run")

    async def work(number: int) -> tuple[str, Commit]:
        async with adb.agents.open(f"agent {number}") as agent:
            return agent, await adb.vcs.log_commit(hash=str(number), message="x")

    for agent, commit in await asyncio.gather(*map(work, range(16))):
        assert commit.agent_id == agent


async def test_observers_are_told_on_the_loop(
    adb: AsyncSmithersDB, recorder: Recorder[list[Commit]]
) -> None:
    adb.vcs.observe_commits().subscribe(recorder)
    assert await adb.vcs.observe_snapshots() == []
    logged = await adb.vcs.log_commit(hash="a", message="x")
    assert recorder.values == [[], [logged]]
    blocking = await adb.vcs.log_review(review())
    assert await adb.vcs.observe_reviews() == [blocking]
    assert await adb.vcs.observe_blocking_reviews() == [blocking]


def test_an_agent_that_another_program_has_deleted_is_passed_over(
    db: SmithersDB, shell: Callable[[str], str]
) -> None:
    execution_id = db.execution.start("Feature")
    outer, _ = db.agents.start("outer"), db.agents.start("deleted")
    shell("DELETE FROM agents WHERE prompt = 'deleted'")
    logged = (
        db.vcs.log_commit(hash="a", message="x"),
        db.vcs.log_review(review_id="r", target="a", approved=True, summary="fine"),
    )
    assert [(one.execution_id, one.agent_id) for one in logged] == [(execution_id, outer)] * 2


def test_a_thread_logs_below_the_agent_of_its_own_context(db: SmithersDB) -> None:
    db.execution.start("run")
    with db.agents.open("outer") as agent:
        inherited = contextvars.copy_context()
    assert inherited.run(db.vcs.log_commit, {"hash": "a", "message": "x"}).agent_id is None, (
        f"{agent} has ended, though the context still knows it"
    )


@pytest.mark.parametrize("stored", ["1.5", '"text"', "{}", "null"])
def test_issues_that_another_program_has_made_no_list_are_an_error_that_names_them(
    db: SmithersDB, stored: str
) -> None:
    db.vcs.log_review(review_id="r", target="main", approved=True, summary="fine")
    db.query("UPDATE reviews SET issues = ?", [stored], write=True)
    with pytest.raises(StateTypeError, match="issues"):
        db.vcs.reviews()
