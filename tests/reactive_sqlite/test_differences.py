"""`ObservableQuery.diffs()`: what makes each result out of the one before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from reactive_sqlite import Database
from reactive_sqlite.diff import Diff, Insert, Move, Remove, Update
from tests.recorder import Recorder


@pytest.fixture
def db() -> Iterator[Database]:
    with Database(memory=True) as db:
        db["items"].insert_all(
            [{"id": number, "name": f"n{number}", "rank": number} for number in range(1000)],
            pk="id",
        )
        yield db


def test_one_changed_row_of_1000_is_one_update(db: Database, recorder: Recorder[Diff[Any]]) -> None:
    db["items"].observe(order_by="id").diffs().subscribe(recorder)
    assert len(recorder.take()[0].steps) == 1000, "the first is made out of the empty list"
    db["items"].update(500, {"name": "new"})
    (step,) = recorder.last.steps
    assert isinstance(step, Update)
    assert (step.index, step.old["name"], step.item["name"]) == (500, "n500", "new")


def test_a_reorder_is_a_move(db: Database, recorder: Recorder[Diff[Any]]) -> None:
    db.observe("SELECT id FROM items ORDER BY rank").diffs().subscribe(recorder)
    db["items"].update(999, {"rank": -1})
    assert recorder.last.steps == (Move(999, 0, {"id": 999}),)


def test_rows_without_their_key_are_removed_and_inserted(
    db: Database, recorder: Recorder[Diff[Any]]
) -> None:
    db.observe("SELECT name FROM items WHERE id < 2 ORDER BY id").diffs().subscribe(recorder)
    db["items"].update(1, {"name": "new"})
    assert recorder.last.steps == (Remove(1, {"name": "n1"}), Insert(1, {"name": "new"}))


def test_applying_every_diff_follows_the_query(db: Database) -> None:
    shown: list[Any] = []

    def follow(difference: Diff[Any]) -> None:
        shown[:] = difference.apply(shown)

    query = db.observe("SELECT * FROM items WHERE rank % 3 = 0 ORDER BY name DESC LIMIT 20")
    query.diffs().subscribe(follow)
    for statement in (
        "UPDATE items SET rank = rank + 1",
        "DELETE FROM items WHERE id % 2",
        "UPDATE items SET name = 'same'",
        "INSERT INTO items SELECT id + 5000, 'z', 0 FROM items",
        "DELETE FROM items",
    ):
        db.execute(statement)
        assert shown == query.peek()
    assert shown == []


def test_a_reader_that_changes_a_row_does_not_disturb_the_next_diff(
    db: Database, recorder: Recorder[Diff[Any]]
) -> None:
    query = db["items"].observe({"id": 1})
    query.diffs().subscribe(recorder)
    query.peek()[0]["name"] = "scribbled"
    db["items"].update(1, {"name": "new"})
    (step,) = recorder.last.steps
    assert isinstance(step, Update)
    assert step.old["name"] == "n1"


def test_diffs_of_a_value_that_is_no_list_is_an_error(
    db: Database, recorder: Recorder[Diff[Any]]
) -> None:
    db.observe_value("SELECT 1").diffs().subscribe(recorder, recorder.on_error)
    assert isinstance(recorder.errors[0], TypeError)
