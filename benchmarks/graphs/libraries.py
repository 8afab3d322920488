"""Our signals and those of others, each behind the one face, imported when asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from operator import getitem, setitem
from pathlib import Path
from typing import Any

from benchmarks.graphs.library import Library, Read, Write
from reactive_sqlite import Effect, batch, create_effect, create_memo, create_signal

OURS = "ours"
STICK = "stick"
PEERS = ("reaktiv", "observ", "nervio", "signified")


class Ours(Library):
    """`reactive_sqlite.signals`."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []

    def signal(self, value: Any) -> tuple[Read, Write]:
        return create_signal(value)

    def memo(self, fn: Callable[[], Any]) -> Read:
        return create_memo(fn)

    def effect(self, fn: Callable[[], object]) -> None:
        self._effects.append(create_effect(fn))

    def batch(self, fn: Callable[[], object]) -> None:
        with batch():
            fn()

    def clear(self) -> None:
        for effect in self._effects:
            effect.dispose()
        self._effects.clear()


class Foreign(Library):
    """A library that was imported by name; `dispose` names how its effects are ended."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self._disposals: list[Callable[[], object]] = []

    def kept(self, dispose: Callable[[], object]) -> None:
        self._disposals.append(dispose)

    def clear(self) -> None:
        for dispose in self._disposals:
            dispose()
        self._disposals.clear()


class Stick(Foreign):
    """A file with `create_signal`, `create_memo`, `Effect` and `batch(fn)`, to measure ours by."""

    def signal(self, value: Any) -> tuple[Read, Write]:
        pair: tuple[Read, Write] = self.module.create_signal(value)
        return pair

    def memo(self, fn: Callable[[], Any]) -> Read:
        read: Read = self.module.create_memo(fn)
        return read

    def effect(self, fn: Callable[[], object]) -> None:
        self.kept(self.module.Effect(fn).dispose)

    def batch(self, fn: Callable[[], object]) -> None:
        self.module.batch(fn)


class Reaktiv(Foreign):
    """Its graph holds effects weakly, so they are kept here."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        scheduler = import_module("reaktiv.scheduler")
        self._start, self._end = scheduler.start_batch, scheduler.end_batch

    def signal(self, value: Any) -> tuple[Read, Write]:
        signal = self.module.Signal(value)
        return signal.get, signal.set

    def memo(self, fn: Callable[[], Any]) -> Read:
        read: Read = self.module.ComputeSignal(fn).get
        return read

    def effect(self, fn: Callable[[], object]) -> None:
        self.kept(self.module.Effect(fn).dispose)

    def batch(self, fn: Callable[[], object]) -> None:
        # What its own context manager does, without the object: the faster spelling.
        self._start()
        try:
            fn()
        finally:
            self._end()


class Observ(Foreign):
    """Watchers run when its scheduler is flushed, and depend on leaves, not on memos."""

    exact = False

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self._scheduler = import_module("observ.scheduler").scheduler
        self._scheduler.register_request_flush(lambda: None)
        self._flush = self._scheduler.flush

    def signal(self, value: Any) -> tuple[Read, Write]:
        held = self.module.reactive({"value": value})
        return partial(getitem, held, "value"), partial(setitem, held, "value")

    def memo(self, fn: Callable[[], Any]) -> Read:
        read: Read = self.module.computed(deep=False)(fn)
        return read

    def effect(self, fn: Callable[[], object]) -> None:
        # It asks for a function of no name twice over: a plain one, not a bound method.
        self.kept(self.module.watch_effect(lambda: fn(), deep=False).stop)

    def batch(self, fn: Callable[[], object]) -> None:
        fn()
        self._flush()

    def flush(self) -> None:
        self._flush()

    def clear(self) -> None:
        super().clear()
        self._flush()


class Nervio(Foreign):
    """Locks every read; its bound methods are what stands behind `.value` and calling."""

    def signal(self, value: Any) -> tuple[Read, Write]:
        signal = self.module.Signal(value)
        return signal._get, signal.set

    def memo(self, fn: Callable[[], Any]) -> Read:
        read: Read = self.module.Computed(fn)._get
        return read

    def effect(self, fn: Callable[[], object]) -> None:
        self.kept(self.module.effect(fn))

    def batch(self, fn: Callable[[], object]) -> None:
        with self.module.batch():
            fn()


class Signified(Foreign):
    """An engine in Rust, on Python 3.12 and newer; before that it has no effects to measure."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        if not hasattr(module, "Effect"):
            raise ImportError("this version of signified has no effects")
        self._read_signal = module.Signal.value.__get__
        self._read_computed = module.Computed.value.__get__

    def signal(self, value: Any) -> tuple[Read, Write]:
        signal = self.module.Signal(value)
        return partial(self._read_signal, signal), partial(setattr, signal, "value")

    def memo(self, fn: Callable[[], Any]) -> Read:
        return partial(self._read_computed, self.module.Computed(fn))

    def effect(self, fn: Callable[[], object]) -> None:
        self.kept(self.module.Effect(fn).dispose)

    def batch(self, fn: Callable[[], object]) -> None:
        with self.module.batch():
            fn()


KINDS: dict[str, type[Foreign]] = {
    "reaktiv": Reaktiv,
    "observ": Observ,
    "nervio": Nervio,
    "signified": Signified,
}


def installed(stick: Path | None) -> list[str]:
    """List what can be measured here, ours first."""
    peers = [name for name in PEERS if find_spec(name) is not None and _usable(name)]
    return [OURS, *([STICK] if stick is not None else []), *peers]


def library(name: str, stick: Path | None) -> Library:
    """Import a library and return it behind the face.

    Raises ImportError when it is not installed.
    """
    if name == OURS:
        return Ours()
    if name == STICK:
        if stick is None:
            raise ImportError("no file was named as the stick")
        return Stick(_loaded(stick))
    return KINDS[name](import_module(name))


def _usable(name: str) -> bool:
    return name != "signified" or sys.version_info >= (3, 12)


def _loaded(path: Path) -> Any:
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
