"""Server-sent events: as text, and as the answer that sends them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from sse_starlette import EventSourceResponse
from starlette.types import Receive, Scope, Send

# What passes events on may take a connection that is silent for long to be dead.
PING_SECONDS = 15


class EventStream(EventSourceResponse):
    """Sends events until the page, the server or the events themselves end, and then says so."""

    def __init__(self, events: AsyncIterator[bytes], left: Callable[[], object]) -> None:
        super().__init__(events, ping=PING_SECONDS)  # pyright: ignore[reportUnknownMemberType]
        self._left = left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._left()


def event_text(kind: str, data: str, id: str | None = None) -> str:
    """Write an event; `data` is on one line, a `message` is what a page hears unasked."""
    of = "" if id is None else f"id: {id}\n"
    named = "" if kind == "message" else f"event: {kind}\n"
    return f"{of}{named}data: {data}\n\n"
