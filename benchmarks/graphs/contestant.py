"""A library at one case in a process of its own, so that none disturbs another's heap."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from benchmarks.graphs.bench import Bench, with_deep_stack
from benchmarks.graphs.catalogue import CASES
from benchmarks.graphs.libraries import library

ROOT = Path(__file__).parent.parent.parent


class Contestant:
    """Starts the process; it times one run whenever asked.

    Raises TimeoutError when it needs longer than `patience` seconds for a run, ArithmeticError when
    its answer is wrong or it fails.
    """

    def __init__(
        self, name: str, case: str, size: int, *, stick: Path | None, patience: float
    ) -> None:
        self._title = f"{name} at {case}"
        self._patience = patience
        arguments = [name, case, str(size), *([str(stick.resolve())] if stick else [])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.graphs.contestant", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd=ROOT,
        )

    def __enter__(self) -> Contestant:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def ready(self) -> None:
        """Wait until the case is built and warm."""
        self._answer()

    def run(self) -> float:
        """Return the seconds of one run."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"run\n")
        return self._answer()

    def _answer(self) -> float:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], self._patience)[0]:
            raise TimeoutError(f"{self._title}: longer than {self._patience:g} s")
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else "its process ended"
        if isinstance(answer, str):
            raise ArithmeticError(f"{self._title}: {answer}")
        return float(answer)


def main(name: str, case: str, size: int, stick: Path | None) -> None:
    """Answer each line on stdin with the seconds of a run, or with what went wrong."""

    def serve() -> None:
        try:
            bench = Bench(library(name, stick), CASES[case], size)
            print(json.dumps(0.0), flush=True)
            for _ in sys.stdin:
                print(json.dumps(bench.run()), flush=True)
        except Exception as error:  # told to the process that asked
            print(json.dumps(f"{type(error).__name__}: {str(error)[:200]}"), flush=True)

    with_deep_stack(serve)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]) if sys.argv[4:] else None)
