from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexstruct.graphs import (
    TableLayout,
    chain_graph,
    chains,
    grid_graph,
    hmm_graph,
    hmm_tables,
    image_graph,
    read_bayesian_network,
    tree_graph,
)
from convexstruct.tolerances import ROUNDING


def test_tables_stand_one_after_the_other_and_every_row_of_the_last_axis_is_a_block() -> None:
    layout = TableLayout(("a", "b", "c"), ((3,), (2, 3, 4), (4, 1)))
    theta = np.random.default_rng(0).normal(size=layout.dimension)
    assert layout.tables(theta)["b"][1, 2, 3] == theta[3 + 23]
    assert np.shares_memory(layout.tables(theta)["b"], theta)
    np.testing.assert_array_equal(layout.block_sizes, [3, *[4] * 6, *[1] * 4])
    np.testing.assert_array_equal(layout.block_of, np.repeat(np.arange(11), layout.block_sizes))
    naive = [theta[layout.block_of == i] for i in range(11)]
    np.testing.assert_allclose(layout.block_sum(theta), [part.sum() for part in naive], rtol=ROUNDING)
    expected = [np.log(np.exp(part).sum()) for part in naive]
    np.testing.assert_allclose(layout.block_logsumexp(theta), expected, rtol=ROUNDING, atol=ROUNDING)
    names = ["a", *(f"b[{i}, {j}]" for i in range(2) for j in range(3)), *(f"c[{i}]" for i in range(4))]
    assert [layout.block_name(i) for i in range(11)] == names


def test_logsumexp_of_a_block_survives_huge_scores_and_missing_ones() -> None:
    layout = TableLayout(("a",), ((3, 2),))
    theta = np.array([1e5, 1e5, -np.inf, -np.inf, -np.inf, -7.0])
    np.testing.assert_allclose(layout.block_logsumexp(theta), [1e5 + np.log(2), -np.inf, -7.0], rtol=ROUNDING)


def test_a_network_is_read_in_the_order_of_the_graph() -> None:
    graph = nx.DiGraph()
    graph.add_node("rain", states=2)
    graph.add_node("wet", states=3)
    graph.add_node("sprinkler", states=4)
    graph.add_edge("sprinkler", "wet")
    graph.add_edge("rain", "wet")
    network = read_bayesian_network(graph)
    assert network.nodes == ("rain", "wet", "sprinkler")
    assert network.cards == (2, 3, 4)
    assert network.parents == ((), (2, 0), ())  # in the order in which the edges were added
    assert network.tables.shapes == ((2,), (4, 2, 3), (4,))
    assert network.position("sprinkler") == 2
    with pytest.raises(ValueError, match="node 'snow' is not in the graph"):
        network.position("snow")


def test_nodes_of_one_table_name_share_one_table() -> None:
    network = read_bayesian_network(hmm_graph(3, 5, 4))
    assert network.tables == hmm_tables(3, 5)
    assert network.table_of == (0, 1, 1, 1, 2, 2, 2, 2)
    assert network.parents == ((), (0,), (1,), (2,), (0,), (1,), (2,), (3,))


def test_chain_tree_and_grid_have_the_parents_they_say() -> None:
    assert read_bayesian_network(chain_graph(3, 2)).parents == ((), (0,), (1,))
    assert read_bayesian_network(chain_graph(1, 2)).parents == ((),)
    assert read_bayesian_network(tree_graph([-1, 0, 0, -1, 3], 2)).parents == ((), (0,), (0,), (), (3,))
    grid = read_bayesian_network(grid_graph(2, 3, 4))
    assert grid.nodes == ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2))
    assert grid.parents == ((), (0,), (1,), (0,), (1, 3), (2, 4))
    assert grid.cards == (4,) * 6
    for parents in ([0], [-1, 1], [-2]):
        with pytest.raises(ValueError, match="wanted an earlier node, or -1 for a root"):
            tree_graph(parents, 2)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_packed_rows_hold_each_position_once_step_by_step(lengths: list[int]) -> None:
    layout = chains(lengths)
    assert layout.n_chains == len(lengths)
    assert layout.n_positions == sum(lengths)
    assert layout.n_steps == max(lengths)
    where = [(k, t) for k, length in enumerate(lengths) for t in range(length)]  # the caller's flat order
    packed = [where[p] for p in layout.packed]
    assert sorted(packed) == where
    assert [where[p][0] for p in layout.packed] == layout.chain.tolist()
    for t in range(layout.n_steps):
        rows = packed[layout.rows(t)]
        assert {step for _, step in rows} == {t}
        running = layout.order[: layout.active[t]].tolist()
        assert [k for k, _ in rows] == running
        assert set(running) == {k for k, length in enumerate(lengths) if length > t}
    np.testing.assert_array_equal(layout.packed[layout.flat], np.arange(layout.n_positions))
    assert len(layout.later) == layout.n_positions - layout.n_chains
    for row, before in zip(layout.later, layout.previous, strict=True):
        assert packed[before] == (packed[row][0], packed[row][1] - 1)
    assert [packed[row] for row in layout.last] == [(k, n - 1) for k, n in enumerate(lengths)]
    parts = layout.split(np.arange(layout.n_positions))
    assert [len(part) for part in parts] == lengths


def test_no_chain_and_an_empty_chain_are_refused() -> None:
    with pytest.raises(ValueError, match="lengths is empty"):
        chains([])
    with pytest.raises(ValueError, match=r"lengths\[1\] is 0, wanted a whole number of at least 1"):
        chains([2, 0])


@pytest.mark.parametrize("neighbours", [4, 8])
def test_an_image_joins_each_pixel_with_its_neighbours(neighbours: int) -> None:
    graph = image_graph(np.arange(12.0).reshape(3, 4), neighbours)
    assert list(graph) == [(i, j) for i in range(3) for j in range(4)]
    assert graph.nodes[1, 2]["x"].tolist() == [6.0]
    near = {
        frozenset((a, b))
        for a in graph for b in graph
        if 0 < max(abs(a[0] - b[0]), abs(a[1] - b[1])) <= 1 and (neighbours == 8 or a[0] == b[0] or a[1] == b[1])
    }  # fmt: skip
    assert {frozenset(edge) for edge in graph.edges} == near
    steps = [(0, 1), (1, 0), (1, 1), (1, -1)][: neighbours // 2]
    for u, v, data in graph.edges(data=True):
        assert steps[int(data["direction"].argmax())] == (v[0] - u[0], v[1] - u[1])
        assert data["direction"].sum() == 1
    assert list(image_graph(np.ones((1, 1, 2))).edges) == []


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(ValueError, match=r"features has shape \(3,\)"):
        image_graph(np.ones(3))
    with pytest.raises(ValueError, match="neighbours is 6, wanted 4 or 8"):
        image_graph(np.ones((2, 2)), 6)
