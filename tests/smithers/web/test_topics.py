"""What each page is told of the rows below it."""

from __future__ import annotations

from typing import Any

from smithers import SmithersDB
from smithers.web.items import difference
from smithers.web.topics import LONG_VALUE
from tests.smithers.web.browser import Browser


async def told(browser: Browser, topic: str) -> list[Any]:
    async with browser.events(topic) as events:
        return await events.topic(topic)


async def test_an_execution_and_its_parts_are_told_with_all_their_tool_calls(
    browser: Browser, db: SmithersDB
) -> None:
    id = db.execution.start("Feature", config={"depth": 2})
    with db.phases.open("implement", iteration=1), db.agents.open("Write it") as agent:
        call = db.tools.start(agent, "Bash", {"command": "pytest"})
        db.tools.complete(call, "12 passed")
    db.execution.complete(id, {"done": True})
    (execution,) = await told(browser, f"execution:{id}")
    assert execution["result"] == {"done": True}
    assert execution["config"] == {"depth": 2}
    parts = await told(browser, f"parts:{id}")
    assert [(part["kind"], part["name"], part["count"]) for part in parts] == [
        ("phase", "implement", 1),
        ("agent", "sonnet", 1),
        ("tool", "Bash", len("12 passed")),
    ]
    assert parts[2]["parents"] == [agent]
    assert "12 passed" not in str(parts), "an output is only told when it is asked for"
    answer = await browser.get("/api/tool", params={"id": call})
    assert (answer.json()["input"], answer.json()["output"]) == (
        {"command": "pytest"},
        "12 passed",
    )
    assert await told(browser, "execution:nothing") == []


async def test_what_an_agent_writes_is_followed_while_it_writes(
    browser: Browser, db: SmithersDB
) -> None:
    db.execution.start("Feature")
    agent = db.agents.start("Write it")
    async with browser.events(f"agent:{agent}") as events:
        (shown,) = await events.topic(f"agent:{agent}")
        assert (shown["output"], shown["status"]) == (None, "running")
        for text in ("Once", "Once upon", "Once upon a time"):
            db.query("UPDATE agents SET output = ? WHERE id = ?", [text, agent], write=True)
            (shown,) = await events.until(lambda found: found[0]["output"] is not None, [shown])
            shown["output"] = None
        db.agents.complete(agent, "The end", tokens={"input": 3, "output": 4})
        (shown,) = await events.until(lambda found: found[0]["status"] == "completed", [shown])
    assert (shown["output"], shown["tokens_output"]) == ("The end", 4)


async def test_a_long_value_is_told_by_its_beginning_and_whole_when_asked_for(
    browser: Browser, db: SmithersDB
) -> None:
    text = "x" * LONG_VALUE
    db.state.set("long", text)
    db.state.set("short", {"a": [1, None]})
    long, short = await told(browser, "state")
    assert short["value"] == {"a": [1, None]}
    assert (long["value"], long["size"]) == (None, LONG_VALUE + 2)
    assert long["beginning"] == f'"{text}"'[:LONG_VALUE]
    assert (await browser.get("/api/value?key=long")).json()["value"] == text
    assert (await browser.get("/api/value?key=none")).status_code == 404


async def test_transitions_memories_and_version_control_are_told(
    browser: Browser, db: SmithersDB
) -> None:
    db.state.set("phase", "review", trigger="tests_passed")
    db.memories.add_fact("api", "The API is at /api/v2")
    db.memories.add_fact("coffee", "black")
    db.vcs.log_commit(hash="abc", message="Begin")
    db.vcs.log_snapshot(snapshot_id="s1", description="Before")
    db.vcs.log_review(review_id="r1", target="abc", approved=False, summary="no", blocking=True)
    (transition,) = await told(browser, "transitions")
    assert (transition["id"], transition["trigger"]) == ("t1", "tests_passed")
    assert {one["key"] for one in await told(browser, "memories")} == {"api", "coffee"}
    assert [one["key"] for one in await told(browser, "memories:the api")] == ["api"]
    assert await told(browser, "memories:it's C++ AND (") == []
    assert [one["message"] for one in await told(browser, "commits")] == ["Begin"]
    assert [one["snapshot_id"] for one in await told(browser, "snapshots")] == ["s1"]
    assert [one["blocking"] for one in await told(browser, "reviews")] == [True]


async def test_a_search_follows_what_is_remembered_later(browser: Browser, db: SmithersDB) -> None:
    async with browser.events("memories:api") as events:
        assert await events.topic("memories:api") == []
        db.memories.add_fact("api", "The API is at /api/v2")
        (found,) = await events.until(bool, [])
    assert found["content"] == "The API is at /api/v2"


async def test_triggers_and_what_they_have_set_aside_are_told(
    browser: Browser, db: SmithersDB
) -> None:
    @db.triggers.on("phase", name="deploy", retries=0)
    def deploy(_: object) -> None:
        raise RuntimeError("no route")

    async with browser.events("triggers", "dead") as events:
        (trigger,) = await events.topic("triggers")
        assert (trigger["id"], trigger["state"], trigger["dead"]) == ("deploy", "idle", 0)
        assert await events.topic("dead") == []
        db.state.set("phase", "deploy")
        db.triggers.deliver()
        (letter,) = await events.until(bool, [], "dead")
    assert "no route" in letter["error"]
    assert letter["transition"]["value"] == "deploy"


async def test_gates_that_wait_are_told_before_those_that_were_answered(
    browser: Browser, db: SmithersDB
) -> None:
    id = db.execution.start("Feature")
    for key in ("first", "second", "third"):
        db.approvals.request(id, key, f"{key}?")
    db.approvals.approve("first")
    db.approvals.deny("second")
    gates = await told(browser, "approvals")
    assert [(gate["key"], gate["status"]) for gate in gates] == [
        ("third", "pending"),
        ("second", "denied"),
        ("first", "approved"),
    ]


async def test_the_answer_to_sql_follows_the_tables_that_it_is_read_from(
    browser: Browser, db: SmithersDB
) -> None:
    db.query("CREATE TABLE orders (id INTEGER PRIMARY KEY, what, size)", write=True)
    sql = "SELECT what, size FROM orders ORDER BY id"
    async with browser.events(f"sql:{sql}") as events:
        (answer,) = await events.topic(f"sql:{sql}")
        assert (answer["columns"], answer["rows"]) == (["what", "size"], [])
        db.database["orders"].insert({"what": "a", "size": b"\xff"})
        (answer,) = await events.until(lambda found: found[0]["rows"], [answer])
        assert answer["rows"] == [["a", {"blob": "ff", "size": 1}]]
        db.query("DROP TABLE orders", write=True)
        assert "no such table" in (await events.next("failed")).data["error"]
        db.query("CREATE TABLE orders (id INTEGER PRIMARY KEY, what, size)", write=True)
        (answer,) = (await events.next("value")).data["value"]
    assert answer["rows"] == []


async def test_a_long_answer_is_cut_off_and_says_so(browser: Browser) -> None:
    numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000)"
    answer = (await browser.get("/api/sql", params={"q": f"{numbers} SELECT i FROM n"})).json()
    assert (len(answer["rows"]), answer["truncated"]) == (1000, True)
    long = f"{numbers} SELECT hex(zeroblob(500000)) FROM n"
    answer = (await browser.get("/api/sql", params={"q": long})).json()
    assert answer["truncated"]
    assert answer["rows"][0][0]["size"] == 1_000_000


def test_a_difference_is_written_where_it_is_the_shorter_way() -> None:
    old = [(str(number), f"{number}") for number in range(10)]
    assert difference(old, [*old, ("x", "1")]) == '[["insert",10,1]]'
    assert difference(old, old[1:]) == '[["remove",0]]'
    assert difference(old, [*old[:4], ("4", "44"), *old[5:]]) == '[["update",4,44]]'
    assert difference(old, [*old[2:], old[0], old[1]]) == '[["move",1,9],["move",0,8]]'
    assert difference(old, [(name, text * 2) for name, text in old]) is None
