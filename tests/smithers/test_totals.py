"""Totals of executions against the sums over their rows, under random work here and elsewhere."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reactive_sqlite import sqlite3
from smithers import SmithersDB, create_smithers_db

SUMS = """
    SELECT
        (SELECT count(DISTINCT iteration) FROM phases WHERE execution_id = e.id) AS iterations,
        (SELECT count(*) FROM agents WHERE execution_id = e.id) AS agents,
        (SELECT count(*) FROM tool_calls WHERE execution_id = e.id) AS tools,
        (SELECT coalesce(sum(tokens_input + tokens_output), 0) FROM agents
            WHERE execution_id = e.id) AS tokens
    FROM executions AS e WHERE id = ?
"""
COSTS = "SELECT cost_usd FROM agents WHERE execution_id = ?"
OPEN = """
    SELECT count(*) FROM (
        SELECT execution_id, status FROM phases UNION ALL SELECT execution_id, status FROM steps
        UNION ALL SELECT execution_id, status FROM agents
        UNION ALL SELECT execution_id, status FROM tool_calls
    ) AS below JOIN executions ON executions.id = below.execution_id
    WHERE below.status = 'running' AND executions.status <> 'running'
"""

counts = st.integers(0, 1000)
cents = st.integers(0, 500).map(lambda n: n / 100)
picks = st.integers(0, 2**32)


class Totals(RuleBasedStateMachine):
    """Starts, ends, deletions and moves, by this handle and by a program that knows nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        path = Path(self._directory.name)
        self.db: SmithersDB = create_smithers_db(path, watch=False)
        self.foreign = sqlite3.connect(path / "db.sqlite", isolation_level=None)
        self.foreign.execute("PRAGMA foreign_keys = ON")
        self.db.execution.start("first")

    def teardown(self) -> None:
        self.foreign.close()
        self.db.close()
        self._directory.cleanup()

    def pick(self, table: str, pick: int, where: str = "true") -> str | None:
        """One of the rows of a table, None where there is none."""
        ids = self.db.query(f"SELECT id FROM {table} WHERE {where} ORDER BY seq")
        return ids[pick % len(ids)]["id"] if ids else None

    def running(self, table: str, pick: int) -> str | None:
        return self.pick(table, pick, "status = 'running'")

    @precondition(lambda self: len(self.db.execution.list("running")) < 3)
    @rule()
    def start_execution(self) -> None:
        self.db.execution.start("another")

    @rule(pick=picks, how=st.sampled_from(["complete", "fail", "cancel"]))
    def end_execution(self, pick: int, how: str) -> None:
        id = self.running("executions", pick)
        if id is not None:
            end: Any = getattr(self.db.execution, how)
            end(id) if how != "fail" else end(id, "x")

    @rule(iteration=st.integers(0, 2), pick=picks)
    def start_phase(self, iteration: int, pick: int) -> None:
        id = self.running("executions", pick)
        if id is not None:
            self.db.phases.start("p", iteration, execution_id=id)

    @rule(pick=picks)
    def end_phase(self, pick: int) -> None:
        id = self.running("phases", pick)
        if id is not None:
            self.db.phases.complete(id)

    @rule(pick=picks, named=st.booleans())
    def start_agent(self, pick: int, named: bool) -> None:
        id = self.running("executions", pick) if named else None
        self.db.agents.start("a", execution_id=id)

    @rule(pick=picks, tokens=counts, cost=cents)
    def note_progress(self, pick: int, tokens: int, cost: float) -> None:
        id = self.running("agents", pick)
        if id is not None:
            self.db.agents.progress(id, tokens={"input": tokens, "cost_usd": cost})

    @rule(pick=picks, tokens=counts, cost=cents)
    def end_agent(self, pick: int, tokens: int, cost: float) -> None:
        id = self.running("agents", pick)
        if id is not None:
            self.db.agents.complete(id, "", tokens={"output": tokens, "cost_usd": cost})

    @rule(pick=picks, output=st.booleans())
    def call_tool(self, pick: int, output: bool) -> None:
        agent_id = self.running("agents", pick)
        if agent_id is not None:
            id = self.db.tools.start(agent_id, "Bash", None)
            if output:
                self.db.tools.complete(id, "x")

    @rule(pick=picks)
    def roll_back(self, pick: int) -> None:
        try:
            with self.db.transaction():
                self.start_phase(7, pick)
                self.start_agent(pick, named=True)
                self.end_execution(pick, "complete")
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass

    @rule(table=st.sampled_from(["phases", "steps", "agents", "tool_calls"]), pick=picks)
    def delete_elsewhere(self, table: str, pick: int) -> None:
        self.foreign.execute(f"DELETE FROM {table} WHERE id = ?", (self.pick(table, pick),))

    @rule(
        table=st.sampled_from(["phases", "agents", "tool_calls"]),
        pick=picks,
        to=st.one_of(st.none(), picks),
    )
    def move_elsewhere(self, table: str, pick: int, to: int | None) -> None:
        id = self.pick(table, pick)
        execution_id = None if to is None else self.pick("executions", to, "status = 'running'")
        if table != "phases" or execution_id is not None:
            sql = f"UPDATE {table} SET execution_id = ? WHERE id = ?"
            self.foreign.execute(sql, (execution_id, id))

    @rule(pick=picks, tokens=counts, cost=cents, iteration=st.integers(0, 2))
    def change_elsewhere(self, pick: int, tokens: int, cost: float, iteration: int) -> None:
        self.foreign.execute(
            "UPDATE agents SET tokens_input = ?, cost_usd = ? WHERE id = ?",
            (tokens, cost, self.pick("agents", pick)),
        )
        self.foreign.execute(
            "UPDATE phases SET iteration = ? WHERE id = ?", (iteration, self.pick("phases", pick))
        )

    @invariant()
    def totals_are_those_of_the_rows(self) -> None:
        for one in self.db.execution.list(limit=None):
            totals = (
                *(one.total_iterations, one.total_agents, one.total_tool_calls),
                one.total_tokens_used,
            )
            assert totals == self.foreign.execute(SUMS, (one.id,)).fetchone()
            costs = self.foreign.execute(COSTS, (one.id,)).fetchall()
            cost = sum((Decimal(str(cost)) for (cost,) in costs), Decimal(0))
            assert one.total_cost_usd == float(cost), "exactly, not nearly"

    @invariant()
    def nothing_is_open_below_what_has_ended(self) -> None:
        assert self.foreign.execute(OPEN).fetchone() == (0,)


TestTotals = Totals.TestCase
TestTotals.settings = settings(max_examples=25, stateful_step_count=25)
