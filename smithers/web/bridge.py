"""An endpoint of any observed query, for the applications of others."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from reactivex.abc import DisposableBase
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from reactive_sqlite.arguments import check_callable, shown
from reactive_sqlite.asyncquery import AsyncObservableQuery
from reactive_sqlite.equality import kind_of
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.waiting import Slot
from reactive_sqlite.worker import post
from smithers.jsontext import json_text
from smithers.web.items import difference, digest, listed
from smithers.web.wire import EventStream, event_text

Query: TypeAlias = ObservableQuery[Any] | AsyncObservableQuery[Any]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def sse(
    query: Query | Callable[[Request], Query | Awaitable[Query]], *, diffs: bool = False
) -> Endpoint:
    """Make an endpoint of Starlette or FastAPI that sends a query's value, and each change of it.

    Server-sent events, so that a page needs but an `EventSource`: each is the value as JSON, a
    `message`. A page that was away is sent the value of now, and only where it differs from the one
    it has; a slow one skips what was overtaken. With `diffs`, for queries whose value is a list,
    there is an event `value` first and then `diff`: an array of `["remove", index]`,
    `["move", origin, index]`, `["insert", index, item]` and `["update", index, item]`, to be taken
    in order.

    `query` may be a function of the request that returns the query, at once or awaited. Who may
    come in is the application's affair: an endpoint like any other, it stands behind what it has
    for that.

    >>> app = FastAPI()
    >>> app.add_route("/orders", sse(db.observe("SELECT * FROM orders")))
    """
    check_callable(query, "sse: query")  # a query is one as well
    encoding = Encoding()

    async def endpoint(request: Request) -> Response:
        found: Any = query
        if not isinstance(query, ObservableQuery | AsyncObservableQuery):
            found = query(request)
            if inspect.isawaitable(found):
                found = await found
            if not issubclass(type(found), ObservableQuery | AsyncObservableQuery):
                raise TypeError(f"sse: query returns an observed query, not {shown(found)}")
        reader = Reader(
            encoding if found is query else Encoding(),
            request.headers.get("last-event-id"),
            diffs=diffs,
        )
        await reader.follow(found)
        return EventStream(reader, reader.leave)

    return endpoint


class Encoding:
    """The newest value as JSON, written once for all who are sent it."""

    def __init__(self) -> None:
        self._value: Any = self  # in the place of none
        self._text = ""
        self._version = ""

    def text(self, value: Any) -> tuple[str, str]:
        """Return the text of a value, and what tells it from others."""
        if value is not self._value:
            self._value, self._text = value, json_text(value)
            self._version = digest(self._text)
        return self._text, self._version


class Reader:
    """One page: the newest value that it was not sent."""

    def __init__(self, encoding: Encoding, last_id: str | None, *, diffs: bool) -> None:
        self._encoding = encoding
        self._sent = last_id
        self._diffs = diffs
        self._known: list[tuple[str, str]] | None = None
        self._slot: Slot[Any] = Slot()
        self._arrived = asyncio.Event()
        self._subscription: DisposableBase | None = None

    async def follow(self, query: Query) -> None:
        """Subscribe; an error of the first fetch of a synchronous query is raised here."""
        loop = asyncio.get_running_loop()

        def told(change: Callable[..., None], *args: Any) -> None:
            change(*args)
            self._arrived.set()

        def tell(change: Callable[..., None], *args: Any) -> None:
            post(loop, told, change, *args)

        def subscribe() -> DisposableBase:
            return query.subscribe(
                lambda value: tell(self._slot.put, value),
                lambda error: tell(self._slot.end, error),
                lambda: tell(self._slot.end),
            )

        # A synchronous one is fetched at once, which the event loop is not to wait for.
        ours = isinstance(query, AsyncObservableQuery)
        self._subscription = subscribe() if ours else await run_in_threadpool(subscribe)

    def leave(self) -> None:
        if self._subscription is not None:
            self._subscription.dispose()

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> bytes:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            text = self._event(self._slot.take()) if self._slot.filled else ""
            if self._slot.ended:
                self._arrived.set()
                if not text:
                    self._slot.raise_error()
                    raise StopAsyncIteration
            if text:
                return text.encode("utf-8", "replace")

    def _event(self, value: Any) -> str:
        if self._diffs:
            return self._difference(value)
        text, version = self._encoding.text(value)
        if version == self._sent:
            return ""
        self._sent = version
        return event_text("message", text, version)

    def _difference(self, value: Any) -> str:
        if kind_of(value) is not list:
            raise TypeError("diffs are for queries whose value is a list")
        texts = [json_text(row) for row in value]
        items = [(text, text) for text in texts]
        version = digest(listed(items))
        known, self._known = self._known, items
        if version == self._sent:
            return ""
        self._sent = version
        steps = None if known is None else difference(known, items)
        if steps is None:
            return event_text("value", listed(items), version)
        return event_text("diff", steps, version)
