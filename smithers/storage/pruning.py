"""Removing what is old: ended executions, history, expired memories; and starting afresh."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reactive_sqlite.arguments import shown
from reactive_sqlite.dialect import locked_elsewhere, quote, sqlite3
from smithers.clock import to_text
from smithers.errors import InTransaction
from smithers.records import Pruned
from smithers.schema import INTERNAL_TABLES, TABLES
from smithers.workspace import Workspace

# Rows removed in one transaction, more or less; between two of them others may write.
_BATCH = 5_000
_PAUSE = 0.01
# Part of the file that has to be free before all of it is written anew; what of it, in bytes, is
# written so fast that a workflow at work does not notice.
_FREE = 0.1
_FAST = 64 * 2**20
# Milliseconds that other programs are waited for then: whoever wants to write waits as well.
_PATIENCE = 200

# An execution that is running, interrupted or owned is none of these, nor one below which
# something runs.
_ENDED = """
    status IN ('completed', 'failed', 'cancelled')
    AND NOT EXISTS (SELECT 1 FROM _smithers_leases WHERE execution_id = executions.id)
""" + "".join(
    f"""AND NOT EXISTS (
        SELECT 1 FROM {table} WHERE execution_id = executions.id AND status = 'running'
    )
    """
    for table in ("phases", "steps", "agents", "tool_calls")
)
# What has ended by a clock that was set back is no older than its beginning.
_LAST = "max(started_at, completed_at)"
_DOOMED = f"""
    SELECT seq, 1 + total_agents + total_tool_calls FROM executions
    WHERE {_ENDED} AND (:before IS NULL OR {_LAST} < :before)
    AND (:keep IS NULL OR seq NOT IN (
        SELECT seq FROM executions WHERE status IN ('completed', 'failed', 'cancelled')
        ORDER BY seq DESC LIMIT :keep
    ))
    ORDER BY seq
"""
# An agent of no execution.
_LOOSE = """
    execution_id IS NULL AND status <> 'running' AND NOT EXISTS (
        SELECT 1 FROM tool_calls WHERE agent_id = agents.id AND status = 'running'
    )
"""
_DOOMED_AGENTS = f"""
    SELECT seq, 1 FROM agents WHERE {_LOOSE} AND {_LAST} < :before ORDER BY seq
"""
_STILL = "SELECT seq FROM {} WHERE seq IN (SELECT value FROM json_each(?)) AND {}"
_STILL_EXECUTIONS = _STILL.format("executions", _ENDED)
_STILL_AGENTS = _STILL.format("agents", _LOOSE)
_CASCADES = """
    SELECT "table", "from" FROM pragma_foreign_key_list(?) WHERE on_delete = 'CASCADE'
"""
_LISTED = "seq IN (SELECT value FROM json_each(:{}))"
_DELETE = "DELETE FROM {} WHERE seq IN (SELECT value FROM json_each(?))"

# The last transition before the commit of the first one that stays.
_HORIZON = """
    WITH kept AS (
        SELECT seq, "commit" FROM transitions WHERE timestamp >= :before ORDER BY seq LIMIT 1
    )
    SELECT CASE WHEN EXISTS (SELECT 1 FROM kept) THEN (
        SELECT seq FROM transitions WHERE seq < (SELECT seq FROM kept)
        AND "commit" <> (SELECT "commit" FROM kept) ORDER BY seq DESC LIMIT 1
    ) ELSE (SELECT max(seq) FROM transitions) END
"""
# The last transition before the commit of the first one that a trigger has still to handle.
_NEEDED = """
    SELECT min("commit") - 1 FROM transitions WHERE seq IN (
        SELECT (
            SELECT min(seq) FROM transitions AS change
            WHERE change.key = triggers.key AND change.seq > triggers.cursor
        ) FROM _smithers_triggers AS triggers WHERE triggers.key IS NOT NULL
    )
"""
_COUNT_TRANSITIONS = "SELECT count(*) FROM transitions WHERE seq <= ?"
# Other programs write times in other ways, and with offsets.
_EXPIRED = "FROM memories WHERE julianday(expires_at) < julianday(?)"
_COUNT_EXPIRED = f"SELECT count(*) {_EXPIRED}"
# Where a batch ends that begins with the oldest transition: at the end of a commit.
_BATCH_END = """
    WITH last AS (
        SELECT seq, "commit" FROM transitions WHERE seq <= :horizon
        ORDER BY seq LIMIT 1 OFFSET :batch
    )
    SELECT coalesce((
        SELECT seq - 1 FROM transitions WHERE seq > (SELECT seq FROM last)
        AND "commit" <> (SELECT "commit" FROM last) AND seq <= :horizon ORDER BY seq LIMIT 1
    ), :horizon)
"""
# Along the table: the index by key would lead through all of history.
_NEWEST = """
    SELECT key, value, deleted, timestamp, max(seq) AS seq FROM transitions NOT INDEXED
    WHERE seq <= :horizon GROUP BY key
"""
_FOLD = f"""
    INSERT INTO _smithers_baseline (key, value, seq, timestamp)
    SELECT key, value, seq, timestamp FROM ({_NEWEST}) WHERE deleted = 0
    ON CONFLICT (key) DO UPDATE
    SET value = excluded.value, seq = excluded.seq, timestamp = excluded.timestamp
"""
_FORGET = f"""
    DELETE FROM _smithers_baseline
    WHERE key IN (SELECT key FROM ({_NEWEST}) WHERE deleted = 1)
"""
_DELETE_TRANSITIONS = "DELETE FROM transitions WHERE seq <= ?"
_SET_PRUNED = """
    UPDATE _smithers_meta SET value = max(CAST(value AS INTEGER), ?) WHERE name = 'pruned'
"""
_ALL_PRUNED = """
    UPDATE _smithers_meta SET value = coalesce(
        (SELECT seq FROM sqlite_sequence WHERE name = 'transitions'), 0
    ) WHERE name = 'pruned'
"""
_DELETE_EXPIRED = f"DELETE {_EXPIRED}"
_SILENCE = "INSERT INTO _smithers_meta (name, value) VALUES ('loading', '1')"
_SPEAK = "DELETE FROM _smithers_meta WHERE name = 'loading'"
_PAGES = "SELECT * FROM pragma_page_count, pragma_freelist_count, pragma_page_size"


class Pruning:
    """Remove what is old, and nothing that is still needed."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._database = workspace.database

    def prune(
        self,
        *,
        before: datetime | timedelta | None = None,
        keep_executions: int | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        """Remove what is old; `SmithersDB.prune` is its public face."""
        limit = self._limit(before)
        if keep_executions is not None:
            _check_count(keep_executions)
        if limit is None and keep_executions is None:
            raise ValueError("say what to prune: before, keep_executions or both")
        if not dry_run:
            self._workspace.check_writable("prune")
        if not self._database.closed and self._database.conn.owned_here():
            raise InTransaction("prune")
        plan = self._plan(limit, keep_executions)
        if dry_run:
            return Pruned(self._foreseen(plan), None)
        size = self._size()
        rows = self._count([], [])
        for batch in _batches(plan.executions):
            rows.update(self._remove(batch, []))
        for batch in _batches(plan.agents):
            rows.update(self._remove([], batch))
        while plan.horizon is not None and self._remove_history(plan.horizon, rows):
            time.sleep(_PAUSE)
        if plan.before is not None:
            removed = self._database.conn.execute(_DELETE_EXPIRED, (plan.before,)).rowcount
            rows["memories"] += removed
        self._give_back()
        return Pruned(dict(rows), max(0, size - self._size()))

    def clear(self) -> None:
        """Remove every row of this package's tables; `create_smithers_db(reset=True)` does that.

        Numbers of transitions go on where they were. Raises ExecutionBusy while a live run owns
        an execution.
        """
        self._workspace.check_writable("reset the database")
        execute = self._database.conn.execute
        with self._database.transaction():
            self._workspace.ownership.refuse_live()
            execute(_SILENCE)
            for table in (*TABLES, *INTERNAL_TABLES):
                execute(f"DELETE FROM {quote(table)}")
            execute(_SPEAK)
            execute(_ALL_PRUNED)

    def _limit(self, before: object) -> str | None:
        """Write the time before which everything is old as the tables do."""
        if before is None:
            return None
        if not isinstance(before, timedelta | datetime):
            raise TypeError(f"before is a datetime or a timedelta, not {shown(before)}")
        if isinstance(before, timedelta) and before < timedelta(0):
            raise ValueError(f"before, an age, is not negative: {shown(before)}")
        if isinstance(before, datetime) and before.utcoffset() is None:
            raise ValueError(f"before, a time, needs a time zone: {shown(before)}")
        try:
            now = self._workspace.now()
            return to_text(now - before if isinstance(before, timedelta) else before)
        except OverflowError:
            raise ValueError(f"before is no time that there is in UTC: {shown(before)}") from None

    def _plan(self, before: str | None, keep: int | None) -> _Plan:
        execute = self._database.conn.execute
        executions = execute(_DOOMED, {"before": before, "keep": keep}).fetchall()
        if before is None:
            return _Plan(None, executions, [], None)
        agents = execute(_DOOMED_AGENTS, {"before": before}).fetchall()
        (horizon,) = execute(_HORIZON, {"before": before}).fetchone()
        (needed,) = execute(_NEEDED).fetchone()
        if horizon is not None and needed is not None:
            horizon = min(horizon, needed)
        # Not what is to expire yet, whatever time was given.
        return _Plan(min(before, to_text(self._workspace.now())), executions, agents, horizon)

    def _foreseen(self, plan: _Plan) -> dict[str, int]:
        execute = self._database.conn.execute
        rows = self._count([seq for seq, _ in plan.executions], [seq for seq, _ in plan.agents])
        if plan.horizon is not None:
            rows["transitions"] = execute(_COUNT_TRANSITIONS, (plan.horizon,)).fetchone()[0]
        if plan.before is not None:
            rows["memories"] = execute(_COUNT_EXPIRED, (plan.before,)).fetchone()[0]
        return dict(rows)

    def _count(self, executions: Sequence[int], agents: Sequence[int]) -> Counter[str]:
        """Count what goes with executions and agents, as the foreign keys say."""
        gone: dict[str, str] = {}
        for table in TABLES:
            ways = [
                f"{quote(column)} IN {quote('gone_' + parent)}"
                for parent, column in self._database.conn.execute(_CASCADES, (table,)).fetchall()
                if parent in gone
            ]
            if table in ("executions", "agents"):
                ways.append(_LISTED.format(table))
            if ways:
                gone[table] = f"SELECT id FROM {quote(table)} WHERE {' OR '.join(ways)}"
        steps = ", ".join(f"{quote('gone_' + table)} AS ({sql})" for table, sql in gone.items())
        counts = ", ".join(f"(SELECT count(*) FROM {quote('gone_' + table)})" for table in gone)
        values = {"executions": json.dumps(executions), "agents": json.dumps(agents)}
        row = self._database.conn.execute(f"WITH {steps} SELECT {counts}", values).fetchone()
        return Counter({"transitions": 0, "memories": 0} | dict(zip(gone, row, strict=True)))

    def _remove(self, executions: Sequence[int], agents: Sequence[int]) -> Counter[str]:
        execute = self._database.conn.execute
        with self._database.transaction():
            # Somebody may have begun something below one of them since it was listed.
            found = execute(_STILL_EXECUTIONS, (json.dumps(executions),)).fetchall()
            executions = [seq for (seq,) in found]
            found = execute(_STILL_AGENTS, (json.dumps(agents),)).fetchall()
            agents = [seq for (seq,) in found]
            counts = self._count(executions, agents)
            for table, doomed in (("executions", executions), ("agents", agents)):
                execute(_DELETE.format(table), (json.dumps(doomed),))
        time.sleep(_PAUSE)
        return counts

    def _remove_history(self, horizon: int, rows: Counter[str]) -> bool:
        """Remove the oldest commits up to the horizon; tell whether more are left."""
        execute = self._database.conn.execute
        with self._database.transaction():
            (end,) = execute(_BATCH_END, {"horizon": horizon, "batch": _BATCH}).fetchone()
            execute(_FORGET, {"horizon": end})
            execute(_FOLD, {"horizon": end})
            rows["transitions"] += execute(_DELETE_TRANSITIONS, (end,)).rowcount
            execute(_SET_PRUNED, (end,))
        return bool(end < horizon)

    def _give_back(self) -> None:
        """Write the file anew where much of it is free, but not for long while a workflow runs."""
        connection = self._database.conn
        pages, free, size = connection.execute(_PAGES).fetchone()
        slow = (pages - free) * size > _FAST
        if free < pages * _FREE or (slow and self._workspace.ownership.live_executions()):
            return
        (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
        connection.execute(f"PRAGMA busy_timeout = {_PATIENCE}")
        try:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:
            # The free pages stay in the file, for what is written next.
            if not locked_elsewhere(error):
                raise
        finally:
            connection.execute(f"PRAGMA busy_timeout = {patience}")

    def _size(self) -> int:
        """Tell how many bytes the database takes, its log included."""
        path = self._database.path
        if path is None:
            pages, _, size = self._database.conn.execute(_PAGES).fetchone()
            return int(pages * size)
        log = path.with_name(path.name + "-wal")
        return sum(file.stat().st_size for file in (path, log) if file.exists())


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be removed: executions and agents by number, each with how many rows it is.

    `before` is a time, where one was given; `horizon` is the last transition to go.
    """

    before: str | None
    executions: Sequence[tuple[int, int]]
    agents: Sequence[tuple[int, int]]
    horizon: int | None


def _check_count(count: object) -> None:
    if type(count) is not int:
        raise TypeError(f"keep_executions is a number of executions, not {shown(count)}")
    if not 0 <= count < 2**63:
        raise ValueError(f"keep_executions is a number from 0 up, not {shown(count)}")


def _batches(doomed: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    batch: list[int] = []
    rows = 0
    for seq, size in doomed:
        batch.append(seq)
        rows += size
        if rows >= _BATCH:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch
