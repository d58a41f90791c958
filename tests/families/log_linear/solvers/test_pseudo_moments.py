"""Pseudo-moments against the exact gradient on trees, and against belief propagation elsewhere."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear.approximate_field import ApproximateField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.solvers.pseudo_moments import PseudoMoments
from convexstruct.features.graphs.factors import read_factors, tabular_factors
from convexstruct.oracles.loopy.belief_propagation import propagate
from tests.families.log_linear.fields import random_samples

TREES = {
    "nodes and edges": tabular_factors(nx.star_graph(4), [2, 3, 2, 3, 2]),
    "edges alone": tabular_factors(nx.path_graph(4), 3, nodes=False),
    "a table of three, a node twice": read_factors([2, 3, 2, 2], [[2, 0, 1], [1], [3, 1], [1]]),
    "columns in another order": read_factors([2, 2], [[0, 1]], sp.eye_array(4).tocsr()[[2, 0, 3, 1]]),
}


@pytest.mark.parametrize("name", TREES)
def test_on_a_tree_the_moments_of_the_model_are_those_of_the_data(name: str) -> None:
    factors = TREES[name]
    problem = MarkovRandomField.read(factors, random_samples(factors, 1, 400))
    found = solve(problem)
    _, gradient = problem.value_and_gradient(found.point["theta"])
    assert "closed form" in found.solver
    assert np.abs(gradient).max() < 1e-9 * problem.mass
    assert found.status is Status.OPTIMAL
    assert found.gap < 1e-9


def test_on_a_cycle_the_beliefs_are_the_moments_and_the_likelihood_is_not_at_its_maximum() -> None:
    factors = tabular_factors(nx.cycle_graph(4), 2)
    problem = ApproximateField.read(factors, random_samples(factors, 2, 400))
    theta = solve(problem, PseudoMoments()).point["theta"]
    beliefs = propagate(problem.graph, factors.design @ theta)
    assert beliefs.converged.all()
    np.testing.assert_allclose(beliefs.entries[0], problem.sums / problem.mass, atol=1e-8)
    exact = MarkovRandomField.read(factors, problem.samples)
    assert np.abs(exact.value_and_gradient(theta)[1]).max() > 1e-4
    assert "closed form" not in solve(exact).solver
