"""Associative networks: the inference folded in is exact for two labels and on forests, and the local polytope else."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from convexstruct.core.solution import Status
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.models.structured_svm.associative_networks import associative, thresholds
from convexstruct.models.structured_svm.cuts import n_slack_cuts
from convexstruct.models.structured_svm.enumerated import n_slack
from convexstruct.models.structured_svm.max_margin_markov import local_relaxation
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.models.structured_svm.instances import LOOPY, ladder, multiway, svm, tree
from tests.reference import agrees, close, optimum, with_solvers

EXACT = {
    "two labels, cycles": lambda: svm(
        11, graphs=LOOPY, n_labels=2, associative=True, n_edge_features=2, C=0.4
    ),
    "two labels, a ladder, weighted, a cost each": lambda: svm(
        1, graphs=(ladder(4), nx.cycle_graph(5)), n_labels=2, associative=True, weighted=True, loss="random", lam=0.3
    ),
    "two labels, chains": lambda: svm(2, lengths=(1, 4, 6), n_labels=2, associative=True, C=2.0),
    "three labels, a forest": lambda: svm(3, graphs=(tree(0), tree(1, 3)), associative=True, weighted=True),
    "one label": lambda: svm(4, n_labels=1, associative=True),
    "no edges": lambda: svm(5, lengths=(1, 1, 1), associative=True),
}  # fmt: skip


@pytest.mark.parametrize(("name", "solver"), with_solvers(EXACT))
def test_for_two_labels_and_on_forests_it_is_the_structural_svm(name: str, solver: str) -> None:
    problem = EXACT[name]()
    agrees(associative(problem), optimum(n_slack(problem)).value, solver)


@pytest.mark.parametrize("seed", range(3))
def test_for_three_labels_on_cycles_it_is_a_relaxation_that_equals_the_local_polytope(seed: int) -> None:
    problem = svm(seed, graphs=(nx.complete_graph(4), ladder(3)), associative=True, C=0.5, noise=2.0)
    exact = optimum(n_slack(problem)).value
    value = optimum(associative(problem)).value
    assert value >= exact * (1 - HIGH.gap)
    assert close(optimum(local_relaxation(problem)).value, value)


def test_for_three_labels_the_relaxation_can_lie_strictly_above() -> None:
    problem = multiway()
    exact = optimum(n_slack(problem)).value
    value = optimum(associative(problem)).value
    assert value > exact * (1 + LOW.gap)
    assert close(optimum(local_relaxation(problem)).value, value)
    solution = associative(problem).solve()
    assert solution.status is Status.OPTIMAL, solution.message
    assert close(solution.lower_bound, value)


@pytest.mark.parametrize("label", ["node", "edge"])
def test_without_an_equation_the_optimum_is_another(label: str) -> None:
    problem = EXACT["two labels, cycles"]()
    said = associative(problem).without(label).reference()
    assert said.status in {"optimal", "unbounded"}
    assert not close(said.value, optimum(n_slack(problem)).value, LOW.gap)


def test_thresholds_mix_to_the_marginals_and_agree_as_often_as_they_can() -> None:
    problem = svm(0, graphs=LOOPY, n_labels=2, associative=True)
    features = problem.features
    p = np.random.default_rng(0).uniform(size=features.n_nodes)
    p[:3] = (0.0, 1.0, 0.5)
    mixed = thresholds(features, p)
    labels, shares = np.asarray(mixed["labels"]), np.asarray(mixed["label_shares"])
    np.testing.assert_allclose(shares.sum(axis=0), 1.0)
    np.testing.assert_allclose((labels * shares[:, features.example]).sum(axis=0), p, atol=ROUNDING)
    u, v = features.edges.T
    both = ((labels[:, u] & labels[:, v]) * shares[:, features.edge_example]).sum(axis=0)
    np.testing.assert_allclose(both, np.minimum(p[u], p[v]), atol=ROUNDING)


def test_an_image_of_two_labels_too_wide_for_a_junction_tree_is_stated() -> None:
    problem = grid(12)
    formulation = associative(problem)
    assert formulation.sizes.variables == 144 * 1 + 2 * 2 * (2 * 12 * 11) + problem.dimension
    solution = formulation.solve()
    assert solution.status is Status.OPTIMAL, solution.message
    assert not problem.oracle.relaxed
    assert close(solution.primal, optimum(local_relaxation(problem)).value)
    assert close(solution.primal, n_slack_cuts(problem).run().primal)


def grid(n: int) -> StructuredSVM:
    """A noisy image of two labels; its junction tree would need cliques of n + 1 nodes."""
    rng = np.random.default_rng(0)
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(n, n))
    y = (np.add.outer(np.arange(n), np.arange(n)) > n).astype(int).ravel()
    x = np.column_stack((y + rng.normal(size=n * n), np.ones(n * n)))
    return StructuredSVM.read([x], [y], 2, edges=[graph], associative=True, inference="minimum_cut", C=0.1)
