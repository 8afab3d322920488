"""Tokens that a model has used, counted once for each message however often it is told."""

from __future__ import annotations

from collections.abc import Mapping


class Usage:
    """The tokens of one agent: `total`, by name."""

    def __init__(self) -> None:
        self.total = {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0}
        self._of: dict[str, Mapping[str, int]] = {}
        # What has been told since the last settlement, and which messages are settled.
        self._unsettled = dict.fromkeys(self.total, 0)
        self._settled: set[str] = set()

    def add(self, message_id: str, tokens: Mapping[str, int]) -> None:
        """Count a message, or count it again: it may have grown meanwhile."""
        if message_id in self._settled:
            return
        known = self._of.get(message_id, {})
        grown = {name: max(tokens.get(name, 0), known.get(name, 0)) for name in self.total}
        self._of[message_id] = grown
        for name, count in grown.items():
            more = count - known.get(name, 0)
            self.total[name] += more
            self._unsettled[name] += more

    def settle(self, tokens: Mapping[str, int]) -> None:
        """Take the sum over all messages since the last settlement; it is never less than theirs.

        A message is told before its last token is counted, so the sum may be more.
        """
        for name, count in self._unsettled.items():
            self.total[name] += max(tokens.get(name, 0) - count, 0)
            self._unsettled[name] = 0
        self._settled.update(self._of)
        self._of.clear()
