"""The whole state API against a dict and a list, with other programs writing in between."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from reactive_sqlite import sqlite3
from smithers import SmithersDB, Transition, TransitionNotFound, create_smithers_db
from smithers.codec import encode
from tests.recorder import Recorder

VALUES: list[Any] = [None, 0, 1, True, 1.0, "x", "", [1, {"k": []}], {"b": 1, "a": 2}]

keys = st.sampled_from(["a", "b", "c", "ü'"])
values: st.SearchStrategy[Any] = st.sampled_from(VALUES)
triggers = st.none() | st.sampled_from(["t", ""])


class StateModel(RuleBasedStateMachine):
    """`state` is what should be there, `commits` all transitions with the state after each commit.

    A transition is kept as (key, previous, value, deleted, trigger), a value as JSON text, so that
    1, 1.0 and True differ.
    """

    db: SmithersDB
    plain: sqlite3.Connection

    @initialize()
    def begin(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.state: dict[str, str] = {}
        self.commits: list[tuple[list[tuple[Any, ...]], dict[str, str]]] = []
        self.snapshots: list[dict[str, Any]] = []
        self.open()

    def open(self) -> None:
        self.db = create_smithers_db(Path(self.directory.name), watch=False)
        self.plain = sqlite3.connect(Path(self.directory.name) / "db.sqlite", isolation_level=None)
        self.told: Recorder[Transition] = Recorder()
        self.wholes: Recorder[dict[str, Any]] = Recorder()
        self.opened_at = self.count
        self.db.state.transitions().subscribe(self.told)
        self.db.state.observe_all().subscribe(self.wholes)

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.plain.close()
            self.db.close()
            self.directory.cleanup()

    @property
    def count(self) -> int:
        return sum(len(written) for written, _ in self.commits)

    def commit(self, *changes: tuple[str, str | None], trigger: str | None = None) -> None:
        """Expect one commit with these changes, None for a deletion."""
        written: list[tuple[Any, ...]] = []
        for key, text in changes:
            written.append((key, shown_before(self.state.get(key)), text, text is None, trigger))
            if text is None:
                del self.state[key]
            else:
                self.state[key] = text
        if written:
            self.commits.append((written, dict(self.state)))

    def become(self, target: dict[str, str], trigger: str) -> None:
        gone = [(key, None) for key in sorted(self.state.keys() - target.keys())]
        changed = [(key, text) for key, text in target.items() if self.state.get(key) != text]
        self.commit(*gone, *changed, trigger=trigger)

    @rule(key=keys, value=values, trigger=triggers)
    def set(self, key: str, value: Any, trigger: str | None) -> None:
        self.db.state.set(key, value, trigger)
        self.commit((key, text(value)), trigger=trigger)

    @rule(new=st.dictionaries(keys, values), trigger=triggers)
    def set_many(self, new: dict[str, Any], trigger: str | None) -> None:
        self.db.state.set_many(new, trigger)
        self.commit(*((key, text(value)) for key, value in new.items()), trigger=trigger)

    @rule(key=keys, value=values, trigger=triggers)
    def update(self, key: str, value: Any, trigger: str | None) -> None:
        found: list[Any] = []

        def pair(old: Any) -> Any:
            found.append(old)
            return [old, value]

        self.db.state.update(key, pair, "none", trigger)
        present = self.state.get(key, text("none"))
        assert text(found) == f"[{present}]"
        self.commit((key, text([*found, value])), trigger=trigger)

    @rule(key=keys, trigger=triggers)
    def delete(self, key: str, trigger: str | None) -> None:
        deleted = self.db.state.delete(key, trigger)
        assert (deleted is None) == (key not in self.state)
        if deleted is not None:
            self.commit((key, None), trigger=trigger)

    @rule()
    def reset(self) -> None:
        self.db.state.reset()
        self.become({}, "reset")

    @rule()
    def snapshot(self) -> None:
        self.snapshots.append(self.db.state.snapshot())

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        snapshot = data.draw(st.sampled_from(self.snapshots))
        self.db.state.restore(snapshot, "back")
        self.become({key: text(value) for key, value in snapshot.items()}, "back")

    @precondition(lambda self: self.commits)
    @rule(data=st.data())
    def replay_to(self, data: st.DataObject) -> None:
        seq = data.draw(st.integers(1, self.count))
        self.db.state.replay_to(f"t{seq}")
        self.become(dict(sorted(self.after(seq).items())), f"replay:t{seq}")

    @precondition(lambda self: self.commits)
    @rule(data=st.data())
    def state_at(self, data: st.DataObject) -> None:
        seq = data.draw(st.integers(1, self.count))
        assert texts(self.db.state.state_at(seq)) == self.after(seq)

    @rule()
    def replay_to_nowhere(self) -> None:
        with pytest.raises(TransitionNotFound):
            self.db.state.replay_to(self.count + 1)

    @rule(key=keys, value=values, other=keys)
    def transaction(self, key: str, value: Any, other: str) -> None:
        with self.db.transaction():
            self.db.state.set(key, value, "one")
            self.db.database.conn.execute("UPDATE state SET value = '9' WHERE key = ?", [key])
            self.db.state.set(other, value, "two")
        before = shown_before(self.state.get(key))
        first = (key, before, text(value), False, "one")
        second = (key, shown_before(text(value)), "9", False, None)
        found = {**self.state, key: "9"}.get(other)
        third = (other, shown_before(found), text(value), False, "two")
        self.state |= {key: "9"} | {other: text(value)}
        self.commits.append(([first, second, third], dict(self.state)))

    @rule(key=keys, value=values)
    def rolled_back(self, key: str, value: Any) -> None:
        with pytest.raises(ZeroDivisionError), self.db.transaction():
            self.db.state.set(key, value)
            self.db.state.reset()
            _ = 1 / 0

    @rule(key=keys, value=values, verb=st.sampled_from(["REPLACE", "INSERT OR REPLACE"]))
    def foreign_replace(self, key: str, value: Any, verb: str) -> None:
        self.plain.execute(f"{verb} INTO state (key, value) VALUES (?, ?)", (key, text(value)))
        self.commit((key, text(value)))
        self.db.database.refresh()

    @rule(value=values)
    def foreign_update(self, value: Any) -> None:
        self.plain.execute("UPDATE state SET value = ?", (text(value),))
        self.commit(*((key, text(value)) for key in sorted(self.state)))
        self.db.database.refresh()

    @rule(key=keys, other=keys)
    def foreign_rename(self, key: str, other: str) -> None:
        self.plain.execute("UPDATE OR IGNORE state SET key = ? WHERE key = ?", (other, key))
        if key in self.state and other not in self.state:
            self.commit((key, None), (other, self.state[key]))
        elif key in self.state and key == other:
            self.commit((key, self.state[key]))
        self.db.database.refresh()

    @rule(key=keys)
    def foreign_delete(self, key: str) -> None:
        self.plain.execute("DELETE FROM state WHERE key = ?", (key,))
        if key in self.state:
            self.commit((key, None))
        self.db.database.refresh()

    @rule()
    def foreign_script(self) -> None:
        self.plain.executescript(
            "BEGIN; REPLACE INTO state (key, value) VALUES ('a', '1'), ('b', '2');"
            "DELETE FROM state WHERE key = 'a'; COMMIT;"
        )
        self.commit(("a", "1"), ("b", "2"))
        self.commit(("a", None))
        self.db.database.refresh()

    @rule()
    def reopen(self) -> None:
        self.plain.close()
        self.db.close()
        assert self.wholes.completed == self.told.completed == 1
        self.open()

    @invariant()
    def the_state_is_the_models(self) -> None:
        if not hasattr(self, "db"):
            return
        whole = self.db.state.get_all()
        assert texts(whole) == self.state
        assert list(whole) == self.db.state.keys() == sorted(self.state)
        assert text(self.wholes.last) == text(whole), "the last emission is what is there"

    @invariant()
    def history_is_the_models(self) -> None:
        if not hasattr(self, "db"):
            return
        history = self.db.state.history(limit=None)
        assert [shown(t) for t in history] == [t for written, _ in self.commits for t in written]
        assert [t.seq for t in history] == list(range(1, self.count + 1))
        starts = 1
        expected: list[int] = []
        for written, _ in self.commits:
            expected += [starts] * len(written)
            starts += len(written)
        assert [t.commit for t in history] == expected
        assert self.told.values == history[self.opened_at :], "each was told once, in order"

    def after(self, seq: int) -> dict[str, str]:
        for written, state in self.commits:
            seq -= len(written)
            if seq <= 0:
                return state
        raise AssertionError("no such transition")


def text(value: Any) -> str:
    return encode(value, name="the model")


def texts(state: dict[str, Any]) -> dict[str, str]:
    return {key: text(value) for key, value in state.items()}


def shown_before(text: str | None) -> str | None:
    """What was there before, as a transition tells it: absent and null alike are None."""
    return None if text == "null" else text


def shown(transition: Transition) -> tuple[Any, ...]:
    return (
        transition.key,
        shown_before(text(transition.previous_value)),
        None if transition.deleted else text(transition.value),
        transition.deleted,
        transition.trigger,
    )


TestStateModel = StateModel.TestCase
TestStateModel.settings = settings(
    max_examples=settings().max_examples // 4, stateful_step_count=25, deadline=None
)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_the_state_is_the_models_at_length() -> None:
    run_state_machine_as_test(
        StateModel, settings=settings(max_examples=300, stateful_step_count=25, deadline=None)
    )
