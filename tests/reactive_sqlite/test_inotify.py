"""The events of some files of a directory, and of no others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactive_sqlite.inotify import Inotify

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has inotify")


@pytest.fixture
def events(tmp_path: Path) -> Iterator[Inotify]:
    (tmp_path / "db").touch()
    events = Inotify(str(tmp_path), ["db", "db-wal"])
    yield events
    events.close()


def test_what_is_written_to_other_files_of_the_directory_is_not_heard(
    events: Inotify, tmp_path: Path
) -> None:
    with (tmp_path / "agent.log").open("w", buffering=1) as log:
        assert events.names() == {"agent.log"}, "it came"
        for line in range(100):
            print(line, file=log)
        assert events.names() == set()
    with (tmp_path / "db").open("a") as file:
        file.write("x")
    assert events.names() == {"db"}


def test_a_file_that_comes_is_heard_from_then_on(events: Inotify, tmp_path: Path) -> None:
    for _ in range(3):
        log = tmp_path / "db-wal"
        log.touch()
        assert events.names() == {"db-wal"}
        log.write_bytes(b"a frame")
        assert events.names() == {"db-wal"}
        log.unlink()
        assert events.names() == {"db-wal"}


def test_a_file_that_takes_the_place_of_another_is_heard(events: Inotify, tmp_path: Path) -> None:
    (tmp_path / "new").touch()
    (tmp_path / "new").rename(tmp_path / "db")
    assert "db" in events.names()
    (tmp_path / "db").write_bytes(b"x")
    assert events.names() == {"db"}


def test_a_file_that_came_while_events_were_lost_is_heard(events: Inotify, tmp_path: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text("ascii"))
    if limit > 20_000:
        pytest.skip("so long a queue takes too long to fill")
    names = [tmp_path / "one", tmp_path / "two"]
    names[0].touch()
    for turn in range(limit // 2 + 100):
        names[turn % 2].rename(names[1 - turn % 2])
    (tmp_path / "db-wal").touch()
    found = events.names()
    assert "" in found and "db-wal" not in found, "its coming was lost"
    (tmp_path / "db-wal").write_bytes(b"a frame")
    assert events.names() == {"db-wal"}


def test_nothing_is_heard_during_a_pause_and_all_after_it(events: Inotify, tmp_path: Path) -> None:
    for _ in range(3):
        events.pause()
        events.names()
        (tmp_path / "db").write_bytes(b"x")
        (tmp_path / "db-wal").write_bytes(b"x")
        assert events.names() == set()
        events.resume()
        (tmp_path / "db").write_bytes(b"y")
        (tmp_path / "db-wal").write_bytes(b"y")
        assert events.names() == {"db", "db-wal"}
        (tmp_path / "db-wal").unlink()
