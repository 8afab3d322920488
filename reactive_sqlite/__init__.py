"""Reactive state over SQLite: Solid-style signals, and queries that re-emit, whoever writes.

Importing this package loads nothing heavy: each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .asyncfeed import AsyncFeed
    from .bridge import from_observable, to_observable
    from .changes import ChangeSet, RowChange
    from .consumers import Change, FeedStatus
    from .database import Database
    from .dialect import sqlite3
    from .diff import Diff
    from .errors import (
        ConsumerDropped,
        CycleError,
        DatabaseClosed,
        DatabaseReplaced,
        NotReady,
        NotTracked,
        ReactiveError,
        Untrackable,
    )
    from .feed import Feed
    from .observation import ObservableQuery
    from .region import Region
    from .signals import (
        Accessor,
        Effect,
        Owner,
        Resource,
        Setter,
        batch,
        catch_error,
        create_effect,
        create_memo,
        create_resource,
        create_root,
        create_signal,
        get_owner,
        on,
        on_cleanup,
        run_with_owner,
        untrack,
    )

__all__ = [
    "Accessor",
    "AsyncFeed",
    "Change",
    "ChangeSet",
    "ConsumerDropped",
    "CycleError",
    "Database",
    "DatabaseClosed",
    "DatabaseReplaced",
    "Diff",
    "Effect",
    "Feed",
    "FeedStatus",
    "NotReady",
    "NotTracked",
    "ObservableQuery",
    "Owner",
    "ReactiveError",
    "Region",
    "Resource",
    "RowChange",
    "Setter",
    "Untrackable",
    "batch",
    "catch_error",
    "create_effect",
    "create_memo",
    "create_resource",
    "create_root",
    "create_signal",
    "from_observable",
    "get_owner",
    "on",
    "on_cleanup",
    "run_with_owner",
    "sqlite3",
    "to_observable",
    "untrack",
]

_ROOMS = {
    "AsyncFeed": "asyncfeed",
    "Change": "consumers",
    "ChangeSet": "changes",
    "ConsumerDropped": "errors",
    "CycleError": "errors",
    "Database": "database",
    "DatabaseClosed": "errors",
    "DatabaseReplaced": "errors",
    "Diff": "diff",
    "Feed": "feed",
    "FeedStatus": "consumers",
    "NotReady": "errors",
    "NotTracked": "errors",
    "ObservableQuery": "observation",
    "ReactiveError": "errors",
    "Region": "region",
    "RowChange": "changes",
    "Untrackable": "errors",
    "from_observable": "bridge",
    "sqlite3": "dialect",
    "to_observable": "bridge",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_ROOMS.get(name, 'signals')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
