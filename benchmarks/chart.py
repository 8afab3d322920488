"""Draws the figures of one subject as bars, in SVG that reads on light and on dark ground."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.figures import Figure, shown

WIDTH = 860
LABELS = 400  # where the bars begin
LONGEST = 340
ROW = 26
BAR = 14
TOP = 44

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #24292f; }
  .title { font-size: 15px; font-weight: 600; }
  .met { fill: #2da44e; } .missed { fill: #d4742c; } .free { fill: #6e87a6; }
  .target { stroke: #24292f; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .target { stroke: #e6edf3; }
  }
"""


def draw(title: str, figures: Sequence[Figure]) -> str:
    """Return the SVG: a bar for each figure, a stroke at its target.

    Bars of one unit share a scale; a bar beyond three times the median is cut and says so by its
    number.
    """
    rows = [row for number, figure in enumerate(figures) for row in _row(number, figure, figures)]
    height = TOP + ROW * len(figures) + 12
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(title)}">',
            f"<style>{STYLE}</style>",
            f'<text class="title" x="12" y="24">{escape(title)}</text>',
            *rows,
            "</svg>",
            "",
        ]
    )


def _row(number: int, figure: Figure, figures: Sequence[Figure]) -> Iterator[str]:
    middle = TOP + ROW * number + ROW / 2
    scale = LONGEST / _most(figure.unit, figures)
    length = max(1.0, min(LONGEST, figure.value * scale))
    kind = {None: "free", True: "met", False: "missed"}[figure.met]
    label = f"{figure.name} / {figure.peer}" if figure.peer else figure.name
    yield (
        f'<text x="{LABELS - 10}" y="{middle + 4:g}" text-anchor="end">'
        f"{escape(_cut(label))}<title>{escape(label)}</title></text>"
    )
    yield (
        f'<rect class="{kind}" x="{LABELS}" y="{middle - BAR / 2:g}" width="{length:.1f}" '
        f'height="{BAR}" rx="2"/>'
    )
    if figure.at_most is not None and (at := figure.at_most * scale) <= LONGEST:
        yield (
            f'<line class="target" x1="{LABELS + at:.1f}" x2="{LABELS + at:.1f}" '
            f'y1="{middle - BAR / 2 - 3:g}" y2="{middle + BAR / 2 + 3:g}"/>'
        )
        length = max(length, at)
    value = escape(shown(figure.value, figure.unit))
    yield f'<text x="{LABELS + length + 8:.1f}" y="{middle + 4:g}">{value}</text>'


def _most(unit: str, figures: Sequence[Figure]) -> float:
    """The value at which bars of this unit reach their full length."""
    same = sorted(
        max(figure.value, figure.at_most or 0.0) for figure in figures if figure.unit == unit
    )
    return min(same[-1], 3 * same[len(same) // 2]) or 1.0


def _cut(label: str) -> str:
    return label if len(label) <= 62 else label[:61] + "…"
