"""Nothing public goes undocumented: every command and option, every name of both packages."""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import click
import pytest

from smithers.cli import cli

DOCS = Path(__file__).parent.parent / "docs"
PACKAGES = ("reactive_sqlite", "smithers")
# What only the rooms of a package ask of each other's classes; users have no need of it.
INNER = {
    "AgentRecorder": {"close", "end", "flush", "report", "session_cost"},
    "Agents": {"begin"},
    "AsyncFeed": {"report"},
    "Database": {"accept"},
    "Effect": {
        *("checking", "cleanups", "dirty", "has_ended", "is_memo", "live", "owned", "parent"),
        *("raw", "recompute", "sink", "sources", "stale", "stamp"),
    },
    "Executions": {"begin", "let_go", "retake", "take_incomplete"},
    "Feed": {"attach", "detach"},
    "ObservableQuery": {
        *("begin", "decoded", "has_value", "hold", "idle", "left", "let_go", "lock", "renew"),
        *("lapse", "take_in"),
    },
    "Owner": {"cleanups", "has_ended", "owned", "parent"},
    "Phases": {"begin", "rejoin"},
    "Region": {"everything", "pins"},
    "Steps": {"begin"},
}
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


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_documentation(package: str) -> None:
    public: list[str] = importlib.import_module(package).__all__
    missing = [name for name in public if not _stands_in(name, _every_page())]
    assert not missing, f"in no page of docs/: {missing}"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_method_and_field_of_a_public_class_is_in_the_code_of_the_documentation(
    package: str,
) -> None:
    module = importlib.import_module(package)
    code = _code()
    missing: dict[str, set[str]] = {}
    for name in module.__all__:
        public = getattr(module, name)
        if inspect.isclass(public):
            members = _members(public)
            inner = INNER.get(name.removeprefix("Async"), set()) | INNER.get(name, set())
            unknown = INNER.get(name, set()) - members
            assert not unknown, f"{name} has no {sorted(unknown)}: take them out of INNER"
            bare = {member for member in members - inner if not _stands_in(member, code)}
            missing |= {name: bare} if bare else {}
    assert not missing, f"in no code of docs/, and not in INNER: {missing}"


def _members(public: type) -> set[str]:
    """What a class has for its users, but for what it has from classes of other packages."""
    own = [one for one in public.__mro__ if one.__module__.startswith(PACKAGES)]
    others = [one for one in public.__mro__ if one not in own]
    names = {name for one in own for name in vars(one) if not name.startswith("_")}
    return names - {name for one in others for name in vars(one)}


@cache
def _code() -> str:
    """The blocks and the spans of code of all pages."""
    return "\n".join(re.findall(r"^```.*?^```|`[^`]+`", _every_page(), re.MULTILINE | re.DOTALL))


def _stands_in(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None
