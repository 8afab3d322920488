"""Reviews of commits or of anything else, and which of them block."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any, overload

from reactive_sqlite.arguments import shown
from reactive_sqlite.observation import ObservableQuery
from smithers.clock import to_text
from smithers.codec import check_text
from smithers.errors import InvalidStatus, NotFound
from smithers.ids import new_id
from smithers.logged import flag, given, json_list, logged_below, written
from smithers.records import Review
from smithers.rows import Rows, json_or_none, moment, moment_or_none
from smithers.workspace import Workspace

_REVIEW = """id, execution_id, agent_id, review_id, target, approved, blocking, resolved_at,
    summary, issues, timestamp"""
_BLOCKING = "(SELECT * FROM reviews WHERE blocking = 1 AND approved = 0 AND resolved_at IS NULL)"
# A review that says something else than before is one of now, and open again.
_LOG_REVIEW = """
    INSERT INTO reviews (
        id, execution_id, agent_id, review_id, target, approved, blocking, summary, issues,
        timestamp
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (review_id) DO UPDATE SET
        target = excluded.target, approved = excluded.approved, blocking = excluded.blocking,
        summary = excluded.summary, issues = excluded.issues, timestamp = excluded.timestamp,
        resolved_at = NULL
    WHERE (target, approved, blocking, summary, issues) IS NOT (
        excluded.target, excluded.approved, excluded.blocking, excluded.summary, excluded.issues
    )
"""
_RESOLVE = "UPDATE reviews SET resolved_at = ? WHERE review_id = ?"

_KEYS = ("review_id", "target", "approved", "summary", "issues", "blocking")


class Reviews:
    """Reviews, each below the execution and the agent that logged it first.

    Where no execution runs they stand below none. Lists are in the order of the first logging, with
    a limit the newest ones in it. What is malformed raises TypeError or ValueError, a run that has
    lost the execution OwnershipLost, and nothing is written then.

    >>> [review.issues for review in db.vcs.blocking_reviews()]
    [[{'severity': 'high', 'file': 'auth.py'}]]
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._database = workspace.database
        reviews = (workspace, "review", "reviews", _REVIEW, _review)
        self._reviews, self._blocking = Rows(*reviews), Rows(*reviews, source=_BLOCKING)

    @overload
    def log_review(
        self,
        /,
        *,
        review_id: str,
        target: str,
        approved: bool,
        summary: str,
        issues: Sequence[Any] = (),
        blocking: bool = False,
    ) -> Review: ...
    @overload
    def log_review(self, facts: Mapping[str, Any], /) -> Review: ...
    def log_review(self, facts: Mapping[str, Any] | None = None, /, **named: Any) -> Review:
        """Log a review: `review_id`, `target`, `approved`, `summary`, `issues` and `blocking`.

        `target` names what was reviewed, a commit or anything else; `issues` is a list of any JSON.
        A blocking review blocks until it is approved or resolved. The same review_id logged again
        replaces what it said; when it says something else, it is open again.

        >>> db.vcs.log_review(
        ...     review_id="r1", target="abc123", approved=False, blocking=True,
        ...     summary="Security issues found", issues=[{"severity": "high", "file": "auth.py"}],
        ... )
        Review(id=..., review_id='r1', ...)
        """
        taken = given("log_review", facts, named, keys=_KEYS, needed=4)
        review_id, target, summary = taken["review_id"], taken["target"], taken["summary"]
        check_text(review_id, "the id of a review")
        check_text(target, f"the target of review {shown(review_id)}")
        check_text(summary, f"the summary of review {shown(review_id)}", empty=True)
        approved = flag(taken["approved"], f"`approved` of review {shown(review_id)}")
        blocking = flag(taken.get("blocking", False), f"`blocking` of review {shown(review_id)}")
        issues = json_list(taken.get("issues", ()), f"the issues of review {shown(review_id)}")
        self._workspace.check_writable(f"log review {shown(review_id)}")
        id, now = new_id(), to_text(self._workspace.now())
        where = {"review_id": review_id}
        with self._database.transaction():
            below = logged_below(self._workspace, self._reviews.first(where))
            values = (id, *below, review_id, target, approved, blocking, summary, issues, now)
            self._database.conn.execute(_LOG_REVIEW, values)
            return written(self._reviews.first(where))

    def resolve_review(self, review_id: str) -> Review:
        """Mark a review as resolved, so that it blocks no longer.

        Raises NotFound for an unknown id, InvalidStatus for a resolved one.

        >>> db.vcs.resolve_review("r1").resolved_at
        datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.timezone.utc)
        """
        check_text(review_id, "the id of a review")
        self._workspace.check_writable(f"resolve review {shown(review_id)}")
        where = {"review_id": review_id}
        with self._database.transaction():
            found = self._reviews.first(where)
            if found is None:
                raise NotFound("review", review_id)
            logged_below(self._workspace, found)
            if found.resolved_at is not None:
                raise InvalidStatus("review", review_id, "resolved", "resolve")
            self._database.conn.execute(_RESOLVE, (to_text(self._workspace.now()), review_id))
            return written(self._reviews.first(where))

    def reviews(
        self, execution_id: str | None = None, *, limit: int | None = None
    ) -> builtins.list[Review]:
        """List reviews in the order they were logged first; with `limit` the newest ones.

        >>> [review.approved for review in db.vcs.reviews()]
        [False]
        """
        return self._reviews.list(_of(execution_id), limit=limit)

    def blocking_reviews(
        self, execution_id: str | None = None, *, limit: int | None = None
    ) -> builtins.list[Review]:
        """List the reviews that block: blocking, not approved, not resolved.

        In the order they were logged first; with `limit` the newest ones.

        >>> db.vcs.blocking_reviews()[0].summary
        'Security issues found'
        """
        return self._blocking.list(_of(execution_id), limit=limit)

    def observe_reviews(
        self, execution_id: str | None = None
    ) -> ObservableQuery[builtins.list[Review]]:
        """Observe what `reviews` gives.

        >>> db.vcs.observe_reviews().subscribe(print)
        """
        return self._reviews.observe(_of(execution_id))

    def observe_blocking_reviews(
        self, execution_id: str | None = None
    ) -> ObservableQuery[builtins.list[Review]]:
        """Observe what `blocking_reviews` gives.

        >>> db.vcs.observe_blocking_reviews().subscribe(lambda reviews: print(len(reviews)))
        """
        return self._blocking.observe(_of(execution_id))


def _of(execution_id: str | None) -> dict[str, str]:
    if execution_id is None:
        return {}
    check_text(execution_id, "the id of an execution")
    return {"execution_id": execution_id}


def _review(
    id: str,
    execution_id: str | None,
    agent_id: str | None,
    review_id: str,
    target: str,
    approved: int,
    blocking: int,
    resolved_at: str | None,
    summary: str,
    issues: str,
    timestamp: str,
) -> Review:
    return Review(
        id=id,
        execution_id=execution_id,
        agent_id=agent_id,
        review_id=review_id,
        target=target,
        approved=bool(approved),
        blocking=bool(blocking),
        resolved_at=moment_or_none(resolved_at),
        summary=summary,
        issues=json_or_none(issues, f"the issues of review {shown(review_id)}"),
        timestamp=moment(timestamp),
    )
