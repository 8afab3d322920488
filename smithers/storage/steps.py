"""Steps of an execution, most of them inside a phase."""

from __future__ import annotations

import builtins
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from reactive_sqlite.arguments import shown
from reactive_sqlite.observation import ObservableQuery
from smithers.clock import to_text
from smithers.codec import check_text, encode
from smithers.context import Frame
from smithers.errors import NoCurrentExecution
from smithers.failure import error_text
from smithers.ids import new_id
from smithers.parents import parents
from smithers.records import Step
from smithers.rows import (
    Rows,
    check_id,
    current,
    json_or_none,
    left_with,
    moment,
    moment_or_none,
    unless_ended,
)
from smithers.workspace import Workspace

_COLUMNS = """id, execution_id, phase_id, name, status, result, error, snapshot_before,
    snapshot_after, commit_created, started_at, completed_at, duration_ms"""


class Steps:
    """The steps of executions, in a phase or directly below the execution.

    Unknown ids raise NotFound, ended rows InvalidStatus, a run that has lost the execution
    OwnershipLost, and nothing is written then.

    >>> with db.steps.open("run the tests") as id:
    ...     db.steps.complete(id, {"passed": 12})
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._rows = Rows(workspace, "step", "steps", _COLUMNS, _step)

    def start(self, name: str, *, phase_id: str | None = None) -> str:
        """Start a step of the phase or execution that runs here, or of a named phase.

        Returns its id. What is started next, here or in tasks made from here, stands below it.
        Raises NoCurrentExecution where none runs.

        >>> id = db.steps.start("run the tests")
        """
        return self.begin(name, phase_id=phase_id).enter()

    def begin(
        self, name: str, *, phase_id: str | None = None, execution_id: str | None = None
    ) -> Frame:
        """Start a step as `start` does, without letting it run in this context.

        With `execution_id` it stands below that execution, in whatever of it runs here.
        """
        check_text(name, "the name of a step")
        self._workspace.check_writable(f"start step {shown(name)}")
        above = parents(self._workspace, execution_id=execution_id, phase_id=phase_id)
        if above.execution_id is None:
            raise NoCurrentExecution("step")
        id = new_id()
        values = {
            "id": id,
            "execution_id": above.execution_id,
            "phase_id": above.phase_id,
            "name": name,
            "started_at": to_text(self._workspace.now()),
        }
        self._rows.insert(values, above.execution_id)
        return self._workspace.started("step", id, above.execution_id, above.phase_id, id)

    @contextmanager
    def open(self, name: str, *, phase_id: str | None = None) -> Generator[str]:
        """Run a block as a step: completed at its end, failed by an exception that leaves it.

        A step that the block has ended itself, with a result perhaps, stays as it is.

        >>> with db.steps.open("run the tests") as id:
        ...     db.steps.complete(id, {"passed": 12})
        """
        id = self.start(name, phase_id=phase_id)
        with left_with(self.leave, id):
            yield id

    def leave(self, id: str, error: BaseException | None = None) -> None:
        """End a step as leaving `open` does, with the exception that leaves it if there is one.

        One that has ended already stays as it is.

        >>> db.steps.leave(id)
        """
        check_id(id, "step")
        with unless_ended:
            self.complete(id) if error is None else self.fail(id, error)

    def complete(
        self,
        id: str,
        result: Any = None,
        snapshot_before: str | None = None,
        snapshot_after: str | None = None,
        commit_created: str | None = None,
    ) -> None:
        """End a step as completed; `result` is any JSON.

        The others name what version control had before and after it, and the commit it made.

        >>> db.steps.complete(id, {"passed": 12}, commit_created="abc123")
        """
        values = {
            "snapshot_before": snapshot_before,
            "snapshot_after": snapshot_after,
            "commit_created": commit_created,
        }
        for name, value in values.items():
            if value is not None:
                check_text(value, f"`{name}`")
        text = None if result is None else encode(result, name="the result of a step")
        self._rows.end(id, "completed", "complete", result=text, **values)

    def skip(self, id: str) -> None:
        """End a step as skipped.

        >>> db.steps.skip(id)
        """
        self._rows.end(id, "skipped", "skip")

    def fail(self, id: str, error: BaseException | str) -> None:
        """End a step as failed, with an exception or a text.

        >>> db.steps.fail(id, "2 tests fail")
        """
        self._rows.end(id, "failed", "fail", error=error_text(error))

    def get(self, id: str) -> Step | None:
        """Return a step, None when there is none of that id.

        >>> db.steps.get(id).result
        {'passed': 12}
        """
        return self._rows.get(id)

    def current(self) -> Step | None:
        """Return the step that runs here, else the newest running one of the current execution.

        >>> db.steps.current().name
        'run the tests'
        """
        return current(self._workspace, self._rows, "step")

    def is_running(self, id: str) -> bool:
        """Tell whether a step has not ended; False for an unknown id.

        >>> db.steps.is_running(id)
        False
        """
        return self._rows.is_running(id)

    def list(
        self,
        phase_id: str | None = None,
        *,
        execution_id: str | None = None,
        limit: int | None = None,
    ) -> builtins.list[Step]:
        """List steps in the order of their starts, of one phase, of one execution or of all;
        with a limit the newest of them.

        >>> [step.name for step in db.steps.list(phase_id)]
        ['write the tests', 'run the tests']
        """
        return self._rows.list(_of(phase_id, execution_id), limit=limit)

    def observe(
        self, phase_id: str | None = None, *, execution_id: str | None = None
    ) -> ObservableQuery[builtins.list[Step]]:
        """Observe what `list` gives.

        >>> db.steps.observe(phase_id).subscribe(print)
        """
        return self._rows.observe(_of(phase_id, execution_id))


def _of(phase_id: str | None, execution_id: str | None) -> dict[str, str]:
    where: dict[str, str] = {}
    if phase_id is not None:
        check_id(phase_id, "phase")
        where["phase_id"] = phase_id
    if execution_id is not None:
        check_id(execution_id, "execution")
        where["execution_id"] = execution_id
    return where


def _step(
    id: str,
    execution_id: str,
    phase_id: str | None,
    name: str,
    status: str,
    result: str | None,
    error: str | None,
    snapshot_before: str | None,
    snapshot_after: str | None,
    commit_created: str | None,
    started_at: str,
    completed_at: str | None,
    duration_ms: int | None,
) -> Step:
    return Step(
        id=id,
        execution_id=execution_id,
        phase_id=phase_id,
        name=name,
        status=status,
        result=json_or_none(result, f"the result of step {shown(id)}"),
        error=error,
        snapshot_before=snapshot_before,
        snapshot_after=snapshot_after,
        commit_created=commit_created,
        started_at=moment(started_at),
        completed_at=moment_or_none(completed_at),
        duration_ms=duration_ms,
    )
