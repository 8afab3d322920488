"""Server-sent events: as text, and as the answer that sends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from sse_starlette import EventSourceResponse
from starlette.types import Message, Receive, Scope, Send

# What passes events on may take a connection that is silent for long to be dead.
PING_SECONDS = 15
# For the end of an answer to a page that reads nothing any more, while the server ends.
LAST_SECONDS = 0.2


class EventStream(EventSourceResponse):
    """Sends events until the page, the server or the events themselves end, and then says so."""

    def __init__(self, events: AsyncIterator[bytes], left: Callable[[], object]) -> None:
        super().__init__(events, ping=PING_SECONDS)  # pyright: ignore[reportUnknownMemberType]
        self._left = left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = ended = False

        async def sending(message: Message) -> None:
            nonlocal begun, ended
            await send(message)
            begun = True
            if message["type"] == "http.response.body" and not message.get("more_body"):
                ended = True  # else left as it is: an event may be on its way as the page goes

        async def receiving() -> Message:
            nonlocal ended
            message = await receive()
            ended = ended or message["type"] == "http.disconnect"
            return message

        try:
            await super().__call__(scope, receiving, sending)
        finally:
            self._left()
        if ended:
            return
        # Cut short by the end of the server, which would complain of half an answer.
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                if not begun:
                    headers = self.raw_headers
                    await send({"type": "http.response.start", "status": 503, "headers": headers})
                await send({"type": "http.response.body", "body": b"", "more_body": False})


def event_text(kind: str, data: str, id: str | None = None) -> str:
    """Write an event; `data` is on one line, a `message` is what a page hears unasked."""
    of = "" if id is None else f"id: {id}\n"
    named = "" if kind == "message" else f"event: {kind}\n"
    return f"{of}{named}data: {data}\n\n"
