"""What one delivery changes, and the views and bundles that put it together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from reactive_sqlite.delivery import Parcel
from reactive_sqlite.signals.external import External


class Publication:
    """What one delivery changes: nodes of the signal graph, and subscribers to be told."""

    __slots__ = ("bundles", "nodes", "parcels")

    def __init__(self) -> None:
        self.nodes: list[tuple[External[Any], Any]] = []
        self.parcels: list[Parcel] = []
        self.bundles: dict[Bundle, None] | None = None

    def tell(self, bundles: Iterable[Bundle]) -> None:
        """Let the bundles be told, each once."""
        if self.bundles is None:
            self.bundles = {}
        self.bundles.update(dict.fromkeys(bundles))


class Bundle(Protocol):
    """A subscriber to several queries at once."""

    def collect(self, publication: Publication) -> None: ...
    def end(self, error: BaseException | None) -> None: ...


class View(Protocol):
    """How the broker sees an observable query."""

    @property
    def wanted(self) -> bool: ...
    def renew(self, publication: Publication) -> None: ...
    def idle(self, publication: Publication) -> None: ...
    def begin(self) -> None: ...
    def fail(self, error: Exception) -> None: ...
    def end(
        self, error: BaseException | None, reason: BaseException, publication: Publication
    ) -> None: ...
    def lapse(self, reason: BaseException) -> None: ...
