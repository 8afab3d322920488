"""`sse`: an endpoint of any observed query, in an application of somebody else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import ASGIApp

from reactive_sqlite import Database
from reactive_sqlite.aio import AsyncDatabase
from smithers.web import sse
from tests.smithers.web.browser import Event, Events, taken

ROWS = "SELECT id, what FROM orders ORDER BY id"


@pytest.fixture
def orders() -> Iterator[Database]:
    with Database(memory=True) as db:
        db["orders"].insert({"id": 1, "what": "tea"}, pk="id")
        yield db


@asynccontextmanager
async def application(app: ASGIApp) -> AsyncGenerator[str]:
    """Serve an application on a real port."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", ws="none", lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def reading(url: str, last_id: str | None = None) -> AsyncGenerator[Events]:
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    async with (
        httpx.AsyncClient(timeout=20) as client,
        client.stream("GET", url, headers=headers) as response,
    ):
        yield Events(response)


async def test_one_line_makes_an_endpoint_of_a_query(orders: Database) -> None:
    app = FastAPI()
    app.add_route("/orders", sse(orders.observe(ROWS)))
    async with application(app) as base, reading(base + "/orders") as events:
        assert (await events.next("message")).data == [{"id": 1, "what": "tea"}]
        orders["orders"].insert({"id": 2, "what": "rum"})
        assert [row["what"] for row in (await events.next("message")).data] == ["tea", "rum"]


async def test_a_page_that_was_away_is_sent_the_value_only_where_it_has_changed(
    orders: Database,
) -> None:
    app = Starlette()
    app.add_route("/count", sse(orders.observe_value("SELECT count(*) FROM orders")))
    async with application(app) as base:
        async with reading(base + "/count") as events:
            assert (await events.next()).data == 1
            last = events.last_id
        async with reading(base + "/count", last) as events:
            orders["orders"].insert({"id": 2})
            assert (await events.next()).data == 2, "not 1 once more"
            last = events.last_id
        orders["orders"].delete_where()
        async with reading(base + "/count", last) as events:
            assert (await events.next()).data == 0


async def test_with_diffs_only_what_has_changed_is_sent(orders: Database) -> None:
    app = Starlette()
    app.add_route("/orders", sse(orders.observe(ROWS), diffs=True))
    orders["orders"].insert_all({"id": number, "what": "x" * 100} for number in range(2, 102))
    async with application(app) as base, reading(base + "/orders") as events:
        rows: list[Any] = (await events.next("value")).data
        orders["orders"].update(50, {"what": "new"})
        event = await events.next("diff")
        assert len(event.data) <= 2
        for step in event.data:
            rows = _step(rows, step)
        assert rows == list(orders.query(ROWS))


async def test_the_query_may_come_of_the_request(orders: Database) -> None:
    async def of(request: Request) -> Any:
        return orders.observe_value("SELECT what FROM orders WHERE id = ?", [_id(request)])

    app = Starlette()
    app.add_route("/orders/{id}", sse(of))
    async with application(app) as base, reading(base + "/orders/1") as events:
        assert (await events.next()).data == "tea"
        orders["orders"].update(1, {"what": "rum"})
        assert (await events.next()).data == "rum"


async def test_a_query_of_an_asynchronous_database_is_served_too() -> None:
    async with AsyncDatabase(memory=True) as db:
        await db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, what)")
        app = Starlette()
        app.add_route("/orders", sse(db.observe(ROWS)))
        async with application(app) as base, reading(base + "/orders") as events:
            assert (await events.next()).data == []
            await db.execute("INSERT INTO orders (what) VALUES ('tea')")
            assert (await events.next()).data == [{"id": 1, "what": "tea"}]


async def test_the_subscription_ends_with_the_page(orders: Database) -> None:
    query = orders.observe(ROWS)
    app = Starlette()
    app.add_route("/orders", sse(query))
    async with application(app) as base:
        async with reading(base + "/orders") as events:
            await events.next()
            assert query.wanted
        for _ in range(500):
            if not query.wanted:
                return
            await asyncio.sleep(0.01)
    raise AssertionError("the query is followed for nobody")


async def test_events_end_when_the_database_is_closed(orders: Database) -> None:
    app = Starlette()
    app.add_route("/orders", sse(orders.observe(ROWS)))
    async with application(app) as base, reading(base + "/orders") as events:
        await events.next()
        orders.close()
        with pytest.raises(EOFError):
            await events.next()


def _id(request: Request) -> int:
    return int(request.path_params["id"])


def _step(rows: list[Any], step: list[Any]) -> list[Any]:
    return taken(rows, Event("diff", {"diff": [step]}, None))
