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
from tests.features.graphs.labelled_graphs import by_definition, labelled_graphs

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
def test_joint_features_and_the_adjoint_score_as_the_definition_says(features: PairwiseFeatures, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w, size = rng.normal(size=features.dimension), features.n_labels
    share, y = rng.uniform(size=features.n_examples), some_labels(features, rng)
    wanted = [by_definition(features, w, i, part) for i, part in enumerate(features.split_labels(y))]
    np.testing.assert_allclose(features.joint_each(y) @ w, wanted, rtol=ROUNDING, atol=ROUNDING)
    assert features.joint(y) @ w == pytest.approx(sum(wanted), rel=ROUNDING, abs=ROUNDING)
    assert features.joint(y, share) @ w == pytest.approx(float(share @ wanted), rel=ROUNDING, abs=ROUNDING)
    node, edge = rng.normal(size=(features.n_nodes, size)), rng.normal(size=(features.n_edges, size, size))
    product = float((node * features.node_scores(w)).sum() + (edge * features.edge_scores(w)).sum())
    for each in (edge, edge.sum(axis=0)) if features.shared else (edge,):  # where shared, also summed over the edges
        assert features.adjoint(node, each) @ w == pytest.approx(product, rel=ROUNDING, abs=ROUNDING)


@given(labelled_graphs(), SEEDS)
@EXAMPLES
def test_some_examples_in_any_order_and_number_keep_their_features(features: PairwiseFeatures, seed: int) -> None:
    rng = np.random.default_rng(seed)
    wanted = rng.integers(features.n_examples, size=int(rng.integers(1, 6)))
    y = some_labels(features, rng)
    parts = features.split_labels(y)
    part = features.some(wanted)
    here = np.concatenate([parts[i] for i in wanted])
    np.testing.assert_array_equal(part.lengths, features.lengths[wanted])
    np.testing.assert_array_equal(
        part.truth, np.concatenate([features.split_labels(features.truth)[i] for i in wanted])
    )
    rows = features.joint_each(y)[wanted].toarray()
    same = np.zeros((len(wanted), features.dimension))
    same[:, : part.dimension] = part.joint_each(here).toarray()  # with no edge among them w has no edge weights
    np.testing.assert_allclose(same, rows, rtol=ROUNDING, atol=ROUNDING)
    several = features.joint_each(here, wanted.astype(np.intp)).toarray()
    np.testing.assert_allclose(several, rows, rtol=ROUNDING, atol=ROUNDING)


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
