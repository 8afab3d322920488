"""The workflow database for asyncio: the same calls, awaited; observers served on the loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from reactive_sqlite.aio import AsyncDatabase, LoopHome, loop_report
from reactive_sqlite.asyncquery import AsyncObservableQuery
from reactive_sqlite.database import Database
from reactive_sqlite.errors import DatabaseClosed, NotReady
from reactive_sqlite.face import AsyncFace, awaited
from reactive_sqlite.worker import Worker, running_loop
from smithers.aio.agents import AsyncAgents
from smithers.aio.approvals import AsyncApprovals
from smithers.aio.executions import AsyncExecutions
from smithers.aio.memories import AsyncMemories
from smithers.aio.phases import AsyncPhases
from smithers.aio.prompt import PromptReader
from smithers.aio.state import AsyncStateStore
from smithers.aio.steps import AsyncSteps
from smithers.aio.tools import AsyncTools
from smithers.aio.triggers import AsyncTriggers
from smithers.aio.twins import twin
from smithers.aio.vcs import AsyncVcs
from smithers.db import DEFAULT_PATH, SmithersDB, open_smithers_db
from smithers.runtime.host import Host
from smithers.runtime.run import Resume, Run
from smithers.storage.reports import Parameters

P = ParamSpec("P")
R = TypeVar("R")


class AsyncSmithersDB(AsyncFace[SmithersDB]):
    """A workflow database for asyncio, made by `create_async_smithers_db`.

    Every call runs on one worker thread, in the order it was made (a single value is read on the
    loop when nothing is before it); observers are called on the event loop, before the `await` of
    the write that caused them returns. A cancelled call that had
    not begun never begins; one that had is finished: all or nothing. Before it is awaited or
    entered everything raises `NotReady`, after `close()` `DatabaseClosed`.
    """

    def __init__(self, open: Callable[[LoopHome], SmithersDB]) -> None:
        self._open = open
        self._opening = asyncio.Lock()
        self._opened: _Opened | None = None

    def __await__(self) -> Generator[Any, Any, AsyncSmithersDB]:
        """Open the database."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> AsyncSmithersDB:
        home = LoopHome(running_loop())
        async with self._opening:
            if self._opened is None:
                self._opened = await self._begin(home)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def state(self) -> AsyncStateStore:
        """Key-value state with history, time travel and observation."""
        return self._ready().state

    @property
    def execution(self) -> AsyncExecutions:
        """Runs of the workflow, and who owns each."""
        return self._ready().executions

    executions = execution

    @property
    def phases(self) -> AsyncPhases:
        """Phases of executions."""
        return self._ready().phases

    @property
    def steps(self) -> AsyncSteps:
        """Steps of executions."""
        return self._ready().steps

    @property
    def agents(self) -> AsyncAgents:
        """Runs of a model."""
        return self._ready().agents

    @property
    def tools(self) -> AsyncTools:
        """Tool calls of agents."""
        return self._ready().tools

    @property
    def vcs(self) -> AsyncVcs:
        """Commits, snapshots of the working copy and reviews."""
        return self._ready().vcs

    @property
    def approvals(self) -> AsyncApprovals:
        """Gates at which workflows wait for a person."""
        return self._ready().approvals

    @property
    def triggers(self) -> AsyncTriggers:
        """Handlers that changes call, each at least once."""
        return self._ready().triggers

    @property
    def memories(self) -> AsyncMemories:
        """What is worth knowing beyond one run, found again by full text."""
        return self._ready().memories

    @property
    def database(self) -> AsyncDatabase:
        """The reactive database below, for tables of your own in the same file."""
        return self._ready().database

    @property
    def path(self) -> Path | None:
        """The database file, None in memory."""
        self._ready()
        return self._sync.path

    query = awaited(SmithersDB.query)
    stats = awaited(SmithersDB.stats)
    check = awaited(SmithersDB.check)
    dump = awaited(SmithersDB.dump)
    load = awaited(SmithersDB.load)
    prune = awaited(SmithersDB.prune)

    def run(
        self,
        name: str,
        file_path: str | os.PathLike[str] | None = None,
        *,
        resume: Resume = True,
        initial_state: Mapping[str, Any] | None = None,
    ) -> Run[AsyncSmithersDB]:
        """Return a run of a workflow script, to be entered.

        It goes on with the newest incomplete execution of that name which nobody runs, else it
        starts one, with `initial_state` in its first commit. `resume=False` always starts one,
        `"failed"` also goes on with one that has failed, an id with that execution.

        >>> async with db.run("Feature", __file__, initial_state={"phase": "start"}) as run:
        ...     await run.step("write tests", write_tests)
        """
        return Run(self, self._host, name, file_path, resume=resume, initial_state=initial_state)

    @twin(SmithersDB.observe)
    def observe(
        self, sql: str, params: Parameters = ()
    ) -> AsyncObservableQuery[list[dict[str, Any]]]:
        self._ready()
        return AsyncObservableQuery(self._worker, lambda: self._sync.observe(sql, params))

    async def transact(
        self, fn: Callable[Concatenate[SmithersDB, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run `fn(db, …)` with the synchronous database as one transaction on the worker.

        What it raises undoes everything and is raised here. It must not keep the database.

        >>> await db.transact(lambda db: db.state.set("n", len(db.state.keys())))
        Transition(id='t1', ...)
        """
        return await self._call(_transaction, fn, *args, **kwargs)

    @twin(SmithersDB.close)
    async def close(self) -> None:
        if self._opened is None:
            return
        worker, sync = self._worker, self._sync

        def close() -> None:
            sync.close()
            worker.close()  # here, so that it happens also when nobody awaits it any more

        try:
            await worker.run(close)
        except DatabaseClosed:
            return

    async def _begin(self, home: LoopHome) -> _Opened:
        worker = Worker("smithers-worker")
        opened: list[SmithersDB] = []
        try:
            await worker.run(lambda: opened.append(self._open(home)))
        except BaseException:
            # Cancelled meanwhile, perhaps: what is being opened must not stay open.
            worker.submit(lambda: _close_all(opened))
            worker.close()
            raise
        super().__init__(opened[0], worker)
        return _Opened(opened[0], worker)

    async def _call(
        self,
        method: Callable[Concatenate[SmithersDB, P], R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        self._ready()
        return await super()._call(method, *args, **kwargs)

    def _host(self) -> Host:
        self._ready()
        return Host(self._sync, self._worker)

    def _ready(self) -> _Opened:
        if self._opened is None:
            raise NotReady("open the database first: `async with` it, or await it")
        return self._opened


def create_async_smithers_db(
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
) -> AsyncSmithersDB:
    """Return a workflow database for asyncio, to be awaited or entered, which opens it.

    The arguments and the errors of opening are those of `create_smithers_db`.

    >>> async with create_async_smithers_db(".smithers/my-workflow") as db:
    ...     await db.state.set("phase", "review", trigger="tests_passed")
    """

    def open(home: LoopHome) -> SmithersDB:
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
            home=home,
            on_observer_error=loop_report(home),
        )

    return AsyncSmithersDB(open)


class _Opened:
    """What there is once the file is open."""

    def __init__(self, sync: SmithersDB, worker: Worker) -> None:
        self.state = AsyncStateStore(sync.state, worker, PromptReader(sync.database, worker))
        self.executions = AsyncExecutions(sync.executions, worker)
        self.phases = AsyncPhases(sync.phases, worker)
        self.approvals = AsyncApprovals(sync.approvals, worker)
        self.steps = AsyncSteps(sync.steps, worker)
        self.agents = AsyncAgents(sync.agents, worker)
        self.tools = AsyncTools(sync.tools, worker)
        self.vcs = AsyncVcs(sync.vcs, worker)
        self.memories = AsyncMemories(sync.memories, worker)
        self.triggers = AsyncTriggers(sync.triggers, worker)
        self.database: AsyncDatabase = _Tables(sync.database, worker)


class _Tables(AsyncDatabase):
    """The face of a database that is open already, on its own worker."""

    def __init__(self, database: Database, worker: Worker) -> None:
        self._database = database
        super(AsyncDatabase, self).__init__(database, worker)


def _transaction(
    db: SmithersDB,
    fn: Callable[Concatenate[SmithersDB, P], R],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    with db.transaction():
        return fn(db, *args, **kwargs)


def _close_all(opened: list[SmithersDB]) -> None:
    for db in opened:
        db.close()
