"""Where the memories stand that one handle sees: whose they are, and in which files."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from reactive_sqlite.arguments import is_one_of, shown
from reactive_sqlite.database import Database
from reactive_sqlite.dialect import sqlite3
from reactive_sqlite.errors import ReactiveError
from smithers.errors import NotFound
from smithers.ids import new_id
from smithers.memory.projects import project_of, shared_store, user_store
from smithers.memory.shelves import Shelf, install_clock
from smithers.memory.stores import Store, StoreOptions
from smithers.records import Memory
from smithers.schema.memories import CATEGORIES, SCOPES
from smithers.workspace import Workspace

# In which a memory is looked for.
NEAREST_FIRST = ("session", "project", "global")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelving:
    """Who looks, and where what is remembered stands.

    Attributes:
        session: the session.
        project: the project.
        shared: the directory of the project's memories, None for the workflow database.
        user: the directory of the user's own memories.
        options: how the files there are opened.
    """

    session: str = field(default_factory=new_id)
    project: str = field(default_factory=lambda: project_of(None))
    shared: Path | None = field(default_factory=lambda: shared_store(None))
    user: Path = field(default_factory=user_store)
    options: StoreOptions = field(default_factory=StoreOptions)


class Shelves:
    """The files of memories of one handle, and who looks at them.

    Attributes:
        session: the session whose memories are seen.
        project: the project whose memories are seen.
        main: the workflow database.
    """

    def __init__(self, workspace: Workspace, shelving: Shelving) -> None:
        self.session = shelving.session
        self.project = shelving.project
        self._workspace = workspace
        self._report = shelving.options.report
        database = workspace.database
        viewer = {"session": shelving.session, "project": shelving.project}
        # What is called from inside of SQLite must not keep the database.
        prepare = partial(install_clock, clock=workspace.clock)
        prepare(database)
        self.main = Shelf(lambda: database, lambda: database, self._with_the_rest, viewer)
        stores = [
            Store(place, shelving.options, prepare)
            for place in dict.fromkeys((shelving.shared, shelving.user))
            if place is not None
        ]
        self._shelves = {
            store: Shelf(store.found, store.made, self._apart, viewer) for store in stores
        }
        self._stores = {"global": stores[-1]}
        if shelving.shared is not None:
            self._stores["project"] = stores[0]

    def belongs_to(self, scope: str) -> str:
        """Tell whose the memories of a scope are: nobody's own, where everybody sees them."""
        return {"session": self.session, "project": self.project}.get(scope, "")

    def home(self, scope: str) -> Shelf:
        """Return where the memories of a scope are written."""
        store = self._stores.get(scope)
        return self.main if store is None else self._shelves[store]

    def stores(self, scope: str | None = None) -> list[Store]:
        """List the files apart in which memories of a scope, or of any, stand: nearest first."""
        scopes = NEAREST_FIRST if scope is None else (scope,)
        return [*dict.fromkeys(self._stores[scope] for scope in scopes if scope in self._stores)]

    def asked(self, scope: str | None = None) -> list[Shelf]:
        """List where to look for memories of a scope, or of any: the workflow database first.

        That may hold some of any scope, by other programs or from before a store was shared.
        """
        return [self.main, *(self._shelves[store] for store in self.stores(scope))]

    def find(self, id: str) -> tuple[Shelf, Memory]:
        """Return a memory with where it stands; raises NotFound where none is to be seen."""
        for shelf in self.asked():
            memory = shelf.find(id)
            if memory is not None:
                return shelf, memory
        raise NotFound("memory", id)

    def undoable(self, shelf: Shelf, undo: Callable[[], None]) -> None:
        """Have a change in another file undone, should the transaction around be rolled back."""
        if shelf is not self.main:
            self._workspace.database.on_rollback(lambda: self._guarded(undo))

    def let_go(self) -> None:
        """Write what is still to be written."""
        if not self._workspace.read_only:
            for shelf in self.asked():
                shelf.let_go()

    def close(self) -> None:
        """Close the files apart."""
        for store in self._shelves:
            store.close()

    def _guarded(self, undo: Callable[[], None]) -> None:
        try:
            undo()
        except (sqlite3.Error, ReactiveError) as error:
            # The rest is to be rolled back all the same.
            self._report(error)

    @contextmanager
    def _with_the_rest(self, database: Database) -> Generator[None]:
        if database.conn.owned_here():
            # No savepoint: at each the indexes would write out all that they have gathered.
            self._workspace.ownership.check(self._workspace.context.execution_id)
            yield
            return
        with self._workspace.transaction():
            yield

    @contextmanager
    def _apart(self, database: Database) -> Generator[None]:
        # The lease stands in the workflow database: whoever takes the run over in between is a
        # moment later than this write.
        self._workspace.ownership.check(self._workspace.context.execution_id)
        with database.transaction():
            yield


def check_category(category: object) -> None:
    """Raise ValueError for what is no category."""
    if not is_one_of(category, CATEGORIES):
        raise ValueError(f"the category of a memory is one of {CATEGORIES}, not {shown(category)}")


def check_scope(scope: object) -> None:
    """Raise ValueError for what is no scope."""
    if not is_one_of(scope, SCOPES):
        raise ValueError(f"the scope of a memory is one of {SCOPES}, not {shown(scope)}")
