"""The triggers that one handle has handlers for: checked, known in the file, handled one by one."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from reactive_sqlite.arguments import check_parameters, is_one_of, shown
from reactive_sqlite.errors import DatabaseClosed
from reactive_sqlite.observation import ObservableQuery
from smithers.answers import EMPTY, QueryDelivery
from smithers.codec import check_key, check_text, encode
from smithers.deliveries import Delivery, KeyDelivery, Parameters, Registration
from smithers.errors import InTransaction
from smithers.storage.claims import Claims
from smithers.storage.reports import Reports
from smithers.storage.triggers import TriggerRows
from smithers.workspace import Workspace


class AnyValue:
    """The type of `ANY`, which stands for whatever a key is set to, and for its deletion."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ANY"


ANY = AnyValue()
Handler = Callable[[Any], Any]


class Registry:
    """Shared by both colours of `db.triggers`.

    Attributes:
        rows: the tables of triggers.
        claims: which of them this handle handles now.
        closed: whether the handle was closed.
    """

    def __init__(self, workspace: Workspace, reports: Reports) -> None:
        self.rows = TriggerRows(workspace)
        self.claims = Claims(workspace)
        self.closed = False
        self._workspace = workspace
        self._database = workspace.database
        self._reports = reports
        self._lock = threading.Lock()
        self._known: dict[str, Registration] = {}
        self._refused: list[Exception] = []
        self._busy: set[str] = set()
        self._listeners: list[Callable[[], object]] = []

    # -- what there is to handle -----------------------------------------------------------------

    def on_key(
        self,
        key: str,
        *,
        to: Any,
        when: Callable[[Any], Any] | None,
        name: str,
        start: str,
        retries: int,
    ) -> Callable[[Handler], Registration]:
        """Check a trigger on a key; its handler makes it whole."""
        check_key(key)
        name = self._checked(name, retries)
        if not is_one_of(start, ("now", "beginning")):
            raise ValueError(f'start is "now" or "beginning", not {shown(start)}')
        if when is not None:
            check_callable(when, "when")
            if is_async(when):
                raise TypeError(f"when is a plain function of a transition, not {shown(when)}")
        text = None if to is ANY else encode(to, name=f"`to` of trigger {shown(name)}")
        return lambda handler: Registration(
            name=name,
            handler=handler,
            retries=retries,
            key=key,
            to=text,
            when=when,
            beginning=start == "beginning",
        )

    def on_query(
        self, sql: str, params: Parameters, *, name: str, retries: int
    ) -> Callable[[Handler], Registration]:
        """Check a trigger on a query; its handler makes it whole."""
        check_text(sql, "the SQL of a trigger")
        name = self._checked(name, retries)
        check_parameters(params)
        kept = dict(params) if isinstance(params, Mapping) else tuple(params)
        return lambda handler: Registration(
            name=name, handler=handler, retries=retries, sql=sql, params=kept
        )

    def add(self, trigger: Registration) -> None:
        """Have a trigger handled here; ValueError for a second one of its name."""
        with self._lock:
            self._refuse_second(trigger.name)
            self._known[trigger.name] = trigger

    def register(self, trigger: Registration) -> None:
        """Know a trigger in the file, from which on it misses nothing."""
        try:
            if trigger.sql is not None:
                self._reports.check(trigger.sql, trigger.params)
                self._reports.observe(trigger.sql, trigger.params)  # refuses what is no query
            self._write(trigger)
        except BaseException:
            self.remove(trigger.name)
            raise
        self.wake()

    def register_later(self, trigger: Registration) -> None:
        """Register, where nobody awaits it: an error is raised by the next `check_refused`."""
        try:
            self.register(trigger)
        except Exception as error:
            self._refused.append(error)
            self.wake()

    def check_refused(self) -> None:
        """Raise what went wrong when a trigger was registered and nobody awaited it."""
        if self._refused:
            raise self._refused.pop(0)

    def remove(self, name: str) -> None:
        """Have a trigger handled here no longer."""
        with self._lock:
            self._known.pop(name, None)

    def all(self) -> list[Registration]:
        """List the triggers in the order of their registration."""
        with self._lock:
            return list(self._known.values())

    # -- handling it -------------------------------------------------------------------------------

    def check_deliverable(self) -> None:
        """Raise unless handlers may be called here and what becomes of it can be written."""
        if self._database.closed:
            raise DatabaseClosed("the database is closed")
        self._workspace.check_writable("deliver to triggers")
        if self._database.conn.owned_here():
            raise InTransaction("deliver to triggers")

    def enter(self, name: str) -> bool:
        """Begin to handle a trigger; False while another thread or task of this handle does."""
        with self._lock:
            if name in self._busy:
                return False
            self._busy.add(name)
            return True

    def leave(self, name: str) -> None:
        """Be done with it for now."""
        with self._lock:
            self._busy.discard(name)

    def delivery(self, trigger: Registration, until: int | None) -> Delivery:
        """Begin a delivery of a trigger that was entered: of all that is due (None) or until."""
        register = partial(self._write, trigger)
        now = self._workspace.now
        if trigger.sql is None:
            return KeyDelivery(trigger, self.rows, self.claims, now, register, until)
        ask = partial(self._reports.query, trigger.sql, trigger.params)
        return QueryDelivery(trigger, self.rows, self.claims, now, register, ask)

    # -- when to look again ------------------------------------------------------------------------

    def observe(self, trigger: Registration) -> ObservableQuery[Any]:
        """Observe what makes a trigger due."""
        if trigger.key is not None:
            return self.rows.observe_key(trigger.key)
        assert trigger.sql is not None
        return self._reports.observe(trigger.sql, trigger.params)

    @contextmanager
    def listening(self, listener: Callable[[], object]) -> Generator[None]:
        """Call a function, on any thread, when there are other triggers, and at the close."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def wake(self) -> None:
        """Call the listeners."""
        for listener in list(self._listeners):
            listener()

    def shut(self) -> None:
        """Have whoever delivers for ever come to an end."""
        self.closed = True
        self.wake()

    def let_go(self) -> None:
        """Let others handle the triggers."""
        self.claims.release_all()

    def _checked(self, name: str, retries: object) -> str:
        check_text(name, "the name of a trigger")
        if type(retries) is not int or not 0 <= retries < 2**31:
            raise ValueError(f"retries is a number of attempts from 0 up, not {shown(retries)}")
        if self._database.closed:
            raise DatabaseClosed("the database is closed")
        self._workspace.check_writable(f"register trigger {shown(name)}")
        name = str.__str__(name)
        with self._lock:
            self._refuse_second(name)
        return name

    def _refuse_second(self, name: str) -> None:
        if name in self._known:
            raise ValueError(f"trigger {shown(name)} has a handler already")

    def _write(self, trigger: Registration) -> None:
        self.rows.register(
            trigger.name,
            trigger.key,
            trigger.sql,
            beginning=trigger.beginning,
            handled=None if trigger.sql is None else EMPTY,
        )


def check_callable(function: object, name: str) -> None:
    """Refuse what cannot be called."""
    if not callable(function):
        raise TypeError(f"{name} is a function of what has changed, not {shown(function)}")


def is_async(function: object) -> bool:
    """Tell whether calling a function gives something to be awaited."""
    while isinstance(function, partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004  (its kind is asked for)
    return any(
        inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one)
        for one in (function, call)
    )
