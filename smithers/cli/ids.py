"""Ids as a person types them: whole, or one of their ends."""

from __future__ import annotations

from smithers.codec import check_text
from smithers.db import SmithersDB
from smithers.errors import NotFound, SmithersError
from smithers.storage.lookup import SHORTEST, IdKind, Lookup

# So many are named in an error; more would not help.
MOST_NAMED = 10


def whole_id(db: SmithersDB, text: str, *kinds: IdKind) -> tuple[IdKind, str]:
    """Return the one id of these kinds that is a text, or begins or ends with it, and its kind.

    Raises NotFound, and SmithersError naming them where there are several.
    """
    what = " or ".join(kinds)
    check_text(text, f"the id of {what}", empty=True)
    lookup = Lookup(db.database)
    found: list[tuple[IdKind, str]] = [
        (kind, id) for kind in kinds for id in lookup.matching(kind, text)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        named = ", ".join(id for _, id in found[:MOST_NAMED])
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        raise SmithersError(f"several ids begin or end with {text!r}: {named}{more}")
    if len(text) < SHORTEST:
        raise SmithersError(
            f"there is no {what} {text!r} (of an id give at least {SHORTEST} characters)"
        )
    raise NotFound(what, text)
