"""Random graphs and random histories against a model that computes everything anew each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from reactive_sqlite import Accessor, Effect, Setter, batch, create_effect, create_memo
from reactive_sqlite.signals.external import External, flush, publish
from reactive_sqlite.signals.signal import create_signal

SIGNALS = 4


@dataclass(frozen=True, slots=True)
class Formula:
    """What a memo computes: a sum of two sources, or a choice between them by a third.

    `coarse` cuts values down, so that many changes stop there; 13 as a result is an error.
    """

    choose: bool
    coarse: bool
    first: int
    second: int
    third: int

    def compute(self, read: Callable[[int], int]) -> int:
        if self.choose:
            value = read(self.first) if read(self.third) % 2 else read(self.second)
        else:
            value = read(self.first) + read(self.second)
        if value == 13:
            raise ValueError("thirteen")
        return value // 3 if self.coarse else value


formulas = st.builds(
    Formula,
    choose=st.booleans(),
    coarse=st.booleans(),
    first=st.integers(0, 30),
    second=st.integers(0, 30),
    third=st.integers(0, 30),
)
writes = st.tuples(st.integers(0, SIGNALS - 1), st.integers(0, 9))
steps = st.one_of(
    st.tuples(st.just("set"), st.lists(writes, min_size=1, max_size=1)),
    st.tuples(st.just("batch"), st.lists(writes, max_size=4)),
    st.tuples(st.just("revert"), st.lists(writes, min_size=1, max_size=2)),
    st.tuples(st.just("publish"), st.lists(writes, max_size=3)),
    st.tuples(st.just("read"), st.lists(writes, min_size=1, max_size=6)),
    st.tuples(st.just("observe"), st.lists(writes, min_size=1, max_size=1)),
    st.tuples(st.just("dispose"), st.lists(writes, min_size=1, max_size=1)),
)


class Model:
    """The values of all nodes, computed from nothing at every look."""

    def __init__(self, formulas: list[Formula]) -> None:
        self.values = [0] * (2 * SIGNALS)  # signals, then leaves from outside
        self.formulas = formulas

    def read(self, node: int) -> int | str:
        try:
            return self._read(node)
        except ValueError as error:
            return str(error)

    def _read(self, node: int) -> int:
        inputs = len(self.values)
        if node < inputs:
            return self.values[node]
        return self.formulas[node - inputs].compute(lambda i: self._read(i % node))


class Graph:
    """The same nodes as signals, memos and effects."""

    def __init__(self, formulas: list[Formula]) -> None:
        self.setters: list[Setter[int]] = []
        self.leaves: list[External[int]] = []
        self.readers: list[Callable[[], int]] = []
        self.runs: list[int] = []
        for _ in range(SIGNALS):
            get, put = create_signal(0)
            self.readers.append(get)
            self.setters.append(put)
        for _ in range(SIGNALS):
            self._add_leaf()
        for formula in formulas:
            self.readers.append(self._memo(len(self.readers), formula))
        self.effects: dict[int, tuple[Effect, int, list[int | str]]] = {}

    def read(self, node: int) -> int | str:
        try:
            return self.readers[node]()
        except ValueError as error:
            return str(error)

    def observe(self, key: int, node: int) -> None:
        seen: list[int | str] = []
        self.effects[key] = create_effect(lambda: seen.append(self.read(node))), node, seen

    def _add_leaf(self) -> None:
        leaf = External(0)

        def get() -> int:
            leaf.track()
            return leaf.value

        self.leaves.append(leaf)
        self.readers.append(get)

    def _memo(self, node: int, formula: Formula) -> Accessor[int]:
        def compute() -> int:
            self.runs.append(node)
            return formula.compute(lambda i: self.readers[i % node]())

        return create_memo(compute)


def refuse(error: BaseException) -> None:
    raise AssertionError(f"no error was expected: {error!r}")


def perform(kind: str, pairs: list[tuple[int, int]], graph: Graph, model: Model, key: int) -> None:
    """Do one step to the graph and to the model."""
    nodes = len(graph.readers)
    if kind == "set":
        for signal, value in pairs:
            model.values[signal] = value
            graph.setters[signal](value)
    elif kind == "batch":
        with batch():
            for signal, value in pairs:
                model.values[signal] = value
                graph.setters[signal](value)
                assert graph.read(value % nodes) == model.read(value % nodes), "read in a batch"
    elif kind == "revert":
        with batch():
            for signal, value in pairs:
                graph.setters[signal](value)
                graph.read((signal * 5 + value) % nodes)
            for signal, _ in pairs:
                graph.setters[signal](model.values[signal])
    elif kind == "publish":
        for leaf, value in pairs:
            model.values[SIGNALS + leaf] = value
        publish([(graph.leaves[leaf], value) for leaf, value in pairs], refuse)
        flush(refuse)
    elif kind == "read":
        for signal, value in pairs:
            node = (signal * 10 + value) % nodes
            assert graph.read(node) == model.read(node)
    elif kind == "observe":
        graph.observe(key, nodes - 1 - (pairs[0][1] % nodes))
    elif graph.effects:
        victim = sorted(graph.effects)[pairs[0][1] % len(graph.effects)]
        graph.effects.pop(victim)[0].dispose()


@settings(max_examples=400)
@given(st.lists(formulas, min_size=3, max_size=8), st.lists(steps, min_size=8, max_size=40))
def test_every_reader_and_every_effect_has_what_a_fresh_computation_gives(
    formulas: list[Formula], history: list[tuple[str, list[tuple[int, int]]]]
) -> None:
    graph, model = Graph(formulas), Model(formulas)
    for key, (kind, pairs) in enumerate(history):
        graph.runs.clear()
        before = {effect: len(seen) for effect, (_, _, seen) in graph.effects.items()}
        perform(kind, pairs, graph, model, key)
        for effect, (_, node, seen) in graph.effects.items():
            assert seen[-1] == model.read(node), "an effect's last run saw the present value"
            assert len(seen) - before.get(effect, 0) <= 1, "one run per step"
            if kind != "publish" and effect in before and len(seen) > before[effect]:
                # A memo that fails again fails with another error, which is a change.
                assert seen[-1] != seen[-2] or isinstance(seen[-1], str), "no run without a change"
        if kind in ("set", "publish"):
            assert len(graph.runs) == len(set(graph.runs)), "a memo computes once per change"
    for handle, _, _ in graph.effects.values():
        handle.dispose()
    for put in graph.setters:
        put(lambda value: value + 1)
    for leaf in graph.leaves:
        assert not leaf.watched, "nothing holds a subscription any more"


def test_the_model_itself_knows_errors_and_choices() -> None:
    plus = Formula(choose=False, coarse=False, first=0, second=1, third=0)
    pick = Formula(choose=True, coarse=True, first=0, second=1, third=0)
    model = Model([plus, pick])
    model.values[0], model.values[1] = 6, 7
    assert model.read(2 * SIGNALS) == "thirteen"
    assert model.read(2 * SIGNALS + 1) == 2
