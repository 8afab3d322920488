"""Asynchronous faces of synchronous classes: one line per method, with its signature."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from types import MethodType
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar, overload

from reactive_sqlite.forks import NO_COPY
from reactive_sqlite.worker import Worker

S = TypeVar("S")
# A face of a class has the methods of the face of its base.
S_co = TypeVar("S_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")


class AsyncFace(Generic[S_co]):
    """The asynchronous face of one object, whose methods run on one worker."""

    def __init__(self, sync: S_co, worker: Worker) -> None:
        self._sync = sync
        self._worker = worker

    def __reduce__(self) -> NoReturn:
        raise TypeError(NO_COPY)

    async def _call(
        self, method: Callable[Concatenate[S_co, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        return await self._worker.run(method, self._sync, *args, **kwargs)


class awaited(Generic[S, P, R]):
    """The awaitable twin of a method: the same parameters, result and docstring.

    A descriptor, because only a descriptor is bound to its object alike by every type checker.

    Example:
        >>> class AsyncStore(AsyncFace[Store]):
        ...     get = awaited(Store.get)
    """

    def __init__(self, method: Callable[Concatenate[S, P], R]) -> None:
        @functools.wraps(method)
        async def call(face: AsyncFace[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
            return await face._call(method, *args, **kwargs)  # pyright: ignore[reportPrivateUsage]

        self._call = call
        self.__doc__ = method.__doc__

    @overload
    def __get__(
        self, face: None, owner: type
    ) -> Callable[Concatenate[AsyncFace[S], P], Coroutine[Any, Any, R]]: ...
    @overload
    def __get__(self, face: AsyncFace[S], owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, face: AsyncFace[S] | None, owner: type) -> Any:
        return self._call if face is None else MethodType(self._call, face)
