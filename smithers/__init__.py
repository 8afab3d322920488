"""Workflow state in SQLite: key-value with history, time travel and live observation.

Names load on first use, so that importing this package opens nothing and loads no heavy library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smithers.aio import (
        AsyncSmithersDB,
        AsyncStateKey,
        AsyncStateStore,
        create_async_smithers_db,
    )
    from smithers.db import SmithersDB, create_smithers_db
    from smithers.errors import (
        CannotOpen,
        NotADatabase,
        NotFound,
        ReadOnly,
        SchemaTooNew,
        SmithersError,
        StateTypeError,
        TransitionNotFound,
    )
    from smithers.records import StateEntry, Transition
    from smithers.storage.keys import StateKey

__version__ = "0.1.0"

__all__ = [
    "AsyncSmithersDB",
    "AsyncStateKey",
    "AsyncStateStore",
    "CannotOpen",
    "NotADatabase",
    "NotFound",
    "ReadOnly",
    "SchemaTooNew",
    "SmithersDB",
    "SmithersError",
    "StateEntry",
    "StateKey",
    "StateTypeError",
    "Transition",
    "TransitionNotFound",
    "create_async_smithers_db",
    "create_smithers_db",
]

_ERRORS = (
    "CannotOpen",
    "NotADatabase",
    "NotFound",
    "ReadOnly",
    "SchemaTooNew",
    "SmithersError",
    "StateTypeError",
    "TransitionNotFound",
)
_HOMES = {
    **dict.fromkeys(_ERRORS, "smithers.errors"),
    "AsyncSmithersDB": "smithers.aio",
    "AsyncStateKey": "smithers.aio",
    "AsyncStateStore": "smithers.aio",
    "SmithersDB": "smithers.db",
    "StateEntry": "smithers.records",
    "StateKey": "smithers.storage.keys",
    "Transition": "smithers.records",
    "create_async_smithers_db": "smithers.aio",
    "create_smithers_db": "smithers.db",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
