"""Damaged files: a typed error that names the path, at once and changing no byte, or the data."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from smithers import CannotOpen, NotADatabase, SmithersError, create_smithers_db
from tests.smithers.commandline import Run, environment, runner

KILLED = """
import os, signal, sys
from smithers import create_smithers_db
db = create_smithers_db(sys.argv[1], watch=False)
for n in range(5):
    db.state.set(f"w{n}", n)
os.kill(os.getpid(), signal.SIGKILL)
"""
HEADER = 100
PAGE = 4096
# Of the processor, since the machine may be busy with other things.
LONGEST = 1.0


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, Any]]:
    """The bytes of a file and the state that is in it."""
    folder = tmp_path_factory.mktemp("sound")
    with create_smithers_db(folder, watch=False) as db:
        for n in range(30):
            db.state.set(f"k{n % 9}", {"n": n, "text": "x" * 300})
        state = db.state.get_all()
    return (folder / "db.sqlite").read_bytes(), state


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """The bytes of a file and of the log that was left beside it; five values are in that alone."""
    folder = tmp_path_factory.mktemp("interrupted")
    with create_smithers_db(folder, watch=False) as db:
        for n in range(30):
            db.state.set(f"k{n % 9}", {"n": n, "text": "x" * 300})
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder)], env=environment(), timeout=50
    )
    assert done.returncode == -signal.SIGKILL
    log = (folder / "db.sqlite-wal").read_bytes()
    assert len(log) > 5 * PAGE
    return (folder / "db.sqlite").read_bytes(), log


@pytest.fixture
def smithers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.delenv("SMITHERS_DB_PATH", raising=False)
    return runner(capsys)


def bytes_of(folder: Path) -> dict[str, bytes | None]:
    """What the files hold, but for the index of the log, which SQLite may write at any time."""
    return {
        path.name: path.read_bytes() if path.is_file() else None
        for path in folder.iterdir()
        if not path.name.endswith("-shm")
    }


def opened(folder: Path, *, read_only: bool = False) -> dict[str, Any] | SmithersError:
    """Return the state, or the error with which the file was refused, and check that one."""
    before, began = bytes_of(folder), time.process_time()
    try:
        with create_smithers_db(folder, watch=False, read_only=read_only) as db:
            return db.state.get_all()
    except SmithersError as error:
        assert isinstance(error, CannotOpen)
        assert str(folder) in str(error), "the error names the path"
        assert bytes_of(folder) == before, f"refused, and changed all the same: {error}"
        return error
    finally:
        assert time.process_time() - began < LONGEST


def refused_by_the_command_line(smithers: Run, folder: Path) -> bool:
    """Check that a command fails with one line, or tell that it does not fail."""
    before = bytes_of(folder)
    done = smithers("db", "state", "--path", str(folder))
    if done.code == 0:
        return False
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith("Error: ")
    assert done.err.count("\n") == 1
    assert str(folder) in done.err
    assert bytes_of(folder) == before
    return True


@pytest.mark.parametrize("bits", [0xFF, 0x01])
def test_each_byte_of_the_header_may_be_wrong(
    tmp_path: Path, sound: tuple[bytes, dict[str, Any]], smithers: Run, bits: int
) -> None:
    data, state = sound
    ends: Counter[str] = Counter()
    for place in range(HEADER):
        folder = tmp_path / str(place)
        folder.mkdir()
        damaged = bytearray(data)
        damaged[place] ^= bits
        (folder / "db.sqlite").write_bytes(damaged)
        if bits == 0xFF:
            reading = opened(folder, read_only=True)
            assert refused_by_the_command_line(smithers, folder) is isinstance(reading, CannotOpen)
        found = opened(folder)
        assert isinstance(found, SmithersError) or found == state, f"byte {place}: wrong data"
        ends[type(found).__name__] += 1
    assert ends["NotADatabase"] >= 20
    assert ends["dict"] >= 20, "counters, and what is reserved, do not matter"


def test_it_may_be_cut_off_at_each_page(
    tmp_path: Path, sound: tuple[bytes, dict[str, Any]], smithers: Run
) -> None:
    data, state = sound
    assert len(data) > 50 * PAGE
    for size in range(PAGE, len(data), PAGE):
        for more in (0, 100):
            folder = tmp_path / f"{size + more}"
            folder.mkdir()
            (folder / "db.sqlite").write_bytes(data[: size + more])
            found = opened(folder)
            # Of the last page SQLite takes a part, if nobody needs it.
            last = size + PAGE >= len(data) and more
            assert isinstance(found, NotADatabase) or (last and found == state)
            if more == 0 and size % (10 * PAGE) == 0:
                assert refused_by_the_command_line(smithers, folder)
            shutil.rmtree(folder)
    (tmp_path / "db.sqlite").write_bytes(data + b"more")
    assert opened(tmp_path) == state, "what comes after the last page is of no consequence"


def test_what_is_refused_beside_a_log_is_left_alone_with_it(
    tmp_path: Path, interrupted: tuple[bytes, bytes]
) -> None:
    data, log = interrupted
    refused: Counter[str] = Counter()

    def read(damaged: bytes) -> None:
        (tmp_path / "db.sqlite").write_bytes(damaged)
        (tmp_path / "db.sqlite-wal").write_bytes(log)
        for read_only in (True, False):
            found = opened(tmp_path, read_only=read_only)
            refused[type(found).__name__] += 1

    for place in range(HEADER):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        read(bytes(damaged))
    for page in range(0, len(data) // PAGE, 7):
        noise = random.Random(page).randbytes(PAGE)
        read(data[: page * PAGE] + noise + data[(page + 1) * PAGE :])
        read(data[: page * PAGE])
    assert refused.keys() >= {"NotADatabase", "SchemaTooNew", "dict"}


def test_a_log_may_be_cut_off_anywhere_and_loses_no_more_than_its_end(
    tmp_path: Path, interrupted: tuple[bytes, bytes]
) -> None:
    data, log = interrupted
    written: list[int] = []
    for size in (*range(0, len(log), PAGE // 2), len(log)):
        (tmp_path / "db.sqlite").write_bytes(data)
        (tmp_path / "db.sqlite-wal").write_bytes(log[:size])
        found = opened(tmp_path)
        assert isinstance(found, dict)
        assert len([key for key in found if key.startswith("k")]) == 9
        values = [value for key, value in found.items() if key.startswith("w")]
        assert values == list(range(len(values)))
        written.append(len(values))
    assert written == sorted(written)
    assert (written[0], written[-1]) == (0, 5)


def text(folder: Path) -> None:
    (folder / "db.sqlite").write_text("This is my diary.\n" * 500)


def short_text(folder: Path) -> None:
    (folder / "db.sqlite").write_text("hello")


def zeros(folder: Path) -> None:
    (folder / "db.sqlite").write_bytes(bytes(2 * PAGE))


def noise(folder: Path) -> None:
    (folder / "db.sqlite").write_bytes(random.Random(1).randbytes(3 * PAGE))


def directory(folder: Path) -> None:
    (folder / "db.sqlite").mkdir()
    (folder / "db.sqlite" / "mine.txt").write_text("mine")


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("make", [text, short_text, zeros, noise, directory])
def test_what_is_no_database_is_refused_and_left_alone(
    tmp_path: Path, smithers: Run, make: Callable[[Path], None], read_only: bool
) -> None:
    make(tmp_path)
    error = opened(tmp_path, read_only=read_only)
    assert isinstance(error, CannotOpen if make is directory else NotADatabase)
    assert refused_by_the_command_line(smithers, tmp_path)


def test_an_empty_file_is_a_new_database_but_not_for_a_reader(
    tmp_path: Path, smithers: Run
) -> None:
    (tmp_path / "db.sqlite").touch()
    assert isinstance(opened(tmp_path, read_only=True), CannotOpen)
    assert refused_by_the_command_line(smithers, tmp_path)
    assert opened(tmp_path) == {}


def test_a_file_where_the_directory_should_be_is_refused_and_left_alone(
    tmp_path: Path, smithers: Run
) -> None:
    (tmp_path / "workflow").write_text("This is my diary.")
    for path in (tmp_path / "workflow", tmp_path / "workflow" / "below"):
        for read_only in (False, True):
            with pytest.raises(CannotOpen) as raised:
                create_smithers_db(path, read_only=read_only)
            assert str(path) in str(raised.value)
        done = smithers("db", "state", "--path", str(path))
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert bytes_of(tmp_path) == {"workflow": b"This is my diary."}


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize(
    "content",
    [b"", b"This is my diary.\n" * 30, bytes(10 * PAGE), random.Random(2).randbytes(12 * PAGE)],
    ids=["empty", "text", "zeros", "noise"],
)
def test_garbage_beside_the_file_does_not_hide_the_data(
    tmp_path: Path, sound: tuple[bytes, dict[str, Any]], ending: str, content: bytes
) -> None:
    data, state = sound
    (tmp_path / "db.sqlite").write_bytes(data)
    (tmp_path / f"db.sqlite{ending}").write_bytes(content)
    assert opened(tmp_path) == state
    assert opened(tmp_path) == state, "and it is still there"


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_a_directory_beside_the_file_is_refused_or_does_not_matter(
    tmp_path: Path, sound: tuple[bytes, dict[str, Any]], ending: str
) -> None:
    data, state = sound
    (tmp_path / "db.sqlite").write_bytes(data)
    (tmp_path / f"db.sqlite{ending}").mkdir()
    found = opened(tmp_path)
    assert isinstance(found, CannotOpen) or found == state
    (tmp_path / f"db.sqlite{ending}").rmdir()
    assert opened(tmp_path) == state
