"""What is known of a `with` block around the open transaction, which is to be committed whole."""

from __future__ import annotations

from collections.abc import Callable

from reactive_sqlite.dialect import sqlite3


class Grouping:
    """A block whose writes are one transaction: all of them are committed at its end, or none.

    SQLite rolls a whole transaction back for some errors (`OR ROLLBACK`, an interrupt), and goes on
    as outside of any: what the block writes after having caught such an error would be committed by
    itself. Nothing is run any more, therefore, until the block has been left.

    Attributes:
        sealed: whether only its end may commit; a `with connection` block may commit by itself.
        inner: how many `with connection` blocks are open in it, each a savepoint.
        ended: what tells the ledger how its transaction has ended, once that was too early.
        cause: the error that ended it.
    """

    __slots__ = ("cause", "ended", "inner", "sealed")

    def __init__(self, *, sealed: bool) -> None:
        self.sealed = sealed
        self.inner = 0
        self.ended: Callable[[], None] | None = None
        self.cause: BaseException | None = None

    def end(self, tell: Callable[[], None], cause: BaseException | None = None) -> None:
        """Its transaction has ended before it: that is told, and others come, when it ends too."""
        if self.ended is None:
            self.ended, self.cause = tell, cause

    def error(self) -> sqlite3.OperationalError:
        """Why nothing can be run in it any more."""
        error = sqlite3.OperationalError(
            "the transaction of this block has been rolled back: nothing more can be done in it"
        )
        error.__cause__ = self.cause
        return error
