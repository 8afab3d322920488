"""`db.triggers`: handlers that changes of the database call, each change at least once."""

from __future__ import annotations

import builtins
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Literal, TypeVar

from reactivex.abc import DisposableBase

from reactive_sqlite.arguments import shown
from reactive_sqlite.dialect import locked_elsewhere, sqlite3
from reactive_sqlite.errors import DatabaseClosed
from reactive_sqlite.observation import ObservableQuery
from smithers.deliveries import RECHECK, Call, Failed, Outcome, Parameters, Registration
from smithers.records import DeadLetter, Transition, Trigger
from smithers.registry import ANY, Registry, check_callable, is_async
from smithers.storage.reports import Reports
from smithers.workspace import Workspace

H = TypeVar("H", bound=Callable[[Any], Any])


class Triggers:
    """Change-driven triggers: what has changed calls a handler, also when nothing ran meanwhile.

    A trigger has a name, under which the file keeps how far it has come. Every change is handled at
    least once, in commit order: twice where a process dies between the end of the handler and the
    note of it. Of several processes with a trigger of one name one handles it; another takes it
    over when that one ends, closes the database or is done delivering.

    A handler that raises is called again after 1, 2, 4, … seconds, at most 5 minutes, while later
    changes of its trigger wait and other triggers go on. After `retries` such calls the change is
    set aside as dead, with the error, until somebody asks for a `retry`.

    Handlers are called by `deliver` and by what delivers for ever, with no lock held and in no
    transaction: they may write, also to what they are triggered by, which is then due again.

    >>> @db.triggers.on("phase", to="review", name="review-starts")
    ... def start_review(transition):
    ...     print(transition.previous_value, "->", transition.value)
    >>> db.state.set("phase", "review")
    >>> db.triggers.deliver()
    implement -> review
    1
    """

    def __init__(self, workspace: Workspace, reports: Reports) -> None:
        self.registry = Registry(workspace, reports)

    def on(
        self,
        key: str,
        *,
        to: Any = ANY,
        when: Callable[[Transition], Any] | None = None,
        name: str,
        start: Literal["now", "beginning"] = "now",
        retries: int = 5,
    ) -> Callable[[H], H]:
        """Call the decorated handler with each transition of a key.

        Only those that set the key to `to`, where it is given (`1`, `1.0` and `True` differ, and a
        deletion is no value), and for which `when` is true. A new trigger begins with the changes
        after this call, or with the oldest that history has kept (`start="beginning"`); a known one
        goes on where it was.

        Raises ValueError for a second handler of a name, TypeError for an asynchronous handler of
        a synchronous database, ReadOnly. On an asynchronous database what can only be found out in
        the file is raised by the next `deliver`.

        >>> @db.triggers.on("deploy", to="requested", name="deployer", start="beginning")
        ... def deploy(transition): ...
        """
        make = self.registry.on_key(key, to=to, when=when, name=name, start=start, retries=retries)

        def decorate(handler: H) -> H:
            self._add(make(handler))
            return handler

        return decorate

    def on_query(
        self, sql: str, params: Parameters = (), *, name: str, retries: int = 5
    ) -> Callable[[H], H]:
        """Call the decorated handler with the rows of a query when they have changed.

        That is: when they differ, by value, type and order, from those that were last handled under
        this name. A new trigger has handled no rows, so it is called for those that are there.
        Answers in between may be left out. Parameters as of `db.query`.

        Raises what `on` does, ValueError for a statement that writes, and SQLite's errors.

        >>> @db.triggers.on_query("SELECT id FROM tickets WHERE open", name="tickets")
        ... def look(rows): ...
        """
        make = self.registry.on_query(sql, params, name=name, retries=retries)

        def decorate(handler: H) -> H:
            self._add(make(handler))
            return handler

        return decorate

    def deliver(self) -> int:
        """Handle what is due now; return how many changes were handled.

        The keys that handlers set are left to the next call, what failed to a later one. Triggers
        that another process handles are passed over. Raises InTransaction inside a transaction,
        ReadOnly, and no error of a handler: those are in `list` and in `dead`.

        >>> while db.triggers.deliver():
        ...     pass
        """
        self.registry.check_deliverable()
        self.registry.check_refused()
        until = self.registry.rows.newest()
        return sum(self._deliver(trigger, until)[0] for trigger in self.registry.all())

    def run_forever(self) -> None:
        """Handle changes as they are made, in whatever process; return at `close` or Ctrl-C.

        One trigger after the other, in this thread. They are this handle's until it returns.

        >>> db.triggers.run_forever()
        """
        self.registry.check_deliverable()
        changed = threading.Event()
        followed: dict[str, DisposableBase] = {}
        with suppress(DatabaseClosed, KeyboardInterrupt), self.registry.listening(changed.set):
            try:
                self._follow("", self.registry.rows.observe_signals, followed, changed)
                while not self.registry.closed:
                    changed.clear()
                    changed.wait(self._round(followed, changed))
            finally:
                for subscription in list(followed.values()):
                    subscription.dispose()
                self._give_back()

    def list(self, *, limit: int | None = None) -> builtins.list[Trigger]:
        """List the triggers that the file knows, by name, whoever has handlers for them.

        At most `limit` of them; `limit=None` lists all.

        >>> [(trigger.name, trigger.state) for trigger in db.triggers.list()]
        [('review-starts', 'idle')]
        """
        return self.registry.rows.list(limit)

    def dead(
        self, name: str | None = None, *, limit: int | None = None
    ) -> builtins.list[DeadLetter]:
        """List what was set aside, oldest first; `name` narrows it to one trigger.

        At most `limit` of them; `limit=None` lists all.

        >>> [letter.error.splitlines()[0] for letter in db.triggers.dead("deployer")]
        ['ConnectionError: no route to host']
        """
        return self.registry.rows.dead(name, limit)

    def retry(self, name: str) -> int:
        """Have all that was set aside of a trigger handled again; return how many that are.

        They come before what else is due, in their order, each with all its retries. What waits
        for its next attempt is tried at once. Of a query the handler is called with its rows as
        they are then. Raises NotFound.

        >>> db.triggers.retry("deployer")
        1
        """
        return self.registry.rows.retry(name)

    def drop(self, name: str) -> bool:
        """Forget a trigger, how far it has come and its dead letters; False for an unknown one.

        For one that no program has a handler for any more: the changes that it has not handled
        are kept from being pruned. One that is handled somewhere begins anew there.

        >>> db.triggers.drop("deployer")
        True
        """
        return self.registry.rows.drop(name)

    def _add(self, trigger: Registration) -> None:
        if is_async(trigger.handler):
            raise TypeError(
                f"the handler of {shown(trigger.name)} is asynchronous, and this database is not: "
                "use create_async_smithers_db"
            )
        check_callable(trigger.handler, "a handler")
        self.registry.add(trigger)
        self.registry.register(trigger)

    def _round(self, followed: dict[str, DisposableBase], changed: threading.Event) -> float | None:
        """Deliver once to each trigger; return after how many seconds to do it again, at most."""
        pauses: builtins.list[float] = []
        for trigger in self.registry.all():
            if trigger.name not in followed:
                observe = partial(self.registry.observe, trigger)
                self._follow(trigger.name, observe, followed, changed)
            try:
                _, pause = self._deliver(trigger)
            except sqlite3.OperationalError as error:
                if not locked_elsewhere(error):
                    raise
                pause = RECHECK
            if pause is not None:
                pauses.append(pause)
        return min(pauses, default=None)

    def _deliver(self, trigger: Registration, until: int | None = None) -> tuple[int, float | None]:
        """Deliver to one trigger: for ever, which keeps it, or until some transition."""
        registry = self.registry
        if not registry.enter(trigger.name):
            return 0, RECHECK
        try:
            delivery = registry.delivery(trigger, until)
            try:
                call = delivery.next()
                while call is not None:
                    call = delivery.next(_outcome(call))
                return delivery.count, delivery.pause
            finally:
                delivery.close()
                if until is not None:
                    registry.claims.release(trigger.name)
        finally:
            registry.leave(trigger.name)

    def _follow(
        self,
        name: str,
        observe: Callable[[], ObservableQuery[Any]],
        followed: dict[str, DisposableBase],
        changed: threading.Event,
    ) -> None:
        def ended(_: Exception) -> None:
            # Followed anew with the next round: the table it reads may be back by then.
            followed.pop(name, None)
            changed.set()

        subscription = observe().subscribe(lambda _: changed.set(), ended, changed.set)
        followed[name] = subscription

    def _give_back(self) -> None:
        if self.registry.closed:
            return
        for trigger in self.registry.all():
            self.registry.claims.release(trigger.name)


def _outcome(call: Call) -> Outcome:
    """Call a handler on this thread, in a context that nothing it starts outlives."""
    context = copy_context()
    try:
        if not call.wanted(context):
            return "skipped"
        answer = call.begin(context)
        if inspect.isawaitable(answer):
            close = getattr(answer, "close", None)
            if close is not None:
                close()  # or Python would complain that nobody has awaited it
            raise TypeError(
                f"the handler of {shown(call.trigger.name)} has returned something to be awaited, "
                "and this database is synchronous"
            )
    except Exception as error:
        return Failed(error)
    return "handled"
