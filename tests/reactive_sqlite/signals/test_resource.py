"""Resources: fetching by a source, late answers, errors, refetching and disposal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from reactive_sqlite import (
    Resource,
    create_effect,
    create_resource,
    create_root,
    create_signal,
)
from tests.reactive_sqlite.signals.turning import turns, until


class Server:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, bool]] = []
        self.answers: dict[int, asyncio.Future[str]] = {}
        self.cancelled: list[int] = []

    async def fetch(self, value: int, /, *, refetching: bool) -> str:
        self.calls.append((value, refetching))
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.answers[value] = answer
        try:
            return await answer
        except asyncio.CancelledError:
            self.cancelled.append(value)
            raise

    async def answer(self, value: int, text: str) -> None:
        await until(lambda: value in self.answers)
        self.answers.pop(value).set_result(text)
        await turns()

    async def fail(self, value: int, error: Exception) -> None:
        await until(lambda: value in self.answers)
        self.answers.pop(value).set_exception(error)
        await turns()


async def test_it_loads_and_then_has_its_value() -> None:
    server = Server()
    resource = create_resource(lambda: 1, server.fetch, initial="nothing yet")
    seen: list[tuple[bool, str | None]] = []
    effect = create_effect(lambda: seen.append((resource.loading(), resource())))
    assert resource.loading()
    await server.answer(1, "one")
    assert seen == [(True, "nothing yet"), (False, "one")], "value and state change together"
    assert (resource.latest(), resource.error(), resource.peek()) == ("one", None, "one")
    assert server.calls == [(1, False)]
    effect.dispose()
    resource.dispose()


async def test_a_resource_whose_creation_raises_follows_and_fetches_nothing() -> None:
    server = Server()
    source, set_source = create_signal(1)
    told, tell = create_signal(0)

    def fails_when_told() -> None:
        if told():
            raise ValueError("woken by the source")

    other = create_effect(fails_when_told)
    with pytest.raises(ValueError, match="woken by the source"):
        create_resource(lambda: tell(source()), server.fetch)
    other.dispose()
    await turns()
    set_source(2)
    await turns()
    assert server.calls == [], "nobody has a handle to it"


async def test_a_source_of_none_fetches_nothing() -> None:
    server = Server()
    source, set_source = create_signal(cast("int | None", None))
    resource = create_resource(source, server.fetch)
    await turns()
    assert (resource(), resource.loading(), server.calls) == (None, False, [])
    set_source(1)
    await server.answer(1, "one")
    assert resource() == "one"
    set_source(2)
    await until(lambda: 2 in server.answers)
    set_source(None)
    await turns()
    assert server.cancelled == [2]
    assert (resource(), resource.loading()) == ("one", False), "the last value stays"
    resource.dispose()


async def test_a_late_answer_of_an_old_source_never_overwrites_a_new_one() -> None:
    release = asyncio.Event()
    source, set_source = create_signal(1)

    async def stubborn(value: int, /, *, refetching: bool) -> str:
        if value == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await release.wait()  # ignores its cancellation and answers late
        return f"answer {value}"

    resource = create_resource(source, stubborn)
    await turns()
    set_source(2)
    await until(lambda: resource.peek() == "answer 2")
    release.set()
    await turns()
    assert resource() == "answer 2"
    assert not resource.loading()
    resource.dispose()


async def test_a_change_of_the_source_cancels_the_fetch_under_way() -> None:
    server = Server()
    source, set_source = create_signal(1)
    resource = create_resource(source, server.fetch)
    await until(lambda: 1 in server.answers)
    set_source(2)
    await server.answer(2, "two")
    assert server.cancelled == [1]
    assert resource() == "two"
    resource.dispose()


async def test_the_last_value_stays_while_the_next_is_fetched() -> None:
    server = Server()
    source, set_source = create_signal(1)
    resource = create_resource(source, server.fetch)
    await server.answer(1, "one")
    set_source(2)
    assert (resource(), resource.loading()) == ("one", True)
    await server.answer(2, "two")
    resource.dispose()


async def test_an_error_is_told_and_raised_and_the_latest_value_kept() -> None:
    server = Server()
    source, set_source = create_signal(1)
    resource = create_resource(source, server.fetch)
    await server.answer(1, "one")
    set_source(2)
    await server.fail(2, ValueError("no answer"))
    assert isinstance(resource.error(), ValueError)
    with pytest.raises(ValueError, match="no answer"):
        resource()
    with pytest.raises(ValueError, match="no answer"):
        resource.peek()
    assert resource.latest() == "one"
    set_source(3)
    assert resource() == "one", "while another fetch is under way nothing is raised"
    await server.answer(3, "three")
    assert (resource(), resource.error()) == ("three", None)
    resource.dispose()


async def test_refetching_asks_again_and_says_so() -> None:
    server = Server()
    resource = create_resource(lambda: 1, server.fetch)
    await server.answer(1, "one")
    done = resource.refetch()
    assert resource.loading()
    await server.answer(1, "one again")
    await done
    assert resource() == "one again"
    assert server.calls == [(1, False), (1, True)]
    resource.dispose()


async def test_awaiting_a_refetch_lasts_until_nothing_is_loading_any_more() -> None:
    server = Server()
    source, set_source = create_signal(1)
    resource = create_resource(source, server.fetch)
    await server.answer(1, "one")
    done = resource.refetch()
    await until(lambda: 1 in server.answers)
    set_source(2)
    await turns()
    assert not done.done()
    await server.answer(2, "two")
    await done
    again = resource.refetch()
    resource.dispose()
    await asyncio.wait_for(again, 10)


async def test_refetching_without_a_source_is_done_at_once() -> None:
    server = Server()
    nothing: Callable[[], int | None] = lambda: None  # noqa: E731
    resource = create_resource(nothing, server.fetch)
    await asyncio.wait_for(resource.refetch(), 10)
    assert server.calls == []
    resource.dispose()


async def test_mutate_sets_the_value_without_a_fetch() -> None:
    server = Server()
    resource = create_resource(lambda: 1, server.fetch)
    await server.answer(1, "one")
    seen: list[str | None] = []
    effect = create_effect(lambda: seen.append(resource()))
    assert resource.mutate("mine") == "mine"
    assert resource.mutate(lambda value: f"{value}!") == "mine!"
    assert seen == ["one", "mine", "mine!"]
    assert server.calls == [(1, False)]
    effect.dispose()
    resource.dispose()


async def test_a_function_may_be_a_fetched_value() -> None:
    def answer() -> int:
        return 42

    async def fetch(value: int, /, *, refetching: bool) -> Callable[[], int]:
        return answer

    resource: Resource[Callable[[], int]] = create_resource(lambda: 1, fetch)
    await until(lambda: not resource.loading())
    assert resource() is answer
    resource.dispose()


async def test_the_fetcher_is_not_tracked() -> None:
    other, set_other = create_signal(0)
    calls: list[int] = []

    async def fetch(value: int, /, *, refetching: bool) -> int:
        calls.append(other())
        await asyncio.sleep(0)
        return other()

    resource = create_resource(lambda: 1, fetch)
    await until(lambda: not resource.loading())
    set_other(1)
    await turns()
    assert calls == [0]
    resource.dispose()


async def test_the_owners_disposal_cancels_the_fetch_and_follows_no_longer() -> None:
    server = Server()
    source, set_source = create_signal(1)

    def body(dispose: Callable[[], None]) -> tuple[Callable[[], None], Resource[str]]:
        return dispose, create_resource(source, server.fetch)

    dispose, resource = create_root(body)
    await until(lambda: 1 in server.answers)
    dispose()
    await turns()
    assert server.cancelled == [1]
    assert not resource.loading()
    set_source(2)
    await turns()
    assert server.calls == [(1, False)]


async def test_the_source_may_change_on_another_thread() -> None:
    asyncio.get_running_loop().set_debug(True)  # then it refuses what would not wake it up
    server = Server()
    source, set_source = create_signal(1)
    resource = create_resource(source, server.fetch)
    await server.answer(1, "one")
    await asyncio.to_thread(set_source, 2)
    assert resource.loading()
    await server.answer(2, "two")
    assert resource() == "two"
    resource.dispose()


async def test_an_error_of_an_effect_after_a_fetch_goes_to_the_loops_handler() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    server = Server()
    resource = create_resource(lambda: 1, server.fetch)

    def fail() -> None:
        if resource() == "one":
            raise LookupError("in an effect")

    effect = create_effect(fail)
    await server.answer(1, "one")
    assert [type(context["exception"]) for context in complaints] == [LookupError]
    assert [context["message"] for context in complaints] == ["an effect failed after a fetch"]
    assert resource() == "one"
    effect.dispose()
    resource.dispose()


async def test_a_fetch_cancelled_by_somebody_else_is_no_longer_loading() -> None:
    async def fetch(value: int, /, *, refetching: bool) -> int:
        raise asyncio.CancelledError

    resource = create_resource(lambda: 1, fetch)
    await until(lambda: not resource.loading())
    assert resource() is None
    resource.dispose()


def test_without_a_loop_it_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="event loop"):
        create_resource(lambda: 1, Server().fetch)
