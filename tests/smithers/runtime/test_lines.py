"""Lines of a client: whole however they come, and none that its library would pass over."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from smithers.runtime.lines import AHEAD, TOO_DEEP, lines_of, readable


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


async def test_lines_are_whole_however_they_come(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    lines = lines_of(reading)
    os.write(writing, b"one\ntw")
    assert await anext(lines) == "one"
    os.write(writing, b"o\n\nthr\xc3")
    assert [await anext(lines), await anext(lines)] == ["two", ""]
    os.write(writing, b"\xa4e\xff")
    os.close(writing)
    assert [line async for line in lines] == ["thräe\ufffd"], "the last one without its end"


async def test_a_line_may_be_longer_than_any_buffer(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    long = b"x" * 3_000_000

    def write() -> None:
        with os.fdopen(writing, "wb") as client:
            client.write(long + b"\nshort\n")

    sent = asyncio.create_task(asyncio.to_thread(write))
    assert [len(line) async for line in lines_of(reading)] == [len(long), len("short")]
    await sent


async def test_a_reader_that_falls_behind_misses_nothing(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    sent = [str(number) for number in range(20 * AHEAD)]
    os.write(writing, "\n".join(sent).encode())
    os.close(writing)
    assert [line async for line in lines_of(reading)] == sent


async def _given(*lines: str) -> AsyncIterator[str]:
    for line in lines:
        yield line


def _asking(value: Any) -> str:
    params = {"name": "state_set", "arguments": {"key": "k", "value": value}}
    return json.dumps({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})


def _nested(depth: int) -> Any:
    return json.loads("[" * depth + "]" * depth)


async def test_what_is_nested_too_deeply_is_replaced_by_what_will_be_refused() -> None:
    (line,) = [line async for line in readable(_given(_asking(_nested(300))))]
    asked = json.loads(line)
    assert (asked["id"], asked["method"]) == (5, "tools/call")
    assert asked["params"] == {"name": "state_set", "arguments": {TOO_DEEP: None}}


async def test_all_else_is_left_as_it_is() -> None:
    lines = [
        _asking(1),
        _asking(_nested(100)),
        _asking([[]] * 1_000),
        _asking("[" * 1_000),
        "[" * 300,
        "[" * 300 + "]" * 300,
        "[" * 100_000 + "]" * 100_000,
        "no json {" * 300,
    ]
    assert [line async for line in readable(_given(*lines))] == lines
