"""Joint features of labelled graphs against their definition."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.features.graphs.factors import tabular_factors
from convexstruct.features.graphs.pairwise import PairwiseFeatures, read_pairwise
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import ROUNDING
from tests.features.graphs.labelled_graphs import by_definition, labelled, labelled_graphs

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)
SEEDS = st.integers(0, 2**32 - 1)


def some_labels(features: PairwiseFeatures, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    return rng.integers(features.n_labels, size=features.n_nodes)


@given(labelled_graphs(), SEEDS)
@EXAMPLES
def test_the_score_of_every_labelling_is_that_of_the_definition(features: PairwiseFeatures, seed: int) -> None:
    w = np.random.default_rng(seed).normal(size=features.dimension)
    node, edge = features.node_scores(w), features.edge_scores(w)
    for i in range(features.n_examples):
        low, high = features.node_start[i], features.node_start[i + 1]
        for y in labellings([features.n_labels] * int(high - low))[:27]:
            total = node[np.arange(low, high), y].sum()
            for e in np.flatnonzero(features.edge_example == i):
                u, v = features.edges[e] - low
                total += (edge if edge.ndim == 2 else edge[e])[y[u], y[v]]
            assert total == pytest.approx(by_definition(features, w, i, y), rel=ROUNDING, abs=ROUNDING)


@given(labelled_graphs(), SEEDS)
@EXAMPLES
def test_joint_features_score_as_the_definition_says(features: PairwiseFeatures, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w, share = rng.normal(size=features.dimension), rng.uniform(size=features.n_examples)
    y = some_labels(features, rng)
    parts = np.split(y, features.node_start[1:-1])
    wanted = [by_definition(features, w, i, part) for i, part in enumerate(parts)]
    np.testing.assert_allclose(features.joint_each(y) @ w, wanted, rtol=ROUNDING, atol=ROUNDING)
    assert features.joint(y) @ w == pytest.approx(sum(wanted), rel=ROUNDING, abs=ROUNDING)
    assert features.joint(y, share) @ w == pytest.approx(float(share @ wanted), rel=ROUNDING, abs=ROUNDING)


@given(labelled_graphs(), SEEDS)
@EXAMPLES
def test_the_adjoint_is_the_transpose_of_the_scores(features: PairwiseFeatures, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w, size = rng.normal(size=features.dimension), features.n_labels
    node = rng.normal(size=(features.n_nodes, size))
    edge = rng.normal(size=(features.n_edges, size, size))
    scores = features.edge_scores(w)
    wanted = float((node * features.node_scores(w)).sum() + (edge * scores).sum())
    assert features.adjoint(node, edge) @ w == pytest.approx(wanted, rel=ROUNDING, abs=ROUNDING)
    if features.shared:  # summed over the edges first
        summed = features.adjoint(node, edge.sum(axis=0))
        np.testing.assert_allclose(summed, features.adjoint(node, edge), rtol=ROUNDING, atol=ROUNDING)


@given(labelled_graphs(), SEEDS)
@EXAMPLES
def test_some_examples_in_any_order_and_number_keep_their_features(features: PairwiseFeatures, seed: int) -> None:
    rng = np.random.default_rng(seed)
    wanted = rng.integers(features.n_examples, size=int(rng.integers(1, 6)))
    y = some_labels(features, rng)
    parts = np.split(y, features.node_start[1:-1])
    part = features.some(wanted)
    here = np.concatenate([parts[i] for i in wanted])
    np.testing.assert_array_equal(part.lengths, features.lengths[wanted])
    np.testing.assert_array_equal(
        part.truth, np.concatenate([np.split(features.truth, features.node_start[1:-1])[i] for i in wanted])
    )
    rows = features.joint_each(y)[wanted].toarray()
    same = np.zeros((len(wanted), features.dimension))
    same[:, : part.dimension] = part.joint_each(here).toarray()  # with no edge among them w has no edge weights
    np.testing.assert_allclose(same, rows, rtol=ROUNDING, atol=ROUNDING)
    several = features.joint_each(here, wanted.astype(np.intp)).toarray()
    np.testing.assert_allclose(several, rows, rtol=ROUNDING, atol=ROUNDING)


@given(labelled_graphs(("path", "forest", "graph", "chain")))
@EXAMPLES
def test_a_graph_read_is_the_graph_given_back(features: PairwiseFeatures) -> None:
    total = 0
    for i in range(features.n_examples):
        graph = features.graph(i)
        assert list(graph.nodes) == list(range(int(features.lengths[i])))
        total += graph.number_of_edges()
    assert total == features.n_edges
    assert (features.edge_example == features.example[features.edges[:, 1]]).all()


def test_sparse_and_dense_features_are_one_map() -> None:
    x = np.random.default_rng(0).normal(size=(5, 3)) * (np.random.default_rng(1).random((5, 3)) < 0.5)
    labels = [[0, 1], [2, 0, 1]]
    dense = read_pairwise(x, labels)
    y = np.array([1, 1, 0, 2, 2])
    for shown in (sp.csr_array(x), sp.coo_matrix(x), [sp.csr_array(x[:2]), x[2:]]):
        read = read_pairwise(shown, labels)
        assert sp.issparse(read.node_features)
        np.testing.assert_allclose(read.joint_each(y).toarray(), dense.joint_each(y).toarray())
        w = np.arange(dense.dimension, dtype=float)
        np.testing.assert_allclose(read.node_scores(w), dense.node_scores(w))


def test_a_chain_is_the_same_by_name_by_arrays_and_by_graphs() -> None:
    x, labels = np.ones((4, 1)), [[0, 1, 0], [1]]
    for edges in ("chain", [[[0, 1], [1, 2]], []], [nx.path_graph(3), nx.empty_graph(1)]):
        read = read_pairwise(x, labels, edges=edges)
        assert read.is_chain
        np.testing.assert_array_equal(read.edges, [[0, 1], [1, 2]])
    for edges in ([[[1, 2], [0, 1]], []], [[[1, 0], [1, 2]], []], "none"):  # out of order, turned round, missing
        assert not read_pairwise(x, labels, edges=edges).is_chain


def test_sizes_and_signs() -> None:
    rng = np.random.default_rng(0)
    shared = labelled(rng, "chain", most=4)
    assert (shared.n_edge_features, shared.edge_shape) == (1, (1, 3, 3))
    assert not shared.nonnegative.any()
    signed = labelled(rng, "path", n_edge_features=2, associative=True)
    assert signed.edge_shape == (2, 3)
    assert signed.nonnegative.sum() == 6
    assert signed.nonnegative[-6:].all()
    assert (labelled(rng, "none").n_edge_features, labelled(rng, "none").dimension) == (0, 6)
    alone = labelled(rng, "chain", most=1)
    assert (alone.n_edges, alone.dimension) == (0, 6)


GIVEN: dict[str, Any] = {"node_features": [np.ones((2, 2)), np.ones((3, 2))], "labels": [[0, 1], [1, 0, 1]]}
ONE = np.ones((1, 1))
EDGES = [nx.path_graph(2), nx.path_graph(3)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": []}, "labels is empty, wanted a list of one array for each of at least one example"),
        ({"labels": None}, "labels is None, wanted a list"),
        ({"labels": "ab"}, "labels is 'ab', wanted a list"),
        ({"labels": [[0, 1], []]}, r"labels\[1\] is empty, of shape \(0,\), wanted \(nodes,\): at least one of each"),
        ({"labels": [0, 1]}, r"labels\[0\] has shape \(\)"),
        ({"labels": [[0, -1], [1, 0, 1]]}, r"labels\[0\]\[1\] is -1, wanted a whole number of at least 0; HiddenF"),
        ({"labels": [[0, 1], [1, 0.5, 1]]}, r"labels\[1\]\[1\] is 0.5, wanted a whole number of at least 0"),
        ({"labels": [[0, np.nan], [1, 0, 1]]}, r"labels\[0\] contains NaN or infinity, wanted whole numbers of at"),
        ({"labels": [["a", "b"], [1, 0, 1]]}, r"labels\[0\] holds strings, wanted whole numbers of at least 0"),
        ({"labels": [[0, 1], [1, 2, 1]], "n_labels": 2}, r"labels\[1\]\[1\] is 2, wanted a whole number from 0 to 1"),
        ({"n_labels": 0}, "n_labels is 0, wanted a whole number of at least 1"),
        ({"n_labels": 2.0}, "n_labels is 2.0, wanted a whole number"),
        ({"n_labels": True}, "n_labels is True, wanted a whole number"),
        ({"node_features": None}, "node_features is None, wanted a list of arrays"),
        ({"node_features": [np.ones((2, 2))]}, "node_features has 1 entries, wanted 2: a matrix, or a list of one"),
        ({"node_features": [np.ones((2, 2)), np.ones((2, 2))]}, r"node_features\[1\] has shape \(2, 2\), wanted \(3,"),
        ({"node_features": [np.ones((2, 2)), np.ones((3, 1))]}, r"node_features\[1\] has shape \(3, 1\), wanted \(3,"),
        ({"node_features": [np.ones(2), np.ones((3, 1))]}, r"node_features\[0\] has shape \(2,\), wanted \(2,"),
        ({"node_features": np.ones((4, 2))}, r"node_features has shape \(4, 2\), wanted \(5, features\): one row a"),
        ({"node_features": np.ones((5, 0))}, r"node_features is empty, of shape \(5, 0\), wanted \(5, features\): at"),
        ({"node_features": np.full((5, 1), np.nan)}, "node_features contains NaN or infinity"),
        ({"node_features": sp.csr_array(np.full((5, 1), np.inf))}, "node_features contains NaN or infinity"),
        ({"node_features": [[["a"], ["b"]], np.ones((3, 1))]}, r"node_features\[0\] holds strings, wanted real"),
        ({"node_features": [[[1, 2], [3]], np.ones((3, 2))]}, r"node_features\[0\] has rows of unequal lengths"),
        ({"node_features": np.ones((5, 1)) * 1j}, "node_features holds complex numbers, wanted real numbers"),
        ({"edges": "grid"}, "edges is 'grid', wanted one of chain, none or a list of arrays of node pairs or"),
        ({"edges": None}, "edges is None, wanted 'chain', 'none'"),
        ({"edges": nx.path_graph(2)}, "edges is one graph, wanted 'chain', 'none', or a list"),
        ({"edges": EDGES[:1]}, "edges has 1 entries, wanted 2: 'chain', 'none', or a list of one graph for each of"),
        ({"edges": [[[0, 1, 1]], []]}, r"edges\[0\] has shape \(1, 3\), wanted \(edges, 2\)"),
        ({"edges": [[[0, 2]], []]}, r"edges\[0\]\[0, 1\] is 2, wanted a whole number from 0 to 1"),
        ({"edges": [[], [[0, -1]]]}, r"edges\[1\]\[0, 1\] is -1, wanted a whole number from 0 to 2"),
        ({"edges": [[[0, 0.5]], []]}, r"edges\[0\]\[0, 1\] is 0.5, wanted a whole number from 0 to 1"),
        ({"edges": [[["a", "b"]], []]}, r"edges\[0\] holds strings, wanted pairs of nodes from 0 to 1"),
        ({"edges": [[[1, 1]], []]}, r"edges\[0\] joins node 1 with itself"),
        ({"edges": [[[0, 1], [1, 0]], []]}, r"edges\[0\] holds an edge twice"),
        ({"edges": [nx.DiGraph([(0, 1)]), EDGES[1]]}, r"edges\[0\] is a DiGraph, wanted an undirected networkx.Graph"),
        ({"edges": EDGES[::-1]}, r"edges\[0\] has 3 nodes, wanted 2: one for each label"),
        ({"edges": [nx.Graph([(1, 2)]), EDGES[1]]}, r"edges\[0\] has numbers other than 0 to 1 for its nodes, wanted"),
        ({"edge_features": [ONE]}, "edge_features has 1 entries, wanted 2: a list of one array for each of labels"),
        ({"edge_features": [ONE, ONE]}, r"edge_features\[1\] has shape \(1, 1\), wanted \(2, 1\)"),
        ({"edge_features": [ONE, np.ones((2, 2))]}, r"edge_features\[1\] has shape \(2, 2\), wanted \(2, 1\)"),
        ({"edge_features": [np.ones((1, 0)), np.ones((2, 0))]}, "edge_features has no columns"),
        ({"edge_features": [ONE, np.full((2, 1), np.inf)]}, r"edge_features\[1\] contains NaN or infinity"),
        ({"edge_features": [[["a"]], np.ones((2, 1))]}, r"edge_features\[0\] holds strings, wanted real numbers"),
        (
            {"edge_features": [-np.ones((1, 1)), np.ones((2, 1))], "associative": True},
            "edge_features contains -1, wanted values >= 0",
        ),
    ],
)  # fmt: skip
def test_what_is_no_labelled_graph_is_refused_in_one_sentence(change: dict[str, Any], message: str) -> None:
    read_pairwise(**GIVEN)
    with pytest.raises(ValueError, match=message) as refused:
        read_pairwise(**{**GIVEN, **change})
    assert "\n" not in str(refused.value)


NAMED = [["a", "b", "c"], [("left", 0), ("right", 1), ("left", 1)], ["a", ("b", 2), 3]]


@pytest.mark.parametrize("names", NAMED, ids=["strings", "tuples", "mixed"])
def test_nodes_of_any_names_stand_for_the_rows_in_the_graphs_order(names: list[Any]) -> None:
    plain = nx.Graph([(0, 2), (1, 2)])
    plain.add_nodes_from(range(3))
    named = nx.Graph()
    named.add_nodes_from(names)
    named.add_edges_from((names[u], names[v]) for u, v in [(0, 2), (2, 1)])
    tables, labels = [np.arange(6.0).reshape(3, 2)], [[0, 1, 2]]
    expected, found = (read_pairwise(tables, labels, edges=[graph]) for graph in (plain, named))
    assert {tuple(sorted(pair)) for pair in found.edges.tolist()} == {(0, 2), (1, 2)}
    np.testing.assert_array_equal(np.sort(expected.edges, axis=1), np.sort(found.edges, axis=1))
    assert tabular_factors(named, 2).scopes == tabular_factors(plain, 2).scopes
