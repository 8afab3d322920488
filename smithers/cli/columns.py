"""The columns that many listings share: ids, times, durations, amounts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from smithers.cli.output import (
    ABSENT,
    glance,
    glance_id,
    glance_time,
    shown_cost,
    shown_lasting,
    shown_size,
    shown_text,
    shown_times,
)
from smithers.cli.tables import Column


def id_column(ids: Iterable[str], *, spare: bool = False) -> Column:
    """Show ids: on a terminal their ends, unless two rows end alike."""
    listed = list(ids)
    short = [glance_id(id) for id in listed]
    if len(set(short)) < len(set(listed)):
        short = [shown_text(id) for id in listed]
    return Column("id", [shown_text(id) for id in listed], short, whole=True, spare=spare)


def text_column(
    name: str, texts: Iterable[str | None], *, lines: int = 2, spare: bool = False
) -> Column:
    """Show texts that may be long: on a terminal their beginnings."""
    listed = list(texts)
    return Column(
        name,
        [shown_text(text) for text in listed],
        [glance(text) for text in listed],
        lines=lines,
        spare=spare,
    )


def time_column(name: str, moments: Iterable[datetime], *, spare: bool = False) -> Column:
    """Show times: to the minute on a terminal, to the millisecond in a pipe."""
    listed = list(moments)
    head, whole = shown_times(name, listed)
    return Column(head, whole, [glance_time(one) for one in listed], whole=True, spare=spare)


def took_column(lasting: Iterable[tuple[datetime, int | None]]) -> Column:
    """Show how long rows took, or have been running until now."""
    cells = [shown_lasting(started_at, duration_ms) for started_at, duration_ms in lasting]
    return Column("took", cells, whole=True, number=True)


def cost_column(dollars: Iterable[float]) -> Column:
    """Show amounts in US dollars."""
    listed = list(dollars)
    glances = [shown_cost(amount) if amount else ABSENT for amount in listed]
    cells = [str(amount) for amount in listed]
    return Column("cost", cells, glances, whole=True, number=True)


def count_column(name: str, counts: Iterable[int | None], *, spare: bool = True) -> Column:
    """Show numbers."""
    listed = list(counts)
    cells = [ABSENT if count is None else str(count) for count in listed]
    glances = [ABSENT if count is None else f"{count:,}" for count in listed]
    return Column(name, cells, glances, whole=True, number=True, spare=spare)


def size_column(name: str, sizes: Iterable[int | None]) -> Column:
    """Show numbers of bytes."""
    listed = list(sizes)
    cells = [ABSENT if size is None else str(size) for size in listed]
    return Column(name, cells, [shown_size(size) for size in listed], whole=True, number=True)


def status_column(statuses: Iterable[str]) -> Column:
    """Show words that a table of ours allows."""
    return Column("status", list(statuses), whole=True)
