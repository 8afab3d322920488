"""Many pages, one fetch; what a page has missed and nothing else; a database that goes."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest

from smithers import SmithersDB, create_smithers_db
from smithers.web.hub import MOST_NOTICES, Stream
from smithers.web.server import LiveView
from smithers.web.wire import event_text
from tests.smithers.remote import remote
from tests.smithers.web.browser import Browser, Events, browsing, serving

PAGES = 50


async def test_fifty_pages_cost_one_fetch_a_commit(
    view: LiveView, browser: Browser, db: SmithersDB
) -> None:
    statements: list[str] = []
    async with AsyncExitStack() as pages:
        opened = [
            await pages.enter_async_context(browser.events("state", "overview"))
            for _ in range(PAGES)
        ]
        for events in opened:
            await events.topic("state")
            await events.topic("overview")
        # What is asked of the schema at the first commit from elsewhere is asked once.
        await _all_told(db, opened, -1)
        following = view.hub.database
        assert following is not None
        following.database.conn.set_trace_callback(statements.append)
        for number in range(3):
            await _all_told(db, opened, number)
        following.database.conn.set_trace_callback(None)
    fetches = [sql for sql in statements if sql.lstrip()[:6].upper() == "SELECT"]
    of_state = [sql for sql in fetches if "updated_at" in sql]
    print(f"\n{PAGES} pages, 3 commits: {len(of_state)} fetches of the state")
    assert 1 <= len(of_state) <= 3, of_state
    assert not [sql for sql in fetches if "executions" in sql], "they were not touched"


async def test_what_nobody_follows_any_more_is_not_fetched(
    view: LiveView, browser: Browser, db: SmithersDB
) -> None:
    async with browser.events("state") as events:
        await events.topic("state")
        assert view.hub.followed == ["state"]
    for _ in range(500):
        if not view.hub.followed:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the state is followed for nobody")


async def test_a_page_that_was_away_is_sent_what_it_missed_and_nothing_else(
    browser: Browser, db: SmithersDB
) -> None:
    db.state.set("phase", "one")
    async with browser.events("state", "overview", "commits") as events:
        for topic in ("state", "overview", "commits"):
            await events.topic(topic)
        last = events.last_id
    db.execution.start("Feature")
    async with browser.events("state", "overview", "commits", last_id=last) as events:
        event = await events.next("value", "diff")
        assert event.data["topic"] == "overview"
        db.state.set("phase", "two")
        event = await events.next("value", "diff")
        assert (event.kind, event.data["topic"]) == ("diff", "state"), (
            "neither of the other two, which had not changed"
        )


async def test_a_page_has_everything_once_over_a_restart_of_the_server(
    db: SmithersDB, path: Path
) -> None:
    db.state.set("phase", 0)
    async with (
        serving(path) as first,
        browsing(first) as browser,
        browser.events("state", "overview") as events,
    ):
        state = await events.topic("state")
        await events.topic("overview")
        last = events.last_id
    async with serving(path) as second, browsing(second) as browser:
        async with browser.events("state", "overview", last_id=last) as events:
            db.state.set("phase", 1)
            event = await events.next("value", "diff")
            assert event.data["topic"] == "state", "nothing that it had is told again"
            assert state[0]["value"] == 0
            last = events.last_id
        db.state.set("phase", 2)
        async with browser.events("state", "overview", last_id=last) as events:
            event = await events.next("value", "diff")
            assert [one["value"] for one in event.data["value"]] == [2]


@pytest.mark.parametrize("last_id", ["", "x", "1-", "1-a.b.c", "9" * 5000, "1-\xe9", "-..."])
async def test_an_id_that_makes_no_sense_is_that_of_a_page_that_has_nothing(
    browser: Browser, db: SmithersDB, last_id: str
) -> None:
    async with browser.events("state", last_id=last_id.encode("ascii", "replace").decode()) as at:
        assert await at.topic("state") == []


async def test_ids_grow_with_the_change_log(browser: Browser, db: SmithersDB) -> None:
    numbers: list[int] = []
    async with browser.events("state") as events:
        await events.topic("state")
        for number in range(3):
            db.state.set("phase", number)
            event = await events.next("value", "diff")
            assert event.id is not None
            numbers.append(int(event.id.partition("-")[0]))
    newest = db.database.broker.log.newest()
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == newest


async def test_commits_of_another_process_are_followed_at_once(
    db: SmithersDB, path: Path, browser: Browser
) -> None:
    late: list[float] = []
    loop = asyncio.get_running_loop()
    with remote(path) as other:
        await loop.run_in_executor(None, other, "db.state.set('warm', 0)")
        async with browser.events("state") as events:
            await events.topic("state")
            for _ in range(20):
                asked = "[db.state.set('at', 1), __import__('time').time()][1]"
                answer = loop.run_in_executor(None, other, asked)
                await events.next("value", "diff")
                seen = time.time()
                late.append((seen - float(await answer)) * 1000)
    middle = statistics.median(late)
    print(f"\na page shows another process's commit after {middle:.1f} ms (median of 20)")
    assert middle < 100


async def test_a_slow_page_is_sent_the_newest_and_no_more_than_that(
    browser: Browser, db: SmithersDB
) -> None:
    async with browser.events("state") as events:
        await events.topic("state")
        for number in range(300):
            db.state.set("phase", number)
        state = await events.until(lambda items: bool(items) and items[0]["value"] == 299, [])
        assert [one["key"] for one in state] == ["phase"]


async def test_a_page_learns_that_the_database_has_gone_and_is_back(
    db: SmithersDB, path: Path, browser: Browser
) -> None:
    db.state.set("phase", "before")
    async with browser.events("state") as events:
        await events.topic("state")
        db.close()
        shutil.rmtree(path)
        gone = await events.next("gone")
        assert gone.data["reason"]
        assert (await browser.get("/api/value?key=phase")).status_code == 503
        async with browser.events("state") as late:
            assert (await late.next("gone", "value")).kind == "gone"
        with create_smithers_db(path) as again:
            again.state.set("phase", "after")
            await events.next("back")
            state = await events.until(
                lambda items: [one["value"] for one in items] == ["after"], [{"value": "before"}]
            )
            assert [one["value"] for one in state] == ["after"]
            answer = await browser.get("/api/value?key=phase")
            assert answer.json()["value"] == "after"
            again.state.set("phase", "and on")
            event = await events.next("value", "diff")
            assert "and on" in str(event.data)


async def test_an_owner_that_dies_without_a_word_is_shown_as_dead(
    db: SmithersDB, path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    with remote(path) as other:
        other("db.execution.start('Feature')")
        async with browser.events("overview") as events:
            (execution,) = await events.topic("overview")
            assert execution["is_live"]
            other.kill()
            shown = await events.until(lambda items: not items[0]["is_live"], [execution])
    assert [one["status"] for one in shown] == ["running"]


async def test_a_page_that_sleeps_is_kept_no_more_than_the_newest_notices() -> None:
    stream = Stream([], None, "{}")
    for number in range(10_000):
        stream.notice(event_text("trouble", str(number)))
    text = (await anext(stream)).decode()
    assert text.count("event: ") == MOST_NOTICES
    assert text.endswith("data: 9999\n\n")


async def test_a_topic_that_there_is_not_is_said_to_be_none(browser: Browser) -> None:
    async with browser.events("nothing", "state") as events:
        failed = await events.next("failed")
        assert failed.data == {"topic": "nothing", "error": "there is no topic 'nothing'"}
        assert await events.topic("state") == []
    assert (await browser.get("/events?" + "topic=state&" * 21)).status_code == 400


async def test_a_topic_that_could_not_be_read_is_shown_when_it_can_be(
    db: SmithersDB, path: Path, browser: Browser
) -> None:
    db.state.set("phase", 1)
    with closing(sqlite3.connect(path / "db.sqlite", isolation_level=None)) as careless:
        careless.execute("PRAGMA ignore_check_constraints = ON")
        careless.execute("UPDATE state SET value = x'ff'")
        async with browser.events("state") as events:
            failed = await events.next("failed", "value")
            assert "state 'phase'" in failed.data["error"], "it says which key it is"
            careless.execute("UPDATE state SET value = 2")
            assert [one["value"] for one in await events.topic("state")] == [2]
            db.state.set("phase", 3)
            event = await events.next("value", "diff", "failed")
            assert (event.kind, event.data["topic"]) != ("failed", "state")


async def _all_told(db: SmithersDB, pages: Sequence[Events], number: int) -> None:
    db.state.set("phase", number)
    for events in pages:
        assert (await events.next("value", "diff")).data["topic"] == "state"
