"""Dumps that somebody has changed, line by line: loaded as they are, or refused with no change."""

from __future__ import annotations

import json
import random
import shutil
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from reactive_sqlite import sqlite3
from smithers import CannotLoad, SmithersDB, StateTypeError, create_smithers_db
from tests.smithers.hostile import HOSTILE, contents

Line = dict[str, Any]
SHORT, LONG = 16, 1_200
STRANGE: tuple[Any, ...] = (
    *HOSTILE[:11],
    *(None, True, 0, -1, 2**63, -(2**63) - 1, 1.5, 1e400, "", [], {}, [[]], {"a": 1}),
    *("nul \0 inside", "lone \ud800 surrogate", "2026-13-45", "running", "x" * 100_000),
    *({"blob": "AAAA"}, {"blob": "?"}, {"text": "/w=="}, {"float": "nan"}, {"float": "inf"}),
    *({"float": 1}, {"blob": None}, {"other": "AAAA"}),
)


def vouched(lines: list[bytes]) -> bytes:
    """Give lines checksums that fit, as somebody who knows the format would."""
    crc, whole = 0, b""
    for line in lines:
        crc = zlib.crc32(line, crc)
        whole += line + b',"crc":"%08x"}\n' % crc
    return whole


def written(lines: list[Line]) -> bytes:
    return vouched([json.dumps(line).encode()[:-1] for line in lines])


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    """The lines of a dump with rows in every table that matters, without their checksums."""
    place = tmp_path_factory.mktemp("dumped")
    with create_smithers_db(place / "workflow", watch=False) as db:
        db.state.set_many({"phase": "plan", "n": 1})
        db.execution.start("work", config={"a": 1})
        with db.phases.open("plan"), db.steps.open("write"), db.agents.open("why") as agent:
            db.tools.complete(db.tools.start(agent, "Read", {"f": "x"}), "out")
            db.memories.add_fact("api", "at /v2")
            db.vcs.log_commit(hash="abc", message="fix")
            db.vcs.log_review(review_id="r", target="t", approved=False, summary="s")
        db.state.delete("n")
        db.dump(place / "dump")
    lines = (place / "dump").read_text(encoding="utf-8").splitlines()
    parsed = [json.loads(line) for line in lines]
    for line in parsed:
        del line["crc"]
    return parsed


def mutated(lines: list[Line], chance: random.Random) -> tuple[str, bytes]:
    """Change something that only the loader can find, since all checksums fit."""
    copied: list[Any] = json.loads(json.dumps(lines))
    at = chance.randrange(len(copied))
    line = copied[at]
    row: dict[str, Any] | None = line.get("row") if isinstance(line.get("row"), dict) else None
    how = chance.choice(["value", "column", "drop", "double", "swap", "table", "kind", "count"])
    if how in ("value", "column") and row is not None:
        column = chance.choice(list(row))
        if how == "value":
            row[column] = chance.choice(STRANGE)
        else:
            row[chance.choice([*HOSTILE[:10], "rowid", "seq", "value"])] = row.pop(column)
    elif how == "drop":
        del copied[at]
    elif how == "double":
        copied.insert(chance.randrange(len(copied)), line)
    elif how == "swap":
        other = chance.randrange(len(copied))
        copied[at], copied[other] = copied[other], copied[at]
    elif how == "table" and row is not None:
        line["table"] = chance.choice(
            [*HOSTILE[:10], "sqlite_master", "_smithers_leases", "_reactive_log", "steps", 5, None]
        )
    elif how == "kind":
        kinds: list[Any] = [5, [], "text", None, {}, {"end": {}}, {"row": {}}]
        copied[at] = chance.choice(kinds)
    else:
        header = cast("Line", copied[0])
        key = chance.choice(list(header))
        header[key] = chance.choice(STRANGE)
    if chance.random() < 0.7:  # so that it is not the count that gives it away
        counts: dict[str, int] = {}
        for each in copied:
            fields: Line = cast("Line", each) if isinstance(each, dict) else {}
            name: Any = fields.get("table")
            if isinstance(name, str):
                counts[name] = counts.get(name, 0) + 1
        copied[-1] = {"end": counts}
    encoded = [json.dumps(each).encode() for each in copied]
    return how, vouched([each[:-1] if each[-1:] == b"}" else each for each in encoded])


def torn(text: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Change bytes, as an editor or a bad disk would, and leave the checksums as they were."""
    at = chance.randrange(len(text))
    garbage = chance.randbytes(chance.choice([1, 3, 100]))
    return chance.choice(
        [
            ("cut off", text[:at]),
            ("cut out", text[:at] + text[at + len(garbage) :]),
            ("put in", text[:at] + garbage + text[at:]),
            ("twice", text + text),
            ("NUL", text[:at] + b"\0" + text[at:]),
        ]
    )


class Target:
    """An empty database to load into, made anew whenever something came into it."""

    def __init__(self, place: Path) -> None:
        self._place = place
        with create_smithers_db(place / "fresh", watch=False) as made:
            assert made.path is not None
            self.fresh = made.path
        self._count = 0
        self.db = self._opened()

    def anew(self) -> None:
        self.db.close()
        self.db = self._opened()

    def _opened(self) -> SmithersDB:
        self._count += 1
        place = self._place / f"target {self._count}"
        place.mkdir(mode=0o700)
        shutil.copy(self.fresh, place)
        return create_smithers_db(place, watch=False)


def loaded(target: Target, dump: Path, what: str) -> bool:
    """Load: all of it, which is sound then, or nothing and an error that says in which line."""
    db = target.db
    before, stats = contents(db), db.stats()
    try:
        db.load(dump)
    except CannotLoad as error:
        assert error.path == str(dump) and error.line >= 1, what
        assert len(str(error)) < 5_000 and "\n" not in str(error), what
        assert not db.database.conn.in_transaction, what
        assert (db.stats(), contents(db)) == (stats, before), what
        return False
    assert db.query("PRAGMA integrity_check") == [{"integrity_check": "ok"}], what
    assert db.query("PRAGMA foreign_key_check") == [], what
    # What any program could have written as well is told by the error for that, where it is read.
    readings: list[Callable[[], object]] = [db.state.get_all, db.state.history, db.execution.list]
    for read in (*readings, db.phases.list, db.steps.list, db.agents.list, db.memories.list):
        # A text that is no UTF-8 is dumped and loaded as the bytes that it is.
        with suppress(StateTypeError, sqlite3.OperationalError):
            read()
    db.check()
    target.anew()
    return True


def swept(place: Path, lines: list[Line], rounds: int) -> str:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    whole = written(lines)
    dump = place / "dump.jsonl"
    target = Target(place)
    came: Counter[str] = Counter()
    for number in range(rounds):
        how, text = torn(whole, chance) if number % 4 == 0 else mutated(lines, chance)
        dump.write_bytes(text)
        what = f"round {number} of seed {seed}: {how}"
        try:
            came["loaded" if loaded(target, dump, what) else "refused"] += 1
        except Exception as error:
            error.add_note(what)
            raise
    target.db.close()
    return ", ".join(f"{count} {outcome}" for outcome, count in came.items())


def test_a_dump_that_was_changed_is_loaded_whole_or_not_at_all(
    tmp_path: Path, dumped: list[Line]
) -> None:
    swept(tmp_path, dumped, SHORT)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_thousands_of_changed_dumps_are_loaded_whole_or_not_at_all(
    tmp_path: Path, dumped: list[Line]
) -> None:
    print(f"\n{LONG} changed dumps: {swept(tmp_path, dumped, LONG)}")


def test_what_only_looks_like_a_dump_is_refused_in_a_line(
    tmp_path: Path, dumped: list[Line]
) -> None:
    target = Target(tmp_path)
    dump = tmp_path / "dump.jsonl"
    header, *rows = (json.dumps(line).encode() for line in dumped)
    row = next(row for row in rows if b'"executions"' in row)
    deep = b'{"table":"state","row":{"key":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    doubled = row[:-2] + b',"id":"another"}'
    texts = {
        "nothing": b"",
        "garbage": bytes(range(256)) * 1_000,
        "NUL": b"\0" * 100_000,
        "one endless line": b"x" * 20_000_000,
        "an endless number": b'{"format":' + b"9" * 1_000_000 + b"}\n",
        "a deep header": b"[" * 1_000_000,
        "a database": target.fresh.read_bytes(),
        "a deep row": vouched([header[:-1], deep]),
        "a number of many digits": vouched(
            [header[:-1], b'{"table":"state","row":{"key":' + b"9" * 10_000 + b"}"]
        ),
        "infinity": vouched([header[:-1], b'{"table":"state","row":{"key":Infinity}']),
        "no UTF-8": vouched([header[:-1], b'{"table":"state","row":{"key":"\xff"}']),
    }
    for what, text in texts.items():
        dump.write_bytes(text)
        assert not loaded(target, dump, what)
    dump.write_bytes(vouched([header[:-1], doubled, b'{"end":{"executions":1}']))
    assert loaded(target, dump, "a key that is there twice means its last value, as in all JSON")
    target.db.close()


def test_what_a_constraint_refuses_is_told_in_a_line(tmp_path: Path, dumped: list[Line]) -> None:
    target = Target(tmp_path)
    dump = tmp_path / "dump.jsonl"
    header = json.dumps(dumped[0]).encode()
    memory = next(line for line in dumped if line.get("table") == "memories")
    row = json.dumps({**memory, "row": {**memory["row"], "expires_at": "soon"}}).encode()
    dump.write_bytes(vouched([header[:-1], row[:-1], b'{"end":{"memories":1}']))
    assert not loaded(target, dump, "a time that is none")
    target.db.close()


def test_parents_in_a_circle_and_parents_that_are_not_there(
    tmp_path: Path, dumped: list[Line]
) -> None:
    target = Target(tmp_path)
    dump = tmp_path / "dump.jsonl"
    for parent in ("itself", "nobody"):
        lines: list[Line] = json.loads(json.dumps(dumped))
        for line in lines:
            if line.get("table") == "agents":
                row = line["row"]
                row["parent_agent_id"] = row["id"] if parent == "itself" else "nobody"
        dump.write_bytes(written(lines))
        assert loaded(target, dump, parent) is (parent == "itself")
    target.db.close()
