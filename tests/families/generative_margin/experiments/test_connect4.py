"""The declared network of the Connect-4 experiment: a tree of squares below the class."""

from __future__ import annotations

import networkx as nx
import numpy as np

from convexstruct.datasets.real.connect4 import NAMES
from convexstruct.families.generative_margin.experiments.connect4 import around_class, mistakes, network, problem, tree


def rows_with_copies(n: int = 400) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Rows of squares drawn at random, except that e1 is a copy of d1 and g6 one of a1."""
    rng = np.random.default_rng(1)
    rows = np.column_stack((rng.integers(0, 3, n), rng.integers(0, 3, (n, 42)))).astype(np.int64)
    for copy, source in (("e1", "d1"), ("g6", "a1")):
        rows[:, 1 + NAMES.index(copy)] = rows[:, 1 + NAMES.index(source)]
    return rows


def test_the_tree_joins_squares_that_depend_on_each_other() -> None:
    parents = tree(rows_with_copies())
    assert (parents == -1).sum() == 1
    assert parents[NAMES.index("d1")] == -1
    assert parents[NAMES.index("e1")] == NAMES.index("d1")
    a1, g6 = NAMES.index("a1"), NAMES.index("g6")
    assert parents[g6] == a1 or parents[a1] == g6


def test_the_network_has_the_class_above_every_square() -> None:
    graph = network(tree(rows_with_copies()))
    assert graph.number_of_edges() == 42 + 41
    assert nx.is_directed_acyclic_graph(graph)
    assert all(next(iter(graph.predecessors(name))) == "class" for name in NAMES)
    assert problem(graph, rows_with_copies(), 0.1).dimension == 3 + 9 + 41 * 27


def test_what_is_around_the_class_predicts_as_the_whole_network_does() -> None:
    graph = nx.DiGraph([("g1", "a1"), ("class", "a1"), ("a1", "b1"), ("c1", "class"), ("b1", "d1"), ("f1", "g1")])
    nx.set_node_attributes(graph, 3, "states")
    some = around_class(graph)
    assert set(some.edges) == {("g1", "a1"), ("class", "a1"), ("c1", "class")}
    rows = rows_with_copies(60)
    whole, part = (problem(each, rows, 0.1) for each in (graph, some))
    assert part.n_examples < whole.n_examples
    assert part.examples.weights.sum() == whole.examples.weights.sum() == 60
    tables = whole.layout.tables(np.log(np.random.default_rng(3).dirichlet(np.ones(3), whole.dimension // 3)).ravel())
    theta = {name: tables[name] for name in part.layout.names if name not in ("g1", "c1")}
    theta |= {name: np.log(np.full(3, 1 / 3)) for name in ("g1", "c1")}  # they have no parent that matters
    of_whole = whole.as_point(tables)["theta"]
    assert mistakes(part, part.as_point(theta)["theta"]) == mistakes(whole, of_whole) > 0
