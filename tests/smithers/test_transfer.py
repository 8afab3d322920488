"""A database moved to a file and back: nothing is lost; a file that is wrong changes nothing."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reactive_sqlite import sqlite3
from smithers import (
    CannotLoad,
    DamagedDump,
    DumpConflict,
    DumpTooNew,
    ExecutionBusy,
    InTransaction,
    ReadOnly,
    SmithersDB,
    create_async_smithers_db,
    create_smithers_db,
)
from smithers.dumpfile import DumpReader, DumpWriter
from smithers.schema import SCHEMA_VERSION
from smithers.storage.transfer import MOVED
from tests.recorder import Recorder
from tests.smithers.schemas.__main__ import fill

LOADER = """
import os, signal, sys
from smithers import create_smithers_db
from smithers.dumpfile import DumpReader
rows = DumpReader.rows
def dying(self):
    for number, row in enumerate(rows(self)):
        if number == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        yield row
DumpReader.rows = dying
create_smithers_db(sys.argv[1]).load(sys.argv[2])
"""


@pytest.fixture
def full(db: SmithersDB) -> SmithersDB:
    """A database with something of everything, and what only other programs write."""
    fill(db)
    assert db.path is not None
    with closing(sqlite3.connect(db.path, isolation_level=None)) as plain:
        plain.execute(
            "INSERT INTO state (key, value) VALUES ('é\u2028\U0001f600', '[1e400, 1.50]')"
        )
        plain.execute("UPDATE agents SET cost_usd = 9e999, tokens_input = 9223372036854775807")
        plain.execute("UPDATE agents SET error = x'00ff10', output = CAST(x'61ff00' AS TEXT)")
        plain.execute("UPDATE executions SET name = 'a' || char(0) || char(10) || '\"\\'")
        plain.execute("UPDATE reviews SET summary = CAST(x'80' AS TEXT), target = ''")
    return db


@pytest.fixture
def file(full: SmithersDB, tmp_path: Path) -> Path:
    """Its dump."""
    full.dump(tmp_path / "dump.jsonl")
    return tmp_path / "dump.jsonl"


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[SmithersDB]:
    """A fresh database to be loaded into."""
    with create_smithers_db(tmp_path / "empty") as opened:
        yield opened


def content(db: SmithersDB) -> dict[str, list[tuple[Any, ...]]]:
    """All that is moved, byte by byte, with the types of the values."""
    assert db.path is not None
    found: dict[str, list[tuple[Any, ...]]] = {}
    with closing(sqlite3.connect(db.path)) as plain:
        plain.text_factory = _as_text
        for table in MOVED:
            found[table] = plain.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
    return found


def digest(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


def _as_text(content: bytes) -> tuple[str, bytes]:
    return ("text", content)


def forged(path: Path, rows: list[tuple[str, dict[str, Any]]], **header: Any) -> Path:
    """A dump with checksums that fit, whatever is in it."""
    facts: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "database": "x",
        "pruned": 0,
        "sequences": {},
    }
    with open(path, "wb") as file:
        writer = DumpWriter(file)
        writer.header(facts | header)
        for table, row in rows:
            writer.row(table, row)
        counts = {table: [name for name, _ in rows].count(table) for table, _ in rows}
        writer.end(counts)
    return path


def refused(
    db: SmithersDB, path: Path, error: type[CannotLoad], match: str | None = None
) -> CannotLoad:
    """Load what must be refused, and see that nothing has changed and that the place is named."""
    before, told = content(db), Recorder[Any]()
    subscription = db.state.observe_all().subscribe(told)
    with pytest.raises(error, match=match) as caught:
        db.load(path)
    subscription.dispose()
    assert content(db) == before
    assert len(told.values) == 1, "the value at the time of subscribing, and nothing since"
    assert caught.value.path == str(path)
    assert f"line {caught.value.line}:" in str(caught.value)
    return caught.value


# -- lossless --------------------------------------------------------------------------------------


def test_what_is_loaded_is_what_was_dumped_and_the_second_dump_is_the_same_file(
    full: SmithersDB, empty: SmithersDB, tmp_path: Path
) -> None:
    counts = full.dump(tmp_path / "first")
    full.dump(tmp_path / "again")
    assert empty.load(tmp_path / "first") == counts
    empty.dump(tmp_path / "second")
    assert content(empty) == content(full)
    first = (tmp_path / "first").read_bytes()
    assert (tmp_path / "again").read_bytes() == first
    assert (tmp_path / "second").read_bytes() == first
    assert all(counts[table] for table in MOVED if not table.startswith("_smithers_")), (
        "something of everything was moved"
    )


def test_every_line_is_json_of_its_own(file: Path) -> None:
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert lines[0]["format"] == "smithers dump"
    assert all(line["row"] for line in lines[1:-1])
    tables = [line["table"] for line in lines[1:-1]]
    assert lines[-1]["end"] == {table: tables.count(table) for table in dict.fromkeys(tables)}
    assert tables == sorted(tables, key=MOVED.index)


def test_every_table_of_ours_is_moved_or_has_a_reason_not_to_be(db: SmithersDB) -> None:
    stay = {
        "_smithers_leases",  # which process of this machine is at work
        "_smithers_trigger_leases",  # likewise
        "_smithers_meta",  # in the first line
    }
    tables = {
        row["name"]
        for row in db.query("SELECT name FROM pragma_table_list WHERE schema = 'main'")
        if not row["name"].startswith(("sqlite_", "_sqlite_", "_reactive_"))
        # Full-text indexes are made anew, by the triggers of what they index.
        and not row["name"].startswith("_smithers_memories_")
    }
    assert tables - stay == set(MOVED), "a new table has to be named in one of these places"


def test_work_goes_on_where_it_was_after_loading(
    full: SmithersDB, empty: SmithersDB, file: Path
) -> None:
    history = full.state.history()
    incomplete = full.execution.find_incomplete()
    ended = full.execution.list("completed")
    empty.load(file)
    assert empty.state.history() == history, "commits and moments too"
    assert [empty.state.state_at(t.id) for t in history] == [
        full.state.state_at(t.id) for t in history
    ]
    assert [one.total_agents for one in empty.execution.list("completed")] == [1]
    assert [one.id for one in ended] == [one.id for one in empty.execution.list("completed")]
    found = empty.execution.find_incomplete()
    assert found is not None and incomplete is not None
    assert (found.id, found.is_live) == (incomplete.id, False), "leases are not moved"
    assert empty.execution.resume(found.id).status == "running"
    written = empty.state.set("phase", "after")
    assert (written.seq, written.previous_value) == (len(history) + 1, full.state.get("phase"))
    empty.query("UPDATE state SET value = '1' WHERE key = 'phase'", write=True)
    assert empty.state.history("phase")[-1].previous_value == "after", "triggers record again"
    assert [one.message for one in empty.check() if one.level == "error"] == []


def test_numbers_that_were_given_are_not_given_again(
    db: SmithersDB, empty: SmithersDB, tmp_path: Path
) -> None:
    db.state.set("a", 1)
    db.state.set("a", 2)
    db.query("DELETE FROM transitions WHERE seq = 2", write=True)
    db.dump(tmp_path / "dump")
    empty.load(tmp_path / "dump")
    assert empty.state.set("a", 3).id == "t3"


def test_tables_of_ones_own_are_neither_dumped_nor_touched(
    full: SmithersDB, empty: SmithersDB, file: Path
) -> None:
    empty.database["notes"].insert({"id": 7, "text": "stays"}, pk="id")
    empty.load(file)
    assert empty.query("SELECT * FROM notes") == [{"id": 7, "text": "stays"}]
    assert b'"notes"' not in file.read_bytes()


def test_a_database_in_memory_is_moved_like_any_other(file: Path, tmp_path: Path) -> None:
    with create_smithers_db(":memory:") as memory:
        memory.load(file)
        memory.dump(tmp_path / "second")
    assert (tmp_path / "second").read_bytes() == file.read_bytes()


def test_a_pruned_database_is_moved_with_what_its_history_rests_on(
    db: SmithersDB, empty: SmithersDB, tmp_path: Path
) -> None:
    for n in range(10):
        db.state.set_many({"a": n, "b": -n})
    db.state.delete("b")
    middle = db.state.history()[10].timestamp
    db.prune(before=middle)
    kept = db.state.history()
    assert 0 < len(kept) < 21
    db.dump(tmp_path / "first")
    empty.load(tmp_path / "first")
    empty.dump(tmp_path / "second")
    assert (tmp_path / "second").read_bytes() == (tmp_path / "first").read_bytes()
    for t in kept:
        assert empty.state.state_at(t.id) == db.state.state_at(t.id)


def test_an_output_of_64_megabytes_goes_through(empty: SmithersDB, tmp_path: Path) -> None:
    output = ("0123456789abcde\n" * 4096) * 1024
    with create_smithers_db(tmp_path / "large") as db:
        agent = db.agents.start("Read it all")
        tool = db.tools.start(agent, "Read", {})
        db.tools.complete(tool, output)
        db.dump(tmp_path / "dump")
    empty.load(tmp_path / "dump")
    assert empty.tools.get_output(tool) == output


@pytest.mark.parametrize("way", ["dump", "load"])
def test_memory_does_not_grow_with_the_rows(
    db: SmithersDB, empty: SmithersDB, tmp_path: Path, way: str
) -> None:
    rows = 8_000
    db.query(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)"
        ' INSERT INTO transitions (key, value, timestamp, "commit", apply)'
        " SELECT 'k' || (i % 100), printf('\"%01000d\"', i), '2026', i, 0 FROM n",
        [rows],
        write=True,
    )
    dump = tmp_path / "dump"
    if way == "load":
        db.dump(dump)
    tracemalloc.start()
    try:
        db.dump(dump) if way == "dump" else empty.load(dump)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert dump.stat().st_size > 8 * 2**20
    assert peak < 4 * 2**20, "of more than 8 MB that went through"


# -- loading again, and into what is not empty -----------------------------------------------------


def test_loading_again_adds_nothing_and_tells_nobody(
    full: SmithersDB, empty: SmithersDB, file: Path
) -> None:
    empty.load(file)
    before, told = content(empty), Recorder[Any]()
    empty.state.observe_all().subscribe(told)
    for db in (empty, full):
        assert set(db.load(file).values()) == {0}
    assert content(empty) == content(full) == before
    assert len(told.values) == 1


def test_loading_into_the_same_database_brings_back_what_is_missing(
    full: SmithersDB, file: Path
) -> None:
    before = content(full)
    full.query("DELETE FROM commits", write=True)
    full.query("DELETE FROM tool_calls", write=True)
    agents = full.query("SELECT total_tool_calls FROM executions ORDER BY seq")
    assert agents[0] == {"total_tool_calls": 0}
    executions = full.query("SELECT * FROM executions WHERE status = 'completed'")
    error = refused(full, file, DumpConflict, "executions has another row 1")
    assert error.line == 2, "its totals have changed with its tool calls"
    full.query("DELETE FROM executions WHERE id = $1", [executions[0]["id"]], write=True)
    full.query("DELETE FROM snapshots", write=True)
    full.query("DELETE FROM reviews", write=True)
    added = full.load(file)
    assert (added["executions"], added["tool_calls"], added["state"]) == (1, 1, 0)
    assert content(full) == before, "totals are those of the file again"


def test_one_load_is_one_notification_here_and_in_another_handle(
    full: SmithersDB, empty: SmithersDB, file: Path
) -> None:
    here, there = Recorder[Any](), Recorder[Any]()
    steps = Recorder[Any]()
    empty.state.observe_all().subscribe(here)
    empty.state.transitions().subscribe(steps)
    assert empty.path is not None
    with create_smithers_db(empty.path) as other:
        other.state.observe_all().subscribe(there)
        empty.load(file)
        there.wait_for(lambda state: state == full.state.get_all(), timeout=20)
    assert here.values == there.values == [{}, full.state.get_all()]
    assert steps.values == full.state.history()


def test_of_several_who_load_at_once_one_does_it(
    full: SmithersDB, file: Path, tmp_path: Path
) -> None:
    added = Recorder[int]()

    def load() -> None:
        with create_smithers_db(tmp_path / "shared", busy_timeout=20) as db:
            added(sum(db.load(file).values()))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    *others, one = sorted(added.values)
    assert one > 0
    assert others == [0, 0, 0]
    with create_smithers_db(tmp_path / "shared") as db:
        assert content(db) == content(full)


def test_another_database_that_is_not_empty_refuses(
    full: SmithersDB, empty: SmithersDB, file: Path
) -> None:
    empty.state.set("mine", 1)
    error = refused(empty, file, DumpConflict, "of another database, and this one is not empty")
    assert error.line == 1


def test_another_row_with_the_same_key_refuses(full: SmithersDB, file: Path) -> None:
    full.state.set("phase", "further")
    error = refused(full, file, DumpConflict, "state has another row 'phase'")
    assert b'"key":"phase"' in file.read_bytes().splitlines()[error.line - 1]


def test_a_history_that_was_pruned_since_refuses(full: SmithersDB, file: Path) -> None:
    full.prune(before=full.state.history()[3].timestamp)
    refused(full, file, DumpConflict, "pruned to another point")


def test_a_database_that_was_reset_takes_its_dump(full: SmithersDB, file: Path, path: Path) -> None:
    last = full.state.history()[-1]
    before = content(full)
    full.close()
    with create_smithers_db(path, reset=True) as db:
        db.load(file)
        assert content(db) == before
        assert db.state.set("a", 1).seq == last.seq + 1


def test_a_live_run_elsewhere_refuses_a_load_and_ones_own_does_not(
    full: SmithersDB, elsewhere: SmithersDB, file: Path
) -> None:
    live = elsewhere.execution.start("At work")
    before = content(full)
    with pytest.raises(ExecutionBusy) as caught:
        full.load(file)
    assert caught.value.id == live
    assert content(full) == before
    elsewhere.execution.complete(live)
    full.query("DELETE FROM executions WHERE id = $1", [live], write=True)
    assert full.execution.list("running"), "its own execution is live"
    assert set(full.load(file).values()) == {0}


# -- a file that is wrong --------------------------------------------------------------------------


def test_a_file_that_is_cut_off_anywhere_changes_nothing(
    empty: SmithersDB, file: Path, tmp_path: Path
) -> None:
    whole = file.read_bytes()
    ends = [place for place, byte in enumerate(whole, start=1) if byte == 10]
    cuts = {*range(0, len(whole), 211), *ends[:-1], *(end - 1 for end in ends), len(whole) - 1}
    cut = tmp_path / "cut"
    for place in sorted(cuts):
        cut.write_bytes(whole[:place])
        error = refused(empty, cut, DamagedDump)
        lines = whole[:place].count(b"\n") + 1
        assert error.line == lines, f"cut at {place}"
    assert set(empty.stats().values()) == {0}


def test_a_byte_that_was_changed_is_told_by_its_line(
    empty: SmithersDB, file: Path, tmp_path: Path
) -> None:
    whole = file.read_bytes()
    changed = tmp_path / "changed"
    # Each mask at places of its own: all together as many as are worth their time.
    for mask, stride in ((1, 131), (0x80, 133)):
        for place in range(0, len(whole), stride):
            content = bytearray(whole)
            content[place] ^= mask
            changed.write_bytes(content)
            error = refused(empty, changed, CannotLoad)
            line = whole[:place].count(b"\n") + 1
            # A line that ends early is found where it ends, one that does not where the next does.
            assert error.line == line, f"byte {place}"


@pytest.mark.parametrize("what", ["left out", "doubled", "swapped", "appended"])
def test_lines_are_all_there_once_and_in_order(
    empty: SmithersDB, file: Path, tmp_path: Path, what: str
) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    wrong = {
        "left out": [*lines[:4], *lines[5:]],
        "doubled": [*lines[:5], lines[4], *lines[5:]],
        "swapped": [*lines[:4], lines[5], lines[4], *lines[6:]],
        "appended": [*lines, lines[-1]],
    }[what]
    file.write_bytes(b"".join(wrong))
    error = refused(empty, file, DamagedDump)
    expected = {"left out": 5, "doubled": 6, "swapped": 5, "appended": len(lines) + 1}
    assert error.line == expected[what]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"hello",
        b"{}",
        b"[]\n",
        b"null\n",
        b'{"format":"other"}\n',
        b"\xff\xfe\x00",
        b"SQLite format 3\0",
        b"[" * 100_000,
        b'{"format":"smithers dump"}\n',
        b'{"format":"smithers dump","version":1,"crc":"00000000"}\n',
    ],
)
def test_what_is_no_dump_is_told(empty: SmithersDB, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "other").write_bytes(text)
    assert refused(empty, tmp_path / "other", DamagedDump).line == 1


def test_a_dump_of_a_newer_version_is_refused_with_both_versions(
    empty: SmithersDB, tmp_path: Path
) -> None:
    newer = forged(tmp_path / "schema", [], schema=SCHEMA_VERSION + 3)
    error = refused(empty, newer, DumpTooNew, f"schema has version {SCHEMA_VERSION + 3}.*knows")
    assert isinstance(error, DumpTooNew)
    assert (error.found, error.supported) == (SCHEMA_VERSION + 3, SCHEMA_VERSION)
    (tmp_path / "format").write_bytes(b'{"format":"smithers dump","version":2,"sum":1}\n')
    refused(empty, tmp_path / "format", DumpTooNew, "format has version 2.*knows 1")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("nothing", {"seq": 1}), "no table 'nothing'"),
        (("_smithers_leases", {"execution_id": "x"}), "no table '_smithers_leases'"),
        (("_smithers_meta", {"name": "loading", "value": "1"}), "no table"),
        (("sqlite_master", {"name": "x"}), "no table"),
        (("state; DROP TABLE state", {"key": "a"}), "no table"),
        (("state", {"key": "a", "value": "1", "colour": 1}), "no column 'colour'"),
        (("state", {"key": "a", 'value") VALUES (1); --': "1"}), "no column"),
        (("state", {"value": "1"}), "not its key"),
        (("transitions", {"seq": 1, "id": "t1", "key": "a"}), "no column 'id'"),
        (("state", {"key": "a", "value": "not json"}), "CHECK"),
        (("state", {"key": "a", "value": None}), "NOT NULL"),
        (("phases", {"seq": 1, "id": "p", "execution_id": "gone", "name": "n"}), "FOREIGN KEY"),
        (("executions", {"seq": 2**70, "id": "e", "name": "n"}), "too large"),
        (("executions", {"seq": 1, "id": "e", "name": "n", "status": "odd"}), "CHECK"),
        (("state", {"key": "a", "value": ["1"]}), "no value of SQLite's"),
        (("state", {"key": "a", "value": True}), "no value of SQLite's"),
        (("state", {"key": "a", "value": {"blob": "%"}}), "column 'value'"),
        (("state", {"key": "a", "value": {"float": "nan"}}), "column 'value'"),
        (("state", {"key": "a", "value": {"blob": 1}}), "no value of SQLite's"),
    ],
)
def test_a_row_that_does_not_belong_is_refused_though_its_checksum_fits(
    empty: SmithersDB, tmp_path: Path, row: tuple[str, dict[str, Any]], reason: str
) -> None:
    error = refused(empty, forged(tmp_path / "forged", [row]), CannotLoad, reason)
    assert error.line == (3 if reason == "FOREIGN KEY" else 2)


@pytest.mark.parametrize("place", ["header", "row"])
def test_half_a_character_is_refused_though_its_checksum_fits(
    empty: SmithersDB, tmp_path: Path, place: str
) -> None:
    row = {"key": "MARK" if place == "row" else "a", "value": "1"}
    path = forged(tmp_path / "forged", [("state", row)], database="MARK")
    crc, text = 0, b""
    for line in path.read_bytes().splitlines():
        if (b'"row"' in line) == (place == "row"):
            line = line.replace(b"MARK", rb"\ud800")
        body = line[: line.rindex(b',"crc"')]
        crc = zlib.crc32(body, crc)
        text += body + b',"crc":"%08x"}\n' % crc
    path.write_bytes(text)
    assert refused(empty, path, DamagedDump, "surrogates").line == (2 if place == "row" else 1)


@pytest.mark.parametrize(
    "header",
    [
        {"database": None},
        {"pruned": "0"},
        {"pruned": True},
        {"sequences": None},
        {"sequences": {"notes": 1}},
        {"sequences": {"transitions": -1}},
        {"sequences": {"transitions": 2**63}},
        {"schema": None},
        {"version": None},
    ],
)
def test_a_header_that_makes_no_sense_is_refused(
    empty: SmithersDB, tmp_path: Path, header: dict[str, Any]
) -> None:
    assert refused(empty, forged(tmp_path / "forged", [], **header), DamagedDump).line == 1


def test_a_load_that_is_killed_leaves_nothing_behind(file: Path, tmp_path: Path) -> None:
    place = tmp_path / "killed"
    command = [sys.executable, "-c", LOADER, str(place), str(file), "12"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with create_smithers_db(place) as db:
        assert set(db.stats().values()) == {0}
        db.query("INSERT INTO state (key, value) VALUES ('a', '1')", write=True)
        assert len(db.state.history()) == 1, "the triggers are not quiet"


# -- writing the file ------------------------------------------------------------------------------


def test_a_dump_is_one_state_and_keeps_no_writer_waiting(
    full: SmithersDB, elsewhere: SmithersDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = full.state.history()
    end = DumpWriter.row
    written: list[str] = []

    def row(self: DumpWriter, table: str, row: dict[str, Any]) -> None:
        if not written:
            written.append(elsewhere.state.set("from elsewhere", 1).id)
            thread = threading.Thread(target=lambda: written.append(full.state.set("b", 2).id))
            thread.start()
            thread.join(20)
            written.append(full.state.set("from within", 3).id)
        end(self, table, row)

    with monkeypatch.context() as patched:
        patched.setattr(DumpWriter, "row", row)
        full.dump(tmp_path / "dump")
    assert len(written) == 3
    with create_smithers_db(":memory:") as db:
        db.load(tmp_path / "dump")
        assert db.state.history() == before


def test_a_dump_is_for_this_user_alone_and_replaces_a_file_when_it_is_whole(
    full: SmithersDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "dump"
    target.write_text("old")
    target.chmod(0o644)

    def fail(self: DumpWriter, counts: object) -> None:
        assert target.read_text() == "old", "not before the new one is whole"
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(DumpWriter, "end", fail)
        with pytest.raises(OSError, match="No space left"):
            full.dump(target)
    assert target.read_text() == "old"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["dump", "workflow"]
    full.dump(target)
    assert target.stat().st_mode & 0o777 == 0o600
    assert sorted(found.name for found in tmp_path.iterdir()) == ["dump", "workflow"]


def test_a_link_stays_one(full: SmithersDB, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "dump")
    full.dump(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "dump").is_file()


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_a_dump_never_goes_over_the_database_itself(full: SmithersDB, ending: str) -> None:
    assert full.path is not None
    before = content(full)
    with pytest.raises(ValueError, match="the database itself"):
        full.dump(f"{full.path}{ending}")
    (full.path.parent / "link").symlink_to(f"{full.path}{ending}")
    with pytest.raises(ValueError, match="the database itself"):
        full.dump(full.path.parent / "link")
    assert content(full) == before


def test_a_path_that_cannot_be_a_dump_is_refused(full: SmithersDB, tmp_path: Path) -> None:
    for path in (tmp_path, "/dev/null", "a\0b"):
        with pytest.raises(ValueError, match=r"no regular file|no NUL"):
            full.dump(path)
    bad: Any = 7
    with pytest.raises(TypeError):
        full.dump(bad)
    with pytest.raises(FileNotFoundError):
        full.dump(tmp_path / "missing" / "dump")
    with pytest.raises(FileNotFoundError):
        full.load(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        full.load(tmp_path)
    assert [found.name for found in tmp_path.iterdir()] == ["workflow"]


def test_neither_runs_inside_a_transaction(full: SmithersDB, file: Path, tmp_path: Path) -> None:
    calls: list[Callable[[], object]] = [
        lambda: full.dump(tmp_path / "other"),
        lambda: full.load(file),
        lambda: full.prune(keep_executions=1),
    ]
    for call in calls:
        with pytest.raises(InTransaction, match="inside a transaction"), full.transaction():
            call()
    assert not (tmp_path / "other").exists()


def test_reading_only_dumps_and_does_not_load(full: SmithersDB, file: Path, path: Path) -> None:
    before = digest(file)
    with create_smithers_db(path, read_only=True) as db:
        db.dump(file)
        with pytest.raises(ReadOnly, match="load"):
            db.load(file)
    assert digest(file) == before


def test_a_directory_that_cannot_be_written_can_be_dumped(
    full: SmithersDB, path: Path, tmp_path: Path, file: Path
) -> None:
    full.close()
    path.chmod(0o500)
    try:
        with create_smithers_db(path, read_only=True) as db:
            db.dump(tmp_path / "second")
    finally:
        path.chmod(0o700)
    with create_smithers_db(path) as db:
        db.dump(tmp_path / "third")
    assert (tmp_path / "second").read_bytes() == (tmp_path / "third").read_bytes()


# -- the file itself -------------------------------------------------------------------------------


def test_what_is_written_is_read() -> None:
    row = {
        "a": 1,
        "b": -(2**63),
        "c": 1.5,
        "d": float("-inf"),
        "e": b"\0",
        "f": "\0\u2028\n",
        "g": None,
    }
    file = io.BytesIO()
    writer = DumpWriter(file)
    writer.header({"schema": 1})
    writer.row("t", row)
    writer.end({"t": 1})
    file.seek(0)
    reader = DumpReader(file, "x")
    assert reader.header["schema"] == 1
    assert list(reader.rows()) == [("t", row)]


# -- for asyncio -----------------------------------------------------------------------------------


async def test_dump_and_load_are_awaited(file: Path, tmp_path: Path) -> None:
    whole = digest(file)
    async with create_async_smithers_db(tmp_path / "other") as db:
        told = Recorder[Any]()
        watched = db.state.observe_all()
        assert await watched == {}
        watched.subscribe(told)
        assert (await db.load(file))["executions"] == 2
        assert set((await db.load(file)).values()) == {0}
        assert told.last == await db.state.get_all() != {}
        await db.dump(tmp_path / "second")
        with pytest.raises(DamagedDump):
            await db.load(os.devnull)
    assert digest(tmp_path / "second") == whole
