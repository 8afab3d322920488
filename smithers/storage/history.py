"""The history of the state: read it, go back in it, follow it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase

from reactive_sqlite.arguments import shown
from reactive_sqlite.observation import ObservableQuery
from smithers.codec import check_key, decode
from smithers.errors import TransitionNotFound
from smithers.ids import transition_id, transition_seq
from smithers.journal import COLUMNS, Change, Journal, readable, to_transition
from smithers.records import Transition

_NEWEST = f"""
    SELECT {COLUMNS} FROM (
        SELECT {COLUMNS} FROM transitions
        WHERE seq > :since AND seq < :before {{key}}
        ORDER BY seq DESC LIMIT :limit
    ) ORDER BY seq
"""
_OLDEST = f"""
    SELECT {COLUMNS} FROM transitions
    WHERE seq > :since AND seq <= :until {{key}}
    ORDER BY seq LIMIT :limit
"""
_OF_KEY = "AND key = :key"
_COMMIT_OF = 'SELECT "commit" FROM transitions WHERE seq = ?'
_LAST_OF_COMMIT = """
    SELECT coalesce(
        (SELECT seq - 1 FROM transitions WHERE seq > :seq AND "commit" <> :commit
         ORDER BY seq LIMIT 1),
        (SELECT max(seq) FROM transitions)
    )
"""
# From key to key along the index, since there are far more transitions than keys. What pruned
# transitions said of a key stands in the baseline.
_AT = """
    WITH RECURSIVE keys (key) AS (
        SELECT min(key) FROM transitions
        UNION ALL
        SELECT (
            SELECT later.key FROM transitions AS later
            WHERE later.key > keys.key ORDER BY later.key LIMIT 1
        ) FROM keys WHERE key IS NOT NULL
    )
    SELECT newest.key, newest.value FROM keys JOIN transitions AS newest
    ON newest.seq = (SELECT max(seq) FROM transitions WHERE key = keys.key AND seq <= :seq)
    WHERE newest.deleted = 0
    UNION ALL
    SELECT key, value FROM _smithers_baseline AS pruned WHERE NOT EXISTS (
        SELECT 1 FROM transitions WHERE key = pruned.key AND seq <= :seq
    )
    ORDER BY key
"""
_LAST = "SELECT coalesce(max(seq), 0) FROM transitions"
_FAR = 2**63 - 1
# Rows read at a time by a follower that has fallen behind.
_PAGE = 500


class StateHistory:
    """What happened to the state, oldest first, in commit order.

    Shares `db.state` with the values. Transitions are only ever added, until `db.prune` removes
    the oldest.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._database = journal.database

    def history(
        self,
        key: str | None = None,
        limit: int | None = 100,
        *,
        before: str | int | None = None,
        since: str | int | None = None,
    ) -> list[Transition]:
        """Return the newest `limit` transitions (None: all), oldest first.

        `key` narrows them to one key; `before` and `since` are exclusive ids.

        >>> [(t.id, t.value, t.trigger) for t in db.state.history("phase")]
        [('t1', 'start', 'init'), ('t2', 'review', 'tests_passed')]
        """
        if key is not None:
            check_key(key)
        if limit is not None and (type(limit) is not int or not 0 <= limit < 2**63):
            raise ValueError(
                f"limit is a number of transitions from 0 up, or None, not {shown(limit)}"
            )
        sql = _NEWEST.format(key="" if key is None else _OF_KEY)
        values = {
            "key": key,
            "since": 0 if since is None else transition_seq(since, "since"),
            "before": _FAR if before is None else transition_seq(before, "before"),
            "limit": -1 if limit is None else limit,
        }
        return [to_transition(row) for row in self._database.conn.execute(sql, values)]

    def state_at(self, id: str | int) -> dict[str, Any]:
        """Return the whole state as it was after the commit that wrote a transition.

        Raises TransitionNotFound for an unknown id.

        >>> db.state.state_at("t1")
        {'phase': 'start'}
        """
        return {key: decode(text, name="state", key=key) for key, text in self._texts_at(id)}

    def replay_to(self, id: str | int) -> list[Transition]:
        """Make the whole state what it was after the commit that wrote a transition.

        One commit, recorded as new transitions with the trigger `replay:<id>`, so that a replay
        can be undone by another. Keys that were absent then are removed. Raises
        TransitionNotFound, and changes nothing, for an unknown id.

        >>> db.state.replay_to("t1")
        [Transition(id='t3', ..., trigger='replay:t1', ...)]
        """
        self._journal.check_writable(f"replay to {shown(id)}")
        seq = transition_seq(id)
        with self._database.transaction():
            then = [Change(key, text, readable(text, key)) for key, text in self._texts_at(id)]
            return self._journal.become(then, f"replay:{transition_id(seq)}")

    def transitions(self, key: str | None = None) -> Observable[Transition]:
        """Observe every transition from now on, as it commits, in any process, in order.

        Unlike `observe`, which may merge commits, this misses none and repeats none.

        >>> db.state.transitions("phase").subscribe(lambda t: print(t.trigger, t.value))
        """
        if key is not None:
            check_key(key)
        return TransitionStream(self._newest(key), self._pages(key), self._committed)

    def transitions_ahead(self, key: str | None = None) -> Observable[Transition]:
        """Observe transitions as `transitions` does, read by the thread that commits them.

        So the thread that observers are called on, an event loop's, never waits for the database.
        """
        if key is not None:
            check_key(key)
        return TransitionStream(self._newest(key), self._pages(key), self._committed, ahead=True)

    def _newest(self, key: str | None) -> ObservableQuery[int]:
        where = None if key is None else {"key": key}
        newest = self._database.table("transitions").observe(
            where, select="seq", order_by="seq DESC", limit=1
        )
        return newest.decoded(lambda rows: rows[0]["seq"] if rows else 0)

    def _texts_at(self, id: str | int) -> list[tuple[str, str]]:
        seq = transition_seq(id)
        found = self._database.conn.execute(_COMMIT_OF, (seq,)).fetchone()
        if found is None:
            raise TransitionNotFound(id)
        last = self._database.conn.execute(_LAST_OF_COMMIT, {"seq": seq, "commit": found[0]})
        end = {"seq": last.fetchone()[0]}
        texts: list[tuple[str, str]] = self._database.conn.execute(_AT, end).fetchall()
        return texts

    def _committed(self) -> int:
        """Tell the newest `seq` outside the transaction under way on this thread."""
        last: int = self._database.conn.execute(_LAST).fetchone()[0]
        commit = self._database.commit_number
        return last if commit is None else min(last, commit - 1)

    def _pages(self, key: str | None) -> Pages:
        sql = _OLDEST.format(key="" if key is None else _OF_KEY)
        connection = self._database.conn

        def page(since: int, until: int, *, locked: bool = False) -> list[Transition]:
            values = {"key": key, "since": since, "until": until, "limit": _PAGE}
            rows = connection.raw(sql, values) if locked else connection.execute(sql, values)
            return [to_transition(row) for row in rows]

        return page


class Pages(Protocol):
    """Reads transitions after one `seq` up to another, a page at most.

    `locked` says that the thread is inside a delivery, holding the connection.
    """

    def __call__(self, since: int, until: int, *, locked: bool = ...) -> list[Transition]: ...


class TransitionStream(Observable[Transition]):
    """Every transition from the subscription on, read from history whenever it has grown."""

    def __init__(
        self,
        newest: ObservableQuery[int],
        page: Pages,
        committed: Callable[[], int],
        *,
        ahead: bool = False,
    ) -> None:
        super().__init__()
        self._newest = newest
        self._page = page
        self._committed = committed
        self._ahead = ahead

    def subscribe(
        self,
        on_next: ObserverBase[Transition] | Callable[[Transition], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
        on_completed: Callable[[], None] | None = None,
        *,
        scheduler: SchedulerBase | None = None,
    ) -> DisposableBase:
        """Call `on_next` with every transition from now on, `on_completed` at the close.

        Inside a transaction, "now" is its beginning. What `on_next` raises goes to `on_error`,
        else to the database's `on_observer_error`, and the next transition is told all the same.
        """
        tell = cast("Callable[[Transition], None]", on_next or _ignored)
        if hasattr(on_next, "on_next"):
            observer = cast("ObserverBase[Transition]", on_next)
            tell, on_error, on_completed = (
                observer.on_next,
                observer.on_error,
                observer.on_completed,
            )
        follower = _Follower(self._page, self._committed(), tell)
        if self._ahead:
            newest = self._newest.decoded(follower.read_ahead)
            return newest.subscribe(follower.catch_up, on_error, on_completed, scheduler=scheduler)
        return self._newest.subscribe(follower.advance, on_error, on_completed, scheduler=scheduler)


class _Follower:
    """How far one subscriber has come in history; called by one delivery at a time."""

    def __init__(self, page: Pages, cursor: int, on_next: Callable[[Transition], None]) -> None:
        self._page = page
        self._cursor = cursor
        self._on_next = on_next
        self._waiting: deque[Transition] = deque()  # read ahead, and not told yet

    def advance(self, newest: int) -> None:
        """Read and tell what is new."""
        # Less at first, subscribed inside a transaction that was rolled back: its numbers are given
        # again. And less when all has been pruned, which nothing will be given again of.
        self._cursor = min(self._cursor, newest)
        errors: list[Exception] = []
        while self._cursor < newest:
            page = self._page(self._cursor, newest)
            for transition in page:
                self._cursor = transition.seq
                self._tell(transition, errors)
            if len(page) < _PAGE:
                self._cursor = newest
        _raise(errors)

    def read_ahead(self, newest: int) -> int:
        """Read what is new, to be told by `catch_up`; called with the connection held."""
        while self._cursor < newest:
            page = self._page(self._cursor, newest, locked=True)
            self._waiting.extend(page)
            self._cursor = page[-1].seq if len(page) == _PAGE else newest
        return newest

    def catch_up(self, _: int) -> None:
        """Tell what has been read ahead."""
        errors: list[Exception] = []
        while self._waiting:
            self._tell(self._waiting.popleft(), errors)
        _raise(errors)

    def _tell(self, transition: Transition, errors: list[Exception]) -> None:
        try:
            self._on_next(transition)
        except Exception as error:
            errors.append(error)


def _raise(errors: list[Exception]) -> None:
    if errors:
        raise errors[0] if len(errors) == 1 else ExceptionGroup("several calls failed", errors)


def _ignored(_: Transition) -> None:
    """Take a transition that nobody asked for."""
