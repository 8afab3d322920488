"""Runs benchmarks: `python -m benchmarks` all of them, `python -m benchmarks SUBJECT …` some."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from rich.console import Console

from benchmarks.results import keep, machine, show
from benchmarks.subjects import SUBJECTS, measured
from benchmarks.timing import ROUNDS, Effort

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Measure the subjects one after the other; show and keep the figures of each."""
    options = _options()
    clock = time.process_time if options.cpu else time.perf_counter
    effort = Effort(options.rounds, options.scale, clock=clock, stick=options.stick)
    console = Console()
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()))
    for subject in options.subjects or SUBJECTS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            outcome = measured(subject, effort, Path(folder))
        show(outcome, console, details=options.details)
        keep(outcome, effort, options.results)
        console.print(f"{time.monotonic() - began:.0f} s\n", style="dim")
    console.print(f"kept as JSON and SVG in {options.results}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=", ".join(SUBJECTS))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each side")
    parser.add_argument("--scale", type=float, default=1.0, help="shrinks what is counted")
    parser.add_argument("--cpu", action="store_true", help="compare processor time, not wall time")
    parser.add_argument("--stick", type=Path, help="a file of signals to measure ours by")
    parser.add_argument("--details", action="store_true", help="show the times of single cases too")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where JSON and SVG go")
    options = parser.parse_args()
    unknown = set(options.subjects) - set(SUBJECTS)
    if unknown:
        parser.error(f"no such subject: {', '.join(sorted(unknown))}; see --help")
    return options


if __name__ == "__main__":
    main()
