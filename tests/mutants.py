"""Counts which changes to a module the tests notice: `make mutation MODULE=reactive_sqlite.region`.

Mutmut makes the changes and runs the tests that pass through what is changed; which files of tests
a module has is said in `pyproject.toml`, under `tool.mutation`. All of it happens in a copy below
`build/mutation`, where a list of the survivors with their changes is left as well.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "mutation"
# Tests that never end or kill the process have noticed as well.
NOTICED = frozenset({"killed", "timeout", "segfault"})
UNTRIED = "not checked"
TENTHS = 10

# Mutmut, but for three things. To note which test passes through what, it keeps each caller in a
# context variable; on CPython 3.11 many threads and contexts leave a dangling value there, and the
# process crashes. What it has loaded to begin with is not loaded again to try a change, which then
# is none in what runs while loading. And what runs then counts as passed through by one test only.
_MUTMUT = """
import os
import sys
from mutmut.__main__ import cli
from mutmut.core import MutmutCallStack
from mutmut.mutation import trampoline
from mutmut.runners.harness import PytestRunner
from mutmut.state import state

loading = set()

def warm_up(runner, load=PytestRunner.warm_up):
    load(runner)
    for name in [*sys.modules]:
        if name.partition(".")[0] in {"reactive_sqlite", "smithers", "tests"}:
            del sys.modules[name]

def hit(name, caller=None, record=trampoline.record_trampoline_hit):
    record(name)
    if "PYTEST_CURRENT_TEST" not in os.environ:
        loading.add(name)

def run_stats(runner, *, tests, run=PytestRunner.run_stats):
    code = run(runner, tests=tests)
    for name in loading:
        state().tests_by_mangled_function_name[name] = set(state().duration_by_test)
    return code

PytestRunner.warm_up, PytestRunner.run_stats = warm_up, run_stats
MutmutCallStack.get = lambda: (None, 0)
MutmutCallStack.set = MutmutCallStack.reset = lambda _: None
trampoline.record_trampoline_hit = hit
sys.exit(cli())
"""
_PROGRAM = (sys.executable, "-c", _MUTMUT)
_RESULT = re.compile(r"\s*(\S+): (.+)")


@dataclass(frozen=True, slots=True)
class Target:
    """A module or package to change: its files, and the files of tests that should notice.

    `flags` are for pytest: tests that fail because each function is called through another.
    """

    module: str
    files: tuple[str, ...]
    tests: tuple[str, ...]
    flags: tuple[str, ...]


def main() -> int:
    """Try the changes of one target or of all, and show what share of them was noticed."""
    targets = _targets()
    options = _options(targets)
    for module in options.modules or targets:
        copy = _copied(targets[module])
        _mutmut("run", "--max-children", str(options.jobs), *patterns(options.share), folder=copy)
        results = _results(copy)
        survivors = [name for name, status in results.items() if not _passed_over(status)]
        kept = BUILD / f"{module}.survivors"
        kept.write_text("\n".join(_changes(survivors, copy)), encoding="utf-8")
        print("\n".join((*scores(results), f"what survived: {kept.relative_to(ROOT)}", "")))
    return 0


def patterns(share: int) -> list[str]:
    """Return the patterns of names for so many tenths of the changes, the same ones each time.

    Mutmut numbers the changes of each function from 1.
    """
    if share == TENTHS:
        return []
    digits = "".join(str((1 + index * TENTHS // share) % TENTHS) for index in range(share))
    return [f"*__mutmut_*[{digits}]"]


def scores(results: Mapping[str, str]) -> list[str]:
    """Return a line for each file and one for all: noticed, tried and made, and how many percent.

    What no test passes through counts as tried and not noticed.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, status in results.items():
        module = name.rpartition(".")[0]
        counts[module][status] += 1
        counts["all"][status] += 1
    return [
        f"{module:42} {noticed:4} of {tried:4} noticed, {made:4} made, {noticed / tried:6.1%}"
        for module, statuses in counts.items()
        if (made := statuses.total()) and (tried := made - statuses[UNTRIED])
        for noticed in [sum(statuses[status] for status in NOTICED)]
    ]


def _options(targets: Iterable[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=", ".join(targets))
    parser.add_argument(
        "--share", type=int, default=TENTHS, choices=range(1, TENTHS + 1), help="so many tenths"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once")
    options = parser.parse_args()
    unknown = set(options.modules) - set(targets)
    if unknown:
        parser.error(f"not below tool.mutation in pyproject.toml: {', '.join(sorted(unknown))}")
    return options


def _targets() -> dict[str, Target]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    targets: dict[str, Target] = {}
    for module, tests in project["tool"]["mutation"].items():
        path = module.replace(".", "/")
        files = f"{path}/*" if (ROOT / path).is_dir() else f"{path}.py"
        flags = tuple(one for one in tests if one.startswith("-"))
        files_of_tests = tuple(one for one in tests if one not in flags)
        targets[module] = Target(module, (files,), files_of_tests, flags)
    return targets


def _copied(target: Target) -> Path:
    """Copy what git knows and what is new, and tell mutmut there what to do.

    A copy, since mutmut reads the files of one place only and leaves its own beside them; and
    `setup.cfg`, which it reads where `pyproject.toml` says nothing of it.
    """
    copy = BUILD / target.module
    if copy.exists():
        shutil.rmtree(copy)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    others = [path.name for path in copy.iterdir() if not path.name.startswith(".")]
    settings: dict[str, str | Iterable[str]] = {
        "source_paths": ["reactive_sqlite", "smithers"],
        "only_mutate": target.files,
        "also_copy": others,
        "pytest_add_cli_args": ["-p", "no:cacheprovider", *target.flags],
        "pytest_add_cli_args_test_selection": target.tests,
        # Not out of a process that has run the tests, threads and all.
        "process_isolation": "forkserver",
        # What the tests took at first and so many seconds to load them, three times: endless loops
        # are many, and a busy machine is slow.
        "timeout_constant": "12",
        "timeout_multiplier": "3",
    }
    lines = [
        f"{name} = {values}" if isinstance(values, str) else f"{name} =\n  " + "\n  ".join(values)
        for name, values in settings.items()
    ]
    (copy / "setup.cfg").write_text("[mutmut]\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return copy


def _mutmut(*arguments: str, folder: Path) -> None:
    environment = os.environ | {"HYPOTHESIS_PROFILE": "repeatable"}
    subprocess.run([*_PROGRAM, *arguments], cwd=folder, env=environment, check=True)


def _results(copy: Path) -> dict[str, str]:
    """How each change fared, by mutmut's name for it."""
    asked = [*_PROGRAM, "results", "--all", "true"]
    printed = subprocess.run(asked, cwd=copy, capture_output=True, text=True, check=True).stdout
    found = (_RESULT.fullmatch(line) for line in printed.splitlines())
    return {result[1]: result[2] for result in found if result is not None}


def _passed_over(status: str) -> bool:
    return status in NOTICED or status == UNTRIED


def _changes(names: Iterable[str], copy: Path) -> list[str]:
    """The changes of that name, as differences of the source."""
    shown = (
        subprocess.run([*_PROGRAM, "show", name], cwd=copy, capture_output=True, text=True)
        for name in names
    )
    return [one.stdout for one in shown]


if __name__ == "__main__":
    sys.exit(main())
