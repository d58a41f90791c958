from __future__ import annotations

import networkx as nx
import numpy as np
from scipy.stats import chi2

from convexstruct.datasets.generated.networks import random_network, sample_network
from convexstruct.features.counts.network import table_entries
from convexstruct.graphs import read_bayesian_network
from convexstruct.oracles import enumeration
from convexstruct.tolerances import ROUNDING


def test_a_random_network_is_what_was_asked_for() -> None:
    net = random_network(12, 50, states=(2, 4), max_parents=3, seed=5)
    network = read_bayesian_network(net.graph)
    assert set(network.cards) <= {2, 3, 4}
    assert len(set(network.cards)) > 1
    assert max(map(len, network.parents)) == 3
    assert net.assignments.shape == (50, 12)
    assert (net.assignments < np.array(network.cards)).all()
    np.testing.assert_allclose(network.tables.block_logsumexp(net.theta), 0.0, atol=ROUNDING)


def test_samples_have_the_frequencies_of_the_joint_distribution() -> None:
    n = 20_000
    net = random_network(4, n, states=(2, 2), max_parents=2, concentration=3.0, seed=4)
    network = read_bayesian_network(net.graph)
    labels = enumeration.labellings(network.cards)
    expected = n * np.exp(net.theta[table_entries(network, labels)].sum(axis=1))
    assert expected.sum() > n * (1 - ROUNDING)
    observed = np.bincount(net.assignments @ 2 ** np.arange(4), minlength=16)
    assert expected.min() > 5
    assert ((observed - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-4, 15)


def test_parents_listed_after_their_children_are_drawn_first() -> None:
    graph = nx.DiGraph()
    graph.add_node("child", states=2)
    graph.add_node("parent", states=2)
    graph.add_edge("parent", "child")
    with np.errstate(divide="ignore"):
        theta = np.log([0.0, 1.0, 1.0, 0.0, 0.5, 0.5])  # the child is the opposite of its parent
    drawn = sample_network(graph, theta, 100, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn[:, 0], 1 - drawn[:, 1])
    assert 0 < drawn[:, 0].sum() < 100
