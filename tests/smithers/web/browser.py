"""What a page does, without a page: it visits the view, follows its events and asks it things."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from smithers.web.server import LiveView, Options


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    kind: str
    data: Any
    id: str | None


class Events:
    """The events of an `EventSource`."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()
        self.status = response.status_code
        self.last_id: str | None = None

    async def next(self, *kinds: str) -> Event:
        """Return the next event, of one of some kinds if any are named."""
        found: dict[str, str] = {}
        async for line in self._lines:
            name, _, value = line.partition(": ")
            if name:
                found[name] = value
            elif "data" in found:
                event = Event(
                    found.get("event", "message"), json.loads(found["data"]), found.get("id")
                )
                self.last_id = event.id or self.last_id
                found = {}
                if not kinds or event.kind in kinds:
                    return event
            else:
                found = {}
        raise EOFError("the events have ended")

    async def topic(self, name: str) -> list[Any]:
        """Return the items of a topic when it is next told in full."""
        while True:
            event = await self.next("value", "failed")
            if event.data["topic"] == name:
                assert event.kind == "value", event.data
                items: list[Any] = event.data["value"]
                return items

    async def until(
        self, wanted: Callable[[list[Any]], object], items: list[Any], topic: str | None = None
    ) -> list[Any]:
        """Take what is told until `wanted(items)`, and return the items."""
        while not wanted(items):
            event = await self.next("value", "diff")
            if topic in (None, event.data["topic"]):
                items = taken(items, event)
        return items


class Browser:
    """A browser with its cookies."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self.url = url
        self.base = url.partition("/?")[0]
        self.client = client
        self.token = ""

    async def visit(self) -> httpx.Response:
        """Go to the printed address, and on to where it leads."""
        return await self.client.get(self.url, follow_redirects=True)

    async def get(self, path: str, **named: Any) -> httpx.Response:
        return await self.client.get(self.base + path, **named)

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Send JSON as a page of the view does."""
        sent = {"X-Smithers-Token": self.token, "Origin": self.base, **headers}
        return await self.client.post(self.base + path, json=body, headers=sent)

    @asynccontextmanager
    async def events(self, *topics: str, last_id: str | None = None) -> AsyncGenerator[Events]:
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        asked = {"topic": list(topics)}
        address = self.base + "/events"
        async with self.client.stream("GET", address, params=asked, headers=headers) as response:
            yield Events(response)


@asynccontextmanager
async def serving(
    path: Path, *, allow_write: bool = False, port: int = 0
) -> AsyncGenerator[LiveView]:
    """Serve a database on a real port of this machine."""
    ready = asyncio.Event()
    options = Options(path=path / "db.sqlite", port=port, allow_write=allow_write)
    view = LiveView(options, ready=lambda _: ready.set())
    task = asyncio.create_task(view.serve(sockets=[view.socket]))
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        yield view
    finally:
        waiting.cancel()
        view.should_exit = True
        await task


@asynccontextmanager
async def browsing(view: LiveView) -> AsyncGenerator[Browser]:
    """Visit it with a browser."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=20, limits=limits) as client:
        browser = Browser(view.url, client)
        assert (await browser.visit()).status_code == 200
        async with browser.events() as events:
            browser.token = (await events.next("hello")).data["token"] or ""
        yield browser


def taken(items: list[Any], event: Event) -> list[Any]:
    """Return what an event makes of the items that a page has."""
    if event.kind == "value":
        return list(event.data["value"])
    items = list(items)
    for kind, at, *rest in event.data["diff"]:
        match kind:
            case "remove":
                del items[at]
            case "move":
                items.insert(rest[0], items.pop(at))
            case "insert":
                items.insert(at, rest[0])
            case _:
                assert kind == "update"
                items[at] = rest[0]
    return items
