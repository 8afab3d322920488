"""Opening: which file a path means, who may read it, and what is refused without a trace."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import sqlite3
from smithers import (
    CannotOpen,
    NotADatabase,
    SchemaTooNew,
    SmithersDB,
    SmithersError,
    create_smithers_db,
)
from smithers.schema import SCHEMA_VERSION


def digest(path: Path) -> dict[str, str]:
    """What the files of a directory hold, byte by byte."""
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file() and not file.name.endswith("-shm")
    }


def test_a_path_is_a_directory_that_is_made_with_its_parents(tmp_path: Path) -> None:
    with create_smithers_db(tmp_path / "a" / "b") as db:
        assert db.path == tmp_path / "a" / "b" / "db.sqlite"
        db.state.set("phase", "start")
    with create_smithers_db(str(tmp_path / "a" / "b")) as db:
        assert db.state.get("phase") == "start"


def test_the_default_path_is_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    create_smithers_db().close()
    assert (tmp_path / ".smithers" / "data" / "db.sqlite").is_file()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_what_is_made_is_for_this_user_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    program = (
        f"import os; os.umask({umask}); from smithers import create_smithers_db\n"
        f"db = create_smithers_db({str(tmp_path / 'a' / 'b')!r}); db.state.set('a', 1)\n"
        "os.kill(os.getpid(), 9)"  # leaves the log and its index behind, to be looked at
    )
    subprocess.run([sys.executable, "-c", program], timeout=30)
    modes = {p.name: oct(p.stat().st_mode & 0o777) for p in sorted(tmp_path.rglob("*"))}
    assert modes == {
        "a": "0o700",
        "b": "0o700",
        "db.sqlite": "0o600",
        "db.sqlite-shm": "0o600",
        "db.sqlite-wal": "0o600",
    }


def test_an_existing_directory_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    create_smithers_db(tmp_path).close()
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_an_existing_sqlite_file_is_taken_and_keeps_what_it_holds(tmp_path: Path) -> None:
    file = tmp_path / "mine.db"
    plain = sqlite3.connect(file)
    plain.executescript(
        "CREATE TABLE notes (t); INSERT INTO notes VALUES (1); PRAGMA user_version=9"
    )
    plain.close()
    with create_smithers_db(file) as db:
        db.state.set("a", 1)
        assert db.path == file
        assert db.query("SELECT * FROM notes") == [{"t": 1}]
        assert db.query("PRAGMA journal_mode") == [{"journal_mode": "delete"}]
        assert db.query("PRAGMA user_version") == [{"user_version": 9}]
    with create_smithers_db(file) as db:
        assert db.state.get("a") == 1


def test_memory_is_a_database_without_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with create_smithers_db(":memory:") as db:
        assert db.path is None
        db.state.set("a", 1)
        assert db.state.replay_to("t1") == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["my.db", "my.sqlite", "my.SQLITE3"])
def test_a_missing_path_named_like_a_file_is_refused_with_a_hint(tmp_path: Path, name: str) -> None:
    with pytest.raises(CannotOpen, match=r"the path is a directory: use '.*/my'"):
        create_smithers_db(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_may_be_named_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "my.db").mkdir()
    create_smithers_db(tmp_path / "my.db").close()
    assert (tmp_path / "my.db" / "db.sqlite").is_file()


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("content", [b"hello", b"# notes\n" * 1000, os.urandom(8192)])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_of_another_kind_is_named_and_left_alone(
    tmp_path: Path, content: bytes, inside: bool, read_only: bool
) -> None:
    file = tmp_path / ("db.sqlite" if inside else "notes.txt")
    file.write_bytes(content)
    with pytest.raises(NotADatabase, match="not a database") as caught:
        create_smithers_db(tmp_path if inside else file, read_only=read_only)
    assert caught.value.path == str(file)
    assert str(file) in str(caught.value)
    assert file.read_bytes() == content
    assert list(tmp_path.iterdir()) == [file]


def test_what_is_neither_file_nor_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotADatabase):
        create_smithers_db("/dev/null")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotADatabase):
        create_smithers_db(tmp_path / "pipe")


def test_a_damaged_database_is_not_one(tmp_path: Path) -> None:
    with create_smithers_db(tmp_path) as db:
        db.state.set("a", "x" * 10_000)
        db.query("PRAGMA wal_checkpoint(TRUNCATE)", write=True)
    file = tmp_path / "db.sqlite"
    content = bytearray(file.read_bytes())
    content[100:4096] = b"\xff" * 3996  # the page that holds the schema
    file.write_bytes(content)
    with pytest.raises(NotADatabase, match="malformed"):
        create_smithers_db(tmp_path)
    assert file.read_bytes() == content


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_text_that_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(CannotOpen, match="no path"):
        create_smithers_db(path)


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(CannotOpen, match="Not a directory"):
        create_smithers_db(tmp_path / "file" / "data")


def test_a_directory_that_cannot_be_written_is_a_typed_error() -> None:
    with pytest.raises(SmithersError, match="cannot open '/proc/") as caught:
        create_smithers_db("/proc/nothing/here")
    assert caught.value.exit_code == 1


def test_a_directory_in_the_place_of_the_file_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "db.sqlite").mkdir()
    with pytest.raises(CannotOpen, match=r"db\.sqlite"):
        create_smithers_db(tmp_path)


def test_tables_of_the_same_names_by_somebody_else_are_a_typed_error(tmp_path: Path) -> None:
    file = tmp_path / "mine.db"
    plain = sqlite3.connect(file)
    plain.execute("CREATE TABLE transitions (mine)")
    plain.close()
    before = file.read_bytes()
    with pytest.raises(CannotOpen, match="already exists"):
        create_smithers_db(file)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "newer",
    [
        f"PRAGMA user_version = {SCHEMA_VERSION + 6}",
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
        " VALUES ('smithers', 'x1', ''), ('smithers', 'x2', ''), ('smithers', 'x3', ''),"
        " ('smithers', 'x4', ''), ('smithers', 'x5', ''), ('smithers', 'x6', '')",
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_schema_is_refused_and_left_alone(
    tmp_path: Path, newer: str, read_only: bool
) -> None:
    create_smithers_db(tmp_path).close()
    plain = sqlite3.connect(tmp_path / "db.sqlite")
    plain.execute(newer)
    plain.commit()
    plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    plain.close()
    before = digest(tmp_path)
    newest = SCHEMA_VERSION + 6
    with pytest.raises(SchemaTooNew, match=rf"version {newest}.*knows {SCHEMA_VERSION}") as caught:
        create_smithers_db(tmp_path, read_only=read_only)
    assert (caught.value.found, caught.value.supported) == (newest, SCHEMA_VERSION)
    assert digest(tmp_path)["db.sqlite"] == before["db.sqlite"]


def test_a_newer_copy_whose_change_log_is_of_another_schema_is_left_alone(
    db: SmithersDB, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.sqlite"
    db.query("VACUUM INTO $1", [str(copy)], write=True)
    plain = sqlite3.connect(copy)
    plain.execute("PRAGMA user_version = 1000")
    plain.close()
    content = copy.read_bytes()
    with pytest.raises(SchemaTooNew, match="1000"):
        create_smithers_db(copy)
    assert copy.read_bytes() == content, (
        "what the log knows of the schema is not brought up to date"
    )


def test_reading_only_changes_no_byte_of_database_and_log(db: SmithersDB, path: Path) -> None:
    db.state.set("a", 1)
    before = digest(path)
    assert "db.sqlite-wal" in before
    with create_smithers_db(path, read_only=True) as reading:
        assert reading.state.get_all() == {"a": 1}
        assert reading.state.state_at("t1") == {"a": 1}
        assert reading.stats()["transitions"] == 1
        reading.state.observe("a").subscribe(lambda _: None)
        with reading.transaction():
            assert reading.state.get("a") == 1
        with pytest.raises(SmithersError):
            reading.state.set("a", 2)
    assert digest(path) == before


def test_reading_only_never_makes_anything(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(CannotOpen, match="no such file"):
            create_smithers_db(path, read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_reading_only_a_file_without_our_tables_says_what_to_do(tmp_path: Path) -> None:
    plain = sqlite3.connect(tmp_path / "db.sqlite")
    plain.execute("CREATE TABLE notes (t)")
    plain.close()
    with pytest.raises(CannotOpen, match="no workflow database yet"):
        create_smithers_db(tmp_path, read_only=True)


def test_eight_processes_open_one_fresh_path_at_once(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom smithers import create_smithers_db\nprint('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "with create_smithers_db(sys.argv[1]) as db:\n"
        "    db.state.update('n', lambda n: n + 1, default=0)"
    )
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path / "fresh" / "db")]
    pipe: dict[str, Any] = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    openers = [subprocess.Popen(command, text=True, **pipe) for _ in range(8)]
    for opener in openers:
        assert opener.stdout and opener.stdout.readline() == "ready\n"
    for opener in openers:
        assert opener.stdin
        opener.stdin.write("\n")
        opener.stdin.flush()
    for opener in openers:
        _, stderr = opener.communicate(timeout=50)
        assert (opener.returncode, stderr) == (0, "")
    with create_smithers_db(tmp_path / "fresh" / "db") as db:
        assert db.state.get("n") == 8
        assert [t.previous_value for t in db.state.history()] == [None, 1, 2, 3, 4, 5, 6, 7]


def test_tables_of_ones_own_share_file_and_transaction(db: SmithersDB) -> None:
    with db.transaction():
        db.database["notes"].insert({"text": "mine"})
        db.state.set("a", 1)
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.database["notes"].insert({"text": "never"})
        db.state.set("a", 2)
        _ = 1 / 0
    assert db.query("SELECT text FROM notes") == [{"text": "mine"}]
    assert db.state.get("a") == 1


def test_the_options_reach_sqlite(tmp_path: Path) -> None:
    with create_smithers_db(tmp_path, synchronous="FULL", watch=False) as db:
        assert db.query("PRAGMA synchronous") == [{"synchronous": 2}]
    with pytest.raises(ValueError, match="synchronous"):
        create_smithers_db(tmp_path, synchronous="SOMETIMES")
