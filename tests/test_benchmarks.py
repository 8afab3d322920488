"""The benchmarks run, their graphs are right, and what they find can be read; never how fast."""

from __future__ import annotations

import gc
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from benchmarks import signals
from benchmarks.chart import draw
from benchmarks.figures import Figure, Outcome, shown
from benchmarks.graphs.bench import Bench, with_deep_stack
from benchmarks.graphs.case import Case, Workload
from benchmarks.graphs.catalogue import CASES
from benchmarks.graphs.contestant import Contestant
from benchmarks.graphs.grids import Grid, Shape
from benchmarks.graphs.libraries import OURS, STICK, Ours
from benchmarks.graphs.library import Library
from benchmarks.results import keep, show
from benchmarks.subjects import SUBJECTS, measured
from benchmarks.timing import Effort, Series, interleave

ROOT = Path(__file__).parent.parent
TINY = Effort(rounds=1, scale=0.001, turn=0.0005)

OUTCOME = Outcome(
    "subject",
    "A <title>",
    (
        Figure("kept", 1.2, "by hand", at_most=1.5),
        Figure("broken", 2.0, "by hand", at_most=1.5),
        Figure("shown", 12.0, unit="µs"),
    ),
    details=(Figure("detail", 7.0, unit="ms"),),
    notes=("a note",),
)


@pytest.fixture
def frozen() -> Iterator[None]:
    """Hide from the garbage collector what a subject has shown it again: all collected tests.

    There is one `gc.unfreeze`, for whoever has frozen what.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("subject", [name for name in SUBJECTS if name != "signals"])
def test_every_subject_runs(subject: str, tmp_path: Path) -> None:
    outcome = measured(subject, TINY, tmp_path)
    assert outcome.subject == subject
    assert any(figure.at_most is not None for figure in outcome.figures), "no target is judged"


def test_signals_are_measured_beside_a_stick(tmp_path: Path) -> None:
    stick = tmp_path / "stick.py"
    stick.write_text(
        "from reactive_sqlite import batch as scope, create_effect as Effect\n"
        "from reactive_sqlite import create_memo, create_signal\n"
        "def batch(fn):\n    with scope():\n        fn()\n"
    )
    cases = [CASES["kairo/deep"], CASES["create/effect1to1"]]
    effort = Effort(rounds=2, scale=0.01, stick=stick)
    outcome = signals.measure(effort, tmp_path, cases=cases)
    beside = [figure.name for figure in outcome.figures if figure.peer == STICK]
    assert beside == ["all 2 cases", "group kairo", "group create"]
    assert {f"kairo/deep: {OURS}", f"kairo/deep: {STICK}"} <= {d.name for d in outcome.details}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_our_signals_answer_every_case_rightly(case: Case) -> None:
    def run() -> None:
        bench = Bench(Ours(), case, max(2, case.size // 100))
        bench.run()
        bench.run()
        bench.close()

    with_deep_stack(run)


@pytest.mark.parametrize(
    ("shape", "turns", "total", "runs"),
    [
        (Shape(3, 3, 1, 2, 1), 2, 16, 11),
        (Shape(3, 3, 1, 2, 2 / 3), 10, 72, 41),
        (Shape(4, 2, 0.5, 2, 1), 10, 72, 22),
    ],
)
def test_grids_have_the_sums_and_the_runs_known_from_the_original(
    shape: Shape, turns: int, total: int, runs: int
) -> None:
    library = Ours()
    grid = Grid(library, shape)
    for turn in range(turns):
        at = turn % shape.width
        library.batch(partial(grid.writes[at], turn + at))
        for read in grid.ends:
            read()
    assert (sum(read() for read in grid.ends), grid.runs) == (total, runs)
    library.clear()


def test_a_wrong_answer_gets_no_time() -> None:
    def build(library: Library, size: int) -> Workload:
        return Workload(lambda: size, lambda: size + 1)

    with pytest.raises(ArithmeticError, match="wrong: 3 instead of 4"):
        Bench(Ours(), Case("wrong", 3, build), 3)


def test_a_library_that_fails_says_so() -> None:
    contestant = Contestant("stick", "kairo/deep", 1, stick=None, patience=20)
    with contestant, pytest.raises(ArithmeticError, match="stick at kairo/deep: ImportError"):
        contestant.ready()


def test_a_library_that_takes_too_long_is_given_up() -> None:
    contestant = Contestant(OURS, "kairo/deep", 1, stick=None, patience=0)
    with contestant, pytest.raises(TimeoutError, match="longer than 0 s"):
        contestant.ready()


def test_a_ratio_is_the_median_of_neighbouring_turns() -> None:
    series = Series({"a": (2.0, 30.0, 3.0), "b": (1.0, 10.0, 3.0)})
    assert series.ratio("a", "b") == 2.0
    assert series.typical("a") == 3.0


def test_pieces_of_work_take_turns() -> None:
    order: list[str] = []

    def work(name: str) -> Callable[[], None]:
        return lambda: order.append(name)

    # A clock that ticks a second at each look: one call is always enough for a turn.
    ticks = iter(range(1000))
    effort = Effort(rounds=3, turn=1.0, clock=lambda: float(next(ticks)))
    interleave({"a": work("a"), "b": work("b")}, effort)
    assert order[-6:] == ["a", "b"] * 3


def test_the_table_shows_values_targets_and_verdicts() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    show(OUTCOME, console)
    text = console.export_text()
    assert all(word in text for word in ("1.20 x", "≤ 1.50 x", "not met", "12 µs", "a note"))
    assert "detail" not in text


def test_figures_are_kept_as_json_and_as_a_chart(tmp_path: Path) -> None:
    keep(OUTCOME, TINY, tmp_path / "new" / "folder")
    record = json.loads((tmp_path / "new" / "folder" / "subject.json").read_text("utf-8"))
    verdicts = [figure["verdict"] for figure in record["figures"]]
    assert verdicts == ["met", "not met", ""]
    assert record["machine"].keys() >= {"python", "sqlite", "cores"}
    chart = (tmp_path / "new" / "folder" / "subject.svg").read_text("utf-8")
    assert chart == draw(OUTCOME.title, OUTCOME.figures)


def test_a_chart_has_a_bar_for_each_figure_and_a_stroke_for_each_target() -> None:
    root = ElementTree.fromstring(draw(OUTCOME.title, OUTCOME.figures))
    space = "{http://www.w3.org/2000/svg}"
    bars = {bar.get("class"): float(bar.get("width", 0)) for bar in root.iter(f"{space}rect")}
    assert bars.keys() == {"met", "missed", "free"}
    assert bars["met"] < bars["missed"], "figures of one unit share a scale"
    assert len(list(root.iter(f"{space}line"))) == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.014, "0.014 x"), (1.25, "1.25 x"), (12.345, "12.3 x"), (20_000, "20,000 x"), (0, "0 x")],
)
def test_values_are_shown_with_the_digits_that_matter(value: float, text: str) -> None:
    assert shown(value, "x") == text


def test_an_unknown_subject_is_refused() -> None:
    command = [sys.executable, "-m", "benchmarks", "nonsense"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "no such subject: nonsense" in ended.stderr
