"""Edges of chains and grids against networkx, and examples taken out of flat arrays."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.datasets.labelled import LabelledGraphs, chain_edges, grid_edges, places
from convexstruct.graphs import starts

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@given(SIZES)
@settings(max_examples=40, deadline=None)
def test_chains_are_the_paths_of_networkx(lengths: list[int]) -> None:
    found = {tuple(edge) for edge in chain_edges(starts(lengths)).tolist()}
    paths: nx.Graph = nx.disjoint_union_all([nx.path_graph(n) for n in lengths])
    assert found == {(min(edge), max(edge)) for edge in paths.edges}


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_grids_are_those_of_networkx_and_know_their_directions(shapes: list[tuple[int, int]]) -> None:
    edges, direction = grid_edges(shapes)
    node_start = starts([h * w for h, w in shapes])
    grid, row, column = places(shapes)
    wanted = {
        (int(node_start[i]) + a * w + b, int(node_start[i]) + c * w + d)
        for i, (h, w) in enumerate(shapes)
        for (a, b), (c, d) in (sorted(edge) for edge in nx.grid_2d_graph(h, w).edges)
    }
    assert {tuple(edge) for edge in edges.tolist()} == wanted
    assert len(edges) == len(wanted)
    u, v = edges.T
    np.testing.assert_array_equal(row[v] - row[u], direction)
    np.testing.assert_array_equal(column[v] - column[u], 1 - direction)
    assert (np.diff(grid[u]) >= 0).all()


def two_grids() -> LabelledGraphs:
    shapes = [(2, 2), (1, 1), (1, 3)]
    edges, direction = grid_edges(shapes)
    return LabelledGraphs(
        np.arange(16.0).reshape(8, 2), edges, starts([4, 1, 3]), np.arange(8) % 3, 3, np.eye(2)[direction]
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_some_examples_are_what_the_lists_say(sparse: bool) -> None:
    graphs = two_grids()
    if sparse:
        graphs = LabelledGraphs(
            sp.csr_array(graphs.node_features), graphs.edges, graphs.node_start, graphs.labels, 3, graphs.edge_features
        )
    assert graphs.edges_each[2].tolist() == [[0, 1], [1, 2]]  # nodes of each example from 0
    wanted = [2, 0, 0, 1]
    some = graphs.some(wanted)
    for i, j in enumerate(wanted):
        np.testing.assert_array_equal(some.edges_each[i], graphs.edges_each[j])
        np.testing.assert_array_equal(some.labels_each[i], graphs.labels_each[j])
    dense = some.node_features.toarray() if sparse else some.node_features
    np.testing.assert_array_equal(dense[:, 0], [10, 12, 14, 0, 2, 4, 6, 0, 2, 4, 6, 8])
    assert some.edge_features is not None
    assert len(some.edge_features) == len(some.edges) == 10
