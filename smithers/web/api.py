"""Questions and orders of pages, answered with JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from reactive_sqlite.dialect import sqlite3
from reactive_sqlite.errors import ReactiveError
from smithers.errors import CannotOpen, NotFound, SmithersError
from smithers.jsontext import json_text
from smithers.web import reader as reading
from smithers.web.actions import ACTIONS, act
from smithers.web.asking import Asking
from smithers.web.reader import Reader
from smithers.web.security import LARGEST_BODY

_REFUSED = "Nothing can be changed here: `smithers ui --allow-write` allows it."
# What goes wrong, the most special first, and the status that says so.
_STATUSES: tuple[tuple[type[BaseException], int], ...] = (
    (NotFound, 404),
    (CannotOpen, 503),
    (SmithersError, 409),
    (ReactiveError, 503),
    (ValueError, 400),
    (TypeError, 400),
    (sqlite3.Error, 503),
    (OSError, 503),
)


def api_routes(path: Path, reader: Reader, *, allow_write: bool) -> list[Route]:
    """List what pages may ask, and what they may have done."""
    asking = Asking(path)

    async def value(request: Request) -> Any:
        return await reader.read(reading.value, _text(request, "key"))

    async def history(request: Request) -> Any:
        key = request.query_params.get("key")
        before, limit = _number(request, "before"), _limit(request)
        return await reader.read(reading.history, key, before, limit)

    async def commits(request: Request) -> Any:
        return await reader.read(reading.commits, _number(request, "before"), _limit(request))

    async def state_at(request: Request) -> Any:
        return await reader.read(reading.state_at, _needed(request, "seq"))

    async def restore_preview(request: Request) -> Any:
        return await reader.read(reading.restore_preview, _needed(request, "seq"))

    async def tool(request: Request) -> Any:
        return await reader.read(reading.tool, _text(request, "id"))

    async def sql(request: Request) -> Any:
        try:
            found = await asking.answer(_text(request, "q"))
        except sqlite3.Error as error:
            raise ValueError(str(error)) from error  # what was asked is wrong, not the database
        return {"columns": found.columns, "rows": found.rows, "truncated": found.truncated}

    async def order(request: Request) -> Any:
        body = await _body(request)
        return {"done": await run_in_threadpool(act, path, request.path_params["name"], body)}

    async def refused(_: Request) -> Response:
        return _failed(403, _REFUSED)

    asked = (value, history, commits, state_at, restore_preview, tool, sql)
    routes = [Route(f"/api/{one.__name__}", _answering(one), methods=["GET"]) for one in asked]
    for name in ACTIONS:
        answer = _answering(_named(order, name)) if allow_write else refused
        routes.append(Route(f"/api/{name}", answer, methods=["POST"]))
    return routes


def _named(
    order: Callable[[Request], Awaitable[Any]], name: str
) -> Callable[[Request], Awaitable[Any]]:
    async def named(request: Request) -> Any:
        request.path_params["name"] = name
        return await order(request)

    return named


def _answering(
    answer: Callable[[Request], Awaitable[Any]],
) -> Callable[[Request], Awaitable[Response]]:
    async def answering(request: Request) -> Response:
        try:
            text = json_text(await answer(request))
        except ClientDisconnect:
            raise
        except asyncio.CancelledError:
            return _failed(503, "the server ends")  # which waits for no answer
        except Exception as error:
            for kind, status in _STATUSES:
                if isinstance(error, kind):
                    return _failed(status, str(error) or kind.__name__)
            raise
        return Response(text.encode("utf-8", "replace"), media_type="application/json")

    return answering


def _failed(status: int, error: str) -> Response:
    text = json_text({"error": error}).encode("utf-8", "replace")
    return Response(text, status, media_type="application/json")


async def _body(request: Request) -> dict[str, Any]:
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > LARGEST_BODY:
            raise ValueError("that is too much")
    try:
        body = json.loads(parts)
    except RecursionError as error:
        raise ValueError("what is sent is nested too deep") from error
    if not isinstance(body, dict):
        raise ValueError("what is sent has to be an object")
    return {str(name): value for name, value in body.items()}  # pyright: ignore


def _text(request: Request, name: str) -> str:
    found = request.query_params.get(name)
    if found is None:
        raise ValueError(f"{name!r} is missing")
    return found


def _number(request: Request, name: str) -> int | None:
    found = request.query_params.get(name)
    if found is None or found == "":
        return None
    if not (found.isascii() and found.isdecimal() and len(found) < 19):
        raise ValueError(f"{name!r} has to be a whole number")
    return int(found)


def _needed(request: Request, name: str) -> int:
    found = _number(request, name)
    if found is None:
        raise ValueError(f"{name!r} is missing")
    return found


def _limit(request: Request) -> int:
    found = _number(request, "limit")
    return 100 if found is None else max(1, found)
