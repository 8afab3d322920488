"""Signals, memos and effects beside other libraries, at every graph of `graphs`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.figures import Figure, Outcome
from benchmarks.graphs.case import Case
from benchmarks.graphs.catalogue import CASES, GROUPS
from benchmarks.graphs.contestant import Contestant
from benchmarks.graphs.libraries import OURS, STICK, installed
from benchmarks.timing import Effort, Series, geometric_mean

TITLE = "Signals: geometric means over all cases"
# What ours may take of another's time, over all cases and in each group.
OVERALL = {"reaktiv": 0.13 if sys.version_info < (3, 12) else 0.22, STICK: 1.25}
EACH_GROUP = {"observ": 1.0, "nervio": 1.0}

ROUNDS = 5
PATIENCE = 15.0
# Its writes visit every path through a graph, not every node: one run takes more than a minute.
HOPELESS = {
    "reaktiv": (
        *("cellx/20", "cellx/50", "grid/6-10x10-dyn25-lazy80", "grid/4-1000x12-dyn5"),
        *("grid/25-1000x5", "grid/3-5x500", "grid/6-100x15-dyn50"),
    )
}


def measure(effort: Effort, folder: Path, *, cases: Iterable[Case] | None = None) -> Outcome:
    """Run every case with each library that is installed here; `folder` is not used."""
    names = installed(effort.stick)
    timings: dict[str, Series] = {}
    notes: list[str] = []
    for case in CASES.values() if cases is None else cases:
        timings[case.name], failures = _timed(case, names, effort)
        notes += failures
    figures = [figure for peer in names if peer != OURS for figure in _beside(peer, timings)]
    failed = sum(OURS not in series.seconds for series in timings.values())
    figures.append(Figure("cases that ours fails", failed, unit="", at_most=0.0))
    details = [
        Figure(f"{case}: {name}", series.typical(name) * 1e3, unit="ms")
        for case, series in timings.items()
        for name in series.seconds
    ]
    if len(names) == 1:
        notes.append("no other library is installed: see the extra `bench`")
    return Outcome("signals", TITLE, tuple(figures), tuple(details), tuple(notes))


def _timed(case: Case, names: list[str], effort: Effort) -> tuple[Series, list[str]]:
    """Time a case with all libraries by turns; one that fails or is too slow drops out."""
    failures: list[str] = []
    seconds: dict[str, list[float]] = {}
    with ExitStack() as stack:
        running: dict[str, Contestant] = {}
        for name in names:
            if case.name in HOPELESS.get(name, ()):
                failures.append(f"{name} at {case.name}: left out, it takes minutes")
                continue
            running[name] = _contestant(name, case, effort)
            stack.enter_context(running[name])
            _attempt(running, name, failures, None)
        for _ in range(min(ROUNDS, effort.rounds)):
            for name in list(running):
                _attempt(running, name, failures, seconds.setdefault(name, []))
    return Series({name: tuple(seconds[name]) for name in running}), failures


def _contestant(name: str, case: Case, effort: Effort) -> Contestant:
    size = effort.count(case.size)
    return Contestant(name, case.name, size, stick=effort.stick, patience=PATIENCE)


def _attempt(
    running: dict[str, Contestant], name: str, failures: list[str], seconds: list[float] | None
) -> None:
    try:
        if seconds is None:
            running[name].ready()
        else:
            seconds.append(running[name].run())
    except (ArithmeticError, TimeoutError) as error:
        failures.append(str(error))
        del running[name]


def _beside(peer: str, timings: dict[str, Series]) -> Iterator[Figure]:
    """The means over all cases that the peer got right, and over those of each group."""
    ratios = {
        case: series.ratio(OURS, peer)
        for case, series in timings.items()
        if {OURS, peer} <= series.seconds.keys()
    }
    if not ratios:
        return
    number = "all" if len(ratios) == len(timings) else f"{len(ratios)} of"
    yield Figure(
        f"{number} {len(timings)} cases",
        geometric_mean(ratios.values()),
        peer,
        at_most=OVERALL.get(peer),
    )
    for group in GROUPS:
        own = [ratio for case, ratio in ratios.items() if CASES[case].group == group]
        if own:
            yield Figure(f"group {group}", geometric_mean(own), peer, at_most=EACH_GROUP.get(peer))
