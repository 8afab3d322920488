"""The way of a trigger from one answer of its query to the next."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

from reactive_sqlite.dialect import locked_elsewhere, sqlite3
from smithers.deliveries import Call, Delivery, Failed, Outcome, Registration
from smithers.failure import error_text
from smithers.storage.claims import Claims
from smithers.storage.triggers import Standing, TriggerRows

Answer = list[dict[str, Any]]


class QueryDelivery(Delivery):
    """The way from one answer of a query to the next: one call at most."""

    def __init__(
        self,
        trigger: Registration,
        rows: TriggerRows,
        claims: Claims,
        now: Callable[[], datetime],
        register: Callable[[], None],
        ask: Callable[[], Answer],
    ) -> None:
        super().__init__(trigger, rows, claims, now, register)
        self._ask = ask
        self._asked = False
        self._digest = ""

    def close(self) -> None:
        """Do nothing: an answer is not handled by halves."""

    def _is_due(self, standing: Standing) -> bool:
        if self._rows.requeued(self._name) is not None:
            return True
        answer = self._answer()
        return isinstance(answer, Failed) or digest(answer) != standing.handled

    def _call(self, standing: Standing) -> Call | None:
        if self._asked:
            return None
        self._asked = True
        answer = self._answer()
        if isinstance(answer, Failed):
            # Nothing is set aside: there is no answer, so it is asked again, however often.
            self._put_off_query(standing, error_text(answer.error))
            return None
        self._digest = digest(answer)
        if self._digest == standing.handled and self._rows.requeued(self._name) is None:
            return None
        return Call(self._trigger, answer)

    def _settled(self, standing: Standing, outcome: Outcome) -> Standing | None:
        token = self._claims.token
        if not isinstance(outcome, Failed):
            written = self._rows.handled(self._name, token, digest=self._digest)
            self.count += written
            return self._if_ours(written, standing)
        error, attempts = error_text(outcome.error), standing.attempts + 1
        if attempts <= self._trigger.retries:
            self._put_off_query(standing, error)
            return None
        written = self._rows.set_aside(
            self._name, token, attempts=attempts, error=error, digest=self._digest
        )
        return self._if_ours(written, standing)

    def _put_off_query(self, standing: Standing, error: str) -> None:
        attempts = standing.attempts + 1
        next_at = self._put_off(attempts)
        token = self._claims.token
        written = self._rows.failed(
            self._name, token, attempts=attempts, next_at=next_at, error=error
        )
        self._if_ours(written, standing)

    def _answer(self) -> Answer | Failed:
        try:
            return self._ask()
        except sqlite3.Error as error:
            if locked_elsewhere(error):
                raise
            return Failed(error)


def digest(answer: Answer) -> str:
    """Digest rows by the types and values of their columns, in order; `1`, `1.0`, `'1'` differ."""
    hashed = hashlib.sha256()
    for row in answer:
        for name, value in row.items():
            text = value.hex() if isinstance(value, bytes) else repr(value)
            for part in (name, type(value).__name__, text):
                content = part.encode("utf-8", "surrogatepass")
                hashed.update(b"%d:%s" % (len(content), content))
        hashed.update(b";")
    return hashed.hexdigest()


EMPTY = digest([])
