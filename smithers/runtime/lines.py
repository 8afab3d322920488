"""The lines that a client of stdin writes, as the event loop sees them."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Any, cast

# So many lines are read ahead of those that are answered.
AHEAD = 16
TOO_DEEP = "nested more deeply than this server can read"
_AT_ONCE = 1 << 16
# The library reads JSON of 200 levels at most, and a line of fewer brackets has fewer levels.
_HARMLESS = 190


async def lines_of(fd: int) -> AsyncIterator[str]:
    """Read lines until the end, in a thread that never holds up the end of the process."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()
    room = threading.Semaphore(AHEAD)

    def put(line: bytes | None) -> None:
        room.acquire()
        loop.call_soon_threadsafe(queue.put_nowait, line)

    def read() -> None:
        try:
            for line in _lines(fd):
                put(line)
            put(None)
        except RuntimeError:
            return  # the loop is closed, and nobody is served any more

    # A daemon, and on the descriptor itself: a lock of `sys.stdin` could not be taken at exit.
    threading.Thread(target=read, name="smithers-stdin", daemon=True).start()
    while (line := await queue.get()) is not None:
        room.release()
        yield line.decode("utf-8", errors="replace")


def _lines(fd: int) -> Iterator[bytes]:
    begun: list[bytes] = []
    while chunk := _read(fd):
        *whole, rest = chunk.split(b"\n")
        for end in whole:
            yield b"".join((*begun, end))
            begun.clear()
        begun.append(rest)
    if last := b"".join(begun):
        yield last


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _AT_ONCE)
    except OSError:
        return b""  # what a terminal says when it is gone


async def readable(lines: AsyncIterable[str]) -> AsyncIterator[str]:
    """Put an argument that no tool takes in the place of those that the library cannot read.

    It would pass over such a call, and who has made it would wait for ever.
    """
    async for line in lines:
        deep = line.count("[") + line.count("{") > _HARMLESS
        yield _shallow(line) if deep else line


def _shallow(line: str) -> str:
    try:
        message: Any = json.loads(line)
    except (ValueError, RecursionError):
        return line  # nobody can tell what it asks
    if _depth(message) <= _HARMLESS or not isinstance(message, dict):
        return line
    asked = cast("dict[str, Any]", message)
    params = asked.get("params")
    name = cast("dict[str, Any]", params).get("name") if isinstance(params, dict) else None
    return json.dumps({**asked, "params": {"name": str(name), "arguments": {TOO_DEEP: None}}})


def _depth(value: object) -> int:
    """Count the levels of a value; not by calls, of which Python has too few."""
    depth, level = 0, [value]
    while level:
        depth += 1
        inner: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inner += cast("dict[str, object]", one).values()
            elif isinstance(one, list):
                inner += cast("list[object]", one)
        level = inner
    return depth
