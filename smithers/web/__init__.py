"""The live view of a workflow database in a browser, and a bridge to pages of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smithers.web.bridge import sse

__all__ = ["sse"]


def __getattr__(name: str) -> Any:
    if name == "sse":
        from smithers.web.bridge import sse

        return sse
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
