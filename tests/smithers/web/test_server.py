"""The view over a real port: what a first visit finds, and how it begins and ends."""

from __future__ import annotations

from smithers import SmithersDB
from tests.smithers.web.browser import Browser


async def test_a_visit_ends_at_an_address_without_the_token(browser: Browser) -> None:
    answer = await browser.visit()
    assert str(answer.url) == browser.base + "/"
    assert "<main" in answer.text
    assert "HttpOnly" in answer.history[0].headers["set-cookie"]
    assert "SameSite=strict" in answer.history[0].headers["set-cookie"]


async def test_a_page_follows_what_is_committed(browser: Browser, db: SmithersDB) -> None:
    async with browser.events("overview", "state") as events:
        assert await events.topic("overview") == []
        assert await events.topic("state") == []
        id = db.execution.start("Feature")
        executions = await events.until(bool, [], "overview")
        assert [(one["id"], one["status"], one["is_live"]) for one in executions] == [
            (id, "running", True)
        ]
        db.state.set("phase", "review")
        state = await events.until(bool, [], "state")
        assert [(one["key"], one["value"]) for one in state] == [("phase", "review")]


async def test_what_runs_stands_below_its_execution(browser: Browser, db: SmithersDB) -> None:
    id = db.execution.start("Feature")
    with db.phases.open("implement"), db.steps.open("write"), db.agents.open("Write it"):
        async with browser.events("overview") as events:
            (execution,) = await events.topic("overview")
    assert execution["id"] == id
    shown = [(part["kind"], part["name"]) for part in execution["running"]]
    assert shown == [("phase", "implement"), ("step", "write"), ("agent", "sonnet")]
