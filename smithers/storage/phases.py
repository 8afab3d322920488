"""Phases of an execution."""

from __future__ import annotations

import builtins
from collections.abc import Generator
from contextlib import contextmanager

from reactive_sqlite.arguments import shown
from reactive_sqlite.observation import ObservableQuery
from smithers.clock import to_text
from smithers.codec import check_text
from smithers.context import Frame
from smithers.errors import NoCurrentExecution
from smithers.failure import error_text
from smithers.ids import new_id
from smithers.parents import parents
from smithers.records import Phase
from smithers.rows import (
    Rows,
    check_id,
    current,
    left_with,
    moment,
    moment_or_none,
    unless_ended,
)
from smithers.workspace import Workspace

_COLUMNS = "id, execution_id, name, iteration, status, error, started_at, completed_at, duration_ms"


class Phases:
    """The phases of executions, each with the number of its iteration.

    Unknown ids raise NotFound, ended rows InvalidStatus, a run that has lost the execution
    OwnershipLost, and nothing is written then.

    >>> with db.phases.open("review"):
    ...     db.agents.start("Review the change")
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._rows = Rows(workspace, "phase", "phases", _COLUMNS, _phase)

    def start(self, name: str, iteration: int = 0, *, execution_id: str | None = None) -> str:
        """Start a phase of the execution that runs here, or of a named one; return its id.

        What is started next, here or in tasks made from here, stands below it. Raises
        NoCurrentExecution where none runs.

        >>> id = db.phases.start("implement")
        """
        return self.begin(name, iteration, execution_id=execution_id).enter()

    def begin(self, name: str, iteration: int = 0, *, execution_id: str | None = None) -> Frame:
        """Start a phase as `start` does, without letting it run in this context."""
        check_text(name, "the name of a phase")
        if type(iteration) is not int or not 0 <= iteration < 2**63:
            raise ValueError(f"an iteration is a whole number from 0 up, not {shown(iteration)}")
        self._workspace.check_writable(f"start phase {shown(name)}")
        above = parents(self._workspace, execution_id=execution_id)
        if above.execution_id is None:
            raise NoCurrentExecution("phase")
        id = new_id()
        values = {
            "id": id,
            "execution_id": above.execution_id,
            "name": name,
            "iteration": iteration,
            "started_at": to_text(self._workspace.now()),
        }
        self._rows.insert(values, above.execution_id)
        return self._workspace.started("phase", id, above.execution_id, id)

    def rejoin(self, id: str) -> Frame | None:
        """Return what lets an earlier phase run here again, None for one that has failed.

        >>> db.phases.rejoin(id)
        """
        phase = self.get(id)
        if phase is None or phase.status not in ("running", "completed"):
            return None
        return self._workspace.started("phase", id, phase.execution_id, id)

    @contextmanager
    def open(
        self, name: str, iteration: int = 0, *, execution_id: str | None = None
    ) -> Generator[str]:
        """Run a block as a phase: completed at its end, failed by an exception that leaves it.

        A phase that the block has ended itself stays as it is.

        >>> with db.phases.open("implement") as id:
        ...     db.steps.start("write tests")
        """
        id = self.start(name, iteration, execution_id=execution_id)
        with left_with(self.leave, id):
            yield id

    def leave(self, id: str, error: BaseException | None = None) -> None:
        """End a phase as leaving `open` does, with the exception that leaves it if there is one.

        One that has ended already stays as it is.

        >>> db.phases.leave(id)
        """
        check_id(id, "phase")
        with unless_ended:
            self.complete(id) if error is None else self.fail(id, error)

    def complete(self, id: str) -> None:
        """End a phase as completed.

        >>> db.phases.complete(id)
        """
        self._rows.end(id, "completed", "complete")

    def skip(self, id: str) -> None:
        """End a phase as skipped.

        >>> db.phases.skip(id)
        """
        self._rows.end(id, "skipped", "skip")

    def fail(self, id: str, error: BaseException | str) -> None:
        """End a phase as failed, with an exception or a text.

        >>> db.phases.fail(id, "the tests fail")
        """
        self._rows.end(id, "failed", "fail", error=error_text(error))

    def get(self, id: str) -> Phase | None:
        """Return a phase, None when there is none of that id.

        >>> db.phases.get(id).status
        'completed'
        """
        return self._rows.get(id)

    def current(self) -> Phase | None:
        """Return the phase that runs here, else the newest running one of the current execution.

        >>> db.phases.current().name
        'implement'
        """
        return current(self._workspace, self._rows, "phase")

    def is_running(self, id: str) -> bool:
        """Tell whether a phase has not ended; False for an unknown id.

        >>> db.phases.is_running(id)
        False
        """
        return self._rows.is_running(id)

    def list(
        self, execution_id: str | None = None, *, limit: int | None = None
    ) -> builtins.list[Phase]:
        """List phases in the order of their starts, of one execution or of all; with a limit the
        newest of them.

        >>> [phase.name for phase in db.phases.list(execution_id)]
        ['implement', 'review']
        """
        return self._rows.list(_of(execution_id), limit=limit)

    def observe(self, execution_id: str | None = None) -> ObservableQuery[builtins.list[Phase]]:
        """Observe what `list` gives.

        >>> db.phases.observe(execution_id).subscribe(print)
        """
        return self._rows.observe(_of(execution_id))


def _of(execution_id: str | None) -> dict[str, str]:
    if execution_id is None:
        return {}
    check_id(execution_id, "execution")
    return {"execution_id": execution_id}


def _phase(
    id: str,
    execution_id: str,
    name: str,
    iteration: int,
    status: str,
    error: str | None,
    started_at: str,
    completed_at: str | None,
    duration_ms: int | None,
) -> Phase:
    return Phase(
        id=id,
        execution_id=execution_id,
        name=name,
        iteration=iteration,
        status=status,
        error=error,
        started_at=moment(started_at),
        completed_at=moment_or_none(completed_at),
        duration_ms=duration_ms,
    )
