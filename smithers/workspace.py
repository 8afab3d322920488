"""What the storage classes of one handle share: its database, clock, context and ownership."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from reactive_sqlite.connection import Connection
from reactive_sqlite.database import Database
from smithers.clock import Clock
from smithers.context import Context, Frame, Kind
from smithers.errors import ReadOnly, SchemaTooNew
from smithers.ownership import Ownership
from smithers.schema import APPLICATION_ID, SCHEMA_VERSION
from smithers.schema.history import NEXT_COMMIT

_NEXT = f"SELECT {NEXT_COMMIT}"
_GROUP = 'UPDATE transitions SET "commit" = :commit WHERE seq > :commit AND "commit" <> :commit'


class WorkflowDatabase(Database):
    """A `Database` whose outermost transactions number their transitions as one commit.

    Attributes:
        numbering: whether they do; False until the tables are there.
        before_commit: called inside each of them, when its block has ended.
    """

    numbering = False
    before_commit: Callable[[], None] | None = None
    _commit: int | None = None
    _number = 0  # of the outermost transaction begun last
    # For each transaction and savepoint under way, what is to be done should it be rolled back.
    _undo: tuple[list[Callable[[], object]], ...] = ()

    def accept(self, connection: Connection) -> None:
        """Raise SchemaTooNew for a file of a newer version, which is not to be touched."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if application == APPLICATION_ID and found > SCHEMA_VERSION:
            raise SchemaTooNew(str(self.path), found=found, supported=SCHEMA_VERSION)

    @property
    def commit_number(self) -> int | None:
        """The number of this thread's commit under way, or None outside `transaction()`."""
        number = self._commit
        # Another thread's number must not be taken along into the wait for its end.
        return number if number is None or self.conn.owned_here() else None

    @contextmanager
    def transaction(self) -> Generator[WorkflowDatabase]:
        """Group writes: one commit, one notification; nested ones are savepoints."""
        undone: list[Callable[[], object]] = []
        try:
            with super().transaction():
                outer, self._undo = self._undo, (*self._undo, undone)
                self._number += not outer
                try:
                    with self._numbered():
                        yield self
                except BaseException:
                    # While other threads wait: they must not go on with what is rolled back.
                    _undo_all(undone)
                    raise
                finally:
                    self._undo = outer
                if outer:
                    outer[-1].extend(undone)
        except BaseException:
            _undo_all(undone)  # it could not be committed
            raise

    atomic = transaction

    def on_rollback(self, undo: Callable[[], object]) -> None:
        """Have something that is kept in memory undone, should this thread's transaction be."""
        if self.undoable:
            self._undo[-1].append(undo)

    @property
    def undoable(self) -> int:
        """The number of the transaction by which what this thread does now may be rolled back.

        0 outside of any; each outermost one has a number of its own.
        """
        return self._number if self._undo and self.conn.owned_here() else 0

    def roll_back(self) -> None:
        """Undo this thread's transaction now, if one is open; its block cannot end well then."""
        if self.conn.owned_here():
            for undone in reversed(self._undo):
                _undo_all(undone)
            self.conn.abort()

    @contextmanager
    def _numbered(self) -> Generator[None]:
        if not self.numbering or self._commit is not None or self.conn.read_only:
            yield
            return
        # The lock is ours until the end, so nobody else counts on from here.
        self._commit = self.conn.execute(_NEXT).fetchone()[0]
        try:
            yield
            if self.before_commit is not None:
                self.before_commit()
            self.conn.execute(_GROUP, {"commit": self._commit})
        finally:
            self._commit = None


@dataclass(frozen=True, slots=True)
class Workspace:
    """One open handle, as the storage classes see it.

    Attributes:
        database: the reactive database below.
        clock: what time it is.
        read_only: whether nothing can be written.
        context: what runs here.
        ownership: the leases of this handle.
    """

    database: WorkflowDatabase
    clock: Clock
    read_only: bool
    context: Context
    ownership: Ownership

    def check_writable(self, action: str) -> None:
        """Raise ReadOnly, before anything else happens, where nothing can be written."""
        if self.read_only:
            raise ReadOnly(action)

    @contextmanager
    def transaction(self) -> Generator[WorkflowDatabase]:
        """Group writes of what runs here.

        Raises OwnershipLost where that was taken over by another run; what is written inside need
        not be fenced again, since nobody else can take anything over until the end.
        """
        with self.database.transaction() as database:
            self.ownership.check(self.context.execution_id)
            yield database

    def now(self) -> datetime:
        """Tell the time, in UTC."""
        moment = self.clock()
        return moment if moment.tzinfo is UTC else moment.astimezone(UTC)

    def cause(self) -> tuple[str | None, str | None]:
        """Return the ids of the execution and the agent that run here."""
        context = self.context
        if not context.used:  # as where nothing but the state is used
            return self.ownership.only(), None
        return context.execution_id, context.agent_id

    def started(
        self,
        kind: Kind,
        id: str,
        execution_id: str | None,
        phase_id: str | None = None,
        step_id: str | None = None,
    ) -> Frame:
        """Make the frame of a row that has been written, to be entered by the caller.

        Should the transaction around be rolled back, it runs nowhere any more.
        """
        context = self.context
        known = context.started_here(id)
        if known is not None:
            return known  # an execution that is resumed where it runs: it ends in both places
        frame = context.add(Frame(context, kind, id, execution_id, phase_id, step_id))
        self.database.on_rollback(lambda: context.leave(id))
        return frame


def workspace(database: WorkflowDatabase, clock: Clock, *, read_only: bool) -> Workspace:
    """Make what the storage classes of one handle share."""
    ownership = Ownership(database, clock)
    # Weakly: contexts outlive a handle that nobody closed, and the database must not hold itself.
    known, owning = weakref.ref(database), weakref.ref(ownership)

    def only() -> str | None:
        found = owning()
        return None if found is None else found.only()

    def undoable() -> int:
        found = known()
        return 0 if found is None else found.undoable

    def settle() -> None:
        found = owning()
        if found is not None:
            found.settle()

    database.before_commit = settle
    return Workspace(database, clock, read_only, Context(only, undoable), ownership)


def _undo_all(undone: list[Callable[[], object]]) -> None:
    while undone:
        undone.pop()()
