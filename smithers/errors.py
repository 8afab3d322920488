"""Every error of this package, each with the exit code the command line ends with.

    SmithersError
    ├── NotFound                no row answers to that id
    │   └── TransitionNotFound  no transition does
    ├── InvalidStatus           a row has ended, so that cannot be done to it any more
    ├── ExecutionBusy           another live run owns the execution
    ├── ExecutionCancelled      the execution that runs here was cancelled from elsewhere
    ├── OwnershipLost           this run owned the execution, and another one has taken it over
    ├── NoCurrentExecution      nothing runs below which the row could stand
    ├── StepFailed              what a step of a run called raised
    ├── AgentFailed             an agent ended without a result
    ├── ClaudeMissing           Claude Code, or the library that drives it, is not installed
    ├── ReadOnly                a write on a database opened with read_only=True
    ├── StateTypeError          a stored value is not what its reader can take
    ├── InTransaction           what needs transactions of its own was called inside one
    ├── CannotLoad              nothing was loaded from a dump
    │   ├── DamagedDump         it is none, or it was cut off or changed
    │   ├── DumpTooNew          it was written by a newer version of this package
    │   └── DumpConflict        the database holds something else already
    ├── RepositoryError         git or jj cannot say what the current commit is
    └── CannotOpen              nothing was opened, and nothing on disk was changed
        ├── NotADatabase        the file is of another kind, or damaged
        ├── ForeignLog          the log beside the file is that of another database
        └── SchemaTooNew        the file was written by a newer version of this package

What is wrong with an argument (a value that is not JSON, a key outside the rule) is a plain
`TypeError` or `ValueError`; errors of SQLite pass as they are; a call after `close()` raises
`reactive_sqlite`'s `DatabaseClosed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactive_sqlite.arguments import LONGEST_PATH, shown


class SmithersError(Exception):
    """Base of all errors raised by `smithers` itself.

    Attributes:
        exit_code: what `smithers` on the command line exits with.
    """

    exit_code = 1

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        # Python would call the class with `args`, which is the text alone.
        return _made_again, (type(self), *self.args), self.__dict__


class NotFound(SmithersError):
    """No row answers to an id.

    Attributes:
        id: the id that was asked for, as it was given.
    """

    def __init__(self, kind: str, id: object) -> None:
        super().__init__(f"there is no {kind} {shown(id)}")
        self.id = id


class TransitionNotFound(NotFound):
    """No transition has that id, so nothing was changed."""

    def __init__(self, id: object) -> None:
        super().__init__("transition", id)


class InvalidStatus(SmithersError):
    """A row has ended, or its status forbids what was asked; nothing was written.

    Attributes:
        id: the id of the row.
        status: the status it has.
    """

    def __init__(self, kind: str, id: str, status: str, action: str) -> None:
        super().__init__(f"cannot {action} {kind} {shown(id)}: it is {status}")
        self.id = id
        self.status = status


class ExecutionBusy(SmithersError):
    """Another live run owns an execution; nothing was written.

    Attributes:
        id: the id of the execution.
        owner: who owns it, as `host:pid`.
    """

    def __init__(self, id: str, owner: str, advice: str = "") -> None:
        super().__init__(f"execution {shown(id)} is owned by another live run, {owner}{advice}")
        self.id = id
        self.owner = owner


class ExecutionCancelled(SmithersError):
    """Somebody has cancelled the execution of a run, which has ended as such.

    Attributes:
        id: the id of the execution.
        reason: what was said of it, None where nothing was.
    """

    def __init__(self, id: str, reason: str | None) -> None:
        super().__init__(f"execution {shown(id)} was cancelled" + (f": {reason}" if reason else ""))
        self.id = id
        self.reason = reason


class OwnershipLost(SmithersError):
    """Another run has taken an execution over, so the write was refused.

    Attributes:
        id: the id of the execution.
    """

    def __init__(self, id: str) -> None:
        super().__init__(
            f"execution {shown(id)} is no longer owned by this run: another took it over"
        )
        self.id = id


class NoCurrentExecution(SmithersError):
    """A phase or a step was started, and no execution runs here below which it could stand."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"a {kind} stands below an execution, and none runs here: "
            "call db.execution.start, or pass execution_id"
        )


class StepFailed(SmithersError):
    """What a step called has raised, which is the `__cause__`; the step is recorded as failed.

    Attributes:
        step: the name of the step.
        reason: what went wrong, one line.
    """

    def __init__(self, step: str, reason: str) -> None:
        super().__init__(f"step {shown(step)} failed: {reason}")
        self.step = step
        self.reason = reason


class AgentFailed(SmithersError):
    """An agent has failed: an error of its model, its process or its limits, or no result at all.

    Attributes:
        id: the id of the agent's row, which has what it came to.
        reason: what went wrong, one line.
    """

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(f"agent {shown(id)} failed: {reason}")
        self.id = id
        self.reason = reason


class ClaudeMissing(SmithersError):
    """Claude Code cannot be run here; nothing was recorded. The message says what to install."""

    def __init__(self, missing: str, instead: str = "") -> None:
        super().__init__(f'{missing}: pip install "smithers-py[claude]" brings it{instead}')


class ReadOnly(SmithersError):
    """A write was asked of a database that was opened with `read_only=True`."""

    def __init__(self, action: str) -> None:
        super().__init__(f"cannot {action}: this database was opened with read_only=True")


class StateTypeError(SmithersError, TypeError):
    """A stored value, or a time, is not what its reader can take; the message names the key."""


class RepositoryError(SmithersError):
    """Git or jj cannot say what the current commit of a directory is; nothing was logged.

    Attributes:
        repo: the directory, as text.
        reason: what is wrong, one line.
    """

    def __init__(self, repo: str, reason: str) -> None:
        super().__init__(f"cannot read the current commit of {shown(repo, LONGEST_PATH)}: {reason}")
        self.repo = repo
        self.reason = reason


class InTransaction(SmithersError):
    """What makes transactions of its own was called inside one; nothing was done."""

    def __init__(self, action: str) -> None:
        super().__init__(f"cannot {action} inside a transaction")


class CannotLoad(SmithersError):
    """A dump cannot be loaded; the database is as it was.

    Attributes:
        path: the file, as text.
        line: the line of it at which that was found, counted from 1.
        reason: what is wrong, one line.
    """

    def __init__(self, path: str, line: int, reason: str) -> None:
        reason = " ".join(reason.split())  # SQLite shows the text of a constraint as it was written
        super().__init__(f"cannot load {shown(path, LONGEST_PATH)}, line {line}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


class DamagedDump(CannotLoad):
    """The file is no dump, or a dump that was cut off or changed."""


class DumpConflict(CannotLoad):
    """What is in the dump cannot stand beside what is in the database."""


class DumpTooNew(CannotLoad):
    """The dump was written by a newer version of this package.

    Attributes:
        found: the version of its `what`, which is its format or the schema of its tables.
        supported: the newest version this package knows.
    """

    def __init__(self, path: str, what: str, *, found: int, supported: int) -> None:
        super().__init__(
            path, 1, f"its {what} has version {found}, this version of smithers knows {supported}"
        )
        self.found = found
        self.supported = supported


class CannotOpen(SmithersError):
    """A path cannot be opened as a workflow database.

    Attributes:
        path: the path, as text.
        reason: what is wrong with it, one line.
    """

    def __init__(self, path: str, reason: str) -> None:
        reason = " ".join(reason.split())
        super().__init__(f"cannot open {shown(path, LONGEST_PATH)}: {reason}")
        self.path = path
        self.reason = reason


class NotADatabase(CannotOpen):
    """The file is no SQLite database, or a damaged one; it was left as it is."""


class ForeignLog(CannotOpen):
    """The write-ahead log beside the file is not its own; both were left as they are.

    Attributes:
        log: the path of the log, as text.
    """

    def __init__(self, path: str, log: str, what: str) -> None:
        super().__init__(
            path,
            f"its write-ahead log {shown(log, LONGEST_PATH)} is {what}: put it where it belongs,"
            " or take it away",
        )
        self.log = log


class SchemaTooNew(CannotOpen):
    """The file was written by a newer version of this package; it was left as it is.

    Attributes:
        found: the version of the file's schema.
        supported: the newest version this package knows.
    """

    def __init__(self, path: str, *, found: int, supported: int) -> None:
        super().__init__(
            path, f"its schema has version {found}, this version of smithers knows {supported}"
        )
        self.found = found
        self.supported = supported


def _made_again(kind: type[SmithersError], *args: Any) -> SmithersError:
    return kind.__new__(kind, *args)
