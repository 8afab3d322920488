"""`db.vcs`, awaited; git and jj are asked on a thread of their own."""

from __future__ import annotations

import asyncio
import builtins
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, overload

from reactive_sqlite.asyncquery import AsyncObservableQuery
from reactive_sqlite.face import AsyncFace, awaited
from smithers.aio.twins import twin
from smithers.db import Vcs
from smithers.records import Commit, Review, Snapshot
from smithers.repositories import read_head


class AsyncVcs(AsyncFace[Vcs]):
    """`db.vcs` of an asynchronous database. See `Commits` and `Reviews`."""

    resolve_review = awaited(Vcs.resolve_review)
    commits = awaited(Vcs.commits)
    snapshots = awaited(Vcs.snapshots)
    reviews = awaited(Vcs.reviews)
    blocking_reviews = awaited(Vcs.blocking_reviews)

    @overload
    async def log_commit(
        self,
        /,
        *,
        hash: str,
        message: str,
        author: str | None = None,
        timestamp: datetime | str | None = None,
        files_changed: int | None = None,
        insertions: int | None = None,
        deletions: int | None = None,
        vcs_type: str = "git",
        change_id: str | None = None,
    ) -> Commit: ...
    @overload
    async def log_commit(self, facts: Mapping[str, Any], /) -> Commit: ...
    @twin(Vcs.log_commit)
    async def log_commit(self, facts: Mapping[str, Any] | None = None, /, **named: Any) -> Commit:
        log: Callable[..., Commit] = self._sync.log_commit
        return await self._worker.run(log, facts, **named)

    @twin(Vcs.log_head)
    async def log_head(self, repo: str | os.PathLike[str] = ".") -> Commit:
        # Not on the worker: while git works, other calls go on.
        head = await asyncio.to_thread(read_head, repo)
        return await self.log_commit(dataclasses.asdict(head))

    @overload
    async def log_snapshot(
        self,
        /,
        *,
        snapshot_id: str,
        description: str | None = None,
        timestamp: datetime | str | None = None,
    ) -> Snapshot: ...
    @overload
    async def log_snapshot(self, facts: Mapping[str, Any], /) -> Snapshot: ...
    @twin(Vcs.log_snapshot)
    async def log_snapshot(
        self, facts: Mapping[str, Any] | None = None, /, **named: Any
    ) -> Snapshot:
        log: Callable[..., Snapshot] = self._sync.log_snapshot
        return await self._worker.run(log, facts, **named)

    @overload
    async def log_review(
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
    async def log_review(self, facts: Mapping[str, Any], /) -> Review: ...
    @twin(Vcs.log_review)
    async def log_review(self, facts: Mapping[str, Any] | None = None, /, **named: Any) -> Review:
        log: Callable[..., Review] = self._sync.log_review
        return await self._worker.run(log, facts, **named)

    @twin(Vcs.observe_commits)
    def observe_commits(
        self, execution_id: str | None = None
    ) -> AsyncObservableQuery[builtins.list[Commit]]:
        return AsyncObservableQuery(self._worker, lambda: self._sync.observe_commits(execution_id))

    @twin(Vcs.observe_snapshots)
    def observe_snapshots(
        self, execution_id: str | None = None
    ) -> AsyncObservableQuery[builtins.list[Snapshot]]:
        return AsyncObservableQuery(
            self._worker, lambda: self._sync.observe_snapshots(execution_id)
        )

    @twin(Vcs.observe_reviews)
    def observe_reviews(
        self, execution_id: str | None = None
    ) -> AsyncObservableQuery[builtins.list[Review]]:
        return AsyncObservableQuery(self._worker, lambda: self._sync.observe_reviews(execution_id))

    @twin(Vcs.observe_blocking_reviews)
    def observe_blocking_reviews(
        self, execution_id: str | None = None
    ) -> AsyncObservableQuery[builtins.list[Review]]:
        return AsyncObservableQuery(
            self._worker, lambda: self._sync.observe_blocking_reviews(execution_id)
        )
