"""Every error of this package that is not SQLite's own.

ReactiveError
├── DatabaseClosed      a call arrived after close()
├── DatabaseReplaced    the file under an open database is another one now, or gone
├── NotReady            an accessor was read before its first value
└── CycleError          memos or effects that cannot settle
"""


class ReactiveError(Exception):
    """Base of all errors raised by `reactive_sqlite` itself."""


class DatabaseClosed(ReactiveError):
    """A call arrived after the database had been closed."""


class DatabaseReplaced(ReactiveError):
    """The file of an open database was replaced or removed by somebody else."""


class NotReady(ReactiveError):
    """An accessor has no value yet: its first one is still to come."""


class CycleError(ReactiveError):
    """A memo read itself, or effects kept waking each other; the message names the nodes.

    Attributes:
        nodes: the names of the nodes involved, in the order they were found.
    """

    def __init__(self, message: str, nodes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.nodes = nodes
