"""Forks, other ways to start a process, pickling, and ends without `close`."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import reactive_sqlite.errors
import smithers.errors
from reactive_sqlite import Database
from smithers import (
    NotFound,
    SmithersDB,
    Transition,
    create_async_smithers_db,
    create_smithers_db,
)
from tests.smithers.commandline import environment

# Far more than it takes, since the machine may be busy: what hangs, hangs for good.
LONGEST = 5.0

FORK = """
import json, os, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork where threads run
from reactive_sqlite import DatabaseClosed
from smithers import create_smithers_db

db = create_smithers_db(sys.argv[1])
db.state.set("n", 1)
told = []
query = db.state.observe("n")
query.subscribe(told.append)
get, set_n = db.state.signal("n")
execution = db.execution.start("Work")
inside, over = threading.Event(), threading.Event()

def hold():
    with db.transaction():
        db.state.set("held", 1)
        inside.set()
        over.wait(30)

if sys.argv[2] == "held":
    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait(30)
pid = os.fork()
if not pid:
    calls = {
        "get": lambda: db.state.get("n"),
        "set": lambda: db.state.set("n", 2),
        "setter": lambda: set_n(2),
        "accessor": get,
        "query": lambda: db.query("SELECT 1"),
        "observe": lambda: db.state.observe("n").subscribe(print),
        "transaction": lambda: db.transaction().__enter__(),
        "cursor": lambda: db.database.conn.cursor(),
        "execution": lambda: db.execution.complete(execution),
        "memories": lambda: db.memories.add_fact("a", "b"),
        "check": db.check,
        "close": db.close,
    }
    began = time.monotonic()
    for name, call in calls.items():
        try:
            call()
            print(name, "works", flush=True)
        except DatabaseClosed as error:
            print(name, str(error), flush=True)
    print(time.monotonic() - began, flush=True)
    with create_smithers_db(sys.argv[1], watch=False, busy_timeout=0.05) as anew:
        print(anew.state.get("n"), flush=True)
        if sys.argv[2] == "free":
            anew.state.set("child", 1)
    sys.exit()  # all of Python's finalisers run
_, status = os.waitpid(pid, 0)
over.set()
if sys.argv[2] == "held":
    holder.join()
print(os.waitstatus_to_exitcode(status))
db.state.set("n", 3)
db.execution.complete(execution)
print(json.dumps(db.state.get_all()), json.dumps(told), get())
print(os.path.getsize(db.path.with_name("db.sqlite-wal")) > 0)
"""
EXIT = """
import sys, time
from smithers import create_smithers_db

db = create_smithers_db(sys.argv[1])
seen = []
db.state.observe("n").subscribe(seen.append)
get, set_n = db.state.signal("n", 0)
for n in range(100):
    set_n(n)
execution = db.execution.start("Work")
phase = db.phases.open("plan")
phase.__enter__()
if sys.argv[2] == "transaction":
    transaction = db.transaction()
    transaction.__enter__()
    db.state.set("n", "never")
print(time.monotonic(), flush=True)
if sys.argv[2] == "error":
    raise KeyError("n")
if sys.argv[2] == "exit":
    sys.exit(3)
"""
ASYNC_EXIT = """
import asyncio, sys, time
from smithers import create_async_smithers_db

async def main():
    db = await create_async_smithers_db(sys.argv[1])
    seen = []
    query = db.state.observe("n")
    task = asyncio.create_task(follow(query))
    for n in range(100):
        await db.state.set("n", n)
    await db.execution.start("Work")
    print(time.monotonic(), flush=True)

async def follow(query):
    async for value in query:
        pass

asyncio.run(main())
"""


def run(program: str, *args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, args)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=50,
    )


# -- forks -----------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
@pytest.mark.parametrize("lock", ["free", "held"])
def test_in_a_forked_child_each_call_says_at_once_to_open_it_anew(
    tmp_path: Path, lock: str
) -> None:
    done = run(FORK, tmp_path, lock)
    assert done.returncode == 0, done.stderr
    *calls, seconds, value, status, after, log = done.stdout.splitlines()
    told = dict(line.split(" ", 1) for line in calls)
    assert told.pop("close") == "works", "to let go of it is always allowed"
    assert len(told) == 11
    assert all(text.endswith("open it anew here") for text in told.values()), told
    assert float(seconds) < LONGEST, "nobody waits for a thread that the child does not have"
    assert value == "1", "opened anew, it is there"
    assert status == "0"
    state = '{"child": 1, "n": 3}' if lock == "free" else '{"held": 1, "n": 3}'
    assert after == f"{state} [1, 3] 3", "the parent goes on as before"
    assert log == "True", "and nobody has taken its log away"


def work(path: Path) -> Transition:
    with create_smithers_db(path) as db:
        return db.state.update("n", lambda n: n + 1, default=0)


def fail(path: Path) -> None:
    with create_smithers_db(path) as db:
        db.execution.complete("no such thing")


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes_started_in_any_way_open_it_by_its_path(tmp_path: Path, method: str) -> None:
    with create_smithers_db(tmp_path) as db:
        db.state.set("n", 1)
        context = multiprocessing.get_context(method)
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            made = pool.submit(work, tmp_path).result(timeout=50)
            assert made == db.state.history("n")[-1]
            failed = pool.submit(fail, tmp_path).exception(timeout=50)
            assert isinstance(failed, NotFound)
            assert failed.id == "no such thing"
            assert pool.submit(work, tmp_path).result(timeout=50).value == 3, "and it goes on"


# -- pickling --------------------------------------------------------------------------------------


def test_records_come_back_from_a_pickle_as_they_were(tmp_path: Path) -> None:
    with create_smithers_db(tmp_path) as db:
        id = db.execution.start("Work")
        with db.phases.open("plan"), db.agents.open("Think") as agent:
            tool = db.tools.start(agent, "Read", {"a": [1]})
        found: list[Any] = [
            db.state.set("a", {"b": [None, 1.5]}),
            db.execution.get(id),
            *db.phases.list(id),
            *db.agents.list(id),
            db.tools.get(tool),
            db.memories.add_fact("a", "b"),
            *db.check(),
        ]
    for record in found:
        assert pickle.loads(pickle.dumps(record)) == record
        assert copy.deepcopy(record) == record


ERRORS = [
    kind
    for module in (smithers.errors, reactive_sqlite.errors)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Exception)
]
ARGUMENTS: dict[str, Any] = {"found": 9, "supported": 8, "line": 3, "nodes": ("a", "b")}


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_an_error_comes_back_from_a_pickle_as_it_was(kind: type[Exception]) -> None:
    args: list[Any] = ["it went wrong"]
    named: dict[str, Any] = {}
    if any("__init__" in vars(each) for each in kind.__mro__ if each in ERRORS):
        parameters = inspect.signature(kind).parameters
        of_name = {name for name in parameters if parameters[name].kind.name == "KEYWORD_ONLY"}
        named = {name: ARGUMENTS.get(name, name) for name in parameters if name in of_name}
        args = [ARGUMENTS.get(name, name) for name in parameters if name not in of_name]
    error = kind(*args, **named)
    error.add_note("a note")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        assert vars(again) == vars(error)


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_open_database_says_that_it_can_be_neither_pickled_nor_copied(
    tmp_path: Path, take: Callable[[Any], Any]
) -> None:
    def is_refused(thing: Any) -> None:
        with pytest.raises(TypeError, match="give its path to whoever needs it, and open it there"):
            take(thing)

    with create_smithers_db(tmp_path) as db:
        is_refused(db)
        is_refused(db.database)
        is_refused(db.database.conn)
        if take is not copy.copy:  # a second reference to what is shared is no copy of it
            is_refused(db.state)
            is_refused(db.state.observe("n"))
    with Database(tmp_path / "own.db") as own:
        is_refused(own)


async def test_an_asynchronous_database_can_be_neither_pickled_nor_copied(tmp_path: Path) -> None:
    async with create_async_smithers_db(tmp_path) as db:
        with pytest.raises(TypeError, match="give its path to whoever needs it, and open it there"):
            pickle.dumps(db)


# -- ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "how", "code"),
    [
        (EXIT, "end", 0),
        (EXIT, "exit", 3),
        (EXIT, "error", 1),
        (EXIT, "transaction", 0),
        (ASYNC_EXIT, "end", 0),
    ],
    ids=["end", "exit", "error", "transaction", "async"],
)
def test_a_process_ends_without_closing_and_the_data_is_there(
    tmp_path: Path, program: str, how: str, code: int
) -> None:
    done = run(program, tmp_path, how)
    seconds = time.monotonic() - float(done.stdout)
    assert done.returncode == code, done.stderr
    assert ("KeyError" in done.stderr) if how == "error" else done.stderr == ""
    assert seconds < LONGEST, "nothing holds the end up"
    print(f"it ended {seconds:.2f} s after its last line")
    check_what_is_left(tmp_path)


def check_what_is_left(path: Path) -> None:
    db: SmithersDB
    with create_smithers_db(path) as db:
        assert db.state.get("n") == 99
        assert len(db.state.history("n", limit=None)) == 100
        assert [found for found in db.check() if found.level == "error"] == []
        left = db.execution.find_incomplete("Work")
        assert left is not None, "its owner is known to be gone"
        db.execution.resume(left.id)
