"""Clique marginals of labelled graphs: those of distributions over labellings, and mixtures of labellings from them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from numpy.typing import NDArray

from convexstruct.arrays import Vector
from convexstruct.features.graphs.pairwise import PairwiseFeatures, read_pairwise
from convexstruct.marginals.decomposition import greedy_mixture
from convexstruct.marginals.pairwise_enumeration import enumerate_pairwise
from convexstruct.marginals.pairwise_polytope import adjoint_matrix, clique_polytope, is_forest
from convexstruct.tolerances import DUAL_ROUNDING, HIGH, ROUNDING

GRAPHS: dict[str, list[nx.Graph]] = {
    "chains": [nx.path_graph(4), nx.path_graph(1), nx.path_graph(2)],
    "cycles": [nx.cycle_graph(4), nx.complete_graph(4), nx.cycle_graph(4)],
    "parts that nothing joins": [nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(2)), nx.empty_graph(3)],
    "a ladder and a tree": [
        nx.convert_node_labels_to_integers(nx.grid_2d_graph(2, 3)),
        nx.Graph([(0, 2), (2, 1), (2, 3)]),
    ],
}


def read(name: str, n_labels: int = 2, associative: bool = False, edge_features: int = 0) -> PairwiseFeatures:
    rng = np.random.default_rng(0)
    graphs = GRAPHS[name]
    given = [rng.uniform(size=(graph.number_of_edges(), edge_features)) for graph in graphs] if edge_features else None
    return read_pairwise(
        [rng.normal(size=(len(graph), 3)) for graph in graphs],
        [rng.integers(n_labels, size=len(graph)) for graph in graphs], n_labels, graphs, given, associative,
    )  # fmt: skip


def drawn(features: PairwiseFeatures, m: int = 5) -> tuple[NDArray[np.int64], Vector]:
    """Labellings and shares."""
    rng = np.random.default_rng(1)
    labels = rng.integers(features.n_labels, size=(m, features.n_nodes))
    return labels, rng.dirichlet(np.ones(m), size=features.n_examples).T


def summed(features: PairwiseFeatures, labels: NDArray[np.int64], shares: Vector) -> Vector:
    """The clique marginals of a mixture, entry by entry by their definition."""
    of = clique_polytope(features).columns
    fits = np.stack([(row[of.position] == of.label).all(axis=1) for row in labels])
    return np.asarray((fits * shares[:, of.example]).sum(axis=0))


@pytest.mark.parametrize("name", GRAPHS)
def test_the_marginals_of_a_mixture_lie_in_the_polytope_and_give_its_node_and_edge_marginals(name: str) -> None:
    features = read(name)
    polytope = clique_polytope(features)
    labels, shares = drawn(features)
    z = summed(features, labels, shares)
    np.testing.assert_allclose(polytope.totals @ z, 1.0)
    np.testing.assert_allclose(polytope.agreement @ z, 0.0, atol=ROUNDING)
    node = np.zeros((features.n_nodes, 2))
    edge = np.zeros((features.n_edges, 2, 2))
    for row, share in zip(labels, shares):
        node[np.arange(features.n_nodes), row] += share[features.example]
        u, v = row[features.edges[:, 0]], row[features.edges[:, 1]]
        edge[np.arange(features.n_edges), u, v] += share[features.edge_example]
    np.testing.assert_allclose((polytope.node @ z).reshape(node.shape), node, atol=ROUNDING)
    np.testing.assert_allclose((polytope.edge @ z).reshape(edge.shape), edge, atol=ROUNDING)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("seed", range(3))
def test_a_linear_function_is_greatest_at_a_labelling(name: str, seed: int) -> None:
    features = read(name)
    polytope = clique_polytope(features)
    rng = np.random.default_rng(seed)
    node, edge = rng.normal(size=(features.n_nodes, 2)), rng.normal(size=(features.n_edges, 2, 2))
    value = polytope.node.T @ node.ravel() + polytope.edge.T @ edge.ravel()
    equality = sp.vstack([polytope.totals, polytope.agreement])
    right = np.concatenate((np.ones(features.n_examples), np.zeros(polytope.agreement.shape[0])))
    found = scipy.optimize.linprog(-value, A_eq=equality, b_eq=right, bounds=(0, None))
    best, enumerated = np.full(features.n_examples, -np.inf), enumerate_pairwise(features)
    for i, labels in zip(enumerated.example, enumerated.labels):
        row = features.truth.copy()
        row[features.node_start[i] : features.node_start[i + 1]] = labels
        best[i] = max(best[i], features.score(node, edge, row)[i])
    assert -found.fun == pytest.approx(best.sum(), rel=HIGH.gap)


@pytest.mark.parametrize("name", GRAPHS)
def test_marginals_are_taken_apart_into_labellings_that_sum_up_to_them(name: str) -> None:
    features = read(name)
    z = summed(features, *drawn(features))
    labels, shares = greedy_mixture(clique_polytope(features).columns, z, features.truth)
    np.testing.assert_allclose(shares.sum(axis=0), 1.0, atol=1e3 * DUAL_ROUNDING)
    assert (shares >= 0).all()
    np.testing.assert_allclose(summed(features, labels, shares), z, atol=1e3 * DUAL_ROUNDING)


@pytest.mark.parametrize("associative", [False, True])
@pytest.mark.parametrize("edge_features", [0, 2])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_adjoint_as_matrices_is_the_adjoint(name: str, edge_features: int, associative: bool) -> None:
    features = read(name, 3, associative, edge_features)
    rng = np.random.default_rng(2)
    node, edge = rng.uniform(size=(features.n_nodes, 3)), rng.uniform(size=(features.n_edges, 3, 3))
    of_nodes, of_edges = adjoint_matrix(features)
    np.testing.assert_allclose(of_nodes @ node.ravel() + of_edges @ edge.ravel(), features.adjoint(node, edge))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_forest_is_known_as_one(name: str) -> None:
    assert is_forest(read(name)) == all(nx.is_forest(graph) for graph in GRAPHS[name])


def test_a_clique_table_that_is_too_large_is_refused() -> None:
    features = read("cycles", 3)
    with pytest.raises(ValueError, match=r"4 variables .*tree width 3.* 81 joint labels, wanted at most 80"):
        clique_polytope(features, limit=80)
