"""Server-sent events as text."""

from __future__ import annotations


def event_text(kind: str, data: str, id: str | None = None) -> str:
    """Write an event; `data` is on one line, a `message` is what a page hears unasked."""
    of = "" if id is None else f"id: {id}\n"
    named = "" if kind == "message" else f"event: {kind}\n"
    return f"{of}{named}data: {data}\n\n"
