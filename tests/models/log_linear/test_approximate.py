"""Bethe and tree-reweighted entropies: the paper's example, forests, bounds, and formulas with nothing left open."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.special import entr

from convexstruct.families.log_linear.examples import triangle
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.features.graphs.factors import read_factors, tabular_factors
from convexstruct.models.log_linear.approximate import bethe, spanning_trees
from convexstruct.models.log_linear.statement import parameters
from convexstruct.tolerances import HIGH, MID
from tests.families.log_linear.fields import CAMEL, GRAPHS, drawn
from tests.reference import stated


def solved(name: str, problem: MarkovRandomField) -> float:
    return float(stated(f"log_linear.{name}", problem).reference().value)


@pytest.mark.parametrize(
    ("side", "wanted", "edge"),
    [
        ("printed", 1.25101, [[2 / 3, 1 / 6], [1 / 6, 0.0]]),
        ("rows", 1.39596, [[5 / 9, 2 / 9], [2 / 9, 0.0]]),
        ("inside", 1.82923, [[0.5, 0.2], [0.2, 0.1]]),
    ],
)
def test_camel_of_the_triangle(side: str, wanted: float, edge: list[list[float]]) -> None:
    """The features and symmetry leave one belief: its Bethe entropy by hand, three pairs less three nodes."""
    problem = triangle(CAMEL[side])
    formulation = stated("log_linear.camel", problem)
    reference = formulation.reference()
    table = np.array(edge)
    by_hand = 3 * entr(table).sum() - 3 * entr(table.sum(axis=0)).sum()
    assert by_hand == pytest.approx(wanted, abs=5e-6)
    assert reference.value == pytest.approx(by_hand, abs=HIGH.gap)
    beliefs = np.asarray(formulation.variables["beliefs"].value)[6:].reshape(3, 2, 2)
    np.testing.assert_allclose(beliefs, [table] * 3, atol=MID.gap)


def test_the_multipliers_of_the_moments_are_minus_theta() -> None:
    """Inside the polytope; on its border theta_11 is minus infinity, and the multiplier as large as a solver goes."""
    inside = stated("log_linear.camel", triangle(CAMEL["inside"]))
    inside.reference()
    theta = parameters(inside)
    table = np.array(
        [0.5, 0.2, 0.1]
    )  # by hand: derivatives of the Bethe entropy along b00, b11 at 2 b01 = 1 - b00 - b11
    node = np.array([0.7, 0.3])
    # each of three edges has the moments a third; d/db of -b00 ln b00 - 2 b01 ln b01 - b11 ln b11 + sum node ln node
    by_b00 = -np.log(table[0]) + np.log(table[1]) + 0.5 * (np.log(node[0]) - np.log(node[1]))
    by_b11 = -np.log(table[2]) + np.log(table[1]) - 0.5 * (np.log(node[0]) - np.log(node[1]))
    np.testing.assert_allclose(theta, [-by_b00, -by_b11], atol=MID.gap)
    border = stated("log_linear.camel", triangle(CAMEL["printed"]))
    border.reference()
    assert parameters(border)[1] < -10.0


@pytest.mark.parametrize("name", ["camel", "tree_reweighted"])
@pytest.mark.parametrize("graph", ["path", "tree", "two parts"])
@pytest.mark.parametrize("penalty", [{}, {"beta": 0.5}, {"C": 0.3, "l1": 0.2}], ids=["none", "L2", "elastic"])
def test_on_forests_both_are_exact(name: str, graph: str, penalty: dict[str, float]) -> None:
    problem = drawn(graph, 3, 200, **penalty)
    assert solved(name, problem) == pytest.approx(solved("maximum_entropy", problem), rel=HIGH.gap)


@pytest.mark.parametrize(
    ("name", "graph"), [("camel", "cycle"), ("tree_reweighted", "cycle"), ("tree_reweighted", "grid")]
)
def test_only_on_forests_is_the_optimum_certified_for_elsewhere_it_is_another(name: str, graph: str) -> None:
    assert stated(f"log_linear.{name}", drawn("path", 0, beta=0.5)).reference().certified
    assert not stated(f"log_linear.{name}", drawn(graph, 0, beta=0.5)).reference().certified


@pytest.mark.parametrize("graph", ["cycle", "grid"])
@pytest.mark.parametrize("seed", range(3))
def test_the_tree_reweighted_optimum_is_above_the_exact_one(graph: str, seed: int) -> None:
    problem = drawn(graph, seed, 100, beta=0.5)
    assert solved("tree_reweighted", problem) > solved("maximum_entropy", problem)


def test_one_cycle_with_trees_that_hang_from_it_is_oriented_and_more_are_refused() -> None:
    graph = nx.cycle_graph(4)
    graph.add_edges_from([(0, 4), (4, 5), (2, 6)])
    weights = bethe(graph)
    into = np.zeros(len(graph))
    for (_, v), share in weights.given.items():
        into[v] += share
    np.testing.assert_array_equal(into + weights.root, 1.0)
    assert {tuple(sorted(edge)) for edge in weights.given} == {tuple(sorted(edge)) for edge in graph.edges}
    with pytest.raises(ValueError, match=r"2 independent cycles .* not concave; use 'tree_reweighted', or the double"):
        stated("log_linear.camel", drawn("grid"))


@pytest.mark.parametrize("graph", sorted(GRAPHS))
def test_the_weights_of_spanning_trees_are_a_mean_over_trees(graph: str) -> None:
    """Every node is a root or has one parent; an edge's weight is at most 1 and no edge is left out."""
    weights, into = spanning_trees(GRAPHS[graph]), np.zeros(len(GRAPHS[graph]))
    each: dict[tuple[int, ...], float] = {}
    for (u, v), share in weights.given.items():
        into[v] += share
        each[tuple(sorted((u, v)))] = each.get(tuple(sorted((u, v))), 0.0) + share
    np.testing.assert_allclose(into + weights.root, 1.0)
    assert set(each) == {tuple(sorted(edge)) for edge in GRAPHS[graph].edges}
    assert max(each.values()) <= 1.0 + HIGH.gap


def test_a_factor_of_three_variables_is_refused() -> None:
    problem = MarkovRandomField.read(read_factors([2, 2, 2], [[0, 1, 2]]), [[0, 1, 0], [1, 1, 1]])
    with pytest.raises(ValueError, match=r"scopes\[0\] has 3 variables, wanted 1 or 2"):
        stated("log_linear.tree_reweighted", problem)


def test_a_graph_without_edges_has_the_entropy_of_its_nodes() -> None:
    problem = MarkovRandomField.read(tabular_factors(nx.empty_graph(2), 2), [[0, 1], [1, 1], [0, 1], [0, 0]])
    wanted = 4 * (entr([0.75, 0.25]).sum() * 2)
    for name in ("camel", "tree_reweighted", "maximum_entropy"):
        assert solved(name, problem) == pytest.approx(wanted, rel=HIGH.gap)
