"""Commits and snapshots of the working copy, logged during a workflow."""

from __future__ import annotations

import builtins
import dataclasses
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any, overload

from reactive_sqlite.arguments import is_one_of, shown
from reactive_sqlite.observation import ObservableQuery
from smithers.clock import to_text
from smithers.codec import check_text
from smithers.ids import new_id
from smithers.logged import count_or_none, given, logged_below, text_or_none, time_or_none, written
from smithers.records import Commit, Snapshot
from smithers.repositories import read_head
from smithers.rows import Rows, moment
from smithers.workspace import Workspace

VCS_TYPES = ("git", "jj")
_COMMIT = """id, execution_id, agent_id, vcs_type, hash, change_id, message, author, timestamp,
    files_changed, insertions, deletions"""
_SNAPSHOT = "id, execution_id, snapshot_id, description, timestamp"
# What is logged again keeps its id, its execution and its agent, and what is not said again.
# Named, not numbered: CPython 3.12 before 3.12.4 takes `?1` for a name, and warns.
_LOG_COMMIT = """
    INSERT INTO commits (
        id, execution_id, agent_id, vcs_type, hash, change_id, message, author, timestamp,
        files_changed, insertions, deletions
    ) VALUES (
        :id, :execution_id, :agent_id, :vcs_type, :hash, :change_id, :message, :author,
        coalesce(:timestamp, :now), :files_changed, :insertions, :deletions
    )
    ON CONFLICT (vcs_type, hash) DO UPDATE SET
        change_id = coalesce(excluded.change_id, change_id), message = excluded.message,
        author = coalesce(excluded.author, author), timestamp = coalesce(:timestamp, timestamp),
        files_changed = coalesce(excluded.files_changed, files_changed),
        insertions = coalesce(excluded.insertions, insertions),
        deletions = coalesce(excluded.deletions, deletions)
"""
_LOG_SNAPSHOT = """
    INSERT INTO snapshots (id, execution_id, snapshot_id, description, timestamp)
    VALUES (:id, :execution_id, :snapshot_id, :description, coalesce(:timestamp, :now))
    ON CONFLICT (snapshot_id) DO UPDATE SET
        description = coalesce(excluded.description, description),
        timestamp = coalesce(:timestamp, timestamp)
"""

_COMMIT_KEYS = (
    *("hash", "message", "author", "timestamp", "files_changed", "insertions", "deletions"),
    *("vcs_type", "change_id"),
)
_SNAPSHOT_KEYS = ("snapshot_id", "description", "timestamp")


class Commits:
    """Commits and snapshots, each below the execution and the agent that logged it first.

    Where no execution runs they stand below none. Logging takes keywords, or one dict with those
    keys. A time is a datetime (without a zone: local time) or ISO-8601 text with a zone; left out,
    it is now. Lists are in the order of the first logging, with a limit the newest ones in it.

    Raises TypeError for keys and types that are not these, ValueError for values that make no
    sense, OwnershipLost where this run has lost the execution; nothing is written then.

    >>> db.vcs.log_commit(hash="abc123", message="feat: add user auth", files_changed=3)
    Commit(id=..., vcs_type='git', hash='abc123', ...)
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._database = workspace.database
        commits = (workspace, "commit", "commits", _COMMIT, _commit)
        snapshots = (workspace, "snapshot", "snapshots", _SNAPSHOT, _snapshot)
        self._commits, self._snapshots = Rows(*commits), Rows(*snapshots)

    @overload
    def log_commit(
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
    def log_commit(self, facts: Mapping[str, Any], /) -> Commit: ...
    def log_commit(self, facts: Mapping[str, Any] | None = None, /, **named: Any) -> Commit:
        """Log a commit: `hash` and `message`, and what else is known of it.

        That is `author`, `timestamp`, `files_changed`, `insertions`, `deletions`, `vcs_type` (git
        or jj; git when left out) and `change_id`. The same hash logged again updates the commit
        with what is said now; it stays below its execution and its agent.

        >>> db.vcs.log_commit(hash="abc123", message="feat: add user auth", insertions=150)
        Commit(id=..., hash='abc123', ...)
        """
        taken = given("log_commit", facts, named, keys=_COMMIT_KEYS, needed=2)
        vcs_type, hash = taken.get("vcs_type", "git"), taken["hash"]
        if not is_one_of(vcs_type, VCS_TYPES):
            raise ValueError(
                f"the vcs_type of a commit is one of {VCS_TYPES}, not {shown(vcs_type)}"
            )
        check_text(hash, "the hash of a commit")
        check_text(taken["message"], "the message of a commit", empty=True)
        change_id = text_or_none(taken.get("change_id"), "the change id of a commit")
        author = text_or_none(taken.get("author"), "the author of a commit")
        timestamp = time_or_none(taken.get("timestamp"), "the timestamp of a commit")
        numbers = {
            name: count_or_none(taken.get(name), f"`{name}` of a commit")
            for name in ("files_changed", "insertions", "deletions")
        }
        self._workspace.check_writable(f"log commit {shown(hash)}")
        id, now = new_id(), to_text(self._workspace.now())
        where = {"vcs_type": vcs_type, "hash": hash}
        with self._database.transaction():
            execution_id, agent_id = logged_below(self._workspace, self._commits.first(where))
            values = {"id": id, "execution_id": execution_id, "agent_id": agent_id} | where
            values |= {"change_id": change_id, "message": taken["message"], "author": author}
            values |= {"timestamp": timestamp, "now": now} | numbers
            self._database.conn.execute(_LOG_COMMIT, values)
            return written(self._commits.first(where))

    def log_head(self, repo: str | os.PathLike[str] = ".") -> Commit:
        """Log the current commit of a repository, as git (or jj) itself tells it.

        `repo` is the repository or any directory in it. The numbers of a merge are those against
        its first parent, a renamed file counts once, lines of binary files do not count; they are
        None at the boundary of a shallow clone and in a partial one that lacks the files. Nothing
        that the repository's configuration or hooks name is run, and nothing is fetched. The author
        is `Name <email>`. In jj the current commit is the working-copy commit as of the last jj
        command, or its parent while that one is empty and has no description.

        Raises RepositoryError: no repository, no commit yet, git or jj missing or failing.

        >>> db.vcs.log_head().hash
        '4b825dc642cb6eb9a060e54bf8d69288fbee4904'
        """
        self._workspace.check_writable("log the current commit")
        return self.log_commit(dataclasses.asdict(read_head(repo)))

    @overload
    def log_snapshot(
        self,
        /,
        *,
        snapshot_id: str,
        description: str | None = None,
        timestamp: datetime | str | None = None,
    ) -> Snapshot: ...
    @overload
    def log_snapshot(self, facts: Mapping[str, Any], /) -> Snapshot: ...
    def log_snapshot(self, facts: Mapping[str, Any] | None = None, /, **named: Any) -> Snapshot:
        """Log a snapshot of the working copy: `snapshot_id`, `description` and `timestamp`.

        The same snapshot_id logged again updates the snapshot with what is said now.

        >>> db.vcs.log_snapshot(snapshot_id="xyz789", description="Before refactoring")
        Snapshot(id=..., snapshot_id='xyz789', ...)
        """
        taken = given("log_snapshot", facts, named, keys=_SNAPSHOT_KEYS, needed=1)
        snapshot_id = taken["snapshot_id"]
        check_text(snapshot_id, "the id of a snapshot")
        description = text_or_none(taken.get("description"), "the description of a snapshot")
        timestamp = time_or_none(taken.get("timestamp"), "the timestamp of a snapshot")
        self._workspace.check_writable(f"log snapshot {shown(snapshot_id)}")
        id, now = new_id(), to_text(self._workspace.now())
        where = {"snapshot_id": snapshot_id}
        with self._database.transaction():
            execution_id, _ = logged_below(self._workspace, self._snapshots.first(where))
            values = {"id": id, "execution_id": execution_id, "description": description}
            values |= {"timestamp": timestamp, "now": now} | where
            self._database.conn.execute(_LOG_SNAPSHOT, values)
            return written(self._snapshots.first(where))

    def commits(
        self, execution_id: str | None = None, *, limit: int | None = None
    ) -> builtins.list[Commit]:
        """List commits in the order they were logged first; with `limit` the newest ones.

        >>> [commit.message for commit in db.vcs.commits()]
        ['feat: add user auth']
        """
        return self._commits.list(_of(execution_id), limit=limit)

    def snapshots(
        self, execution_id: str | None = None, *, limit: int | None = None
    ) -> builtins.list[Snapshot]:
        """List snapshots in the order they were logged first; with `limit` the newest ones.

        >>> [snapshot.description for snapshot in db.vcs.snapshots()]
        ['Before refactoring']
        """
        return self._snapshots.list(_of(execution_id), limit=limit)

    def observe_commits(
        self, execution_id: str | None = None
    ) -> ObservableQuery[builtins.list[Commit]]:
        """Observe what `commits` gives.

        >>> db.vcs.observe_commits().subscribe(print)
        """
        return self._commits.observe(_of(execution_id))

    def observe_snapshots(
        self, execution_id: str | None = None
    ) -> ObservableQuery[builtins.list[Snapshot]]:
        """Observe what `snapshots` gives.

        >>> db.vcs.observe_snapshots().subscribe(print)
        """
        return self._snapshots.observe(_of(execution_id))


def _of(execution_id: str | None) -> dict[str, str]:
    if execution_id is None:
        return {}
    check_text(execution_id, "the id of an execution")
    return {"execution_id": execution_id}


def _commit(
    id: str,
    execution_id: str | None,
    agent_id: str | None,
    vcs_type: str,
    hash: str,
    change_id: str | None,
    message: str,
    author: str | None,
    timestamp: str,
    files_changed: int | None,
    insertions: int | None,
    deletions: int | None,
) -> Commit:
    return Commit(
        id=id,
        execution_id=execution_id,
        agent_id=agent_id,
        vcs_type=vcs_type,
        hash=hash,
        change_id=change_id,
        message=message,
        author=author,
        timestamp=moment(timestamp),
        files_changed=files_changed,
        insertions=insertions,
        deletions=deletions,
    )


def _snapshot(
    id: str, execution_id: str | None, snapshot_id: str, description: str | None, timestamp: str
) -> Snapshot:
    return Snapshot(
        id=id,
        execution_id=execution_id,
        snapshot_id=snapshot_id,
        description=description,
        timestamp=moment(timestamp),
    )
