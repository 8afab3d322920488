"""One trigger's way through what is due: what to call next, and what has become of it.

Deliveries call no handler and wait for nothing: both colours of the database drive them, call what
they are given with no lock held, and say how that went.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from smithers.codec import encode, same_json
from smithers.failure import error_text
from smithers.records import Transition
from smithers.storage.claims import Claims
from smithers.storage.triggers import Letter, Standing, TriggerRows

# Seconds before the first retry; each further one waits twice as long, up to the longest.
FIRST = 1.0
LONGEST = 300.0
# Seconds after which to look again at what another process was handling.
RECHECK = 1.0

Parameters = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """What a handler, or the condition of its trigger, has raised."""

    error: BaseException


Outcome = Literal["handled", "skipped"] | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A trigger with its handler, as this program has it.

    Attributes:
        name: under which its cursor is kept.
        handler: takes a transition, of a query the rows.
        retries: attempts after the first one, before a change is set aside.
        key: whose changes it is on, None of a query.
        sql: the query, with its `params`; None of a key.
        to: the JSON text that the key has to be set to, None for any change.
        when: says of a transition whether it is to be handled.
        beginning: whether a new trigger begins with the oldest transition there is.
    """

    name: str
    handler: Callable[[Any], Any]
    retries: int
    key: str | None = None
    sql: str | None = None
    params: Parameters = ()
    to: str | None = None
    when: Callable[[Transition], Any] | None = None
    beginning: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """What a handler is to be called with."""

    trigger: Registration
    argument: Any

    def wanted(self, context: Context) -> bool:
        """Ask the condition of the trigger."""
        when = self.trigger.when
        return when is None or bool(context.run(when, self.argument))

    def begin(self, context: Context) -> Any:
        """Call the handler; return what is to be awaited, if it is asynchronous."""
        return context.run(self.trigger.handler, self.argument)


class Delivery(ABC):
    """Hands out what is due of one trigger, and keeps in the file what has become of it.

    What falls due after it has begun, or after the transition `until`, is left to the next one. Its
    methods are called by one thread at a time, outside of transactions.

    Attributes:
        count: how many changes were handled.
        pause: seconds after which something is to be tried again, None when nothing is.
    """

    def __init__(
        self,
        trigger: Registration,
        rows: TriggerRows,
        claims: Claims,
        now: Callable[[], datetime],
        register: Callable[[], None],
    ) -> None:
        self.count = 0
        self.pause: float | None = None
        self._trigger = trigger
        self._name = trigger.name
        self._rows = rows
        self._claims = claims
        self._now = now
        self._register = register
        self._standing: Standing | None = None

    def next(self, outcome: Outcome | None = None) -> Call | None:
        """Take the outcome of the call that was handed out and hand out the next, None at the end.

        Each call is handed out until its outcome is known here, by this or by a later delivery.
        """
        if self._standing is None:
            self._standing = self._begun()
        elif outcome is not None:
            self._standing = self._settled(self._standing, outcome)
        return None if self._standing is None else self._call(self._standing)

    @abstractmethod
    def close(self) -> None:
        """Keep what is known so far; called once, at the end."""

    @abstractmethod
    def _is_due(self, standing: Standing) -> bool:
        """Tell whether anything may have to be handled."""

    @abstractmethod
    def _call(self, standing: Standing) -> Call | None:
        """Return the next call, None when nothing is left to do."""

    @abstractmethod
    def _settled(self, standing: Standing, outcome: Outcome) -> Standing | None:
        """Write what has become of the last call; None ends the delivery."""

    def _begun(self) -> Standing | None:
        """Take the trigger, where something is due and nobody else handles it."""
        standing = self._rows.standing(self._name)
        if standing is None or standing.on_query != (self._trigger.sql is not None):
            self._register()  # which is refused where another program has made it another one
            standing = self._rows.standing(self._name)
        if standing is None or self._waits(standing) or not self._is_due(standing):
            return None
        if not self._claims.take(self._name):
            self.pause = RECHECK
            return None
        # From here on nobody else changes it.
        standing = self._rows.standing(self._name)
        return None if standing is None or self._waits(standing) else standing

    def _waits(self, standing: Standing) -> bool:
        if standing.next_at is None:
            return False
        pause = (standing.next_at - self._now()).total_seconds()
        letter = self._rows.requeued(self._name)
        attempts = max(standing.attempts, 0 if letter is None else letter.attempts)
        # Longer than it was to be: the clock was set back meanwhile, or is that of another process.
        if not 0 < pause <= backoff(attempts):
            return False
        self.pause = pause
        return True

    def _put_off(self, attempts: int) -> datetime:
        self.pause = backoff(attempts)
        return self._now() + timedelta(seconds=self.pause)

    def _if_ours(self, written: bool, standing: Standing) -> Standing | None:
        """Go on, unless another process has taken the trigger over."""
        if not written:
            self._claims.lose(self._name)
            self.pause = RECHECK
            return None
        return standing


class KeyDelivery(Delivery):
    """The way through the transitions of a key."""

    def __init__(
        self,
        trigger: Registration,
        rows: TriggerRows,
        claims: Claims,
        now: Callable[[], datetime],
        register: Callable[[], None],
        until: int | None,
    ) -> None:
        super().__init__(trigger, rows, claims, now, register)
        self._key = trigger.key or ""
        self._last = until
        self._until = 0
        self._page: deque[Transition] = deque()
        self._current: Transition | Letter | None = None
        self._cursor: int | None = None  # further than in the file, by what was passed over
        self._letters = True

    def close(self) -> None:
        """Keep in the file what was passed over."""
        self._save()

    def _is_due(self, standing: Standing) -> bool:
        self._until = self._rows.newest() if self._last is None else self._last
        if self._rows.requeued(self._name) is not None:
            return True
        return bool(self._rows.after(self._key, standing.cursor, self._until, limit=1))

    def _call(self, standing: Standing) -> Call | None:
        letter = self._rows.requeued(self._name) if self._letters else None
        if letter is not None:
            self._current = letter
            return Call(self._trigger, letter.transition)
        self._letters = False
        cursor = standing.cursor
        while True:
            if not self._page:
                self._page.extend(self._rows.after(self._key, cursor, self._until))
                if not self._page:
                    return None
            transition = self._page.popleft()
            cursor = transition.seq
            if self._fits(transition):
                self._current = transition
                return Call(self._trigger, transition)
            self._cursor = cursor
            if not self._page:
                self._save()

    def _settled(self, standing: Standing, outcome: Outcome) -> Standing | None:
        current = self._current
        assert current is not None
        if isinstance(current, Letter):
            return self._letter_settled(current, standing, outcome)
        after = replace(standing, cursor=current.seq, attempts=0, next_at=None)
        if isinstance(outcome, Failed):
            return self._failed(current, standing, after, error_text(outcome.error))
        if outcome == "skipped" and not standing.attempts:
            self._cursor = current.seq
            return after
        self._cursor = None
        token = self._claims.token
        if standing.attempts:
            written = self._rows.handled(self._name, token, cursor=current.seq)
        else:
            written = self._rows.moved(self._name, token, current.seq)
        self.count += written and outcome == "handled"
        return self._if_ours(written, after)

    def _failed(
        self, current: Transition, standing: Standing, after: Standing, error: str
    ) -> Standing | None:
        self._save()
        token, attempts = self._claims.token, standing.attempts + 1
        if attempts > self._trigger.retries:
            written = self._rows.set_aside(
                self._name, token, attempts=attempts, error=error, cursor=current.seq
            )
            return self._if_ours(written, after)
        next_at = self._put_off(attempts)
        written = self._rows.failed(
            self._name, token, attempts=attempts, next_at=next_at, error=error
        )
        self._if_ours(written, after)
        return None

    def _letter_settled(
        self, letter: Letter, standing: Standing, outcome: Outcome
    ) -> Standing | None:
        token = self._claims.token
        if not isinstance(outcome, Failed):
            written = self._rows.letter_handled(self._name, token, letter)
            self.count += written and outcome == "handled"
            return self._if_ours(written, standing)
        attempts = letter.attempts + 1
        over = attempts > self._trigger.retries
        next_at = None if over else self._put_off(attempts)
        written = self._rows.letter_failed(
            self._name, token, letter, next_at=next_at, error=error_text(outcome.error)
        )
        ours = self._if_ours(written, standing)
        return ours if over else None

    def _fits(self, transition: Transition) -> bool:
        wanted = self._trigger.to
        if wanted is None:
            return True
        if transition.deleted:
            return False
        try:
            return same_json(wanted, encode(transition.value, name="a value"))
        except ValueError:
            return False  # nested deeper than `to` can be

    def _save(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None and self._claims.holds(self._name):
            self._rows.moved(self._name, self._claims.token, cursor)


def backoff(attempts: int) -> float:
    """Tell how many seconds to wait after so many attempts that failed."""
    return float(min(LONGEST, FIRST * 2 ** min(attempts - 1, 60)))
