"""An open workflow database for each test, and other programs that write to its file."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reactive_sqlite import sqlite3
from smithers import SmithersDB, create_smithers_db
from tests.smithers.commandline import Run, below, runner


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The directory of a database that does not exist yet."""
    return tmp_path / "workflow"


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a database that nothing was done to."""
    directory = tmp_path_factory.mktemp("fresh")
    with create_smithers_db(directory, watch=False) as made:
        assert made.path is not None
        return made.path


@pytest.fixture
def made(path: Path, fresh: Path) -> Path:
    """The directory of a new database; a copy, since to make one takes ten times as long."""
    return copied(fresh, path)


def copied(file: Path, directory: Path) -> Path:
    """Copy the file of a database that nobody has open into a directory that is made for it."""
    directory.mkdir(0o700)
    shutil.copy(file, directory)
    (directory / file.name).chmod(0o600)
    return directory


@pytest.fixture
def db(made: Path) -> Iterator[SmithersDB]:
    with create_smithers_db(made) as opened:
        yield opened


@pytest.fixture
def elsewhere(db: SmithersDB, path: Path) -> Iterator[SmithersDB]:
    """The same database through a second handle, as another process has it."""
    with create_smithers_db(path) as opened:
        yield opened


@pytest.fixture
def foreign(db: SmithersDB) -> Iterator[sqlite3.Connection]:
    """A connection that knows nothing of this package."""
    assert db.path is not None
    connection = sqlite3.connect(db.path, isolation_level=None)
    yield connection
    connection.close()


@pytest.fixture
def shell(db: SmithersDB, sqlite3_cli: str) -> Callable[[str], str]:
    """Run SQL with the `sqlite3` command line and return what it prints."""

    def run(sql: str) -> str:
        done = subprocess.run(
            [sqlite3_cli, "-cmd", ".timeout 20000", str(db.path), sql],
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory without a database, in a shell that names none, where it is UTC."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SMITHERS_DB_PATH", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def smithers(working_directory: None, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `smithers …` in this process."""
    return runner(capsys)


@pytest.fixture
def cli(smithers: Run, db: SmithersDB, path: Path) -> Run:
    """`smithers db … --path` on an open database, as beside a running workflow."""
    return below(smithers, path)
