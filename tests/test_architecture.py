"""The rows of the house, as data, and the tests that keep every module in its place."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("reactive_sqlite", "smithers")

# A module may import its own row or a lower one. A package named here stands for all its modules;
# the longest matching name decides. A new room begins with a line here and its reason.
ROWS = {
    "reactive_sqlite.arguments": 1,  # what callers pass, shown in errors and refused
    "reactive_sqlite.errors": 1,
    "reactive_sqlite.signals": 1,
    "reactive_sqlite.region": 2,
    "reactive_sqlite.changes": 2,
    "reactive_sqlite.diff": 2,
    "reactive_sqlite.bridge": 2,
    "reactive_sqlite.forks": 2,
    "reactive_sqlite.mailbox": 2,  # answers of another thread, put before an event loop
    "reactive_sqlite.worker": 2,
    "reactive_sqlite.face": 2,
    "reactive_sqlite.tokens": 2,  # SQL text split as SQLite splits it
    "reactive_sqlite.pins": 3,  # proves equality pins from SQL text for `analysis`
    "reactive_sqlite.dialect": 2,  # which SQLite module, and how it spells things
    "reactive_sqlite.equality": 2,  # when two results count as the same
    "reactive_sqlite.statement": 2,  # what the compiler said of a statement, as a value
    "reactive_sqlite.analysis": 3,
    "reactive_sqlite.catalog": 3,  # the tables and columns that a connection can see
    "reactive_sqlite.cursor": 3,  # rows buffered
    "reactive_sqlite.blob": 3,  # writes through a blob handle, noticed
    "reactive_sqlite.turnstile": 3,  # which thread may use the connection
    "reactive_sqlite.grouping": 3,  # the block around a transaction: what ends it besides
    "reactive_sqlite.shared": 3,  # a connection used from many threads
    "reactive_sqlite.ledger": 3,  # who is told of statements and ends of transactions
    "reactive_sqlite.authorizer": 3,  # what the compiler asks, recorded
    "reactive_sqlite.connection": 3,
    "reactive_sqlite.opening": 3,  # pragmas and journal mode of a file being opened
    "reactive_sqlite.versions": 3,  # data_version and schema_version of all databases
    "reactive_sqlite.entry": 3,  # one captured row, and what its values are
    "reactive_sqlite.triggers": 3,  # TEMP triggers, which make entries of changed rows
    "reactive_sqlite.capture": 3,
    "reactive_sqlite.tracking": 3,  # the triggers of a tracked table, as SQL
    "reactive_sqlite.changelog": 3,
    "reactive_sqlite.consumers": 3,  # who reads the change log, and how far each has come
    "reactive_sqlite.witness": 3,  # what other connections wrote, as far as the file tells it
    "reactive_sqlite.source": 4,  # a query text with parameters, shared by all who observe it
    "reactive_sqlite.regions": 4,  # what each query reads, for the schema as it is now
    "reactive_sqlite.projection": 4,  # all rows, the first, its first value
    "reactive_sqlite.interest": 4,  # from rows touched to queries, by hash
    "reactive_sqlite.subscription": 4,  # one subscriber, and what it is still to be told
    "reactive_sqlite.delivery": 4,  # telling observers, one delivery at a time
    "reactive_sqlite.listeners": 4,  # change sets of commits
    "reactive_sqlite.publication": 4,  # what one delivery changes
    "reactive_sqlite.followed": 4,  # the queries that somebody looks at
    "reactive_sqlite.broker": 4,
    "reactive_sqlite.feed": 4,  # the change log as one consumer reads it
    "reactive_sqlite.waiting": 4,  # callbacks as waiting, for threads and tasks
    "reactive_sqlite.view": 4,  # what an observed query shows, and who is told of it
    "reactive_sqlite.observation": 4,
    "reactive_sqlite.differences": 4,  # lists as a stream of their differences
    "reactive_sqlite.asyncquery": 5,  # an observed query as the event loop sees it
    "reactive_sqlite.asyncfeed": 5,  # a feed as the event loop sees it
    "reactive_sqlite.trail": 3,  # which keys other programs wrote, where a table keeps that
    "reactive_sqlite.many": 4,  # tuples of queries
    "reactive_sqlite.changestream": 4,  # change sets as an observable
    "reactive_sqlite.onerow": 4,  # a query for one row, answered by the captured one
    "reactive_sqlite.inotify": 4,  # Linux's file events, for `watcher`
    "reactive_sqlite.wakeups": 4,  # what may wake `watcher`, one class for each kind of event
    "reactive_sqlite.watcher": 4,
    "reactive_sqlite.database": 5,
    "reactive_sqlite.tables": 5,
    "reactive_sqlite.aio": 6,
    "smithers.errors": 7,
    "smithers.records": 7,
    "smithers.clock": 7,
    "smithers.ids": 7,
    "smithers.process": 7,  # which process this is, and which others live
    "smithers.heart": 7,  # renewing leases again and again
    "smithers.failure": 7,  # what went wrong, as text
    "smithers.repositories": 7,  # what git or jj says of the current commit
    "smithers.codec": 7,
    "smithers.cells": 7,  # what another program may have put into a cell of a table
    "smithers.dumpfile": 7,  # the lines of the file that a database is dumped to
    "smithers.files": 7,  # files and directories made for this user alone
    "smithers.jsontext": 7,  # values as JSON text that every reader takes
    "smithers.schema": 8,
    "smithers.foreignlog": 8,  # the log of another database, before SQLite takes it for a file's
    "smithers.context": 8,
    "smithers.ownership": 8,
    "smithers.journal": 8,
    "smithers.workspace": 8,  # what the storage classes of a handle share
    "smithers.parents": 8,  # below what a new row stands
    "smithers.memory": 8,  # in which files memories stand, who sees which
    "smithers.logged": 8,  # what a call that logs something is given, checked
    "smithers.rows": 8,  # rows with a life, started and ended
    "smithers.shapes": 8,  # what the values of a type look like in JSON
    "smithers.accessor": 8,  # the reading half of a signal pair
    "smithers.storage": 9,
    "smithers.db": 10,
    "smithers.answers": 10,  # from one answer of a trigger's query to the next
    "smithers.deliveries": 10,  # one trigger's way through what is due
    "smithers.registry": 10,  # the triggers that a handle has handlers for
    "smithers.triggers": 10,  # handlers that changes call
    "smithers.runtime": 11,
    "smithers.aio": 12,
    "smithers.cli": 12,
    "smithers.demo": 12,
    "smithers.web": 12,
}
# The faces of the packages import lazily what they show; nobody in the same package imports them.
FACES = {"reactive_sqlite": 6, "smithers": 13, "smithers.__main__": 13}

PURE = (
    "reactive_sqlite.arguments",
    "reactive_sqlite.errors",
    "reactive_sqlite.signals",
    "reactive_sqlite.region",
    "reactive_sqlite.changes",
    "reactive_sqlite.diff",
    "reactive_sqlite.tokens",
    "reactive_sqlite.pins",
    "smithers.errors",
    "smithers.records",
    "smithers.codec",
    "smithers.memory.search",
)
IO_MODULES = frozenset(
    {
        *("ctypes", "glob", "http", "io", "mmap", "multiprocessing", "os", "pathlib"),
        *("pysqlite3", "select", "selectors", "shutil", "signal", "socket", "sqlite3"),
        *("sqlite_utils", "subprocess", "tempfile", "urllib", "watchfiles"),
    }
)
UNPICKLING = frozenset({"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"})
DANGERS = frozenset(
    {
        *("eval", "exec", "__import__", "os.system", "os.popen", "subprocess.getoutput"),
        *("subprocess.getstatusoutput", "asyncio.create_subprocess_shell"),
    }
)
SQL_ROOMS = (
    *("smithers.schema", "smithers.ownership", "smithers.journal", "smithers.storage"),
    *("smithers.workspace", "smithers.parents", "smithers.rows", "smithers.memory.shelves"),
)
PRINTING_ROOMS = ("smithers.cli", "smithers.demo")
HEAVY = (
    *("anyio", "claude_agent_sdk", "click", "mcp", "pydantic", "reactivex", "rich", "sqlglot"),
    *("sqlite_utils", "sse_starlette", "starlette", "uvicorn", "watchfiles"),
)

SQL = re.compile(
    r"""\s*(
        select\s.+ | with\s+(recursive\s+)?\w+.*\bas\b.*\(.*
        | (insert|replace)\s+(or\s+\w+\s+)?into\s.+
        | update\s+(or\s+\w+\s+)?\S+\s+set\s.+ | delete\s+from\s.+ | pragma\s+\w+.*
        | (create|drop)\s+(temp\w*\s+)?(unique\s+|virtual\s+)?(table|view|index|trigger)\b.+
        | alter\s+table\s.+ | begin\s+(immediate|deferred|exclusive|transaction)
        | (savepoint|release|rollback\s+to)\s+\S+
    )$""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


def test_every_module_has_a_row() -> None:
    strangers = [name for name in _modules() if _row(name) is None]
    assert not strangers, (
        f"{strangers} have no row: add one to ROWS in {Path(__file__).name} and to the table in "
        "CONTRIBUTING.md, and say in the commit why the room is needed"
    )


def test_the_table_for_contributors_shows_the_same_rows() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = {
        (int(number), name.rstrip("/"))
        for number, cell in re.findall(r"^\| (\d+) \| ([^|]+) \|", text, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", cell)
    }
    rows = {(row, name.partition(".")[2]) for name, row in ROWS.items()}
    assert shown == rows, f"only in the table: {shown - rows}, only in ROWS: {rows - shown}"


def test_no_module_imports_upward() -> None:
    upward = [
        f"{name} (row {_row(name)}) imports {target} (row {_row(target)}), line {line}"
        for name in _modules()
        for target, line in _imports(name)
        if (row := _row(name)) is not None and (_row(target) or 0) > row
    ]
    assert not upward, "\n".join(upward)


def test_no_module_imports_the_face_of_its_own_package() -> None:
    faced = [
        f"{name} imports {target}, line {line}"
        for name in _modules()
        for target, line in _imports(name)
        if target == name.partition(".")[0] and name not in FACES
    ]
    assert not faced, "\n".join(faced)


def test_imports_form_no_cycle_not_even_in_functions_or_for_type_checking() -> None:
    graph = {name: {target for target, _ in _imports(name)} for name in _modules()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a cycle: {' -> '.join(error.args[1])}")


def test_reactive_sqlite_knows_nothing_of_smithers() -> None:
    knowing = [
        f"{name}, line {line}"
        for name in _modules()
        if name.startswith("reactive_sqlite")
        for target, line in _imports(name)
        if target.partition(".")[0] == "smithers"
    ]
    assert not knowing, knowing


def test_storage_modules_never_import_each_other() -> None:
    siblings = [
        f"{name} imports {target}, line {line}"
        for name in _modules()
        if name.startswith("smithers.storage.")
        for target, line in _imports(name)
        if target.startswith("smithers.storage.")
    ]
    assert not siblings, siblings


def test_sql_stands_only_in_its_rooms() -> None:
    outside = [
        f"{name}, line {line}: {text.strip()[:60]!r}"
        for name in _modules()
        if name.startswith("smithers") and not _in(name, SQL_ROOMS)
        for text, line in _texts(_tree(name))
        if SQL.match(text)
    ]
    assert not outside, "\n".join(outside)


@pytest.mark.parametrize(
    ("text", "is_sql"),
    [
        ("SELECT value FROM state", True),
        ("\n  insert or replace into t values (?)", True),
        ("update {} set a = 1", True),
        ("BEGIN IMMEDIATE", True),
        ("create temp trigger x after insert on t begin select 1; end", True),
        ("with recursive n(i) as (select 1) select i from n", True),
        ("pragma data_version", True),
        ("Select", False),
        ("begin with this", False),
        ("begin", False),
        ("Update the value and set it again.", False),
        ("with a reason", False),
        ("delete", False),
    ],
)
def test_the_detector_of_sql_tells_sql_from_prose(text: str, is_sql: bool) -> None:
    assert bool(SQL.match(text)) is is_sql


def test_pure_modules_do_no_io() -> None:
    impure = [
        f"{name}, line {node.lineno}: {what}"
        for name in _modules()
        if _in(name, PURE)
        for node, what in _io(_tree(name))
    ]
    assert not impure, "\n".join(impure)


def test_nothing_evaluates_text_unpickles_or_asks_a_shell() -> None:
    found = [
        f"{name}, line {node.lineno}: {what}"
        for name in _modules()
        for node, what in _dangers(_tree(name))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        "eval(text)",
        "builtins.exec(text)",
        "import pickle",
        "from marshal import loads",
        "os.system(text)",
        "subprocess.run(text, shell=True)",
        "await asyncio.create_subprocess_shell(text)",
    ],
)
def test_the_detector_of_dangers_finds_them(code: str) -> None:
    assert list(_dangers(ast.parse(f"async def f():\n    {code}")))


def test_only_the_command_line_prints() -> None:
    printing = [
        f"{name}, line {node.lineno}"
        for name in _modules()
        if not _in(name, PRINTING_ROOMS)
        for node in ast.walk(_tree(name))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not printing, printing


def test_no_module_is_a_drawer_for_everything() -> None:
    drawers = re.compile(r"(utils?|helpers?|common|misc)\.py|_[a-z]\w*\.py")
    named = [str(path.relative_to(ROOT)) for path in _sources() if drawers.fullmatch(path.name)]
    assert not named, f"{named}: name the file after the one thing it holds, without an underscore"


def test_every_file_says_in_its_first_line_why_it_exists() -> None:
    silent: list[str] = []
    for path in _sources():
        if not _first_text(path).partition("\n")[0].endswith((".", ":", "?")):
            silent.append(str(path.relative_to(ROOT)))
    assert not silent, f"no sentence on the first line: {silent}"


def test_every_list_of_public_names_is_sorted() -> None:
    unsorted = [
        name for name in _modules() if (public := _public(name)) and public != _in_order(public)
    ]
    assert not unsorted, unsorted


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_exists_and_is_documented(package: str) -> None:
    face = importlib.import_module(package)
    public = _public(package)
    assert public, f"{package} declares no __all__"
    assert set(public) <= set(dir(face)), "dir() does not show what __all__ promises"
    things = {name: getattr(face, name) for name in public}
    undocumented = [
        name
        for name, thing in things.items()
        # The SQLite module in use is not ours to document.
        if not isinstance(thing, ModuleType) and not thing.__doc__
    ]
    assert not undocumented, undocumented


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_loads_no_heavy_library(package: str) -> None:
    program = f"import sys, {package}; print(*sorted({set(HEAVY)!r} & sys.modules.keys()))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert loaded == []


@cache
def _modules() -> dict[str, Path]:
    modules: dict[str, Path] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def _sources() -> list[Path]:
    folders = (*PACKAGES, "tests", "examples", "benchmarks")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def _row(name: str) -> int | None:
    if name in FACES:
        return FACES[name]
    while "." in name:
        if name in ROWS:
            return ROWS[name]
        name = name.rpartition(".")[0]
    return None


def _in(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(room + ".") for room in rooms)


@cache
def _tree(name: str) -> ast.Module:
    return ast.parse(_modules()[name].read_text(encoding="utf-8"))


@cache
def _imports(name: str) -> list[tuple[str, int]]:
    """The modules of this repository that `name` imports anywhere, with their lines."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(_tree(name)):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(name, node)
            targets = [
                inner if (inner := f"{base}.{alias.name}") in _modules() else base
                for alias in node.names
            ]
        else:
            continue
        found += [
            (target, node.lineno) for target in targets if target in _modules() and target != name
        ]
    return found


def _absolute(name: str, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    package = name if _modules()[name].name == "__init__.py" else name.rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{node.module}" if node.module else package


def _first_text(path: Path) -> str:
    """The docstring of a file; the rest of it is not read, which would take long for all files."""
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.STRING:
                return str(ast.literal_eval(token.string))
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                break
    return ""


def _texts(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every text in the code that is not a docstring, f-strings with `{}` for their holes."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield "".join(_piece(part) for part in node.values), node.lineno
        elif isinstance(node, ast.Constant) and id(node) not in skipped:
            yield _piece(node), node.lineno


def _piece(part: ast.expr) -> str:
    return part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "{}"


def _io(tree: ast.Module) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [] if node.level else [node.module or ""]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in {"open", "input", "print"}:
                yield node, f"{node.func.id}()"
            continue
        else:
            continue
        yield from ((node, name) for name in names if name.partition(".")[0] in IO_MODULES)


def _dangers(tree: ast.Module) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            yield from ((node, n) for n in names if n.partition(".")[0] in UNPICKLING)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called.removeprefix("builtins.") in DANGERS:
                yield node, called
            if any(word.arg == "shell" for word in node.keywords):
                yield node, "shell="


def _public(name: str) -> list[str]:
    for node in _tree(name).body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            assert isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
            return [str(value) for value in ast.literal_eval(node.value)]
    return []


def _in_order(names: list[str]) -> list[str]:
    # The linter's order: constants, then classes, then the rest.
    return sorted(names, key=lambda name: (not name.isupper(), not name[:1].isupper(), name))
