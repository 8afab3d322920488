"""Remembering: what is worth knowing beyond one run, added, changed and forgotten."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, Literal, TypedDict, Unpack

from reactive_sqlite.arguments import shown
from smithers.clock import to_text
from smithers.codec import check_key, check_text
from smithers.errors import NotFound
from smithers.ids import new_id
from smithers.logged import text_or_none, time_or_none
from smithers.memory.shelving import Shelves, check_category, check_scope
from smithers.records import Memory
from smithers.workspace import Workspace

# Where the calendar of SQLite ends, a little before that of Python: `datetime.max` is meant.
_NEVER = "9999-12-31T23:59:59.999000Z"
Moment = datetime | timedelta | str | None


class MemoryOptions(TypedDict, total=False):
    """What else `add` takes, for those named after a category."""

    confidence: float
    expires_at: Moment


class Unchanged(Enum):
    """What stands for an argument that was left out."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return self.value


_UNCHANGED: Final = Unchanged.UNCHANGED
_Unchanged = Literal[Unchanged.UNCHANGED]


class Remembering:
    """The writing half of `db.memories`."""

    def __init__(self, workspace: Workspace, shelves: Shelves) -> None:
        self._workspace = workspace
        self._shelves = shelves

    def add(
        self,
        category: str,
        key: str,
        content: str,
        *,
        scope: str = "project",
        source: str | None = None,
        confidence: float = 1.0,
        expires_at: Moment = None,
    ) -> Memory:
        """Remember something, in place of what is remembered under that category, scope and key.

        What was there keeps its id and the time of its making. `confidence` is from 0 to 1,
        `source` says where it comes from. `expires_at` is a datetime (without a zone: local time),
        ISO-8601 text with one, or a timedelta from now; None for never.

        >>> db.memories.add("skill", "release", "Run make release", scope="global", confidence=0.9)
        Memory(id=..., category='skill', scope='global', key='release', ...)
        """
        check_category(category)
        check_scope(scope)
        check_key(key)
        check_text(content, "the content of a memory")
        values = {
            "id": new_id(),
            "category": category,
            "scope": scope,
            "belongs_to": self._shelves.belongs_to(scope),
            "key": key,
            "content": content,
            "confidence": _confidence(confidence),
            "source": text_or_none(source, "the source of a memory"),
            "expires_at": self._moment(expires_at),
            "now": to_text(self._workspace.now()),
            "execution_id": self._workspace.context.execution_id,
        }
        self._workspace.check_writable(f"add memory {shown(key)}")
        shelf = self._shelves.home(scope)
        memory, undo = shelf.add(values)
        self._shelves.undoable(shelf, undo)
        return memory

    def add_fact(
        self,
        key: str,
        content: str,
        source: str | None = None,
        *,
        scope: str = "project",
        **options: Unpack[MemoryOptions],
    ) -> Memory:
        """Remember a fact that was found out; see `add`.

        >>> db.memories.add_fact("api-endpoint", "The API is at /api/v2", "discovered in auth.ts")
        Memory(id=..., category='fact', scope='project', key='api-endpoint', ...)
        """
        return self.add("fact", key, content, scope=scope, source=source, **options)

    def add_learning(
        self,
        key: str,
        content: str,
        source: str | None = None,
        *,
        scope: str = "project",
        **options: Unpack[MemoryOptions],
    ) -> Memory:
        """Remember a lesson that was learnt; see `add`.

        >>> db.memories.add_learning("tests", "Use vitest for unit tests", "package.json")
        Memory(id=..., category='learning', scope='project', key='tests', ...)
        """
        return self.add("learning", key, content, scope=scope, source=source, **options)

    def add_preference(
        self,
        key: str,
        content: str,
        scope: str = "project",
        *,
        source: str | None = None,
        **options: Unpack[MemoryOptions],
    ) -> Memory:
        """Remember what the user prefers; see `add`.

        >>> db.memories.add_preference("commits", "Conventional commits with scope", "global")
        Memory(id=..., category='preference', scope='global', key='commits', ...)
        """
        return self.add("preference", key, content, scope=scope, source=source, **options)

    def add_context(
        self,
        key: str,
        content: str,
        source: str | None = None,
        *,
        scope: str = "project",
        **options: Unpack[MemoryOptions],
    ) -> Memory:
        """Remember what else is to be known here; see `add`.

        >>> db.memories.add_context("deadline", "The release is on Friday", scope="session")
        Memory(id=..., category='context', scope='session', key='deadline', ...)
        """
        return self.add("context", key, content, scope=scope, source=source, **options)

    def add_skill(
        self,
        key: str,
        content: str,
        source: str | None = None,
        *,
        scope: str = "project",
        **options: Unpack[MemoryOptions],
    ) -> Memory:
        """Remember how something is done; see `add`.

        >>> db.memories.add_skill("release", "Run make release, then push the tag")
        Memory(id=..., category='skill', scope='project', key='release', ...)
        """
        return self.add("skill", key, content, scope=scope, source=source, **options)

    def update(
        self,
        id: str | Memory,
        *,
        content: str | _Unchanged = _UNCHANGED,
        confidence: float | _Unchanged = _UNCHANGED,
        source: str | _Unchanged | None = _UNCHANGED,
        expires_at: Moment | _Unchanged = _UNCHANGED,
    ) -> Memory:
        """Change a memory, named by its id or as a record; what is left out stays.

        None takes the source or the expiry away. For the values see `add`.

        >>> db.memories.update(memory.id, confidence=0.5).confidence
        0.5
        """
        id = _id(id)
        changes: dict[str, Any] = {}
        if content is not _UNCHANGED:
            check_text(content, "the content of a memory")
            changes["content"] = content
        if confidence is not _UNCHANGED:
            changes["confidence"] = _confidence(confidence)
        if source is not _UNCHANGED:
            changes["source"] = text_or_none(source, "the source of a memory")
        if expires_at is not _UNCHANGED:
            changes["expires_at"] = self._moment(expires_at)
        self._workspace.check_writable(f"update memory {shown(id)}")
        shelf, memory = self._shelves.find(id)
        if not changes:
            return memory
        changed, undo = shelf.update(id, {**changes, "updated_at": to_text(self._workspace.now())})
        if changed is None:
            raise NotFound("memory", id)
        self._shelves.undoable(shelf, undo)
        return changed

    def delete(self, id: str | Memory) -> None:
        """Forget a memory, named by its id or as a record.

        >>> db.memories.delete(memory.id)
        """
        id = _id(id)
        self._workspace.check_writable(f"delete memory {shown(id)}")
        shelf, _ = self._shelves.find(id)
        there, undo = shelf.delete(id)
        if not there:
            raise NotFound("memory", id)
        self._shelves.undoable(shelf, undo)

    def _moment(self, expires_at: Moment) -> str | None:
        if isinstance(expires_at, timedelta):
            try:
                expires_at = self._workspace.now() + expires_at
            except OverflowError as error:
                raise ValueError(f"expires_at is too far off: {shown(expires_at)}") from error
        text = time_or_none(expires_at, "expires_at")
        return None if text is None else min(text, _NEVER)


def _confidence(number: object) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(f"a confidence is a number, not {type(number).__name__}: {shown(number)}")
    if not 0 <= number <= 1:  # nor is NaN
        raise ValueError(f"a confidence is from 0 to 1, not {shown(number)}")
    return float(number)


def _id(named: str | Memory) -> str:
    id = named.id if isinstance(named, Memory) else named
    check_text(id, "the id of a memory")
    return id
