"""All cases by name."""

from __future__ import annotations

from benchmarks.graphs import cellx, creation, grids, kairo, updating
from benchmarks.graphs.case import Case

CASES: dict[str, Case] = {
    case.name: case for module in (kairo, creation, updating, cellx, grids) for case in module.CASES
}
GROUPS = tuple(dict.fromkeys(case.group for case in CASES.values()))
