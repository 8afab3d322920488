"""Events end as an answer does, whatever ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from sse_starlette.sse import AppStatus
from starlette.types import Message, Scope

from smithers.web.wire import EventStream, event_text

SCOPE: Scope = {"type": "http", "method": "GET"}


async def answered(*, gone: bool = False) -> tuple[list[Message], list[str]]:
    """What a page is sent that never ends by itself, and what was left of it."""
    sent: list[Message] = []
    left: list[str] = []

    async def events() -> AsyncGenerator[bytes]:
        while True:
            yield event_text("message", "1").encode()
            await asyncio.sleep(0.01)

    async def receive() -> Message:
        if gone:
            await asyncio.sleep(0.05)
            return {"type": "http.disconnect"}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    stream = EventStream(events(), lambda: left.append("left"))
    async with asyncio.timeout(20):
        await stream(SCOPE, receive, send)
    return sent, left


def ends(sent: list[Message]) -> list[Any]:
    return [one for one in sent if one["type"] == "http.response.body" and not one["more_body"]]


async def test_a_server_that_ends_as_a_page_comes_gives_it_an_answer_that_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AppStatus, "should_exit", True)
    sent, left = await answered()
    assert sent[0]["type"] == "http.response.start"
    assert len(ends(sent)) == 1 and ends(sent)[0] is sent[-1]
    assert left == ["left"]


async def test_a_server_that_ends_gives_a_page_that_is_there_the_end_of_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AppStatus, "should_exit", False)  # whatever server has ended here before
    answering = asyncio.create_task(answered())
    await asyncio.sleep(0.1)
    monkeypatch.setattr(AppStatus, "should_exit", True)
    sent, left = await answering
    assert (sent[0]["type"], sent[0]["status"]) == ("http.response.start", 200)
    assert len(ends(sent)) == 1 and ends(sent)[0] is sent[-1]
    assert left == ["left"]


async def test_a_page_that_has_gone_is_sent_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AppStatus, "should_exit", False)  # whatever server has ended here before
    sent, left = await answered(gone=True)
    assert ends(sent) == []
    assert left == ["left"]
