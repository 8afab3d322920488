"""The values of the state: read, written, observed, and held in sync with a signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from reactive_sqlite.arguments import check_callable
from reactive_sqlite.observation import ObservableQuery
from smithers.accessor import Accessor
from smithers.cells import checked
from smithers.clock import from_text
from smithers.codec import check_key, check_trigger, decode, encoded
from smithers.journal import Change, Journal
from smithers.records import StateEntry, Transition

_ENTRY = "SELECT key, value, updated_at FROM state WHERE key = ?"
_ENTRIES = "SELECT key, value, updated_at FROM state ORDER BY key"
_ALL = "SELECT key, value FROM state ORDER BY key"
_KEYS = "SELECT key FROM state ORDER BY key"
_HAS = "SELECT 1 FROM state WHERE key = ?"


class SetState(Protocol):
    """The setter of `signal`: write a value, or what a function makes of the present one."""

    def __call__(self, value: Any, trigger: str | None = None) -> Transition: ...


class StateStore:
    """Key-value state, persistent and shared by every process that opens the database.

    Values are JSON (see `smithers.codec` for what else is taken), keys are text of 1 to 1,024
    characters. Every call takes part in the transaction under way on its thread. A key outside
    the rule or a value that is not JSON raises ValueError or TypeError before anything is written;
    a write with `read_only=True` raises ReadOnly.

    >>> db.state.set("phase", "review", trigger="tests_passed")
    Transition(id='t1', ...)
    >>> db.state.get("phase")
    'review'
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._database = journal.database

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default` when it is absent.

        A stored None is None: ask `has` where that matters.

        >>> db.state.get("attempts", 0)
        0
        """
        check_key(key)
        text = self._journal.text(key)
        return default if text is None else decode(text, name="state", key=key)

    def has(self, key: str) -> bool:
        """Tell whether a key is present.

        >>> db.state.has("phase")
        True
        """
        check_key(key)
        return self._database.conn.execute(_HAS, (key,)).fetchone() is not None

    def keys(self) -> list[str]:
        """List the keys, sorted.

        >>> db.state.keys()
        ['attempts', 'phase']
        """
        return [key for (key,) in self._database.conn.execute(_KEYS)]

    def entry(self, key: str) -> StateEntry | None:
        """Return a key's value and the time of its last change, or None when it is absent.

        >>> db.state.entry("phase").updated_at
        datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.timezone.utc)
        """
        check_key(key)
        row = self._database.conn.execute(_ENTRY, (key,)).fetchone()
        return None if row is None else _entry(row)

    def entries(self) -> list[StateEntry]:
        """List every key with its value and the time of its last change, sorted by key.

        >>> [entry.key for entry in db.state.entries()]
        ['attempts', 'phase']
        """
        return [_entry(row) for row in self._database.conn.execute(_ENTRIES)]

    def get_all(self) -> dict[str, Any]:
        """Return the whole state, sorted by key; `{}` in a fresh database.

        >>> db.state.get_all()
        {'attempts': 3, 'phase': 'review'}
        """
        return _whole(self._database.conn.execute(_ALL))

    def set(self, key: str, value: Any, trigger: str | None = None) -> Transition:
        """Store a value, and its transition with it, in one commit.

        An equal value is recorded like any other. `trigger` says in history what caused it.

        >>> db.state.set("phase", "done", trigger="tests_passed").previous_value
        'review'
        """
        check_key(key)
        check_trigger(trigger)
        text, plain = encoded(value, name="state", key=key)
        return self._journal.record(key, text, plain, trigger)

    def set_many(self, values: Mapping[str, Any], trigger: str | None = None) -> list[Transition]:
        """Store several values: all or none, one commit, one notification.

        >>> db.state.set_many({"phase": "review", "reviewer": "ada"}, "implemented")
        [Transition(id='t1', ...), Transition(id='t2', ...)]
        """
        check_trigger(trigger)
        return self._journal.record_all(_changes(values, "values"), trigger)

    def update(
        self,
        key: str,
        fn: Callable[[Any], Any],
        default: Any = None,
        trigger: str | None = None,
    ) -> Transition:
        """Store `fn(present value)`, atomically across threads and processes.

        `fn` is called once, inside the transaction, with `default` when the key is absent; other
        writers wait meanwhile. When it raises, nothing is written.

        >>> db.state.update("attempts", lambda n: n + 1, default=0).value
        1
        """
        check_key(key)
        check_callable(fn, "fn")
        check_trigger(trigger)
        self._journal.check_writable("change state", key)
        with self._database.transaction():
            text, plain = encoded(fn(self.get(key, default)), name="state", key=key)
            return self._journal.record(key, text, plain, trigger)

    def delete(self, key: str, trigger: str | None = None) -> Transition | None:
        """Remove a key, recorded so that it can be undone; None when it was absent.

        >>> db.state.delete("reviewer").deleted
        True
        """
        check_key(key)
        check_trigger(trigger)
        self._journal.check_writable("delete state", key)
        with self._database.transaction():
            return self._journal.record(key, None, None, trigger) if self.has(key) else None

    def reset(self, trigger: str | None = "reset") -> list[Transition]:
        """Remove every key in one commit; history keeps each, so `replay_to` can undo it.

        >>> [transition.key for transition in db.state.reset()]
        ['attempts', 'phase']
        """
        check_trigger(trigger)
        return self._journal.become([], trigger)

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state as a dict, to be given to `restore`.

        >>> before = db.state.snapshot()
        """
        return self.get_all()

    def restore(
        self, snapshot: Mapping[str, Any], trigger: str | None = "restore"
    ) -> list[Transition]:
        """Make the state exactly what a snapshot says, in one commit.

        Keys that the snapshot lacks are removed; only real differences are recorded.

        >>> db.state.restore(before, "error_rollback")
        [Transition(id='t9', ...)]
        """
        check_trigger(trigger)
        return self._journal.become(_changes(snapshot, "snapshot"), trigger)

    def observe(self, key: str, default: Any = None) -> ObservableQuery[Any]:
        """Observe the value of a key, `default` while it is absent.

        Nothing is fetched for a commit that leaves this key alone.

        >>> db.state.observe("phase").subscribe(print)
        review
        """
        check_key(key)

        return self._journal.observe(key).decoded(
            lambda text: default if text is None else decode(text, name="state", key=key)
        )

    def observe_all(self) -> ObservableQuery[dict[str, Any]]:
        """Observe the whole state as a dict, sorted by key.

        >>> db.state.observe_all().subscribe(print)
        {'attempts': 3, 'phase': 'review'}
        """
        rows = self._database.table("state").observe(order_by="key", select="key, value")
        return rows.decoded(lambda found: _whole((row["key"], row["value"]) for row in found))

    def signal(self, key: str, default: Any = None) -> tuple[ObservableQuery[Any], SetState]:
        """Return a Solid-style pair that is kept in sync with the row both ways.

        `get()` subscribes the running memo or effect and follows writes from anywhere;
        `set(value, trigger=None)` writes through, `set(fn)` by `update`. The default is not
        written. The pair keeps the value current until its owner is disposed, it is collected or
        the database closes. Inside a transaction `get()` gives the last committed value.

        >>> phase, set_phase = db.state.signal("phase", "start")
        >>> set_phase("done", trigger="agent_finished").value
        'done'
        >>> phase()
        'done'
        """
        get = Accessor(self.observe(key, default))

        def set_state(value: Any, trigger: str | None = None) -> Transition:
            if callable(value):
                return self.update(key, value, default, trigger)
            return self.set(key, value, trigger)

        return get, set_state


def _changes(values: object, name: str) -> list[Change]:
    """Encode every value, so that one that is refused leaves all unwritten."""
    if not isinstance(values, Mapping):
        raise TypeError(f"{name} is a mapping of keys to values, not {type(values).__name__}")
    changes: list[Change] = []
    for key, value in cast("Mapping[str, Any]", values).items():
        check_key(key)
        text, plain = encoded(value, name="state", key=key)
        changes.append(Change(key, text, plain))
    return changes


def _entry(row: tuple[str, str, str]) -> StateEntry:
    key, value, updated_at = row
    return checked(StateEntry(key, decode(value, name="state", key=key), from_text(updated_at)))


def _whole(rows: Any) -> dict[str, Any]:
    return {key: decode(value, name="state", key=key) for key, value in rows}
