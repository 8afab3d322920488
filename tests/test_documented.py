"""Nothing public goes undocumented: every command and option, every name of both packages."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

import click
import pytest

from smithers.cli import cli

DOCS = Path(__file__).parent.parent / "docs"
# Of every command, or of every one that lists: said once, above the tables.
SHARED = {"--path", "--json", "--limit"}


def _commands(group: click.Group, *above: str) -> dict[tuple[str, ...], click.Command]:
    """Every command by its words, `("db", "state")`."""
    found: dict[tuple[str, ...], click.Command] = {}
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found |= _commands(command, *above, name)
        else:
            found[(*above, name)] = command
    return found


COMMANDS = _commands(cli)


@cache
def _page() -> str:
    return (DOCS / "cli.md").read_text(encoding="utf-8")


@cache
def _every_page() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md")))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_and_every_option_has_its_place_in_the_page(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    name = words[1] if words[0] == "db" else f"smithers {words[0]}"
    found = re.search(rf"(?:^\| |^)`({re.escape(name)}(?: [^`]*)?)`", _page(), re.MULTILINE)
    assert found, f"{name!r} is not in docs/cli.md"
    options = {
        option
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
    }
    missing = {option for option in options - SHARED if not _stands_in(option, found[1])}
    assert not missing, f"{sorted(missing)} of {name!r} are not in its line of docs/cli.md"
    arguments = [
        parameter.human_readable_name.upper()
        for parameter in command.params
        if isinstance(parameter, click.Argument)
    ]
    assert all(_stands_in(argument, found[1]) for argument in arguments), arguments


@pytest.mark.parametrize("option", sorted(SHARED))
def test_an_option_of_all_commands_is_said_once(option: str) -> None:
    assert re.search(rf"`{option}(?: [A-Z]+)?`", _page())


def test_the_page_names_no_command_or_option_that_is_not_there() -> None:
    rows = re.findall(r"^\| `([a-z]+)((?: [^`]*)?)` \| [^|]+\|$", _page(), re.MULTILINE)
    known = {words[1]: command for words, command in COMMANDS.items() if words[0] == "db"}
    named = {name: set(re.findall(r"--[a-z-]+", rest)) for name, rest in rows}
    assert set(named) == set(known)
    for name, options in named.items():
        there = {option for parameter in known[name].params for option in parameter.opts}
        assert options <= there, name


@pytest.mark.parametrize("package", ["reactive_sqlite", "smithers"])
def test_every_public_name_is_in_the_documentation(package: str) -> None:
    public: list[str] = importlib.import_module(package).__all__
    missing = [name for name in public if not _stands_in(name, _every_page())]
    assert not missing, f"in no page of docs/: {missing}"


def _stands_in(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None
