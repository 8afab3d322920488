"""The addresses of the live view, and what answers at each."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from smithers.web.api import api_routes
from smithers.web.hub import Hub
from smithers.web.reader import Reader
from smithers.web.wire import EventStream

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"
MOST_TOPICS = 20
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}


def web_app(hub: Hub, reader: Reader, path: Path, *, allow_write: bool) -> Starlette:
    """Make the application, which opens the hub and closes it and the reader."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        await hub.start()
        try:
            yield
        finally:
            await hub.close()
            await reader.close()

    async def events(request: Request) -> Response:
        names = request.query_params.getlist("topic")
        if len(names) > MOST_TOPICS:
            return PlainTextResponse(f"At most {MOST_TOPICS} topics.\n", 400)
        stream = hub.open_stream(names, request.headers.get("last-event-id"))
        return EventStream(stream, partial(hub.leave, stream))

    return Starlette(
        routes=[
            Route("/events", events),
            Route("/", _static, methods=["GET"]),
            Route("/static/{name:path}", _static, methods=["GET"]),
            *api_routes(path, reader, allow_write=allow_write),
        ],
        lifespan=lifespan,
    )


async def _static(request: Request) -> Response:
    # Looked up among the files that there are, so that no path leads out of their directory.
    name = request.path_params.get("name", INDEX)
    files = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*.*")}
    path = files.get(name)
    if path is None:
        return PlainTextResponse("There is no such page.\n", 404)
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    return Response(path.read_bytes(), media_type=kind or "application/octet-stream")
