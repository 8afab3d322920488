"""Tables of the command line: every column on every terminal, and plain lines in a pipe."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
from rich.cells import cell_len

from smithers import SmithersDB
from smithers.cli.tables import MOST_LINES, Column, print_listing, print_table, table_widths
from tests.smithers.commandline import on_terminal

COLUMNS = ("key", "value", "updated")
ROW = ("k" * 300, '"value"', "2026-01-31 12:00:00.000")


def shown(
    capsys: pytest.CaptureFixture[str],
    columns: tuple[str, ...],
    *rows: tuple[str, ...],
    width: int,
    whole: tuple[str, ...] = (),
) -> list[str]:
    """What a terminal of that width shows; width 0 is a pipe."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width or 80))
        patch.setattr(sys.stdout, "isatty", lambda: width > 0)
        print_table(columns, rows, whole=whole)
    return click.unstyle(capsys.readouterr().out).splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_long_cell_takes_no_other_column_away(
    capsys: pytest.CaptureFixture[str], width: int
) -> None:
    lines = shown(capsys, COLUMNS, ROW, width=width, whole=("updated",))
    assert lines[0].split() == list(COLUMNS)
    assert '"value"' in lines[2] and "2026-01-31 12:00:00.000" in lines[2]
    assert "".join(lines).count("k") == 301, "folded, not cut (one k is that of the name)"
    assert max(map(len, lines)) <= width


def test_a_terminal_too_narrow_for_the_columns_gets_records(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shown(capsys, COLUMNS, ("a", "1", ROW[2]), ROW, width=30, whole=("updated",)) == [
        "key: a",
        "value: 1",
        "updated: 2026-01-31 12:00:00.000",
        "",
        f"key: {ROW[0]}",
        'value: "value"',
        "updated: 2026-01-31 12:00:00.000",
    ]
    many = tuple(f"column{number}" for number in range(12))
    assert shown(capsys, many, many, width=80) == [f"{name}: {name}" for name in many]


def test_a_pipe_gets_every_cell_whole_between_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    huge = "x" * 100_000
    assert shown(capsys, COLUMNS, ROW, (huge, "b", "c"), width=0) == [
        "\t".join(COLUMNS),
        "\t".join(ROW),
        f"{huge}\tb\tc",
    ]


@pytest.mark.parametrize("width", [30, 80])
def test_a_cell_of_many_lines_is_cut_with_an_ellipsis(
    capsys: pytest.CaptureFixture[str], width: int
) -> None:
    lines = shown(capsys, COLUMNS, ("x" * 100_000, "b", ROW[2]), width=width, whole=("updated",))
    assert len("".join(lines)) < (MOST_LINES + 3) * width
    assert "".join(lines).count("…") == 1


def test_wide_characters_count_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert table_widths(("a", "b"), [("語" * 10, "x")], width=80) == [20, 1]
    lines = shown(capsys, ("a", "b"), ("語" * 50, "x"), width=60)
    assert max(len(line) + line.count("語") for line in lines) <= 60
    assert "".join(lines).count("語") == 50


@pytest.mark.parametrize(
    ("needs", "width", "widths"),
    [
        ((5, 5), 80, [5, 5]),
        ((5, 500), 80, [5, 72]),
        ((500, 500), 83, [40, 40]),
        ((20, 500, 500), 106, [20, 40, 40]),
        ((500, 500), 23, [10, 10]),
        ((500, 500), 22, None),
        ((3, 500), 15, None),
        ((3, 500), 16, [3, 10]),
    ],
)
def test_columns_get_what_they_need_and_share_what_is_left(
    needs: tuple[int, ...], width: int, widths: list[int] | None
) -> None:
    columns = [f"c{number}" for number in range(len(needs))]
    assert table_widths(columns, [["x" * need for need in needs]], width=width) == widths


def test_a_name_longer_than_its_cells_is_folded_before_cells_are_lost() -> None:
    assert table_widths(["n" * 100, "b"], [["1", "2"]], width=40) == [36, 1]
    assert table_widths(["n" * 100, "b"], [["1", "2"]], width=20) == [16, 1]
    assert table_widths(["n" * 100, "b"], [["1", "2"]], width=19) is None


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_real_terminal_shows_every_column(db: SmithersDB, path: Path, width: int) -> None:
    db.state.set("k" * 100, "review", trigger="t" * 100)
    queried = db.query("SELECT * FROM transitions")[0]
    for args, names in (
        (("state",), COLUMNS),
        (("history",), ("id", "time", "change", "trigger")),
        (("query", "SELECT * FROM transitions"), tuple(queried)),
    ):
        out = on_terminal(["db", *args, "--path", str(path)], width)
        assert all(name in out for name in names)
        squeezed = "".join(out.split())
        assert '"review"' in squeezed
        assert "…" not in out


def listed(capsys: pytest.CaptureFixture[str], columns: list[Column], *, width: int) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width or 80))
        patch.setattr(sys.stdout, "isatty", lambda: width > 0)
        print_listing(columns)
    return click.unstyle(capsys.readouterr().out).splitlines()


LISTING = [
    Column("id", ["0123456789abcdef"], ["89abcdef"], whole=True),
    Column("text", ["one two three four"], lines=1),
    Column("n", ["1234"], ["1,234"], whole=True, number=True),
    Column("nothing", ["-"], spare=True),
    Column("more", ["x" * 20], whole=True, spare=True),
    Column("most", ["y" * 20], whole=True, spare=True),
]


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (120, ["id", "text", "n", "more", "most"]),
        (70, ["id", "text", "n", "more"]),
        (40, ["id", "text", "n"]),
    ],
)
def test_a_listing_goes_without_spare_columns_where_the_terminal_is_narrow(
    capsys: pytest.CaptureFixture[str], width: int, names: list[str]
) -> None:
    lines = listed(capsys, LISTING, width=width)
    assert lines[0].split() == names, "a spare column that says nothing is left out anyway"
    assert lines[2].split()[:5] == ["89abcdef", "one", "two", "three", "four"]
    assert max(map(len, lines)) <= width


def test_a_pipe_gets_every_column_of_a_listing_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys, LISTING, width=0) == [
        "\t".join(column.name for column in LISTING),
        "\t".join(column.cells[0] for column in LISTING),
    ]


@pytest.mark.parametrize("lines", [1, 2, 3])
@pytest.mark.parametrize("text", ["word " * 99, "語" * 99, "x" * 500, "🎉 party " * 50])
def test_a_cell_of_a_listing_has_as_many_lines_as_it_may(
    capsys: pytest.CaptureFixture[str], text: str, lines: int
) -> None:
    columns = [Column("a", ["1"], whole=True), Column("text", [text], lines=lines)]
    shown = listed(capsys, columns, width=40)
    assert len(shown) == 2 + lines
    assert shown[-1].rstrip().endswith("…"), "that something is missing is seen"
    assert "".join(shown).count("…") == 1
    assert all(cell_len(line) <= 40 for line in shown)
