"""The marginal polytope of factors against all joint labels written out."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from convexstruct.features.graphs.factors import Factors, read_factors, tabular_factors
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.marginals.factor_polytope import FactorPolytope, factor_polytope
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import HIGH, ROUNDING

GRAPHS = {"path": nx.path_graph(4), "cycle": nx.cycle_graph(4), "two parts": nx.Graph([(0, 2), (1, 3)])}


def polytope_of(factors: Factors) -> FactorPolytope:
    return factor_polytope(FactorInference(factors))


@given(st.sampled_from(sorted(GRAPHS)), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_the_tables_of_every_distribution_are_in_it_and_have_its_marginals(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = tabular_factors(GRAPHS[name], rng.integers(1, 4, size=4))
    every, shares = labellings(factors.cards), None
    shares = rng.dirichlet(np.ones(len(every)))
    polytope = polytope_of(factors)
    z = polytope.of_samples(every, shares)
    assert (polytope.totals @ z)[0] == pytest.approx(1.0, abs=ROUNDING)
    np.testing.assert_allclose(polytope.agreement @ z, 0.0, atol=1e-12)
    np.testing.assert_allclose(polytope.tables @ z, factors.counts(every, shares), atol=1e-12)
    np.testing.assert_allclose(polytope.features @ z, factors.joint_each(every).T @ shares, atol=1e-12)


@pytest.mark.parametrize("name", sorted(GRAPHS))
@pytest.mark.parametrize("seed", range(3))
def test_a_linear_function_has_the_same_maximum_over_it_as_over_all_joint_labels(name: str, seed: int) -> None:
    """It is no larger than the marginal polytope either."""
    rng = np.random.default_rng(seed)
    factors = tabular_factors(GRAPHS[name], [2, 3, 2, 3])
    polytope, theta = polytope_of(factors), rng.normal(size=factors.dimension)
    rows = np.vstack([polytope.totals.toarray(), polytope.agreement.toarray()])
    right = np.append(1.0, np.zeros(len(rows) - 1))
    found = linprog(-(polytope.features.T @ theta), A_eq=rows, b_eq=right, bounds=(0, None))
    best = float(factors.scores(theta, labellings(factors.cards)).max())
    assert -found.fun == pytest.approx(best, rel=HIGH.gap)


def test_a_factor_over_no_neighbours_of_a_kind_still_finds_its_clique() -> None:
    factors = read_factors([2, 2, 2], [[2, 0], [1]])
    polytope, every = polytope_of(factors), labellings((2, 2, 2))
    z = polytope.of_samples(every, np.arange(8.0) / 28)
    np.testing.assert_allclose(polytope.tables @ z, factors.counts(every, np.arange(8.0) / 28), atol=1e-12)
