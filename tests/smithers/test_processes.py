"""Other processes on the same file: writers at once, one that is killed, one that may not write."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from smithers import SmithersDB, create_smithers_db
from tests.recorder import Recorder

COUNT = """
import sys
from smithers import create_smithers_db
with create_smithers_db(sys.argv[1], watch=False, busy_timeout=30.0) as db:
    for n in range(int(sys.argv[3])):
        db.state.update("n", lambda n: n + 1, default=0, trigger=sys.argv[2])
        db.state.set_many({sys.argv[2]: n, "last": sys.argv[2]})
"""


def start(program: str, *args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, *map(str, args)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_updates_of_four_processes_and_a_thread_are_all_counted(
    db: SmithersDB, path: Path, recorder: Recorder[int]
) -> None:
    db.state.observe("n", 0).subscribe(recorder)
    writers = [start(COUNT, path, name, 50) for name in "abcd"]
    for _ in range(50):
        db.state.update("n", lambda n: n + 1, default=0)
    for writer in writers:
        writer.communicate(timeout=50)
        assert writer.returncode == 0
    recorder.wait_for(lambda n: n == 250)
    assert recorder.values == sorted(set(recorder.values)), "in commit order, none twice"
    history = db.state.history(limit=None)
    counts = [t for t in history if t.key == "n"]
    assert [t.value for t in counts] == list(range(1, 251))
    assert all(t.previous_value == t.value - 1 for t in counts[1:])
    pairs = [[t.key for t in history if t.commit == n.commit] for n in history if n.key == "last"]
    assert all(len(pair) == 2 for pair in pairs), "the two of a set_many share their commit"
    assert [t.seq for t in history] == list(range(1, len(history) + 1))


def test_a_writer_killed_in_mid_work_leaves_whole_commits(db: SmithersDB, path: Path) -> None:
    seen: Recorder[int] = Recorder()
    db.state.observe("n", 0).subscribe(seen)
    writer = start(COUNT, path, "a", 1_000_000)
    seen.wait_for(lambda n: n > 20, timeout=30)
    writer.send_signal(signal.SIGKILL)
    writer.communicate(timeout=30)
    with create_smithers_db(path) as after:
        history = after.state.history(limit=None)
        assert after.state.get_all() == after.state.state_at(history[-1].id)
        assert after.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        after.state.set("a", "mine")


def test_a_kill_inside_a_transaction_undoes_it_whole(db: SmithersDB, path: Path) -> None:
    program = """
import os, sys
from smithers import create_smithers_db
db = create_smithers_db(sys.argv[1])
db.state.set("kept", 1)
with db.transaction():
    db.state.set("kept", 2)
    db.state.set("never", 1)
    os.kill(os.getpid(), 9)
"""
    writer = start(program, path)
    writer.communicate(timeout=30)
    assert writer.returncode == -signal.SIGKILL
    assert db.state.get_all() == {"kept": 1}
    assert [t.id for t in db.state.history()] == ["t1"]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to become another user"
)
@pytest.mark.parametrize("running", [False, True])
def test_a_directory_that_may_only_be_read_is_read(running: bool) -> None:
    program = """
import os, sys
from smithers import SmithersError, create_smithers_db
with create_smithers_db(":memory:") as db:  # loads what the other user may not
    db.state.set("a", 1)
os.setgid(65534)
os.setuid(65534)
with create_smithers_db(sys.argv[1], read_only=True) as db:
    print(db.state.get("phase"))
    db.state.observe("phase").subscribe(print)
try:
    create_smithers_db(sys.argv[1])
except SmithersError as error:
    print(error)
"""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        path = Path(directory)
        with contextlib.ExitStack() as stack:
            db = create_smithers_db(path)
            stack.callback(db.close)
            db.state.set("phase", "review")
            if not running:
                db.close()
            for file in path.iterdir():
                file.chmod(0o644)
            reader = start(program, path)
            out, _ = reader.communicate(timeout=30)
    assert out.splitlines() == [
        "review",
        "review",
        f"cannot open '{path / 'db.sqlite'}': "
        "it may not be written; pass read_only=True to read it",
    ]
    assert reader.returncode == 0
