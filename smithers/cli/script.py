"""The file that `smithers run` runs: loaded, and what it raises shown without our own frames."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Awaitable, Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import TracebackType
from typing import Any

import reactive_sqlite
from smithers.errors import SmithersError

# Not "__main__", so that what a script does when it is run by itself is left undone.
MODULE = "__smithers_run__"
_OURS = (str(Path(__file__).parents[1]), reactive_sqlite.__path__[0])

Main = Callable[[Any], Awaitable[Any]]


class CannotRun(SmithersError):
    """A script cannot be run; nothing was started.

    Attributes:
        trace: where its own code has raised, empty where one line says all.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


def load_main(script: Path) -> Main:
    """Load a script and return its `async def main(run)`. Raises CannotRun."""
    if script.is_dir():
        raise CannotRun(f"{str(script)!r} is a directory, not a script")
    if not script.exists():
        raise CannotRun(f"there is no script {str(script)!r}")
    main: Main | None = getattr(_loaded(script), "main", None)
    if main is None:
        raise CannotRun(f"{str(script)!r} has no `async def main(run)`")
    if not inspect.iscoroutinefunction(main):
        raise CannotRun(f"main of {str(script)!r} is not async: write `async def main(run)`")
    try:
        inspect.signature(main).bind(None)
    except TypeError:
        raise CannotRun(
            f"main of {str(script)!r} is not to be called with a run: write `async def main(run)`"
        ) from None
    return main


def shown_trace(error: BaseException) -> str:
    """Write a traceback as Python does, without the frames of this package and what leads there.

    Where none is left, there is nothing to be told.
    """
    told = traceback.TracebackException.from_exception(error)
    return "".join(told.format()).rstrip("\n") if _prune(told) else ""


def one_line(error: BaseException) -> str:
    """Write an error as `Type: message`."""
    return "".join(traceback.format_exception_only(error)).strip()


class _Loader(SourceFileLoader):
    """Loads a script; as with `python SCRIPT`, no compiled file is left beside it."""

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Write nothing."""


def _loaded(script: Path) -> Any:
    place = script.resolve()
    spec = importlib.util.spec_from_loader(MODULE, _Loader(MODULE, str(place)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    # As Python has it for a script that it runs.
    sys.path.insert(0, str(place.parent))
    sys.argv[:] = [str(script)]
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        where = "" if error.lineno is None else f" ({error.filename}, line {error.lineno})"
        raise CannotRun(f"{str(script)!r} does not compile: {error.msg}{where}") from error
    except (Exception, SystemExit) as error:
        said = f"{str(script)!r} cannot be loaded: {one_line(error)}"
        if isinstance(error, ImportError):
            raise CannotRun(f"{said} (line {_line(error.__traceback__, place)})") from error
        raise CannotRun(said, shown_trace(error)) from error
    return module


def _line(trace: TracebackType | None, script: Path) -> int:
    """Tell the line of the script at which something was raised."""
    frames = traceback.extract_tb(trace)
    return next((f.lineno or 0 for f in reversed(frames) if f.filename == str(script)), 0)


def _prune(told: traceback.TracebackException) -> int:
    """Leave our frames out, in all errors that belong together; return how many are left."""
    left = 0
    waiting: list[traceback.TracebackException | None] = [told]
    while waiting:
        one = waiting.pop()
        if one is None:
            continue
        whole = list(one.stack)
        kept = [frame for frame in whole if not _is_ours(frame.filename)]
        one.stack = traceback.StackSummary.from_list(_from_the_script_on(kept))
        left += len(one.stack)
        waiting += [one.__cause__, one.__context__, *(one.exceptions or ())]
    return left


def _is_ours(filename: str) -> bool:
    return filename.startswith(("<frozen", *_OURS))


def _from_the_script_on(
    frames: list[traceback.FrameSummary],
) -> list[traceback.FrameSummary]:
    # What runs the event loop stands above.
    script = getattr(sys.modules.get(MODULE), "__file__", None)
    first = next((i for i, frame in enumerate(frames) if frame.filename == script), 0)
    return frames[first:]
