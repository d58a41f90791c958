"""Each mechanism of the oracles that families share, switched off: chains, trees, graphs with cycles, hidden Markov
models, losses in steps; on few and many examples with 2 to 200 labels.

What a mechanism guards from is stated where it is not time: `near` and the entropies by matrix products are as exact
as their bounds say, more trees give a lower bound on ln Z, damping lets belief propagation end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np

import convexstruct as cs
from benchmarks.ablation import Mechanism, Oracle, Study, numbers, sizes, timed
from benchmarks.hidden_markov import drawn
from convexstruct import datasets
from convexstruct.arrays import Labels, Matrix, Tensor
from convexstruct.families.log_linear import ConditionalRandomField
from convexstruct.features.graphs.factors import tabular_factors
from convexstruct.graphs import Chains, chains
from convexstruct.inference import baum_welch
from convexstruct.inference.gibbs import Gibbs
from convexstruct.inference.hidden_markov import HiddenMarkovModels, Observations
from convexstruct.junction_trees import junction_tree
from convexstruct.oracles.chain import (
    chain,
)
from convexstruct.oracles.loopy import belief_propagation, minimum_cut, tree_reweighted
from convexstruct.oracles.loopy.pairwise import Pairwise, pairwise
from convexstruct.oracles.tree import loss_counter

#: More than any count or size.
NEVER = 10**12


# -- chains ------------------------------------------------------------------------------------------------------------


def _chain(
    n: int, length: int, labels: int, node: float = 1.0, edge: float = 1.0, rows: float = 0.0, gone: float = 0.0
) -> tuple[Chains, Matrix, Matrix]:
    """Normal scores of sizes ``node`` and ``edge``; rows, columns of the latter are moved by ``rows``, the share
    ``gone`` of the pairs is forbidden."""
    rng = np.random.default_rng([98, n, length, labels])
    laid = chains(rng.integers(max(1, length // 2), length + 1, size=n))
    pairs = edge * rng.normal(size=(labels, labels))
    pairs += rows * (rng.normal(size=(labels, 1)) + rng.normal(size=labels))
    pairs[(rng.random(pairs.shape) < gone) & ~np.eye(labels, dtype=bool)] = -np.inf
    return laid, node * rng.normal(size=(laid.n_positions, labels)), pairs


SIZES = ((1000, 20, 2), (1000, 20, 8), (300, 20, 26), (100, 20, 50), (3, 3000, 8))
SUMS = (
    *numbers("chain.chain", EVENING_SWEEPS=(0, 1)),
    Mechanism("log messages by products", patches={"chain.chain:log_messages": lambda *_: None}),
    Mechanism("rescaled messages", patches={"chain.chain:rescaled": lambda *_: None}),
)
FORBIDDEN = numbers("terms", NEGLIGIBLE=(math.inf,), LEAST_CHAINS=(1,), LEAST_ROWS=(NEVER,))
BEST = numbers("chain.chain", BLOCK=(NEVER, 1 << 13))


# -- hidden Markov models ----------------------------------------------------------------------------------------------


def _model(n: int, length: int, states: int, stay: float = 0.0, blur: float = 0.0) -> Any:
    """Sequences of 20 symbols and their model; a state is kept with probability ``stay``, and the share ``blur`` of its
    symbols is uniform."""
    rng = np.random.default_rng([99, n, states])
    moved, seen = rng.dirichlet(np.full(states, 0.5), size=states), rng.dirichlet(np.full(20, 0.3), size=states)
    transition = stay * np.eye(states) + (1.0 - stay) * moved
    model = HiddenMarkovModels.read(np.full(states, 1.0 / states), transition, (1.0 - blur) * seen + blur / 20)
    return model, Observations.read(drawn(model, n, length, rng), 20)


def _two_kinds(n: int, length: int, states: int) -> Any:
    """All sequences but one from ``states`` states that change at once, one from as many that last for 2000 steps."""
    quick, seen = _model(n - 1, length, states)
    slow, kept = _model(1, length, states, 0.9995, 0.98)
    none = np.full((states, states), 1e-9)
    transition = np.block([[quick.transition[0], none], [none, slow.transition[0]]])
    emission = np.concatenate((quick.emission[0, 0], slow.emission[0, 0]))
    initial = np.full(2 * states, 0.5 / states)
    model = HiddenMarkovModels.read(initial, transition / transition.sum(axis=1, keepdims=True), emission)
    symbols = [*np.split(seen.symbols[seen.chains.flat, 0], n - 1), kept.symbols[kept.chains.flat, 0]]
    return model, Observations.read(symbols, 20)


MODELS = ((10, 10_000, 2), (10, 10_000, 3), (10, 10_000, 10), (10, 5000, 26), (100, 1000, 8), (3, 1000, 8))
CUT_CHAINS = numbers("pieces", STEPS_SHARE=(0.0, 0.999), SHORTEST_PIECE=(16, 256), NUMBERS_A_STEP=(2048,))
STEP = (
    *CUT_CHAINS,
    *numbers("probabilities", MOST_ROUNDS=(2,), SHARE_LEFT=(math.inf,), STEPS_BETWEEN=(1, NEVER)),
)
DECODE = (
    *CUT_CHAINS,
    Mechanism("two labels by clipped maps", patches={"two_labels:viterbi": lambda *_: None}),
    Mechanism("messages computed again", patches={"long_viterbi:_mend_messages": lambda *_: False}),
    *numbers("long_viterbi", MOST_PIECES=(1, NEVER), EARLY_POSITIONS=(8, NEVER), DISAGREEING_SHARE=(0.0,)),
    *numbers("long_viterbi", STEP_NUMBERS=(0, NEVER)),
)


# -- losses ------------------------------------------------------------------------------------------------------------


def _counted(n: int, length: int, labels: int) -> Any:
    laid, node, edge = _chain(n, length, labels)
    steps = np.ones(node.shape, dtype=np.int64)
    steps[:, 0] = 0
    return laid, node, edge, steps


def _tree(graph: nx.Graph, n: int, labels: int) -> Any:
    g = nx.convert_node_labels_to_integers(graph)
    rng = np.random.default_rng([99, n, labels])
    steps = np.ones((n, len(g), labels), dtype=np.int64)
    steps[:, :, 0] = 0
    factors: list[tuple[tuple[int, ...], Tensor]] = [((v,), rng.normal(size=(n, labels))) for v in g]
    factors += [((u, v), rng.normal(size=(1, labels, labels))) for u, v in g.edges]
    return junction_tree(g, [labels] * len(g)), factors, n, steps


def _labels(by_loss: Callable[..., loss_counter.LossTable]) -> Callable[..., Labels]:
    """Labels of the best loss of each example, read from its table."""

    def read(*given: Any) -> Labels:
        table = by_loss(*given)
        return table.labels(table.scores.argmax(axis=1))

    return read


KEPT = numbers("loss_counter", KEPT_NUMBERS=(0,))
COUNT = (*KEPT, *numbers("loss_counter", BLOCK=(1 << 13,)))
ON_TREE = (*KEPT, *numbers("loss_counter", TREE_BLOCK=(1 << 17, 1 << 25)))
TREES = sizes(
    _tree, (nx.balanced_tree(2, 3), 300, 5), (nx.balanced_tree(2, 4), 100, 13), (nx.path_graph(20), 50, 26),
    (nx.grid_2d_graph(4, 4), 100, 3),
)  # fmt: skip


# -- graphs with cycles ------------------------------------------------------------------------------------------------


def _potts(side: int, weight: float) -> tuple[Pairwise]:
    """A grid of two labels, those of its stripes more likely."""
    at = np.arange(side * side).reshape(side, side)
    edges = np.concatenate(
        [np.stack((one.ravel(), two.ravel()), 1) for one, two in ((at[:-1], at[1:]), (at[:, :-1], at[:, 1:]))]
    )
    rng = np.random.default_rng([98, side])
    node = rng.normal(size=(side * side, 2))
    node[:, 1] += 0.5 * np.where((at % 50 > 25).ravel(), 1.0, -1.0)
    return (pairwise(node, edges, weight * rng.random(len(edges))[:, None, None] * np.eye(2)),)


def _whole_graph(*arguments: Any, prune: bool, _more: Any = minimum_cut._more_flow) -> Any:
    return _more(*arguments, prune=False)


def _field(graph: nx.Graph, labels: int, weight: float) -> Any:
    """Equal labels of neighbours score ``weight``; also ln Z's upper bound from trees at these messages."""
    g = nx.convert_node_labels_to_integers(graph)
    rng = np.random.default_rng([97, len(g), labels])
    scopes = [*((v,) for v in g), *map(tuple, g.edges)]
    tables = [0.2 * rng.normal(size=labels) if len(s) == 1 else weight * np.eye(labels).ravel() for s in scopes]
    return [labels] * len(g), scopes, np.concatenate(tables)


def _propagate(instance: Any) -> tuple[int, float]:
    """The error is the last change of a message, in nats."""
    cards, scopes, tables = instance
    damping, rounds = belief_propagation.DAMPING, belief_propagation.ROUNDS
    graph = belief_propagation.factor_graph(cards, scopes)
    found = belief_propagation.propagate(graph, tables, damping=damping, rounds=rounds)
    return found.rounds, float(found.change[0])


def _bound(instance: Any) -> tuple[int, float]:
    """The error is the distance of the bound from that with 64 trees, relative."""
    cards, scopes, tables = instance
    graph = belief_propagation.factor_graph(cards, scopes)
    bounds = []
    for least in (tree_reweighted.LEAST_TREES, 64):
        trees = tree_reweighted.spanning_trees(len(cards), scopes, least)
        assert trees is not None
        found = belief_propagation.propagate(graph, tables, rho=trees.rho)
        bounds.append((float(tree_reweighted.upper_bound(graph, trees, tables, found.messages[0])), found.rounds))
    return bounds[0][1], bounds[0][0] / bounds[1][0] - 1.0


def _scaled(sequences: int, common: float, scale: float) -> ConditionalRandomField:
    """Features with a part in common, sizes from 1 / ``scale`` to 1."""
    data, rng = datasets.random_chains(sequences, 10, 5, 30, seed=98), np.random.default_rng(98)
    shared = common * np.abs(rng.normal(size=(len(data.node_features), 1)))
    x = (data.node_features + shared) * rng.permutation(np.geomspace(1.0 / scale, 1.0, 30))
    return ConditionalRandomField.read(x, data.labels_each, 5, lam=1e-3)


def _fit(problem: ConditionalRandomField) -> tuple[int, float]:
    """By the default solver; the error is the certified gap."""
    solution = cs.solve(problem, tol=1e-6)
    return solution.iterations, solution.gap


def _grid_samples(side: int, labels: int, samples: int) -> Any:
    factors = tabular_factors(nx.grid_2d_graph(side, side), labels, tied=True)
    rng = np.random.default_rng([98, side, labels])
    flat, start = 0.3 * rng.normal(size=factors.n_entries), rng.integers(0, labels, size=(samples, side * side))
    return Gibbs(factors), flat, start


def _sweep(sampler: Gibbs, flat: Any, start: Any) -> Any:
    return sampler.sweeps(flat, start, 2, np.random.default_rng(0))


FLOWS = (
    *numbers("minimum_cut", GRADIENT_FROM=(NEVER,), GRADIENT_STEPS=(6, 100)),
    Mechanism("nodes between source and sink only", patches={"minimum_cut:_more_flow": _whole_graph}),
)
DAMPED = numbers("belief_propagation", DAMPING=(0.0, 0.9))
SEVERAL = numbers("tree_reweighted", LEAST_TREES=(1,))
SAMPLES = numbers("gibbs", BLOCK=(1 << 10, 1 << 23))
EVEN = numbers("feature_sizes", EVEN_RATIO=(0.0, math.inf))
GRAPHS = (nx.grid_2d_graph(10, 10), nx.cycle_graph(9))
FIELDS = sizes(_field, *((graph, labels, weight) for graph in GRAPHS for labels in (2, 8) for weight in (0.5, 1.5)))

SUM, BEST_OF = timed(chain.sum_product), timed(chain.viterbi)
EM, DECODED = (lambda model, seen: baum_welch.expected(seen, model)), timed(HiddenMarkovModels.decode, 3)
LONG_TWO = ((10, 10_000, 2), (10, 10_000, 5), (20, 20_000, 3))
LONG_SLOW = ((10, 10_000, 2), (10, 10_000, 3), (1, 10_000, 10))
SHORT = ((100, 100, 2), (10, 150, 8), (10, 300, 26), (1, 500, 3))
WITH_GAPS = ((1000, 20, 8), (300, 20, 26), (100, 20, 50), (20, 20, 200))
COUNTED = ((1000, 20, 3), (1000, 20, 8), (300, 20, 26), (10, 300, 5))
GRIDS = ((100, 2.0), (200, 1.0), (400, 1.0), (700, 1.0))
SAMPLED = ((10, 2, 5000), (30, 2, 300), (30, 5, 300), (10, 13, 1000))

#: An error is known, and bounded, of few.
STUDIES = [
    Study("oracles, sums", sizes(_chain, *SIZES), SUM, 0.0, SUMS),
    Study("oracles, sums, uneven", sizes(_chain, *SIZES, node=100.0, edge=10.0, rows=100.0), SUM, 0.0, SUMS),
    Study("oracles, sums, wide", sizes(_chain, *SIZES, edge=120.0), SUM, 0.0, SUMS),
    Study("oracles, sums, forbidden", sizes(_chain, *WITH_GAPS, node=300.0, gone=0.3), SUM, 0.0, FORBIDDEN),
    Study("oracles, best", sizes(_chain, *SIZES, (3000, 10, 26)), BEST_OF, 0.0, BEST),
    *(
        Study(f"oracles, {name}, {kind}", sizes(_model, *MODELS, stay=stay, blur=blur), call, 0.0, mechanisms)
        for name, call, mechanisms in (("EM", timed(EM, 3), STEP), ("decode", DECODED, DECODE))
        for kind, stay, blur in (("quick", 0.0, 0.0), ("lasting", 0.97, 0.5), ("slow", 0.999, 0.9))
    ),
    Study("oracles, decode, two kinds", sizes(_two_kinds, *LONG_TWO), DECODED, 0.0, DECODE),
    Study("oracles, decode, slow, few states", sizes(_model, *LONG_SLOW, stay=0.999, blur=0.9), DECODED, 0.0, DECODE),
    Study("oracles, EM, short", sizes(_model, *SHORT), timed(EM), 0.0, STEP),
    Study("oracles, by loss", sizes(_counted, *COUNTED), timed(_labels(loss_counter.by_loss)), 0.0, COUNT),
    Study("oracles, by loss, trees", TREES, timed(_labels(loss_counter.by_loss_on_tree)), 0.0, ON_TREE),
    Study("oracles, cuts", sizes(_potts, *GRIDS), timed(minimum_cut.minimum_cut, 2), 0.0, FLOWS),
    *(
        Study(f"oracles, {name} features", sizes(_scaled, *given), Oracle(_fit, 2), 1e-6, EVEN)
        for name, scales in (("even", (1.0,)), ("uneven", (30.0, 100.0, 1000.0)))
        for given in [[(200, common, scale) for common in (1.0, 3.0) for scale in scales]]
    ),
    Study("oracles, beliefs", FIELDS, Oracle(_propagate, 2), 1e-9, DAMPED),
    Study("oracles, trees", FIELDS, Oracle(_bound, 2), 1.0, SEVERAL),
    Study("oracles, Gibbs", sizes(_grid_samples, *SAMPLED), timed(_sweep, 3), 0.0, SAMPLES),
]
