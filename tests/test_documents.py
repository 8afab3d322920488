"""Documents say what is so: their code runs, their commands work, their links lead somewhere."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import require_tool
from tests.scripted import Scripted, Step
from tests.warm import warm_run

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCUMENTS = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})
RUN = [path for path in DOCUMENTS if path == README or path.parent != ROOT]
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]

SMITHERS = (sys.executable, "-m", "smithers")
# These go on until they are stopped, so only their names and options are tried.
LIVE = ("smithers db watch", "smithers demo", "smithers ui", "smithers mcp")

# What Claude Code says in the examples.
CLAUDE: list[Step] = [
    {"tool": "Bash", "input": {"command": "pytest"}, "output": "12 passed"},
    {"text": "PASS"},
]
VERDICT = {"passed": True, "notes": ["well done"]}

# Written in two halves, since this file is one of those that are searched.
FORBIDDEN = [
    r"(?<![\w.~])/(work|root)" + r"/",
    "/tmp/" + "venv",
    "pypi" + r"\.org",
    "python" + r"hosted\.org",
    "npm" + r"js\.(com|org)",
    "(deb|security)" + r"\.debian\.org",
]


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a document: its language, the line before its first one, and its text."""

    language: str
    line: int
    text: str


@pytest.mark.parametrize("document", RUN, ids=[str(path.relative_to(ROOT)) for path in RUN])
def test_the_code_and_the_commands_of_a_document_work(
    document: Path, tmp_path: Path, claude: Scripted
) -> None:
    claude.says(CLAUDE, structured_output=VERDICT)
    blocks = _blocks(document)
    # Not the name of the page alone, which may be that of a library.
    script = tmp_path / f"{document.stem}_page.py"
    script.write_text(_script(blocks), encoding="utf-8")
    _run([sys.executable, str(script)], tmp_path)
    for block in blocks:
        if block.language == "console":
            for command, shown in _commands(block.text):
                _try(command, shown, tmp_path, f"{document.name}, line {block.line}")


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_every_make_target_that_a_document_names_exists(document: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = "\n".join(block.text for block in _blocks(document) if block.language != "python")
    named = re.findall(r"^\$?\s*make (?:\w+=\S+ )?(\w+)\b", text, re.MULTILINE)
    missing = [target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)]
    assert not missing, missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_every_link_leads_to_a_file_and_every_test_linked_exists(document: Path) -> None:
    broken: list[str] = []
    for label, target in _links(document):
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            continue
        path = document.parent / target.partition("#")[0]
        if not path.exists():
            broken.append(f"{target} does not exist")
        elif label.startswith("`test_") and label.strip("`") not in _functions(path):
            broken.append(f"{label} is not in {target}")
    assert not broken, "\n".join(broken)


def test_every_promise_is_linked_to_its_test() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    promises = re.split(r"^(?=\d+\. )", text, flags=re.MULTILINE)[1:]
    assert promises, "no numbered promise was found"
    bare = [promise.splitlines()[0] for promise in promises if "[`test_" not in promise]
    assert not bare, "\n".join(bare)


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) < 150


def test_no_file_names_a_machine_or_a_package_registry() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: which files are tracked is unknown")
    listed = subprocess.run(
        [require_tool("git"), "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    forbidden = re.compile("|".join(f"(?:{pattern})" for pattern in FORBIDDEN))
    found = [
        f"{name}, line {number}: {line.strip()[:80]}"
        for name in filter(None, listed)
        if (ROOT / name).is_file()
        for number, line in enumerate(_text(ROOT / name).splitlines(), 1)
        if forbidden.search(line)
    ]
    assert not found, "\n".join(found)


def _blocks(document: Path) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    return [
        Block(found["language"], text.count("\n", 0, found.start()) + 1, found["text"])
        for found in re.finditer(
            r"^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", text, re.MULTILINE | re.DOTALL
        )
    ]


def _script(blocks: list[Block]) -> str:
    # Each block keeps its lines' numbers, so that a traceback names the line of the document.
    lines: list[str] = []
    for block in blocks:
        if block.language == "python":
            lines += [""] * (block.line - len(lines))
            lines += block.text.splitlines()
    return "\n".join(lines) + "\n"


def _commands(text: str) -> list[tuple[str, list[str]]]:
    """The commands after `$ `, each with the lines shown as its output."""
    commands: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif line.strip() and commands:
            commands[-1][1].append(line.strip())
    return commands


def _try(command: str, shown: list[str], folder: Path, where: str) -> None:
    words = shlex.split(command, comments=True)
    if command.startswith(LIVE):
        words = [*[word for word in words if not word.startswith("-")][:3], "--help"]
    if words[0] == "smithers":
        argv = [*SMITHERS, *words[1:]]
    elif words[0] == "sqlite3":
        argv = [require_tool("sqlite3"), *words[1:]]
    else:
        assert words[0] in {"make", "pip"}, f"{where}: no test knows how to try {command!r}"
        return
    printed = _run(argv, folder)
    rest = iter(printed.splitlines())
    for expected in shown:
        assert any(expected in line for line in rest), (
            f"{where}: {command!r} did not print {expected!r}, but:\n{printed}"
        )


def _run(argv: list[str], folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    if argv[0] == sys.executable:
        ended = warm_run(argv[1:], folder, environment)
    else:
        ended = subprocess.run(
            argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=50
        )
    assert ended.returncode == 0, f"{argv} failed\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def _links(document: Path) -> list[tuple[str, str]]:
    text = re.sub(r"^```.*?^```$", "", document.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"\[([^\]]+)\]\(([^)\s]+)\)", text)


@cache
def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")
