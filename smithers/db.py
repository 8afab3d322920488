"""The workflow database: opens the file, and holds one of each storage class."""

from __future__ import annotations

import os
import stat
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from reactive_sqlite.arguments import check_flag, is_one_of
from reactive_sqlite.database import ErrorHandler
from reactive_sqlite.delivery import Home
from reactive_sqlite.dialect import sqlite3
from reactive_sqlite.forks import NO_COPY
from reactive_sqlite.observation import ObservableQuery
from reactive_sqlite.opening import log_kept
from smithers.clock import Clock, utc_now
from smithers.codec import check_text
from smithers.errors import CannotOpen, NotADatabase, SchemaTooNew
from smithers.files import make_file, opened_path, refusal
from smithers.foreignlog import check_log
from smithers.ids import new_id
from smithers.journal import Journal
from smithers.memory.projects import project_of, shared_store, user_store
from smithers.memory.shelving import Shelves, Shelving
from smithers.memory.stores import StoreOptions
from smithers.records import Finding, Pruned
from smithers.schema import SCHEMA_VERSION, TRACKED_TABLES, migrate, version
from smithers.storage.agents import Agents
from smithers.storage.approvals import Approvals
from smithers.storage.checks import Checks
from smithers.storage.commits import Commits
from smithers.storage.executions import Executions
from smithers.storage.history import StateHistory
from smithers.storage.keys import StateKeys
from smithers.storage.memories import Remembering
from smithers.storage.phases import Phases
from smithers.storage.pruning import Pruning
from smithers.storage.recalling import Recalling
from smithers.storage.reports import Parameters, Reports
from smithers.storage.reviews import Reviews
from smithers.storage.sessions import Sessions
from smithers.storage.standings import Standings
from smithers.storage.state import StateStore
from smithers.storage.steps import Steps
from smithers.storage.tools import Tools
from smithers.storage.transfer import Transfer
from smithers.triggers import Triggers
from smithers.workspace import WorkflowDatabase, Workspace, workspace

DEFAULT_PATH = ".smithers/data"
FILE_NAME = "db.sqlite"
MEMORY = ":memory:"
_FILE_ENDINGS = (".db", ".sqlite", ".sqlite3")


class State(StateStore, StateHistory, StateKeys):
    """`db.state`: values, their history, observation of both, and typed keys."""


class Vcs(Commits, Reviews):
    """`db.vcs`: commits, snapshots of the working copy and reviews."""

    def __init__(self, shared: Workspace) -> None:
        Commits.__init__(self, shared)
        Reviews.__init__(self, shared)


class Memories(Remembering, Recalling):
    """`db.memories`: what is worth knowing beyond one run, found again by full text.

    A memory has a category (fact, learning, preference, context or skill), a key, and a scope that
    says who sees it: `session` this session only, `project` (the default) every session of the
    project, `global` every workflow of the user. Global memories stand in a file of the user, made
    with the first one; those of a project may stand in one that workflows share. These files are
    apart: a transaction that is rolled back takes back what it wrote there, but others may have
    seen it meanwhile.

    What has expired is never returned. Reading writes nothing: when a memory was last asked for by
    `get` (`accessed_at`) is written with the next change here, at the latest by `close`.

    Raises ValueError for another category or scope and for what makes no sense, NotFound for an id
    that is not to be seen here, OwnershipLost where this run has lost the execution that runs here;
    nothing is written then.

    >>> db.memories.add_fact("api-endpoint", "The API is at /api/v2", "discovered in auth.ts")
    Memory(id=..., category='fact', scope='project', key='api-endpoint', ...)
    >>> [memory.key for memory in db.memories.search("API")]
    ['api-endpoint']
    """

    def __init__(self, shared: Workspace, shelves: Shelves) -> None:
        Remembering.__init__(self, shared, shelves)
        Recalling.__init__(self, shared, shelves)


@dataclass(frozen=True, slots=True)
class Recording:
    """What agents do, as rows, with times that a clock of its own tells."""

    agents: Agents
    tools: Tools
    sessions: Sessions


class Recordings:
    """Makes a `Recording` for whoever writes what happened a moment ago."""

    def __init__(self, shared: Workspace) -> None:
        self._shared = shared

    def by(self, clock: Clock) -> Recording:
        """Return stores that write what `clock` says in the place of the time."""
        shared = replace(self._shared, clock=clock)
        return Recording(Agents(shared), Tools(shared), Sessions(shared))


class SmithersDB:
    """A workflow database, opened by `create_smithers_db`.

    Attributes:
        state: key-value state with history, time travel and observation.
        execution: runs of the workflow; also as `executions`.
        phases: phases of executions.
        steps: steps of phases and executions.
        agents: runs of a model.
        tools: tool calls of agents.
        triggers: handlers that changes call, each at least once.
        database: the reactive `Database` below, for tables of your own in the same file and
            transaction.
        path: the database file, None in memory.
    """

    def __init__(
        self,
        database: WorkflowDatabase,
        *,
        path: Path | None = None,
        clock: Clock = utc_now,
        reset: bool = False,
        shelving: Shelving | None = None,
    ) -> None:
        read_only = database.conn.read_only
        shared = workspace(database, clock, read_only=read_only)
        journal = Journal(shared)
        if not read_only:
            journal.follow_foreign_writes()
        self.path = path
        self.database = database
        self.state = State(journal)
        self.execution = self.executions = Executions(shared)
        self.phases = Phases(shared)
        self.vcs = Vcs(shared)
        self.steps = Steps(shared)
        self.agents = Agents(shared)
        self.tools = Tools(shared)
        self._shelves = Shelves(shared, shelving or Shelving())
        self.memories = Memories(shared, self._shelves)
        self.approvals = Approvals(shared)
        self.standings = Standings(shared)
        self.sessions = Sessions(shared)
        self.recordings = Recordings(shared)
        self._workspace = shared
        self._checks = Checks(shared)
        self._reports = Reports(shared)
        self.triggers = Triggers(shared, self._reports)
        self._transfer = Transfer(shared)
        self._pruning = Pruning(shared)
        if reset:
            self._pruning.clear()

    def __reduce__(self) -> NoReturn:
        raise TypeError(NO_COPY)

    def __enter__(self) -> SmithersDB:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what this run owns and close the file; later calls raise `DatabaseClosed`.

        Observables are completed. Executions that run go on being `running`, for `resume`; those
        that were asked to be cancelled are cancelled.
        """
        self.triggers.registry.shut()
        if self.database.closed:
            self._shelves.close()  # they outlive a file that was replaced
            return
        try:
            self._shelves.let_go()
            self.executions.let_go()
            self.triggers.registry.let_go()
        finally:
            self._workspace.context.close()
            self.database.close()
            self._shelves.close()

    def transaction(self) -> AbstractContextManager[Any]:
        """Group several calls: one commit, one notification; an exception undoes them all.

        Nested transactions are savepoints. Writers in other threads and processes wait. Raises
        OwnershipLost where another run has taken over the execution that runs here.

        >>> with db.transaction():
        ...     db.state.set("phase", "done")
        ...     db.state.delete("reviewer")
        """
        return self._workspace.transaction()

    def query(
        self, sql: str, params: Parameters = (), *, write: bool = False
    ) -> list[dict[str, Any]]:
        """Run one statement and return its rows as dicts.

        `$1`, `$2` bind by number, in any order and repeated; `?` and `:name` work as in SQLite.
        A statement that writes raises ValueError unless `write=True`; its writes notify like all
        others, and are refused with OwnershipLost where another run has taken over the execution
        that runs here. Errors of SQLite pass as they are.

        >>> db.query('SELECT count(*) AS n FROM transitions WHERE "trigger" = $1', ["tests_passed"])
        [{'n': 1}]
        """
        return self._reports.query(sql, params, write=write)

    def observe(self, sql: str, params: Parameters = ()) -> ObservableQuery[list[dict[str, Any]]]:
        """Observe the rows of a query over any table of the file; parameters as in `query`.

        >>> db.observe("SELECT count(*) AS n FROM state").subscribe(print)
        [{'n': 2}]
        """
        return self._reports.observe(sql, params)

    def stats(self) -> dict[str, int]:
        """Count the rows of every table.

        >>> db.stats()
        {'state': 2, 'transitions': 17}
        """
        return self._reports.stats()

    def check(self, *, quick: bool = False) -> list[Finding]:
        """Look for what is wrong with the file, errors first; nothing is changed or mended.

        Integrity, foreign keys, the schema, totals, times, history against state, full text, owners
        that have ended, the version of SQLite and the permissions of the files. `quick` leaves the
        slowest part out, whether indexes and tables agree. A file that is too damaged to be opened
        is NotADatabase instead.

        >>> db.check()
        []
        """
        return self._checks.run(quick=quick)

    def dump(self, path: str | os.PathLike[str]) -> dict[str, int]:
        """Write all rows of this package's tables to a file; return how many of each table.

        JSON Lines with a checksum in each, readable for this user alone: the same content gives
        the same bytes. It is one state of the database, what was committed when it began, while
        others go on writing (they wait where the file has no write-ahead log). An existing file
        is replaced when the new one is whole. Tables of your own, leases, and memories in other
        files are not in it.

        Raises InTransaction inside a transaction, ValueError for a path that is no regular file or
        the database itself, OSError as the system says.

        >>> db.dump("backup.jsonl")["state"]
        2
        """
        return self._transfer.dump(path)

    def load(self, path: str | os.PathLike[str]) -> dict[str, int]:
        """Take in the rows of a dump; return how many of each table were added.

        All or nothing, one commit, one notification; everything comes back as it was, ids and
        history too. The database is empty, and then becomes the one that was dumped, or is that
        one: rows that are there already are left alone, so that loading again adds nothing. What
        ran when it was dumped is to be found by `execution.find_incomplete`.

        Raises, with nothing changed, DamagedDump for a file that is none or was cut off or
        changed, DumpTooNew, DumpConflict where the database is another one or has other content
        under the same key, all three with path and line; ExecutionBusy while another live run owns
        an execution; InTransaction, ReadOnly, and OSError as the system says.

        >>> db.load("backup.jsonl")["state"]
        2
        """
        return self._transfer.load(path)

    def prune(
        self,
        *,
        before: datetime | timedelta | None = None,
        keep_executions: int | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        """Remove what is old, and tell how many rows of each table that were.

        `before`, a time or an age, removes the executions that ended before it with all below
        them, agents of no execution likewise, memories of this file that expired before it, and
        the history of the state before it, cut between two commits. `keep_executions` removes the
        ended executions but for the newest so many. With both, an execution goes only where both
        say so. With `dry_run` nothing is changed and the numbers are those of the run.

        What has not ended stays, and so do the state as it is, every state that `replay_to` of a
        kept transition needs, and the history that a trigger has still to handle. Commits,
        snapshots and reviews stay, without the execution.

        It is done in many small transactions, each consistent, so that others can write meanwhile.
        Then the file is written anew (VACUUM) where a tenth of it is free; not where another
        program has it locked, nor, beyond 64 MB, while a workflow runs. As always with VACUUM,
        tables of your own without an INTEGER PRIMARY KEY may get other rowids.

        Raises ValueError for a time without time zone, a negative age or number, or nothing to
        go by; TypeError, ReadOnly and InTransaction.

        >>> db.prune(before=timedelta(days=30), dry_run=True).rows["executions"]
        12
        """
        return self._pruning.prune(before=before, keep_executions=keep_executions, dry_run=dry_run)


def create_smithers_db(
    path: str | os.PathLike[str] = DEFAULT_PATH,
    *,
    reset: bool = False,
    read_only: bool = False,
    project: str | None = None,
    session: str | None = None,
    memory_path: str | os.PathLike[str] | None = None,
    synchronous: str = "NORMAL",
    busy_timeout: float = 5.0,
    watch: bool = True,
) -> SmithersDB:
    """Open a workflow database, made when it is missing.

    `path` is a directory, made with its parents for this user alone; the file is `db.sqlite` in
    it. An existing SQLite file or `":memory:"` is taken as well. With `read_only` neither the
    database nor its log is changed by a byte and every write raises `ReadOnly`. `busy_timeout`
    is in seconds. `watch=False` leaves the commits of other processes unnoticed until `refresh`.
    `reset` removes all rows of this package's tables in one transaction; tables of your own stay,
    and numbers of transitions go on where they were.

    The memories that are seen are those of the `session` (a new one by default) and the `project`,
    any name: by default the root of the repository around the database, the same for all its
    worktrees, else its directory, or the one with the `.smithers/` it is in. `memory_path` is a
    directory for the project's memories that workflows share; by default SMITHERS_MEMORY, or
    `.smithers/memories` for a database under a `.smithers/`, else they stand in the database. Those
    of the user are in SMITHERS_HOME, by default where the platform keeps a user's data.

    Raises CannotOpen when the path is refused, missing (read-only) or not to be written;
    NotADatabase for a file of another kind or a damaged one; SchemaTooNew for a file of a newer
    version; ExecutionBusy for a `reset` while a live run owns an execution. None of them changes
    what is there.

    >>> with create_smithers_db(".smithers/my-workflow") as db:
    ...     db.state.set("phase", "review", trigger="tests_passed")
    """
    return open_smithers_db(
        path,
        reset=reset,
        read_only=read_only,
        project=project,
        session=session,
        memory_path=memory_path,
        synchronous=synchronous,
        busy_timeout=busy_timeout,
        watch=watch,
    )


def open_smithers_db(
    path: str | os.PathLike[str],
    *,
    reset: bool,
    read_only: bool,
    project: str | None = None,
    session: str | None = None,
    memory_path: str | os.PathLike[str] | None = None,
    synchronous: str,
    busy_timeout: float,
    watch: bool,
    home: Home | None = None,
    on_observer_error: ErrorHandler | None = None,
) -> SmithersDB:
    """Open a workflow database whose observers are called at `home`; see `create_smithers_db`."""
    for name, flag in (("reset", reset), ("read_only", read_only), ("watch", watch)):
        check_flag(flag, name)
    file = locate(path)
    shelving = _shelving(
        file,
        project=project,
        session=session,
        memory_path=memory_path,
        options=StoreOptions(
            read_only=read_only,
            watch=watch,
            busy_timeout=busy_timeout,
            synchronous=synchronous,
            home=home,
            on_observer_error=on_observer_error,
        ),
    )
    if file is not None and not read_only:
        make_file(file)
    elif file is not None and not file.is_file():
        raise CannotOpen(str(file), "there is no such file")
    if file is not None:
        check_log(file, read_only=read_only)
    name = MEMORY if file is None else str(file)
    try:
        database = WorkflowDatabase(
            name,
            memory=file is None,
            read_only=read_only,
            watch=watch,
            busy_timeout=busy_timeout,
            synchronous=synchronous,
            home=home,
            on_observer_error=on_observer_error,
        )
    except sqlite3.Error as error:
        raise refusal(name, error) from error
    try:
        _prepare(database, name, read_only=read_only)
        return SmithersDB(database, path=file, reset=reset, shelving=shelving)
    except BaseException as error:
        with log_kept(file):
            database.close()
        if isinstance(error, sqlite3.Error):
            raise refusal(name, error) from error
        raise


def _shelving(
    file: Path | None,
    *,
    project: str | None,
    session: str | None,
    memory_path: str | os.PathLike[str] | None,
    options: StoreOptions,
) -> Shelving:
    for name, text in (("project", project), ("session", session)):
        if text is not None:
            check_text(text, f"the name of a {name}")
    directory = None if file is None or file.name != FILE_NAME else file.parent
    return Shelving(
        session=new_id() if session is None else session,
        project=project_of(file) if project is None else project,
        shared=shared_store(directory, memory_path),
        user=user_store(),
        options=options,
    )


def locate(path: str | os.PathLike[str]) -> Path | None:
    """Tell the database file that a path means, None for memory; nothing is made.

    Raises CannotOpen for an empty path, and for a missing one that is named like a file.
    """
    if is_one_of(path, (MEMORY,)):
        return None
    text = opened_path(path)
    place = Path(text)
    kind = _kind(place)
    if kind == "file":
        return place
    if kind == "other":
        raise NotADatabase(text, "it is neither a directory nor a file")
    if kind == "missing" and place.suffix.lower() in _FILE_ENDINGS:
        hint = place.with_suffix("")
        raise CannotOpen(text, f"the path is a directory: use {str(hint)!r} and its {FILE_NAME!r}")
    return place / FILE_NAME


def _kind(place: Path) -> str:
    try:
        mode = place.stat().st_mode
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        raise CannotOpen(str(place), error.strerror or str(error)) from error
    return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


def _prepare(database: WorkflowDatabase, name: str, *, read_only: bool) -> None:
    found = version(database)
    if found > SCHEMA_VERSION:
        raise SchemaTooNew(name, found=found, supported=SCHEMA_VERSION)
    if found < SCHEMA_VERSION and read_only:
        what = f"its schema has version {found}, older than {SCHEMA_VERSION}" if found else None
        reason = what or "it holds no workflow database yet"
        raise CannotOpen(name, f"{reason}; open it once for writing")
    if found < SCHEMA_VERSION:
        with database.transaction():
            migrate(database)
            database.track(*TRACKED_TABLES)
    database.numbering = True
