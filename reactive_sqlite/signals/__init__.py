"""Signals, memos, effects and their ownership, as Solid has them."""

from __future__ import annotations

from .effect import create_effect, on
from .memo import create_memo
from .observer import Effect
from .owner import (
    catch_error,
    create_root,
    get_owner,
    on_cleanup,
    run_with_owner,
    untrack,
)
from .resource import Resource, create_resource
from .scheduler import batch
from .signal import Accessor, Setter, create_signal
from .state import Owner

__all__ = [
    "Accessor",
    "Effect",
    "Owner",
    "Resource",
    "Setter",
    "batch",
    "catch_error",
    "create_effect",
    "create_memo",
    "create_resource",
    "create_root",
    "create_signal",
    "get_owner",
    "on",
    "on_cleanup",
    "run_with_owner",
    "untrack",
]
