"""What holds on one thread holds on a second one too, while the first records what it reads."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from types import ModuleType

import pytest

from reactive_sqlite import create_effect
from tests.reactive_sqlite.signals import (
    test_effect,
    test_graph,
    test_memo,
    test_owner,
    test_scheduler,
    test_signal,
)
from tests.reactive_sqlite.signals.background import run_in_thread

MODULES = (test_effect, test_graph, test_memo, test_owner, test_scheduler, test_signal)
# The stack of a new thread has room for other depths, and a long chain says nothing new here.
OF_DEPTH = ("chain", "stack", "too_deep")


def facts(module: ModuleType) -> list[Callable[[], None]]:
    """The tests of a module that need no fixture and no loop."""
    return [
        fact
        for name, fact in vars(module).items()
        if name.startswith("test_") and not any(word in name for word in OF_DEPTH)
        if not inspect.iscoroutinefunction(fact) and not inspect.signature(fact).parameters
    ]


@pytest.mark.parametrize(
    "fact",
    [pytest.param(fact, id=fact.__name__) for module in MODULES for fact in facts(module)],
)
def test_it_holds_beside_a_run_of_another_thread(fact: Callable[[], None]) -> None:
    begun, end = threading.Event(), threading.Event()

    def run() -> None:
        begun.set()
        assert end.wait(10)

    first = run_in_thread(lambda: create_effect(run))
    assert begun.wait(10)
    try:
        run_in_thread(fact).result()
    finally:
        end.set()
    first.result().dispose()
