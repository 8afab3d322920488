"""The addresses of the live view, and what answers at each."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from smithers.web.hub import Hub, Stream

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"
PING_SECONDS = 15
MOST_TOPICS = 20
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}


def web_app(hub: Hub) -> Starlette:
    """Make the application, which opens the hub and closes it."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        await hub.start()
        try:
            yield
        finally:
            await hub.close()

    async def events(request: Request) -> Response:
        names = request.query_params.getlist("topic")
        if len(names) > MOST_TOPICS:
            return PlainTextResponse(f"At most {MOST_TOPICS} topics.\n", 400)
        return Events(hub, hub.open_stream(names, request.headers.get("last-event-id")))

    return Starlette(
        routes=[
            Route("/events", events),
            Route("/", _static, methods=["GET"]),
            Route("/static/{name:path}", _static, methods=["GET"]),
        ],
        lifespan=lifespan,
    )


class Events(EventSourceResponse):
    """The events of one page, until it or the server goes."""

    def __init__(self, hub: Hub, stream: Stream) -> None:
        super().__init__(stream, ping=PING_SECONDS)
        self._hub = hub
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._hub.leave(self._stream)


async def _static(request: Request) -> Response:
    # Looked up among the files that there are, so that no path leads out of their directory.
    name = request.path_params.get("name", INDEX)
    files = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*.*")}
    path = files.get(name)
    if path is None:
        return PlainTextResponse("There is no such page.\n", 404)
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    return Response(path.read_bytes(), media_type=kind or "application/octet-stream")
