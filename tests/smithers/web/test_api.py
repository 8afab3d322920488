"""The past on request, and orders: what would be restored, gates, triggers, executions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from smithers import SmithersDB, create_async_smithers_db
from tests.smithers.web.browser import Browser, browsing, serving


@pytest.fixture
async def writing(db: SmithersDB, path: Path) -> AsyncIterator[Browser]:
    """A browser at a view that may change something."""
    async with serving(path, allow_write=True) as view, browsing(view) as opened:
        yield opened


async def test_history_is_read_page_by_page(browser: Browser, db: SmithersDB) -> None:
    for number in range(5):
        db.state.set("n", number)
        db.state.set("other", number)
    page = (await browser.get("/api/history?key=n&limit=2")).json()
    assert [one["value"] for one in page["transitions"]] == [4, 3]
    assert page["more"]
    before = page["transitions"][-1]["seq"]
    page = (await browser.get(f"/api/history?key=n&limit=10&before={before}")).json()
    assert [one["value"] for one in page["transitions"]] == [2, 1, 0]
    assert not page["more"]


async def test_commits_are_what_a_slider_moves_along(browser: Browser, db: SmithersDB) -> None:
    db.state.set_many({"a": 1, "b": 2}, "begin")
    db.state.set("a", 2)
    db.state.set_many({f"k{number}": 0 for number in range(1200)}, "many")
    page = (await browser.get("/api/commits?limit=2")).json()
    assert (page["first"], page["last"]) == (1, 1203)
    many, second = page["commits"]
    assert (many["count"], len(many["keys"]), many["trigger"]) == (1200, 20, "many")
    assert (second["seq"], second["keys"]) == (3, ["a"])
    page = (await browser.get(f"/api/commits?before={second['commit']}")).json()
    assert [(one["seq"], one["keys"]) for one in page["commits"]] == [(2, ["a", "b"])]


async def test_the_state_as_it_was_says_what_sets_it_apart(
    browser: Browser, db: SmithersDB
) -> None:
    db.state.set_many({"a": 1, "b": 2, "c": {"deep": [1]}})
    db.state.set("a", 1.0)
    db.state.delete("b")
    db.state.set("d", 4)
    for seq in (1, 3):
        then = (await browser.get(f"/api/state_at?seq={seq}")).json()
        assert then["seq"] == 3, "the first three are one commit"
        assert {one["key"]: one["value"] for one in then["items"]} == {
            "a": 1,
            "b": 2,
            "c": {"deep": [1]},
        }
        assert (then["added"], then["removed"], then["changed"]) == (["d"], ["b"], ["a"])
    assert (await browser.get("/api/state_at?seq=999")).json()["items"][0]["value"] == 1.0
    assert db.state.history(limit=1)[0].id == "t6", "looking writes nothing"


async def test_there_is_no_past_before_the_first_commit(browser: Browser, db: SmithersDB) -> None:
    assert (await browser.get("/api/state_at?seq=1")).status_code == 404
    assert (await browser.get("/api/commits")).json() == {
        "commits": [],
        "first": None,
        "last": None,
    }


@pytest.mark.parametrize("seq", ["", "x", "-1", "1e3", "9" * 30, "٣"])
async def test_a_number_that_is_none_is_refused(browser: Browser, seq: str) -> None:
    answer = await browser.get("/api/state_at", params={"seq": seq})
    assert answer.status_code == 400
    assert "seq" in answer.json()["error"]


async def test_a_restore_does_what_its_preview_says(writing: Browser, db: SmithersDB) -> None:
    db.state.set_many({"a": 1, "b": 2})
    db.state.set("a", 5)
    db.state.delete("b")
    db.state.set("c", 3)
    preview = (await writing.get("/api/restore_preview?seq=2")).json()
    changes = {
        one["key"]: (one["kind"], one["from"], one["to"], one["absent"])
        for one in preview["changes"]
    }
    assert changes == {
        "a": ("set", 5, 1, False),
        "b": ("set", None, 2, True),
        "c": ("delete", 3, None, False),
    }
    answer = await writing.post("/api/restore", {"seq": 2, "now": preview["now"]})
    assert answer.status_code == 200, answer.text
    assert {one["key"] for one in answer.json()["done"]} == set(changes)
    assert db.state.get_all() == {"a": 1, "b": 2}
    assert db.state.history(limit=1)[0].trigger == "replay:t2"


async def test_a_restore_of_what_has_changed_since_the_preview_is_refused(
    writing: Browser, db: SmithersDB
) -> None:
    db.state.set("a", 1)
    db.state.set("a", 2)
    now = (await writing.get("/api/restore_preview?seq=1")).json()["now"]
    db.state.set("a", 3)
    answer = await writing.post("/api/restore", {"seq": 1, "now": now})
    assert answer.status_code == 409
    assert "changed meanwhile" in answer.json()["error"]
    assert db.state.get("a") == 3


async def test_an_answer_lets_a_run_go_on_that_waits_for_it(writing: Browser, path: Path) -> None:
    async with create_async_smithers_db(path) as script:

        async def waits() -> bool:
            async with script.run("Deploy") as run:
                return (await run.human("deploy", "Deploy?")).approved

        task = asyncio.create_task(waits())
        async with writing.events("approvals") as events:
            (gate,) = await events.until(bool, [])
            assert (gate["prompt"], gate["status"]) == ("Deploy?", "pending")
            answer = await writing.post("/api/approve", {"id": gate["id"], "comment": "go"})
            assert answer.json()["done"]["comment"] == "go"
            assert await asyncio.wait_for(task, 20)
            (gate,) = await events.until(lambda found: found[0]["status"] != "pending", [gate])
    assert gate["status"] == "approved"
    answer = await writing.post("/api/deny", {"id": gate["id"]})
    assert answer.status_code == 409, "it was answered already"


async def test_only_the_gate_that_was_looked_at_is_answered(
    writing: Browser, db: SmithersDB
) -> None:
    id = db.execution.start("Deploy")
    first = db.approvals.request(id, "deploy", "Deploy to A?")
    second = db.approvals.request(id, "deploy", "Deploy to B?", occurrence=1)
    answer = await writing.post("/api/approve", {"id": second})
    assert answer.status_code == 409
    assert [gate.status for gate in db.approvals.list()] == ["pending", "pending"]
    assert (await writing.post("/api/deny", {"id": first})).status_code == 200
    assert (await writing.post("/api/approve", {"id": second})).status_code == 200
    assert (await writing.post("/api/approve", {"id": "none"})).status_code == 404


async def test_an_execution_is_cancelled_and_a_trigger_retried(
    writing: Browser, db: SmithersDB
) -> None:
    id = db.execution.start("Feature")
    answer = await writing.post("/api/cancel", {"execution": id, "reason": "enough"})
    assert answer.json()["done"]["cancel_reason"] == "enough"
    found = db.execution.get(id)
    assert found is not None
    assert found.cancel_requested_at is not None

    @db.triggers.on("phase", name="deploy", retries=0)
    def deploy(_: object) -> None:
        raise RuntimeError("no route")

    db.state.set("phase", 1)
    db.triggers.deliver()
    assert (await writing.post("/api/retry", {"trigger": "deploy"})).json() == {"done": 1}
    assert (await writing.post("/api/retry", {"trigger": "none"})).status_code == 404


@pytest.mark.parametrize("body", [[], "", 3, {}, {"seq": "1", "now": 1}, {"seq": 1.0, "now": 1}])
async def test_an_order_that_makes_no_sense_is_refused(writing: Browser, body: object) -> None:
    answer = await writing.post("/api/restore", body)
    assert answer.status_code == 400
    assert answer.json()["error"]


@pytest.mark.parametrize("text", ["", "{", "[" * 60_000, '{"seq": ' + "9" * 5_000 + "}", "\xff"])
async def test_an_order_that_is_no_json_is_refused(writing: Browser, text: str) -> None:
    answer = await writing.client.post(
        writing.base + "/api/restore",
        content=text.encode("latin-1"),
        headers={
            "X-Smithers-Token": writing.token,
            "Origin": writing.base,
            "Content-Type": "application/json",
        },
    )
    assert answer.status_code == 400
    assert answer.json()["error"]
