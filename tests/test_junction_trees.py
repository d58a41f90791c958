from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from convexstruct.graphs import grid_graph
from convexstruct.junction_trees import JunctionTree, junction_tree


def random_graphs() -> list[nx.Graph]:
    """The first has three triangles on the edge (0, 1), and one more behind one of them: equal separators."""
    first = nx.Graph([(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (0, 4), (1, 4), (2, 4), (2, 5), (4, 5)])
    return [first, *(nx.gnp_random_graph(n, p, seed=n) for n in range(1, 12) for p in (0.0, 0.2, 0.4, 1.0))]


def assert_junction_tree(graph: nx.Graph, tree: JunctionTree) -> None:
    assert sorted(v for part in tree.assigned for v in part) == sorted(graph)
    assert tree.parent[0] == -1
    for u, v in graph.edges:
        assert {u, v} <= set(tree.cliques[tree.clique_of((u, v))])
    for c in range(1, tree.n_cliques):
        assert 0 <= tree.parent[c] < c
        assert set(tree.separators[c]) == set(tree.cliques[c]) & set(tree.cliques[tree.parent[c]])
    # running intersection: the cliques that hold a variable hang together below its home
    for v in graph:
        holders = [c for c in range(tree.n_cliques) if v in tree.cliques[c]]
        assert holders[0] == tree.home[v]
        assert all(v in tree.cliques[tree.parent[c]] for c in holders[1:])


def test_random_graphs_get_trees_with_the_running_intersection_property() -> None:
    for graph in random_graphs():
        assert_junction_tree(graph, junction_tree(graph, [2] * len(graph)))


def test_a_tree_has_width_one_and_a_grid_that_of_its_short_side() -> None:
    assert junction_tree(nx.balanced_tree(2, 3), [2] * 15).width == 1
    assert junction_tree(nx.empty_graph(3), [2] * 3).width == 0
    grid = nx.convert_node_labels_to_integers(grid_graph(3, 6, 2).to_undirected())
    assert 3 <= junction_tree(grid, [2] * 18).width <= 4
    path = junction_tree(nx.path_graph(3), [2, 3, 5])
    assert path.shapes == ((1, 15), (3, 2))
    assert path.n_entries == 21


def test_a_tree_too_wide_is_refused_with_its_width_and_a_scope_in_no_clique_too() -> None:
    graph = nx.complete_graph(5)
    assert junction_tree(graph, [3] * 5, limit=243).n_entries == 243
    with pytest.raises(
        ValueError, match=r"clique of 5 variables \(tree width 4 or more\) and 243 joint labels, wanted at most 242"
    ):
        junction_tree(graph, [3] * 5, limit=242)
    with pytest.raises(ValueError, match="lies in no clique"):
        junction_tree(nx.path_graph(3), [2] * 3).clique_of((0, 2))


def test_the_triangulation_is_that_of_networkx() -> None:
    for graph in random_graphs():
        mixed = nx.Graph()
        mixed.add_nodes_from(np.random.default_rng(len(graph)).permutation(len(graph)).tolist())
        mixed.add_edges_from(graph.edges)
        chordal = nx.complete_to_chordal_graph(mixed)[0]
        wanted = {tuple(sorted(clique, reverse=True)) for clique in nx.chordal_graph_cliques(chordal)}
        found = junction_tree(mixed, [2] * len(graph)).cliques
        assert {tuple(sorted(clique, reverse=True)) for clique in found} == wanted
