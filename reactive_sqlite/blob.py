"""A handle to one blob, whose writes are noticed although they fire no trigger."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal


class Blob:
    """What `Connection.blobopen` returns: sqlite3.Blob with the same methods.

    An open writable blob is like an open transaction: other threads wait until it is closed.
    """

    def __init__(self, blob: Any, on_close: Callable[[bool], None]) -> None:
        self._blob = blob
        self._on_close: Callable[[bool], None] | None = on_close
        self._wrote = False

    def write(self, data: bytes, /) -> None:
        self._wrote = True
        self._blob.write(data)

    def __setitem__(self, key: Any, value: Any, /) -> None:
        self._wrote = True
        self._blob[key] = value

    def close(self) -> None:
        on_close, self._on_close = self._on_close, None
        self._blob.close()
        if on_close is not None:
            on_close(self._wrote)

    def __getitem__(self, key: Any, /) -> Any:
        return self._blob[key]

    def __len__(self) -> int:
        return len(self._blob)

    def __enter__(self) -> Blob:
        self._blob.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> Literal[False]:
        self.close()
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blob, name)  # read, seek, tell
