"""How ids are written, and read back from what a caller passes."""

from __future__ import annotations

import re
import sys
import uuid

from reactive_sqlite.arguments import shown
from smithers.errors import TransitionNotFound

_TRANSITION = re.compile(r"t([1-9][0-9]{0,18})", re.ASCII)
_LARGEST = 2**63 - 1


def new_id() -> str:
    """Make the id of a new row: a UUID of version 7, so that ids sort by the time of their making.

    RFC 9562; two processes, or two threads, never make the same one.
    """
    if sys.version_info >= (3, 14):
        return str(uuid.uuid7())
    import uuid_utils

    return str(uuid_utils.uuid7())


def transition_id(seq: int) -> str:
    """Write the id of the transition with this `seq`."""
    return f"t{seq}"


def transition_seq(id: object, name: str = "id") -> int:
    """Read the `seq` from a transition's id (`"t12"`) or from the number itself.

    `name` says in errors which argument it is.

    Raises TransitionNotFound for text or a number that no transition can have, TypeError for
    anything else.
    """
    if isinstance(id, bool) or not isinstance(id, str | int):
        raise TypeError(f"{name} is text like 't12' or an int, not {shown(id)}")
    if isinstance(id, int):
        seq = id
    else:
        match = _TRANSITION.fullmatch(id)
        seq = int(match[1]) if match else 0
    if not 1 <= seq <= _LARGEST:
        raise TransitionNotFound(id)
    return seq
