"""Every feature map against all labellings written out; an HMM as a chain and as a network gives the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.datasets.generated.networks import random_network
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.features.counts.part import part
from convexstruct.features.counts.unlabelled import unlabelled
from convexstruct.graphs import hmm_graph
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.tolerances import ROUNDING
from tests.features.counts.labellings import random_labels

WEIGHTS = [1.0, 2.0, 0.5, 3.0, 1.5]
LENGTHS = [4, 1, 2, 3, 1]


def hmm(seed: int, loss: Any = "hamming", partly: bool = False, n_channels: int = 0) -> HMMCounts:
    """A batch of chains; partly : half of the states are known. loss : also "tables", one a sequence. n_channels : each
    position shows so many symbols, 0 one that is no table."""
    rng = np.random.default_rng(seed)
    symbols = [rng.integers(4, size=(n, n_channels) if n_channels else n) for n in LENGTHS]
    states = [rng.integers(3, size=n) for n in LENGTHS]
    hidden = [rng.random(n) < 0.5 for n in LENGTHS] if partly else None
    for mask in hidden or ():
        mask[rng.integers(len(mask))] = True
    if loss == "tables":
        loss = [rng.uniform(0.5, 3.0, size=(n, 3)) for n in LENGTHS]
        for table, true in zip(loss, states):
            table[np.arange(len(true)), true] = 0.0
    return HMMCounts.read(symbols, states, 3, 4, loss, hidden, WEIGHTS)


def one_set(seed: int) -> NetworkCounts:
    net = random_network(6, 5, states=(2, 3), max_parents=3, seed=seed)
    costs = {
        v: np.triu(np.arange(9.0).reshape(3, 3), 1)[:states, :states] for v, states in net.graph.nodes(data="states")
    }
    return NetworkCounts.read(net.graph, net.assignments, [4, 0, 1], {**costs, 1: "ring"}, WEIGHTS)


def many_sets(seed: int) -> NetworkCounts:
    rng = np.random.default_rng(seed)
    net = random_network(6, 5, states=(1, 3), max_parents=3, seed=seed)
    hidden = [rng.choice(6, size=rng.integers(1, 7), replace=False).tolist() for _ in range(5)]
    return NetworkCounts.read(net.graph, net.assignments, hidden, weights=WEIGHTS)


#: Feature maps of every kind, by a seed.
MAPS: dict[str, Callable[[int], Counts]] = {
    "hmm": hmm,
    "ring": lambda seed: hmm(seed, "ring"),
    "partly": lambda seed: hmm(seed, partly=True),
    "tables": lambda seed: hmm(seed, "tables"),
    "partly tables": lambda seed: hmm(seed, "tables", True),
    "channels": lambda seed: hmm(seed, "ring", n_channels=2),
    "partly channels": lambda seed: hmm(seed, "ring", True, 2),
    "one set": one_set,
    "many sets": many_sets,
}
every_map = pytest.mark.parametrize("make", MAPS.values(), ids=MAPS)


def thetas(features: Counts, seed: int) -> list[Vector]:
    rng = np.random.default_rng(seed)
    d = features.tables.dimension
    return [rng.normal(size=d), rng.integers(-2, 3, size=d).astype(float), 300.0 * rng.normal(size=d), np.zeros(d)]


@every_map
@pytest.mark.parametrize("loss_weight", [0.0, 2.5])
@pytest.mark.parametrize("seed", range(3))
def test_best_and_expected_labellings_are_those_of_all(
    make: Callable[[int], Counts], loss_weight: float, seed: int
) -> None:
    """The first best of all in colexicographic order, and the moments of the Gibbs distribution."""
    features = make(seed)
    examples, table = features.examples, enumerate_counts(features)
    for theta in thetas(features, seed):
        scores = table.counts @ theta + loss_weight * table.loss
        values, labels = features.best(theta, loss_weight)
        top = np.full(len(examples), -np.inf)
        np.maximum.at(top, table.example, scores)
        np.testing.assert_allclose(values, top, rtol=ROUNDING, atol=ROUNDING)
        for k in range(len(examples)):
            rows = np.flatnonzero(table.example == k)
            row = rows[scores[rows].argmax()]
            np.testing.assert_array_equal(labels[examples.example == k], table.labels[row][table.labels[row] >= 0])
        weight = np.exp(scores - top[table.example])
        total = np.bincount(table.example, weights=weight)
        share = weight / total[table.example] * examples.weights[table.example]
        expected = features.expected(theta, loss_weight)
        np.testing.assert_allclose(expected.log_partition, top + np.log(total), rtol=ROUNDING, atol=ROUNDING)
        np.testing.assert_allclose(expected.counts, table.counts.T @ share, atol=ROUNDING * table.n_rows)
        assert expected.loss == pytest.approx(share @ table.loss, rel=ROUNDING, abs=ROUNDING)
    worst = np.zeros(len(examples))
    np.maximum.at(worst, table.example, table.loss)
    np.testing.assert_allclose(examples.max_loss, worst, rtol=ROUNDING)


@every_map
def test_counts_sum_the_counts_of_each_example_by_weight_and_share(make: Callable[[int], Counts]) -> None:
    features = make(2)
    labels = random_labels(features.examples, np.random.default_rng(0))
    each = features.counts_each(labels)
    assert each.shape == (len(features.examples), features.tables.dimension)
    share = np.linspace(0.0, 1.0, len(features.examples))
    np.testing.assert_allclose(features.counts(labels), each.T @ np.array(WEIGHTS), rtol=ROUNDING)
    np.testing.assert_allclose(features.counts(labels, share), each.T @ (np.array(WEIGHTS) * share), rtol=ROUNDING)


def unrolled(n_channels: int, n_states: int, n_symbols: int, length: int) -> nx.DiGraph:
    """A chain of states with ``n_channels`` leaves at each."""
    graph = nx.DiGraph()
    for t in range(length):
        graph.add_node(("state", t), states=n_states, table="initial" if t == 0 else "transition")
        if t:
            graph.add_edge(("state", t - 1), ("state", t))
    for t, o in product(range(length), range(n_channels)):
        graph.add_node(("symbol", t, o), states=n_symbols, table=f"emission {o}")
        graph.add_edge(("state", t), ("symbol", t, o))
    return graph


@pytest.mark.parametrize("n_channels", [0, 1, 3])
@pytest.mark.parametrize("loss", ["hamming", "ring"])
def test_an_unrolled_hidden_markov_model_is_the_network_it_says(loss: str, n_channels: int) -> None:
    rng = np.random.default_rng(0)
    states, symbols = rng.integers(4, size=(6, 5)), rng.integers(3, size=(6, 5, n_channels) if n_channels else (6, 5))
    graph = unrolled(n_channels, 4, 3, 5) if n_channels else hmm_graph(4, 3, 5)
    weights = rng.uniform(0.5, 2.0, size=6)
    nodes = [("state", t) for t in range(5)]
    fast = HMMCounts.read(list(symbols), list(states), 4, 3, loss, weights=weights)
    slow = NetworkCounts.read(graph, np.hstack((states, symbols.reshape(6, -1))), nodes, loss, weights)
    assert slow.tables == fast.tables
    for name in ("truth", "example", "cards", "max_loss"):
        np.testing.assert_array_equal(getattr(slow.examples, name), getattr(fast.examples, name))
    labels = random_labels(fast.examples, rng)
    np.testing.assert_array_equal(slow.counts_each(labels).toarray(), fast.counts_each(labels).toarray())
    np.testing.assert_array_equal(slow.loss(labels), fast.loss(labels))
    theta = thetas(fast, 0)[0]
    np.testing.assert_allclose(slow.best(theta)[0], fast.best(theta)[0], rtol=ROUNDING)


def test_a_network_is_read_from_a_mapping_of_columns_whatever_its_nodes_are_called() -> None:
    graph = nx.DiGraph()
    graph.add_nodes_from(["rain", ("sprinkler", 1), 3], states=2)
    graph.add_edges_from([("rain", 3), (("sprinkler", 1), 3)])
    table = np.array([[0, 1, 1], [1, 0, 0], [1, 1, 1], [0, 0, 1]])
    columns = {3: table[:, 2], "rain": table[:, 0].tolist(), ("sprinkler", 1): table[:, 1]}
    asked = [("sprinkler", 1), "rain"]
    from_table, from_columns = (NetworkCounts.read(graph, given, asked) for given in (table, columns))
    np.testing.assert_array_equal(from_columns.assignments, from_table.assignments)
    theta = thetas(from_table, 0)[0]
    np.testing.assert_array_equal(from_columns.best(theta)[0], from_table.best(theta)[0])
    np.testing.assert_array_equal(
        unlabelled(from_table, {**columns, "rain": [-1] * 4}).best(theta, 0.0)[0],
        unlabelled(from_table, np.where([True, False, False], -1, table)).best(theta, 0.0)[0],
    )


@every_map
def test_a_part_is_the_map_of_its_examples(make: Callable[[int], Counts]) -> None:
    features = make(3)
    some, inside = part(features, 1, 4), np.isin(features.examples.example, (1, 2, 3))
    theta = thetas(features, 3)[0]
    for mine, whole in zip(some.best(theta), features.best(theta)):
        np.testing.assert_array_equal(mine, whole[1:4] if len(mine) == 3 else whole[inside])
    for name in ("truth", "free", "cards"):
        np.testing.assert_array_equal(getattr(some.examples, name), getattr(features.examples, name)[inside])
    for name in ("weights", "max_loss"):
        np.testing.assert_array_equal(getattr(some.examples, name), getattr(features.examples, name)[1:4])
    labels = features.best(theta)[1]
    np.testing.assert_array_equal(
        some.counts_each(labels[inside]).toarray(), features.counts_each(labels)[1:4].toarray()
    )
    found, wanted = some.expected(theta).log_partition, features.expected(theta).log_partition[1:4]
    np.testing.assert_allclose(found, wanted, rtol=ROUNDING)


def test_nodes_named_by_tuples_are_one_hidden_set_not_many() -> None:
    graph = hmm_graph(2, 2, 2)
    features = NetworkCounts.read(graph, np.zeros((2, 4), dtype=int), [("state", 1), ("state", 0)])
    assert features.node.tolist() == [0, 1, 0, 1]
    features = NetworkCounts.read(graph, np.zeros((2, 4), dtype=int), [[("state", 1)], [("state", 0), ("state", 1)]])
    assert features.node.tolist() == [1, 0, 1]
    assert features.example.tolist() == [0, 1, 1]
