"""The sqlite3 connection that threads share: one statement at a time, one thread's transaction."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NoReturn

from reactive_sqlite.dialect import sqlite3
from reactive_sqlite.errors import DatabaseClosed
from reactive_sqlite.forks import ELSEWHERE, NO_COPY, is_of_this_process
from reactive_sqlite.grouping import Grouping
from reactive_sqlite.turnstile import Turnstile

is_in_transaction: Callable[[Any], bool] = vars(sqlite3.Connection)["in_transaction"].__get__
"""Whether any thread is, as SQLite says; the property in C, which the one below covers."""


class SharedConnection(sqlite3.Connection):
    """An autocommit connection that may be used from many threads, one statement at a time.

    An open transaction, however it was begun, belongs to the thread that began it: other threads
    wait for its end, at most `busy_timeout` seconds, then get "database is locked".
    """

    def __init__(self, *args: Any, busy_timeout: float = 5.0, **kwargs: Any) -> None:
        kwargs.update(isolation_level=None, check_same_thread=False, timeout=busy_timeout)
        super().__init__(*args, **kwargs)
        self.turn = Turnstile(busy_timeout)
        self.closed = False
        self.ended_by: Exception | None = None  # what closed it, if it was not its user
        self._grouping: Grouping | None = None  # of the `with` block around the open transaction
        self._depth = 0  # statements running inside statements (a Python function called by SQL)
        is_of_this_process(self)

    @property
    def in_transaction(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether this thread is inside an open transaction; False once closed.

        One of another thread is nothing that this one could commit.
        """
        return self.owned_here()

    @property
    def isolation_level(self) -> None:
        """Always None; setting it through the C attribute would commit behind our back."""
        return None

    @isolation_level.setter
    def isolation_level(self, value: str | None) -> None:  # pyright: ignore
        if value is not None:
            raise ValueError(
                "this connection is always in autocommit mode; use db.transaction() or BEGIN"
            )

    @property
    def busy(self) -> bool:
        """Whether a transaction is open, of whatever thread.

        May be asked without the lock, and therefore asks no SQLite: the thread that runs a
        statement may hold SQLite's mutex while it waits for Python's, which we hold here.
        """
        return self.turn.owner > 0

    def owned_here(self) -> bool:
        """Whether this thread is inside the open transaction."""
        # While it is, no other thread is inside SQLite, so this one may ask it.
        return self.turn.is_mine() and not self.closed and (is_in_transaction(self) or self.broken)

    @property
    def broken(self) -> bool:
        """Whether the transaction has ended before the `with` block around it, which was to."""
        return self._grouping is not None and self._grouping.ended is not None

    @contextmanager
    def exclusive(self) -> Generator[None, None, None]:
        """Hold the lock for a `with` block; waits as long as the busy timeout for it, and for the
        end of another thread's transaction."""
        self._lock()
        try:
            yield
        finally:
            self.turn.release()

    def close(self) -> None:
        """Close the connection; an open transaction of this thread is rolled back."""
        with self.exclusive():
            if self.closed:
                return
            self.closed, self._grouping = True, None
            super().close()
            self.turn.disown()

    def closed_error(self) -> Exception:
        """Why every call fails now: it was closed, or its file is another one."""
        if self.ended_by is None:
            return DatabaseClosed("the database is closed")
        return type(self.ended_by)(*self.ended_by.args)

    def abandon(self) -> None:
        """Be closed in this process, which was forked from the one that opened it."""
        if self.closed:
            return
        self.closed, self.ended_by = True, DatabaseClosed(ELSEWHERE)
        if not self.turn.is_held_here():
            self.turn = Turnstile(self.turn.timeout)  # who held the other one is not here

    def __reduce__(self) -> NoReturn:
        raise TypeError(NO_COPY)

    def _check_open(self) -> None:
        if self.closed:
            raise self.closed_error()

    def _acquire(self) -> None:
        """Take the lock of an open connection, to be released by `turn`."""
        self._lock()
        if self.closed:
            self.turn.release()
            self._check_open()
        grouping = self._grouping
        if grouping is not None and grouping.ended is not None:
            self.turn.release()
            raise grouping.error()

    def _lock(self) -> None:
        turn = self.turn
        # Who is inside already never queues up behind those that wait to come in.
        inside = turn.owner < 0 and turn.is_held_here()
        if not turn.acquire():
            raise sqlite3.OperationalError("database is locked")
        if inside or not turn.owner:
            return
        try:
            if not turn.is_mine():
                if not turn.await_turn():
                    raise sqlite3.OperationalError("database is locked")
                if turn.is_mine():
                    self._take_over()
            if turn.is_mine() and not (self._depth or self.closed or is_in_transaction(self)):
                # It was ended past us, through a bare sqlite3.Cursor: who knows which way.
                if self._grouping is not None:
                    self._grouping.end(self._boundary)
                else:
                    turn.disown()
                    self._boundary()
        except BaseException:
            turn.release()
            raise

    def _take_over(self) -> None:
        """Roll back the transaction of a thread that is no more."""
        self._grouping = None
        super().rollback()
        self.turn.disown()

    def _boundary(self) -> None:
        """No transaction is open: see what has come of the last one. The lock is held."""

    def _keep_account(self) -> None:
        """Note who is inside a transaction after an error, the lock held.

        A signal's handler may have raised when SQLite had begun or ended one, and before that was
        noted: then all other threads would wait for an end that never comes.
        """
        if self._depth or self.closed:
            return
        if is_in_transaction(self):
            self.turn.own()
        elif self.turn.is_mine() and not self.broken:
            self.turn.disown()
