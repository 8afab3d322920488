"""The tools for agents: what they return, what they refuse, and how much of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from smithers import SmithersDB, create_smithers_db
from smithers.runtime.toolbox import Answer, answer, offered
from tests.smithers.hostile import HOSTILE, UNWRITABLE, contents

READING = ["state_get", "state_history", "memory_search"]
WRITING = ["state_set", "memory_add"]


@pytest.fixture
def db(made: Path) -> Any:
    with create_smithers_db(made) as opened:
        yield opened


def ask(db: SmithersDB, name: str, **arguments: Any) -> Any:
    """Call a tool that answers well."""
    told = answer(db, name, arguments, allow_write=True)
    assert not told.is_error, told
    return json.loads(told.text)


def refused(db: SmithersDB, name: str, arguments: object, *, allow_write: bool = True) -> str:
    """Call a tool that answers with an error, and writes nothing."""
    before = contents(db)
    told = answer(db, name, arguments, allow_write=allow_write)
    assert told.is_error and contents(db) == before
    assert len(told.text) <= 600 and "\n" not in told.text and "Traceback" not in told.text
    told.text.encode()
    return told.text


# -- what is offered -----------------------------------------------------------------------------


def test_writing_tools_are_offered_only_where_writing_is_allowed(db: SmithersDB) -> None:
    assert [tool.name for tool in offered(allow_write=False)] == READING
    assert sorted(tool.name for tool in offered(allow_write=True)) == sorted(READING + WRITING)
    for name in WRITING:
        said = refused(db, name, {"key": "k", "value": 1}, allow_write=False)
        assert said == f"{name} is not offered: here the database is for reading only"


@pytest.mark.parametrize("tool", offered(allow_write=True), ids=lambda tool: tool.name)
def test_every_tool_and_argument_says_what_it_is(tool: Any) -> None:
    schema = tool.schema
    json.dumps(schema)
    assert len(tool.description) > 40
    assert set(schema["required"]) <= set(schema["properties"])
    assert schema["additionalProperties"] is False
    assert all(one["description"].endswith(".") for one in schema["properties"].values())
    assert all("type" in one for one in schema["properties"].values())


# -- the state -----------------------------------------------------------------------------------


def test_a_key_is_read_with_its_value(db: SmithersDB) -> None:
    db.state.set("phase", {"name": "review", "n": [1, None]})
    got = ask(db, "state_get", key="phase")
    assert (got["present"], got["value"]) == (True, {"name": "review", "n": [1, None]})
    assert got["updated_at"].endswith("+00:00")
    db.state.set("nothing", None)
    assert ask(db, "state_get", key="nothing")["value"] is None
    assert ask(db, "state_get", key="absent") == {"key": "absent", "present": False}


def test_the_whole_state_is_read_by_key_and_what_is_left_out_is_counted(db: SmithersDB) -> None:
    assert ask(db, "state_get") == {"state": [], "left_out": 0}
    db.state.set_many({f"key {number}": number for number in range(5)})
    assert ask(db, "state_get", limit=2) == {
        "state": [{"key": "key 0", "value": 0}, {"key": "key 1", "value": 1}],
        "left_out": 3,
    }


def test_setting_a_key_tells_what_was_there_and_is_recorded_as_mcp(db: SmithersDB) -> None:
    assert ask(db, "state_set", key="n", value=1)["previous_value"] is None
    assert ask(db, "state_set", key="n", value=None) == {
        "id": "t2",
        "key": "n",
        "previous_value": 1,
    }
    assert [(t.value, t.trigger) for t in db.state.history()] == [(1, "mcp"), (None, "mcp")]
    assert db.state.has("n"), "null is a value"


def test_history_is_that_of_a_key_or_of_all_and_the_newest(db: SmithersDB) -> None:
    for number in range(4):
        db.state.set("n", number, f"step {number}")
    db.state.set("other", 1)
    db.state.delete("n", "tidy")
    rows = ask(db, "state_history", key="n", limit=2)
    assert rows["older_are_left_out"] is True
    assert [(row["id"], row["previous_value"], row["trigger"]) for row in rows["history"]] == [
        ("t4", 2, "step 3"),
        ("t6", 3, "tidy"),
    ]
    assert rows["history"][0]["value"] == 3
    assert rows["history"][1]["deleted"] is True and "value" not in rows["history"][1]
    between = ask(db, "state_history", since="t1", before="t3")
    assert [row["id"] for row in between["history"]] == ["t2"]
    assert between["older_are_left_out"] is False


# -- memories ------------------------------------------------------------------------------------


def test_memories_are_added_found_and_replaced(db: SmithersDB) -> None:
    first = ask(db, "memory_add", category="fact", key="api", content="The API is at /v1")
    second = ask(
        db,
        "memory_add",
        category="fact",
        key="api",
        content="The API is at /v2",
        source="auth.ts",
        confidence=0.5,
    )
    assert first["id"] == second["id"]
    (found,) = ask(db, "memory_search", query="api")["memories"]
    assert {name: found[name] for name in ("key", "content", "source", "confidence")} == {
        "key": "api",
        "content": "The API is at /v2",
        "source": "auth.ts",
        "confidence": 0.5,
    }
    ask(db, "memory_add", category="skill", key="release", content="make", scope="session")
    listed = ask(db, "memory_search", limit=1)
    assert [one["key"] for one in listed["memories"]] == ["release"], "those changed last"
    assert listed["more_are_left_out"] is True
    assert ask(db, "memory_search", category="fact", scope="session")["memories"] == []
    assert ask(db, "memory_search", query="nowhere to be found")["memories"] == []


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("nothing", {}, "there is no tool 'nothing': there are state_get, "),
        ("", {}, "there is no tool '': "),
        ("state_get", [], "the arguments of state_get are an object, not []"),
        ("state_get", "key", "the arguments of state_get are an object, not 'key'"),
        ("state_get", {"kee": 1}, "state_get takes no argument 'kee', but: key, limit, "),
        ("state_get", {"key": 5}, "key is of type string, not 5"),
        ("state_get", {"key": ""}, "a key is not empty"),
        ("state_get", {"key": "x" * 2000}, "a key has at most 1024 characters, not 2000"),
        ("state_get", {"limit": 0}, "limit is from 1 to 200, not 0"),
        ("state_get", {"limit": 201}, "limit is from 1 to 200, not 201"),
        ("state_get", {"limit": True}, "limit is of type integer, not True"),
        ("state_get", {"limit": "5"}, "limit is of type integer, not '5'"),
        ("state_get", {"limit": 1.5}, "limit is of type integer, not 1.5"),
        ("state_get", {"limit": 10**400}, "limit is from 1 to 200, not 1"),
        ("state_get", {"max_characters": 0}, "max_characters is from 80 to 1000000, not 0"),
        ("state_set", {"key": "k"}, "state_set needs the argument 'value'"),
        ("state_set", {"key": None, "value": 1}, "key is of type string, not None"),
        ("state_set", {"key": "k", "value": float("nan")}, "state 'k': nan has no form in JSON"),
        ("state_history", {"since": "5 or 1=1"}, "there is no transition '5 or 1=1'"),
        ("state_history", {"before": "t" + "9" * 500}, "there is no transition 't999"),
        ("memory_search", {"query": 5}, "query is of type string, not 5"),
        ("memory_search", {"category": "secret"}, "category is one of fact, learning, "),
        ("memory_search", {"scope": ["project"]}, "scope is one of "),
        ("memory_add", {"category": "fact", "key": "k"}, "memory_add needs the argument 'content'"),
        (
            "memory_add",
            {"category": "fact", "key": "k", "content": "c", "confidence": 2},
            "confidence is from 0 to 1, not 2",
        ),
        (
            "memory_add",
            {"category": "fact", "key": "k", "content": ""},
            "the content of a memory is not empty",
        ),
    ],
)
def test_bad_input_is_refused_in_a_line_and_nothing_is_written(
    db: SmithersDB, name: str, arguments: object, said: str
) -> None:
    assert refused(db, name, arguments).startswith(said)


@pytest.mark.parametrize("text", [*HOSTILE, *UNWRITABLE], ids=lambda text: repr(text)[:20])
def test_hostile_text_is_text_everywhere(db: SmithersDB, text: str) -> None:
    tables = db.stats()
    for name, arguments in (
        ("state_get", {"key": text}),
        ("state_set", {"key": text, "value": {text: text}}),
        ("state_set", {"key": "k", "value": text}),
        ("state_get", {}),
        ("state_history", {"key": text}),
        ("state_history", {"since": text, "before": text}),
        ("memory_add", {"category": "fact", "key": "k", "content": text, "source": text}),
        ("memory_add", {"category": "fact", "key": text, "content": "c"}),
        ("memory_search", {"query": text}),
        ("memory_search", {}),
        (text, {}),
        ("state_get", {text: text}),
    ):
        told = answer(db, name, arguments, allow_write=True)
        told.text.encode()
        assert "\n" not in told.text, "one line, whatever is in it"
        if not told.is_error:
            json.loads(told.text)
    assert db.stats().keys() == tables.keys()
    stored = ask(db, "state_get", key="k", max_characters=1_000_000)
    if "\0" not in text:
        assert stored["value"] == text


def test_null_stands_for_an_argument_that_is_left_out(db: SmithersDB) -> None:
    db.state.set("k", 1)
    assert ask(db, "state_get", key=None, limit=None)["state"] == [{"key": "k", "value": 1}]
    assert answer(db, "state_get", None, allow_write=False) == Answer(
        '{"state": [{"key": "k", "value": 1}], "left_out": 0}'
    )


def test_what_other_programs_have_stored_can_be_read(db: SmithersDB) -> None:
    db.state.set("k", 1)
    db.query("UPDATE state SET value = '[9e999, -9e999]'", write=True)
    assert ask(db, "state_get", key="k")["value"] == [float("inf"), float("-inf")]


# -- how much ------------------------------------------------------------------------------------


def test_a_long_value_is_told_by_its_beginning_and_whole_when_there_is_room(
    db: SmithersDB,
) -> None:
    db.state.set("long", "x" * 100_000)
    got = ask(db, "state_get", key="long")
    assert got["value_beginning"] == '"' + "x" * 19_999 and "value" not in got
    assert got["value_characters"] == 100_002
    whole = ask(db, "state_get", key="long", max_characters=200_000)
    assert whole["value"] == "x" * 100_000


def test_short_values_are_whole_beside_long_ones(db: SmithersDB) -> None:
    db.state.set_many({"a": "x" * 50_000, "b": "short", "c": "y" * 50_000, "d": "z" * 500})
    rows = {row["key"]: row for row in ask(db, "state_get", max_characters=10_000)["state"]}
    assert rows["b"]["value"] == "short" and rows["d"]["value"] == "z" * 500
    lengths = [len(rows[key]["value_beginning"]) for key in "ac"]
    assert all(4_500 < length < 5_000 for length in lengths), lengths


def test_what_is_returned_is_bounded_whatever_is_stored(db: SmithersDB) -> None:
    with db.transaction():
        for number in range(300):
            key = f"{number:04}" + "k" * 1000
            db.state.set(key, ["v" * 5_000], "t" * 5_000)
            db.memories.add("fact", key, "m" * 5_000, source="s" * 5_000)
    for name in READING:
        told = answer(db, name, {"limit": 200}, allow_write=False)
        assert not told.is_error
        # Keys of 1,000 characters, and a few hundred of each other text.
        assert len(told.text) < 20_000 + 200 * 2_500, name


def test_a_million_characters_are_set_and_read(db: SmithersDB) -> None:
    value = ["漢" * 1000] * 900
    ask(db, "state_set", key="large", value=value)
    assert ask(db, "state_get", key="large", max_characters=1_000_000)["value"] == value
