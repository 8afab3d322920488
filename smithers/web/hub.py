"""One observed query for all pages that follow a topic, and the database that comes and goes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reactivex.abc import DisposableBase

from reactive_sqlite.dialect import sqlite3
from reactive_sqlite.errors import DatabaseClosed, DatabaseReplaced, ReactiveError
from reactive_sqlite.worker import Worker, post
from smithers.db import SmithersDB, open_smithers_db
from smithers.errors import SmithersError
from smithers.jsontext import json_text
from smithers.web.items import Item, difference, digest, listed
from smithers.web.topics import Seen, Topic, UnknownTopic, topic
from smithers.web.wire import event_text

# How often it is looked at what no commit tells, and whether a lost database is back.
LOOK_SECONDS = 2.0
RETRY_SECONDS = 0.3
MOST_NOTICES = 100
# What opening a database or reading from it may end with.
TROUBLE = (SmithersError, ReactiveError, sqlite3.Error, OSError)


@dataclass(frozen=True, slots=True)
class Emission:
    """What a topic has come to, encoded once.

    `version` tells two contents apart, whichever process has read them; `diff` makes it out of
    the one with the version `base`.
    """

    seq: int
    version: str
    items: Sequence[Item]
    value: str
    base: str | None = None
    diff: str | None = None


class Channel:
    """A topic that somebody follows; but for `take` used on the event loop only."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.streams: set[Stream] = set()
        self.current: Emission | None = None
        self.error: str | None = None
        # These belong to the worker.
        self.topic: Topic | None = None
        self.subscription: DisposableBase | None = None
        self.ended = False  # by an error, and is to be followed anew
        self._newest: Emission | None = None

    def forget(self) -> None:
        """Take what is seen next for new, whatever it is; before it is followed."""
        self._newest = None

    def take(self, seen: Seen) -> Emission | None:
        """Encode what was seen, on the thread that tells it; None when it is as before."""
        value = listed(seen.items)
        version = digest(value)
        before = self._newest
        if before is not None and before.version == version:
            return None
        diff = None if before is None else difference(before.items, seen.items)
        base = None if before is None or diff is None else before.version
        self._newest = Emission(seen.seq, version, seen.items, value, base, diff)
        return self._newest

    def show(self, emission: Emission) -> None:
        """Let every stream send it."""
        self.current, self.error = emission, None
        for stream in self.streams:
            stream.due(self)

    def fail(self, error: str) -> None:
        """Let every stream say that there is nothing to be seen, and why."""
        if error == self.error:
            return  # said already
        self.error = error
        for stream in self.streams:
            stream.due(self)


class Stream:
    """What one page is sent: of each topic the newest, never more than it has room for.

    The id of an event says what the page has seen: the number of the change log, and a version of
    each topic that it asked for, in their order. A page that comes back with it is sent what it
    has not seen, and nothing else.
    """

    def __init__(self, channels: Sequence[Channel], last_id: str | None, hello: str) -> None:
        self._channels = channels
        self._sent = _versions(last_id, len(channels))
        self._seq = 0
        self._due: dict[Channel, None] = {}
        # The newest, since a page may be asleep for days while its connection stands.
        self._notices = deque([event_text("hello", hello)], maxlen=MOST_NOTICES)
        self._ended = False
        self._woken = asyncio.Event()
        self._woken.set()
        for channel in channels:
            channel.streams.add(self)
            if channel.current is not None or channel.error is not None:
                self.due(channel)

    def due(self, channel: Channel) -> None:
        self._due[channel] = None
        self._woken.set()

    def notice(self, text: str) -> None:
        """Send an event that belongs to no topic."""
        self._notices.append(text)
        self._woken.set()

    def end(self) -> None:
        self._ended = True
        self._woken.set()

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> bytes:
        while True:
            if self._notices:
                text = "".join(self._notices)
                self._notices.clear()
                return text.encode()
            if self._ended:
                raise StopAsyncIteration
            while self._due:
                channel = next(iter(self._due))
                del self._due[channel]
                text = self._event(channel)
                if text:
                    return text.encode("utf-8", "replace")
            self._woken.clear()
            await self._woken.wait()

    def _event(self, channel: Channel) -> str:
        name = json_text(channel.name)
        place = self._channels.index(channel)
        if channel.error is not None:
            self._sent[place] = ""  # the page shows the error in the place of what it had
            return event_text("failed", f'{{"topic":{name},"error":{json_text(channel.error)}}}')
        emission = channel.current
        if emission is None or self._sent[place] == emission.version:
            return ""
        follows = emission.diff is not None and self._sent[place] == emission.base
        self._sent[place] = emission.version
        self._seq = max(self._seq, emission.seq)
        id = f"{self._seq}-{'.'.join(self._sent)}"
        if follows:
            return event_text("diff", f'{{"topic":{name},"diff":{emission.diff}}}', id)
        return event_text("value", f'{{"topic":{name},"value":{emission.value}}}', id)


class Hub:
    """Follows the database for all pages."""

    def __init__(
        self,
        path: Path,
        *,
        hello: Callable[[], dict[str, object]],
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._path = path
        self._hello = hello
        self._tell_lost = lost
        self._worker = Worker("smithers-ui")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._channels: dict[str, Channel] = {}
        self._streams: set[Stream] = set()
        self._db: SmithersDB | None = None  # the worker's
        self._gone: str | None = "it has not been opened yet"
        self._tasks: list[asyncio.Task[None]] = []
        self._lost = asyncio.Event()
        self._closed = False

    async def start(self) -> None:
        """Open the database. Raises what `create_smithers_db` raises."""
        self._loop = asyncio.get_running_loop()
        await self._worker.run(self._open)
        self._gone = None
        self._tasks = [
            self._loop.create_task(self._look_again_and_again()),
            self._loop.create_task(self._reopen_when_lost()),
        ]

    async def close(self) -> None:
        """End all streams and close the database."""
        self.end_streams()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._worker.run(self._shut)
        self._worker.close()

    def end_streams(self) -> None:
        """Let every stream end by itself, so that the server need not wait for its reader."""
        self._closed = True
        for stream in self._streams:
            stream.end()

    @property
    def followed(self) -> list[str]:
        """The topics that somebody follows."""
        return list(self._channels)

    @property
    def database(self) -> SmithersDB | None:
        """The handle through which all is followed; None while there is no database."""
        return self._db

    def open_stream(self, names: Sequence[str], last_id: str | None) -> Stream:
        """Begin to follow topics; give the stream back by `leave`."""
        channels = [self._channel(name) for name in dict.fromkeys(names)]
        stream = Stream(channels, last_id, json_text(self._hello()))
        self._streams.add(stream)
        if self._gone is not None:
            stream.notice(_gone(self._gone))
        if self._closed:
            stream.end()
        return stream

    def leave(self, stream: Stream) -> None:
        """Take a stream back; what nobody follows any more is no longer fetched."""
        self._streams.discard(stream)
        for channel in list(self._channels.values()):
            channel.streams.discard(stream)
            if not channel.streams:
                del self._channels[channel.name]
                self._submit(partial(_dispose, channel))

    # -- on the event loop -----------------------------------------------------------------------

    def _channel(self, name: str) -> Channel:
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = Channel(name)
            self._submit(partial(self._follow, channel))
        return channel

    def _submit(self, job: Callable[[], None]) -> None:
        if not self._closed:
            self._worker.submit(job)

    def _lose(self, reason: str) -> None:
        if self._gone is None and not self._closed:
            self._gone = reason
            self._lost.set()
            self._tell_lost()
            for stream in self._streams:
                stream.notice(_gone(reason))

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._gone is None and self._channels:
                await self._worker.run(self._look, list(self._channels.values()))

    async def _reopen_when_lost(self) -> None:
        while True:
            await self._lost.wait()
            self._lost.clear()
            await self._worker.run(self._shut)
            # Nothing announces that a file is there again, wherever its directory may have gone.
            while not await self._worker.run(self._opens):  # noqa: ASYNC110
                await asyncio.sleep(RETRY_SECONDS)
            self._gone = None
            for stream in self._streams:
                stream.notice(event_text("back", json_text(self._hello())))
            for channel in self._channels.values():
                self._submit(partial(self._follow, channel))

    # -- on the worker ---------------------------------------------------------------------------

    def _open(self) -> None:
        self._db = open_smithers_db(
            self._path,
            reset=False,
            read_only=True,
            synchronous="NORMAL",
            busy_timeout=5.0,
            watch=True,
            on_observer_error=self._report,
        )

    def _opens(self) -> bool:
        try:
            self._open()
        except TROUBLE:
            return False  # not yet
        return True

    def _shut(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def _follow(self, channel: Channel) -> None:
        if self._db is None:
            return  # it is followed when the database is back

        def tell(seen: Seen) -> None:
            emission = channel.take(seen)
            if emission is not None:
                self._post(channel.show, emission)

        def fail(error: Exception) -> None:
            channel.ended = channel.topic is not None and not channel.topic.goes_on
            if not self._is_lost(error):
                channel.forget()
                self._post(channel.fail, str(error))

        _dispose(channel)
        channel.forget()
        try:
            channel.topic = topic(self._db, channel.name)
            channel.subscription = channel.topic.follow(tell, fail)
        except (UnknownTopic, *TROUBLE) as error:
            fail(error)

    def _look(self, channels: Sequence[Channel]) -> None:
        try:
            for channel in channels:
                if channel.ended:  # what it reads may be well again
                    self._follow(channel)
                elif channel.topic is not None:
                    channel.topic.look()
        except TROUBLE as error:
            if not self._is_lost(error):
                self._report(error)

    # -- on any thread ---------------------------------------------------------------------------

    def _is_lost(self, error: Exception) -> bool:
        """Tell whether the database was replaced or removed, and then say so to all pages."""
        if isinstance(error, DatabaseReplaced):
            self._post(self._lose, str(error))
        return isinstance(error, DatabaseReplaced | DatabaseClosed)

    def _report(self, error: BaseException) -> None:
        text = event_text("trouble", json_text({"error": str(error)}))
        self._post(self._tell_all, text)

    def _tell_all(self, text: str) -> None:
        for stream in self._streams:
            stream.notice(text)

    def _post(self, fn: Callable[..., object], *args: object) -> None:
        if self._loop is not None:
            post(self._loop, fn, *args)


def _gone(reason: str) -> str:
    return event_text("gone", json_text({"reason": reason}))


def _versions(last_id: str | None, count: int) -> list[str]:
    """Read what a page says that it has seen; nothing where it makes no sense."""
    versions = (last_id or "").partition("-")[2].split(".")
    return versions if len(versions) == count else [""] * count


def _dispose(channel: Channel) -> None:
    if channel.subscription is not None:
        channel.subscription.dispose()
    channel.topic = channel.subscription = None
    channel.ended = False
