"""The tree below an execution, in few words."""

from __future__ import annotations

from smithers import SmithersDB
from smithers.storage.overview import Overview


def test_everything_below_an_execution_stands_in_the_order_of_its_start(db: SmithersDB) -> None:
    db.execution.complete(db.execution.start("Other"))
    id = db.execution.start("Feature")
    plan = db.phases.start("plan", 3)
    db.phases.fail(plan, "no\ntime")
    phase = db.phases.start("implement")
    step = db.steps.start("write tests")
    with db.agents.open("Write.", "opus") as agent:
        sub = db.agents.start("Help.", "haiku")
        tokens = {"input": 10, "output": 5, "cache_read": 100, "cost_usd": 0.5}
        db.agents.complete(sub, "done", tokens=tokens)
        db.tools.complete(db.tools.start(agent, "Read", {}), "text")
        call = db.tools.start(agent, "Bash", {"command": "pytest"})
        overview = Overview(db.database)
        running = overview.running(id)
        assert [(part.kind, part.id) for part in running] == [
            *(("phase", phase), ("step", step), ("agent", agent), ("tool", call)),
        ]
        assert (running[3].parents, running[3].text) == ((agent,), '{"command":"pytest"}')
    parts = overview.everything(id)
    assert [part.id for part in parts] == [plan, phase, step, agent, sub], "tool calls are counted"
    assert [part.parents for part in parts] == [
        *((), (), (phase,), (step, phase), (agent, step, phase)),
    ]
    assert (parts[0].count, parts[0].status, parts[0].error) == (3, "failed", "no\ntime")
    assert (parts[3].name, parts[3].text, parts[3].count) == ("opus", "Write.", 2)
    assert (parts[4].tokens, parts[4].cost_usd, parts[4].count) == (15, 0.5, 0)
    assert all(part.duration_ms is not None for part in (parts[0], parts[4]))
    assert overview.everything("absent") == overview.running("absent") == []


def test_a_limit_gives_the_newest_of_each_kind(db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    for number in range(5):
        db.agents.start(f"agent {number}")
        db.phases.start(f"phase {number}")
    parts = Overview(db.database).everything(id, limit=2)
    assert [part.text or part.name for part in parts] == [
        *("agent 3", "phase 3", "agent 4", "phase 4"),
    ]
    assert Overview(db.database).running(id, limit=0) == []


def test_of_long_texts_only_the_beginning_is_read(db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    agent = db.agents.start("x" * 1_000_000)
    db.agents.fail(agent, "y" * 1_000_000)
    (part,) = Overview(db.database).everything(id)
    assert part.text is not None and part.error is not None
    assert (set(part.text), set(part.error)) == ({"x"}, {"y"})
    assert len(part.text) == len(part.error) < 1000
